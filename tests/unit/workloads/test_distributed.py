"""Jobs over several nodes: what their pods are told, what their results prove, and who is to blame for a failure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.wanted.offers import devices
from gpusmith.workloads.distributed import judge
from gpusmith.workloads.groups import grouped, verdicts
from gpusmith.workloads.judge import Expected
from tests.unit.workloads.answers import before_each_creation, outcomes

CHECK = "workloads.pytorch-nodes"
ONE, TWO = (Expected(f"gpu-{n}", True, devices({f"GPU-{n}a", f"GPU-{n}b"})) for n in (1, 2))


def log(node: str, **changes: Any) -> str:
    good = {
        "schema": "gpusmith.workload/1", "ok": True, "simulated": True, "uuids": [f"GPU-{node}a", f"GPU-{node}b"], "world": 4,
        "weights": [1.0, 2.0], "framework": "torch 9", "transports": ["NET/Socket"],
    }  # fmt: skip
    return json.dumps({**good, **changes})


def causes(first: Mapping[str, Any], second: Mapping[str, Any], transport: str = "any") -> list[str]:
    judged = judge([ONE, TWO], "pytorch", [log("1", **first), log("2", **second)], 2, transport)
    return [problem.cause for problem in judged.problems]


def test_results_that_agree_pass_and_name_what_each_pod_had() -> None:
    judged = judge([ONE, TWO], "pytorch", [log("1"), log("2")], 2)
    assert judged.problems == []
    assert (judged.evidence["world"], judged.evidence["framework"]) == (4, "torch 9")
    assert judged.evidence["nodes"]["gpu-2"] == {"uuids": ["GPU-2a", "GPU-2b"], "transports": ["NET/Socket"]}
    assert judged.of_host


UNREACHED = {"ok": False, "error": "the pod on node 'gpu-1' does not reach …", "unreached": "gpu-2"}
DIED = {"ok": False, "error": "rank 3 ended without a word", "died": True}
LOST = {"ok": False, "error": "connection closed by peer"}


@pytest.mark.parametrize(
    ("first", "second", "says"),
    [
        ({"weights": [1.0, 2.5]}, {}, ["Node 'gpu-2': its ranks ended with other weights than those of 'gpu-1'."]),
        ({"world": 2}, {}, ["Node 'gpu-2': its ranks ended with another number of ranks than those of 'gpu-1'."]),
        ({}, {"uuids": ["GPU-2a"]}, ["Node 'gpu-2': the pytorch program saw 1 GPUs"]),
        ({}, {"simulated": False}, ["Node 'gpu-2': the pytorch program ran on real GPUs"]),
        (LOST, DIED, ["Node 'gpu-2': the pytorch program failed: rank 3 ended without a word"]),
        (UNREACHED, LOST, ["Node 'gpu-2': the pytorch program failed: connection closed"]),
        (UNREACHED, {}, ["Node 'gpu-1': the pytorch program failed: the pod on node 'gpu-1' does not reach"]),
        (UNREACHED, UNREACHED, ["Node 'gpu-1': the pytorch", "Node 'gpu-2': the pytorch"]),
    ],
    ids=["weights", "world", "one GPU", "real", "died", "failed itself", "not reached", "both not reached"],
)  # fmt: skip
def test_who_failed_is_named_and_not_who_missed_it(
    first: Mapping[str, Any], second: Mapping[str, Any], says: list[str]
) -> None:
    found = causes(first, second)
    assert len(found) == len(says), found
    for cause, words in zip(found, says, strict=True):
        assert cause.startswith(words)


def test_a_gpu_that_two_pods_had_is_named() -> None:
    both = Expected("gpu-2", True, devices({"GPU-1a", "GPU-2b"}))
    judged = judge([ONE, both], "pytorch", [log("1"), log("2", uuids=["GPU-1a", "GPU-2b"])], 2)
    assert [row.cause for row in judged.problems] == [
        "Nodes 'gpu-1', 'gpu-2': pods of different nodes had the same GPU: GPU-1a."
    ]


def test_a_pod_that_is_not_reached_is_a_matter_of_the_network() -> None:
    judged = judge([ONE, TWO], "pytorch", [log("1", **UNREACHED), log("2")], 2)
    assert judged.problems[0].next_step.startswith("Look at the pod network between these nodes")


@pytest.mark.parametrize(
    ("ways", "wanted", "wrong"),
    [
        (["NET/Socket"], "ib", 1), (["NET/IB", "P2P/CUMEM"], "ib", 0), ([], "ib", 1), (["P2P/CUMEM"], "nvlink", 0),
        (["NET/Socket", "P2P/CUMEM"], "nvlink", 1),
        (["NET/Socket"], "any", 0), (["NET/Socket"], "socket", 0),
    ],
)  # fmt: skip
def test_the_way_of_data_is_judged_on_real_gpus_alone(ways: list[str], wanted: str, wrong: int) -> None:
    real = [Expected(node.node, False, node.devices) for node in (ONE, TWO)]
    logs = [log("1", simulated=False), log("2", simulated=False, transports=ways)]
    judged = judge(real, "pytorch", logs, 2, wanted)
    first = 1 if wanted in ("ib", "nvlink") else 0
    assert len(judged.problems) == first + wrong, judged.problems
    assert judge([ONE, TWO], "pytorch", [log("1"), log("2", transports=ways)], 2, wanted).problems == []


def test_each_pod_is_told_its_place_and_found_by_name(run: Any, fake_cluster: Any) -> None:
    made: dict[str, Any] = {}
    before_each_creation(fake_cluster, lambda body: made.update({body["metadata"]["name"]: body}))
    found, _ = run(("gpu-1", "gpu-2"))
    assert outcomes(found["gpu-2"])[CHECK] == "passed", found["gpu-2"].findings[CHECK]
    name = "pytorch-nodes-n0-n1"
    service = made[name]
    assert (service["kind"], service["spec"]["clusterIP"]) == ("Service", "None")
    for place in (0, 1):
        spec = made[f"n{place}-{name}"]["spec"]["template"]["spec"]
        labels = made[f"n{place}-{name}"]["spec"]["template"]["metadata"]["labels"]
        assert service["spec"]["selector"].items() <= labels.items()
        assert (spec["hostname"], spec["subdomain"]) == (f"n{place}-{name}", name)
        env = {row["name"]: row["value"] for row in spec["containers"][0]["env"]}
        assert env["GPUSMITH_MEMBERS"] == f"n0-{name}.{name},n1-{name}.{name}"
        assert (env["GPUSMITH_NODES"], env["GPUSMITH_PLACE"]) == ("gpu-1,gpu-2", str(place))
    assert fake_cluster.given == {}


def test_nodes_that_give_no_pod_all_gpus_are_not_failed(run: Any, fake_cluster: Any) -> None:
    """topologyManagerPolicy single-numa-node: the kubelet refuses it, and each GPU was tested by itself."""
    start = fake_cluster.run

    def refuse(name: str, pod: dict[str, Any], *rest: Any) -> None:
        start(name, pod, *rest)
        if "-pytorch-nodes-" in name:
            message = "Pod was rejected: Resources cannot be allocated with Topology locality"
            pod["status"] = {"phase": "Failed", "reason": "TopologyAffinityError", "message": message}
            fake_cluster.logs.pop(name)

    fake_cluster.run = refuse
    found, _ = run(("gpu-1", "gpu-2"))
    for node in found.values():
        assert node.findings[CHECK].skip is Skip.NOT_APPLICABLE, node.findings[CHECK]
        assert "gives no pod 4 GPUs" in node.findings[CHECK].cause


def test_without_names_for_pods_it_does_not_apply(run: Any, fake_cluster: Any) -> None:
    found, _ = run(("gpu-1", "gpu-2"), values={"validation_network": False})
    rows = [found[name].findings[CHECK] for name in ("gpu-1", "gpu-2")]
    assert [(row.check, row.target, row.skip) for row in rows] == [
        (CHECK, name, Skip.NOT_APPLICABLE) for name in ("gpu-1", "gpu-2")
    ]


# --- groups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "up_to", "sizes", "left"),
    [(5, 3, [2, 3], 0), (4, 3, [2, 2], 0), (1, 3, [], 1), (5, 0, [2, 2], 1), (3, 3, [3], 0)],
)
def test_an_odd_node_joins_the_last_group(free: int, up_to: int, sizes: list[int], left: int) -> None:
    nodes: list[Any] = [f"gpu-{n}" for n in range(free)]
    groups, rest = grouped(nodes, 2, up_to)
    assert [len(group) for group in groups] == sizes
    assert len(rest) == left
    assert {*rest, *(node for group in groups for node in group)} == set(nodes)


@pytest.fixture
def six(fake_cluster: Any, run: Callable[..., Any]) -> Callable[..., dict[str, Finding]]:
    """Findings of six nodes, of which some pairs fail."""
    names = tuple(f"gpu-{n}" for n in range(1, 7))
    fake_cluster.gpus = {name: [f"GPU-{name}-{n}" for n in range(4)] for name in names}

    def start(fails: Callable[[set[str]], bool]) -> dict[str, Finding]:
        def answer(env: dict[str, str], uuids: list[str]) -> Any:
            bad = fails(set(env.get("GPUSMITH_NODES", "").split(",")))
            return {**fake_cluster.good(env, uuids), **({"ok": False, "error": "no way"} if bad else {})}

        fake_cluster.answers["run_pytorch.py"] = answer
        found, _ = run(names)
        return {name: found[name].findings[CHECK] for name in names}

    return start


def test_a_bad_node_is_told_from_its_partner(six: Callable[..., dict[str, Finding]]) -> None:
    found = six(lambda nodes: len(nodes) > 1 and "gpu-4" in nodes)
    assert {name for name, row in found.items() if row.outcome is Outcome.FAILED} == {"gpu-4"}
    assert "It fails with 'gpu-2', too, whose own group passed." in found["gpu-4"].cause
    assert found["gpu-3"].evidence["notes"] == ["it failed in a group with 'gpu-4', and passed with 'gpu-1'"]
    assert found["gpu-3"].target == "gpu-3"
    assert "notes" not in found["gpu-1"].evidence


def test_a_bad_way_between_two_nodes_is_told_from_both(six: Callable[..., dict[str, Finding]]) -> None:
    found = six({"gpu-3", "gpu-4"}.issubset)
    assert {name for name, row in found.items() if row.outcome is Outcome.FAILED} == {"gpu-3", "gpu-4"}
    says = "Each of these nodes passes with another one: 'gpu-3' with 'gpu-1', 'gpu-4' with 'gpu-2'."
    assert says in found["gpu-4"].cause
    assert found["gpu-4"].next_step.startswith("Look at the network between these nodes.")


def test_where_all_groups_fail_nobody_is_acquitted(six: Callable[..., dict[str, Finding]]) -> None:
    found = six(lambda nodes: len(nodes) > 1)
    assert {row.outcome for row in found.values()} == {Outcome.FAILED}
    assert all("with another one" not in row.cause for row in found.values())


def test_a_node_that_somebody_took_meanwhile_leaves_the_failure_as_it_is() -> None:
    failed = [Finding(CHECK, name, Outcome.FAILED, "no way") for name in ("gpu-1", "gpu-2")]
    passed = Finding(CHECK, "gpu-1", Outcome.PASSED)
    taken = Finding(CHECK, "gpu-2", Outcome.SKIPPED, "busy", skip=Skip.LEFT_OUT)
    assert verdicts(failed, {"gpu-1": ("gpu-3", passed), "gpu-2": ("gpu-4", taken)}) == failed
