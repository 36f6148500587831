"""Nodes of other distributions: one of Ubuntu, one that rpm and dnf manage. Both are on a Debian user land, and say so."""

from __future__ import annotations

import json
import re

import pytest
from gpulab.simgpu import kernels

from gpusmith.names import PREVIOUS_DRIVER
from tests.e2e.harness import ROCKY, UBUNTU, Lab
from tests.e2e.upgrades import NEW, OLD, ROLLBACK_PLAYBOOK, SHORT, Running, start, upgrade_words

LANDS = {
    UBUNTU: "Ubuntu 24.04 packages on a Debian user land",
    ROCKY: "Rocky 9 packages on a Debian user land, managed by rpm and dnf",
}
BRANCH = NEW.partition(".")[0]
NEIGHBOUR = "gpulab-neighbour"
SHARED = ("nvidia-container-toolkit", "containerd.io", "kubelet")
OURS = {
    UBUNTU: {"libnvidia-compute-580", "nvidia-dkms-580-open", *SHARED},
    ROCKY: {"nvidia-driver-cuda", "kmod-nvidia-open-dkms", *SHARED},
}
"""Some of the packages that stay; the repositories have newer ones of each."""
KERNELS = {UBUNTU: kernels.known("ubuntu"), ROCKY: kernels.known("el", "el9")}
"""Two releases of each; the second one comes by an upgrade, since DKMS builds for each kernel here."""
BESIDE = {
    UBUNTU: {
        NEIGHBOUR: "1.0-0ubuntu1.1",
        **dict.fromkeys(
            ("linux-generic", "linux-image-generic", "linux-headers-generic"), KERNELS[UBUNTU][1].version
        ),
    },
    ROCKY: {NEIGHBOUR: "1.1-1.el9", "kernel-devel-matched": KERNELS[ROCKY][1].version},
}
"""What is nobody's, with the version that comes."""
NEXT_KERNEL = {
    UBUNTU: {
        *(
            f"linux-{part}-{KERNELS[UBUNTU][1].release}"
            for part in ("image", "modules", "modules-extra", "headers")
        ),
        f"linux-headers-{KERNELS[UBUNTU][1].values['base']}",
    },
    ROCKY: {"kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-devel"},
}
"""What comes besides, and leaves the kernel that is there."""
WITHOUT_LOCKS = "dnf --disableplugin=versionlock --assumeno upgrade || true"
# What the real program would do if nothing was pinned or held: in a mount namespace it sees no pins, and packages without holds.
WITHOUT_HOLDS = """unshare --mount --propagation private sh -ec '
    sed "s/^Status: hold/Status: install/" /var/lib/dpkg/status >/run/no-holds
    mount --bind /run/no-holds /var/lib/dpkg/status
    mount -t tmpfs none /etc/apt/preferences.d
    mount -t tmpfs none /var/cache/apt
    unattended-upgrade --dry-run --debug'"""
ORIGINS = 'Unattended-Upgrade::Origins-Pattern { "origin=gpusmith-lab-*"; };\\n'
SERVICES = ("containerd", "kubelet", "nvidia-persistenced", "nvidia-fabricmanager")
PROGRAMS = "/usr/bin/containerd /usr/bin/kubelet /usr/bin/nvidia-persistenced /usr/bin/nv-fabricmanager /usr/sbin/sshd"
REPLACED = f"for path in {PROGRAMS}; do cp -p $path $path.copy; mv $path.copy $path; done"

OTHERS = "[Service]\\nExecStart=/bin/true\\n[Install]\\nWantedBy=multi-user.target\\n"


@pytest.fixture(scope="module")
def upgrade(grown: Lab) -> Running:
    """Of the node that dnf manages, which no test from here on uses but the last; they run beside it."""
    return start(grown, grown.inventory, *upgrade_words(ROCKY, BRANCH))


def installed(lab: Lab) -> dict[str, str]:
    """The driver's version by node, as its package manager says it, and whether the loaded module has the same."""
    said = {
        UBUNTU: "dpkg-query -W -f '${Version}' libnvidia-compute-580 | sed 's/-.*//'",
        ROCKY: "rpm -q --qf '%{VERSION}' nvidia-driver-cuda",
    }
    return {
        node: lab.on(node, f"{words}; printf ' '; cat /sys/module/nvidia/version")
        for node, words in said.items()
    }


