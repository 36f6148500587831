"""The register of workloads: each declares what it needs of nodes, when it comes, and what its check proves."""

from __future__ import annotations

import graphlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from gpusmith.checks.findings import Finding
from gpusmith.checks.register import catalog, check
from gpusmith.errors import InputError
from gpusmith.workloads.judge import Judged
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.pods import Pods

ALL: Literal["all"] = "all"
"""As many GPUs as are free on the node."""

Work = Callable[..., Judged | Finding]
"""Gets the pods of each of its nodes, in their order. A finding stands for work that took no pods."""
W = TypeVar("W", bound=Work)
Step = tuple["Workload", ...]


@dataclass(frozen=True)
class Workload:
    """Work in pods that one check is about.

    Attributes:
        check: id of its check.
        title: the work in words; '{gpus}' stands for the number of GPUs that it gets on a node. Of parts of GPUs, these are named
            instead.
        run: does it.
        gpus: how many free GPUs it needs on each of its nodes, or ALL; before work with GPUs a node is looked at again.
        nodes: how many nodes it needs at the same time.
        up_to: how many nodes it may get, if some would be left over.
        image: of its pods, by its key in the inventory's 'validation_images'.
        after: ids of the checks whose workloads come before it.
        start: makes pods without GPUs before the first workload; their results are read when its turn comes, whatever became
            of the workloads before it.
        blocks: why workloads after it are not made, from its finding; empty if they are.
        keeps: its pods hold their GPUs on, for the workloads after it, until the node's last one.
        every_share: where GPUs are handed out in parts it gets all free ones, for a pod each; other work gets one of them.
        covers: coverage counts the GPUs that it ran on, and who held the others when its turn came.
    """

    check: str
    title: str
    run: Work
    gpus: int | Literal["all"]
    nodes: int = 1
    up_to: int = 0
    image: str = "cuda"
    after: Sequence[str] = ()
    start: Callable[[Pods], None] | None = None
    blocks: Callable[[Finding], str] = lambda _: ""
    keeps: bool = False
    every_share: bool = False
    covers: bool = False


_WORKLOADS: dict[str, Workload] = {}


def workload(
    name: str,
    /,
    *,
    place: int,
    proves: str,
    fails_when: str,
    do: str,
    title: str,
    gpus: int | Literal["all"],
    **needs: Any,
) -> Callable[[W], W]:
    """Register the decorated function as a workload, and its check.

    Args:
        name: id of the check: 'workloads.' and a name.
        place: as of a check; also decides what is begun first where 'after' leaves the choice.
        proves: as of a check.
        fails_when: as of a check.
        do: as of a check.
        title: as of Workload.
        gpus: as of Workload.
        needs: further fields of Workload.

    Raises:
        InputError: the name has no tier, or is taken.
    """

    def register(run: W) -> W:
        def found(outcome: NodeOutcome) -> Finding:
            return outcome.findings[name]

        by = ("cluster.node-ready", "cluster.gpu-capacity")
        check(name, place=place, proves=proves, fails_when=fails_when, do=do, explained_by=by)(found)
        _WORKLOADS[name] = Workload(name, title, run, gpus, **needs)
        return run

    return register


def in_order() -> tuple[list[Step], list[Workload]]:
    """All workloads: those of one node in steps, then those of several nodes one after the other.

    Workloads of one step need nothing of each other. Nodes are tested together when each was tested by itself.

    Raises:
        InputError: workloads wait for each other, or for one that there is not.
    """
    rows = [_WORKLOADS[name] for name in catalog() if name in _WORKLOADS]
    by_check = {row.check: row for row in rows}
    for row in rows:
        for name in row.after:
            if name not in by_check:
                raise _wrong(f"Workload '{row.check}' comes after '{name}', which is no workload.")
            if row.nodes == 1 < by_check[name].nodes:
                raise _wrong(f"Workload '{row.check}' of one node comes after '{name}' of several nodes.")
    order = graphlib.TopologicalSorter({row.check: row.after for row in rows})
    try:
        order.prepare()
    except graphlib.CycleError as error:
        raise _wrong(f"Workloads wait for each other: {', '.join(error.args[1])}.") from error
    steps = []
    while order.is_active():
        ready = set(order.get_ready())
        steps.append(tuple(row for row in rows if row.check in ready))
        order.done(*ready)
    alone = [step for whole in steps if (step := tuple(row for row in whole if row.nodes == 1))]
    return alone, [row for step in steps for row in step if row.nodes > 1]


def _wrong(cause: str) -> InputError:
    return InputError(cause, "Correct 'after' where the workload is registered.")
