"""Writes inventory/lab: what a user would write by hand for machines of their own, here about the lab's."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpulab import depot
from gpulab.hosts import KUBELET_REASONS, Host
from gpulab.machines import Machine, client_key, known_hosts, ssh_options
from gpulab.network import Plan
from gpulab.state import Places, Shape, write_atomically
from gpulab.systems import DEFAULT, SIGNED, System, in_use, system
from gpusmith.errors import ToolError

REPOSITORIES = {
    "nvidia_driver": "cuda",
    "cuda_toolkit": "cuda",
    "containerd": "containerd",
    "nvidia_container_toolkit": "nvidia-container-toolkit",
    "kubernetes_node": "kubernetes",
}
"""Role -> name of its repository on the depot."""

GROUP_OF_ROLE = {"control-plane": "kube_control_plane", "gpu": "gpu_nodes", "cpu": "cpu_nodes"}
PARTS = ("dcgm_exporter", "kube_state_metrics", "prometheus", "alertmanager", "dashboards")
MONITORING = {
    **{f"gpu_monitoring_{part}": "managed" for part in PARTS},
    "gpu_monitoring_cluster_name": "lab",
    "gpu_monitoring_interval_s": 10,
}
REASONS = {
    "gpu_monitoring_interval_s": "Nobody waits 30 s for a value here.",
    "gpu_pipeline_cpu_tolerations": "Without '--cpu-nodes' the control plane is the one machine for pods that need no GPU.",
    "host_baseline_swap": "The swap that a machine sees is its host's; turning it off would reach beyond the lab.",
    "host_baseline_time_synchronised": "The clock is the host's as well.",
    "preflight_free_space_mib": "The disk is the host's; simulated drivers and lab images are small.",
    "containerd_restrict_oom_score_adj": "Without CAP_SYS_RESOURCE nothing may lower an OOM score.",
}
DEADLINES = {
    "gpusmith_reboot_timeout_s": 120,
    "nvidia_driver_ready_timeout_s": 120,
    "kubernetes_node_ready_timeout_s": 180,
    "gpu_operands_ready_timeout_s": 180,
}
"""Seconds. The roles' own defaults are those of large servers."""
DEADLINES_REASON = "Nothing takes minutes here ('gpulab delay' aside), so failures need not either."

LONGEST_SOCKET_FOLDER = 80
"""A Unix socket's path has 108 bytes; ssh adds a name of its own."""

DRIVER_VERSION = "580.178.04"
CUDA_VERSION = "12.8"


@dataclass(frozen=True)
class Contents:
    """What the inventory depends on.

    Attributes:
        shape: the lab.
        plan: its addresses.
        host: the host below it.
        apt_key: armored public key of the lab's repositories.
        versions: version of each component, by the names that `gpulab.artifacts` gives them.
    """

    shape: Shape
    plan: Plan
    host: Host
    apt_key: str
    versions: Mapping[str, str]

    def version(self, name: str) -> str:
        """Version of a component.

        Raises:
            ToolError: the artifacts do not know it.
        """
        if name not in self.versions:
            known = ", ".join(f"'{key}'" for key in sorted(self.versions))
            raise ToolError(f"The lab's artifacts name no version of '{name}'.", f"They name {known}.")
        return self.versions[name]

    def image(self, upstream: str) -> str:
        """An image of the lab's registry, which keeps upstream's path."""
        return f"{self.plan.registry}/{upstream}"


def hosts(shape: Shape, machines: Iterable[Machine]) -> dict[str, Any]:
    """Content of hosts.yml, with the number of GPUs of those that have another one than the group says."""
    groups: dict[str, Any] = {group: {"hosts": {}} for group in GROUP_OF_ROLE.values()}
    for machine in machines:
        values: dict[str, Any] = {"ansible_host": machine.address}
        if machine.gpus not in (0, shape.gpus[0]):
            values["gpusmith_gpu_count"] = machine.gpus
        groups[GROUP_OF_ROLE[machine.role]]["hosts"][machine.name] = values
        if system(machine.system).own_repositories:
            groups.setdefault(group_of(system(machine.system)), {"hosts": {}})["hosts"][machine.name] = {}
    return {"all": {"children": groups}}


def group_of(its: System) -> str:
    """The group of the machines with an operating system; it sorts, and so counts, after the groups of roles."""
    return f"os_{its.variable}"


def repository(contents: Contents, name: str, its: System | None = None) -> dict[str, Any]:
    """A repository of the depot, in the shape that every role takes."""
    its = its or system(DEFAULT)
    uris = [depot.address(contents.plan, its, name, contents.shape.releases)]
    if its.manager == "dnf":
        return {"type": "rpm", "uris": uris, "signed": SIGNED[name], "key": contents.apt_key}
    return {"uris": uris, "suites": ["./"], "components": [], "key": contents.apt_key}


def system_vars(contents: Contents, its: System) -> dict[str, Any]:
    """Content of group_vars/os_NAME.yml: where the packages of its machines are."""
    return {f"{role}_repository": repository(contents, name, its) for role, name in REPOSITORIES.items()}


