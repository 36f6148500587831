"""Each fault fails the suite, by node, GPU and cause; healing or site.yml makes it pass again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from gpulab.simgpu import kernels

from tests.advice import COMMANDS, Where
from tests.e2e.harness import Lab, Validation

FIRST, SECOND = NODES = ("gpu-1", "gpu-2")
GPU = 2
HEALTHY = {FIRST: 4, SECOND: 4}
(NEXT_KERNEL,) = kernels.known("debian")
IMAGE, HEADERS = (f"linux-{part}-{NEXT_KERNEL.values['arch']}" for part in ("image", "headers"))
"""Packages that follow Debian's kernel."""


@dataclass(frozen=True)
class Fault:
    """A fault as the command line says it, and what the failed check must say."""

    words: tuple[str, ...]
    says: str
    on_gpu: bool = False


FAULTS = {
    "driver-library-mismatch": Fault(
        ("driver-library-mismatch",), "librar.*(module|driver)|(module|driver).*librar"
    ),
    "driver-not-loaded": Fault(("driver-not-loaded",), "not loaded"),
    "gpu-lost": Fault(("gpu-lost",), "lost|fell off|unreachable|does not answer", on_gpu=True),
    "gpu-missing": Fault(("gpu-missing",), r"3 (of|GPU)|PCI", on_gpu=True),
    "xid": Fault(("xid", "79"), r"Xid.*79|79.*Xid", on_gpu=True),
    "ecc-uncorrectable": Fault(("ecc-uncorrectable",), "ECC|uncorrect", on_gpu=True),
    "throttle": Fault(("throttle",), "throttl|slowdown|clock", on_gpu=True),
    "fabric-manager-down": Fault(("fabric-manager-down",), "fabric"),
    "containerd-config-clobbered": Fault(("containerd-config-clobbered",), "containerd|runtime"),
}

# One run of the suite looks at both nodes: a fault on each, whose causes must not be mixed up.
ROUNDS = [
    ("driver-library-mismatch", "xid"),
    pytest.param(("gpu-lost", "driver-not-loaded"), marks=pytest.mark.rare),
    pytest.param(("fabric-manager-down", "ecc-uncorrectable"), marks=pytest.mark.rare),
]


@pytest.fixture
def healed(ready_lab: Lab) -> Iterator[Lab]:
    yield ready_lab
    for node in NODES:
        ready_lab.gpulab("heal", node)


@pytest.fixture(scope="module")
def uuids(ready_lab: Lab) -> dict[str, list[str]]:
    return {node: re.findall(r"GPU-[0-9a-f-]{36}", ready_lab.on(node, "nvidia-smi -L")) for node in NODES}


def inject(lab: Lab, node: str, kind: str) -> None:
    fault = FAULTS[kind]
    lab.gpulab("fault", node, *fault.words, *(("--gpu", str(GPU)) if fault.on_gpu else ()))


def assert_named(broken: Validation, node: str, kind: str, uuid: str = "") -> None:
    """That the suite says what is wrong, and with which GPU."""
    assert broken.ended.status == 1, str(broken.ended)
    fault, causes = FAULTS[kind], broken.causes(node)
    assert re.search(fault.says, causes, re.IGNORECASE), causes or str(broken.ended)
    if uuid:
        assert uuid in causes or f"GPU {GPU}" in causes, causes


def reboot(lab: Lab, gpus: int) -> None:
    """Reboot the first node and wait until it offers that many GPUs."""
    before = {FIRST: lab.boots()[FIRST]}
    lab.gpulab("reboot", FIRST)
    lab.wait_allocatable({FIRST: gpus}, 180, rebooted_since=before)


def test_the_faults_of_the_lab_are_all_tested(ready_lab: Lab) -> None:
    kinds = ready_lab.gpulab("fault", "--help").output.partition("fault kinds:")[2]
    assert re.findall(r"^  ([a-z-]+) ", kinds, re.MULTILINE) == sorted(FAULTS)


