"""PyTorch: training steps on the GPU, checked against the closed form."""

from __future__ import annotations

from typing import Any

import gpu_driver
import training
from gpu_driver import ProgramError


def train(torch: Any, device: str) -> dict[str, Any]:
    """Gradient descent by autograd on a device; all tensors must be there."""
    rows, targets, _truth = training.problem()
    x = torch.tensor(rows, dtype=torch.float32, device=device)
    y = torch.tensor(targets, dtype=torch.float32, device=device)
    model = torch.nn.Linear(training.COLUMNS, 1, bias=False).to(device)
    with torch.no_grad():
        model.weight.zero_()
    optimizer = torch.optim.SGD(model.parameters(), lr=training.RATE)
    losses = []
    for step in range(training.STEPS + 1):
        loss = torch.nn.functional.mse_loss(model(x), y)
        losses.append(float(loss.item()))
        if loss.device.type != device.partition(":")[0]:
            raise ProgramError(f"the loss was computed on '{loss.device}', not on '{device}'")
        if step < training.STEPS:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return training.judge(losses, [float(value) for value in model.weight.detach().cpu().flatten()])


def work() -> dict[str, Any]:
    """Witnesses and driver first, then the framework."""
    _cuda, is_simulated, driver = gpu_driver.start_device()
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(1)
    facts: dict[str, Any] = {
        "framework": f"torch {torch.__version__}",
        "uuid": driver["uuid"],
        "driver": driver,
    }
    if is_simulated:
        trained = train(torch, "cpu")
        return {
            **facts,
            "simulated": True,
            "device": "cpu",
            "not_executed": ["the training step on the device"],
            **trained,
        }
    if not torch.cuda.is_available():
        raise ProgramError(
            f"torch {torch.__version__} (CUDA {torch.version.cuda}) has no CUDA device, and a CPU fallback is a failure"
        )
    named = getattr(torch.cuda.get_device_properties(0), "uuid", None)
    if named is not None and str(named).removeprefix("GPU-") != driver["uuid"].removeprefix("GPU-"):
        raise ProgramError(f"torch computes on GPU {named}, the driver's first device is {driver['uuid']}")
    trained = train(torch, "cuda:0")
    return {
        **facts,
        "simulated": False,
        "device": torch.cuda.get_device_name(0),
        "not_executed": [],
        **trained,
    }


if __name__ == "__main__":
    gpu_driver.run("pytorch", work)
