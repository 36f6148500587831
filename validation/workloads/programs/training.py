"""What the frameworks' programs share: linear regression with a closed form for every step, and what proves that ranks agree.

Each rank has its own share of the rows, so that only a right exchange of gradients gives the weights of all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Callable

import gpu_driver
from gpu_driver import ProgramError
from ranks import Group

ROWS, COLUMNS, STEPS, RATE = 256, 8, 20, 0.1
TOLERANCE = 1e-5
"""Of a weight. Right runs in single precision differ by 1e-7; a gradient that is 1 % wrong in one step by 1e-4."""
NUMBERS = 1 << 16
"""How many whole numbers each rank adds to the exact all-reduce."""


@dataclass
class Trained:
    """What a framework did.

    Attributes:
        losses: of all rows, before the first step and after each.
        weights: at the end, of each rank.
        world: how many ranks the framework counted.
        summed: numbers() of all ranks, added by an all-reduce; empty with one rank.
        gathered: the rank numbers, by an all-gather; empty with one rank.
        evidence: what else is worth knowing.
    """

    losses: list[float]
    weights: list[list[float]]
    world: int = 1
    summed: list[int] = field(default_factory=list)
    gathered: list[int] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)


def problem() -> tuple[list[list[float]], list[list[float]], list[list[float]]]:
    """Inputs, targets and true weights; fixed numbers between -1 and 1 from a small generator."""
    state = 12345

    def number() -> float:
        nonlocal state
        state = (1103515245 * state + 12345) % 2147483648
        return state / 1073741824 - 1.0

    x = [[number() for _ in range(COLUMNS)] for _ in range(ROWS)]
    truth = [[number()] for _ in range(COLUMNS)]
    y = [[sum(row[k] * truth[k][0] for k in range(COLUMNS))] for row in x]
    return x, y, truth


def rows_of(world: int) -> int:
    """How many rows so many ranks use: each has as many as the others, so that the mean of means is the mean."""
    return ROWS // world * world


def share(rank: int, world: int) -> tuple[list[list[float]], list[list[float]]]:
    """Inputs and targets of a rank."""
    x, y, _truth = problem()
    each = ROWS // world
    mine = slice(rank * each, (rank + 1) * each)
    return x[mine], y[mine]


def closed_form(rows: int = ROWS) -> list[float]:
    """Weights after all steps from zero, on the CPU in double precision.

    The gradient of the mean square error is 2/n Xt(Xw - y), so w moves by -RATE times that.
    """
    x, y, _truth = problem()
    square = [
        [sum(x[n][i] * x[n][j] for n in range(rows)) / rows for j in range(COLUMNS)] for i in range(COLUMNS)
    ]
    mixed = [sum(x[n][i] * y[n][0] for n in range(rows)) / rows for i in range(COLUMNS)]
    w = [0.0] * COLUMNS
    for _step in range(STEPS):
        gradient = [2 * (sum(square[i][j] * w[j] for j in range(COLUMNS)) - mixed[i]) for i in range(COLUMNS)]
        w = [w[i] - RATE * gradient[i] for i in range(COLUMNS)]
    return w


def numbers(rank: int) -> list[int]:
    """What a rank adds to the exact all-reduce."""
    return [i % 1009 * (rank + 1) for i in range(NUMBERS)]


def judge(done: Trained, world: int = 1, nodes: Sequence[str] = ("this node",)) -> dict[str, Any]:
    """The loss falls at every step, all ranks have the same weights, and these are the closed form's.

    Args:
        done: by the framework.
        world: how many ranks there should be.
        nodes: names of their nodes; each has as many ranks.

    Raises:
        ProgramError: something is not so.
    """
    if (done.world, len(done.weights)) != (world, world):
        raise ProgramError(f"the framework counts {done.world} ranks, the job has {world}")
    if world > 1:
        _exact("all-reduce", done.summed, [value * (world * (world + 1) // 2) for value in numbers(0)])
        _exact("all-gather", done.gathered, list(range(world)))
    for before, after in zip(done.losses, done.losses[1:]):
        if not after < before:
            raise ProgramError(f"the loss does not fall: {before} is followed by {after}")
    differ = [
        f"rank {rank} of node '{nodes[rank * len(nodes) // world]}'"
        for rank, weights in enumerate(done.weights)
        if weights != done.weights[0]
    ]
    if differ:
        raise ProgramError(
            f"ranks do not agree: the weights of {', '.join(differ)} differ from those of rank 0"
        )
    expected = closed_form(rows_of(world))
    difference = max(abs(a - b) for a, b in zip(done.weights[0], expected))
    if not difference < TOLERANCE or len(done.weights[0]) != len(expected):
        raise ProgramError(f"the trained weights differ from the closed form by {difference}")
    return {
        "world": world,
        "steps": len(done.losses) - 1,
        "loss_first": done.losses[0],
        "loss_last": done.losses[-1],
        "max_difference": difference,
        "weights": done.weights[0],
        **done.evidence,
    }


def _exact(what: str, seen: Sequence[int], expected: Sequence[int]) -> None:
    """Whole numbers leave no room for rounding."""
    wrong = [i for i, (a, b) in enumerate(zip(seen, expected)) if a != b]
    if wrong or len(seen) != len(expected):
        first = f", first at {wrong[0]}: {seen[wrong[0]]} instead of {expected[wrong[0]]}" if wrong else ""
        raise ProgramError(
            f"{what} of whole numbers is wrong: {len(wrong)} of {len(expected)} differ, {len(seen)} came{first}"
        )


def computed_on(where: str, device: str) -> None:
    """Refuse a loss that the framework computed elsewhere than on the device.

    Raises:
        ProgramError: it did.
    """
    if device not in where:
        raise ProgramError(f"the loss was computed on '{where}', not on '{device}'")


def work(
    framework: Callable[[], Any], group: Group, ordinals: Sequence[int], library: Any = None
) -> dict[str, Any]:
    """Witnesses, driver API and our own kernel first, then the framework.

    Args:
        framework: imports it. What it gives has `name`; `gpus()`, name and UUID (empty if it does not tell) of each GPU that it
            sees; `train(group, ordinals, on_gpus)`, a Trained.
        group: the job's.
        ordinals: of the pod's GPUs that this process works with.
        library: replaced in tests.

    Raises:
        ProgramError: a GPU does not train, or not rightly.
    """
    cuda, count, is_simulated = gpu_driver.start_cuda(library)
    if count != group.gpus:
        raise ProgramError(f"CUDA sees {count} devices in this container, which was given {group.gpus}")
    drivers = [gpu_driver.exercise(cuda, ordinal, is_simulated) for ordinal in ordinals]
    made = framework()
    uuids = [row["uuid"] for row in drivers]
    facts = {"framework": made.name, "uuids": uuids, "driver": drivers, "simulated": is_simulated}
    if is_simulated:
        left_out = ["the training step on the device", *(["NCCL"] if group.world > 1 else [])]
        done = made.train(group, ordinals, on_gpus=False)
        # TensorFlow on CPUs has one rank per pod.
        return {
            **facts,
            "devices": ["cpu"],
            "not_executed": left_out,
            **judge(done, done.evidence.pop("ranks", group.world), group.nodes),
        }
    seen = made.gpus()
    if len(seen) != count:
        raise ProgramError(f"{made.name} sees {len(seen)} of {count} GPUs, and a CPU fallback is a failure")
    for ordinal, row in zip(ordinals, drivers):
        uuid = seen[ordinal][1]
        # Of a MIG device, which is the only one that a process has, frameworks may tell the GPU.
        whole = row["uuid"].startswith("GPU-")
        if uuid and whole and uuid.removeprefix("GPU-") != row["uuid"].removeprefix("GPU-"):
            raise ProgramError(
                f"{made.name} computes on GPU {uuid}, the driver's device {ordinal} is {row['uuid']}"
            )
    done = made.train(group, ordinals, on_gpus=True)
    names = [seen[ordinal][0] for ordinal in ordinals]
    return {**facts, "devices": names, "not_executed": [], **judge(done, group.world, group.nodes)}
