"""What is written into the cluster."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.api import ApiRefused
from gpusmith.reclaim.act import CHANGED, bring_back, do
from gpusmith.reclaim.owners import Owner, Pod
from gpusmith.reclaim.plan import Asked, Decision, Does
from tests.unit.reclaim.objects import NOW, made

ASKED = Asked(3600, 1800, 5)


class Fake:
    """Keeps what is written."""

    def __init__(self, status: int = 0) -> None:
        self.status, self.said = status, list[Any]()

    def patch(self, path: str, body: Any, manager: str) -> Any:
        if self.status:
            raise ApiRefused("refused", "", self.status)
        self.said.append((path, body, manager))

    def create(self, path: str, body: Any) -> Any:
        self.said.append((path, body))


def decision(does: Does, kind: str = "Deployment") -> Decision:
    owner = Owner(kind, "a", "x", (Pod("p", "n", 2),), made(kind, "x"))
    return Decision(owner, does, "idle")


def test_a_warning_is_an_event_and_then_a_mark() -> None:
    fake = Fake()
    assert do(fake, decision(Does.WARN), ASKED, NOW) == ""  # type: ignore[arg-type]
    (events, event), (path, body, manager) = fake.said
    assert (events, event["reason"]) == ("/api/v1/namespaces/a/events", "GpuIdle")
    assert "hold 2 GPUs and have not used them for 60 minutes" in event["message"]
    assert "from 2027-01-15T08:30:00Z on" in event["message"]
    assert event["message"].endswith("kubectl -n a annotate deployment/x gpusmith.io/keep=true")
    assert (path, manager) == ("/apis/apps/v1/namespaces/a/deployments/x", "gpusmith-reclaim")
    marks = {"gpusmith.io/idle-since": "2027-01-15T08:00:00Z"}
    assert body == {"metadata": {"resourceVersion": "7", "annotations": marks}}


@pytest.mark.parametrize(
    ("kind", "spec", "back"),
    [
        ("Deployment", {"replicas": 0}, "kubectl -n a scale deployment/x --replicas=2"),
        ("StatefulSet", {"replicas": 0}, "kubectl -n a scale statefulset/x --replicas=2"),
        (
            "Job",
            {"suspend": True},
            """kubectl -n a patch job/x --type=merge -p '{"spec":{"suspend":false}}'""",
        ),
    ],
)
def test_one_patch_stops_it_and_keeps_what_it_had(kind: str, spec: Any, back: str) -> None:
    fake = Fake()
    do(fake, decision(Does.ACT, kind), ASKED, NOW)  # type: ignore[arg-type]
    (_, body, _), (_, event) = fake.said
    marks = {"gpusmith.io/idle-since": None, "gpusmith.io/reclaimed": "2"}
    assert body == {"metadata": {"resourceVersion": "7", "annotations": marks}, "spec": spec}
    assert event["message"].endswith(back)
    assert bring_back(decision(Does.ACT, kind).owner) == back


def test_the_end_of_a_warning_is_told_nobody() -> None:
    fake = Fake()
    do(fake, decision(Does.CLEAR), ASKED, NOW)  # type: ignore[arg-type]
    ((_, body, _),) = fake.said
    assert body["metadata"]["annotations"] == {"gpusmith.io/idle-since": None}
    assert "spec" not in body


@pytest.mark.parametrize("status", [404, 409])
def test_what_has_changed_is_left_alone(status: int) -> None:
    fake = Fake(status)
    assert do(fake, decision(Does.ACT), ASKED, NOW) == CHANGED  # type: ignore[arg-type]
    assert fake.said == []


def test_a_right_that_lacks_is_an_error() -> None:
    with pytest.raises(ApiRefused):
        do(Fake(403), decision(Does.ACT), ASKED, NOW)  # type: ignore[arg-type]
