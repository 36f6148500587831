"""NVIDIA's libraries as Python objects."""

# ruff: noqa: N802 - the names are those of NVIDIA's libraries

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import Any

UUID = [bytes(range(n, n + 16)) for n in (0, 16)]


class FakeCuda:
    """The driver API over Python memory.

    Args:
        simulated: carries the mark, and refuses launches as the simulated library does.
        launch: code of a launch; None for the library's own.
        works: whether an executed kernel really computes.
        spoils: whether copies are wrong.
        under_load: code of a launch of the kernel that makes load.
        name: of its devices.
        count: of its devices.
        limit: bytes that one allocation may have; None for all that are asked for.
    """

    def __init__(
        self,
        simulated: bool,
        launch: int | None = None,
        works: bool = True,
        spoils: bool = False,
        under_load: int = 0,
        name: str = "fake",
        count: int = 2,
        limit: int | None = None,
    ) -> None:
        self.limit = limit
        self.under_load, self.name, self.count = under_load, name, count
        self.fake_marker, self.works, self.spoils = simulated, works, spoils
        self.launch = launch if launch is not None else (801 if simulated else 0)
        self.memory: dict[int, bytearray] = {}
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*arguments: Any) -> int:
            self.calls.append(name)
            return int(getattr(self, "do_" + name)(*arguments) or 0)

        return call

    @staticmethod
    def put(reference: Any, value: Any) -> None:
        reference._obj.value = value

    def do_cuInit(self, flags: int) -> None: ...

    def do_cuDeviceGetCount(self, out: Any) -> None:
        self.put(out, self.count)

    def do_cuDeviceGet(self, out: Any, ordinal: int) -> None:
        self.put(out, ordinal)

    def do_cuDeviceGetUuid_v2(self, out: Any, device: Any) -> None:
        ctypes.memmove(out._obj, UUID[device.value], 16)

    def do_cuDeviceGetName(self, buffer: Any, size: int, device: Any) -> None:
        buffer.value = self.name.encode()

    def do_cuDeviceGetPCIBusId(self, buffer: Any, size: int, device: int) -> None:
        buffer.value = f"0000:{device + 10:02X}:00.0".encode()

    def do_cuDeviceGetAttribute(self, out: Any, attribute: int, device: int) -> None:
        self.put(out, {36: 2619000, 37: 5120}[attribute])

    def do_cuDriverGetVersion(self, out: Any) -> None:
        self.put(out, 13000)

    def do_cuCtxCreate_v2(self, out: Any, flags: int, device: int) -> None:
        self.put(out, 1)

    def do_cuCtxDestroy_v2(self, context: Any) -> None: ...

    def do_cuCtxSynchronize(self) -> None: ...

    def do_cuMemAlloc_v2(self, out: Any, size: Any) -> int:
        if self.limit is not None and size.value > self.limit:
            return 2
        at = 4096 * (len(self.memory) + 1)
        self.memory[at] = bytearray(size.value)
        self.put(out, at)
        return 0

    def do_cuMemFree_v2(self, pointer: Any) -> None:
        del self.memory[pointer.value]

    def do_cuMemcpyHtoD_v2(self, pointer: Any, source: Any, size: Any) -> None:
        self.memory[pointer.value][:] = bytes(source)

    def do_cuMemcpyDtoH_v2(self, target: Any, pointer: Any, size: Any) -> None:
        data = self.memory[pointer.value]
        if self.spoils:
            data = bytearray(data)
            data[:4] = struct.pack("f", -1.0)
        ctypes.memmove(target, bytes(data), size.value)

    def do_cuModuleLoadData(self, out: Any, image: bytes) -> None:
        assert image.endswith(b"\x00")

    def do_cuModuleUnload(self, module: Any) -> None: ...

    def do_cuModuleGetFunction(self, function: Any, module: Any, name: bytes) -> None:
        assert name in (b"gpusmith_saxpy", b"gpusmith_load")
        self.put(function, len(name))

    def do_cuCtxSetCurrent(self, context: Any) -> None: ...

    def do_cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        if function.value == len("gpusmith_load"):
            return self.under_load
        if self.launch == 0 and self.works:
            values = rest[8]
            x, y = (ctypes.c_uint64.from_address(values[n]).value for n in (0, 1))
            factor = ctypes.c_float.from_address(values[2]).value
            count = ctypes.c_uint32.from_address(values[3]).value
            layout = f"{count}f"
            results = (
                factor * a + b
                for a, b in zip(*(struct.unpack(layout, self.memory[at]) for at in (x, y)), strict=True)
            )
            self.memory[y][:] = struct.pack(layout, *results)
        return self.launch

    def do_cuGetErrorName(self, code: int, out: Any) -> None:
        self.put(
            out, {801: b"CUDA_ERROR_NOT_SUPPORTED", 719: b"CUDA_ERROR_LAUNCH_FAILED"}.get(code, b"CUDA_ERROR")
        )


class FakeNvml:
    """NVML that shows devices."""

    def __init__(
        self,
        uuids: list[str],
        reasons: Callable[[int, int], int] = lambda *_: 1,
        code: int = 0,
        parts: dict[int, str] | None = None,
    ) -> None:
        self.uuids, self.reasons, self.code = uuids, reasons, code
        self.parts = parts or {}
        """MIG devices of the first GPU, by their numbers."""
        self.asked = 0

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: Any, out: Any) -> int:
        self.asked += 1
        out._obj.value = self.reasons(handle.value - 1, self.asked)
        return self.code

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlShutdown(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, out: Any) -> int:
        out._obj.value = len(self.uuids)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: int, out: Any) -> int:
        out._obj.value = index + 1
        return 0

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: int) -> int:
        first, number = divmod(handle.value, 100)
        buffer.value = (self.parts[number] if first else self.uuids[number - 1]).encode()
        return 0

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, out: Any) -> int:
        out._obj.value = 7
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: int, out: Any) -> int:
        if handle.value != 1 or index not in self.parts:
            return 6
        out._obj.value = 100 + index
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, out: Any) -> int:
        out._obj[0] = 80 << 20
        return 0

    def nvmlDeviceGetMinorNumber(self, handle: Any, out: Any) -> int:
        out._obj.value = handle.value - 1
        return 0
