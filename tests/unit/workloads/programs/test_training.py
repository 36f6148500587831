"""The training step that the frameworks make."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.workloads.programs.fake_libraries import FakeCuda


def descent(training: Any, wrong_step: int = -1, factor: float = 1.0) -> tuple[list[float], list[float]]:
    """Losses and weights; the gradient of one step is wrong by a factor."""
    x, y, _truth = training.problem()
    w, losses = [0.0] * training.COLUMNS, []
    for step in range(training.STEPS + 1):
        errors = [sum(a * b for a, b in zip(row, w, strict=True)) - t[0] for row, t in zip(x, y, strict=True)]
        losses.append(sum(error * error for error in errors) / training.ROWS)
        if step < training.STEPS:
            pairs = [(row, error) for row, error in zip(x, errors, strict=True)]
            rate = training.RATE * (factor if step == wrong_step else 1.0)
            w = [
                w[k] - rate * 2 / training.ROWS * sum(row[k] * error for row, error in pairs)
                for k in range(len(w))
            ]
    return losses, w


@pytest.mark.parametrize("step", [0, 3, 10, 19])
def test_a_gradient_that_is_one_percent_wrong_in_one_step_is_found(load: Any, step: int) -> None:
    training = load("training")
    with pytest.raises(load("gpu_driver").ProgramError, match="closed form"):
        training.judge(*descent(training, step, 1.01))


def test_closed_form_agrees_with_gradient_descent(load: Any) -> None:
    training = load("training")
    losses, w = descent(training)
    judged = training.judge(losses, w)
    assert judged["max_difference"] < 1e-12
    assert judged["loss_last"] < judged["loss_first"] / 4
    with pytest.raises(load("gpu_driver").ProgramError, match="closed form"):
        training.judge(losses, [weight + 0.01 for weight in w])
    with pytest.raises(load("gpu_driver").ProgramError, match="does not fall"):
        training.judge([1.0, 1.0], w)


class Framework:
    """Trains without error on the device that it is given.

    Args:
        training: the programs' module.
        gpu: name and UUID of the first GPU.
    """

    name, cpu, gpu = "torch 9", "cpu", "cuda:0"

    def __init__(self, training: Any, gpu: tuple[str, str] | None) -> None:
        self.training, self.first, self.trained = training, gpu, ""

    def first_gpu(self) -> tuple[str, str] | None:
        return self.first

    def train(self, device: str) -> tuple[list[float], list[float]]:
        self.trained = device
        return [2.0, 1.0], self.training.closed_form()


def on(load: Any, monkeypatch: pytest.MonkeyPatch, simulated: bool, made: Framework) -> Any:
    """What a framework's program finds."""
    monkeypatch.setenv("GPUSMITH_SIMULATED", str(simulated).lower())
    return load("training").work(lambda: made, FakeCuda(simulated))


def test_on_a_simulated_gpu_the_cpu_trains_and_that_is_said(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = Framework(load("training"), None)
    found = on(load, monkeypatch, True, framework)
    assert framework.trained == "cpu"
    assert (found["simulated"], found["device"]) == (True, "cpu")
    assert found["not_executed"] == ["the training step on the device"]
    assert (found["uuid"], found["framework"], found["loss_last"]) == (uuids[0], "torch 9", 1.0)


@pytest.mark.parametrize("tells", [False, True], ids=["tensorflow", "torch"])
def test_a_real_gpu_trains(load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch, tells: bool) -> None:
    uuid = uuids[0].removeprefix("GPU-") if tells else ""
    framework = Framework(load("training"), ("H100", uuid))
    found = on(load, monkeypatch, False, framework)
    assert framework.trained == "cuda:0"
    assert (found["simulated"], found["device"], found["not_executed"]) == (False, "H100", [])


@pytest.mark.parametrize(
    ("gpu", "says"),
    [(None, "torch 9 has no CUDA device"), (("H100", "0001"), "torch 9 computes on GPU 0001")],
    ids=["none", "another"],
)
def test_on_a_real_gpu_nothing_else_trains(
    load: Any, monkeypatch: pytest.MonkeyPatch, gpu: tuple[str, str] | None, says: str
) -> None:
    framework = Framework(load("training"), gpu)
    with pytest.raises(load("gpu_driver").ProgramError, match=says):
        on(load, monkeypatch, False, framework)
    assert framework.trained == ""


@pytest.mark.parametrize(
    ("where", "device"),
    [("cpu", "cuda:0"), ("/job:localhost/device:CPU:0", "GPU:0")],
    ids=["torch", "tensorflow"],
)
def test_a_loss_that_was_computed_elsewhere_is_refused(load: Any, where: str, device: str) -> None:
    load("training").computed_on(f"/device:{device}", device)
    with pytest.raises(load("gpu_driver").ProgramError, match=f"computed on '{where}', not on '{device}'"):
        load("training").computed_on(where, device)
