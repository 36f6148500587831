"""The inventory as Ansible reads it: which GPU nodes there are, and what they should be."""

from __future__ import annotations

import difflib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusmith import rules
from gpusmith.errors import InputError, ToolError
from gpusmith.paths import repo_root

GPU_GROUP = "gpu_nodes"
READ_TIMEOUT_S = 120
DEFAULT_TAINTS = ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},)
"""Same as kubernetes_node_taints in the role's defaults."""
DEFAULT_MODULES = ("overlay", "br_netfilter")
DEFAULT_SYSCTL = {
    "net.ipv4.ip_forward": "1",
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
}
"""Same as host_baseline_modules and host_baseline_sysctl in the role's defaults."""


@dataclass(frozen=True)
class Images:
    """Container images of the workloads; empty where the inventory names none."""

    cuda: str
    pytorch: str
    tensorflow: str


@dataclass(frozen=True)
class Host:
    """A GPU node and what its inventory says of it.

    Attributes:
        name: inventory name.
        node_name: name that its Node object should have ('kubernetes_node_name').
        variables: everything that Ansible knows of it, for the connection.
        simulated: 'gpusmith_simulated', the first of the two witnesses of a simulation.
        gpu_model: key of data/gpus.yml.
        gpu_count: GPUs that the machine should have.
        driver_version: exact version that should be installed and loaded.
        module_flavour: kind of its kernel module ('nvidia_driver_module_flavour').
        fabric_manager: whether the fabric manager is needed ('nvidia_driver_fabric_manager').
        cdi_spec: CDI specification that the toolkit's role makes ('nvidia_container_toolkit_cdi_spec').
        package_versions: exact versions of runtime, toolkit and Kubernetes by package, as far as the inventory gives them.
        kubeconfig: path on this machine; empty if none is named. 'validation_kubeconfig' goes before 'gpusmith_kubeconfig'.
        taints: taints that the Node object should carry.
        labels: labels that the Node object should carry on top of ours.
        images: what workloads run in.
        runtime_class: RuntimeClass of the GPU runtime; workloads use it only if 'validation_runtime_class' says so.
        pod_runtime_class: 'validation_runtime_class', empty by default.
        operands_namespace: where the device plugin runs.
        operands: values of 'app.kubernetes.io/name' of the operands that are ours and run on every GPU node.
        pod_timeout_s: seconds that one workload may take, image pull included.
        accepted_xids: Xid codes that do not fail a node ('validation_accepted_xids').
        default_runtime_nvidia: whether every pod should run with the NVIDIA runtime ('nvidia_container_toolkit_default_runtime').
        ecc_required: whether a GPU whose ECC is switched off fails ('validation_ecc_required').
        network: whether a pod of a new namespace should reach Services by name ('validation_network').
        swap_off: whether swap should be off ('host_baseline_swap').
        kernel_modules: kernel modules that should be loaded.
        sysctl: kernel parameters and their values.
    """

    name: str
    node_name: str
    variables: Mapping[str, Any] = field(repr=False)
    simulated: bool
    gpu_model: str
    gpu_count: int
    driver_version: str
    module_flavour: str
    fabric_manager: str
    cdi_spec: str
    package_versions: Mapping[str, str]
    kubeconfig: str
    taints: tuple[Mapping[str, str], ...]
    labels: Mapping[str, str]
    images: Images
    runtime_class: str
    pod_runtime_class: str
    operands_namespace: str
    operands: tuple[str, ...]
    pod_timeout_s: float
    accepted_xids: frozenset[int]
    default_runtime_nvidia: bool
    ecc_required: bool
    network: bool
    swap_off: bool
    kernel_modules: tuple[str, ...]
    sysctl: Mapping[str, str]


@dataclass(frozen=True)
class Inventory:
    """The GPU nodes that a run is about.

    Attributes:
        source: the inventory as the user named it, or what ansible.cfg names.
        limit: the pattern, empty if none.
        hosts: GPU nodes by name, never empty.
        connection: the whole output of ansible-inventory, which the ssh adapter reads.
    """

    source: str
    limit: str
    hosts: Mapping[str, Host]
    connection: Mapping[str, Any] = field(repr=False)

    @property
    def simulated(self) -> bool:
        """Whether any node is said to be simulated."""
        return any(host.simulated for host in self.hosts.values())

    @property
    def kubeconfig(self) -> str:
        """The one kubeconfig of all nodes.

        Raises:
            InputError: none, or several.
        """
        without = [name for name, host in self.hosts.items() if not host.kubeconfig]
        if without:
            raise InputError(
                f"Host '{without[0]}' has no 'gpusmith_kubeconfig'.",
                "Set it in group_vars/all.yml to a file on this machine.",
            )
        named = sorted({host.kubeconfig for host in self.hosts.values()})
        if len(named) != 1:
            raise InputError(
                f"The GPU nodes name several kubeconfigs: {', '.join(repr(path) for path in named)}.",
                "Validate the nodes of one cluster at a time with --limit.",
            )
        return named[0]


