"""Readiness is judged once, for suite and playbooks."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster import dra
from gpusmith.cluster.views import NodeView, Readiness, readiness, view_of
from gpusmith.names import DEVICE_CLASS, LAYOUT_LABEL
from gpusmith.wanted.layouts import WHOLE
from tests.unit.hosts import UUIDS
from tests.unit.objects import gpu_slice, holder, node, operand, resource_claim


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([{"type": "Ready", "status": "True"}], Readiness(True, "Ready")),
        ([{"type": "Ready", "status": "False", "message": "no CNI"}], Readiness(False, "no CNI")),
        ([{"type": "Ready", "status": "Unknown"}], Readiness(False, "not Ready")),
        ([{"type": "DiskPressure", "status": "False"}], Readiness(False, "not Ready yet")),
        ([], Readiness(False, "not Ready yet")),
        (None, Readiness(False, "not Ready yet")),
    ],
)
def test_readiness(rows: list[dict[str, Any]] | None, expected: Readiness) -> None:
    node = {"metadata": {"name": "a"}, "status": {"conditions": rows}}
    assert readiness(node) == expected
    assert view_of(node, [], "x").ready is expected.ready


def test_a_node_that_is_not_there_is_not_ready() -> None:
    assert readiness(None) == Readiness(False, "the cluster has no such node")


def test_busy_gpus_are_counted_with_their_holders() -> None:
    view = view_of(
        node(),
        [holder("train", "2", "Running"), holder("done", "1", "Succeeded"), holder("soon", "1", "Pending")],
        "x",
    )
    assert view.busy(WHOLE.offers(4)) == {"team/train": 2, "team/soon": 1}
    assert view.free(WHOLE.offers(4)[0]) == 1


def test_shares_that_pods_hold_are_counted_as_shares() -> None:
    """Two pods with one share each may be on one GPU, or on two."""
    raw = node()
    raw["metadata"]["labels"][LAYOUT_LABEL] = "time-slicing-4-as-gpu"
    raw["status"]["allocatable"] |= {"nvidia.com/gpu": "16", "pods": "110"}
    view = view_of(raw, [holder("train", "1", "Running"), holder("sidecar", "2", "Running")], "x")
    assert view.busy(view.offers(4)) == {"team/train": 1, "team/sidecar": 2}
    assert view.free(view.offers(4)[0]) == 13
    assert (view.most_pods, view_of(node(), [], "x").most_pods) == (110, None)


def by_claims(*claims: dict[str, Any], plugin: str = "0") -> NodeView:
    """A node that hands out four GPUs by claims; pods have these."""
    raw = node()
    raw["metadata"]["labels"][LAYOUT_LABEL] = "dra"
    raw["status"] |= {part: {"nvidia.com/gpu": plugin} for part in ("capacity", "allocatable")}
    pods = []
    for claim in claims:
        name = claim["metadata"]["name"]
        pod = holder(name, "0", "Running")
        pod["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimName": name}]
        pods.append(pod)
    return view_of(raw, pods, "x", dra.parse(claims, [gpu_slice("gpu-1", UUIDS)]))


def test_gpus_by_claims_are_counted_like_others() -> None:
    view = by_claims(resource_claim("one", "gpu-0"), resource_claim("two", "gpu-1", "gpu-2"))
    offers = view.offers(4)
    assert (view.capacity[DEVICE_CLASS], view.allocatable[DEVICE_CLASS], view.free(offers[0])) == (4, 4, 1)
    assert view.busy(offers) == {"team/one": 1, "team/two": 2}
    assert (view.offered_twice(offers, 4), view.lent_twice(offers, 4)) == (0, ())


def test_a_device_plugin_beside_the_dra_driver_offers_gpus_twice() -> None:
    view = by_claims(resource_claim("one", "gpu-0"), plugin="4")
    assert view.offered_twice(view.offers(4), 4) == 4
    assert [row.title for row in view.lent_twice(view.offers(4), 4)] == ["team/one"]


def test_a_second_device_plugin_is_found_in_our_own_namespace_too() -> None:
    def plugin(daemon_set: str) -> dict[str, Any]:
        found = operand(daemon_set)
        found["spec"]["volumes"] = [{"hostPath": {"path": "/var/lib/kubelet/device-plugins"}}]
        found["metadata"]["ownerReferences"] = [{"kind": "DaemonSet", "name": daemon_set}]
        return found

    pods = [plugin("nvidia-device-plugin"), plugin("sharing-plugin")]
    assert view_of(node(), pods, "gpusmith-system").plugins == ("gpusmith-system/sharing-plugin-x",)
