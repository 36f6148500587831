"""The example's programs compute on the CPU only where the pod and the CUDA library both say that the GPU is simulated."""

from __future__ import annotations

import ctypes
import runpy
from types import SimpleNamespace
from typing import Any

import pytest

from gpusmith.pipeline.manifests import folder

ZEROS = "GPU-00000000-0000-0000-0000-000000000000"


def library(marked: bool, **codes: int) -> SimpleNamespace:
    names = ("cuInit", "cuDeviceGet", "cuDeviceGetUuid_v2", "cuDevicePrimaryCtxRetain")
    made = {name: lambda *_, name=name: codes.get(name, 0) for name in names}
    return SimpleNamespace(**made, **({"gpusmith_simulated": b"1"} if marked else {}))


def take_gpu(monkeypatch: pytest.MonkeyPatch, cuda: SimpleNamespace | None, told: str | None) -> Any:
    def load(_name: str) -> SimpleNamespace:
        if cuda is None:
            raise OSError("libcuda.so.1: cannot open shared object file")
        return cuda

    monkeypatch.setattr(ctypes, "CDLL", load)
    monkeypatch.delenv("GPUSMITH_SIMULATED", raising=False)
    if told is not None:
        monkeypatch.setenv("GPUSMITH_SIMULATED", told)
    return runpy.run_path(str(folder() / "programs" / "shared.py"))["take_gpu"]()


def test_a_real_gpu_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_gpu(monkeypatch, library(marked=False), None) == ("cuda", ZEROS, False)


def test_a_simulated_one_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert take_gpu(monkeypatch, library(marked=True), "true") == ("cpu", ZEROS, True)


@pytest.mark.parametrize(
    ("cuda", "told", "says"),
    [
        (None, None, "This pod has no GPU: libcuda"),
        (None, "true", "This pod has no GPU: libcuda"),
        (library(marked=False, cuInit=100), None, "no GPU that works: cuInit answers 100"),
        (library(marked=True), None, "says simulated: False, the CUDA library: True"),
        (library(marked=False), "true", "says simulated: True, the CUDA library: False"),
    ],
)
def test_nothing_falls_back_to_the_cpu_unseen(
    cuda: SimpleNamespace | None, told: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=says):
        take_gpu(monkeypatch, cuda, told)
