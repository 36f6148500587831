"""Shared by the programs that run inside pods: NVIDIA's driver API and NVML by ctypes, the two witnesses, one JSON line.

Standard library only, Python 3.9 or newer. Nothing here falls back to the CPU silently: who computes on the CPU first
asks ``simulated()``, which needs the inventory (variable GPUSMITH_SIMULATED) and the loaded library (symbol
``gpusmith_simulated``) to say the same.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import traceback
from typing import Any, Callable

SCHEMA = "gpusmith.workload/1"
SUCCESS = 0
OUT_OF_MEMORY = 2
NOT_SUPPORTED = 801
ELEMENTS = 1 << 16
FACTOR = 3.0

# y[i] = factor * x[i] + y[i], one thread per element. PTX is compiled for the GPU by its own driver;
# version 6.0 for sm_50 is understood by every GPU from Maxwell on.
PTX = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry gpusmith_saxpy(.param .u64 px, .param .u64 py, .param .f32 pa, .param .u32 pn)
{
    .reg .pred %p<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<6>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [px];
    ld.param.u64 %rd2, [py];
    ld.param.f32 %f1, [pa];
    ld.param.u32 %r1, [pn];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.u32 %rd5, %r5, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f4;
DONE:
    ret;
}
\x00"""


class ProgramError(Exception):
    """What this program proves does not hold.

    Args:
        message: what is wrong.
        facts: of the result beside it.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


def marker(library: Any) -> bool:
    """Whether a loaded library carries the mark of a simulated one."""
    try:
        ctypes.c_char.in_dll(library, "gpusmith_simulated")
    except (ValueError, AttributeError, TypeError):
        return bool(getattr(library, "fake_marker", False))
    return True


def simulated(library: Any, environment: dict[str, str] | None = None) -> bool:
    """The agreement of both witnesses.

    Raises:
        ProgramError: they disagree, or the inventory's word did not arrive.
    """
    word = (os.environ if environment is None else environment).get("GPUSMITH_SIMULATED", "")
    if word not in ("true", "false"):
        raise ProgramError(f"GPUSMITH_SIMULATED is '{word}': the inventory's witness is missing")
    says, marked = word == "true", marker(library)
    if says != marked:
        said, found = ("simulated", "real") if says else ("real", "simulated")
        raise ProgramError(
            f"the inventory says the GPUs are {said}, but the loaded CUDA library is that of {found} ones"
        )
    return says


def load(name: str) -> Any:
    """A shared library.

    Raises:
        ProgramError: it is not in this container.
    """
    try:
        return ctypes.CDLL(name)
    except OSError as error:
        raise ProgramError(f"library '{name}' cannot be loaded in this container: {error}") from error


class Cuda:
    """The driver API; every call that fails is named with CUDA's own words."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def code(self, name: str, *arguments: Any) -> int:
        """Call a function, return its code."""
        return int(getattr(self.library, name)(*arguments))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        code = self.code(name, *arguments)
        if code != SUCCESS:
            raise ProgramError(f"{name} answers {self.error_name(code)}")

    def error_name(self, code: int) -> str:
        """For example 'CUDA_ERROR_NOT_SUPPORTED (801)'."""
        text = ctypes.c_char_p()
        try:
            if self.library.cuGetErrorName(code, ctypes.byref(text)) == SUCCESS and text.value:
                return f"{text.value.decode()} ({code})"
        except AttributeError:
            pass
        return f"code {code}"

    def start(self) -> int:
        """Initialise; the number of devices."""
        self.call("cuInit", 0)
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device(self, ordinal: int) -> tuple[int, str, str]:
        """Handle, UUID and name of a device."""
        handle = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(handle), ordinal)
        raw = (ctypes.c_ubyte * 16)()
        # The first version, all that drivers before 470 have, names the GPU of a MIG device.
        ask = "cuDeviceGetUuid_v2" if hasattr(self.library, "cuDeviceGetUuid_v2") else "cuDeviceGetUuid"
        self.call(ask, ctypes.byref(raw), handle)
        buffer = ctypes.create_string_buffer(96)
        self.call("cuDeviceGetName", buffer, 96, handle)
        name = buffer.value.decode(errors="replace")
        return handle.value, format_uuid(bytes(raw), "MIG" if " MIG " in name else "GPU"), name

    def launch(self, function: Any, blocks: int, threads: int, *values: Any) -> int:
        """Code of starting a kernel with these arguments, in one dimension."""
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
        return self.code("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, None, pointers, None)


def start_cuda(library: Any = None) -> tuple[Cuda, int, bool]:
    """The driver API, the number of its devices, and whether they are simulated; the library is replaced in tests.

    Raises:
        ProgramError: it does not start, or the witnesses disagree.
    """
    library = library if library is not None else load("libcuda.so.1")
    is_simulated = simulated(library)
    cuda = Cuda(library)
    return cuda, cuda.start(), is_simulated


def format_uuid(raw: bytes, kind: str = "GPU") -> str:
    """NVML's way to write the 16 bytes, of a GPU or of a MIG device."""
    digits = raw.hex()
    return kind + "-" + "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def inputs(seed: int) -> tuple[Any, Any, Any]:
    """Two vectors, and the CPU's result; small whole numbers, so that single precision is exact and equality is fair."""
    vector = ctypes.c_float * ELEMENTS
    x = vector(*(float((i + seed) % 1021) for i in range(ELEMENTS)))
    y = vector(*(float((i * 7 + seed) % 509) for i in range(ELEMENTS)))
    expected = vector(*(FACTOR * x[i] + y[i] for i in range(ELEMENTS)))
    return x, y, expected


def exercise(cuda: Cuda, ordinal: int, is_simulated: bool) -> dict[str, Any]:
    """Allocate, copy there and back, run the kernel on one device and compare with the CPU.

    On a simulated device the launch is attempted and must be refused with CUDA_ERROR_NOT_SUPPORTED.
    """
    device, uuid, name = cuda.device(ordinal)
    done: dict[str, Any] = {"ordinal": ordinal, "uuid": uuid, "name": name}
    context = ctypes.c_void_p()
    cuda.call("cuCtxCreate_v2", ctypes.byref(context), 0, device)
    x, y, expected = inputs(seed=ordinal + 1)
    size = ctypes.sizeof(x)
    memory: list[ctypes.c_uint64] = []
    try:
        for source in (x, y):
            pointer = ctypes.c_uint64()
            cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(size))
            memory.append(pointer)
            cuda.call("cuMemcpyHtoD_v2", pointer, source, ctypes.c_size_t(size))
        back = type(x)()
        cuda.call("cuMemcpyDtoH_v2", back, memory[0], ctypes.c_size_t(size))
        compare("a copy to the device and back", back, x, uuid)
        done["copied_bytes"] = size
        launched = launch(cuda, memory[0], memory[1])
        if is_simulated:
            if launched != NOT_SUPPORTED:
                raise ProgramError(
                    f"{uuid}: a simulated GPU must refuse a launch with 801, it answered {cuda.error_name(launched)}"
                )
            done["launch"] = cuda.error_name(launched)
            # Allowed here and nowhere else: both witnesses agreed.
            result = type(x)(*(FACTOR * x[i] + y[i] for i in range(ELEMENTS)))
        else:
            if launched != SUCCESS:
                raise ProgramError(f"{uuid}: the kernel was not executed: {cuda.error_name(launched)}")
            done["launch"] = "executed"
            result = type(x)()
            cuda.call("cuMemcpyDtoH_v2", result, memory[1], ctypes.c_size_t(size))
        compare("the kernel's result", result, expected, uuid)
        done["elements"] = ELEMENTS
    finally:
        for pointer in memory:
            cuda.code("cuMemFree_v2", pointer)
        cuda.code("cuCtxDestroy_v2", context)
    return done


