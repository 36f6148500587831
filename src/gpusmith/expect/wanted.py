"""What is wanted of a node, by subject.

Functions `*_of` add to the record of the inventory what is known of the machine. Roles, preflight, upgrade and suite come here.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpusmith.cluster.operands import restart_plugin
from gpusmith.data import models as gpu_models
from gpusmith.data.models import Model
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.expect.files import Files
from gpusmith.expect.layouts import ANY_LAYOUT, Layout
from gpusmith.inventory import authorities
from gpusmith.probe.record import Record
from gpusmith.wanted import node
from gpusmith.wanted.node import NodeWanted

LOADER = "gpusmith-nvidia-load"
"""Unit of role nvidia_driver, which loads the modules at boot."""
DEVICES = "gpusmith-gpu-devices"
"""Unit of role nvidia_container_toolkit, which makes links and CDI specification at boot."""
CDI_SPEC = "/var/run/cdi/nvidia.yaml"


@cache
def _of_file() -> Mapping[str, Model]:
    return gpu_models.load()


def all_models(host: NodeWanted | None = None) -> Mapping[str, Model]:
    """Those of data/gpus.yml, read once, and those that the inventory adds for a host."""
    return gpu_models.joined(_of_file(), host.gpu_models, host.gpu_model) if host else _of_file()


@dataclass(frozen=True, kw_only=True)
class Driver(node.Driver):
    """The driver, with what its options come to on a machine.

    Attributes:
        node: how messages name it.
        model: what the inventory says that the GPUs are, for a machine whose PCI bus does not tell.
        layout: names of packages.
        files: that the role writes.
    """

    node: str
    model: Model | None = None
    layout: Layout = ANY_LAYOUT
    files: Files = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=all_models)


@dataclass(frozen=True, kw_only=True)
class Baseline(node.Baseline):
    """The operating system.

    Attributes:
        node: how messages name it.
        authorities: digests of the certificates of the site's own, by name.
        files: that the role writes.
    """

    node: str
    authorities: Mapping[str, str] = field(default_factory=dict)
    files: Files = field(default_factory=dict)

    @property
    def minimum(self) -> dict[str, int]:
        """Parameters with the least value that will do; more is right as well."""
        return {name: value for name, value in self.sysctl_minimum.items() if name not in self.sysctl}


@dataclass(frozen=True)
class Packages:
    """Packages of one subject, with exact versions.

    Attributes:
        kept: whether other versions stay that are there: the node serves, and the inventory does not allow to change them.
    """

    node: str
    versions: Mapping[str, str]
    kept: bool = False


@dataclass(frozen=True)
class Runtime:
    """containerd.

    Attributes:
        nvidia: whether it must have the runtime 'nvidia', which comes with the toolkit.
        default_nvidia: whether that is the runtime of every pod.
        cdi: whether it must take CDI; a plugin and a toolkit of others may do without.
        theirs: others set the node up: whether pods get the runtime 'nvidia' by request, always or never is their matter.
    """

    node: str
    nvidia: bool = True
    default_nvidia: bool = False
    cdi: bool = True
    theirs: bool = False


@dataclass(frozen=True)
class Cdi:
    """CDI specifications.

    Attributes:
        spec: the file that the toolkit's role makes.
        restart_plugin: command that has the device plugin write its own anew; empty where that is another's matter.
        required: whether there must be one; a toolkit of others need not make any.
    """

    node: str
    spec: str = CDI_SPEC
    restart_plugin: str = ""
    required: bool = True

    def is_ours(self, path: str) -> bool:
        """Whether a path is that of the file that the role makes; /var/run is /run."""
        return _run(path) == _run(self.spec)


def _run(path: str) -> str:
    return posixpath.normpath(path).removeprefix("/var") if path.startswith("/var/run/") else path


@dataclass(frozen=True)
class Toolkit:
    """The container toolkit.

    Attributes:
        files: settings and unit that the role writes.
        runtime_files: its part of containerd's configuration.
    """

    node: str
    packages: Packages
    runtime: Runtime
    cdi: Cdi
    files: Files = field(default_factory=dict)
    runtime_files: Files = field(default_factory=dict)


@dataclass(frozen=True)
class CudaToolkits:
    """CUDA toolkits.

    Attributes:
        versions: MAJOR.MINOR of each.
        default: what /usr/local/cuda leads to; empty where nobody asks.
    """

    node: str
    versions: tuple[str, ...]
    default: str = ""


@dataclass(frozen=True)
class Kubelet:
    """The kubelet.

    Attributes:
        settings: files that it reads when it starts, and that say how.
        policies: of its managers 'cpu' and 'memory', where the inventory sets them.
    """

    node: str
    packages: Packages
    settings: Files = field(default_factory=dict)
    policies: Mapping[str, str] = field(default_factory=dict)


def one_space(value: object) -> str:
    """A kernel parameter as text: the kernel divides numbers by tabs, people by blanks."""
    return " ".join(str(value).split())


def files(given: Mapping[str, Any] | None) -> Files:
    """Contents by path, also where there are none."""
    return dict(given or {})


IP_FORWARD = {"net.ipv4.ip_forward": "1"}
"""kubeadm and every pod network insist on it, also where the inventory lists other ones."""


def driver_of(host: NodeWanted, model: Model | None = None, **resolved: Any) -> Driver:
    """What is wanted of a host's driver: its options, and fields of `Driver` that are known of the machine."""
    own = {"node": host.name, "model": model, "models": all_models(host)}
    return Driver(**{**vars(host.driver), **own, **resolved})


def packages_of(host: NodeWanted, record: Record) -> Packages:
    """Runtime, toolkit and Kubernetes, as far as they are there: a node that others set up need not have all of them."""
    there = {name: version for name, version in host.package_versions.items() if name in record.packages}
    return Packages(host.name, there, record.kubernetes.joined and not host.change_runtime_on_joined)


def baseline_of(host: NodeWanted, files: Files | None = None) -> Baseline:
    """What is wanted of a host's operating system, with the files that the role writes."""
    options = vars(host.baseline)
    sysctl = {name: one_space(value) for name, value in (IP_FORWARD | dict(host.baseline.sysctl)).items()}
    return Baseline(
        **{**options, "sysctl": sysctl},
        node=host.name,
        authorities=authorities.digests(host.ca_certificates),
        files=files or {},
    )


def cdi_of(host: NodeWanted) -> Cdi:
    """What a host's inventory says of CDI."""
    # NVIDIA's DRA driver writes a specification for each claim, and none before.
    ours = DEVICE_PLUGIN in host.operands.ours and not host.layout.by_claims
    return Cdi(
        host.name,
        host.toolkit.cdi_spec,
        restart_plugin(host.operands.namespace, host.node_name) if ours else "",
        host.manages("nvidia_container_toolkit"),
    )


def runtime_of(host: NodeWanted) -> Runtime:
    """What a host's inventory says of containerd."""
    cdi = host.manages("nvidia_container_toolkit") or DEVICE_PLUGIN in host.operands.ours
    return Runtime(host.name, default_nvidia=host.toolkit.default_runtime, cdi=cdi, theirs=not host.managed)
