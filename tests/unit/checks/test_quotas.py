"""Limits of teams on GPUs that Kubernetes takes, and that do nothing, or too much."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.quotas import admission_policy, gpu_limit_ranges, gpu_quotas
from gpusmith.checks.whole_cluster import Removed, WholeCluster
from gpusmith.cluster import snapshot, stamps
from gpusmith.cluster.api import ApiRefused
from gpusmith.names import OF_TEAMS
from gpusmith.wanted.node import NodeWanted

MakeHost = Callable[..., NodeWanted]
GPU = "nvidia.com/gpu"


class Api:
    """A cluster with limits of one team."""

    def __init__(self, refused: bool = False, **spec: Any) -> None:
        self.spec, self.refused = spec, refused

    def serves(self, _version: str) -> bool:
        return False

    def items(self, path: str, cut: Any = None, /, **_: str) -> list[dict[str, Any]]:
        if path not in (snapshot.QUOTAS, snapshot.LIMIT_RANGES):
            return []
        if self.refused:
            raise ApiRefused("It is forbidden.", "", 403)
        found = {"metadata": {"namespace": "team", "name": "x", "uid": "1"}, "spec": self.spec}
        return [kept] if (kept := cut(found)) else []


def facts(host: MakeHost, api: Api) -> WholeCluster:
    return WholeCluster([host()], snapshot.take(api, {}), Removed())


@pytest.mark.parametrize(
    ("hard", "right"),
    [
        ({f"requests.{GPU}": "8", "limits.cpu": "4", "count/gpus.nvidia.com": "1"}, None),
        ({"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "8"}, None),
        ({f"limits.{GPU}": "8"}, f"requests.{GPU}"),
        ({GPU: "8"}, f"requests.{GPU}"),
        ({"nvidia.com/mig-1g.10gb": "8"}, "requests.nvidia.com/mig-1g.10gb"),
        ({f"limits.{GPU}": 8, f"requests.{GPU}": "8"}, None),
        ({f"limits.{GPU}": "4", f"requests.{GPU}": "8"}, f"requests.{GPU}"),
    ],
)
def test_a_quota_that_is_never_enforced_is_named_with_the_key_that_is(
    host: MakeHost, hard: dict[str, Any], right: str | None
) -> None:
    problems = gpu_quotas(facts(host, Api(hard=hard)))
    assert [problem.next_step for problem in problems] == ([f"Use '{right}' in its place."] if right else [])
    assert all(problem.cause.startswith("Quota 'team/x' limits '") for problem in problems)


@pytest.mark.parametrize(
    ("row", "does"),
    [
        ({"type": "Container", "max": {"cpu": "4"}, "default": {"cpu": "1"}}, None),
        # What the API server makes of 'max: 2'.
        (
            {"type": "Container", "max": {GPU: "2"}, "default": {GPU: "2"}, "defaultRequest": {GPU: "2"}},
            f"gives 2 '{GPU}' to each container that asks for none",
        ),
        ({"type": "Container", "max": {GPU: "2"}, "default": {GPU: 0}, "defaultRequest": {GPU: 0}}, None),
        (
            {"type": "Container", "min": {GPU: "1"}, "defaultRequest": {GPU: "1"}},
            f"refuses containers without a limit of '{GPU}'",
        ),
        ({"type": "Pod", "max": {GPU: "2"}}, f"refuses pods without '{GPU}'"),
        ({"type": "Pod", "min": {GPU: "1"}}, f"refuses pods without '{GPU}'"),
        ({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, None),
    ],
)
def test_what_a_limit_range_does_to_pods_without_gpus(
    host: MakeHost, row: dict[str, Any], does: str | None
) -> None:
    problems = gpu_limit_ranges(facts(host, Api(limits=[row])))
    assert [problem.cause for problem in problems] == ([f"LimitRange 'team/x' {does}."] if does else [])


@pytest.mark.parametrize("judge", [gpu_quotas, gpu_limit_ranges])
def test_what_may_not_be_listed_is_no_pass(host: MakeHost, judge: Callable[[WholeCluster], Any]) -> None:
    with pytest.raises(CannotAsk, match=r"may not list .*apply validation/rbac\.yml again"):
        judge(facts(host, Api(refused=True)))


def test_a_right_to_list_policies_is_needed_by_who_has_one(host: MakeHost) -> None:
    class NoPolicies(Api):
        def items(self, path: str, cut: Any = None, /, **_: str) -> list[dict[str, Any]]:
            if path in snapshot.POLICIES.values():
                raise ApiRefused("It is forbidden.", "", 403)
            return []

    taken = snapshot.take(NoPolicies(), {})
    with pytest.raises(NotApplicable):
        admission_policy(WholeCluster([host()], taken, Removed()))
    with pytest.raises(CannotAsk, match="may not list admission policies"):
        admission_policy(WholeCluster([host(gpu_tenants_policy="warn")], taken, Removed()))


def test_a_cluster_before_such_policies_is_no_error(host: MakeHost) -> None:
    class Older(Api):
        def items(self, path: str, cut: Any = None, /, **_: str) -> list[dict[str, Any]]:
            if path in snapshot.POLICIES.values():
                raise ApiRefused("It is not there.", "", 404)
            return []

    assert snapshot.take(Older(), {}).policies == ()


def test_no_node_is_worse_for_what_a_team_limits() -> None:
    def rows(outcome: str) -> dict[str, Any]:
        rows = [{"id": name, "target": "cluster", "outcome": outcome, "cause": "c"} for name in OF_TEAMS]
        rows.append({"id": "nodes.nvml", "target": "gpu-1", "outcome": "passed"})
        return {
            "schema": "gpusmith.results/1", "run": {"complete": True, "nodes": ["gpu-1"]}, "checks": rows,
            "coverage": {"gpu-1": {"gpus": {"expected": 1, "tested": 1}}},
        }  # fmt: skip

    proof = stamps.judge(rows("passed"), "gpu-1")
    assert stamps.judge(rows("failed"), "gpu-1") == stamps.judge(rows("skipped"), "gpu-1") == proof
