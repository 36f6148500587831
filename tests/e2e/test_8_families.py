"""A mixed fleet: a node with Ubuntu's packages and one that rpm and dnf manage, both on a Debian user land, which they say."""

from __future__ import annotations

import json

import pytest

from tests.e2e.harness import Lab
from tests.e2e.upgrades import NEW, OLD, ROLLBACK_PLAYBOOK, SHORT, upgrade_words

UBUNTU, ROCKY = "gpu-1", "gpu-2"
LANDS = {
    UBUNTU: "Ubuntu 24.04 packages on a Debian user land",
    ROCKY: "Rocky 9 packages on a Debian user land, managed by rpm and dnf",
}
OPTION = f"{UBUNTU}=ubuntu-24.04,{ROCKY}=rocky-9"


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


def test_newer_releases_do_not_come_by_themselves(provisioned: Lab) -> None:
    """Newer ones of everything are in the repositories, and what moves packages by itself runs."""
    provisioned.on(ROCKY, "dnf -q -y upgrade; dnf-automatic --installupdates", timeout=180)
    held = provisioned.on(ROCKY, "rpm -qa --qf '%{NAME} %{VERSION}\n'")
    assert "999" not in held
    assert f"nvidia-driver-cuda {OLD}" in held
    provisioned.on(UBUNTU, "apt-get -q -y upgrade; unattended-upgrade", timeout=180)
    assert "999" not in provisioned.on(UBUNTU, "dpkg-query -W -f '${Package} ${Version}\n'")
    assert installed(provisioned) == dict.fromkeys((UBUNTU, ROCKY), f"{OLD} {OLD}")


def test_the_node_that_dnf_manages_is_upgraded_and_goes_back(provisioned: Lab) -> None:
    branch = NEW.partition(".")[0]
    done = provisioned.playbook(*upgrade_words(ROCKY, branch))
    assert done.status == 0, str(done)
    assert f"Driver '{branch}' is {NEW} in this run" in str(done)
    assert installed(provisioned) == {UBUNTU: f"{OLD} {OLD}", ROCKY: f"{NEW} {NEW}"}
    back = provisioned.playbook(ROLLBACK_PLAYBOOK, "-l", ROCKY, *SHORT)
    assert back.status == 0, str(back)
    assert installed(provisioned)[ROCKY] == f"{OLD} {OLD}"
