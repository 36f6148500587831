"""Rates of every GPU of the container, one after another: memory, tensor cores, copies from and to the host.

PyTorch makes the kernels. On a simulated GPU nothing is executed.
"""

from __future__ import annotations

import ctypes
import os
import time
from typing import Any, Callable

import gpu_driver
import gpu_load
from gpu_driver import ProgramError

REPETITIONS, REPETITION_S = 5, 0.3
TRIAD_ELEMENTS = 1 << 28
"""Of each of three vectors of float32: 1 GiB, which no cache holds."""
SIDE = 8192
COPY_BYTES = 128 << 20
LINK = {
    "pcie_gen": "nvmlDeviceGetCurrPcieLinkGeneration",
    "pcie_gen_max": "nvmlDeviceGetMaxPcieLinkGeneration",
    "pcie_width": "nvmlDeviceGetCurrPcieLinkWidth",
}
POWER = {
    "power_limit_mw": "nvmlDeviceGetEnforcedPowerLimit",
    "power_limit_default_mw": "nvmlDeviceGetPowerManagementDefaultLimit",
}
SM_CLOCK = 1
MEMORY_CLOCK_KHZ, MEMORY_BUS_BITS = 36, 37
"""CUDA's attributes of a device."""


def repeated(
    work: Callable[[], Any],
    amount: float,
    wait: Callable[[], Any],
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """How much of an amount is done in a second, once for each repetition of work that is only queued.

    Args:
        work: queues the amount.
        amount: of bytes or operations.
        wait: until all that is queued is done.
        clock: seconds.
    """

    def timed(times: int) -> float:
        begin = clock()
        for _ in range(times):
            work()
        wait()
        return clock() - begin

    # The first one also chooses a kernel and allocates; the second tells how many fill a repetition; then clocks rise.
    timed(1)
    times = max(1, int(REPETITION_S / max(timed(1), 1e-6)))
    timed(times)
    return [amount * times / timed(times) for _ in range(REPETITIONS)]


class PyTorch:
    """What is measured, on a device by PyTorch's name for it."""

    def __init__(self, kind: str = "cuda") -> None:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = False
        self.torch, self.kind = torch, kind
        self.name = f"torch {torch.__version__} for CUDA {torch.version.cuda}"
        # Freed memory would be given to the next GPU, which may be near other CPUs.
        self.host: list[Any] = []

    def device(self, ordinal: int) -> str:
        """PyTorch's name of it."""
        return f"{self.kind}:{ordinal}"

    def wait(self, ordinal: int) -> Callable[[], None]:
        """Waits until all that is queued is done."""
        cuda = self.torch.cuda
        return (lambda: cuda.synchronize(ordinal)) if self.kind == "cuda" else (lambda: None)

    def triad(self, ordinal: int) -> list[float]:
        """Bytes per second of a = b + 3 c."""
        torch, device = self.torch, self.device(ordinal)
        b = torch.full((TRIAD_ELEMENTS,), 1.0, dtype=torch.float32, device=device)
        c, a = torch.full_like(b, 2.0), torch.empty_like(b)
        found = repeated(
            lambda: torch.add(b, c, alpha=3.0, out=a), 3 * 4 * TRIAD_ELEMENTS, self.wait(ordinal)
        )
        if not bool((a == 7.0).all()):
            raise ProgramError("the triad's result is wrong")
        return found

    def product(self, ordinal: int, busy: Callable[[], None]) -> tuple[str, list[float]]:
        """Type, and operations per second, of a product of matrices; `busy` is called while some are computed."""
        torch, device = self.torch, self.device(ordinal)
        tensor_cores = self.kind != "cuda" or torch.cuda.get_device_capability(ordinal) >= (8, 0)
        dtype = torch.bfloat16 if tensor_cores else torch.float16
        x = torch.randn((SIDE, SIDE), device=device).to(dtype)
        y = torch.randn((SIDE, SIDE), device=device).to(dtype)
        z = torch.empty_like(x)
        wait = self.wait(ordinal)
        found = repeated(lambda: torch.matmul(x, y, out=z), 2.0 * SIDE**3, wait)
        for _ in range(20):
            torch.matmul(x, y, out=z)
        busy()
        wait()
        right = x[0].float() @ y.float()
        if not bool((z[0].float() - right).abs().max() < 0.02 * right.abs().max()):
            raise ProgramError("the product of two matrices is wrong")
        return str(dtype).replace("torch.", ""), found

    def copies(self, ordinal: int, busy: Callable[[], None]) -> tuple[list[float], list[float]]:
        """Bytes per second to the device and back; `busy` is called while some are on their way."""
        torch, device = self.torch, self.device(ordinal)
        host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=self.kind == "cuda").fill_(1)
        self.host.append(host)
        there, wait = torch.empty(COPY_BYTES, dtype=torch.uint8, device=device), self.wait(ordinal)
        to = repeated(lambda: there.copy_(host, non_blocking=True), COPY_BYTES, wait)
        for _ in range(50):
            there.copy_(host, non_blocking=True)
        busy()
        back = repeated(lambda: host.copy_(there, non_blocking=True), COPY_BYTES, wait)
        return to, back

    def forget(self) -> None:
        """Give the GPU's memory back."""
        if self.kind == "cuda":
            self.torch.cuda.empty_cache()


