"""What the inventory wants of a node, typed.

Each section of `NodeWanted` belongs to one role. A field is the role's variable of the same name, without the role's prefix, so
that an option has one name from the inventory to the judge. `read` fills the sections in; nobody else knows names of variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass, replace
from typing import Any

from gpusmith.data.monitoring import NONE
from gpusmith.data.operands import MANAGED, deployed
from gpusmith.inventory import building
from gpusmith.names import EXPORTER, MONITORING_NAMESPACE, OPERANDS_NAMESPACE, SHARE_RESOURCE, STATE_METRICS
from gpusmith.wanted import layouts
from gpusmith.wanted.layouts import Layout

Repository = Mapping[str, Any]
"""Where packages come from, as the roles' specs describe it."""

CONTAINERD = {"docker": "containerd.io", "distribution": "containerd"}
"""The package of the runtime by 'containerd_package_layout'."""
TOOLKIT = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
KUBERNETES = ("kubelet", "kubeadm", "kubectl")
COMPANIONS = ("kubernetes-cni", "cri-tools")
"""What comes along with those."""
CDI_SPEC = "/var/run/cdi/nvidia.yaml"


@dataclass(frozen=True, kw_only=True)
class Driver:
    """Role nvidia_driver; see docs/variables.md for what the fields may be."""

    owner: str = MANAGED
    state: str = "present"
    version: str = ""
    repository: Repository = field(default_factory=dict)
    package_layout: str = "nvidia"
    module_build: str = building.DKMS
    build: str = "every_node"
    build_signing: Mapping[str, str] = field(default_factory=dict)
    module_flavour: str = "auto"
    module_parameters: Mapping[str, str] = field(default_factory=dict)
    extra_modules: tuple[str, ...] = ()
    fabric_manager: str = "auto"
    components: tuple[str, ...] = ("auto",)
    kernel_headers: bool = True

    @property
    def builds_once(self) -> bool:
        """Whether one node of several builds the modules."""
        return building.builds_once(self.build, self.module_build)

    @property
    def certificate(self) -> str:
        """File on the controller, of the site's key that signs the module; empty where nobody signs."""
        return building.certificate_of(self.build, self.module_build, self.build_signing)


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """Role host_baseline."""

    swap: str = "off"
    modules: tuple[str, ...] = ()
    sysctl: Mapping[str, str] = field(default_factory=dict)
    sysctl_minimum: Mapping[str, int] = field(default_factory=dict)
    huge_pages: Mapping[str, int] = field(default_factory=dict)

    @property
    def swap_off(self) -> bool:
        """Whether swap should be off. Unquoted, YAML takes 'off' for false."""
        return self.swap != "keep"


@dataclass(frozen=True, kw_only=True)
class Containerd:
    """Role containerd."""

    owner: str = MANAGED
    version: str = ""
    package_layout: str = "docker"
    repository: Repository = field(default_factory=dict)
    proxy: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Toolkit:
    """Role nvidia_container_toolkit."""

    owner: str = MANAGED
    version: str = ""
    repository: Repository = field(default_factory=dict)
    mode: str = "auto"
    default_runtime: bool = False
    cdi_spec: str = CDI_SPEC


@dataclass(frozen=True, kw_only=True)
class Cuda:
    """Role cuda_toolkit."""

    versions: tuple[str, ...] = ()
    default: str = ""
    repository: Repository = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Kubernetes:
    """Role kubernetes_node."""

    owner: str = MANAGED
    version: str = ""
    repository: Repository = field(default_factory=dict)
    control_plane_endpoint: str = ""
    kubelet_config: Mapping[str, Any] = field(default_factory=dict)
    proxy: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


_Owners = make_dataclass(
    "_Owners",
    [(row.field, str, field(default=MANAGED)) for row in deployed()],
    frozen=True,
    kw_only=True,
)
"""Whose each operand is: a field for each row of data/operands."""


@dataclass(frozen=True, kw_only=True)
class Operands(_Owners):  # type: ignore[misc, valid-type]  # its fields are known at run time
    """Role gpu_operands: what is the same on all GPU nodes of a cluster."""

    namespace: str = OPERANDS_NAMESPACE
    runtime_class: str = "nvidia"
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def ours(self) -> tuple[str, ...]:
        """Components that are ours; each is a row of data/operands."""
        return tuple(row.component for row in deployed() if getattr(self, row.field) == MANAGED)


