"""The GPU nodes of an inventory, and what it says of them. Types and defaults are those of argument_specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.errors import InputError
from gpusmith.inventory import building
from gpusmith.inventory.rules import RULES
from gpusmith.inventory.specs import Specs
from gpusmith.inventory.templates import has_open, is_plain
from gpusmith.inventory.values import convert
from gpusmith.wanted.offers import Offers, whole

OPERANDS = {
    "nvidia-device-plugin": "gpu_operands_device_plugin",
    "gpu-feature-discovery": "gpu_operands_feature_discovery",
    "nfd-worker": "gpu_operands_node_feature_discovery",
}
"""DaemonSets of the role gpu_operands, by the name that their pods carry, and the variable that says whose they are."""

CONTAINERD = {"docker": "containerd.io", "distribution": "containerd"}
"""The package of the runtime by 'containerd_package_layout'."""

PACKAGES = {
    "containerd_version": tuple(CONTAINERD.values()),
    "nvidia_container_toolkit_version": (
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    ),
    "kubernetes_node_version": ("kubelet", "kubeadm", "kubectl"),
}
"""Packages that roles keep at an exact version, by the variable that gives it."""

NEEDED = (
    "gpusmith_simulated", "gpusmith_user_land", "gpusmith_gpu_model", "gpusmith_gpu_count", "nvidia_driver_version",
    "gpusmith_change_runtime_on_joined",
    "nvidia_driver_module_parameters", "nvidia_driver_extra_modules", *building.VARIABLES,
    "containerd_package_layout",
    "nvidia_driver_module_flavour", "nvidia_driver_fabric_manager", "nvidia_container_toolkit_cdi_spec", *PACKAGES,
    "validation_image_cuda", "validation_image_pytorch", "validation_image_tensorflow", "validation_runtime_class",
    "validation_timeout_pod_s", "validation_accepted_xids", "validation_xid_history_required", "validation_ecc_required",
    "validation_pcie_width", "validation_network",
    "nvidia_container_toolkit_default_runtime", "kubernetes_node_name", "host_baseline_modules", "host_baseline_swap",
    "gpu_operands_namespace", "gpu_operands_runtime_class", *OPERANDS.values(), *RULES,
)  # fmt: skip
"""Variables that the suite goes by."""


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
        user_land: 'gpusmith_user_land', empty where it is the distribution's.
        gpu_model: key of data/gpus.yml, a name of the site's own for GPUs that are no row, or empty: what the machine shows.
        gpu_count: GPUs that the machine should have.
        driver_version: exact version that should be installed and loaded.
        module_flavour: kind of its kernel module ('nvidia_driver_module_flavour').
        module_parameters: of its kernel module ('nvidia_driver_module_parameters').
        extra_modules: that use the driver's ('nvidia_driver_extra_modules').
        signing_certificate: file, of the key that signs its kernel module ('nvidia_driver_build_signing'); empty if none.
        fabric_manager: whether the fabric manager is needed ('nvidia_driver_fabric_manager').
        cdi_spec: CDI specification that the toolkit's role makes ('nvidia_container_toolkit_cdi_spec').
        package_versions: exact versions of runtime, toolkit and Kubernetes by package, as far as the inventory gives them.
        change_runtime_on_joined: whether site.yml changes those on a node that serves ('gpusmith_change_runtime_on_joined').
        kubeconfig: path on this machine; empty if none is named. 'validation_kubeconfig' goes before 'gpusmith_kubeconfig'.
        taints: taints that the Node object should carry.
        labels: labels that the Node object should carry on top of ours.
        images: what workloads run in.
        runtime_class: RuntimeClass of the GPU runtime; workloads use it only if 'validation_runtime_class' says so.
        pod_runtime_class: 'validation_runtime_class', empty by default.
        operands_namespace: where the device plugin runs.
        operands: values of 'app.kubernetes.io/name' of the operands that are ours and run on every GPU node.
        pod_timeout_s: seconds that one workload may run.
        load_s: seconds for which all GPUs of a node compute at once ('validation_load_s').
        pull_timeout_s: seconds that a pod may take until it runs, image pull included.
        accepted_xids: Xid codes that do not fail a node ('validation_accepted_xids').
        xid_history_required: whether the kernel's log must go back to the load of the driver ('validation_xid_history_required').
        default_runtime_nvidia: whether every pod should run with the NVIDIA runtime ('nvidia_container_toolkit_default_runtime').
        ecc_required: whether a GPU whose ECC is switched off fails ('validation_ecc_required').
        pcie_width: PCIe lanes that every GPU must have ('validation_pcie_width'); 0 for those of its model.
        network: whether a pod of a new namespace should reach Services by name ('validation_network').
        swap_off: whether swap should be off ('host_baseline_swap').
        kernel_modules: kernel modules that should be loaded.
        sysctl: kernel parameters and their values.
        sysctl_minimum: kernel parameters and the least value that will do.
        huge_pages: huge pages by size.
        authorities: certificates of the site's own that nodes should trust, by name.
    """

    name: str
    node_name: str
    variables: Mapping[str, Any] = field(repr=False)
    simulated: bool
    user_land: str
    gpu_model: str
    gpu_count: int
    driver_version: str
    module_flavour: str
    module_parameters: Mapping[str, str]
    extra_modules: tuple[str, ...]
    signing_certificate: str
    fabric_manager: str
    cdi_spec: str
    package_versions: Mapping[str, str]
    change_runtime_on_joined: bool
    kubeconfig: str
    taints: tuple[Mapping[str, str], ...]
    labels: Mapping[str, str]
    images: Images
    runtime_class: str
    pod_runtime_class: str
    operands_namespace: str
    operands: tuple[str, ...]
    pod_timeout_s: float
    load_s: float
    pull_timeout_s: float
    accepted_xids: frozenset[int]
    xid_history_required: bool
    default_runtime_nvidia: bool
    ecc_required: bool
    pcie_width: int
    network: bool
    swap_off: bool
    kernel_modules: tuple[str, ...]
    sysctl: Mapping[str, str]
    sysctl_minimum: Mapping[str, int]
    huge_pages: Mapping[str, int]
    authorities: Mapping[str, str]

    @property
    def offers(self) -> Offers:
        """What its Node is to hand out."""
        return whole(self.gpu_count)

    @property
    def containerd_version(self) -> str | None:
        """Of whichever package it is."""
        versions = (self.package_versions.get(name) for name in CONTAINERD.values())
        return next(filter(None, versions), None)


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


