"""containerd's configuration."""

from __future__ import annotations

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, repairs


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
        lambda record: record["containerd"].update(cri={"up": False, "error": NO_WATCHER}),
        "nodes.cri",
        ("CRI plugin does not", NO_WATCHER, "'fs.inotify.max_user_instances' is '8192'"),
        repairs=repairs(containerd={Cure.CONTAINERD}),
    ),
    "cri-plugin-cannot-be-asked": Fault(
        lambda record: record["containerd"].update(cri={"up": None, "error": "there is no 'ctr'"}),
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
        lambda record: record["containerd"].update(
            config_changed_unix=99.0, noted_digest=None, noted_unix=None
        ),
        "nodes.containerd",
        ("started before its configuration",),
        repairs=repairs(containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "containerd-started-with-another-configuration": Fault(
        lambda record: record["containerd"].update(noted_digest="other", noted_unix=2.0),
        "nodes.containerd",
        ("started with another configuration",),
        repairs=repairs(containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "runtime-program-missing": Fault(
        lambda record: record["containerd"].update(runtime_binary_found=False),
        "nodes.containerd",
        ("nvidia-container-runtime", "is not there"),
    ),
    "runtime-is-another-program": Fault(
        lambda record: record["containerd"]["effective"].update(runtime_binary="/usr/bin/runc"),
        "nodes.containerd",
        ("/usr/bin/runc",),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "nvidia-for-every-pod": Fault(
        lambda record: record["containerd"]["effective"].update(default_runtime="nvidia"),
        "nodes.containerd",
        ("every pod runs with the NVIDIA runtime", "'nvidia'"),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "nvidia-for-every-pod-by-another-name": Fault(
        lambda record: record["containerd"]["effective"].update(
            default_binary="/usr/bin/nvidia-container-runtime"
        ),
        "nodes.containerd",
        ("every pod runs with the NVIDIA runtime", "'runc'", "/usr/bin/nvidia-container-runtime"),
        repairs=repairs(nvidia_container_toolkit={Cure.CONTAINERD}),
    ),
    "default-runtime-unread": Fault(
        lambda record: record["containerd"]["effective"].update(default_runtime=None),
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
