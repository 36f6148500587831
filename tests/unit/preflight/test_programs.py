"""Machines whose containerd or kubelet is not a package's are refused, by what systemd runs there."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from gpusmith.errors import Refusal
from gpusmith.probe.programs import Program
from tests.unit.preflight.test_judge import facts, refused

VENDOR, SITE = "/usr/lib/systemd/system", "/etc/systemd/system"


def program(name: str, folder: str = "/usr/bin", units: str = VENDOR, **known: Any) -> Program:
    path = f"{folder}/{name}"
    return Program(
        **{"active": "active", "unit_file": f"{units}/{name}.service", "command": path, "path": path, **known}
    )


def judged(joined: bool, programs: dict[str, Program], **wanted: Any) -> list[Refusal]:
    tree = facts()
    tree["record"]["kubernetes"].update(joined=joined, kubelet_version="1.36.3" if joined else None)
    tree["record"]["programs"] = {name: asdict(row) for name, row in programs.items()}
    return refused(tree, **wanted)


KUBESPRAY = {
    "containerd": program("containerd", "/usr/local/bin", SITE, owner="", version="2.1.4"),
    "kubelet": program("kubelet", "/usr/local/bin", SITE, owner="", version="1.34.2"),
}


def test_a_node_of_kubespray_is_refused_by_what_runs() -> None:
    runtime, kubelet = judged(joined=True, programs=KUBESPRAY)
    assert runtime.message.startswith("containerd of a joined node: ")
    for word in (
        "'kubelet.service'",
        f"'{SITE}/kubelet.service'",
        "'/usr/local/bin/kubelet'",
        "'1.34.2'",
        "no package owns",
    ):
        assert word in kubelet.message
    assert "-l" in kubelet.hint
    # Another driver changes neither.
    assert judged(joined=True, programs=KUBESPRAY, driver_only=True) == []
    # A machine that is to have no driver gets neither.
    assert [
        row for row in judged(False, KUBESPRAY, nvidia_driver_state="absent") if "kubelet" in row.message
    ] == []


USUAL = {
    "docker": program("containerd", owner="containerd.io"),
    "debian": program("containerd", units="/lib/systemd/system", owner="containerd"),
    "unmerged": program("containerd", "/bin", owner="containerd"),
    "kubeadm": program("kubelet", owner="kubelet"),
    # Ubuntu: a link of the same package; a site's own unit that starts the package's program.
    "link": program("containerd", owner="containerd-stable", units=SITE),
    "nobody-knows": program("kubelet", owner=None),
}


@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("kind", USUAL)
def test_programs_of_packages_are_not_refused(kind: str, joined: bool) -> None:
    name = USUAL[kind].command.rpartition("/")[2]
    assert judged(joined, {name: USUAL[kind]}) == []


def test_a_program_elsewhere_is_refused_also_where_nobody_can_tell_its_package() -> None:
    assert (
        len(judged(joined=True, programs={"kubelet": program("kubelet", "/usr/local/bin", owner=None)})) == 1
    )


def test_another_vendors_package_elsewhere_is_refused() -> None:
    (found,) = judged(
        joined=True, programs={"kubelet": program("kubelet", "/cm/local/bin", owner="cm-kubernetes")}
    )
    assert "package 'cm-kubernetes' brings" in found.message


@pytest.mark.parametrize(
    ("row", "stops"),
    [
        (program("containerd", "/usr/local/bin", SITE, owner=""), True),
        (program("containerd", "/usr/local/bin", VENDOR, owner=""), True),
        (program("kubelet", "/usr/local/bin", SITE, owner="", active="activating"), True),
        # Nothing runs, but its unit would be started in the place of the package's.
        (program("containerd", "/usr/local/bin", SITE, owner="", active="inactive"), True),
        # A package's unit takes its place.
        (program("containerd", "/usr/local/bin", VENDOR, owner="", active="inactive"), False),
    ],
)
def test_a_machine_that_is_no_node_yet_is_refused_if_it_would_run(row: Program, stops: bool) -> None:
    found = judged(joined=False, programs={row.command.rpartition("/")[2]: row})
    assert bool(found) is stops
    assert all("of this machine" in refusal.message for refusal in found)
    assert all("whoever installed it" in refusal.hint for refusal in found)


@pytest.mark.parametrize(
    ("unit", "command", "path"),
    [
        ("k3s-agent", "/usr/local/bin/k3s", "/var/lib/rancher/k3s/data/a/bin/k3s"),
        ("rke2-agent", "/usr/bin/rke2", "/usr/bin/rke2"),
        ("snap.kubelet.daemon", "/usr/bin/snap", "/snap/kubelet/3300/kubelet"),
    ],
)
@pytest.mark.parametrize("active", ["active", "inactive"])
def test_another_kubernetes_that_runs_is_refused(unit: str, command: str, path: str, active: str) -> None:
    row = Program(active, f"{SITE}/{unit}.service", command, path)
    found = judged(joined=False, programs={unit: row})
    assert bool(found) is (active == "active")
    assert all(f"'{unit}.service'" in refusal.message and f"'{path}'" in refusal.message for refusal in found)
