"""Who is warned, who is stopped, and who is left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpusmith.reclaim.evidence import Gpu, Window
from gpusmith.reclaim.owners import Owner, Pod
from gpusmith.reclaim.plan import Asked, Decision, Does, clock, decide, report
from tests.unit.reclaim.objects import NOW, made

MIN = 60
ASKED = Asked(60 * MIN, 30 * MIN, 5)


def owner(
    name: str = "d", gpus: int = 1, pods: int = 1, since: float | str | None = None, **fields: Any
) -> Owner:
    marks = (
        {} if since is None else {"gpusmith.io/idle-since": since if isinstance(since, str) else clock(since)}
    )
    rows = tuple(Pod(f"{name}-{index}", "n1", gpus, NOW - 48 * 3600) for index in range(pods))
    return Owner(**{"kind": "Deployment", "namespace": "a", "name": name, "pods": rows,
                    "about": made("Deployment", name, annotations=marks), **fields})  # fmt: skip


def look(
    *owners: Owner, peaks: dict[str, float] | None = None, used_before: int = 0, known: bool = True
) -> Any:
    """Prometheus: all GPUs idle but for peaks by pod, and for all in windows longer than `used_before` seconds."""

    def window(seconds: int) -> Window:
        found = {}
        for each in owners:
            for pod in each.pods:
                peak = (peaks or {}).get(pod.name, 1.0 if used_before and seconds > used_before else 0.0)
                values = seconds // 30 if known else 1
                found["a", pod.name] = [Gpu("n1", peak=peak, values=values, engine=values)] * pod.gpus
        return found

    return window


def one(given: Owner, asked: Asked = ASKED, **seen: Any) -> Decision:
    (found,) = decide([given], look(given, **seen), asked, NOW)
    return found


def test_the_first_run_warns() -> None:
    found = one(owner())
    assert (found.does, found.why) == (
        Does.WARN,
        "idle for 60 minutes; a run from 2027-01-15T08:30:00Z on acts",
    )


@pytest.mark.parametrize(("ago", "does"), [(29, Does.NOTHING), (30, Does.ACT), (600, Does.ACT)])
def test_a_later_run_acts_after_the_grace(ago: int, does: Does) -> None:
    found = one(owner(since=NOW - ago * MIN))
    assert found.does is does
    assert "warned at" in found.why


def test_without_grace_the_next_run_acts_and_the_same_never_does() -> None:
    asked = replace(ASKED, grace_s=0)
    assert one(owner(), asked).does is Does.WARN
    assert one(owner(since=NOW - 1), asked).does is Does.ACT


def test_use_in_between_takes_the_warning_away() -> None:
    found = one(owner(since=NOW - 90 * MIN), peaks={"d-0": 0.2})
    assert (found.does, "used its GPUs" in found.why) == (Does.CLEAR, True)
    assert one(owner(), peaks={"d-0": 0.2}).does is Does.NOTHING


def test_use_before_this_window_and_after_the_warning_warns_anew() -> None:
    found = one(owner(since=NOW - 90 * MIN), used_before=60 * MIN)
    assert (found.does, "once more: pod 'd-0' used its GPUs in the last 90 minutes" in found.why) == (
        Does.WARN,
        True,
    )


def test_pods_that_came_after_the_warning_are_warned_anew() -> None:
    given = owner(since=NOW - 90 * MIN)
    fresh = replace(given, pods=(replace(given.pods[0], started=NOW - 80 * MIN),))
    assert one(fresh).does is Does.WARN


@pytest.mark.parametrize("since", [NOW - 8 * 24 * 3600, NOW + 3600, "yesterday", ""])
def test_a_mark_that_is_old_or_no_time_is_none(since: float | str) -> None:
    assert one(owner(since=since)).does is Does.WARN


@pytest.mark.parametrize("since", [None, NOW - 90 * MIN])
def test_without_values_nothing_is_done(since: float | None) -> None:
    found = one(owner(since=since), known=False)
    assert (found.does, "1 of 120 values" in found.why) == (Does.NOTHING, True)


def test_one_busy_pod_keeps_all_of_its_owner() -> None:
    given = owner(pods=3, since=NOW - 90 * MIN)
    found = one(given, peaks={"d-2": 0.1})
    assert (found.does, "'d-2'" in found.why) == (Does.CLEAR, True)


def test_one_unknown_pod_keeps_all_of_its_owner() -> None:
    given = owner(pods=2, since=NOW - 90 * MIN)
    strange = replace(given, pods=(given.pods[0], replace(given.pods[1], strange="is being deleted")))
    assert one(strange).does is Does.NOTHING


@pytest.mark.parametrize("warned", [False, True])
@pytest.mark.parametrize("field", ["keep", "barred"])
def test_who_is_kept_or_barred_is_left_alone_and_loses_its_mark(field: str, warned: bool) -> None:
    word: dict[str, Any] = {field: "so it is"}
    found = one(owner(since=NOW - 90 * MIN if warned else None, **word))
    assert found.does is (Does.CLEAR if warned else Does.NOTHING)
    assert "so it is" in found.why


def test_most_gpus_first_and_no_more_pods_than_asked() -> None:
    since = NOW - 90 * MIN
    rows = [
        owner("small", 1, 2, since),
        owner("many", 1, 6, since),
        owner("big", 8, 2, since),
        owner("new", 2),
    ]
    found = decide(rows, look(*rows), ASKED, NOW)
    assert [(row.owner.name, row.does) for row in found] == [
        ("big", Does.ACT),
        ("many", Does.NOTHING),
        ("new", Does.WARN),
        ("small", Does.ACT),
    ]
    assert "it has 6 pods, and 'gpu_reclaim_max_pods' leaves 3 of 5 for it" in found[1].why


def test_the_report_has_what_the_table_has() -> None:
    (row,) = report([one(owner(pods=2))], NOW)["owners"]
    assert (row["kind"], row["gpus"], row["pods"], row["does"]) == ("Deployment", 2, ["d-0", "d-1"], "warn")
