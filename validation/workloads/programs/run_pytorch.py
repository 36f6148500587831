"""PyTorch: training steps on the GPU, checked against the closed form."""

from __future__ import annotations

import gpu_driver
import training


class PyTorch:
    """As training.work wants it."""

    cpu, gpu = "cpu", "cuda:0"

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.torch = torch
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        self.name = f"torch {torch.__version__} {built}"

    def first_gpu(self) -> tuple[str, str] | None:
        """Name and UUID."""
        cuda = self.torch.cuda
        if not cuda.is_available():
            return None
        # Shortened mantissas, which some images switch on, would not meet the tolerance.
        self.torch.backends.cuda.matmul.allow_tf32 = False
        return cuda.get_device_name(0), str(getattr(cuda.get_device_properties(0), "uuid", ""))

    def train(self, device: str) -> tuple[list[float], list[float]]:
        """Gradient descent by autograd; all tensors must be on the device."""
        torch = self.torch
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
            training.computed_on(str(loss.device), device)
            if step < training.STEPS:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return losses, [float(value) for value in model.weight.detach().cpu().flatten()]


if __name__ == "__main__":
    gpu_driver.run("pytorch", lambda: training.work(PyTorch))
