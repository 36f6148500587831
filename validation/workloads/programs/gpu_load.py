"""Load on all GPUs of a container at the same time, and what NVML says meanwhile of why one of them is slow."""

from __future__ import annotations

import ctypes
import time
from typing import Any

import gpu_driver
from gpu_driver import ProgramError

# Multiplies and adds in registers, about a hundredth of a second on a large GPU; every thread writes once, so that nothing of it
# can be left out. Version and target as in gpu_driver.PTX.
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry gpusmith_load(.param .u64 py, .param .u32 pmask)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<5>;
    ld.param.u64 %rd1, [py];
    ld.param.u32 %r1, [pmask];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    cvt.rn.f32.u32 %f1, %r4;
    mov.f32 %f2, 0f3F7FFF58;
    mov.f32 %f3, 0f3A83126F;
    mov.f32 %f4, %f1;
    mov.u32 %r6, 0;
LOOP:
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f4, %f4, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f4, %f4, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f4, %f4, %f2, %f3;
    fma.rn.f32 %f1, %f1, %f2, %f3;
    fma.rn.f32 %f4, %f4, %f2, %f3;
    add.u32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, 65536;
    @%p1 bra LOOP;
    add.rn.f32 %f1, %f1, %f4;
    and.b32 %r7, %r5, %r1;
    mul.wide.u32 %rd3, %r7, 4;
    cvta.to.global.u64 %rd2, %rd1;
    add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1;
    ret;
}
\x00"""
BLOCKS, THREADS = 2048, 256
LAUNCHES = 4
"""That wait on each GPU while another one is asked, so that none of them is idle."""


class Load:
    """The kernel on one GPU."""

    def __init__(self, cuda: gpu_driver.Cuda, ordinal: int) -> None:
        self.cuda = cuda
        device, self.uuid, _name = cuda.device(ordinal)
        self.context, self.module, self.function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.memory = ctypes.c_uint64()
        cuda.call("cuCtxCreate_v2", ctypes.byref(self.context), 0, device)
        cuda.call("cuMemAlloc_v2", ctypes.byref(self.memory), ctypes.c_size_t(gpu_driver.ELEMENTS * 4))
        self._must("cuModuleLoadData", ctypes.byref(self.module), PTX)
        self._must("cuModuleGetFunction", ctypes.byref(self.function), self.module, b"gpusmith_load")

    def _must(self, name: str, *arguments: Any) -> None:
        self._succeeded(name, self.cuda.code(name, *arguments))

    def _succeeded(self, name: str, code: int) -> None:
        if code != gpu_driver.SUCCESS:
            raise ProgramError(f"{self.uuid}: under load, {name} answers {self.cuda.error_name(code)}")

    def start(self) -> None:
        """Begin some rounds, without waiting for them."""
        self._must("cuCtxSetCurrent", self.context)
        mask = ctypes.c_uint32(gpu_driver.ELEMENTS - 1)
        for _round in range(LAUNCHES):
            self._succeeded(
                "cuLaunchKernel", self.cuda.launch(self.function, BLOCKS, THREADS, self.memory, mask)
            )

    def wait(self) -> None:
        """Until the rounds are over."""
        self._must("cuCtxSetCurrent", self.context)
        self._must("cuCtxSynchronize")

    def end(self) -> None:
        """Give everything back."""
        self.cuda.code("cuCtxSetCurrent", self.context)
        self.cuda.code("cuMemFree_v2", self.memory)
        self.cuda.code("cuCtxDestroy_v2", self.context)


def reasons_of(library: Any, handle: Any, out: Any) -> int:
    """Code of asking NVML what slows a GPU down."""
    try:
        ask = library.nvmlDeviceGetCurrentClocksEventReasons
    except AttributeError:  # its name in drivers before 535
        ask = library.nvmlDeviceGetCurrentClocksThrottleReasons
    return int(ask(handle, ctypes.byref(out)))


class Slowdowns:
    """NVML's reasons for slow clocks, of all GPUs of this container."""

    def __init__(self, library: Any) -> None:
        self.nvml = gpu_driver.Nvml(library)
        self.found: dict[str, dict[str, int]] = {}

    def look(self) -> None:
        """One look at each GPU; what was said once stays."""
        for handle, uuid in self.nvml.gpus():
            row = self.found.setdefault(uuid, {"reasons": 0, "looks": 0})
            reasons = ctypes.c_ulonglong()
            code = reasons_of(self.nvml.library, handle, reasons)
            if code == gpu_driver.SUCCESS:
                row["reasons"] |= reasons.value
                row["looks"] += 1
            else:
                row["code"] = code


def under_load(
    cuda: gpu_driver.Cuda, library: Any, count: int, seconds: float, clock: Any = time.monotonic
) -> dict[str, dict[str, int]]:
    """By UUID, NVML's reasons while all GPUs compute for some seconds; without load if there are none.

    Raises:
        ProgramError: a GPU does not bear the load.
    """
    slowdowns = Slowdowns(library)
    loads: list[Load] = []
    try:
        if seconds > 0:
            loads.extend(Load(cuda, ordinal) for ordinal in range(count))
        end = clock() + seconds
        while True:
            for load in loads:
                load.start()
            slowdowns.look()
            for load in loads:
                load.wait()
            if clock() >= end:
                return slowdowns.found
    finally:
        for load in loads:
            load.end()
        slowdowns.nvml.end()
