"""A mixed fleet: a node with Ubuntu's packages and one that rpm and dnf manage, both on a Debian user land, which they say."""

from __future__ import annotations

import json
import re

import pytest

from tests.e2e.harness import Lab
from tests.e2e.upgrades import NEW, OLD, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

UBUNTU, ROCKY = "gpu-1", "gpu-2"
LANDS = {
    UBUNTU: "Ubuntu 24.04 packages on a Debian user land",
    ROCKY: "Rocky 9 packages on a Debian user land, managed by rpm and dnf",
}
OPTION = f"{UBUNTU}=ubuntu-24.04,{ROCKY}=rocky-9"
NEIGHBOUR = "gpulab-neighbour"
SHARED = ("nvidia-container-toolkit", "containerd.io", "kubelet")
OURS = {
    UBUNTU: {"libnvidia-compute-580", "nvidia-dkms-580-open", *SHARED},
    ROCKY: {"nvidia-driver-cuda", "kmod-nvidia-open-dkms", *SHARED},
}
"""Some of the packages that stay; the repositories have newer ones of each."""
BESIDE = {
    # Modules are built for each kernel here, so that may come.
    UBUNTU: {NEIGHBOUR: "1.0-0ubuntu1.1", "linux-image-generic": "6.8.0-80.80"},
    ROCKY: {NEIGHBOUR: "1.1"},
}
"""What is nobody's, with the version that comes."""
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


@pytest.fixture(scope="module")
def mixed(lab: Lab, keep_lab: bool) -> Lab:
    """The fleet, up and bare. A lab that is kept is taken as it is if it is one."""
    if keep_lab:
        systems = {node["name"]: node["os"] for node in lab.status()["nodes"]}
        if (systems.get(UBUNTU), systems.get(ROCKY)) != ("ubuntu-24.04", "rocky-9"):
            pytest.skip(f"E2E_KEEP_LAB: the lab that is up is not of '--os {OPTION}'")
        return lab
    lab.gpulab("down")
    lab.up("--gpus", "1", "--os", OPTION)
    return lab


@pytest.fixture(scope="module")
def provisioned(mixed: Lab) -> Lab:
    """Both nodes brought in."""
    mixed.site_ok()
    return mixed


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


def versions(lab: Lab, node: str) -> dict[str, str]:
    """All packages of a node."""
    said = {
        UBUNTU: "dpkg-query -W -f '${Package} ${Version}\\n'",
        ROCKY: "rpm -qa --qf '%{NAME} %{VERSION}\\n'",
    }
    return dict(line.split() for line in lab.on(node, said[node]).splitlines())


def test_a_machine_says_what_it_is(mixed: Lab) -> None:
    lands = {node["name"]: node["user_land"] for node in mixed.status()["nodes"] if node["user_land"]}
    assert lands == LANDS
    for node, land in LANDS.items():
        assert mixed.on(node, "head -n 1 /etc/issue").startswith(land)
    assert mixed.on(ROCKY, "! command -v apt-get; ! command -v dpkg; command -v dnf") == "/usr/bin/dnf"


def test_both_families_are_brought_in_and_left_alone(provisioned: Lab) -> None:
    assert installed(provisioned) == dict.fromkeys((UBUNTU, ROCKY), f"{OLD} {OLD}")
    provisioned.wait_allocatable(dict.fromkeys((UBUNTU, ROCKY), 1), 60)
    # Nothing is to be had, so nothing may be needed.
    provisioned.gpulab("depot", "stop")
    try:
        second = provisioned.site_ok()
    finally:
        provisioned.gpulab("depot", "start")
    assert {host: row["changed"] for host, row in second.recap().items() if row["changed"]} == {}, str(second)


