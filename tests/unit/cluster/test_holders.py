"""Who holds GPUs, as the scheduler counts them."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.dra import NO_CLAIMS
from gpusmith.cluster.holders import Holder, holders
from gpusmith.wanted.layouts import WHOLE


def asks(gpus: int, resource: str = "nvidia.com/gpu", **more: Any) -> dict[str, Any]:
    return {"resources": {"limits": {resource: str(gpus), "cpu": "4"}}, **more}


def pod(name: str, *containers: dict[str, Any], phase: str = "Running", **more: Any) -> dict[str, Any]:
    spec = {"containers": list(containers), **more}
    return {"metadata": {"namespace": "team", "name": name}, "spec": spec, "status": {"phase": phase}}


SIDECAR = {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("containers", "first", "expected"),
    [
        ([asks(1), asks(2), {}], [], 3),
        ([asks(1)], [asks(2)], 2),
        ([asks(3)], [asks(2)], 3),
        ([asks(1)], [asks(2, **SIDECAR)], 3),
        ([{}], [asks(1)], 1),
        ([{}], [asks(1, **SIDECAR)], 1),
        ([asks(1)], [asks(1, **SIDECAR), asks(2)], 3),
        ([asks(1)], [asks(2), asks(1, **SIDECAR)], 2),
        ([{}], [], 0),
    ],
)
def test_containers_init_containers_and_sidecars(
    containers: list[dict[str, Any]], first: list[dict[str, Any]], expected: int
) -> None:
    found = pod("p", *containers, initContainers=first)
    assert [holder.gpus(WHOLE.offers(8)) for holder in holders([found], NO_CLAIMS)] == (
        [expected] if expected else []
    )


def test_only_what_is_held_is_named() -> None:
    pods = [
        pod("train", asks(2)),
        pod("soon", asks(1), phase="Pending"),
        pod("done", asks(1), phase="Succeeded"),
        pod("broken", asks(1), phase="Failed"),
        pod("web", {}),
        pod("rdma", asks(1, "nvidia.com/hostdev")),
    ]
    assert [holder.title for holder in holders(pods, NO_CLAIMS)] == ["team/train", "team/soon"]


@pytest.mark.parametrize("resource", ["nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"])
def test_parts_of_gpus_are_held_too(resource: str) -> None:
    assert holders([pod("p", asks(1, resource))], NO_CLAIMS) == (Holder("team", "p", {resource: 1}),)


def test_a_pod_that_ends_holds_until_it_is_gone() -> None:
    ending = pod("p", asks(1))
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert len(holders([ending], NO_CLAIMS)) == 1
