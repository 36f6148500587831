"""PyTorch: training steps on all GPUs of the job, one process each, checked against the closed form."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import gpu_driver
import ranks
import training
from ranks import Group
from training import Trained

TIMES = 5
SLOW = 256
"""Side of the matrices whose product each rank computes by itself, to tell the slowest one."""


class PyTorch:
    """As training.work wants it."""

    def __init__(self) -> None:
        import torch

        torch.manual_seed(0)
        torch.set_num_threads(1)
        self.torch = torch
        built = f"for CUDA {torch.version.cuda}" if torch.version.cuda else "without CUDA"
        self.name = f"torch {torch.__version__} {built}"

    def gpus(self) -> list[tuple[str, str]]:
        """Name and UUID of each."""
        cuda = self.torch.cuda
        if not cuda.is_available():
            return []
        found = map(cuda.get_device_properties, range(cuda.device_count()))
        return [(row.name, str(getattr(row, "uuid", ""))) for row in found]

    def train(self, group: Group, ordinals: Sequence[int], *, on_gpus: bool) -> Trained:
        """Gradient descent by autograd, with gradients from all ranks; all tensors must be on the device."""
        torch, (ordinal,) = self.torch, ordinals
        device, rank, world = f"cuda:{ordinal}" if on_gpus else "cpu", group.rank(ordinal), group.world
        if on_gpus:
            torch.cuda.set_device(ordinal)
            # Shortened mantissas, which some images switch on, would not meet the tolerance.
            torch.backends.cuda.matmul.allow_tf32 = False
        if world > 1:
            self._form(group, rank, on_gpus)
        losses, weights = self._descend(rank, world, device)
        done = Trained(losses, [weights])
        if world > 1:
            self._exchange(done, group, rank, device)
            # Only when all is well: it waits for ranks, also for those that died.
            torch.distributed.destroy_process_group()
        return done

    def _form(self, group: Group, rank: int, on_gpus: bool) -> None:
        # Libraries of distributions are built without libuv.
        os.environ.setdefault("USE_LIBUV", "0")
        os.environ.update(
            MASTER_ADDR=group.members[0], MASTER_PORT=str(ranks.STORE_PORT), **ranks.nccl_environment()
        )
        patience = dt.timedelta(seconds=ranks.FORM_S)
        try:
            self.torch.distributed.init_process_group(
                "nccl" if on_gpus else "gloo", timeout=patience, rank=rank, world_size=group.world
            )
        except Exception as error:
            first = (str(error).splitlines() or [""])[0][:200]
            raise gpu_driver.ProgramError(
                f"the group of {group.world} ranks did not form: {first}"
            ) from error

    def _descend(self, rank: int, world: int, device: str) -> tuple[list[float], list[float]]:
        torch = self.torch
        rows, targets = training.share(rank, world)
        x = torch.tensor(rows, dtype=torch.float32, device=device)
        y = torch.tensor(targets, dtype=torch.float32, device=device)
        linear = torch.nn.Linear(training.COLUMNS, 1, bias=False).to(device)
        with torch.no_grad():
            linear.weight.zero_()
        model = torch.nn.parallel.DistributedDataParallel(linear) if world > 1 else linear
        optimizer = torch.optim.SGD(model.parameters(), lr=training.RATE)
        losses = []
        for step in range(training.STEPS + 1):
            loss = torch.nn.functional.mse_loss(model(x), y)
            training.computed_on(str(loss.device), device)
            mean = loss.detach().clone()
            if world > 1:
                torch.distributed.all_reduce(mean)
            losses.append(float(mean.item()) / world)
            if step < training.STEPS:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return losses, [float(value) for value in linear.weight.detach().cpu().flatten()]

    def _exchange(self, done: Trained, group: Group, rank: int, device: str) -> None:
        """What all ranks have, and how fast they exchange it."""
        torch, world = self.torch, group.world
        collect = torch.distributed
        done.world = collect.get_world_size()
        mine = torch.tensor(training.numbers(rank), dtype=torch.int64, device=device)
        collect.all_reduce(mine)
        done.summed = [int(value) for value in mine.cpu()]
        done.gathered = [int(value) for value in self._gather([rank], world, device, torch.int64)]
        # As bits, since equal means the same bits.
        flat = self._gather(done.weights[0], world, device, torch.float32)
        columns = training.COLUMNS
        done.weights = [flat[at * columns : (at + 1) * columns] for at in range(world)]
        spent = self._gather([self._alone(device)], world, device, torch.float32)
        slowest = max(range(world), key=lambda at: spent[at])
        median = sorted(spent)[world // 2]
        done.evidence = {
            "backend": collect.get_backend(),
            "all_reduce_gb_s": self._bus(world, device),
            "slowest": {
                "rank": slowest,
                "node": group.nodes[slowest // group.gpus],
                "times_median": round(spent[slowest] / median, 2) if median else None,
            },
        }

    def _gather(self, values: Sequence[Any], world: int, device: str, dtype: Any) -> list[Any]:
        torch = self.torch
        mine = torch.tensor(values, dtype=dtype, device=device)
        parts = [torch.zeros_like(mine) for _ in range(world)]
        torch.distributed.all_gather(parts, mine)
        return [value for part in parts for value in part.cpu().tolist()]

    def _alone(self, device: str) -> float:
        """Seconds of work that waits for no other rank."""
        torch = self.torch
        square = torch.rand((SLOW, SLOW), device=device)
        for again in (False, True):
            begin = time.monotonic()
            for _ in range(20):
                square = square @ square
                square = square / square.max()
            float(square.sum())
            if again:
                break
        return time.monotonic() - begin

    def _bus(self, world: int, device: str) -> float:
        """Bus bandwidth of an all-reduce, as nccl-tests counts it: 2(n-1)/n of the bytes in the time, in GB/s."""
        torch, size = self.torch, 64 << 20 if device != "cpu" else 4 << 20
        data, times = torch.ones(size // 4, device=device), []
        for _ in range(TIMES):
            torch.distributed.barrier()
            begin = time.monotonic()
            torch.distributed.all_reduce(data)
            float(data[0])
            times.append(time.monotonic() - begin)
        return round(size * 2 * (world - 1) / world / min(times) / 1e9, 3)


def work() -> dict[str, Any]:
    """All ranks of this pod; what they found together.

    Raises:
        ProgramError: one failed, or this pod does not reach the others.
    """
    gpu_driver.load("libcuda.so.1")
    group = ranks.group()
    met = ranks.meet(group)
    # Imported once, before the processes are forked; that uses no CUDA.
    import torch  # noqa: F401

    one_each = [[ordinal] for ordinal in range(group.gpus)]
    each = ranks.in_processes(group, one_each, partial(training.work, PyTorch, group))
    first, uuids = each[0], [uuid for row in each for uuid in row["uuids"]]
    devices = sorted({name for row in each for name in row["devices"]})
    more = {"uuids": uuids, "devices": devices, "driver": [row for one in each for row in one["driver"]]}
    if len(set(uuids)) != len(uuids):
        raise gpu_driver.ProgramError(f"a GPU is in the job twice: {', '.join(uuids)}")
    ways = {"transports": ranks.transports()} if first["world"] > 1 else {}
    return {**first, **more, **ways, "connected_s": met}


if __name__ == "__main__":
    gpu_driver.run("pytorch", work)
