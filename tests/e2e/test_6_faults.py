"""Each fault of the lab fails the suite, by node, GPU and cause; healing makes it pass again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.harness import Lab

NODE = "gpu-1"
GPU = 2


@dataclass(frozen=True)
class Fault:
    """A fault as the command line says it, and what the failed check must say."""

    words: tuple[str, ...]
    says: str
    on_gpu: bool = False
    reboot: bool = False
    site: bool = False


FAULTS = {
    "driver-library-mismatch": Fault(
        ("driver-library-mismatch",), "librar.*(module|driver)|(module|driver).*librar"
    ),
    "driver-not-loaded": Fault(("driver-not-loaded",), "not loaded"),
    "gpu-lost": Fault(("gpu-lost",), "lost|fell off|unreachable|does not answer", on_gpu=True),
    "gpu-missing": Fault(("gpu-missing",), r"3 (of|GPU)|PCI", on_gpu=True, reboot=True),
    "xid": Fault(("xid", "79"), r"Xid.*79|79.*Xid", on_gpu=True),
    "ecc-uncorrectable": Fault(("ecc-uncorrectable",), "ECC|uncorrect", on_gpu=True),
    "throttle": Fault(("throttle",), "throttl|slowdown|clock", on_gpu=True),
    "fabric-manager-down": Fault(("fabric-manager-down",), "fabric"),
    "containerd-config-clobbered": Fault(("containerd-config-clobbered",), "containerd|runtime", site=True),
}


@pytest.fixture
def healed(ready_lab: Lab) -> Iterator[Lab]:
    yield ready_lab
    ready_lab.gpulab("heal", NODE)


@pytest.fixture(scope="module")
def uuids(ready_lab: Lab) -> list[str]:
    return re.findall(r"GPU-[0-9a-f-]{36}", ready_lab.on(NODE, "nvidia-smi -L"))


def reboot(lab: Lab, gpus: int) -> None:
    """Reboot the node and wait until it offers that many GPUs."""
    before = {NODE: lab.boots()[NODE]}
    lab.gpulab("reboot", NODE)
    lab.wait_allocatable({NODE: gpus}, 120, rebooted_since=before)


@pytest.mark.parametrize("kind", FAULTS)
def test_fault_is_found_and_healed(healed: Lab, uuids: list[str], kind: str) -> None:
    fault = FAULTS[kind]
    healed.gpulab("fault", NODE, *fault.words, *(("--gpu", str(GPU)) if fault.on_gpu else ()))
    if fault.reboot:
        reboot(healed, gpus=3)
    broken = healed.validate_nodes()
    assert broken.ended.status == 1, str(broken.ended)
    causes = broken.causes(NODE)
    assert re.search(fault.says, causes, re.IGNORECASE), causes or str(broken.ended)
    if fault.on_gpu and kind != "gpu-missing":  # whose GPU nobody can ask for its name
        assert uuids[GPU] in causes or f"GPU {GPU}" in causes, causes
    assert not broken.causes("gpu-2"), "a healthy node was blamed"

    healed.gpulab("heal", NODE)
    if fault.reboot:
        reboot(healed, gpus=4)
    if fault.site:
        healed.site_ok("-l", NODE)
    healed.validate_nodes().assert_passed()


def test_clobbered_configuration_is_repaired_by_site(healed: Lab) -> None:
    healed.gpulab("fault", NODE, "containerd-config-clobbered")
    healed.site_ok("-l", NODE)
    healed.validate_nodes().assert_passed()


def test_everything_passes_after_heals_in_a_row(healed: Lab) -> None:
    # The device plugin ends at each of these; kubelet must not be waiting for its back-off when the suite comes.
    for kind in ("gpu-lost", "ecc-uncorrectable", "gpu-lost"):
        healed.gpulab("fault", NODE, kind, "--gpu", str(GPU))
        healed.gpulab("heal", NODE)
    healed.validate().assert_passed()


# --- faults that are not on the list, put in by hand -----------------------------------------------------

BY_HAND = {
    # Whoever starts NVML as root has nvidia-modprobe make these anew, in life as here; the probe looks before it does.
    "device-node-removed": ("rm /dev/nvidia1", "nvidia-modprobe -c 1", "no device node /dev/nvidia1"),
    "device-node-a-file": (
        "rm /dev/nvidia1 && touch /dev/nvidia1",
        "nvidia-modprobe -c 1",
        "/dev/nvidia1.* a regular file",
    ),
    "device-node-of-another": (
        "rm /dev/nvidia1 && mknod -m 666 /dev/nvidia1 c 195 2",
        "nvidia-modprobe -c 1",
        "/dev/nvidia1.* 195:2, must be 195:1",
    ),
    "device-node-closed": ("chmod 000 /dev/nvidia1", "chmod 666 /dev/nvidia1", "/dev/nvidia1.* mode 0000"),
    "cdi-copied": (
        "cp /var/run/cdi/nvidia.yaml /var/run/cdi/copy.yaml",
        "rm /var/run/cdi/copy.yaml",
        "copy.yaml.* both have",
    ),
    "cdi-of-another-gpu": (
        "sed -i 's,/dev/nvidia1$,/dev/nvidia2,' /var/run/cdi/nvidia.yaml",
        "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",
        "CDI device '.' of '/var/run/cdi/nvidia.yaml' gives /dev/nvidia2",
    ),
    "cuda-library-shadowed": (
        "cp -L /usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/local/lib/libcuda.so.1 && ldconfig",
        "rm /usr/local/lib/libcuda.so.1 && ldconfig",
        "'/usr/local/lib/libcuda.so.1' as CUDA library.* shadows",
    ),
    "device-link-removed": ("rm /dev/char/195:1", "ln -sf /dev/nvidia1 /dev/char/195:1", "/dev/char"),
    "persistence-stopped": (
        "systemctl stop nvidia-persistenced",
        "systemctl start nvidia-persistenced",
        "persistence",
    ),
    "not-loaded-at-boot": (
        "systemctl disable gpusmith-nvidia-load",
        "systemctl enable gpusmith-nvidia-load",
        "'gpusmith-nvidia-load' is disabled",
    ),
    "forwarding-off-at-boot": (
        "echo net.ipv4.ip_forward = 0 > /etc/sysctl.d/zz-other.conf",
        "rm /etc/sysctl.d/zz-other.conf",
        "'net.ipv4.ip_forward' is '1' now, but a boot would set '0' .file '/etc/sysctl.d/zz-other.conf'",
    ),
    "hold-removed": ("apt-mark unhold nvidia-driver-cuda", "apt-mark hold nvidia-driver-cuda", "hold|held"),
}


@pytest.mark.parametrize("kind", BY_HAND)
def test_fault_by_hand(ready_lab: Lab, kind: str) -> None:
    spoil, repair, says = BY_HAND[kind]
    ready_lab.on(NODE, spoil)
    try:
        broken = ready_lab.validate_nodes()
    finally:
        ready_lab.on(NODE, repair)
    assert broken.ended.status == 1, str(broken.ended)
    assert re.search(says, broken.causes(NODE), re.IGNORECASE), str(broken.ended)
    ready_lab.validate_nodes().assert_passed()


def test_edits_in_the_cluster_are_named_and_taken_back(ready_lab: Lab) -> None:
    plugin = ("-n", "gpusmith-system", "daemonset/nvidia-device-plugin")
    ready_lab.kubectl("label", "node", NODE, "gpu-type-")
    ready_lab.kubectl("taint", "node", NODE, "nvidia.com/gpu-")
    ready_lab.kubectl("set", "env", *plugin, "DP_DISABLE_HEALTHCHECKS=all")
    broken = ready_lab.validate(tests="validation/cluster")
    assert broken.ended.status == 1, str(broken.ended)
    causes = broken.causes(NODE)
    assert "gpu-type" in causes
    assert "nvidia.com/gpu" in causes
    assert "env[DP_DISABLE_HEALTHCHECKS]" in causes
    ready_lab.site_ok("-l", NODE)
    # Both changes of the device plugin reach the other node, too.
    ready_lab.kubectl("rollout", "status", *plugin, "--timeout=120s", timeout=130)
    ready_lab.wait_allocatable({NODE: 4, "gpu-2": 4}, 60)
    ready_lab.validate(tests="validation/cluster").assert_passed()


def test_pods_that_ask_the_wrong_dns_server_are_named(ready_lab: Lab) -> None:
    config = "/var/lib/kubelet/config.yaml"
    ready_lab.on(
        NODE,
        f"cp {config} /root/kubelet.yaml && sed -i 's/10[.]96[.]0[.]10$/10.96.0.99/' {config} && systemctl restart kubelet",
    )
    try:
        ready_lab.wait_allocatable({NODE: 4}, 60)
        broken = ready_lab.validate("-k", "workloads.network")
    finally:
        ready_lab.on(NODE, f"mv /root/kubelet.yaml {config} && systemctl restart kubelet")
    assert broken.ended.status == 1, str(broken.ended)
    assert "does not resolve 'kubernetes.default.svc', it asks 10.96.0.99" in broken.causes(NODE)
    assert not broken.causes("gpu-2"), "a healthy node was blamed"
    ready_lab.wait_allocatable({NODE: 4}, 60)
