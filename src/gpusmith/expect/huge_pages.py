"""Huge pages: what the inventory wants, what the kernel has, and the file by which boots set them.

The kubelet reads their number when it starts, and memory that they take is no pod's any more. So the number is changed before a
machine joins, and by a boot. Facts: pkg/kubelet/cadvisor/util.go, CapacityFromMachineInfo, of k8s.io/kubernetes v1.36.3.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.expect.wanted import Baseline
from gpusmith.probe.memory import FOLDER, HugePages
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem
from gpusmith.wording import quoted

KIB = {"Ki": 1, "Mi": 1024, "Gi": 1024**2}
VARIABLE = "host_baseline_huge_pages"


def kib(size: str) -> int:
    """Of a size as Kubernetes names it."""
    return int(size[:-2]) * KIB[size[-2:]]


def lines(wanted: Mapping[str, int]) -> list[str]:
    """Of a file of tmpfiles.d, which boots go by before services start.

    Lines with '!' are for boots alone (tmpfiles.d(5)): package managers run systemd-tmpfiles after upgrades, also where pods run.
    """
    return [
        f"w! {FOLDER}/hugepages-{kib(size)}kB/nr_hugepages - - - - {count}" for size, count in wanted.items()
    ]


def differing(record: Record, wanted: Baseline) -> dict[str, int]:
    """By size, how many there should be where there are others; without sizes that the kernel does not know."""
    there = record.memory.huge_pages
    return {
        size: count
        for size, count in wanted.huge_pages.items()
        if size in there and there[size].count != count
    }


def to_set(record: Record, wanted: Baseline) -> dict[str, int]:
    """What is set now: nothing on a node that serves."""
    return {} if record.kubernetes.joined else differing(record, wanted)


def problems(record: Record, wanted: Baseline) -> list[Problem]:
    """Each size of which there are others than the inventory says."""
    node, joined = wanted.node, record.kubernetes.joined
    found = []
    for size in wanted.huge_pages:
        seen = record.memory.huge_pages.get(size)
        if seen is None:
            cause, step = (
                f"its kernel knows no huge pages of '{size}'",
                f"Take it out of '{VARIABLE}' for '{node}'.",
            )
            found.append(Problem(f"Node '{node}': {cause}.", step, {f"hugepages_{size}": None}))
        elif size in differing(record, wanted):
            found.append(_of_size(size, seen, wanted, joined=joined))
    return found


def kept(record: Record, wanted: Baseline) -> list[Problem]:
    """What stays on a node that serves until it boots."""
    if not record.kubernetes.joined:
        return []
    sizes = {f"hugepages_{size}" for size in differing(record, wanted)}
    return [problem for problem in problems(record, wanted) if sizes & set(problem.evidence)]


def notes(record: Record, wanted: Baseline) -> list[str]:
    """What a person should know of a node that serves."""
    there = record.memory.huge_pages
    return [
        f"it has {there[size].count} huge pages of '{size}', {count} after its next boot: its kubelet counts them at its start"
        for size, count in (differing(record, wanted) if record.kubernetes.joined else {}).items()
    ]


def _of_size(size: str, seen: HugePages, wanted: Baseline, *, joined: bool) -> Problem:
    node, count = wanted.node, wanted.huge_pages[size]
    cause = f"it has {seen.count} huge pages of '{size}', the inventory wants {count}"
    step = (
        f"Run site.yml; if it comes back, memory for them is not free in one piece: reboot '{node}', since boots set them early,"
        f" or lower '{VARIABLE}'."
    )
    if joined:
        cause += "; while it serves, only a boot changes them, since they take memory and its kubelet counts them when it starts"
        step = f"Run site.yml, which writes what boots do, then drain and reboot '{node}', or correct '{VARIABLE}'."
    return Problem(
        f"Node '{node}': {cause}.",
        step,
        {f"hugepages_{size}": seen.count},
        Cure.PERSON if joined else Cure.HOST,
    )


def unfitting(record: Record, wanted: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Why a machine cannot have them: what was found, what is allowed, and what to do."""
    there, total = record.memory.huge_pages, record.memory.total_kib
    unknown = [size for size in wanted if size not in there]
    if unknown:
        allowed = quoted(there) if there else "none, since its kernel has no huge pages"
        return [(f"the kernel knows no pages of {quoted(unknown)}", allowed, f"Correct '{VARIABLE}'.")]
    asked = sum(kib(size) * count for size, count in wanted.items())
    if total is not None and asked >= total:
        return [
            (
                f"{asked // 1024} MiB are asked for, and the machine has {total // 1024} MiB of memory",
                "less, with memory for everything else",
                f"Lower '{VARIABLE}'.",
            )
        ]
    locked = [size for size, count in wanted.items() if there[size].locked and there[size].count != count]
    if locked and not record.kubernetes.joined:
        counts = ", ".join(f"{there[size].count} of '{size}'" for size in locked)
        return [
            (
                f"there are {counts}, and this machine cannot set them",
                ", ".join(f"{wanted[size]} of '{size}'" for size in locked),
                f"Set them on the host of this container, or take them out of '{VARIABLE}'.",
            )
        ]
    return []
