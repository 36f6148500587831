"""What differs between hosts that run the lab: everything about cgroup versions and limits is here."""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gpulab.progress import say
from gpusmith.errors import ToolError
from gpusmith.inventory import specs

WANTED_FILES = 20000
WANTED_PROCESSES = 8000
SYSCTL = Path("/proc/sys")
INSTANCES = "fs.inotify.max_user_instances"
# inotify instances that were counted on a lab with its pods: control plane and depot 40, a GPU node 16; and some for the host.
INSTANCES_OF_LAB = 64
INSTANCES_OF_NODE = 20


@dataclass(frozen=True)
class Host:
    """The Linux host below the lab.

    Attributes:
        cgroup_version: 1 for the legacy and the hybrid tree, 2 for the unified one.
        hybrid: version 1 with a unified tree beside it, in which the OCI runtime gives every machine a place of its own.
        files_limit: most open files a machine may ask for; a host without CAP_SYS_RESOURCE can only lower it.
        processes_limit: the same for processes.
    """

    cgroup_version: int
    hybrid: bool = True
    files_limit: int = WANTED_FILES
    processes_limit: int = WANTED_PROCESSES

    @classmethod
    def this(cls, cgroup_root: Path = Path("/sys/fs/cgroup")) -> Host:
        """Look at the running host."""
        return cls(
            cgroup_version=2 if (cgroup_root / "cgroup.controllers").exists() else 1,
            hybrid=(cgroup_root / "unified" / "cgroup.procs").exists(),
            files_limit=_at_most(resource.RLIMIT_NOFILE, WANTED_FILES),
            processes_limit=_at_most(resource.RLIMIT_NPROC, WANTED_PROCESSES),
        )

    def thaw(self, cgroup: str, root: Path = Path("/sys/fs/cgroup")) -> None:
        """Let processes of a machine that is going down end, also frozen ones, which a reboot of a real machine ends as well.

        runc freezes a container while it changes it. If runc is ended in that moment, the container stays frozen; on cgroup v1
        the kernel then never kills it, and the machine waits for it for ever, with its network up and its services stopped.

        Args:
            cgroup: path of the machine; empty for none.
            root: where cgroups are mounted.
        """
        if self.cgroup_version == 2 or not cgroup.strip("/"):
            return
        # Cgroups go while they are read; whoever waits for the machine comes again.
        with suppress(OSError):
            for state in (root / "freezer" / cgroup.lstrip("/")).rglob("freezer.state"):
                if state.read_text().strip() != "THAWED":
                    state.write_text("THAWED")

    def machine_flags(self) -> list[str]:
        """Flags of `podman run` that give a machine a cgroup tree and limits of its own.

        With podman's own systemd mode on a hybrid host, the name=systemd hierarchy is the host's: kubelet then misses
        paths and two machines share one tree. A private namespace without that mode works on both versions.
        """
        return [
            "--cgroupns=private",
            "--systemd=false",
            "--ulimit",
            f"nofile={self.files_limit}:{self.files_limit}",
            "--ulimit",
            f"nproc={self.processes_limit}:{self.processes_limit}",
        ]

    def must_serve(self) -> None:
        """Refuse a host on which no lab can run.

        systemd keeps services apart in the unified tree also on version 1. Where that is not mounted, the OCI runtime leaves all
        machines in one place there: they end each other's services, and no kubelet starts. Told to do without it, systemd never
        learns in a container that a service's last process has ended, and logins hang.

        Raises:
            ToolError: it is such a host.
        """
        if self.cgroup_version == 1 and not self.hybrid:
            raise ToolError(
                "This host has cgroup v1 without a unified tree beside it, in which machines could be kept apart.",
                "Mount one: mkdir -p /sys/fs/cgroup/unified && mount -t cgroup2 none /sys/fs/cgroup/unified",
            )

    def raise_limits(self, nodes: int, sysctl: Path = SYSCTL) -> None:
        """Raise the kernel's limits that all machines share to what role host_baseline wants of one node.

        A node would do that as well, with this host's kernel; here it is said.

        Args:
            nodes: how many the lab has beside the control plane.
            sysctl: where the kernel shows its parameters.

        Raises:
            ToolError: they cannot be raised, and there are too few for that many machines.
        """
        for name, least in specs.load().variables["host_baseline_sysctl_minimum"].default.items():
            file = sysctl / name.replace(".", "/")
            seen = int(file.read_text())
            if seen >= least:
                continue
            try:
                file.write_text(f"{least}\n")
            except OSError as error:
                needed = INSTANCES_OF_LAB + nodes * INSTANCES_OF_NODE
                if name == INSTANCES and seen < needed:
                    raise ToolError(
                        f"The host's '{name}' is {seen} and cannot be set here ({error.strerror}); all machines share it,"
                        f" and {nodes} nodes need {needed}.",
                        f"Run 'sysctl -w {name}={least}' as root of the host, or start fewer nodes.",
                    ) from error
                continue
            say(
                f"Raised '{name}' of this host from {seen} to {least}, until its next boot: all machines share it."
            )

    def ignored_preflight_errors(self) -> list[dict[str, str]]:
        """What kubeadm's preflight may find on this host without stopping, with the reason."""
        if self.cgroup_version == 2:
            return []
        return [
            {
                "name": "SystemVerification",
                "reason": "The host of the lab has cgroup v1, which machines in containers share; "
                "kubeadm treats that as an error since Kubernetes 1.35.",
            }
        ]

    def kubelet_config(self) -> dict[str, object]:
        """KubeletConfiguration fields that a machine in a container needs, see `KUBELET_REASONS`."""
        config: dict[str, object] = {
            "failSwapOn": False,
            "featureGates": {"KubeletInUserNamespace": True},
            "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
            "imageGCHighThresholdPercent": 100,
        }
        if self.cgroup_version == 1:
            config["failCgroupV1"] = False
        return config


KUBELET_REASONS = {
    "failSwapOn": "/proc/swaps shows the swap of the lab's host, which is not ours to turn off.",
    "featureGates": "KubeletInUserNamespace: without CAP_SYS_RESOURCE kubelet cannot write some sysctls and limits.",
    "evictionHard": "The disk is the host's, and how full that is says nothing about a machine.",
    "imageGCHighThresholdPercent": "The same.",
    "failCgroupV1": "The host of the lab has cgroup v1.",
}


def _at_most(kind: int, wanted: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
