"""One node's facts. Sections own their dataclasses; what is unknown is None, and the reason stands in `errors`."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.probe.allocations import Allocations
from gpusmith.probe.boot import Boot
from gpusmith.probe.cdi import Cdi
from gpusmith.probe.clock import Clock
from gpusmith.probe.containerd import Containerd
from gpusmith.probe.cuda import Cuda
from gpusmith.probe.dev import Dev
from gpusmith.probe.foreign import Foreign
from gpusmith.probe.host import Host
from gpusmith.probe.kernels import Kernel
from gpusmith.probe.kubernetes import Kubernetes
from gpusmith.probe.layout import GpuLayout
from gpusmith.probe.library import Library
from gpusmith.probe.log import Log, SwitchXid, Xid
from gpusmith.probe.memory import Memory
from gpusmith.probe.module import DriverModule
from gpusmith.probe.mps import Mps
from gpusmith.probe.nvml import Nvml
from gpusmith.probe.packages import Package
from gpusmith.probe.pci import Pci
from gpusmith.probe.programs import Program
from gpusmith.probe.services import Service
from gpusmith.probe.surroundings import Surroundings
from gpusmith.probe.system import System
from gpusmith.probe.taken import Taken
from gpusmith.probe.trust import Trust
from gpusmith.probe.usage import Holder

SCHEMA = "gpusmith.probe/1"


@dataclass(frozen=True)
class Record:
    """What the probe found.

    Attributes:
        packages: by name.
        half_packages: state by name of those that matter and are neither installed nor gone, or there in several versions.
        foreign_packages: those that matter of another architecture than the machine's, as 'libcuda1:i386'.
        foreign: what may be of a driver that no package brought.
        package_database: where they were read, 'dpkg' or 'rpm'; empty where there is neither.
        package_locks: text of the list of dnf's plugin versionlock; None where there is none.
        services: by unit name without '.service'.
        programs: of the units of containerd and kubelet, and of Kubernetes distributions, by unit without '.service'.
        managed_files: SHA-256 digests of files that roles write, by path.
        marked_files: paths of those that begin with our mark.
        xids: since the driver was loaded; None if nobody can know them.
        boot: None if its files could not be read.
        kernels: folders of modules, with the kernels that they are of.
        taken: kernel modules that another node has built.
        gpu_layout: how the machine is to divide its GPUs; None if nothing was asked of it.
        mps: what of MPS runs; None if that could not be found out, or a record is older.
        allocations: which pods were given which devices; None if the kubelet has no notes of it.
        holders: processes that have a GPU open, and have run for a while; None if that could not be found out.
        own: facts of the site's own, by the file that found them.
        errors: what could not be found out, with the reason.
    """

    schema: str
    host: Host = field(default_factory=Host)
    packages: Mapping[str, Package] = field(default_factory=dict)
    half_packages: Mapping[str, str] = field(default_factory=dict)
    foreign_packages: tuple[str, ...] = ()
    foreign: Foreign = field(default_factory=Foreign)
    package_database: str = ""
    package_locks: str | None = None
    pci: Pci = field(default_factory=Pci)
    module: DriverModule = field(default_factory=DriverModule)
    library: Library = field(default_factory=Library)
    nvml: Nvml = field(default_factory=Nvml)
    dev: Dev = field(default_factory=Dev)
    services: Mapping[str, Service] = field(default_factory=dict)
    programs: Mapping[str, Program] = field(default_factory=dict)
    xids: tuple[Xid, ...] | None = None
    sxids: tuple[SwitchXid, ...] | None = None
    xids_truncated: bool | None = None
    log: Log = field(default_factory=Log)
    containerd: Containerd = field(default_factory=Containerd)
    cdi: Cdi = field(default_factory=Cdi)
    kubernetes: Kubernetes = field(default_factory=Kubernetes)
    system: System = field(default_factory=System)
    memory: Memory = field(default_factory=Memory)
    surroundings: Surroundings = field(default_factory=Surroundings)
    clock: Clock = field(default_factory=Clock)
    cuda: Cuda = field(default_factory=Cuda)
    boot: Boot | None = None
    kernels: tuple[Kernel, ...] | None = None
    taken: tuple[Taken, ...] = ()
    gpu_layout: GpuLayout | None = None
    mps: Mps | None = None
    allocations: Allocations | None = None
    holders: tuple[Holder, ...] | None = None
    managed_files: Mapping[str, str] = field(default_factory=dict)
    marked_files: tuple[str, ...] = ()
    trust: Trust = field(default_factory=Trust)
    own: Mapping[str, Any] = field(default_factory=dict)
    errors: tuple[str, ...] = ()

    @property
    def nvml_usable(self) -> bool:
        """Whether NVML could be initialised."""
        return self.nvml.init_code == 0

    def gpu_at(self, address: str) -> str:
        """How messages name the GPU at a PCI address, also one that NVML does not know."""
        for gpu in self.nvml.gpus:
            if gpu.pci == address:
                return gpu.label
        return f"GPU at PCI {address}"
