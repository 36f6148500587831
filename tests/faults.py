"""Ways in which a node can be broken, as changes of a healthy record: which check fails, what it says, and what cures it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusmith.problems import Cure
from tests.unit.records import cdi_spec

Record = dict[str, Any]


ADDRESS = "0000:2a:00.0"


UUID = "GPU-00000001-1111-2222-3333-444444444441"


@dataclass(frozen=True)
class Fault:
    """A broken node.

    Attributes:
        breaks: changes a healthy record.
        check: the check that must fail.
        says: words of its cause.
        others: checks that may fail as well.
    """

    breaks: Callable[[Record], object]
    check: str
    says: tuple[str, ...]
    others: frozenset[str] = frozenset()


def library_mismatch(record: Record) -> None:
    record["library"].update(nvml_version="580.95.05", cuda_version="580.95.05")
    record["nvml"].update(init_code=18, error="Driver/library version mismatch", gpus=[])


def not_loaded(record: Record) -> None:
    record["module"].update(loaded_version=None, refcount=None, loaded_unix=None)
    record["nvml"].update(init_code=9, error="Driver Not Loaded", gpus=[])
    record["dev"].update(gpu_minors=[], control=False, uvm=False)
    record["services"]["nvidia-persistenced"]["active"] = "failed"
    record["services"]["nvidia-fabricmanager"]["active"] = "failed"


def gpu_missing(record: Record) -> None:
    del record["pci"]["gpus"][1]
    del record["nvml"]["gpus"][1]
    record["dev"]["gpu_minors"].remove(0)


def device(path: str, **changes: Any) -> Callable[[Record], object]:
    return lambda record: record["dev"]["nodes"][path].update(changes)


def swap_names(devices: list[Record]) -> None:
    devices[0]["name"], devices[1]["name"] = devices[1]["name"], devices[0]["name"]


def spec_of(record: Record) -> Record:
    found: Record = record["cdi"]["specs"][0]
    return found


def cdi_node(record: Record, device: int) -> Record:
    found: Record = spec_of(record)["devices"][device]["nodes"][0]
    return found


def given_to_vfio(record: Record) -> None:
    record["pci"]["gpus"][1]["driver"] = "vfio-pci"
    del record["nvml"]["gpus"][1]
    record["dev"]["gpu_minors"].remove(0)


def clobbered(record: Record) -> None:
    record["containerd"]["effective"].update(runtime_nvidia=False, systemd_cgroup=False, cdi=False)


def xid(code: int) -> Callable[[Record], object]:
    row = {
        "time_unix": 1.0,
        "pci": ADDRESS,
        "code": code,
        "message": f"NVRM: Xid (PCI:{ADDRESS[:-2]}): {code}, pid=1",
    }
    return lambda record: record["xids"].append(row)


SXID = {
    "pci": "0000:81:00.0",
    "code": 20034,
    "time_unix": 1.0,
    "message": "SXid 20034, Fatal, Link 24 LTSSM Fault Up",
}


def without_file(record: Record, path: str) -> object:
    """A file of ours is gone."""
    return record.get("managed_files", {}).pop(path, None)


def service(name: str, **state: str) -> Callable[[Record], object]:
    return lambda record: record["services"][name].update(state)


def loose(name: str) -> Callable[[Record], object]:
    return lambda record: record["packages"][name].update(held=False)


def version(name: str, text: str) -> Callable[[Record], object]:
    return lambda record: record["packages"][name].update(version=text)


def not_joined(record: Record) -> None:
    record["kubernetes"].update(joined=False, node_name=None)
    record["services"]["kubelet"].update(active="activating")


def no_driver(record: Record) -> None:
    """A machine before its first site.yml, as far as the driver goes."""
    not_joined(record)
    not_loaded(record)
    record["module"].update(installed_version=None, flavour=None, firmware=None)
    record["library"].update(nvml_version=None, cuda_version=None, simulated=None, nvidia_smi=None)
    for file in record["library"]["files"].values():
        file["path"] = None
    for name in [
        name for name in record["packages"] if name.startswith(("nvidia-", "lib")) and "container" not in name
    ]:
        del record["packages"][name]


def older_driver_before_the_join(record: Record) -> None:
    not_joined(record)
    version("libcuda1", "580.95.05-1")(record)


def no_toolkit(record: Record) -> None:
    for name in ("nvidia-container-toolkit", "nvidia-container-toolkit-base"):
        record["packages"].pop(name, None)
    record["containerd"].update(runtime_binary_found=False)


NO_WATCHER = (
    "failed to create CRI service: failed to create cni conf monitor for default:"
    " failed to create fsnotify watcher: too many open files"
)

LINKS = ("195:0", "195:1", "195:2", "195:3", "195:255", "511:0", "511:1")
"""In /dev/char, of a healthy node."""
HOST_FILES = (
    "/etc/modules-load.d/gpusmith-host-baseline.conf",
    "/etc/sysctl.d/gpusmith-host-baseline.conf",
)

FAULTS = {
    "driver-library-mismatch": Fault(
        library_mismatch, "nodes.driver-versions", ("mismatch", "580.95.05", "580.178.04"),
        frozenset({"nodes.nvml", "nodes.gpu-count"}),
    ),
    "driver-not-loaded": Fault(
        not_loaded, "nodes.driver-versions", ("not loaded",),
        frozenset({"nodes.nvml", "nodes.gpu-count", "nodes.services", "nodes.fabric"}),
    ),
    "gpu-lost": Fault(
        lambda record: record["nvml"]["gpus"][1].update(error="GPU is lost"), "nodes.nvml", ("GPU 1", UUID, "GPU is lost")
    ),
    "gpu-lost-without-handle": Fault(
        lambda record: record["nvml"]["gpus"][1].update(error="GPU is lost", uuid=None, pci=None, minor=None, name=None),
        "nodes.nvml", ("GPU 1", f"PCI {ADDRESS}", "GPU is lost"), frozenset({"nodes.cdi"}),
    ),
    "gpu-missing": Fault(
        gpu_missing, "nodes.gpu-count", ("3 on PCI", "4 in the inventory", "1 of 4 GPUs are missing", f"none at PCI {ADDRESS}"),
        frozenset({"nodes.cdi"}),
    ),
    "xid-79": Fault(xid(79), "nodes.xid", ("GPU 1", UUID, ADDRESS, "Xid 79", "fallen off the bus")),
    "xid-8": Fault(xid(8), "nodes.xid", ("GPU 1", "Xid 8", "application")),
    "kernel-log-begins-late": Fault(
        lambda record: record["module"].update(loaded_unix=None), "nodes.xid", ("after the driver was loaded",)
    ),
    "xid-of-no-list": Fault(xid(999), "nodes.xid", ("GPU 1", "Xid 999")),
    "ecc-uncorrectable": Fault(
        lambda record: record["nvml"]["gpus"][1].update(ecc_uncorrected=2), "nodes.ecc", ("GPU 1", UUID, "2 uncorrectable")
    ),
    "throttle": Fault(
        lambda record: record["nvml"]["gpus"][1].update(throttle_reasons=["hw_thermal_slowdown"]),
        "nodes.throttle", ("GPU 1", UUID, "hw_thermal_slowdown", "too hot"),
    ),
    "fabric-manager-down": Fault(
        lambda record: record["services"]["nvidia-fabricmanager"].update(active="inactive"),
        "nodes.fabric", ("nvidia-fabricmanager", "inactive"),
    ),
    "fabric-of-one-gpu": Fault(
        lambda record: record["nvml"]["gpus"][1].update(fabric_state="in_progress", fabric_status=None),
        "nodes.fabric", ("GPU 1", "in_progress"),
    ),
    "containerd-config-clobbered": Fault(clobbered, "nodes.containerd", ("no runtime 'nvidia'", "systemd", "CDI")),
    "row-remap-pending": Fault(
        lambda record: record["nvml"]["gpus"][1].update(remap_pending=True), "nodes.row-remap", ("GPU 1", "waits")
    ),
    "row-remap-failed": Fault(
        lambda record: record["nvml"]["gpus"][1].update(remap_failed=True), "nodes.row-remap", ("GPU 1", "could not remap")
    ),
    "device-node-missing": Fault(
        lambda record: record["dev"]["gpu_minors"].remove(0), "nodes.gpu-count", ("3 in /dev", "GPU 1", "/dev/nvidia0")
    ),
    "device-node-too-many": Fault(
        lambda record: record["dev"].update(gpu_minors=[0, 1, 2, 3, 4], char_links=[*LINKS, "195:4"]),
        "nodes.gpu-count", ("5 in /dev", "/dev/nvidia4 belongs to no GPU"),
    ),
    "switch-fatal": Fault(
        lambda record: record["sxids"].append({**SXID, "fatal": True}), "nodes.fabric", ("0000:81:00.0", "SXid 20034", "Link 24"),
    ),
    "switch-log-unreadable": Fault(
        lambda record: record.update(sxids=None), "nodes.fabric", ("kernel's log could not be read",)
    ),
    "another-board": Fault(
        lambda record: record["pci"]["gpus"][1].update(device_id="10de:2335"),
        "nodes.gpu-model", ("GPU 1", "10de:2335", "h100-sxm")
    ),
    "persistence-daemon-down": Fault(
        lambda record: record["services"]["nvidia-persistenced"].update(active="failed"),
        "nodes.services", ("nvidia-persistenced", "failed")
    ),
    "kubelet-disabled": Fault(
        lambda record: record["services"]["kubelet"].update(enabled="disabled"), "nodes.services", ("kubelet", "after a reboot")
    ),
    "module-not-loaded-at-boot": Fault(
        lambda record: record["services"]["gpusmith-nvidia-load"].update(enabled="disabled"),
        "nodes.services", ("gpusmith-nvidia-load", "disabled", "after a reboot"),
    ),
    "device-unit-masked": Fault(
        lambda record: record["services"]["gpusmith-gpu-devices"].update(enabled="masked"),
        "nodes.services", ("gpusmith-gpu-devices", "masked", "after a reboot"),
    ),
    "stale-cdi": Fault(
        lambda record: spec_of(record).update(driver_version="580.95.05"), "nodes.cdi", ("580.95.05", "580.178.04")
    ),
    "cdi-without-a-gpu": Fault(lambda record: spec_of(record)["devices"].pop(1), "nodes.cdi", ("GPU 1",)),
    "cdi-gives-another-gpu": Fault(
        lambda record: cdi_node(record, 2).update(path="/dev/nvidia2", host_path="/dev/nvidia2"),
        "nodes.cdi", ("device '2' of '/var/run/cdi/nvidia.yaml'", "/dev/nvidia2", "GPU 2", "/dev/nvidia3"),
    ),
    "cdi-gives-another-gpu-under-its-path": Fault(
        lambda record: cdi_node(record, 2).update(host_path="/dev/nvidia2"), "nodes.cdi", ("device '2'", "/dev/nvidia2", "GPU 2"),
    ),
    "cdi-gives-another-device-number": Fault(
        lambda record: cdi_node(record, 2).update(numbers="195:2"), "nodes.cdi", ("device '2'", "195:2", "GPU 2", "195:3"),
    ),
    "cdi-gives-no-device": Fault(
        lambda record: spec_of(record)["devices"][2].update(nodes=[]),
        "nodes.cdi", ("device '2'", "gives no GPU's device node", "GPU 2"),
    ),
    "cdi-all-is-not-all": Fault(
        lambda record: spec_of(record)["devices"][4]["nodes"].pop(), "nodes.cdi", ("device 'all'", "/dev/nvidia3"),
    ),
    "cdi-unreadable": Fault(
        lambda record: spec_of(record).update(problem="line 7: anchors are not read", devices=[]),
        "nodes.cdi", ("'/var/run/cdi/nvidia.yaml' cannot be read", "line 7"),
    ),
    "plugin-gives-another-gpu": Fault(
        lambda record: swap_names(record["cdi"]["plugin_specs"][0]["devices"]),
        "nodes.cdi", ("CDI device 'GPU-", "k8s.device-plugin.nvidia.com-gpu.json' gives /dev/nvidia0", "GPU 0", "GPU 1"),
    ),
    "plugin-gives-another-number": Fault(
        lambda record: record["cdi"]["plugin_specs"][0]["devices"][2]["nodes"][0].update(numbers="195:1"),
        "nodes.cdi", ("195:1", "GPU 2"),
    ),
    "plugin-unreadable": Fault(
        lambda record: record["cdi"]["plugin_specs"][0].update(problem="no JSON", devices=[]),
        "nodes.cdi", ("device plugin's CDI specification", "cannot be read: no JSON"),
    ),
    "kubelet-conf-gone": Fault(
        lambda record: record["kubernetes"].update(joined=False, node_name=None),
        "nodes.identity", ("kubelet runs", "/etc/kubernetes/kubelet.conf", "gone"),
    ),
    "unit-files-changed": Fault(
        lambda record: record["services"]["kubelet"].update(changed=True),
        "nodes.services", ("'kubelet' runs by other unit files",),
    ),
    "boot-unit-deleted": Fault(
        lambda record: record["services"]["gpusmith-gpu-devices"].update(enabled="not-found", active="inactive"),
        "nodes.services", ("'gpusmith-gpu-devices' is not-found", "after a reboot"),
    ),
    "boot-parameters-masked": Fault(
        lambda record: record["services"]["systemd-sysctl"].update(enabled="masked"),
        "nodes.services", ("'systemd-sysctl' is masked", "no kernel parameters are set"),
    ),
    "cdi-copy-in-the-same-folder": Fault(
        lambda record: record["cdi"]["specs"].append(cdi_spec("/var/run/cdi/copy.yaml")),
        "nodes.cdi", ("'/var/run/cdi/copy.yaml'", "'/var/run/cdi/nvidia.yaml'", "both have", "'0'", "refuses"),
    ),
    "cdi-stale-spec-wins": Fault(
        lambda record: (
            record["cdi"].update(specs=[cdi_spec("/etc/cdi/nvidia.yaml", 0), cdi_spec()]),
            record["cdi"]["specs"][1].update(driver_version="580.95.05"),
        ),
        "nodes.cdi", ("'/var/run/cdi/nvidia.yaml' is for driver 580.95.05", "shadows '/etc/cdi/nvidia.yaml'"),
    ),
    "cdi-stale-spec-adds-a-name": Fault(
        lambda record: record["cdi"]["specs"].insert(
            0, {**cdi_spec("/etc/cdi/nvidia.yaml", 0), "driver_version": "580.95.05", "devices": [{"name": "gpu0", "nodes": []}]}
        ),
        "nodes.cdi", ("'/etc/cdi/nvidia.yaml' is for driver 580.95.05", "'gpu0'"),
    ),
    "no-char-link": Fault(lambda record: record["dev"]["char_links"].remove("195:0"), "nodes.char-links", ("/dev/char/195:0",)),
    "not-held": Fault(
        lambda record: record["packages"]["libcuda1"].update(held=False), "nodes.holds", ("libcuda1", "not held")
    ),
    "narrow-link": Fault(
        lambda record: record["nvml"]["gpus"][1].update(pcie_width=8), "nodes.pcie-width", ("GPU 1", "8 PCIe lanes", "16")
    ),
    "narrow-slot": Fault(
        lambda record: record["nvml"]["gpus"][1].update(pcie_width=8, pcie_width_max=8),
        "nodes.pcie-width", ("GPU 1", "8 PCIe lanes", "16", "slot"), frozenset({"nodes.uniformity"}),
    ),
    "nvml-of-another-driver": Fault(
        lambda record: record["nvml"].update(driver_version="570.1.2"),
        "nodes.driver-versions", ("NVML says that the driver is 570.1.2", "580.178.04"),
    ),
    "nvml-without-a-version": Fault(
        lambda record: record["nvml"].update(driver_version=None),
        "nodes.driver-versions", ("NVML does not tell the driver's version",),
    ),
    "no-char-link-of-uvm": Fault(
        lambda record: record["dev"]["char_links"].remove("511:0"), "nodes.char-links", ("/dev/char/511:0",)
    ),
    "other-kernel": Fault(lambda record: record["host"].update(kernel="6.12"), "nodes.uniformity", ("kernel", "6.12", "6.1.0")),
    "package-of-other-version": Fault(
        lambda record: record["packages"]["libcuda1"].update(version="595.91.07-1"),
        "nodes.driver-versions", ("'libcuda1' is 595.91.07", "580.178.04"),
    ),
    "nouveau": Fault(lambda record: record["module"].update(nouveau_loaded=True), "nodes.driver-versions", ("nouveau",)),
    "switch-missing": Fault(
        lambda record: record["pci"]["nvswitches"].pop(),
        "nodes.fabric", ("3 NVSwitches", "has 4"), frozenset({"nodes.uniformity"}),
    ),
    "no-module-file": Fault(
        lambda record: record["module"].update(installed_version=None),
        "nodes.driver-versions", ("no module file for kernel 6.1.0", "next boot"),
    ),
    "rest-of-another-driver": Fault(
        lambda record: record["packages"].update({"libnvidia-ptxjitcompiler1": {"version": "570.86.10-1", "held": True}}),
        "nodes.driver-versions", ("'libnvidia-ptxjitcompiler1' is 570.86.10", "580.178.04"),
    ),
    "firmware-missing": Fault(
        lambda record: record["module"].update(firmware=[]),
        "nodes.driver-versions", ("firmware", "/lib/firmware/nvidia/580.178.04"),
    ),
    "nvidia-smi-missing": Fault(
        lambda record: record["library"].update(nvidia_smi=None), "nodes.driver-versions", ("nvidia-smi",)
    ),
    "same-number-other-addresses": Fault(
        lambda record: record["pci"]["gpus"][1].update(address="0000:99:00.0"),
        "nodes.gpu-count", ("0000:99:00.0 is unknown to NVML", "GPU 1", "not on the PCI bus"),
    ),
    "same-number-other-minors": Fault(
        lambda record: record["dev"].update(gpu_minors=[0, 1, 2, 7], char_links=[*LINKS, "195:7"]),
        "nodes.gpu-count", ("GPU 2", "no device node /dev/nvidia3", "/dev/nvidia7 belongs to no GPU"),
    ),
    "uuid-twice": Fault(
        lambda record: record["nvml"]["gpus"][2].update(uuid=UUID), "nodes.gpu-count", (UUID, "2 GPUs")
    ),
    "no-uvm-device": Fault(
        lambda record: record["dev"].update(uvm=False), "nodes.gpu-count", ("/dev/nvidia-uvm", "CUDA")
    ),
    "no-control-device": Fault(
        lambda record: record["dev"].update(control=False), "nodes.gpu-count", ("/dev/nvidiactl",)
    ),
    "device-node-is-a-file": Fault(
        device("/dev/nvidia3", kind="file", major=None, minor=None),
        "nodes.gpu-count", ("/dev/nvidia3 of GPU 2", "a regular file, not a character device"),
    ),
    "device-node-is-a-link": Fault(
        device("/dev/nvidia3", kind="link", major=None, minor=None), "nodes.gpu-count", ("/dev/nvidia3", "a symbolic link"),
    ),
    "device-node-closed": Fault(
        device("/dev/nvidia3", mode=0), "nodes.gpu-count", ("/dev/nvidia3 of GPU 2", "mode 0000", "0666"),
    ),
    "device-node-of-another-gpu": Fault(
        device("/dev/nvidia3", minor=2), "nodes.gpu-count", ("/dev/nvidia3 of GPU 2", "device 195:2", "must be 195:3"),
    ),
    "device-node-of-another-driver": Fault(
        device("/dev/nvidia3", major=1), "nodes.gpu-count", ("/dev/nvidia3 of GPU 2", "device 1:3", "must be 195:3"),
    ),
    "control-device-of-another-driver": Fault(
        device("/dev/nvidiactl", major=1, minor=3), "nodes.gpu-count", ("/dev/nvidiactl", "device 1:3", "must be 195:255"),
    ),
    "uvm-device-of-an-earlier-load": Fault(
        device("/dev/nvidia-uvm", major=510), "nodes.gpu-count", ("/dev/nvidia-uvm is device 510:0", "must be 511:0"),
    ),
    "uvm-device-is-a-file": Fault(
        device("/dev/nvidia-uvm", kind="file", major=None, minor=None), "nodes.gpu-count", ("/dev/nvidia-uvm", "a regular file"),
    ),
    "no-uvm-tools-device": Fault(
        lambda record: record["dev"].update(uvm_tools=False), "nodes.gpu-count", ("/dev/nvidia-uvm-tools", "profilers"),
    ),
    "no-device-node-at-all": Fault(
        lambda record: record["dev"].update(gpu_minors=[], control=False, uvm=False, uvm_tools=False, char_links=[], nodes={}),
        "nodes.gpu-count", ("0 in /dev", "/dev/nvidiactl is missing"),
    ),
    "device-nodes-unread": Fault(
        lambda record: record["dev"].update(nodes=None), "nodes.gpu-count", ("device nodes could not be read",),
    ),
    "given-to-vfio": Fault(
        given_to_vfio, "nodes.gpu-count", (f"PCI {ADDRESS} is unknown to NVML", "vfio-pci"), frozenset({"nodes.cdi"})
    ),
    "mig-on-one-gpu": Fault(
        lambda record: record["nvml"]["gpus"][1].update(mig_mode="enabled"),
        "nodes.gpu-model", ("GPU 1", UUID, "MIG"), frozenset({"nodes.uniformity"}),
    ),
    "mig-after-reset": Fault(
        lambda record: record["nvml"]["gpus"][1].update(mig_mode_pending="enabled"), "nodes.gpu-model", ("GPU 1", "next reset")
    ),
    "uuid-unreadable": Fault(
        lambda record: record["nvml"]["gpus"][1].update(minor=None, unreadable={"minor": "Unknown Error"}),
        "nodes.nvml", ("GPU 1", "minor", "Unknown Error"), frozenset({"nodes.gpu-count"}),
    ),
    "switches-fewer-than-others": Fault(
        lambda record: record["pci"].update(nvswitches=[]), "nodes.uniformity", ("NVSwitches", "'0'", "'4'")
    ),
    "slot-narrower-than-others": Fault(
        lambda record: [gpu.update(pcie_width=8, pcie_width_max=8) for gpu in record["nvml"]["gpus"]],
        "nodes.uniformity", ("PCIe lanes", "8", "16"), frozenset({"nodes.pcie-width"}),
    ),
    "containerd-older-than-its-configuration": Fault(
        lambda record: record["containerd"].update(config_changed_unix=99.0, noted_digest=None, noted_unix=None),
        "nodes.containerd", ("started before its configuration",),
    ),
    "containerd-started-with-another-configuration": Fault(
        lambda record: record["containerd"].update(noted_digest="other", noted_unix=2.0),
        "nodes.containerd", ("started with another configuration",),
    ),
    "cri-plugin-down": Fault(
        lambda record: record["containerd"].update(cri={"up": False, "error": NO_WATCHER}),
        "nodes.cri", ("CRI plugin does not", NO_WATCHER, "'fs.inotify.max_user_instances' is '8192'"),
    ),
    "cri-plugin-cannot-be-asked": Fault(
        lambda record: record["containerd"].update(cri={"up": None, "error": "there is no 'ctr'"}),
        "nodes.cri", ("cannot be asked", "there is no 'ctr'"),
    ),
    "runtime-program-missing": Fault(
        lambda record: record["containerd"].update(runtime_binary_found=False),
        "nodes.containerd", ("nvidia-container-runtime", "is not there"),
    ),
    "runtime-is-another-program": Fault(
        lambda record: record["containerd"]["effective"].update(runtime_binary="/usr/bin/runc"),
        "nodes.containerd", ("/usr/bin/runc",),
    ),
    "nvidia-for-every-pod": Fault(
        lambda record: record["containerd"]["effective"].update(default_runtime="nvidia"),
        "nodes.containerd", ("every pod runs with the NVIDIA runtime", "'nvidia'"),
    ),
    "nvidia-for-every-pod-by-another-name": Fault(
        lambda record: record["containerd"]["effective"].update(default_binary="/usr/bin/nvidia-container-runtime"),
        "nodes.containerd", ("every pod runs with the NVIDIA runtime", "'runc'", "/usr/bin/nvidia-container-runtime"),
    ),
    "default-runtime-unread": Fault(
        lambda record: record["containerd"]["effective"].update(default_runtime=None), "nodes.containerd", ("default runtime",),
    ),
    "cuda-library-empty": Fault(
        lambda record: record["library"]["files"]["cuda"].update(fault="is empty"),
        "nodes.driver-versions", ("CUDA library '/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04' is empty",),
    ),
    "nvml-library-cut-off": Fault(
        lambda record: record["library"]["files"]["nvidia-ml"].update(fault="is cut off after 4096 bytes"),
        "nodes.driver-versions", ("NVML library", "cut off"),
    ),
    "cuda-library-shadowed": Fault(
        lambda record: (
            record["library"].update(cuda_version=None),
            record["library"]["files"]["cuda"].update(
                path="/usr/local/lib/libcuda.so.1", shadows=["/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04"]
            ),
        ),
        "nodes.driver-versions",
        ("'/usr/local/lib/libcuda.so.1'", "no file of the driver", "shadows '/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04'"),
    ),
    "cuda-library-shadowed-by-another-version": Fault(
        lambda record: (
            record["library"].update(cuda_version="550.54.14"),
            record["library"]["files"]["cuda"].update(
                path="/usr/local/lib/libcuda.so.550.54.14", shadows=["/usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04"]
            ),
        ),
        "nodes.driver-versions",
        ("mismatch", "550.54.14", "'/usr/local/lib/libcuda.so.550.54.14'", "shadows '/usr/lib/x86_64-linux-gnu/libcuda"),
    ),
    "libraries-unread": Fault(
        lambda record: record["library"].update(files=None), "nodes.driver-versions", ("files", "could not be read"),
    ),
    "cdi-of-a-gpu-that-left": Fault(
        lambda record: spec_of(record)["devices"].extend([{"name": "4", "nodes": []}, {"name": "GPU-gone", "nodes": []}]),
        "nodes.cdi", ("'4'", "'GPU-gone'", "no GPU of the node"),
    ),
    "library-not-simulated": Fault(
        lambda record: record["library"].update(simulated=False),
        "nodes.simulation-witnesses", ("says its GPUs are simulated", "real"), frozenset({"nodes.xid"})
    ),
    "swap-on": Fault(
        lambda record: record["system"].update(swap_areas=["/dev/sda2"]), "nodes.host-baseline", ("swap is on", "'/dev/sda2'")
    ),
    "swap-at-boot": Fault(
        lambda record: record["system"].update(swap_fstab=["/swapfile"], swap_target_masked=False),
        "nodes.host-baseline", ("'/swapfile'", "/etc/fstab", "swap.target"),
    ),
    "no-forwarding": Fault(
        lambda record: record["system"]["sysctl"].update({"net.ipv4.ip_forward": "0"}),
        "nodes.host-baseline", ("'net.ipv4.ip_forward' is '0'", "'1'"),
    ),
    "swap-unit-at-boot": Fault(
        lambda record: record["boot"].update(swap_units=["/etc/systemd/system/multi-user.target.wants/a.swap"]),
        "nodes.host-baseline", ("swap unit is turned on at", "'/etc/systemd/system/multi-user.target.wants/a.swap'"),
    ),
    "module-of-no-boot": Fault(
        lambda record: (record["boot"]["modules"]["br_netfilter"].update(file=None), without_file(record, HOST_FILES[0])),
        "nodes.host-baseline",
        ("'br_netfilter' is loaded now, but no boot would load it (no file in modules-load.d names it)",),
    ),
    "module-forbidden-at-boot": Fault(
        lambda record: record["boot"]["modules"]["overlay"].update(forbidden_by="/etc/modprobe.d/hard.conf"),
        "nodes.host-baseline",
        ("'overlay' is loaded now, but no boot would load it (file '/etc/modprobe.d/hard.conf' forbids it)",),
    ),
    "parameter-of-no-boot": Fault(
        lambda record: (
            record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value=None, files=[]), without_file(record, HOST_FILES[1]),
        ),
        "nodes.host-baseline",
        ("'net.ipv4.ip_forward' is '1' now, but no boot would set it (no file in sysctl.d names it)",),
    ),
    "parameter-taken-out-at-boot": Fault(
        lambda record: record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value=None, files=["/etc/sysctl.d/zz.conf"]),
        "nodes.host-baseline", ("is '1' now, but no boot would set it (file '/etc/sysctl.d/zz.conf')",),
    ),
    "parameter-overridden-at-boot": Fault(
        lambda record: record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value="0", files=["/etc/sysctl.d/zz.conf"]),
        "nodes.host-baseline",
        ("'net.ipv4.ip_forward' is '1' now, but a boot would set '0' (file '/etc/sysctl.d/zz.conf'), wanted is '1'",),
    ),
    "too-few-inotify-instances": Fault(
        lambda record: record["system"]["sysctl"].update({"fs.inotify.max_user_instances": "128"}),
        "nodes.host-baseline", ("'fs.inotify.max_user_instances' is '128', wanted is at least '8192'",),
    ),
    "too-few-inotify-instances-of-a-container": Fault(
        lambda record: (
            record["system"]["sysctl"].update({"fs.inotify.max_user_instances": "128"}),
            record["system"].update(locked=["fs.inotify.max_user_instances"]),
        ),
        "nodes.host-baseline", ("'fs.inotify.max_user_instances' is '128', wanted is at least '8192'",),
    ),
    "fewer-inotify-watches-at-boot": Fault(
        lambda record: record["boot"]["sysctl"]["fs.inotify.max_user_watches"].update(
            value="65536", files=["/etc/sysctl.d/zz.conf"]
        ),
        "nodes.host-baseline",
        ("'fs.inotify.max_user_watches' is '524288', and a boot would set '65536' ('/etc/sysctl.d/zz.conf')",),
    ),
    "bridge-module-gone": Fault(
        lambda record: record["system"].update(
            modules={"overlay": True, "br_netfilter": False}, sysctl={"net.ipv4.ip_forward": "1"}
        ),
        "nodes.host-baseline",
        ("'br_netfilter' is not loaded", "'net.bridge.bridge-nf-call-iptables' is not there", "needs module 'br_netfilter'"),
    ),
    "library-missing": Fault(
        lambda record: record["library"].update(simulated=None),
        "nodes.simulation-witnesses", ("cannot be loaded",), frozenset({"nodes.xid"}),
    ),
    "containerd-stopped": Fault(
        service("containerd", active="inactive"), "nodes.services", ("'containerd' is inactive", "no container")
    ),
    "containerd-disabled": Fault(
        service("containerd", enabled="disabled"), "nodes.services", ("'containerd' runs but is disabled",)
    ),
    "kubelet-stopped": Fault(service("kubelet", active="inactive"), "nodes.services", ("'kubelet' is inactive",)),
    "not-joined": Fault(not_joined, "nodes.services", ("'kubelet' is activating",)),
    "persistence-daemon-disabled": Fault(
        service("nvidia-persistenced", enabled="disabled"), "nodes.services", ("'nvidia-persistenced' runs but is disabled",)
    ),
    "fabric-manager-disabled": Fault(
        service("nvidia-fabricmanager", enabled="disabled"), "nodes.fabric", ("'nvidia-fabricmanager' runs but is disabled",)
    ),
    "module-load-masked": Fault(
        service("systemd-modules-load", enabled="masked"), "nodes.services", ("no kernel modules are loaded",)
    ),
    "runtime-not-held": Fault(loose("containerd.io"), "nodes.holds", ("containerd.io", "not held")),
    "toolkit-not-held": Fault(loose("nvidia-container-toolkit"), "nodes.holds", ("nvidia-container-toolkit", "not held")),
    "kubelet-not-held": Fault(loose("kubelet"), "nodes.holds", ("kubelet", "not held")),
    "runtime-of-another-version": Fault(
        version("containerd.io", "2.2.1-1"), "nodes.holds", ("'containerd.io' is 2.2.1, the inventory wants 2.3.7",)
    ),
    "kubelet-of-another-version": Fault(
        version("kubelet", "1.36.2-1.1"), "nodes.holds", ("'kubelet' is 1.36.2, the inventory wants 1.36.3",)
    ),
    "no-driver": Fault(
        no_driver, "nodes.driver-versions", ("no driver package is installed", "the CUDA library is missing"),
        frozenset({"nodes.nvml", "nodes.gpu-count", "nodes.fabric", "nodes.simulation-witnesses", "nodes.services", "nodes.xid"}),
    ),
    "older-driver-before-the-join": Fault(
        older_driver_before_the_join, "nodes.driver-versions", ("'libcuda1' is 580.95.05",), frozenset({"nodes.services"})
    ),
    "driver-of-a-dotted-version": Fault(
        version("libcuda1", "580.178.04.1-1"), "nodes.driver-versions", ("'libcuda1' is 580.178.04.1",)
    ),
    "toolkit-missing": Fault(no_toolkit, "nodes.containerd", ("nvidia-container-runtime", "is not there")),
    "no-cdi": Fault(lambda record: record["cdi"].update(specs=[], devices=[]), "nodes.cdi", ("there is no CDI specification",)),
    "proprietary-module": Fault(
        lambda record: record["module"].update(flavour="proprietary"),
        "nodes.driver-versions", ("is the proprietary one", "wanted is the open one"), frozenset({"nodes.uniformity"}),
    ),
}  # fmt: skip


def _repair(**cures: set[Cure]) -> Mapping[str, frozenset[Cure]]:
    return {role: frozenset(kinds) for role, kinds in cures.items()}


REPAIRS: Mapping[str, Mapping[str, frozenset[Cure]]] = {
    "driver-not-loaded": _repair(nvidia_driver={Cure.LOAD, Cure.SERVICES}),
    "gpu-missing": _repair(nvidia_container_toolkit={Cure.CDI}),
    "fabric-manager-down": _repair(nvidia_driver={Cure.SERVICES}),
    "containerd-config-clobbered": _repair(
        containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}
    ),
    "persistence-daemon-down": _repair(nvidia_driver={Cure.SERVICES}),
    "kubelet-disabled": _repair(kubernetes_node={Cure.SERVICES}),
    "module-not-loaded-at-boot": _repair(nvidia_driver={Cure.SERVICES}),
    "device-unit-masked": _repair(nvidia_container_toolkit={Cure.SERVICES}),
    "stale-cdi": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-without-a-gpu": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-gives-another-gpu": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-gives-another-gpu-under-its-path": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-gives-another-device-number": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-gives-no-device": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-all-is-not-all": _repair(nvidia_container_toolkit={Cure.CDI}),
    "cdi-unreadable": _repair(nvidia_container_toolkit={Cure.CDI}),
    "boot-unit-deleted": _repair(nvidia_container_toolkit={Cure.SERVICES}),
    "boot-parameters-masked": _repair(host_baseline={Cure.SERVICES}),
    "cdi-stale-spec-wins": _repair(nvidia_container_toolkit={Cure.CDI}),
    "no-char-link": _repair(nvidia_container_toolkit={Cure.LINKS}),
    "no-char-link-of-uvm": _repair(nvidia_container_toolkit={Cure.LINKS}),
    "not-held": _repair(nvidia_driver={Cure.HOLD}),
    "no-module-file": _repair(nvidia_driver={Cure.PACKAGES}),
    "no-uvm-device": _repair(nvidia_driver={Cure.LOAD}),
    "no-control-device": _repair(nvidia_driver={Cure.LOAD}),
    "no-uvm-tools-device": _repair(nvidia_driver={Cure.LOAD}),
    "no-device-node-at-all": _repair(nvidia_driver={Cure.LOAD}),
    "given-to-vfio": _repair(nvidia_container_toolkit={Cure.CDI}),
    "containerd-older-than-its-configuration": _repair(
        containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}
    ),
    "containerd-started-with-another-configuration": _repair(
        containerd={Cure.CONTAINERD}, nvidia_container_toolkit={Cure.CONTAINERD}
    ),
    "cri-plugin-down": _repair(containerd={Cure.CONTAINERD}),
    "runtime-is-another-program": _repair(nvidia_container_toolkit={Cure.CONTAINERD}),
    "nvidia-for-every-pod": _repair(nvidia_container_toolkit={Cure.CONTAINERD}),
    "nvidia-for-every-pod-by-another-name": _repair(nvidia_container_toolkit={Cure.CONTAINERD}),
    "cdi-of-a-gpu-that-left": _repair(nvidia_container_toolkit={Cure.CDI}),
    "swap-on": _repair(host_baseline={Cure.HOST}),
    "swap-at-boot": _repair(host_baseline={Cure.HOST}),
    "no-forwarding": _repair(host_baseline={Cure.HOST}),
    "swap-unit-at-boot": _repair(host_baseline={Cure.HOST}),
    "module-of-no-boot": _repair(host_baseline={Cure.HOST}),
    "parameter-of-no-boot": _repair(host_baseline={Cure.HOST}),
    "too-few-inotify-instances": _repair(host_baseline={Cure.HOST}),
    "bridge-module-gone": _repair(host_baseline={Cure.HOST}),
    "containerd-stopped": _repair(containerd={Cure.SERVICES}),
    "containerd-disabled": _repair(containerd={Cure.SERVICES}),
    "kubelet-stopped": _repair(kubernetes_node={Cure.SERVICES}),
    "not-joined": _repair(kubernetes_node={Cure.JOIN}),
    "persistence-daemon-disabled": _repair(nvidia_driver={Cure.SERVICES}),
    "fabric-manager-disabled": _repair(nvidia_driver={Cure.SERVICES}),
    "module-load-masked": _repair(host_baseline={Cure.SERVICES}),
    "runtime-not-held": _repair(containerd={Cure.HOLD}),
    "toolkit-not-held": _repair(nvidia_container_toolkit={Cure.HOLD}),
    "kubelet-not-held": _repair(kubernetes_node={Cure.HOLD}),
    "runtime-of-another-version": _repair(containerd={Cure.PACKAGES}),
    "kubelet-of-another-version": _repair(kubernetes_node={Cure.PACKAGES}),
    "no-driver": _repair(nvidia_driver={Cure.PACKAGES, Cure.SERVICES}, kubernetes_node={Cure.JOIN}),
    "older-driver-before-the-join": _repair(nvidia_driver={Cure.PACKAGES}, kubernetes_node={Cure.JOIN}),
    "toolkit-missing": _repair(nvidia_container_toolkit={Cure.PACKAGES}),
    "no-cdi": _repair(nvidia_container_toolkit={Cure.CDI}),
}
"""What site.yml does about a fault, by the role that does it. The faults that are not here, it does not take away."""