def test_no_pass_reads_as_one_on_the_distribution(provisioned: Lab) -> None:
    """The suite's run is that of site.yml: only it stamps nodes."""
    latest = provisioned.root / "reports" / "latest"
    run = json.loads((latest / "results.json").read_text())["run"]
    assert (run["exit_code"], run["user_lands"]) == (0, LANDS)
    shown = " ".join((latest / "validation.log").read_text().split())
    for node, land in LANDS.items():
        assert f"{node}: {land}" in run["verdict"]
        assert f"{node}: {land}. Nothing is proved" in shown


def test_dnf_automatic_moves_nothing_of_ours(provisioned: Lab) -> None:
    """Newer releases of everything are in the repositories, and everything else is upgraded."""
    provisioned.on(ROCKY, f"dnf -q -y install {NEIGHBOUR}-1.0")
    would = re.findall(r"^ (\S+) ", provisioned.on(ROCKY, WITHOUT_LOCKS), re.MULTILINE)
    assert {*OURS[ROCKY], *BESIDE[ROCKY]} <= set(would)
    before, services = versions(provisioned, ROCKY), provisioned.started(ROCKY, *SERVICES)
    provisioned.on(ROCKY, "dnf-automatic --installupdates", timeout=180)
    assert versions(provisioned, ROCKY) == {**before, **BESIDE[ROCKY]}
    # Nor does what a person does.
    provisioned.on(ROCKY, "dnf -q -y upgrade", timeout=180)
    assert versions(provisioned, ROCKY) == {**before, **BESIDE[ROCKY]}
    assert provisioned.started(ROCKY, *SERVICES) == services


def test_unattended_upgrades_move_and_restart_nothing_of_ours(provisioned: Lab) -> None:
    """The same where a site has given the vendors' repositories to it as well, and needrestart restarts services."""
    old = f"{NEIGHBOUR}=1.0-0ubuntu1 linux-image-generic=6.8.0-79.79"
    provisioned.on(UBUNTU, f"apt-get -q -y install {old}; printf '{ORIGINS}' >/etc/apt/apt.conf.d/52site")
    said = provisioned.on(UBUNTU, WITHOUT_HOLDS)
    (would,) = re.findall(r"^Packages that will be upgraded: (.*)$", said, re.MULTILINE)
    assert {*OURS[UBUNTU], *BESIDE[UBUNTU]} <= set(would.split())
    # containerd and kubelet are linked to no library here, so that the programs themselves are other files than those that run.
    said = provisioned.on(UBUNTU, f"{REPLACED}; needrestart -b -r l")
    assert {*SERVICES, "ssh"} <= set(re.findall(r"^NEEDRESTART-SVC: (\S+)[.]service$", said, re.MULTILINE))
    before, services = versions(provisioned, UBUNTU), provisioned.started(UBUNTU, *SERVICES, "ssh")
    provisioned.on(UBUNTU, "unattended-upgrade", timeout=180)
    assert versions(provisioned, UBUNTU) == {**before, **BESIDE[UBUNTU]}
    provisioned.on(UBUNTU, "apt-get -q -y dist-upgrade", timeout=180)
    assert versions(provisioned, UBUNTU) == {**before, **BESIDE[UBUNTU]}
    after = provisioned.started(UBUNTU, *SERVICES, "ssh")
    assert {unit for unit, moment in after.items() if moment != services[unit]} == {"ssh"}


def test_the_node_that_dnf_manages_is_upgraded_and_goes_back(provisioned: Lab) -> None:
    branch = NEW.partition(".")[0]
    done = provisioned.playbook(*upgrade_words(ROCKY, branch))
    assert done.status == 0, str(done)
    assert f"Driver '{branch}' is {NEW} in this run" in str(done)
    assert installed(provisioned) == {UBUNTU: f"{OLD} {OLD}", ROCKY: f"{NEW} {NEW}"}
    back = provisioned.playbook(ROLLBACK_PLAYBOOK, "-l", ROCKY, *SHORT)
    assert back.status == 0, str(back)
    assert installed(provisioned)[ROCKY] == f"{OLD} {OLD}"
