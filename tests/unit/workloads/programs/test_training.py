"""The training step that the frameworks make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.unit.workloads.programs.fake_libraries import FakeCuda


def trained(training: Any, losses: list[float], *weights: list[float], **more: Any) -> Any:
    """What a framework did; all ranks counted and exchanged rightly."""
    world = len(weights)
    summed = [sum(values) for values in zip(*map(training.numbers, range(world)), strict=True)]
    exact = {"summed": summed, "gathered": list(range(world))} if world > 1 else {}
    return training.Trained(losses, list(weights), world, **{**exact, **more})


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
        training.judge(trained(training, *descent(training, step, 1.01)))


def test_closed_form_agrees_with_gradient_descent(load: Any) -> None:
    training = load("training")
    losses, w = descent(training)
    judged = training.judge(trained(training, losses, w))
    assert judged["max_difference"] < 1e-12
    assert judged["loss_last"] < judged["loss_first"] / 4
    with pytest.raises(load("gpu_driver").ProgramError, match="closed form"):
        training.judge(trained(training, losses, [weight + 0.01 for weight in w]))
    with pytest.raises(load("gpu_driver").ProgramError, match="does not fall"):
        training.judge(trained(training, [1.0, 1.0], w))


@pytest.mark.parametrize("world", [2, 3, 12])
def test_shares_of_ranks_are_equal_and_all_rows_are_used_or_none(load: Any, world: int) -> None:
    training = load("training")
    shares = [training.share(rank, world) for rank in range(world)]
    assert {len(x) for x, _ in shares} == {len(y) for _, y in shares} == {training.rows_of(world) // world}
    assert [row for x, _ in shares for row in x] == training.problem()[0][: training.rows_of(world)]
    w = training.closed_form(training.rows_of(world))
    assert training.judge(trained(training, [2.0, 1.0], *[w] * world), world)["world"] == world


def test_a_share_alone_gives_other_weights(load: Any) -> None:
    training = load("training")
    alone = training.closed_form(training.ROWS // 2)
    with pytest.raises(load("gpu_driver").ProgramError, match="differ from the closed form by 0"):
        training.judge(trained(training, [2.0, 1.0], alone, alone), 2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"world": 1}, "counts 1 ranks, the job has 2"),
        (
            {"gathered": [0, 0]},
            "all-gather of whole numbers is wrong: 1 of 2 differ, 2 came, first at 1: 0 instead of 1",
        ),
        ({"gathered": [0]}, "all-gather of whole numbers is wrong: 0 of 2 differ, 1 came"),
        ({"summed": [1] * (1 << 16)}, "all-reduce of whole numbers is wrong"),
        ({"weights": [[0.0] * 8]}, "counts 2 ranks, the job has 2"),
    ],
)
def test_what_ranks_exchange_is_exact(load: Any, changes: dict[str, Any], says: str) -> None:
    training = load("training")
    w = training.closed_form()
    done = trained(training, [2.0, 1.0], w, w)
    for name, value in changes.items():
        setattr(done, name, value)
    with pytest.raises(load("gpu_driver").ProgramError, match=says):
        training.judge(done, 2)


def test_a_rank_whose_weights_differ_by_a_bit_is_named(load: Any) -> None:
    training = load("training")
    w = training.closed_form()
    with pytest.raises(load("gpu_driver").ProgramError, match="the weights of rank 1 of node 'b' differ"):
        training.judge(trained(training, [2.0, 1.0], w, [w[0] + 1e-9, *w[1:]]), 2, ("a", "b"))


class Framework:
    """Trains without error on the devices that it is given.

    Args:
        training: the programs' module.
        gpus: name and UUID of each GPU that it sees.
    """

    name = "torch 9"

    def __init__(self, training: Any, gpus: list[tuple[str, str]]) -> None:
        self.training, self.seen, self.trained = training, gpus, ""

    def gpus(self) -> list[tuple[str, str]]:
        return self.seen

    def train(self, group: Any, ordinals: Sequence[int], *, on_gpus: bool) -> Any:
        self.trained = f"{'GPU' if on_gpus else 'CPU'} {list(ordinals)}"
        w = self.training.closed_form(self.training.rows_of(group.world))
        return trained(self.training, [2.0, 1.0], *[w] * group.world)


def on(load: Any, monkeypatch: pytest.MonkeyPatch, simulated: bool, made: Framework, given: int = 2) -> Any:
    """What a framework's program finds on the second of two GPUs."""
    monkeypatch.setenv("GPUSMITH_SIMULATED", str(simulated).lower())
    group = load("ranks").group({"GPUSMITH_GPUS": str(given)})
    return load("training").work(lambda: made, group, [1], FakeCuda(simulated))


def test_on_simulated_gpus_the_cpu_trains_and_that_is_said(
    load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = Framework(load("training"), [])
    found = on(load, monkeypatch, True, framework)
    assert framework.trained == "CPU [1]"
    assert (found["simulated"], found["devices"]) == (True, ["cpu"])
    assert found["not_executed"] == ["the training step on the device", "NCCL"]
    assert (found["uuids"], found["framework"], found["loss_last"]) == ([uuids[1]], "torch 9", 1.0)


@pytest.mark.parametrize("tells", [False, True], ids=["tensorflow", "torch"])
def test_a_real_gpu_trains(load: Any, uuids: list[str], monkeypatch: pytest.MonkeyPatch, tells: bool) -> None:
    seen = [("H100", uuid.removeprefix("GPU-") if tells else "") for uuid in uuids]
    framework = Framework(load("training"), seen)
    found = on(load, monkeypatch, False, framework)
    assert framework.trained == "GPU [1]"
    assert (found["simulated"], found["devices"], found["not_executed"]) == (False, ["H100"], [])


@pytest.mark.parametrize(
    ("gpus", "given", "says"),
    [
        ([], 2, "torch 9 sees 0 of 2 GPUs"),
        ([("H100", "")], 2, "torch 9 sees 1 of 2 GPUs"),
        ([("H100", ""), ("H100", "0001")], 2, "torch 9 computes on GPU 0001"),
        ([("H100", ""), ("H100", "")], 3, "CUDA sees 2 devices in this container, which was given 3"),
    ],
    ids=["none", "one", "another", "fewer"],
)
def test_on_real_gpus_nothing_else_trains(
    load: Any, monkeypatch: pytest.MonkeyPatch, gpus: list[tuple[str, str]], given: int, says: str
) -> None:
    framework = Framework(load("training"), gpus)
    with pytest.raises(load("gpu_driver").ProgramError, match=says):
        on(load, monkeypatch, False, framework, given)
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
