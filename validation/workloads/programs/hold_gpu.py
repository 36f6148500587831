"""Holds one GPU: reports its UUID by NVML and by CUDA, by MPS computes on it as well, then waits until it is ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import gpu_driver
from gpu_driver import ProgramError


def work(library: Any = None, nvml: Any = None) -> dict[str, Any]:
    """Exactly one GPU, and both libraries name the same."""
    shown = gpu_driver.nvml_gpus(nvml)
    cuda, count, is_simulated = gpu_driver.start_cuda(library)
    seen = [cuda.device(ordinal)[1] for ordinal in range(count)]
    if len(shown) != 1 or seen != [shown[0]["uuid"]]:
        raise ProgramError(
            f"a pod with one GPU sees {[gpu['uuid'] for gpu in shown]} by NVML and {seen} by CUDA"
        )
    shares = int(os.environ.get("GPUSMITH_MPS_SHARES", "0"))
    mps = {"mps": gpu_driver.share_by_mps(cuda, shares, nvml)} if shares else {}
    return {"simulated": is_simulated, "not_executed": [], **shown[0], **mps}


def main() -> None:
    """Report, then hold."""
    # As process 1 of a container, a signal without a handler would be ignored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    gpu_driver.run("hold", work)
    time.sleep(float(os.environ.get("GPUSMITH_HOLD_S", "600")))


if __name__ == "__main__":
    main()
