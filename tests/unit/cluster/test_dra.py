"""Pods that hold GPUs by ResourceClaims are holders like those that ask for them by limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.cluster import dra
from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.cluster.dra import CLAIMS, SLICES, Claims, Kind
from gpusmith.cluster.holders import Holder, holders
from gpusmith.cluster.views import view_of
from gpusmith.wanted.layouts import WHOLE
from tests.unit.cluster.conftest import Memory, Server
from tests.unit.hosts import UUIDS
from tests.unit.objects import gpu_slice, node, resource_claim, resource_slice

SLICE = gpu_slice("gpu-1", UUIDS)


def pod(name: str = "train", claim: str = "one", **more: Any) -> dict[str, Any]:
    """A pod with a claim of its own making."""
    return {
        "metadata": {"namespace": "team", "name": name, "uid": f"uid-{name}"},
        "spec": {
            "nodeName": "gpu-1",
            "containers": [{"name": "main"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim}],
        },
        "status": {"phase": "Running"},
        **more,
    }


def held(pods: list[dict[str, Any]], *claims: dict[str, Any], slices: Any = (SLICE,)) -> tuple[Holder, ...]:
    return holders(pods, dra.parse(claims, slices))


# --- which pods hold what --------------------------------------------------------------------------------------------


def test_a_claimed_gpu_is_held_and_named_with_pod_claim_and_device() -> None:
    (found,) = held([pod()], resource_claim("one", "gpu-0"))
    assert (found.title, found.gpus(WHOLE.offers(4)), found.claimed) == ("team/train", 1, 1)
    assert found.words == (
        f"'team/train' (by ResourceClaim 'one', device 'gpu-0' of driver 'gpu.nvidia.com' (a GPU, {UUIDS[0]}))"
    )


@pytest.mark.parametrize(
    "status",
    [
        {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "one"}]},
        # By its UID, also before its status tells the name.
        {"resourceClaimStatuses": [{"name": "gpu"}]},
    ],
)
def test_a_claim_that_was_made_from_a_template(status: dict[str, Any]) -> None:
    made = pod(status={"phase": "Running", **status})
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]
    (found,) = held([made], resource_claim("one", "gpu-0", "gpu-1", uid="uid-train"))
    assert found.gpus(WHOLE.offers(4)) == 2


def test_what_is_not_allocated_or_only_looked_at_or_of_an_ended_pod_is_not_held() -> None:
    assert held([pod()], resource_claim("one")) == ()
    assert held([pod()]) == ()
    assert held([pod()], resource_claim("one", "gpu-0", adminAccess=True)) == ()
    assert held([pod(status={"phase": "Succeeded"})], resource_claim("one", "gpu-0")) == ()


def test_a_gpu_that_two_pods_share_is_one_gpu_with_two_holders() -> None:
    first, second = held([pod(), pod("infer")], resource_claim("one", "gpu-0"))
    assert (first.gpus(WHOLE.offers(4)), second.gpus(WHOLE.offers(4)), second.title) == (1, 0, "team/infer")
    assert len(second.devices) == 1


def extended(request: str = "nvidia.com/gpu") -> dict[str, Any]:
    """A pod with a limit, for which the scheduler made a claim (DRAExtendedResource)."""
    made = pod()
    del made["spec"]["resourceClaims"]
    made["spec"]["containers"] = [{"name": "main", "resources": {"limits": {request: "1"}}}]
    mapping = {"containerName": "main", "resourceName": request, "requestName": "container-0-request-0"}
    made["status"]["extendedResourceClaimStatus"] = {
        "resourceClaimName": "made",
        "requestMappings": [mapping],
    }
    return made


@pytest.mark.parametrize("request_", ["nvidia.com/gpu", "example.com/gpu"])
def test_a_limit_that_the_scheduler_turned_into_a_claim_counts_once(request_: str) -> None:
    (found,) = held([extended(request_)], resource_claim("made", "gpu-0"))
    assert (found.gpus(WHOLE.offers(4)), found.claimed) == (1, 1)


def test_such_a_limit_counts_if_the_claim_cannot_be_seen() -> None:
    (found,) = held([extended()])
    assert (found.gpus(WHOLE.offers(4)), found.claimed) == (1, 0)


# --- what a device is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("driver", "attributes", "kind"),
    [
        ("gpu.nvidia.com", {"type": {"string": "gpu"}, "uuid": {"string": UUIDS[0]}}, Kind.GPU),
        ("gpu.nvidia.com", {"type": {"string": "vfio"}}, Kind.GPU),
        ("gpu.nvidia.com", {"type": {"string": "mig"}}, Kind.PART),
        ("site.example", {"site.example/uuid": {"string": "MIG-1"}}, Kind.PART),
        ("site.example", {"uuid": {"string": UUIDS[0]}}, Kind.GPU),
        ("gpu.example.com", {"model": {"string": "LATEST-GPU-MODEL"}}, Kind.GPU),
        ("compute-domain.nvidia.com", {"type": {"string": "channel"}}, Kind.OTHER),
        ("dra.net", {"dra.net/ifName": {"string": "eth1"}}, Kind.OTHER),
        ("dra.cpu", {"dra.cpu/cpuID": {"int": 3}}, Kind.OTHER),
        ("site.example", {"colour": {"string": "red"}}, Kind.UNKNOWN),
    ],
)
def test_what_a_slice_says_of_a_device(driver: str, attributes: dict[str, Any], kind: Kind) -> None:
    device = {"name": "d", "attributes": attributes}
    found = held(
        [pod()], resource_claim("one", "d", driver=driver), slices=[resource_slice("gpu-1", [device], driver)]
    )
    assert [row.kind for holder in found for row in holder.devices] == ([] if kind is Kind.OTHER else [kind])
    assert [holder.gpus(WHOLE.offers(4)) for holder in found] == (
        [] if kind is Kind.OTHER else [int(kind is Kind.GPU)]
    )


@pytest.mark.parametrize(
    ("driver", "gpus"), [("gpu.nvidia.com", [1]), ("compute-domain.nvidia.com", []), ("site.example", [0])]
)
def test_a_device_without_a_slice_is_not_free(driver: str, gpus: list[int]) -> None:
    """A driver that starts anew has none for a while; of an unknown one nobody knows what it gave out."""
    assert [
        row.gpus(WHOLE.offers(4))
        for row in held([pod()], resource_claim("one", "d", driver=driver), slices=[])
    ] == gpus


def test_old_slices_of_a_pool_do_not_count() -> None:
    old = resource_slice("gpu-1", [{"name": "gone", "attributes": {"type": {"string": "gpu"}}}], generation=0)
    found = dra.parse([], [old, SLICE]).offers["gpu-1"]
    assert [row.uuid for row in found] == list(UUIDS)


# --- what the suite sees of a node -----------------------------------------------------------------------------------


def test_a_claimed_gpu_is_busy_and_none_of_the_device_plugins() -> None:
    claims = dra.parse([resource_claim("one", "gpu-3")], [gpu_slice("gpu-1", UUIDS)])
    view = view_of(node(status__capacity={"nvidia.com/gpu": "3"}), [pod()], "x", claims)
    assert view.busy(WHOLE.offers(4)) == {"team/train": 1}
    assert (view.free(WHOLE.offers(4)[0]), len(view.claimable)) == (4, 4)
    assert [view.offered_twice(WHOLE.offers(4), gpus) for gpus in (7, 4)] == [0, 3]


def test_a_gpu_by_two_names_is_one() -> None:
    devices = [
        {
            "name": name,
            "attributes": {"type": {"string": kind}, "resource.kubernetes.io/pciBusID": {"string": "0:1"}},
        }
        for name, kind in (("gpu-0", "gpu"), ("gpu-vfio-0", "vfio"))
    ]
    claims = dra.parse([], [resource_slice("gpu-1", devices)])
    assert len(view_of(node(), [], "x", claims).claimable) == 1


def test_parts_and_what_may_be_a_gpu_are_claimed_and_not_counted_as_gpus() -> None:
    claims = dra.parse([resource_claim("one", "d", driver="site.example")], [])
    view = view_of(node(), [pod()], "x", claims)
    assert (view.busy(WHOLE.offers(4)), [row.title for row in view.claimants]) == ({}, ["team/train"])


# --- what is asked of the API ----------------------------------------------------------------------------------------


def test_nothing_is_asked_for_pods_without_claims() -> None:
    plain = pod()
    del plain["spec"]["resourceClaims"]
    assert dra.read(Unasked(), [plain]) == Claims()  # type: ignore[arg-type]


class Unasked:
    """An API that nobody may ask."""


def test_claims_and_the_slices_of_the_node_are_asked_for() -> None:
    memory = Memory(
        {
            f"{CLAIMS}/one": resource_claim("one", "gpu-0"),
            f"{SLICES}/a": SLICE,
            f"{SLICES}/b": gpu_slice("gpu-2", ["GPU-9"]),
        }
    )
    found = dra.read(memory.cluster, [pod()], "gpu-1")
    assert [row.name for row in found.held_by(pod())] == ["gpu-0"]
    assert set(found.offers) == {"gpu-1"}


def test_an_api_group_that_is_not_served_is_asked_for_once(server: Server, client: Cluster) -> None:
    server.will((404, {}, {"message": "not found"}))
    for _ in range(3):
        assert dra.read(client, [], offers=True) == Claims(served=False)
    assert server.seen == [("GET", dra.API)]


def test_claims_of_another_version_of_the_api_are_not_taken_for_nothing() -> None:
    (found,) = holders([pod()], Claims(served=False))
    assert (found.gpus(WHOLE.offers(4)), found.words) == (0, "'team/train' (by ResourceClaim 'gpu')")


def test_missing_rights_are_an_error_that_names_the_rule(
    client: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "serves", lambda _: True)
    monkeypatch.setattr(client, "items", _refused(403))
    with pytest.raises(ApiRefused) as caught:
        dra.read(client, [pod()])
    assert "'resourceclaims' and 'resourceslices'" in caught.value.hint
    assert caught.value.status == 403


def _refused(status: int) -> Callable[..., Any]:
    def items(path: str, *_: object, **__: str) -> Any:
        raise ApiRefused(f"The API server refused GET '{path}'.", "", status)

    return items
