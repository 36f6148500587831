from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from gpusmith.probe import nvml


class FakeLibrary:
    """libnvidia-ml of one GPU: every call answers 0 unless a code is given for it; None takes the function away."""

    def __init__(self, **codes: int | None) -> None:
        self.codes = codes

    def __getattr__(self, name: str) -> Any:
        code = self.codes.get(name, 0)
        if code is None or not name.startswith("nvml") or name == "nvmlErrorString":
            raise AttributeError(name)

        def function(*_arguments: Any) -> int:
            return code

        return function


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Callable[..., nvml.Gpu]:
    """Asks pynvml, with a library of that behaviour, about its first GPU."""

    def ask(**codes: int | None) -> nvml.Gpu:
        monkeypatch.setattr(pynvml, "nvmlLib", FakeLibrary(**codes))
        monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
        return nvml.gather_gpu(0)

    return ask


def test_what_nvml_does_not_support_and_what_it_could_not_read_are_told_apart(
    gpu: Callable[..., nvml.Gpu],
) -> None:
    healthy = gpu()
    assert (healthy.unsupported, healthy.unreadable, healthy.error) == (frozenset(), {}, None)
    assert (healthy.ecc_uncorrected, healthy.remap_failed, healthy.throttle_reasons) == (0, False, ())
    assert healthy.retirement_pending is False
    found = gpu(
        nvmlDeviceGetRemappedRows=3, nvmlDeviceGetTotalEccErrors=999, nvmlDeviceGetCurrPcieLinkWidth=4,
        nvmlDeviceGetCurrentClocksEventReasons=None, nvmlDeviceGetCurrentClocksThrottleReasons=None,
    )  # fmt: skip
    assert found.unsupported == {"row_remap"}
    assert found.unreadable == {
        "ecc_uncorrected": "Unknown Error",
        "pcie_width": "Insufficient Permissions",
        "throttle_reasons": "the NVIDIA library has no such function",
    }
    assert (found.remap_pending, found.ecc_uncorrected, found.pcie_width, found.throttle_reasons) == (
        None,
    ) * 4


def test_what_an_administrator_can_set_is_read(
    gpu: Callable[..., nvml.Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pynvml, "nvmlDeviceGetVbiosVersion", lambda _: "96.00.61.00.01")
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPersistenceMode", lambda _: 1)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerManagementLimit", lambda _: 300000)
    found = gpu()
    assert (found.vbios, found.persistence_mode) == ("96.00.61.00.01", "enabled")
    assert found.power_limit_mw == 300000
    monkeypatch.undo()
    without = gpu(nvmlDeviceGetPowerManagementLimit=3, nvmlDeviceGetPersistenceMode=999)
    assert without.unsupported == {"power_limit"}
    assert without.unreadable == {"persistence_mode": "Unknown Error"}
    assert (without.power_limit_mw, without.persistence_mode) == (None, None)


def test_the_older_name_of_clock_reasons_is_asked_when_the_newer_is_missing(
    gpu: Callable[..., nvml.Gpu],
) -> None:
    assert gpu(nvmlDeviceGetCurrentClocksEventReasons=None).throttle_reasons == ()


def test_whatever_function_an_old_library_lacks_only_its_value_is_unknown(
    gpu: Callable[..., nvml.Gpu], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    class Listening(FakeLibrary):
        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return super().__getattr__(name)

    monkeypatch.setattr(pynvml, "nvmlLib", Listening())
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    nvml.gather_gpu(0)
    functions = set(asked) - {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetCurrentClocksEventReasons"}
    assert len(functions) > 12
    for function in functions:
        found = gpu(**{function: None})
        assert list(found.unreadable.values()) == [nvml.NO_FUNCTION], function
        assert found.error is None


def test_nvlinks_are_read_one_by_one(gpu: Callable[..., nvml.Gpu], monkeypatch: pytest.MonkeyPatch) -> None:
    def state(_: object, link: int) -> int:
        if link >= 4:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return int(link != 2)

    def rates(_: object, fields: list[tuple[int, int]]) -> list[Any]:
        assert {field for field, _link in fields} == {pynvml.NVML_FI_DEV_NVLINK_GET_SPEED}
        rows = [pynvml.c_nvmlFieldValue_t() for _ in fields]
        for row, (_field, link) in zip(rows, fields, strict=True):
            row.nvmlReturn = code if link == 2 else 0
            row.value.uiVal = 26562
        return rows

    monkeypatch.setattr(pynvml, "nvmlDeviceGetNvLinkState", state)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", rates)
    code = 3
    found = gpu()
    assert (found.nvlinks, found.nvlink_mbps) == ((True, True, False, True), (26562, 26562, 0, 26562))
    monkeypatch.undo()
    for code in (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_INVALID_ARGUMENT):
        none = gpu(nvmlDeviceGetNvLinkState=code)
        assert none.nvlinks is None
        assert none.unsupported == {"nvlinks"}
        assert none.unreadable == {}


def test_a_gpu_that_cannot_tell_its_memory_is_lost(gpu: Callable[..., nvml.Gpu]) -> None:
    assert gpu(nvmlDeviceGetMemoryInfo=15).error == "GPU is lost"
    assert gpu(nvmlDeviceGetMemoryInfo=None).error is None
    assert gpu(nvmlDeviceGetMemoryInfo=3).error == "Not Supported"
    assert gpu(nvmlDeviceGetHandleByIndex_v2=15) == nvml.Gpu(0, error="GPU is lost")
    assert gpu(nvmlDeviceGetHandleByIndex_v2=None).error == "nvmlDeviceGetHandleByIndex_v2 is missing"


def test_a_library_that_cannot_be_loaded_or_started_says_why(tmp_path: Path) -> None:
    (tmp_path / "lib.so").write_text("no library")
    answer = nvml.ask_library(str(tmp_path / "lib.so"))
    assert (answer.simulated, answer.nvml.init_code) == (None, None)
    assert "invalid ELF header" in str(answer.nvml.error) or "too short" in str(answer.nvml.error)


@pytest.mark.parametrize(
    ("cgroup", "pod"),
    [
        ("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-2.scope", True),
        ("0::/user.slice/user-0.slice/session-1.scope", False),
        (None, False),
    ],
)
def test_a_process_of_a_pod_is_known_by_its_cgroup(cgroup: str | None, pod: bool) -> None:
    assert nvml.in_pod(cgroup) is pod