def median(values: list[float], unit: float) -> float:
    """In billions or so, with four digits."""
    return float(f"{sorted(values)[len(values) // 2] / unit:.4g}")


def measure(
    framework: Any, ordinal: int, asked: Callable[[dict[str, str]], dict[str, Any]]
) -> dict[str, Any]:
    """All rates of one GPU, what others of its repetitions came to, and what NVML said meanwhile."""
    seen: dict[str, Any] = asked(POWER)
    memory = framework.triad(ordinal)
    framework.forget()
    kind, gemm = framework.product(ordinal, lambda: seen.update(asked({"sm_clock_mhz": "", "reasons": ""})))
    framework.forget()
    to, back = framework.copies(ordinal, lambda: seen.update(asked(LINK)))
    framework.forget()
    rows = {
        "memory_gb_s": (memory, 1e9),
        "gemm_tflops": (gemm, 1e12),
        "h2d_gb_s": (to, 1e9),
        "d2h_gb_s": (back, 1e9),
    }
    spread = {
        name: [median([each], unit) for each in sorted(values)] for name, (values, unit) in rows.items()
    }
    return {
        **{name: median(values, unit) for name, (values, unit) in rows.items()},
        "gemm_type": kind,
        "repetitions": spread,
        **seen,
    }


class Asked:
    """NVML about one GPU; what it does not tell is null."""

    def __init__(self, nvml: gpu_driver.Nvml, handle: Any) -> None:
        self.nvml, self.handle = nvml, handle

    def __call__(self, names: dict[str, str]) -> dict[str, Any]:
        """Values by key, from the functions of these names."""
        return {key: self._one(key, name) for key, name in names.items()}

    def _one(self, key: str, name: str) -> int | None:
        library = self.nvml.library
        try:
            if key == "reasons":
                reasons = ctypes.c_ulonglong()
                code = gpu_load.reasons_of(library, self.handle, reasons)
                return reasons.value if code == gpu_driver.SUCCESS else None
            number = ctypes.c_uint()
            if key == "sm_clock_mhz":
                code = library.nvmlDeviceGetClockInfo(self.handle, SM_CLOCK, ctypes.byref(number))
            else:
                code = getattr(library, name)(self.handle, ctypes.byref(number))
        except AttributeError:
            return None
        return number.value if code == gpu_driver.SUCCESS else None


def address_of(cuda: gpu_driver.Cuda, ordinal: int) -> str:
    """Of a device on PCI, as sysfs writes it."""
    text = ctypes.create_string_buffer(32)
    cuda.call("cuDeviceGetPCIBusId", text, 32, cuda.device(ordinal)[0])
    return text.value.decode().lower()


def clocked_gb_s(cuda: gpu_driver.Cuda, ordinal: int) -> float:
    """What memory clock and width of the bus come to: two transfers per cycle. Evidence beside the data sheet's peak."""
    found = []
    for attribute in (MEMORY_CLOCK_KHZ, MEMORY_BUS_BITS):
        value = ctypes.c_int()
        cuda.call("cuDeviceGetAttribute", ctypes.byref(value), attribute, cuda.device(ordinal)[0])
        found.append(value.value)
    return round(2e3 * found[0] * found[1] / 8 / 1e9, 1)


def cpus(text: str) -> set[int]:
    """Of a list such as '0-3,8'."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def go_near(address: str, root: str = "/sys/bus/pci/devices") -> bool:
    """Run on the CPUs that are near a GPU, so that memory is as well; whether that could be done."""
    try:
        with open(os.path.join(root, address, "local_cpulist"), encoding="ascii") as file:
            near = cpus(file.read())
        os.sched_setaffinity(0, near)
    except (OSError, ValueError):
        return False
    return True


def work(framework: Callable[[], Any] = PyTorch, library: Any = None, nvml: Any = None) -> dict[str, Any]:
    """All GPUs; the framework and the libraries are replaced in tests.

    Raises:
        ProgramError: there is another number of GPUs than was given, or one computes wrongly.
    """
    cuda, count, is_simulated = gpu_driver.start_cuda(library)
    wanted = int(os.environ.get("GPUSMITH_GPUS", "1"))
    if count != wanted:
        raise ProgramError(f"CUDA sees {count} devices in this container, it was given {wanted}")
    named = [cuda.device(ordinal) for ordinal in range(count)]
    devices: list[dict[str, Any]] = [{"uuid": uuid, "name": name} for _handle, uuid, name in named]
    if is_simulated:
        return {"simulated": True, "not_executed": ["all measurements"], "devices": devices}
    asks = gpu_driver.Nvml(nvml)
    handles = {uuid: handle for handle, uuid in asks.gpus()}
    made = framework()
    for ordinal, row in enumerate(devices):
        row["memory_clocked_gb_s"] = clocked_gb_s(cuda, ordinal)
        row["near"] = go_near(address_of(cuda, ordinal))
        try:
            row.update(measure(made, ordinal, Asked(asks, handles[row["uuid"]])))
        except ProgramError as error:
            raise ProgramError(f"{row['uuid']}: {error}") from error
    asks.end()
    return {"simulated": False, "not_executed": [], "framework": made.name, "tf32": False, "devices": devices}


if __name__ == "__main__":
    gpu_driver.run("performance", work)
