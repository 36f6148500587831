"""What the programs share: waiting for what an earlier step makes, and taking the GPU of their pod."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

DATA, MODEL = Path("/data/train.npz"), Path("/data/model.pt")
WAIT_S = 1200


def wait_for(path: Path) -> Path:
    """An earlier step may still be at work, if all were started together."""
    end = time.monotonic() + WAIT_S
    while not path.exists():
        if time.monotonic() > end:
            sys.exit(f"'{path}' did not come within {WAIT_S} s.")
        time.sleep(1)
    return path


def take_gpu() -> tuple[str, str, bool]:
    """Where PyTorch computes, the GPU's UUID, and whether it is simulated. Ends the program if there is no GPU."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        sys.exit(f"This pod has no GPU: {error}")
    # gpusmith's lab has no GPUs; its library carries this mark. Who computes on the CPU needs the mark and the pod's own word.
    simulated, told = hasattr(cuda, "gpusmith_simulated"), os.environ.get("GPUSMITH_SIMULATED") == "true"
    if simulated != told:
        sys.exit(f"GPUSMITH_SIMULATED says simulated: {told}, the CUDA library: {simulated}.")
    device, context, raw = ctypes.c_int(), ctypes.c_void_p(), (ctypes.c_ubyte * 16)()
    for name, arguments in (
        ("cuInit", (0,)),
        ("cuDeviceGet", (ctypes.byref(device), 0)),
        ("cuDeviceGetUuid_v2", (ctypes.byref(raw), device)),
        ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device)),
    ):
        if code := getattr(cuda, name)(*arguments):
            sys.exit(f"This pod has no GPU that works: {name} answers {code}.")
    digits = bytes(raw).hex()
    uuid = "-".join(("GPU", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return "cpu" if simulated else "cuda", uuid, simulated