def ansible_environment(working_folder: Path) -> dict[str, str]:
    """Environment for Ansible's programs: its own rules for ansible.cfg, then the checkout's file."""
    environment = dict(os.environ)
    # Verbosity would mix words into the JSON.
    environment["ANSIBLE_VERBOSITY"] = "0"
    if not environment.get("ANSIBLE_CONFIG") and not (working_folder / "ansible.cfg").is_file():
        environment["ANSIBLE_CONFIG"] = str(repo_root() / "ansible.cfg")
    return environment


def _program(name: str) -> str:
    beside = Path(sys.executable).parent / name
    if not beside.is_file():
        raise ToolError(f"Program '{beside}' is missing.", "Run 'make setup'.")
    return str(beside)


def _run(
    words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=READ_TIMEOUT_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"'{Path(words[0]).name}' did not end within {READ_TIMEOUT_S} s.",
            "Look at the inventory's own scripts.",
        ) from error


def read(source: str | None, limit: str | None, working_folder: Path | None = None) -> Inventory:
    """Read an inventory.

    Args:
        source: file, folder or host list with a comma; None for the one of ansible.cfg.
        limit: Ansible pattern; None for all GPU nodes.
        working_folder: relative paths start here.

    Raises:
        InputError: it cannot be used, with the reason.
        ToolError: Ansible's programs are not there.
    """
    folder = working_folder or Path.cwd()
    environment = ansible_environment(folder)
    if source is not None:
        if not source:
            raise InputError("The inventory's path is empty.", "Give --inventory a file or a folder.")
        if "," not in source:
            path = (folder / Path(source).expanduser()).resolve()
            if not path.exists():
                raise InputError(
                    f"Inventory '{source}' does not exist.", "Give --inventory an existing file or folder."
                )
            source = str(path)
    words = [_program("ansible-inventory"), "--list"]
    words += ["--inventory", source] if source is not None else []
    words += ["--limit", limit] if limit else []
    done = _run(words, folder, environment)
    named = source or _default_source(environment)
    if done.returncode != 0:
        said = _last_lines(done.stderr)
        if (limit and "does not match any hosts" in done.stderr) or (
            "Specified inventory" in done.stderr and limit
        ):
            raise InputError(
                f"Pattern '{limit}' matches no host of inventory '{named}'.",
                "Give --limit a host or group of it.",
            )
        if source is None:
            raise InputError(
                f"No usable inventory: {said}",
                "Start the lab with 'gpulab up', or name yours with --inventory.",
            )
        raise InputError(
            f"Inventory '{named}' cannot be read: {said}",
            f"Try: ansible-inventory --inventory {named} --list",
        )
    try:
        tree: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise ToolError(
            "'ansible-inventory --list' printed no JSON.",
            f"Try: ansible-inventory --inventory {named} --list",
        ) from error
    variables = _variables(tree, words, folder, environment)
    return build(tree, variables, named, limit or "")


def _default_source(environment: Mapping[str, str]) -> str:
    return environment.get("ANSIBLE_INVENTORY") or f"of {environment.get('ANSIBLE_CONFIG', 'ansible.cfg')}"


def _last_lines(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and "DEPRECATION" not in line]
    return " ".join(lines[-3:])[:600] or "no reason given"


def members(tree: Mapping[str, Any], group: str) -> list[str]:
    """Hosts of a group and of its children, in order, each once."""
    row = tree.get(group) or {}
    found = dict.fromkeys(str(host) for host in row.get("hosts") or [])
    for child in row.get("children") or []:
        found.update(dict.fromkeys(members(tree, str(child))))
    return list(found)


OPERANDS = {
    "nvidia-device-plugin": "gpu_operands_device_plugin",
    "gpu-feature-discovery": "gpu_operands_feature_discovery",
    "nfd-worker": "gpu_operands_node_feature_discovery",
}
"""DaemonSets of the role gpu_operands, by the name that their pods carry, and the variable that says whose they are."""
OWNERS = ("managed", "existing")
"""What those variables may say; the first is the role's default."""

FLAVOURS = ("auto", "open", "proprietary")
FABRIC_MANAGERS = ("auto", "enabled", "disabled")
"""What variables of role nvidia_driver may say; the first is its default."""

PACKAGES = {
    "containerd_version": ("containerd.io",),
    "nvidia_container_toolkit_version": ("nvidia-container-toolkit", "nvidia-container-toolkit-base"),
    "kubernetes_node_version": ("kubelet", "kubeadm", "kubectl"),
}
"""Packages that roles keep at an exact version, by the variable that gives it."""