@pytest.mark.parametrize("kinds", ROUNDS, ids="+".join)
def test_faults_of_two_nodes_are_found_and_healed(
    healed: Lab, uuids: dict[str, list[str]], kinds: tuple[str, str]
) -> None:
    for node, kind in zip(NODES, kinds, strict=True):
        inject(healed, node, kind)
    broken = healed.validate_nodes()
    for node, kind, other in zip(NODES, kinds, reversed(kinds), strict=True):
        assert_named(broken, node, kind, uuids[node][GPU] if FAULTS[kind].on_gpu else "")
        assert not re.search(FAULTS[other].says, broken.causes(node), re.IGNORECASE), "causes are mixed up"
    for node in NODES:
        healed.gpulab("heal", node)
    healed.validate_nodes().assert_passed()


def test_a_healthy_node_is_not_blamed_and_site_repairs_what_is_configuration(
    healed: Lab, uuids: dict[str, list[str]]
) -> None:
    inject(healed, FIRST, "throttle")
    broken = healed.validate_nodes()
    assert_named(broken, FIRST, "throttle", uuids[FIRST][GPU])
    assert not broken.causes(SECOND), "a healthy node was blamed"
    healed.gpulab("heal", FIRST)
    inject(healed, SECOND, "containerd-config-clobbered")
    broken = healed.validate_nodes()
    assert_named(broken, SECOND, "containerd-config-clobbered")
    assert not broken.causes(FIRST), "a healthy node was blamed"
    healed.site_ok("-l", SECOND)
    healed.validate_nodes().assert_passed()


@pytest.mark.rare
def test_a_missing_gpu_and_a_slow_machine(healed: Lab) -> None:
    inject(healed, FIRST, "gpu-missing")
    reboot(healed, gpus=3)
    # Nobody can ask a GPU for its name that is not there.
    assert_named(healed.validate_nodes(), FIRST, "gpu-missing")
    healed.gpulab("heal", FIRST)
    # Large machines are slow at boot; everything waits for what it needs.
    healed.gpulab("delay", FIRST, "--boot", "5", "--module-load", "5", "--fabric", "10")
    try:
        reboot(healed, gpus=4)
    finally:
        healed.gpulab("delay", FIRST, "--boot", "0", "--module-load", "0", "--fabric", "1")
    # Ordered after the runtime and the driver, it never has to be started anew.
    assert "NRestarts=0" in healed.on(FIRST, "systemctl show kubelet --property=NRestarts")
    healed.validate_nodes().assert_passed()


@pytest.mark.rare
def test_everything_passes_after_heals_in_a_row(healed: Lab) -> None:
    # The device plugin ends at each of these; kubelet must not be waiting for its back-off when the suite comes.
    for kind in ("gpu-lost", "ecc-uncorrectable", "gpu-lost"):
        inject(healed, FIRST, kind)
        healed.gpulab("heal", FIRST)
    healed.validate().assert_passed()


# --- faults that are not on the list, put in by hand -----------------------------------------------------


@dataclass(frozen=True)
class ByHand:
    """What a person does to a node.

    Attributes:
        spoil: shell commands.
        says: what the suite must say of it.
        undo: shell commands where the cure is a person's; without, site.yml must repair it.
    """

    node: str
    spoil: str
    says: str
    undo: str = ""