@dataclass(frozen=True, kw_only=True)
class Monitoring:
    """Role gpu_monitoring: what is the same on all GPU nodes of a cluster."""

    dcgm_exporter: str = NONE
    kube_state_metrics: str = NONE
    prometheus: str = NONE
    alertmanager: str = NONE
    namespace: str = MONITORING_NAMESPACE
    interval_s: int = 30
    disabled_alerts: frozenset[str] = frozenset()
    prometheus_url: str = ""

    @property
    def jobs(self) -> frozenset[str]:
        """Exporters that there are, by the names of their jobs."""
        owners = {EXPORTER: self.dcgm_exporter, STATE_METRICS: self.kube_state_metrics}
        return frozenset(job for job, owner in owners.items() if owner != NONE)


@dataclass(frozen=True, kw_only=True)
class Tenants:
    """Role gpu_tenants: what is the same on all GPU nodes of a cluster."""

    teams: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    policy: str = "none"
    policy_exempt: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """Role preflight."""

    secure_boot_allowed: bool = False
    removable_packages: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Upgrade:
    """Role gpu_upgrade."""

    stop_units: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The suite."""

    kubeconfig: str = ""
    images: Mapping[str, str] = field(default_factory=dict)
    timeout_pod_s: float = 300.0
    timeout_pull_s: float = 900.0
    load_s: float = 10.0
    runtime_class: str = ""
    accepted_xids: frozenset[int] = frozenset()
    xid_history_required: bool = True
    ecc_required: bool = True
    pcie_width: int = 0
    network: bool = True
    transport: str = "any"
    performance: bool = True
    baselines: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_limits: Mapping[str, str] = field(default_factory=dict)
    node_condition: bool = False
    preemption: bool = False
    workloads: tuple[Mapping[str, Any], ...] = ()


ROLES = {
    "driver": "nvidia_driver",
    "baseline": "host_baseline",
    "containerd": "containerd",
    "toolkit": "nvidia_container_toolkit",
    "cuda": "cuda_toolkit",
    "kubernetes": "kubernetes_node",
    "operands": "gpu_operands",
    "monitoring": "gpu_monitoring",
    "tenants": "gpu_tenants",
    "preflight": "preflight",
    "upgrade": "gpu_upgrade",
    "validation": "validation",
}
"""The role of each section; its variables begin with that name."""
STAYS: Mapping[str, Mapping[str, str | None]] = {
    "driver": {"state": None, "version": "latest"},
    "containerd": {},
    "toolkit": dict.fromkeys(("mode", "default_runtime", "cdi_spec")),
    "kubernetes": dict.fromkeys(("labels", "taints")),
}
"""Fields of a section that count for a part of somebody else's as well, and values of those that do not: any driver will do."""


def as_owned(section: str, given: Any) -> Any:
    """A section without what its owner decides, where that is somebody else."""
    if getattr(given, "owner", MANAGED) == MANAGED:
        return given
    stays = {name: getattr(given, name) if value is None else value for name, value in STAYS[section].items()}
    return type(given)(owner=given.owner, **stays)