class _Reader:
    """One host's variables as their specs type them; those checked before."""

    def __init__(self, host: str, values: Mapping[str, Any], specs: Specs) -> None:
        self._host = host
        self._values = values
        self._specs = specs

    def get(self, name: str, default: Any = None) -> Any:
        """A value, else the one that the caller works out, else what the spec states."""
        spec = self._specs.variables[name]
        value = self._values.get(name)
        if value is not None:
            if has_open(value) or not is_plain(value):
                raise InputError(
                    f"Host '{self._host}': the template of '{name}' cannot be filled in: {value!r}.",
                    f"Try: ansible {self._host} -m ansible.builtin.debug -a var={name}",
                )
            return convert(spec, value)
        value = spec.default if default is None else default
        if value is None:
            raise InputError(f"Host '{self._host}' has no '{name}'.", "Set it in group_vars/gpu_nodes.yml.")
        return value

    def need(self, name: str) -> Any:
        """A value that the inventory must give, whatever the spec states."""
        if self._values.get(name) is None:
            raise InputError(f"Host '{self._host}' has no '{name}'.", "Set it in group_vars/gpu_nodes.yml.")
        return self.get(name)


def host_of(name: str, values: Mapping[str, Any], specs: Specs) -> Host:
    """The host that variables describe which were checked.

    Raises:
        InputError: one that is needed is missing.
    """
    reader = _Reader(name, values, specs)
    layout = reader.get("containerd_package_layout")
    other_runtimes = [package for other, package in CONTAINERD.items() if other != layout]
    return Host(
        name=name,
        node_name=reader.get("kubernetes_node_name", name).lower(),
        variables=dict(values),
        simulated=reader.get("gpusmith_simulated"),
        user_land=reader.get("gpusmith_user_land"),
        gpu_model=reader.get("gpusmith_gpu_model", ""),
        gpu_count=reader.need("gpusmith_gpu_count"),
        driver_version=reader.need("nvidia_driver_version"),
        module_flavour=reader.get("nvidia_driver_module_flavour"),
        module_parameters={
            key: str(value) for key, value in reader.get("nvidia_driver_module_parameters").items()
        },
        extra_modules=tuple(reader.get("nvidia_driver_extra_modules")),
        signing_certificate=building.certificate_of(*(reader.get(name) for name in building.VARIABLES)),
        fabric_manager=reader.get("nvidia_driver_fabric_manager"),
        cdi_spec=reader.get("nvidia_container_toolkit_cdi_spec"),
        package_versions={
            package: version
            for variable, names in PACKAGES.items()
            if (version := reader.get(variable, ""))
            for package in names
            if package not in other_runtimes
        },
        kubeconfig=reader.get("validation_kubeconfig") or reader.get("gpusmith_kubeconfig", ""),
        taints=tuple(reader.get("kubernetes_node_taints")),
        labels=reader.get("kubernetes_node_labels"),
        images=Images(
            reader.get("validation_image_cuda"),
            reader.get("validation_image_pytorch"),
            reader.get("validation_image_tensorflow"),
        ),
        runtime_class=reader.get("gpu_operands_runtime_class"),
        pod_runtime_class=reader.get("validation_runtime_class"),
        operands_namespace=reader.get("gpu_operands_namespace"),
        operands=tuple(operand for operand, owner in OPERANDS.items() if reader.get(owner) == "managed"),
        pod_timeout_s=float(reader.get("validation_timeout_pod_s")),
        load_s=float(reader.get("validation_load_s")),
        pull_timeout_s=float(reader.get("validation_timeout_pull_s")),
        accepted_xids=frozenset(reader.get("validation_accepted_xids")),
        xid_history_required=reader.get("validation_xid_history_required"),
        default_runtime_nvidia=reader.get("nvidia_container_toolkit_default_runtime"),
        change_runtime_on_joined=reader.get("gpusmith_change_runtime_on_joined"),
        ecc_required=reader.get("validation_ecc_required"),
        pcie_width=reader.get("validation_pcie_width"),
        network=reader.get("validation_network"),
        swap_off=reader.get("host_baseline_swap") == "off",
        kernel_modules=tuple(reader.get("host_baseline_modules")),
        sysctl={key: str(setting) for key, setting in reader.get("host_baseline_sysctl").items()},
        sysctl_minimum={
            key: int(setting) for key, setting in reader.get("host_baseline_sysctl_minimum").items()
        },
        huge_pages={str(size): int(count) for size, count in reader.get("host_baseline_huge_pages").items()},
        authorities=reader.get("gpusmith_ca_certificates"),
    )
