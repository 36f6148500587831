"""Checks of the nodes tier: one healthy record, and one for each way in which a node can be broken."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from gpusmith import xids
from gpusmith.checks import devices, driver, health, services
from gpusmith.checks import host as host_checks
from gpusmith.errors import ToolError
from gpusmith.findings import CannotAsk, NotApplicable, NotAsked
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from tests.unit.suite.conftest import RECORD_CHECKS, cdi_spec

Record = dict[str, Any]
Facts = Callable[..., NodeFacts]
ADDRESS = "0000:2a:00.0"
UUID = "GPU-00000001-1111-2222-3333-444444444441"


def failing(facts: NodeFacts) -> dict[str, str]:
    """Ids of the checks that find something, with their causes."""
    found = {}
    for name, check in RECORD_CHECKS.items():
        try:
            problems = check(facts)
        except NotAsked:
            continue
        if problems:
            found[name] = " ".join(problem.cause for problem in problems)
            assert all(problem.next_step for problem in problems), name
    return found


def test_healthy_node_passes_everything(facts: Facts, record: Record) -> None:
    assert failing(facts(record)) == {}
    for name, check in RECORD_CHECKS.items():
        assert list(check(facts(record))) == [], name


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
    record["module"].update(loaded_version=None, refcount=None)
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
    "xid-31": Fault(xid(31), "nodes.xid", ("GPU 1", "Xid 31", "application")),
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
        lambda record: record["dev"].update(gpu_minors=[0, 1, 2, 3, 4], char_links=[f"195:{n}" for n in (0, 1, 2, 3, 4, 255)]),
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
        lambda record: record["dev"].update(gpu_minors=[0, 1, 2, 7], char_links=["195:0", "195:1", "195:2", "195:7", "195:255"]),
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
        "nodes.uniformity", ("PCIe lanes", "8", "16"),
    ),
    "containerd-older-than-its-configuration": Fault(
        lambda record: record["containerd"].update(config_changed_unix=99.0, noted_digest=None, noted_unix=None),
        "nodes.containerd", ("started before its configuration",),
    ),
    "containerd-started-with-another-configuration": Fault(
        lambda record: record["containerd"].update(noted_digest="other", noted_unix=2.0),
        "nodes.containerd", ("started with another configuration",),
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
        lambda record: record["boot"]["modules"]["br_netfilter"].update(file=None), "nodes.host-baseline",
        ("'br_netfilter' is loaded now, but no boot would load it (no file in modules-load.d names it)",),
    ),
    "module-forbidden-at-boot": Fault(
        lambda record: record["boot"]["modules"]["overlay"].update(forbidden_by="/etc/modprobe.d/hard.conf"),
        "nodes.host-baseline",
        ("'overlay' is loaded now, but no boot would load it (file '/etc/modprobe.d/hard.conf' forbids it)",),
    ),
    "parameter-of-no-boot": Fault(
        lambda record: record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value=None, files=[]), "nodes.host-baseline",
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
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_caught_and_named(name: str, facts: Facts, record: Record) -> None:
    fault = FAULTS[name]
    fault.breaks(record)
    found = failing(facts(record))
    assert fault.check in found
    assert "gpu-1" in found[fault.check]
    for words in fault.says:
        assert words in found[fault.check]
    assert set(found) <= {fault.check} | fault.others


XIDS = (13, 31, 43, 45, 48, 62, 63, 64, 68, 74, 79, 92, 94, 95, 109, 119, 120, 140, 154)


@pytest.mark.parametrize("code", [*XIDS, 1, 999])
def test_no_xid_passes_by_itself(code: int, facts: Facts, record: Record) -> None:
    xid(code)(record)
    assert f"GPU 1 ({UUID}, {ADDRESS}) reported Xid {code} " in failing(facts(record))["nodes.xid"]


@pytest.mark.parametrize(
    ("code", "says", "next_step"),
    [
        (31, "application level", "'validation_accepted_xids'"),
        (48, "GPU memory", "nodes.row-remap"),
        (64, "could not be remapped", "board replaced"),
        (74, "NVLink", "nvlink --status"),
        (79, "fallen off the bus", "reboot it, a reset of the GPU is not enough"),
        (119, "GSP", "nvidia-bug-report.sh"),
        (999, "unknown to data/xid.yml", "NVIDIA's Xid catalog"),
    ],
)
def test_xid_says_what_it_is_and_what_to_do(
    code: int, says: str, next_step: str, facts: Facts, record: Record
) -> None:
    xid(code)(record)
    (problem,) = RECORD_CHECKS["nodes.xid"](facts(record))
    assert says in problem.cause
    assert next_step in problem.next_step
    assert "'gpu-1'" in problem.next_step or code == 999
    assert "{" not in problem.next_step


def test_every_xid_that_is_likely_has_a_meaning() -> None:
    assert all(xids.load().of(code).meaning for code in XIDS)


def test_accepted_xids_stay_in_the_evidence(facts: Facts, record: Record) -> None:
    for code in (31, 31, 13):
        xid(code)(record)
    of = facts(record, validation_accepted_xids=[13, 31])
    assert health.xid(of) == []
    assert [
        (row["code"], row["count"], row["accepted"], UUID in row["gpu"])
        for row in health.xid_evidence(of.record, of.host.accepted_xids)["xids"]
    ] == [(13, 1, True, True), (31, 2, True, True)]


def test_a_pass_says_since_when_and_from_where_the_log_is(facts: Facts, record: Record) -> None:
    record["log"]["begins_unix"] = 50.0
    record["module"]["loaded_unix"] = None
    of = facts(record)
    assert health.xid(of) == []
    evidence = health.xid_evidence(of.record, frozenset())
    assert (evidence["log_has_driver_load"], evidence["log_begins_unix"], evidence["log_source"]) == (
        False,
        50.0,
        "identifier",
    )


def test_a_log_that_any_user_can_write_proves_nothing_about_a_real_node(facts: Facts, record: Record) -> None:
    record["library"]["simulated"] = False
    found = failing(facts(record, gpusmith_simulated=False))
    assert list(found) == ["nodes.xid"]
    assert "any user can write" in found["nodes.xid"]
    record["log"]["source"] = "kernel"
    assert failing(facts(record, gpusmith_simulated=False)) == {}


def test_an_accepted_flood_hides_no_other_xid(facts: Facts, record: Record) -> None:
    xid(31)(record)
    record["xids_truncated"] = True
    assert (
        "only the youngest 1 were read" in failing(facts(record, validation_accepted_xids=[31]))["nodes.xid"]
    )


HEALTH = {
    "nodes.ecc": ("ecc_uncorrected", "ecc_uncorrected"),
    "nodes.row-remap": ("row_remap", "remap_pending"),
    "nodes.throttle": ("throttle_reasons", "throttle_reasons"),
    "nodes.pcie-width": ("pcie_width_max", "pcie_width_max"),
    "nodes.processes": ("processes", "processes"),
}


@pytest.mark.parametrize("check", HEALTH)
def test_value_that_cannot_be_read_fails_with_nvmls_words(check: str, facts: Facts, record: Record) -> None:
    value, key = HEALTH[check]
    record["nvml"]["gpus"][1].update({key: None, "unreadable": {value: "Insufficient Permissions"}})
    found = failing(facts(record))
    assert list(found) == [check]
    assert UUID in found[check]
    assert "Insufficient Permissions" in found[check]


@pytest.mark.parametrize("check", HEALTH)
def test_null_without_a_word_fails(check: str, facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1][HEALTH[check][1]] = None
    assert list(failing(facts(record))) == [check]


@pytest.mark.parametrize("check", ["nodes.throttle", "nodes.pcie-width", "nodes.processes"])
def test_value_that_a_gpu_does_not_have_is_no_pass_and_no_failure(
    check: str, facts: Facts, record: Record
) -> None:
    value, key = HEALTH[check]
    record["nvml"]["gpus"][1].update({key: None, "unsupported": [value]})
    with pytest.raises(NotApplicable, match=rf"not applicable.*{UUID}.*other 3"):
        RECORD_CHECKS[check](facts(record))
    assert failing(facts(record)) == {}


def not_supported(record: Record, value: str, *keys: str) -> None:
    for gpu in record["nvml"]["gpus"]:
        gpu.update(dict.fromkeys(keys), unsupported=[value])


def test_row_remapping_came_with_ampere(facts: Facts, record: Record) -> None:
    not_supported(record, "row_remap", "remap_pending", "remap_failed")
    with pytest.raises(NotApplicable, match="row remapping"):
        health.row_remap(facts(record, gpusmith_gpu_model="t4"))
    # An H100 that says so has another trouble.
    assert (
        "Not Supported, but GPUs of model 'h100-sxm' have row remapping"
        in failing(facts(record))["nodes.row-remap"]
    )


def test_a_model_with_ecc_must_tell_its_errors(facts: Facts, record: Record) -> None:
    not_supported(record, "ecc_uncorrected", "ecc_uncorrected")
    assert "have ECC" in failing(facts(record))["nodes.ecc"]


def test_ecc_that_is_switched_off_fails_once_per_gpu(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1].update(
        ecc_mode="disabled", ecc_uncorrected=None, unsupported=["ecc_uncorrected"]
    )
    (problem,) = health.ecc(facts(record))
    assert "ECC is switched off on GPU 1" in problem.cause


def test_ecc_that_may_be_off_is_named_and_no_pass(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1].update(
        ecc_mode="disabled", ecc_uncorrected=None, unsupported=["ecc_uncorrected"]
    )
    with pytest.raises(NotApplicable, match="GPU 1"):
        health.ecc(facts(record, validation_ecc_required=False))
    # It accepts no errors of the others.
    record["nvml"]["gpus"][0]["ecc_uncorrected"] = 3
    (problem,) = health.ecc(facts(record, validation_ecc_required=False))
    assert "3 uncorrectable" in problem.cause


def test_problem_of_one_gpu_outweighs_what_another_does_not_have(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][0].update(throttle_reasons=None, unsupported=["throttle_reasons"])
    record["nvml"]["gpus"][1]["throttle_reasons"] = ["hw_slowdown"]
    assert "GPU 1" in failing(facts(record))["nodes.throttle"]


def test_health_of_a_silent_gpu_is_not_passed(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1]["error"] = "GPU is lost"
    for check in HEALTH:
        with pytest.raises(CannotAsk, match=r"GPU 1.*does not answer.*see nodes\.nvml"):
            RECORD_CHECKS[check](facts(record))


def test_process_outside_of_pods_is_named(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][1]["processes"] = [
        {"pid": 7, "name": "python3", "pod": False}, {"pid": 8, "name": "train", "pod": True},
    ]  # fmt: skip
    cause = failing(facts(record))["nodes.processes"]
    assert "GPU 1" in cause
    assert "'python3' (PID 7)" in cause
    assert "train" not in cause


def test_an_error_that_a_switch_survives_fails_nothing(facts: Facts, record: Record) -> None:
    record["sxids"].append({**SXID, "fatal": False})
    assert failing(facts(record)) == {}


def test_two_names_of_one_machine_prove_one(facts: Facts, record: Record) -> None:
    found = failing(facts(record, fleet={"gpu-2": copy.deepcopy(record)}))
    assert set(found) == {"nodes.gpu-count", "nodes.identity"}
    assert "also those of node 'gpu-2'" in found["nodes.gpu-count"]
    assert "one machine" in found["nodes.gpu-count"]


def test_a_mode_that_the_driver_was_told_is_right(facts: Facts, record: Record) -> None:
    record["dev"].update(file_mode=0o660, file_gid=44)
    for node in record["dev"]["nodes"].values():
        node.update(mode=0o660, gid=44)
    assert failing(facts(record)) == {}
    device("/dev/nvidia3", gid=0)(record)
    cause = failing(facts(record))["nodes.gpu-count"]
    assert "/dev/nvidia3 of GPU 2" in cause
    assert "0:0" in cause
    assert "0:44" in cause


def test_without_a_known_major_any_uvm_character_device_will_do(facts: Facts, record: Record) -> None:
    record["dev"]["uvm_major"] = None
    assert failing(facts(record)) == {}


def test_nodes_of_a_driver_that_is_not_loaded_are_no_matter(facts: Facts, record: Record) -> None:
    not_loaded(record)
    assert "device node" not in failing(facts(record))["nodes.gpu-count"]


def test_the_nvidia_runtime_is_every_pods_if_the_inventory_says_so(facts: Facts, record: Record) -> None:
    wants = {"nvidia_container_toolkit_default_runtime": True}
    assert "is 'runc'" in failing(facts(record, **wants))["nodes.containerd"]
    record["containerd"]["effective"].update(
        default_runtime="nvidia", default_binary="nvidia-container-runtime"
    )
    assert failing(facts(record, **wants)) == {}


def test_swapped_addresses_are_named(facts: Facts, record: Record) -> None:
    other = copy.deepcopy(record)
    record["kubernetes"]["node_name"] = "gpu-2"
    cause = failing(facts(record, fleet={"gpu-2": other}, ansible_host="192.0.2.7"))["nodes.identity"]
    assert "'192.0.2.7'" in cause
    assert "is node 'gpu-2' of the cluster, not 'gpu-1'" in cause
    assert "the addresses of 'gpu-1' and 'gpu-2' are swapped" in cause


def test_the_name_whose_address_is_wrong_is_named(facts: Facts, record: Record) -> None:
    other = copy.deepcopy(record)
    record["kubernetes"]["node_name"] = other["kubernetes"]["node_name"] = "gpu-2"
    assert "also host 'gpu-2'" in failing(facts(record, fleet={"gpu-2": other}))["nodes.identity"]
    # The other way round: this one's address is right, so that of the other one is not.
    record["kubernetes"]["node_name"] = other["kubernetes"]["node_name"] = "gpu-1"
    (problem,) = host_checks.identity(facts(record, fleet={"gpu-2": other}))
    assert "host 'gpu-2' leads to it as well" in problem.cause
    assert "'ansible_host' of 'gpu-2'" in problem.next_step


def test_a_node_of_no_known_name_is_not_this_one(facts: Facts, record: Record) -> None:
    record["kubernetes"]["node_name"] = "db-1"
    (problem,) = host_checks.identity(facts(record))
    assert "is node 'db-1'" in problem.cause
    assert "'ansible_host' of 'gpu-1'" in problem.next_step
    assert host_checks.identity(facts(record, kubernetes_node_name="DB-1")) == []


def test_a_machine_that_has_not_joined_has_no_name_yet(facts: Facts, record: Record) -> None:
    record["kubernetes"].update(joined=False, node_name=None)
    record["services"]["kubelet"].update(active="activating")
    with pytest.raises(CannotAsk, match="has not joined"):
        host_checks.identity(facts(record))


def test_a_stale_specification_that_is_shadowed_is_said_and_harms_nobody(
    facts: Facts, record: Record
) -> None:
    stale = {**cdi_spec("/etc/cdi/nvidia.yaml", 0), "driver_version": "580.95.05"}
    for device in stale["devices"]:
        device["nodes"] = []
    record["cdi"]["specs"].insert(0, stale)
    of = facts(record)
    assert failing(of) == {}
    assert devices.cdi_evidence(of.record)["shadowed"] == {
        "/etc/cdi/nvidia.yaml": "580.95.05 (by /var/run/cdi/nvidia.yaml)"
    }


def test_names_that_conflict_below_are_refused_above_as_well(facts: Facts, record: Record) -> None:
    record["cdi"]["specs"][:0] = [cdi_spec("/etc/cdi/a.yaml", 0), cdi_spec("/etc/cdi/b.yaml", 0)]
    assert "both have" in failing(facts(record))["nodes.cdi"]


def test_a_library_that_is_nowhere_is_missing(facts: Facts, record: Record) -> None:
    record["library"].update(cuda_version=None)
    record["library"]["files"]["cuda"]["path"] = None
    assert "the CUDA library is missing" in failing(facts(record))["nodes.driver-versions"]


def test_a_configuration_that_was_only_touched_is_the_running_one(facts: Facts, record: Record) -> None:
    record["containerd"]["config_changed_unix"] = 99.0
    assert failing(facts(record)) == {}


def test_a_note_of_an_earlier_start_tells_nothing(facts: Facts, record: Record) -> None:
    record["services"]["containerd"]["started_unix"] = 50.0
    record["containerd"].update(noted_digest="other", noted_unix=2.0)
    assert failing(facts(record)) == {}


def test_mig_devices_of_the_cdi_specification_are_not_strange(facts: Facts, record: Record) -> None:
    spec_of(record)["devices"].extend([{"name": "0:1", "nodes": []}, {"name": "MIG-1", "nodes": []}])
    assert failing(facts(record)) == {}


def test_real_inventory_with_simulated_library_fails(facts: Facts, record: Record) -> None:
    found = failing(facts(record, gpusmith_simulated=False))
    assert "the inventory says its GPUs are real" in found["nodes.simulation-witnesses"]


def test_accepted_xid_passes(facts: Facts, record: Record) -> None:
    xid(31)(record)
    assert failing(facts(record, validation_accepted_xids=[31])) == {}


def test_power_cap_is_no_slowdown(facts: Facts, record: Record) -> None:
    record["nvml"]["gpus"][0]["throttle_reasons"] = ["sw_power_cap", "applications_clocks_setting"]
    assert failing(facts(record)) == {}


def test_users_own_parameters_and_modules_are_checked(facts: Facts, record: Record) -> None:
    wants = {
        "host_baseline_sysctl": {"net.ipv4.ip_forward": 1, "vm.max_map_count": 262144, "net.ipv4.tcp_rmem": "4096\t8192 16384"},
        "host_baseline_modules": ["overlay", "nf-conntrack"],
    }  # fmt: skip
    found = failing(facts(record, **wants))["nodes.host-baseline"]
    assert "'vm.max_map_count' is in no file of role 'host_baseline' in sysctl.d, wanted is '262144'" in found
    assert "'nf-conntrack' would not be loaded by a boot (no file in modules-load.d names it)" in found
    assert "ip_forward" not in found
    file = "/etc/sysctl.d/gpusmith-host-baseline.conf"
    record["boot"]["modules"]["nf-conntrack"] = {"file": file, "forbidden_by": None}
    record["boot"]["sysctl"].update(
        {
            "vm.max_map_count": {"value": "262144", "files": [file]},
            "net.ipv4.tcp_rmem": {"value": "4096 8192 16384", "files": [file]},
        }
    )
    found = failing(facts(record, **wants))["nodes.host-baseline"]
    assert "'vm.max_map_count' is not there, wanted is '262144'" in found
    assert "'nf-conntrack' is not loaded, the inventory wants it" in found
    record["system"]["modules"]["nf-conntrack"] = True
    record["system"]["sysctl"].update({"vm.max_map_count": "262144", "net.ipv4.tcp_rmem": "4096 8192 16384"})
    assert failing(facts(record, **wants)) == {}


def test_forwarding_is_needed_whatever_the_inventory_lists(facts: Facts, record: Record) -> None:
    record["system"]["sysctl"]["net.ipv4.ip_forward"] = "0"
    assert "ip_forward" in failing(facts(record, host_baseline_sysctl={}))["nodes.host-baseline"]


def test_steps_tell_what_site_yml_repairs_and_what_it_refuses(facts: Facts, record: Record) -> None:
    boot = record["boot"]
    boot["modules"]["br_netfilter"].update(file=None)
    boot["modules"]["overlay"].update(forbidden_by="/etc/modprobe.d/hard.conf")
    boot["sysctl"]["net.ipv4.ip_forward"].update(value=None, files=[])
    boot["sysctl"]["net.bridge.bridge-nf-call-iptables"].update(value="0", files=["/etc/sysctl.d/zz.conf"])
    # Somebody edited ours: that is written again.
    boot["sysctl"]["net.bridge.bridge-nf-call-ip6tables"]["value"] = "0"
    assert [problem.next_step for problem in host_checks.host_baseline(facts(record))] == [
        "Take the module out of '/etc/modprobe.d/hard.conf' on 'gpu-1', then run site.yml for the node.",
        "Run site.yml for the node.",
        "Run site.yml for the node.",
        "Run site.yml for the node; if it refuses because of '/etc/sysctl.d/zz.conf', correct that on 'gpu-1' first.",
        "Run site.yml for the node.",
    ]


def test_a_node_that_was_booted_with_the_override_says_whose_it_is(facts: Facts, record: Record) -> None:
    record["system"]["sysctl"]["net.ipv4.ip_forward"] = "0"
    record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value="0", files=["/etc/sysctl.d/zz.conf"])
    record["system"]["modules"]["overlay"] = False
    record["boot"]["modules"]["overlay"].update(forbidden_by="/etc/modprobe.d/hard.conf")
    found = failing(facts(record))["nodes.host-baseline"]
    assert "'net.ipv4.ip_forward' is '0', and a boot would set '0' (file '/etc/sysctl.d/zz.conf')" in found
    assert (
        "'overlay' is not loaded, and no boot would load it (file '/etc/modprobe.d/hard.conf' forbids it)"
        in found
    )


def test_what_boots_do_and_nobody_could_read_is_no_pass(facts: Facts, record: Record) -> None:
    # A record of an older probe has no such section, too.
    del record["boot"]
    assert failing(facts(record)) == {
        "nodes.host-baseline": "Node 'gpu-1': what a boot would load and set could not be read."
    }


def test_forwarding_that_no_role_writes_must_only_not_be_off_at_boot(facts: Facts, record: Record) -> None:
    row = record["boot"]["sysctl"]["net.ipv4.ip_forward"]
    row.update(value=None, files=[])
    assert failing(facts(record, host_baseline_sysctl={})) == {}
    row.update(value="0", files=["/etc/sysctl.d/zz.conf"])
    assert "a boot would set '0'" in failing(facts(record, host_baseline_sysctl={}))["nodes.host-baseline"]


def test_what_the_inventory_leaves_out_is_not_needed(facts: Facts, record: Record) -> None:
    record["system"].update(
        swap_areas=["/dev/sda2"], modules={"br_netfilter": False}, sysctl={"net.ipv4.ip_forward": "1"}
    )
    record["boot"].update(swap_units=["/etc/systemd/system/a.target.wants/b.swap"], modules={}, sysctl={})
    wants = {"host_baseline_swap": "keep", "host_baseline_modules": [], "host_baseline_sysctl": {}}
    assert failing(facts(record, **wants)) == {}


def test_unknown_model_has_nothing_to_compare_with(facts: Facts, record: Record) -> None:
    assert "data/gpus.yml" in failing(facts(record, gpusmith_gpu_model="x100"))["nodes.gpu-model"]


def test_no_switches_no_fabric(facts: Facts, record: Record) -> None:
    record["pci"]["nvswitches"] = []
    with pytest.raises(NotApplicable):
        services.fabric(facts(record, gpusmith_gpu_model="l40s"))


def test_unreadable_log_is_no_pass(facts: Facts, record: Record) -> None:
    record["xids"] = None
    record["errors"] = ["xids: journalctl ended with status 1"]
    assert "could not be read" in failing(facts(record))["nodes.xid"]


@pytest.mark.parametrize(
    "hole",
    [
        "pci",
        "module",
        "dev",
        "services",
        "containerd",
        "cdi",
        "nvml",
        "library",
        "packages",
        "system",
        "boot",
    ],
)
def test_hole_in_the_record_is_no_pass(hole: str, facts: Facts, record: Record) -> None:
    record[hole] = None
    assert failing(facts(record))


def test_record_of_another_schema_is_refused(record: Record) -> None:
    record["schema"] = "gpusmith.probe/9"
    with pytest.raises(ToolError, match=r"gpusmith\.probe/9"):
        parse(record)


@pytest.mark.parametrize(
    ("version", "plain"),
    [("580.178.04-1", "580.178.04"), ("1:580.178.04-0ubuntu1", "580.178.04"), ("580.178.04", "580.178.04")],
)
def test_upstream_version(version: str, plain: str) -> None:
    assert driver.upstream(version) == plain


def test_a_node_that_others_set_up_has_no_units_of_ours(
    record: dict[str, Any], facts: Callable[..., Any]
) -> None:
    for name in ("gpusmith-nvidia-load", "gpusmith-gpu-devices"):
        record["services"][name].update(active="inactive", enabled="not-found")
    assert services.services(facts(record)) == []


@pytest.mark.parametrize("state", ["disabled", "masked"])
def test_only_without_our_unit_a_boot_needs_the_toolkits_own(
    state: str, record: dict[str, Any], facts: Callable[..., Any]
) -> None:
    record["services"]["nvidia-cdi-refresh"]["enabled"] = state
    assert services.services(facts(record)) == []
    for name in services.OURS:
        record["services"][name].update(active="inactive", enabled="not-found")
    (problem,) = services.services(facts(record))
    assert problem.cause == (
        f"Node 'gpu-1': service 'nvidia-cdi-refresh' is {state}, so that after a reboot nobody makes"
        " CDI specification '/var/run/cdi/nvidia.yaml' anew."
    )
    # What a boot keeps needs nobody.
    spec_of(record)["path"] = "/etc/cdi/nvidia.yaml"
    assert services.services(facts(record)) == []
