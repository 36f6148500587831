"""Role host_baseline sets real huge pages: the kernel is this machine's, which has the number that it had before in the end.

Needs root, and no lab. Memory that is not free in one piece is not tried: it would be that of all others on this machine.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusmith.data import compatibility, models
from gpusmith.node import bundle
from gpusmith.preflight.machine import check_huge_pages
from gpusmith.preflight.words import Tables
from gpusmith.probe.memory import FOLDER
from tests.e2e.harness import Ended
from tests.long import real_control_plane
from tests.long.debian_machines import QUIET, Machine, booted, host_rootfs
from tests.unit.hosts import run

LABEL = "io.gpusmith.test=huge-pages"
PAGES = Path(FOLDER) / "hugepages-2048kB/nr_hugepages"
FILE = "/etc/tmpfiles.d/gpusmith-host-baseline.conf"
SIZE, COUNT = "2Mi", 16

cluster = real_control_plane.cluster


@pytest.fixture(scope="module")
def before() -> Iterator[int]:
    """How many the kernel has had."""
    if os.geteuid() != 0 or not os.access(PAGES, os.W_OK):
        pytest.skip("huge pages are set by root, of a kernel that has them")
    found = int(PAGES.read_text())
    yield found
    PAGES.write_text(str(found))


@pytest.fixture(scope="module")
def machine(before: int, tmp_path_factory: pytest.TempPathFactory, root: Path) -> Iterator[Machine]:
    folder = tmp_path_factory.mktemp("huge-pages")
    with booted("huge-pages", LABEL, host_rootfs("bookworm"), root, folder) as there:
        there.ask("systemctl", "disable", "--now", "firewalld")
        yield there


def pages() -> int:
    return int(PAGES.read_text())


def as_a_boot(machine: Machine) -> None:
    """Run what the service of boots runs, below /sys alone. A container that is started anew would lose its files."""
    unit = "/lib/systemd/system/systemd-tmpfiles-setup.service"
    machine.sh(f"set -e; line=$(sed -n 's/^ExecStart=//p' {unit}); test -n \"$line\"; $line --prefix=/sys")


def play(machine: Machine, count: int, *options: str, entry: str = "main") -> Ended:
    wanted = {"host_baseline_huge_pages": {SIZE: count} if count else {}}
    ended = machine.play("host_baseline", entry, *options, **QUIET, **wanted)
    assert ended.status == 0, str(ended)
    return ended


def changed(machine: Machine, ended: Ended) -> int:
    return ended.recap()[machine.name]["changed"]


def test_check_mode_tells_what_a_run_then_does_and_a_second_run_does_nothing(
    machine: Machine, before: int
) -> None:
    count = before + COUNT
    foretold = play(machine, count, "--check")
    assert f"{count} huge pages of {SIZE}" in foretold.output, str(foretold)
    assert FILE in foretold.output, str(foretold)
    assert pages() == before
    play(machine, count)
    assert pages() == count
    assert changed(machine, ended := play(machine, count)) == 0, str(ended)


def test_the_service_of_boots_sets_them(machine: Machine, before: int) -> None:
    PAGES.write_text(str(before))
    as_a_boot(machine)
    assert pages() == before + COUNT
    assert changed(machine, ended := play(machine, before + COUNT)) == 0, str(ended)


def test_another_number_is_set_and_what_programs_do_after_upgrades_sets_nothing(
    machine: Machine, before: int
) -> None:
    play(machine, before + COUNT // 2)
    assert pages() == before + COUNT // 2
    PAGES.write_text(str(before))
    machine.ask("systemd-tmpfiles", "--create")
    assert pages() == before
    play(machine, before + COUNT // 2)
    assert pages() == before + COUNT // 2


@pytest.mark.parametrize(
    ("size", "count", "words"), [(SIZE, 2**24, "are asked for"), ("3Mi", 1, "knows no pages")]
)
def test_more_than_the_memory_and_sizes_that_the_kernel_does_not_know_are_refused(
    machine: Machine, size: str, count: int, words: str
) -> None:
    said = machine.podman.run(
        *("exec", "--interactive", machine.name, "python3", "-c", bundle.BOOTSTRAP),
        stdin=bundle.bundle(),
        quiet=True,
    ).stdout
    tables = Tables(models.load(), compatibility.load())
    (refusal,) = check_huge_pages(
        {"record": json.loads(said)}, run(host_baseline_huge_pages={size: count}), tables
    )
    assert words in refusal.message


def test_a_removal_takes_them_out_of_the_boot_and_the_kernel_keeps_them_until_then(
    machine: Machine, before: int
) -> None:
    play(machine, before + COUNT, entry="remove")
    assert pages() == before + COUNT // 2
    assert machine.sh(f"ls {FILE} 2>/dev/null || true") == ""
    PAGES.write_text(str(before))
    as_a_boot(machine)
    assert pages() == before
    assert changed(machine, play(machine, before + COUNT, entry="remove")) == 0


def test_a_kubelet_that_starts_then_offers_them(before: int, cluster: real_control_plane.Cluster) -> None:
    PAGES.write_text(str(before + COUNT))
    real_control_plane.kubelet(cluster)
    offered = ["kubectl", "get", "node", "gpu-1", "-o", "jsonpath={.status.capacity.hugepages-2Mi}"]
    cluster.wait("the node has them", *offered, says=f"{2 * (before + COUNT)}Mi")