def launch(cuda: Cuda, x: ctypes.c_uint64, y: ctypes.c_uint64) -> int:
    """Code of loading, starting and awaiting the kernel: the first that is not success."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    code = cuda.code("cuModuleLoadData", ctypes.byref(module), PTX)
    if code != SUCCESS:
        return code
    cuda.call("cuModuleGetFunction", ctypes.byref(function), module, b"gpusmith_saxpy")
    threads = 256
    factor, count = ctypes.c_float(FACTOR), ctypes.c_uint32(ELEMENTS)
    code = cuda.launch(function, (ELEMENTS + threads - 1) // threads, threads, x, y, factor, count)
    if code == SUCCESS:
        code = cuda.code("cuCtxSynchronize")
    cuda.code("cuModuleUnload", module)
    return code


def compare(what: str, seen: Any, expected: Any, uuid: str) -> None:
    """Element by element, exactly.

    Raises:
        ProgramError: with the first element that differs, and how many do.
    """
    wrong = [i for i in range(len(expected)) if seen[i] != expected[i]]
    if wrong:
        first = wrong[0]
        raise ProgramError(
            f"{uuid}: {what} is wrong in {len(wrong)} of {len(expected)} elements,"
            f" first [{first}]: {seen[first]} instead of {expected[first]}"
        )


class Nvml:
    """NVML; every call that fails is named. The library is replaced in tests."""

    def __init__(self, library: Any = None) -> None:
        self.library = library if library is not None else load("libnvidia-ml.so.1")
        self.call("nvmlInit_v2")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function that must succeed."""
        code = int(getattr(self.library, name)(*arguments))
        if code != SUCCESS:
            raise ProgramError(f"{name} answers code {code}")

    def gpus(self) -> list[tuple[Any, str]]:
        """Handle and UUID of every GPU that is shown in this container."""
        count = ctypes.c_uint()
        self.call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        found = []
        for index in range(count.value):
            handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
            self.call("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
            self.call("nvmlDeviceGetUUID", handle, text, 96)
            found.append((handle, text.value.decode()))
        return found

    def memory(self, gpu: Any) -> int:
        """Bytes of memory of a GPU, whoever may have how much of it."""
        found = (ctypes.c_ulonglong * 3)()  # all, free, used
        self.call("nvmlDeviceGetMemoryInfo", gpu, ctypes.byref(found))
        return int(found[0])

    def instances(self, gpu: Any) -> list[str]:
        """UUIDs of a GPU's MIG devices that are shown in this container; none of a whole one."""
        count, found = ctypes.c_uint(), []
        try:
            if int(self.library.nvmlDeviceGetMaxMigDeviceCount(gpu, ctypes.byref(count))) != SUCCESS:
                return []
        except AttributeError:  # drivers before 450
            return []
        for index in range(count.value):
            handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(96)
            # Numbers have gaps.
            if (
                int(self.library.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index, ctypes.byref(handle)))
                == SUCCESS
            ):
                self.call("nvmlDeviceGetUUID", handle, text, 96)
                found.append(text.value.decode())
        return found

    def end(self) -> None:
        """Shut it down."""
        self.library.nvmlShutdown()


