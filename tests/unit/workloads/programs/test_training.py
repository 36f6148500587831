"""The training step that the frameworks make."""

from __future__ import annotations

from typing import Any

import pytest


def test_closed_form_agrees_with_gradient_descent(load: Any) -> None:
    training = load("training")
    x, y, _truth = training.problem()
    w, losses = [0.0] * training.COLUMNS, []
    for step in range(training.STEPS + 1):
        errors = [sum(a * b for a, b in zip(row, w, strict=True)) - t[0] for row, t in zip(x, y, strict=True)]
        losses.append(sum(error * error for error in errors) / training.ROWS)
        if step < training.STEPS:
            pairs = [(row, error) for row, error in zip(x, errors, strict=True)]
            w = [
                w[k] - training.RATE * 2 / training.ROWS * sum(row[k] * error for row, error in pairs)
                for k in range(len(w))
            ]
    judged = training.judge(losses, w)
    assert judged["max_difference"] < 1e-12
    assert judged["loss_last"] < judged["loss_first"] / 4
    with pytest.raises(load("gpu_driver").ProgramError, match="closed form"):
        training.judge(losses, [weight + 0.01 for weight in w])
    with pytest.raises(load("gpu_driver").ProgramError, match="does not fall"):
        training.judge([1.0, 1.0], w)