BY_HAND = {
    # Whoever starts NVML as root has nvidia-modprobe make these anew, in life as here; the probe looks before it does.
    "device-node-removed": ByHand(FIRST, "rm /dev/nvidia0", "no device node /dev/nvidia0"),
    "device-node-a-file": ByHand(
        FIRST,
        "rm /dev/nvidia1 && touch /dev/nvidia1",
        "/dev/nvidia1.* a regular file",
        "nvidia-modprobe -c 1",
    ),
    "device-node-of-another": ByHand(
        FIRST,
        "rm /dev/nvidia2 && mknod -m 666 /dev/nvidia2 c 195 3",
        "/dev/nvidia2.* 195:3, must be 195:2",
        "nvidia-modprobe -c 2",
    ),
    "device-node-closed": ByHand(
        FIRST, "chmod 000 /dev/nvidia3", "/dev/nvidia3.* mode 0000", "chmod 666 /dev/nvidia3"
    ),
    "cdi-copied": ByHand(
        FIRST,
        "cp /var/run/cdi/nvidia.yaml /var/run/cdi/copy.yaml",
        "copy.yaml.* both have",
        "rm /var/run/cdi/copy.yaml",
    ),
    "persistence-stopped": ByHand(FIRST, "systemctl stop nvidia-persistenced", "persistence"),
    "not-loaded-at-boot": ByHand(
        FIRST, "systemctl disable gpusmith-nvidia-load", "'gpusmith-nvidia-load' is disabled"
    ),
    "hold-removed": ByHand(FIRST, "apt-mark unhold nvidia-driver-cuda", "hold|held"),
    "driver-kept-out-at-boot": ByHand(
        SECOND,
        "echo install nvidia-uvm /bin/false > /etc/modprobe.d/zz-off.conf",
        "'/etc/modprobe.d/zz-off.conf' keeps module 'nvidia_uvm' from being loaded",
        "rm /etc/modprobe.d/zz-off.conf",
    ),
    "gpu-open-without-a-pod": ByHand(
        SECOND,
        "systemd-run --unit=stranger python3 -c"
        " 'import os, time; os.open(\"/dev/nvidia2\", os.O_PATH); time.sleep(3600)'",
        "is open outside of Kubernetes, since .*'python3.*unit 'stranger.service'. with /dev/nvidia2",
        "systemctl stop stranger",
    ),
    # Nothing brings its headers; site.yml does, and what brings those of the one after it.
    "next-kernel-without-driver": ByHand(
        SECOND,
        f"apt-get -q -y install {IMAGE}",
        f"kernel {re.escape(NEXT_KERNEL.release)} is installed and has no module",
    ),
    "cdi-of-another-gpu": ByHand(
        SECOND,
        "sed -i 's,/dev/nvidia1$,/dev/nvidia2,' /var/run/cdi/nvidia.yaml",
        "CDI device '.' of '/var/run/cdi/nvidia.yaml' gives /dev/nvidia2",
        "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml",
    ),
    "cuda-library-shadowed": ByHand(
        SECOND,
        "cp -L /usr/lib/x86_64-linux-gnu/libcuda.so.1 /usr/local/lib/libcuda.so.1 && ldconfig",
        "'/usr/local/lib/libcuda.so.1' as CUDA library.* shadows",
        "rm /usr/local/lib/libcuda.so.1 && ldconfig",
    ),
    "device-link-removed": ByHand(SECOND, "rm /dev/char/195:1", "/dev/char/195:1"),
    # What kept the plugin from starting is gone again, so that nothing but its state tells.
    "cri-plugin-down": ByHand(
        SECOND,
        "cd /etc/cni && mv net.d kept && touch net.d && systemctl restart containerd; rm net.d && mv kept net.d",
        "CRI plugin does not, so kubelet cannot start a pod: 'failed to",
    ),
    "forwarding-off-at-boot": ByHand(
        SECOND,
        "echo net.ipv4.ip_forward = 0 > /etc/sysctl.d/zz-other.conf",
        "'net.ipv4.ip_forward' is '1' now, but a boot would set '0' .file '/etc/sysctl.d/zz-other.conf'",
        "rm /etc/sysctl.d/zz-other.conf",
    ),
}


@pytest.mark.rare
def test_faults_by_hand_are_each_named_and_site_repairs_its_own(ready_lab: Lab) -> None:
    for fault in BY_HAND.values():
        ready_lab.on(fault.node, fault.spoil)
    try:
        broken = ready_lab.validate_nodes()
    finally:
        for fault in BY_HAND.values():
            if fault.undo:
                ready_lab.on(fault.node, fault.undo)
    assert broken.ended.status == 1, str(broken.ended)
    unnamed = [
        kind
        for kind, fault in BY_HAND.items()
        if not re.search(fault.says, broken.causes(fault.node), re.IGNORECASE)
    ]
    assert unnamed == [], str(broken.ended)
    ready_lab.site_ok()
    assert ready_lab.on(SECOND, f"dpkg-query -W -f '${{Version}}' {HEADERS}") == NEXT_KERNEL.version
    ready_lab.wait_allocatable(HEALTHY, 120)
    ready_lab.validate_nodes().assert_passed()


# --- what messages advise ----------------------------------------------------------------------------------