def nvml_gpus(library: Any = None) -> list[dict[str, Any]]:
    """UUID and minor of every GPU that NVML shows in this container, or those of its MIG devices.

    Raises:
        ProgramError: NVML does not start.
    """
    nvml, found = Nvml(library), []
    for handle, uuid in nvml.gpus():
        minor = ctypes.c_uint()
        nvml.call("nvmlDeviceGetMinorNumber", handle, ctypes.byref(minor))
        parts = [{"uuid": part, "gpu": uuid, "minor": minor.value} for part in nvml.instances(handle)]
        found.extend(parts or [{"uuid": uuid, "minor": minor.value}])
    nvml.end()
    return found


def share_by_mps(cuda: Cuda, shares: int, nvml: Any = None) -> dict[str, Any]:
    """Have a context on the one GPU of this container for as long as the process lives, and no more memory than a share of it.

    Where the GPU is in compute mode EXCLUSIVE_PROCESS, which check nodes.mps sees to, several processes can have one only as
    clients of MPS. What is not asked: in what part of the GPU it computes.

    Raises:
        ProgramError: it is no client of MPS, or is not limited.
    """
    folder = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
    if not folder:
        raise ProgramError(
            "the device plugin gave this pod no CUDA_MPS_PIPE_DIRECTORY: it is no client of MPS"
        )
    device, uuid, _name = cuda.device(0)
    cuda.call("cuCtxCreate_v2", ctypes.byref(ctypes.c_void_p()), 0, device)
    library = Nvml(nvml)
    (whole,) = [library.memory(handle) for handle, shown in library.gpus() if shown == uuid]
    library.end()
    more, pointer = whole // shares * 21 // 20, ctypes.c_uint64()
    code = cuda.code("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(more))
    if code == SUCCESS:
        cuda.call("cuMemFree_v2", pointer)
        raise ProgramError(
            f"a pod with one of {shares} shares of {uuid} could have {more >> 20} MiB of its {whole >> 20} MiB:"
            " MPS does not limit it"
        )
    if code != OUT_OF_MEMORY:
        raise ProgramError(f"cuMemAlloc_v2 answers {cuda.error_name(code)}")
    return {"pipe_directory": folder, "refused_mib": more >> 20, "of_mib": whole >> 20}


def report(result: dict[str, Any]) -> None:
    """The result, as one line that starts with the schema."""
    print(json.dumps({"schema": SCHEMA, **result}), flush=True)


def run(program: str, work: Callable[[], dict[str, Any]]) -> None:
    """Run a program's work; its result, or why there is none, is the last line. Exit status 1 if it failed."""
    try:
        result = work()
    except ProgramError as error:
        report({"program": program, "ok": False, "error": str(error), **error.facts})
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 - the reason must reach the result, whatever it is
        traceback.print_exc()
        report({"program": program, "ok": False, "error": f"{type(error).__name__}: {error}"})
        sys.exit(1)
    report({"program": program, "ok": True, **result})