NEEDED = (
    "gpusmith_simulated", "gpusmith_gpu_model", "gpusmith_gpu_count", "nvidia_driver_version",
    "nvidia_driver_module_flavour", "nvidia_driver_fabric_manager", "nvidia_container_toolkit_cdi_spec",
    *PACKAGES,
    "validation_image_cuda", "validation_image_pytorch", "validation_image_tensorflow", "validation_runtime_class",
    "validation_timeout_pod_s", "validation_accepted_xids", "validation_ecc_required", "validation_network",
    "nvidia_container_toolkit_default_runtime", "kubernetes_node_name", "host_baseline_modules",
    "gpu_operands_namespace", "gpu_operands_runtime_class", *OPERANDS.values(), *rules.RULES,
)  # fmt: skip


def _variables(
    tree: dict[str, Any], words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Variables per host; templates among the needed ones are filled in by Ansible, which only then costs a second call."""
    listed: dict[str, dict[str, Any]] = (tree.get("_meta") or {}).get("hostvars") or {}
    nodes = members(tree, GPU_GROUP)
    if not any(_is_unfilled(listed.get(node, {}).get(name)) for node in nodes for name in NEEDED):
        return listed
    for node in nodes:
        # A connection that cannot be made would fail the call below, without the reason.
        plain = {name: value for name, value in listed.get(node, {}).items() if not _is_unfilled(value)}
        for wrong in rules.find(plain):
            raise _refused(node, wrong)
    wanted = ", ".join(f"'{name}': {name} | default(none)" for name in NEEDED)
    command = [
        _program("ansible"),
        GPU_GROUP,
        *words[2:],
        "-m",
        "ansible.builtin.debug",
        "-a",
        f"msg={{{{ {{{wanted}}} }}}}",
    ]
    before = {node: dict(listed.get(node, {})) for node in nodes}
    output = {
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
    }
    done = _run(command, folder, {**environment, **output})
    try:
        # Other callbacks of the user's ansible.cfg may print after it.
        answer, _end = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])
        hosts = answer["plays"][0]["tasks"][0]["hosts"]
        for node in nodes:
            filled = {name: value for name, value in hosts[node]["msg"].items() if value is not None}
            left = {name: value for name, value in listed.get(node, {}).items() if not _is_unfilled(value)}
            listed[node] = {**left, **filled}
            empty = [name for name in NEEDED if name in before[node] and name not in listed[node]]
            if empty:
                raise InputError(
                    f"Host '{node}': the template of '{empty[0]}' cannot be filled in: {before[node][empty[0]]!r}.",
                    f"Try: ansible {node} -m ansible.builtin.debug -a var={empty[0]}",
                )
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise InputError(
            f"Templates among the inventory's variables cannot be filled in: {_last_lines(done.stdout + done.stderr)}",
            "Look at the named variable in the inventory.",
        ) from error
    return listed


def _is_unfilled(value: object) -> bool:
    """A template, or encrypted: what it will be, only Ansible knows."""
    text = json.dumps(value)
    return "{{" in text or "{%" in text or '"__ansible_vault"' in text


def build(
    tree: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]], source: str, limit: str
) -> Inventory:
    """The inventory from what ansible-inventory printed.

    Raises:
        InputError: no GPU nodes, or one whose variables cannot be used.
    """
    names = members(tree, GPU_GROUP)
    if not names:
        if limit:
            raise InputError(
                f"Pattern '{limit}' matches no host of group '{GPU_GROUP}' in inventory '{source}'.",
                "Give --limit a GPU node or a group that has some.",
            )
        raise InputError(
            f"Inventory '{source}' has no host in group '{GPU_GROUP}'.",
            f"Put the GPU nodes into group '{GPU_GROUP}'.",
        )
    return Inventory(source, limit, {name: _host(name, variables.get(name, {})) for name in names}, tree)


def _wrong(host: str, name: str, wants: str, value: Any) -> InputError:
    return _refused(host, rules.Wrong(name, wants, repr(value)))


def _refused(host: str, wrong: rules.Wrong) -> InputError:
    return InputError(f"Host '{host}': {wrong.message}", rules.HINT)


class _Reader:
    """Typed access to one host's variables, which keep the rules."""

    def __init__(self, host: str, values: Mapping[str, Any]) -> None:
        self.host = host
        self.values = values

    def missing(self, name: str) -> InputError:
        near = difflib.get_close_matches(name, [key for key in self.values if key != name], n=1, cutoff=0.85)
        hint = (
            f"There is '{near[0]}': is that a misspelling?" if near else "Set it in group_vars/gpu_nodes.yml."
        )
        return InputError(f"Host '{self.host}' has no '{name}'.", hint)

    def text(self, name: str, default: str | None = None, wants: str = "a string") -> str:
        value = self.values.get(name, default)
        if value is None:
            raise self.missing(name)
        if not isinstance(value, str):
            raise _wrong(self.host, name, wants, value)
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """One of some words; the first if nothing is said."""
        value = self.values.get(name, allowed[0])
        if value not in allowed:
            raise _wrong(self.host, name, f"one of {', '.join(repr(word) for word in allowed)}", value)
        return str(value)

    def flag(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        # In words, too, as playbooks take it: what they go by, the suite must not refuse after them.
        if isinstance(value, str) and value.lower() in rules.TRUE_WORDS | rules.FALSE_WORDS:
            return value.lower() in rules.TRUE_WORDS
        if not isinstance(value, bool):
            raise _wrong(self.host, name, "true or false", value)
        return value

    def whole(self, name: str) -> int:
        value = _number(self.values.get(name))
        if value is None:
            raise self.missing(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise _wrong(self.host, name, "a whole number from 1", value)
        return value

    def seconds(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise _wrong(self.host, name, "a number of seconds", value)
        return float(value)

    def rows(self, name: str, default: Sequence[Mapping[str, str]]) -> tuple[Mapping[str, str], ...]:
        return tuple(dict(row) for row in self.values.get(name, default))

    def mapping(self, name: str, default: Mapping[str, str] | None = None) -> Mapping[str, str]:
        value: Mapping[str, Any] = self.values.get(name, default or {})
        return {key: str(text) for key, text in value.items()}

    def names(self, name: str, default: Sequence[str]) -> tuple[str, ...]:
        value = self.values.get(name, default)
        if not isinstance(value, (list, tuple)) or not all(isinstance(entry, str) for entry in value):
            raise _wrong(self.host, name, "a list of names", value)
        return tuple(value)

    def codes(self, name: str) -> frozenset[int]:
        value = self.values.get(name, [])
        codes: list[Any] = list(map(_number, value)) if isinstance(value, list) else [None]
        if not all(isinstance(code, int) and not isinstance(code, bool) for code in codes):
            raise _wrong(self.host, name, "a list of numbers", value)
        return frozenset(codes)


def _number(value: Any) -> Any:
    """A whole number in quotes or with '.0' as the number that playbooks make of it; all else as it is."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return int(value) if isinstance(value, str) and re.fullmatch("[0-9]+", value) else value


def _host(name: str, values: Mapping[str, Any]) -> Host:
    for wrong in rules.find(values):
        raise _refused(name, wrong)
    reader = _Reader(name, values)
    cuda = reader.text("validation_image_cuda", "")
    return Host(
        name=name,
        node_name=reader.text("kubernetes_node_name", name).lower(),
        variables=dict(values),
        simulated=reader.flag("gpusmith_simulated", False),
        gpu_model=reader.text("gpusmith_gpu_model"),
        gpu_count=reader.whole("gpusmith_gpu_count"),
        driver_version=reader.text(
            "nvidia_driver_version", wants="a quoted string (unquoted 550.120 reads as 550.12)"
        ),
        module_flavour=reader.choice("nvidia_driver_module_flavour", FLAVOURS),
        fabric_manager=reader.choice("nvidia_driver_fabric_manager", FABRIC_MANAGERS),
        cdi_spec=reader.text("nvidia_container_toolkit_cdi_spec", "/var/run/cdi/nvidia.yaml"),
        package_versions={
            package: version
            for variable, names in PACKAGES.items()
            if (version := reader.text(variable, ""))
            for package in names
        },
        kubeconfig=reader.text("validation_kubeconfig", "") or reader.text("gpusmith_kubeconfig", ""),
        taints=reader.rows("kubernetes_node_taints", DEFAULT_TAINTS),
        labels=reader.mapping("kubernetes_node_labels"),
        images=Images(
            cuda, reader.text("validation_image_pytorch", ""), reader.text("validation_image_tensorflow", "")
        ),
        runtime_class=reader.text("gpu_operands_runtime_class", "nvidia"),
        pod_runtime_class=reader.text("validation_runtime_class", ""),
        operands_namespace=reader.text("gpu_operands_namespace", "gpusmith-system"),
        operands=tuple(name for name, owner in OPERANDS.items() if reader.choice(owner, OWNERS) == OWNERS[0]),
        pod_timeout_s=reader.seconds("validation_timeout_pod_s", 300.0),
        accepted_xids=reader.codes("validation_accepted_xids"),
        default_runtime_nvidia=reader.flag("nvidia_container_toolkit_default_runtime", False),
        ecc_required=reader.flag("validation_ecc_required", True),
        network=reader.flag("validation_network", True),
        swap_off=values.get("host_baseline_swap") != "keep",
        kernel_modules=reader.names("host_baseline_modules", DEFAULT_MODULES),
        sysctl=reader.mapping("host_baseline_sysctl", DEFAULT_SYSCTL),
    )
