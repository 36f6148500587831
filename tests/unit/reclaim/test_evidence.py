"""What Prometheus has to say of a pod's GPUs, so that they count as idle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gpusmith.reclaim.evidence import Gpu, Use, Witness, judge
from gpusmith.reclaim.owners import Pod
from tests.unit.reclaim.objects import NOW

HOUR = 3600
POD = Pod("p", "n1", 2, NOW - 2 * HOUR)
IDLE = Gpu("n1", values=120, engine=120)


def test_idle_is_what_all_values_say() -> None:
    assert judge(POD, [IDLE, IDLE], HOUR, NOW).use is Use.IDLE
    # 90 % of them are enough.
    most = Gpu("n1", values=108, engine=108)
    assert judge(POD, [IDLE, most], HOUR, NOW).use is Use.IDLE


@pytest.mark.parametrize("peak", [0.001, 1.0])
def test_one_value_of_one_gpu_is_use(peak: float) -> None:
    """Also where the others are missing."""
    found = judge(POD, [IDLE, Gpu("n1", peak=peak, values=1)], HOUR, NOW)
    assert (found.use, "used its GPUs" in found.why) == (Use.USED, True)


@pytest.mark.parametrize("started", [None, NOW - HOUR + 1])
def test_a_pod_that_has_not_run_for_all_of_it_is_not_idle(started: float | None) -> None:
    found = judge(Pod("p", "n1", 2, started), [IDLE, IDLE], HOUR, NOW)
    assert (found.use, found.why) == (Use.USED, "pod 'p' has not run for 60 minutes")


@pytest.mark.parametrize(
    ("gpus", "why"),
    [
        ([], "(none)"),
        ([IDLE], "(1 on 'n1') than the 2 on 'n1'"),
        ([IDLE] * 3, "(3 on 'n1')"),
        ([IDLE, Gpu("n2", values=120, engine=120)], "(1 on 'n1', 1 on 'n2')"),
        ([IDLE, Gpu("n1", values=107, engine=120)], "107 of 120 values in 60 minutes"),
        ([IDLE, Gpu("n1", values=120, engine=120, now=False)], "no value of now"),
        ([IDLE, Gpu("n1", part="3", values=120, engine=120)], "parts of GPUs"),
        ([IDLE, Gpu("n1", values=120, engine=0)], "no counter 'DCGM_FI_PROF_GR_ENGINE_ACTIVE'"),
    ],
)
def test_what_is_missing_proves_nothing(gpus: Sequence[Gpu], why: str) -> None:
    found = judge(POD, gpus, HOUR, NOW)
    assert (found.use, why in found.why) == (Use.UNKNOWN, True), found.why


def test_simulated_gpus_need_no_engine_and_no_hour() -> None:
    row = [Gpu("n1", values=2)]
    lab, real = Pod("p", "n1", 1, 0.0, simulated=True), Pod("p", "n1", 1, 0.0)
    assert judge(lab, row, 60, NOW).use is Use.IDLE
    assert judge(real, [Gpu("n1", values=2, engine=2)], 60, NOW).use is Use.UNKNOWN


def test_what_is_strange_is_told() -> None:
    assert (
        judge(Pod("p", "n1", 1, 0.0, "is being deleted"), [IDLE], HOUR, NOW).why == "pod 'p' is being deleted"
    )


def series(value: float, **labels: str) -> dict[str, Any]:
    metric = {"node": "n1", "UUID": "U", "namespace": "a", "pod": "p", **labels}
    return {"metric": metric, "value": [NOW, str(value)]}


class Fake:
    """Answers by a word of the query."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> list[dict[str, Any]]:
        self.asked.append(text)
        rows = {
            "time()": [series(NOW)],
            "max_over_time(DCGM_FI_DEV": [series(0.0), series(0.0, UUID="V")],
            "max_over_time(DCGM_FI_PROF": [series(0.5)],
            "count_over_time(gpusmith": [series(120), series(60, UUID="V")],
            "count_over_time(DCGM_FI_PROF": [series(119)],
        }
        return next((found for word, found in rows.items() if word in text), [series(0.0)])


def test_few_queries_for_all_pods_and_each_window_once() -> None:
    fake = Fake()
    witness = Witness(fake, ["b", "a"])
    assert witness.now == NOW
    (key, gpus) = next(iter(witness.window(HOUR).items()))
    assert (key, gpus) == (
        ("a", "p"),
        [Gpu("n1", peak=0.5, values=120, engine=119), Gpu("n1", values=60, now=False)],
    )
    witness.window(HOUR)
    assert len(fake.asked) == 6
    witness.window(2 * HOUR)
    assert len(fake.asked) == 10
    assert all('{namespace=~"a|b",pod!=""}' in text for text in fake.asked[1:])
    assert "[3600s:30s]" in "".join(fake.asked)