def versions(lab: Lab, node: str) -> set[str]:
    """All packages of a node, with their versions; dnf has several of a kernel's."""
    said = {
        UBUNTU: "dpkg-query -W -f '${Package} ${Version}\\n'",
        ROCKY: "rpm -qa --qf '%{NAME} %{VERSION}-%{RELEASE}\\n'",
    }
    return set(lab.on(node, said[node]).splitlines())


def upgraded(before: set[str], node: str) -> set[str]:
    """What a node has when nothing but what is nobody's has moved."""
    stays = {line for line in before if line.split()[0] not in BESIDE[node]}
    comes = {**dict.fromkeys(NEXT_KERNEL[node], KERNELS[node][1].version), **BESIDE[node]}
    return stays | {f"{name} {version}" for name, version in comes.items()}


def module_for(lab: Lab, node: str, kernel: kernels.Kernel) -> str:
    """The version of the driver's module for a kernel that does not run."""
    return lab.on(node, f"modinfo -k {kernel.release} -F version nvidia")


def test_a_machine_says_what_it_is(grown: Lab) -> None:
    lands = {node["name"]: node["user_land"] for node in grown.status()["nodes"] if node["user_land"]}
    assert lands == LANDS
    for node, land in LANDS.items():
        assert grown.on(node, "head -n 1 /etc/issue").startswith(land)
    assert grown.on(ROCKY, "! command -v apt-get; ! command -v dpkg; command -v dnf") == "/usr/bin/dnf"


def test_both_families_are_brought_in_and_left_alone(grown: Lab) -> None:
    assert installed(grown) == dict.fromkeys((UBUNTU, ROCKY), f"{OLD} {OLD}")
    # Nothing is to be had, so nothing may be needed.
    grown.gpulab("depot", "stop")
    try:
        second = grown.site_ok("-l", f"{UBUNTU},{ROCKY}")
    finally:
        grown.gpulab("depot", "start")
    assert {host: row["changed"] for host, row in second.recap().items() if row["changed"]} == {}, str(second)


def test_no_pass_reads_as_one_on_the_distribution(grown: Lab) -> None:
    """The suite's run is that of site.yml: only it stamps nodes."""
    if not grown.grown_report.exists():
        pytest.skip("E2E_KEEP_LAB: the nodes were brought in before")
    run = json.loads((grown.grown_report / "results.json").read_text())["run"]
    assert (run["exit_code"], run["user_lands"]) == (0, LANDS)
    shown = " ".join((grown.grown_report / "validation.log").read_text().split())
    for node, land in LANDS.items():
        assert f"{node}: {land}" in run["verdict"]
        assert f"{node}: {land}. Nothing is proved" in shown


def test_a_kernel_that_came_without_headers_is_named_before_it_boots_and_repaired(grown: Lab) -> None:
    kernel = KERNELS[ROCKY][0]
    # Of dkms's own requirement the package for the running kernel is enough.
    grown.on(ROCKY, f"dnf -q -y install kernel-{kernel.version}")
    broken = grown.validate_nodes("--limit", ROCKY)
    assert [row["id"] for row in broken.failed()] == ["nodes.kernels"], str(broken.ended)
    assert f"kernel {kernel.release} is installed and has no module" in broken.causes(ROCKY)
    grown.site_ok("-l", ROCKY)
    assert module_for(grown, ROCKY, kernel) == OLD


