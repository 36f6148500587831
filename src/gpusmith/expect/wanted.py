"""What is wanted of a node, by subject.

Functions `*_of` take it from a host of the inventory, as the suite has it; the roles' filters take it from the settings of their
role. Both go through the same functions, which know what values mean.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gpusmith.cluster.operands import DEVICE_PLUGIN, restart_plugin
from gpusmith.data import models as gpu_models
from gpusmith.data.models import Model
from gpusmith.expect.files import Files
from gpusmith.expect.layouts import ANY_LAYOUT, Layout
from gpusmith.inventory import authorities
from gpusmith.probe.record import Record
from gpusmith.wanted.node import NodeWanted

LOADER = "gpusmith-nvidia-load"
"""Unit of role nvidia_driver, which loads the modules at boot."""
DEVICES = "gpusmith-gpu-devices"
"""Unit of role nvidia_container_toolkit, which makes links and CDI specification at boot."""
CDI_SPEC = "/var/run/cdi/nvidia.yaml"


@cache
def all_models() -> Mapping[str, Model]:
    """Those of data/gpus.yml, read once."""
    return gpu_models.load()


@dataclass(frozen=True)
class Driver:
    """The driver.

    Attributes:
        node: how messages name it.
        version: with or without the packager's revision.
        module_flavour: open, proprietary, or auto (open, unless a GPU is too old for it).
        fabric_manager: enabled, disabled, or auto (by the machine and its model).
        model: what the inventory says that the GPUs are, for a machine whose PCI bus does not tell.
        layout: names of packages.
        files: that the role writes.
        parameters: of the module, by name.
        extra_modules: that use the driver's, and are to be loaded.
        components: parts of the driver that not every machine needs, by the layout's names for them.
        certificate: file on the controller, of the site's key that signs the module; empty where nobody signs.
    """

    node: str
    version: str
    module_flavour: str = "auto"
    fabric_manager: str = "auto"
    model: Model | None = None
    layout: Layout = ANY_LAYOUT
    files: Files = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=all_models)
    parameters: Mapping[str, str] = field(default_factory=dict)
    extra_modules: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    certificate: str = ""


@dataclass(frozen=True)
class Baseline:
    """The operating system.

    Attributes:
        swap_off: whether swap should be off.
        modules: kernel modules that should be loaded.
        sysctl: kernel parameters with their values.
        needed: parameters that Kubernetes insists on, also where the inventory does not list them.
        minimum: parameters with the least value that will do; more is right as well.
        huge_pages: by size, how many there should be.
        authorities: digests of the certificates of the site's own, by name.
        files: that the role writes.
    """

    node: str
    swap_off: bool
    modules: tuple[str, ...]
    sysctl: Mapping[str, str]
    needed: Mapping[str, str] = field(default_factory=dict)
    minimum: Mapping[str, int] = field(default_factory=dict)
    huge_pages: Mapping[str, int] = field(default_factory=dict)
    authorities: Mapping[str, str] = field(default_factory=dict)
    files: Files = field(default_factory=dict)


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
    """

    node: str
    nvidia: bool = True
    default_nvidia: bool = False


@dataclass(frozen=True)
class Cdi:
    """CDI specifications.

    Attributes:
        spec: the file that the toolkit's role makes.
        restart_plugin: command that has the device plugin write its own anew; empty where that is another's matter.
    """

    node: str
    spec: str = CDI_SPEC
    restart_plugin: str = ""

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


def driver(node: str, settings: Mapping[str, Any], **more: Any) -> Driver:
    """Keys version, module_flavour, fabric_manager, files, parameters, extra_modules, components, certificate."""
    return Driver(
        node,
        str(settings["version"]),
        str(settings.get("module_flavour") or "auto"),
        str(settings.get("fabric_manager") or "auto"),
        files=files(settings.get("files")),
        parameters={str(name): str(value) for name, value in (settings.get("parameters") or {}).items()},
        extra_modules=tuple(map(str, settings.get("extra_modules") or ())),
        components=tuple(map(str, settings.get("components") or ())),
        certificate=str(settings.get("certificate") or ""),
        **more,
    )


def baseline(node: str, settings: Mapping[str, Any], needed: Mapping[str, str] | None = None) -> Baseline:
    """The operating system, from keys swap, modules, sysctl, sysctl_minimum, huge_pages, authorities and files."""
    least = {str(name): int(value) for name, value in (settings.get("sysctl_minimum") or {}).items()}
    return Baseline(
        node,
        # Unquoted, YAML takes 'off' for false.
        swap_off=settings["swap"] != "keep",
        modules=tuple(map(str, settings["modules"])),
        sysctl={str(name): one_space(value) for name, value in settings["sysctl"].items()},
        needed=needed or {},
        minimum={name: value for name, value in least.items() if name not in settings["sysctl"]},
        huge_pages={str(size): int(count) for size, count in (settings.get("huge_pages") or {}).items()},
        authorities=authorities.digests(settings.get("authorities")),
        files=files(settings.get("files")),
    )


def files(given: Mapping[str, Any] | None) -> Files:
    """Contents by path, also where there are none."""
    return dict(given or {})


IP_FORWARD = {"net.ipv4.ip_forward": "1"}
"""kubeadm and every pod network insist on it, also where the inventory lists other ones."""


def driver_of(host: NodeWanted, model: Model | None) -> Driver:
    """What a host's inventory says of its driver."""
    return driver(
        host.name,
        {
            "version": host.driver.version,
            "module_flavour": host.driver.module_flavour,
            "fabric_manager": host.driver.fabric_manager,
            "parameters": host.driver.module_parameters,
            "extra_modules": host.driver.extra_modules,
            "components": host.driver.components,
            "certificate": host.driver.certificate,
        },
        model=model,
    )


def packages_of(host: NodeWanted, record: Record) -> Packages:
    """Runtime, toolkit and Kubernetes, as far as they are there: a node that others set up need not have all of them."""
    there = {name: version for name, version in host.package_versions.items() if name in record.packages}
    return Packages(host.name, there, record.kubernetes.joined and not host.change_runtime_on_joined)


def baseline_of(host: NodeWanted) -> Baseline:
    """What a host's inventory says of its operating system."""
    return baseline(
        host.name,
        {
            "swap": "off" if host.baseline.swap_off else "keep",
            "modules": host.baseline.modules,
            "sysctl": host.baseline.sysctl,
            "sysctl_minimum": host.baseline.sysctl_minimum,
            "huge_pages": host.baseline.huge_pages,
            "authorities": host.ca_certificates,
        },
        IP_FORWARD,
    )


def cdi_of(host: NodeWanted) -> Cdi:
    """What a host's inventory says of CDI."""
    ours = DEVICE_PLUGIN in host.operands.ours
    return Cdi(
        host.name,
        host.toolkit.cdi_spec,
        restart_plugin(host.operands.namespace, host.node_name) if ours else "",
    )


def runtime_of(host: NodeWanted) -> Runtime:
    """What a host's inventory says of containerd."""
    return Runtime(host.name, default_nvidia=host.toolkit.default_runtime)
