"""containerd's configuration."""

from __future__ import annotations

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, repairs, sets


def clobbered(record: Record) -> None:
    record["containerd"]["effective"].update(runtime_nvidia=False, systemd_cgroup=False, cdi=False)


def no_toolkit(record: Record) -> None:
    for name in ("nvidia-container-toolkit", "nvidia-container-toolkit-base"):
        record["packages"].pop(name, None)
    record["containerd"].update(runtime_binary_found=False)


NO_WATCHER = (
    "failed to create CRI service: failed to create cni conf monitor for default:"
    " failed to create fsnotify watcher: too many open files"
)


FAULTS = {
    "cri-plugin-down": Fault(
        sets("containerd", cri={"up": False, "error": NO_WATCHER}),
        "nodes.cri",
        ("CRI plugin does not", NO_WATCHER, "'fs.inotify.max_user_instances' is '8192'"),
        repairs=repairs(containerd={Cure.CONTAINERD}),
    ),
    "cri-plugin-cannot-be-asked": Fault(
        sets("containerd", cri={"up": None, "error": "there is no 'ctr'"}),
        "nodes.cri",
        ("cannot be asked", "there is no 'ctr'"),
    ),
    "containerd-config-clobbered": Fault(
        clobbered,
        "nodes.containerd",
        ("no runtime 'nvidia'", "systemd", "CDI"),
        repairs=repairs(containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "containerd-older-than-its-configuration": Fault(
        sets("containerd", config_changed_unix=99.0, noted_digest=None, noted_unix=None),
        "nodes.containerd",
        ("started before its configuration",),
        repairs=repairs(containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "containerd-started-with-another-configuration": Fault(
        sets("containerd", noted_digest="other", noted_unix=2.0),
        "nodes.containerd",
        ("started with another configuration",),
        repairs=repairs(containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "runtime-program-missing": Fault(
        sets("containerd", runtime_binary_found=False),
        "nodes.containerd",
        ("nvidia-container-runtime", "is not there"),
    ),
    "runtime-is-another-program": Fault(
        sets("containerd", "effective", runtime_binary="/usr/bin/runc"),
        "nodes.containerd",
        ("/usr/bin/runc",),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "nvidia-for-every-pod": Fault(
        sets("containerd", "effective", default_runtime="nvidia"),
        "nodes.containerd",
        ("every pod runs with the NVIDIA runtime", "'nvidia'"),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "nvidia-for-every-pod-by-another-name": Fault(
        sets("containerd", "effective", default_binary="/usr/bin/nvidia-container-runtime"),
        "nodes.containerd",
        ("every pod runs with the NVIDIA runtime", "'runc'", "/usr/bin/nvidia-container-runtime"),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "default-runtime-unread": Fault(
        sets("containerd", "effective", default_runtime=None),
        "nodes.containerd",
        ("default runtime",),
    ),
    "toolkit-missing": Fault(
        no_toolkit,
        "nodes.containerd",
        ("nvidia-container-runtime", "is not there"),
        repairs=repairs(nvidia_container_toolkit={Cure.PACKAGES}),
    ),
}