@dataclass(frozen=True, kw_only=True)
class NodeWanted:
    """What the inventory wants of one node: the project's own variables ('gpusmith_*'), and a section for each role.

    Attributes:
        name: of the host in the inventory.
        gpu_model: key of data/gpus.yml or of gpu_models, a name for GPUs that are no row, or empty: what the machine shows.
        gpu_count: GPUs that the machine should have, without those that are left out.
        gpus_ignored: those: PCI device ids and PCI addresses.
        gpu_models: rows that data/gpus.yml does not have, by key.
        gpu_sharing: how several pods get one GPU, 'none' if they do not.
        gpu_shares: how many; counts only where GPUs are shared, as the next.
        gpu_share_resource: what pods ask for.
        gpu_mig_profile: size of the instances that MIG divides each GPU into; empty without MIG.
        simulated: the first of the two witnesses of a simulation.
        image_pull_secrets: names of Secrets in the operands' namespace, for the images of suite and operands.
        connection: Ansible's variables for the way to it, by name, as far as they are given.
        managed: whether gpusmith sets it up; else what the cluster tells of it takes the place of an inventory.
        counted_by: who says how many GPUs it has, in words.
        pinned: what it has to have by a file of --expect: 'capacity' and 'labels', by name; empty without such a file.
    """

    name: str
    managed: bool = True
    counted_by: str = "the inventory"
    pinned: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    connection: Mapping[str, Any] = field(default_factory=dict, repr=False)
    gpu_model: str = ""
    gpu_count: int = 0
    gpus_ignored: tuple[str, ...] = ()
    gpu_models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    gpu_sharing: str = layouts.NONE
    gpu_shares: int = layouts.FEWEST
    gpu_share_resource: str = SHARE_RESOURCE
    gpu_mig_profile: str = ""
    simulated: bool = False
    kubeconfig: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    reboot: str = "never"
    change_runtime_on_joined: bool = False
    ca_certificates: Mapping[str, str] = field(default_factory=dict)
    driver: Driver = field(default_factory=Driver)
    baseline: Baseline = field(default_factory=Baseline)
    containerd: Containerd = field(default_factory=Containerd)
    toolkit: Toolkit = field(default_factory=Toolkit)
    cuda: Cuda = field(default_factory=Cuda)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    operands: Operands = field(default_factory=Operands)
    monitoring: Monitoring = field(default_factory=Monitoring)
    tenants: Tenants = field(default_factory=Tenants)
    preflight: Preflight = field(default_factory=Preflight)
    upgrade: Upgrade = field(default_factory=Upgrade)
    validation: Validation = field(default_factory=Validation)

    @property
    def node_name(self) -> str:
        """Of its Node object: names of Nodes are in lower case."""
        return self.name.lower()

    def of_role(self, role: str) -> Any:
        """The section of a role."""
        return next(getattr(self, section) for section, name in ROLES.items() if name == role)

    def manages(self, role: str) -> bool:
        """Whether a role is to install its part; of those without an owner's variable it always is."""
        return (
            bool(getattr(self.of_role(role), "owner", MANAGED) == MANAGED) if role in ROLES.values() else True
        )

    @property
    def packages_of_others(self) -> frozenset[str]:
        """Packages of runtime, toolkit and Kubernetes that somebody else installs."""
        rows = {
            "containerd": tuple(CONTAINERD.values()),
            "nvidia_container_toolkit": TOOLKIT,
            "kubernetes_node": (*KUBERNETES, *COMPANIONS),
        }
        return frozenset(name for role, names in rows.items() if not self.manages(role) for name in names)

    def with_driver(self, version: str) -> NodeWanted:
        """The same with another version of the driver."""
        return replace(self, driver=replace(self.driver, version=version))

    def with_layout(self, layout: Layout) -> NodeWanted:
        """The same with another layout."""
        return replace(
            self,
            gpu_sharing=layout.sharing,
            gpu_shares=layout.shares,
            gpu_share_resource=layout.resource,
            gpu_mig_profile=layout.profile,
        )

    @property
    def layout(self) -> Layout:
        """How its GPUs are to be handed out. What its Node hands out goes by the Node's label, which may not follow yet."""
        if self.gpu_sharing == layouts.MIG:
            return layouts.by_mig(self.gpu_mig_profile, self.gpu_model, self.gpu_models)
        return layouts.asked(self.gpu_sharing, self.gpu_shares, self.gpu_share_resource)

    @property
    def address(self) -> str:
        """Where Ansible reaches it."""
        return str(self.connection.get("ansible_host") or self.name)

    @property
    def suite_kubeconfig(self) -> str:
        """With which the suite asks the cluster; empty if none is named."""
        return self.validation.kubeconfig or self.kubeconfig

    @property
    def package_versions(self) -> dict[str, str]:
        """Exact versions of runtime, toolkit and Kubernetes by package, as far as the inventory gives them."""
        versions = {
            CONTAINERD.get(self.containerd.package_layout, ""): self.containerd.version,
            **dict.fromkeys(TOOLKIT, self.toolkit.version),
            **dict.fromkeys(KUBERNETES, self.kubernetes.version),
        }
        return {name: version for name, version in versions.items() if name and version}
