"""What the frameworks' programs share: linear regression with a closed form for every step, and that the GPU computes it."""

from __future__ import annotations

from typing import Any, Callable

import gpu_driver
from gpu_driver import ProgramError

ROWS, COLUMNS, STEPS, RATE = 256, 8, 20, 0.1
TOLERANCE = 1e-5
"""Of a weight. Right runs in single precision differ by 1e-7; a gradient that is 1 % wrong in one step by 1e-4."""


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


def closed_form() -> list[float]:
    """Weights after all steps from zero, on the CPU in double precision.

    The gradient of the mean square error is 2/n Xt(Xw - y), so w moves by -RATE times that.
    """
    x, y, _truth = problem()
    square = [[sum(row[i] * row[j] for row in x) / ROWS for j in range(COLUMNS)] for i in range(COLUMNS)]
    mixed = [sum(x[n][i] * y[n][0] for n in range(ROWS)) / ROWS for i in range(COLUMNS)]
    w = [0.0] * COLUMNS
    for _step in range(STEPS):
        gradient = [2 * (sum(square[i][j] * w[j] for j in range(COLUMNS)) - mixed[i]) for i in range(COLUMNS)]
        w = [w[i] - RATE * gradient[i] for i in range(COLUMNS)]
    return w


def judge(losses: list[float], weights: list[float]) -> dict[str, Any]:
    """The loss must fall at every step, and the weights must be the closed form's.

    Raises:
        ProgramError: they are not.
    """
    for before, after in zip(losses, losses[1:]):
        if not after < before:
            raise ProgramError(f"the loss does not fall: {before} is followed by {after}")
    expected = closed_form()
    difference = max(abs(a - b) for a, b in zip(weights, expected))
    if not difference < TOLERANCE or len(weights) != len(expected):
        raise ProgramError(f"the trained weights differ from the closed form by {difference}")
    return {
        "steps": len(losses) - 1,
        "loss_first": losses[0],
        "loss_last": losses[-1],
        "max_difference": difference,
    }


def computed_on(where: str, device: str) -> None:
    """Refuse a loss that the framework computed elsewhere than on the device.

    Raises:
        ProgramError: it did.
    """
    if device not in where:
        raise ProgramError(f"the loss was computed on '{where}', not on '{device}'")


def work(framework: Callable[[], Any], library: Any = None) -> dict[str, Any]:
    """Witnesses, driver API and our own kernel first, then the framework.

    Args:
        framework: imports it. What it gives has `name`; `cpu` and `gpu`, its names of the CPU and the first GPU; `first_gpu()`,
            None or the GPU's name and UUID (empty if it does not tell); `train(device)`, losses and the weights at the end.
        library: replaced in tests.

    Raises:
        ProgramError: the GPU does not train, or not rightly.
    """
    cuda, count, is_simulated = gpu_driver.start_cuda(library)
    if count < 1:
        raise ProgramError("CUDA sees no device in this container")
    driver = gpu_driver.exercise(cuda, 0, is_simulated)
    made = framework()
    facts = {"framework": made.name, "uuid": driver["uuid"], "driver": driver, "simulated": is_simulated}
    if is_simulated:
        left_out = ["the training step on the device"]
        return {**facts, "device": "cpu", "not_executed": left_out, **judge(*made.train(made.cpu))}
    first = made.first_gpu()
    if first is None:
        raise ProgramError(f"{made.name} has no CUDA device, and a CPU fallback is a failure")
    name, uuid = first
    if uuid and uuid.removeprefix("GPU-") != driver["uuid"].removeprefix("GPU-"):
        raise ProgramError(
            f"{made.name} computes on GPU {uuid}, the driver's first device is {driver['uuid']}"
        )
    return {**facts, "device": name, "not_executed": [], **judge(*made.train(made.gpu))}
