"""Role containerd over Debian 13's own packages, as systemd runs them. Needs root and Debian's archive, and no lab.

Debian's release is older than those that Kubernetes supports, which preflight says and a role alone does not ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Ended
from tests.long.driver_machines import DriverMachine, started

VERSION = "1.7.24"
# What came along stays: runc may serve others by now. So does containerd's state, which has their images and containers.
LEFT = re.compile(r"file /var/lib/containerd/|.*\brunc\b")


@pytest.fixture(scope="module")
def trixie(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[DriverMachine]:
    with started("trixie", root, tmp_path_factory.mktemp("trixie")) as machine:
        yield machine


def converged(machine: DriverMachine) -> Ended:
    # Pods never run here, and a container has not the right to lower OOM scores.
    return machine.play(
        "containerd", "main", containerd_version=VERSION, containerd_restrict_oom_score_adj=True
    )


def test_debians_own_packages_come_serve_and_go(trixie: DriverMachine) -> None:
    before = trixie.snapshot()
    ended = converged(trixie)
    assert ended.status == 0, ended
    assert trixie.packages()["containerd"].startswith(f"{VERSION}~")
    assert "containerd" in trixie.held()
    assert "runc" in trixie.packages()
    assert "runc" not in trixie.held()
    assert trixie.ask("systemctl", "is-active", "containerd") == "active"
    assert re.search(r"io\.containerd\.grpc\.v1 +cri +\S+ +ok", trixie.ask("ctr", "plugins", "ls"))
    dump = trixie.ask("containerd", "config", "dump")
    assert "SystemdCgroup = true" in dump
    assert "enable_cdi = true" in dump
    again = converged(trixie)
    assert again.status == 0, again
    assert {row["changed"] for row in again.recap().values()} == {0}, again
    for changed in (True, False):
        gone = trixie.play("containerd", "remove", containerd_version=VERSION)
        assert gone.status == 0, gone
        assert bool(gone.recap()[trixie.name]["changed"]) is changed, gone
    assert "containerd" not in trixie.packages()
    trixie.ask("apt-get", "purge", "--yes", "-q", *sorted(trixie.purgeable()))
    left = {line for line in trixie.snapshot() - before if not LEFT.match(line)}
    assert sorted(left) == []