def test_dnf_automatic_moves_nothing_of_ours(grown: Lab) -> None:
    """Newer releases of everything are in the repositories, and everything else is upgraded; the kernel gets its module."""
    grown.on(ROCKY, f"dnf -q -y install {NEIGHBOUR}-1.0")
    would = re.findall(r"^ (\S+) ", grown.on(ROCKY, WITHOUT_LOCKS), re.MULTILINE)
    assert {*OURS[ROCKY], *BESIDE[ROCKY], *NEXT_KERNEL[ROCKY]} <= set(would)
    before, services = versions(grown, ROCKY), grown.started(ROCKY, *SERVICES)
    grown.on(ROCKY, "dnf-automatic --installupdates", timeout=180)
    assert versions(grown, ROCKY) == upgraded(before, ROCKY)
    # Nor does what a person does.
    grown.on(ROCKY, "dnf -q -y upgrade", timeout=180)
    assert versions(grown, ROCKY) == upgraded(before, ROCKY)
    assert grown.started(ROCKY, *SERVICES) == services
    assert [module_for(grown, ROCKY, kernel) for kernel in KERNELS[ROCKY]] == [OLD, OLD]
    # The suite is content with the kernel that came.
    grown.validate_nodes("--limit", ROCKY).assert_passed()


def test_unattended_upgrades_move_and_restart_nothing_of_ours(grown: Lab, upgrade: Running) -> None:
    """The same where a site has given the vendors' repositories to it as well, and needrestart restarts services."""
    names = [name for name in BESIDE[UBUNTU] if name != NEIGHBOUR]
    old = " ".join([f"{NEIGHBOUR}=1.0-0ubuntu1", *(f"{name}={KERNELS[UBUNTU][0].version}" for name in names)])
    grown.on(UBUNTU, f"apt-get -q -y install {old}; printf '{ORIGINS}' >/etc/apt/apt.conf.d/52site")
    said = grown.on(UBUNTU, WITHOUT_HOLDS)
    (would,) = re.findall(r"^Packages that will be upgraded: (.*)$", said, re.MULTILINE)
    assert {*OURS[UBUNTU], *BESIDE[UBUNTU]} <= set(would.split())
    # containerd and kubelet are linked to no library here, so that the programs themselves are other files than those that run.
    said = grown.on(UBUNTU, f"{REPLACED}; needrestart -b -r l")
    assert {*SERVICES, "ssh"} <= set(re.findall(r"^NEEDRESTART-SVC: (\S+)[.]service$", said, re.MULTILINE))
    before, services = versions(grown, UBUNTU), grown.started(UBUNTU, *SERVICES, "ssh")
    grown.on(UBUNTU, "unattended-upgrade", timeout=180)
    assert versions(grown, UBUNTU) == upgraded(before, UBUNTU)
    grown.on(UBUNTU, "apt-get -q -y dist-upgrade", timeout=180)
    assert versions(grown, UBUNTU) == upgraded(before, UBUNTU)
    after = grown.started(UBUNTU, *SERVICES, "ssh")
    assert {unit for unit, moment in after.items() if moment != services[unit]} == {"ssh"}
    assert [module_for(grown, UBUNTU, kernel) for kernel in KERNELS[UBUNTU]] == [OLD, OLD]


def test_the_suite_is_content_with_the_kernel_that_came(grown: Lab) -> None:
    # As snapd does for each mount: systemd then wants a reload of all units, which says nothing of ours.
    written = f"printf '{OTHERS}' >/etc/systemd/system/others.service"
    grown.on(UBUNTU, f"{written}; systemctl --no-reload enable others")
    assert grown.on(UBUNTU, "systemctl show --value --property=NeedDaemonReload kubelet") == "yes"
    grown.validate_nodes("--limit", UBUNTU).assert_passed()


def test_the_node_that_dnf_manages_is_upgraded_and_needs_no_repository_to_go_back(
    grown: Lab, upgrade: Running
) -> None:
    done = upgrade.ended()
    assert done.status == 0, str(done)
    assert f"Driver '{BRANCH}' is {NEW} in this run" in str(done)
    assert installed(grown) == {UBUNTU: f"{OLD} {OLD}", ROCKY: f"{NEW} {NEW}"}
    grown.gpulab("depot", "stop")
    try:
        back = grown.playbook(ROLLBACK_PLAYBOOK, "-l", ROCKY, *SHORT)
    finally:
        grown.gpulab("depot", "start")
    assert back.status == 0, str(back)
    assert installed(grown)[ROCKY] == f"{OLD} {OLD}"
    # A second one must not bring back what this one got rid of.
    assert PREVIOUS_DRIVER not in grown.get("node", ROCKY)["metadata"]["annotations"]
