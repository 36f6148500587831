"""Debian's own needrestart after an upgrade, beside what role host_baseline tells it. Needs root and Debian's archive, no lab.

The units of the kubelet and of the driver's daemon run a program that sleeps; containerd and cron are Debian's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from gpulab.artifacts import debian

from tests.long.debian_machines import EXCLUDED, QUIET, SYSTEM, Machine, booted

LABEL = "io.gpusmith.test=needrestart"
FILE = "/etc/needrestart/conf.d/gpusmith-host-baseline.conf"
SLEEPERS = ("kubelet", "nvidia-persistenced")
KEPT = ("containerd", *SLEEPERS)
OTHER = "cron"
UNIT = "[Service]\nExecStart=/usr/bin/{name} infinity\n\n[Install]\nWantedBy=multi-user.target\n"
# As an upgrade does: another file at the same place.
REPLACED = "for name in {names}; do path=$(command -v $name); cp -p $path $path.new; mv $path.new $path; done"


def rootfs(suite: str) -> debian.Rootfs:
    """A machine whose site has needrestart."""
    more = ("containerd", OTHER, "iproute2", "kmod", "needrestart", "python3")
    return debian.Rootfs(f"needrestart-{suite}", suite, "minbase", (*SYSTEM, *more), EXCLUDED, unpacked=True)


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, root: Path
) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp(request.param)
    with booted("needrestart", LABEL, rootfs(request.param), root, folder) as there:
        for name in SLEEPERS:
            there.write(f"/etc/systemd/system/{name}.service", UNIT.format(name=name))
            there.sh(f"cp /usr/bin/sleep /usr/bin/{name}")
        there.sh(f"systemctl daemon-reload; systemctl enable --now {' '.join((*KEPT, OTHER))}")
        yield there


def started(machine: Machine) -> dict[str, str]:
    """When each service was started."""
    return {
        name: machine.ask("systemctl", "show", "--value", "--property=ExecMainStartTimestampMonotonic", name)
        for name in (*KEPT, OTHER)
    }


def restarted_by_needrestart(machine: Machine) -> set[str]:
    """What it restarts by itself once the programs of all services are other files."""
    before = started(machine)
    machine.sh(REPLACED.format(names=" ".join((*KEPT, OTHER))))
    machine.ask("needrestart", "-r", "a")
    after = started(machine)
    return {name for name in before if before[name] != after[name]}


def baseline(machine: Machine, entry: str = "main") -> int:
    """How much the role changed."""
    ended = machine.play("host_baseline", entry, **QUIET)
    assert ended.status == 0, str(ended)
    return ended.recap()[machine.name]["changed"]


def test_only_services_of_others_are_restarted(machine: Machine) -> None:
    assert restarted_by_needrestart(machine) == {*KEPT, OTHER}, "what it does without the role"
    assert baseline(machine) > 0
    assert baseline(machine) == 0
    assert restarted_by_needrestart(machine) == {OTHER}


def test_a_removal_takes_it_back(machine: Machine) -> None:
    assert machine.sh(f"cat {FILE}")
    assert baseline(machine, "remove") > 0
    assert machine.sh(f"ls {FILE} 2>/dev/null || true") == ""
    assert restarted_by_needrestart(machine) == {*KEPT, OTHER}