def test_commands_that_messages_advise_work(ready_lab: Lab) -> None:
    """Those that only look, or that change nothing on a healthy node; tests/advice.py has them all."""
    wanted = {row.example: row.status for row in COMMANDS.values() if row.where is Where.NODE}
    script = "\n".join(
        f"timeout 20 sh -c {shlex.quote(example)} >/dev/null 2>&1 </dev/null && s=0 || s=$?; echo $s"
        for example in wanted
    )
    ended = [int(line) for line in ready_lab.on(FIRST, script, timeout=180).split()]
    wrong = {
        example: status
        for (example, allowed), status in zip(wanted.items(), ended, strict=True)
        if status not in allowed
    }
    assert wrong == {}
    for row in COMMANDS.values():
        words = shlex.split(row.example)
        if row.where is Where.CLUSTER:
            done = ready_lab.run(ready_lab.program("gpulab"), "kubectl", *words)
            assert done.status in row.status, str(done)
        elif row.where is Where.CONTROLLER:
            program, *rest = [str(ready_lab.inventory) if word == "INVENTORY" else word for word in words]
            done = ready_lab.run(ready_lab.program(program), *rest)
            assert done.status in row.status, str(done)
    ready_lab.wait_allocatable(HEALTHY, 60)


SPOILT = {
    "nodes.char-links": "rm /dev/char/195:0",
    "nodes.gpu-count": "rm /dev/nvidia-uvm-tools",
    "nodes.services": "systemctl disable nvidia-persistenced",
    "nodes.cdi": "rm -f /var/run/cdi/nvidia.yaml /run/cdi/nvidia.yaml",
}
"""By the check that finds it, whose next step is then taken as it stands."""


def test_the_next_step_of_a_finding_repairs_it(ready_lab: Lab) -> None:
    for command in SPOILT.values():
        ready_lab.on(SECOND, command)
    broken = ready_lab.validate_nodes("--limit", SECOND)
    found = {row["id"]: row["next_step"] for row in broken.failed()}
    assert set(found) == set(SPOILT), str(broken.ended)
    for step in found.values():
        commands = re.findall(r"'((?:nvidia-ctk|nvidia-modprobe|systemctl) [^']+)'", step)
        assert commands, step
        ready_lab.on(SECOND, commands[0])
    ready_lab.validate_nodes("--limit", SECOND).assert_passed()


@pytest.mark.rare
def test_edits_in_the_cluster_are_named_and_taken_back(ready_lab: Lab) -> None:
    plugin = ("-n", "gpusmith-system", "daemonset/nvidia-device-plugin")
    config = "/var/lib/kubelet/config.yaml"
    wrong_dns = f"cp {config} /root/kubelet.yaml && sed -i 's/10[.]96[.]0[.]10$/10.96.0.99/' {config}"
    ready_lab.on(SECOND, f"{wrong_dns} && systemctl restart kubelet")
    try:
        ready_lab.kubectl("label", "node", FIRST, "gpu-type-")
        ready_lab.kubectl("taint", "node", FIRST, "nvidia.com/gpu-")
        ready_lab.kubectl("set", "env", *plugin, "DP_DISABLE_HEALTHCHECKS=all")
        ready_lab.kubectl("rollout", "status", *plugin, "--timeout=120s", timeout=130)
        ready_lab.wait_allocatable(HEALTHY, 60)
        broken = ready_lab.validate("-k", "cluster or workloads.network")
    finally:
        ready_lab.on(SECOND, f"mv /root/kubelet.yaml {config} && systemctl restart kubelet")
    assert broken.ended.status == 1, str(broken.ended)
    causes = broken.causes(FIRST)
    assert "gpu-type" in causes
    assert "nvidia.com/gpu" in causes
    assert "env[DP_DISABLE_HEALTHCHECKS]" in causes
    assert "does not resolve" not in causes, "a node with the right DNS server was blamed"
    assert "does not resolve 'kubernetes.default.svc', it asks 10.96.0.99" in broken.causes(SECOND)
    ready_lab.site_ok("-l", FIRST)
    # Both changes of the device plugin reach the other node, too.
    ready_lab.kubectl("rollout", "status", *plugin, "--timeout=120s", timeout=130)
    ready_lab.wait_allocatable(HEALTHY, 60)
    ready_lab.validate(tests="validation/cluster").assert_passed()