def all_vars(contents: Contents, places: Places) -> dict[str, Any]:
    """Content of group_vars/all.yml: how to reach the machines, and what all of them share."""
    options = [
        *ssh_options(places.inventory / "known_hosts"),
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
    ]
    values: dict[str, Any] = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_private_key_file": str(places.inventory / "id_ed25519"),
        "ansible_ssh_common_args": " ".join(f"-o {option}" for option in options),
        "gpusmith_kubeconfig": str(places.inventory / "kubeconfig"),
        "gpusmith_image_registry": contents.plan.registry,
        "gpusmith_offline": True,
        "host_baseline_swap": "keep",
        "host_baseline_time_synchronised": "ignore",
        "preflight_free_space_mib": {"/usr": 1024, "/var": 4096},
        "containerd_version": contents.version("containerd"),
        "containerd_registries": [
            {"host": contents.plan.registry, "endpoint": f"http://{contents.plan.registry}"}
        ],
        "containerd_sandbox_image": contents.image(f"registry.k8s.io/pause:{contents.version('pause')}"),
        "containerd_restrict_oom_score_adj": True,
        "kubernetes_node_version": contents.version("kubernetes"),
        "kubernetes_node_control_plane_endpoint": f"{contents.plan.control_plane}:6443",
        "kubernetes_node_token_host": "cp-1",
        "kubernetes_node_ignored_preflight_errors": contents.host.ignored_preflight_errors(),
        "kubernetes_node_kubelet_config": contents.host.kubelet_config(),
        **MONITORING,
        **pipeline(contents),
    }
    sockets = socket_folder(places)
    if sockets is not None:
        values["ansible_control_path_dir"] = str(sockets)
    for role, name in REPOSITORIES.items():
        values[f"{role}_repository"] = repository(contents, name)
    return values


def pipeline(contents: Contents) -> dict[str, Any]:
    """What role gpu_pipeline needs to know of this cluster."""
    taint = {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists", "effect": "NoSchedule"}
    return {
        "gpu_pipeline_image": f"gpusmith/pytorch:{contents.version('workload')}",
        "gpu_pipeline_storage_class": "shared",
        "gpu_pipeline_train_s": 25,
        **({} if contents.shape.cpu_nodes else {"gpu_pipeline_cpu_tolerations": [taint]}),
    }


def gpu_vars(contents: Contents) -> dict[str, Any]:
    """Content of group_vars/gpu_nodes.yml: the hardware, and what site.yml makes of it."""
    return {
        "gpusmith_simulated": True,
        # A model that is no row is not declared.
        **({} if "@" in contents.shape.model else {"gpusmith_gpu_model": contents.shape.model}),
        "gpusmith_gpu_count": contents.shape.gpus[0],
        "nvidia_driver_version": DRIVER_VERSION,
        "nvidia_driver_package_layout": "nvidia",
        "cuda_toolkit_versions": [CUDA_VERSION],
        "cuda_toolkit_default": CUDA_VERSION,
        "nvidia_container_toolkit_version": contents.version("nvidia-container-toolkit"),
        **DEADLINES,
        "validation_images": {
            workload: contents.image(f"gpusmith/{image}:{contents.version('workload')}")
            for workload, image in (("cuda", "pytorch"), ("pytorch", "pytorch"), ("tensorflow", "tensorflow"))
        },
    }


def control_plane_vars(contents: Contents) -> dict[str, Any]:
    """Content of group_vars/kube_control_plane.yml: what only the lab's own cluster playbook reads."""
    return {
        "gpulab_pod_network_image": contents.image(f"gpulab/pod-network:{contents.version('pod-network')}")
    }


def socket_folder(places: Places) -> Path | None:
    """Where ssh keeps shared connections of the lab, so that `down` can end them; None if the path is too long."""
    folder = places.root / "ssh"
    return folder if len(str(folder)) <= LONGEST_SOCKET_FOLDER else None


def write(contents: Contents, machines: list[Machine], places: Places) -> None:
    """Write the inventory; files that others may already read are replaced in one step each."""
    folder = places.inventory
    files: list[tuple[str, dict[str, Any], str]] = [
        ("hosts.yml", hosts(contents.shape, machines), ""),
        ("group_vars/all.yml", all_vars(contents, places), _reasons()),
        ("group_vars/gpu_nodes.yml", gpu_vars(contents), f"# {', '.join(DEADLINES)}: {DEADLINES_REASON}\n"),
        ("group_vars/kube_control_plane.yml", control_plane_vars(contents), ""),
    ]
    for its in in_use([machine.system for machine in machines]):
        if its.own_repositories:
            comment = (
                f"# {its.user_land}: what passes there says nothing of that distribution's own programs.\n"
            )
            files.append((f"group_vars/{group_of(its)}.yml", system_vars(contents, its), comment))
    for name, values, comment in files:
        head = f"# Written by 'gpulab up'; it is overwritten by the next one.\n{comment}---\n"
        write_atomically(folder / name, head + yaml.dump(values, Dumper=_Dumper, sort_keys=False, width=100))
    write_atomically(folder / "id_ed25519", client_key(places).read_text(), mode=0o600)
    write_atomically(folder / "known_hosts", known_hosts(machines, places))
    folder_of_sockets = socket_folder(places)
    if folder_of_sockets is not None:
        folder_of_sockets.mkdir(mode=0o700, parents=True, exist_ok=True)


def remove(places: Places) -> None:
    """Remove the lab's inventory."""
    shutil.rmtree(places.inventory, ignore_errors=True)


def _reasons() -> str:
    lines = ["# What differs from a site with machines of its own, and why:"]
    lines += [f"#   {name}: {reason}" for name, reason in REASONS.items()]
    lines += [
        f"#   kubernetes_node_kubelet_config, {name}: {reason}" for name, reason in KUBELET_REASONS.items()
    ]
    return "\n".join(lines) + "\n"


class _Dumper(yaml.SafeDumper):
    """Quotes strings, so that a version never becomes a number, and writes keys as blocks."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's signature
        """Repeat values instead of naming them: a reader of one line sees all of it."""
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if "\n" in text:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|")
    plain = text.replace("_", "").replace("-", "").isalpha() and text.lower() not in (
        "true",
        "false",
        "yes",
        "no",
        "null",
    )
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)
