"""Workloads on a node whose GPUs are handed out in shares: a pod gets one, and all of them together cover every GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.cluster.holders import Holder
from gpusmith.cluster.views import NodeView
from gpusmith.names import GPU_RESOURCE, LAYOUT_LABEL, SHARE_RESOURCE
from gpusmith.wanted.layouts import Layout
from gpusmith.wanted.offers import devices
from gpusmith.workloads import allocation, own, targets
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.targets import Target
from tests.unit.fake_cluster import FakeCluster
from tests.unit.hosts import UUIDS, make_host
from tests.unit.workloads.answers import READY, all_passed, answer, before_each_creation, outcomes

LAYOUT = Layout(4, SHARE_RESOURCE)
Run = Callable[..., Any]


def of_shares(layout: Layout = LAYOUT, **changes: Any) -> NodeView:
    """A node with four shares of each of four GPUs."""
    counts = {layout.resource: 16}
    given = {"labels": {LAYOUT_LABEL: layout.label}, "capacity": counts, "allocatable": counts}
    return replace(READY, **{**given, **changes})


SHARED = of_shares()


@pytest.fixture(autouse=True)
def shares(fake_cluster: FakeCluster) -> None:
    """The shares of one GPU are given before those of the next one: nobody promises that they spread."""
    fake_cluster.resource = SHARE_RESOURCE
    fake_cluster.gpus = {
        name: [uuid for uuid in uuids for _ in range(4)] for name, uuids in fake_cluster.gpus.items()
    }


@pytest.fixture
def asked(fake_cluster: FakeCluster) -> dict[str, dict[str, Any]]:
    """What each pod of a run asks for, by its name."""
    seen: dict[str, dict[str, Any]] = {}

    def note(body: dict[str, Any]) -> None:
        spec = body.get("spec") or {}
        spec = spec.get("template", {}).get("spec") or spec
        for container in spec.get("containers") or ():
            seen[body["metadata"]["name"].removeprefix("n0-")] = container["resources"]

    before_each_creation(fake_cluster, note)
    return seen


def held(count: int) -> dict[str, Any]:
    """Others that hold a share each."""
    return {"holders": tuple(Holder("team", f"train-{n}", {SHARE_RESOURCE: 1}) for n in range(count))}


@pytest.mark.parametrize("resource", [SHARE_RESOURCE, GPU_RESOURCE])
def test_every_pod_asks_for_one_share_and_all_gpus_are_tested(
    run: Run, fake_cluster: FakeCluster, asked: dict[str, dict[str, Any]], resource: str
) -> None:
    fake_cluster.resource = resource
    found = run(gpu_1=of_shares(Layout(4, resource)))[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    assert {row.get("limits", {}).get(resource, "1") for row in asked.values()} == {"1"}
    assert sorted(found.tested) == UUIDS, "UUIDs of GPUs, each once"
    assert [name for name in asked if name.startswith(("cuda", "hold"))] == [
        *(f"cuda-{n}" for n in range(16)),
        *(f"hold-{n}" for n in range(16)),
    ]


def test_what_ran_with_one_share_says_so(run: Run) -> None:
    found = run(gpu_1=SHARED)[0]["gpu-1"].findings
    noted = {name for name, row in found.items() if "one share" in "".join(row.evidence.get("notes", ()))}
    assert noted == {"workloads.nvidia-smi", "workloads.pytorch", "workloads.tensorflow"}
    assert len(found["workloads.nvidia-smi"].evidence["uuids"]) == 1


def test_the_evidence_says_how_many_pods_had_each_gpu(run: Run) -> None:
    evidence = run(gpu_1=SHARED)[0]["gpu-1"].findings["workloads.allocation"].evidence
    assert len(evidence["held"]) == 16
    assert evidence["shares"] == {"of_each_gpu": 4, "gpus": 4, "pods": dict.fromkeys(UUIDS, 4)}


def test_titles_count_shares(run: Run, said: list[str]) -> None:
    run(gpu_1=SHARED)
    titles = [line.split(": ")[1] for line in said]
    assert titles == [
        "nvidia-smi", "CUDA on 16 shares", "PyTorch on 1 shares", "TensorFlow on 1 shares", "network", "isolation",
        "placement by gpu-type",
        "16 pods with one share each", "one pod more than shares",
    ]  # fmt: skip


def test_all_pods_together_ask_for_as_much_cpu_as_with_whole_gpus(
    run: Run, asked: dict[str, dict[str, Any]]
) -> None:
    run(gpu_1=SHARED)
    assert {asked[name]["requests"]["cpu"] for name in ("cuda-0", "hold-15", "pytorch")} == {"25m"}
    assert asked["network"]["requests"]["cpu"] == "100m"


def test_cuda_pods_give_their_shares_back_before_the_next_workload(
    run: Run, fake_cluster: FakeCluster
) -> None:
    there: list[str] = []
    before_each_creation(
        fake_cluster,
        lambda body: there.extend(fake_cluster.given) if body["metadata"]["name"] == "n0-pytorch" else None,
    )
    run(gpu_1=SHARED)
    assert there == []


def test_a_kernel_that_is_wrong_in_one_share_fails(run: Run, fake_cluster: FakeCluster) -> None:
    fake_cluster.answers["run_cuda.py"] = lambda env, uuids: answer(
        **({"ok": False, "error": "wrong result"} if uuids == [UUIDS[2]] else {})
    )(env, uuids)
    finding = run(gpu_1=SHARED)[0]["gpu-1"].findings["workloads.cuda"]
    assert finding.outcome is Outcome.FAILED
    assert "wrong result" in finding.cause


def test_what_slows_a_gpu_down_in_one_of_its_pods_stays(run: Run, fake_cluster: FakeCluster) -> None:
    seen: list[str] = []

    def says(env: dict[str, str], uuids: list[str]) -> Any:
        seen.extend(uuids)
        hot = 0x40 if len(seen) == 1 else 4
        return answer(slowdowns={uuid: {"reasons": hot, "looks": 1} for uuid in uuids})(env, uuids)

    fake_cluster.answers["run_cuda.py"] = says
    found = run(gpu_1=SHARED)[0]["gpu-1"].findings
    assert found["workloads.cuda"].evidence["slowdowns"][seen[0]] == {"reasons": 0x44, "looks": 4}
    assert found["workloads.throttle"].outcome is Outcome.FAILED


# --- what one share cannot prove ---------------------------------------------------------------------------------


def not_applicable(finding: Finding, says: str) -> None:
    assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, Skip.NOT_APPLICABLE), finding
    assert says in finding.cause


def test_shares_are_not_measured(run: Run, asked: dict[str, dict[str, Any]]) -> None:
    found = run(values={"gpusmith_simulated": False}, gpu_1=SHARED)[0]["gpu-1"].findings
    not_applicable(found["workloads.performance"], "pods get shares of GPUs, so that no rate is a GPU's")
    assert "performance" not in asked


def site(gpus: str) -> dict[str, Any]:
    return {
        "name": f"burn-{gpus}",
        "image": "registry.example/burn:1",
        "command": ["burn", "60"],
        "gpus": gpus,
    }


@pytest.mark.usefixtures("register_open")
def test_workloads_of_a_site(run: Run, asked: dict[str, dict[str, Any]]) -> None:
    rows = [site("1"), site("2"), site("all")]
    own.register([make_host(validation_workloads=rows)])
    found = run(values={"validation_workloads": rows}, gpu_1=SHARED)[0]["gpu-1"].findings
    not_applicable(found["workloads.burn-2"], "a pod gets one share of one GPU, and 2 GPUs are needed")
    assert not [name for name in asked if "burn-2" in name]
    for name in ("1", "all"):
        assert found[f"workloads.burn-{name}"].outcome is Outcome.PASSED
        assert "one share" in found[f"workloads.burn-{name}"].evidence["notes"][0]


SEVERAL = ("workloads.pytorch-nodes", "workloads.tensorflow-nodes")


def test_a_job_over_nodes_is_not_for_shares(run: Run) -> None:
    found = run(("gpu-1", "gpu-2"), gpu_1=SHARED, gpu_2=replace(SHARED, name="gpu-2"))[0]
    for name in found:
        for check in SEVERAL:
            not_applicable(
                found[name].findings[check], "no part of a GPU's time or memory to a job over several nodes"
            )


def test_nodes_with_shares_are_none_that_others_wait_for(run: Run, fake_cluster: FakeCluster) -> None:
    """The only node with whole GPUs would be left out for ever, and never be proved."""
    fake_cluster.gpus["gpu-2"] = list(dict.fromkeys(fake_cluster.gpus["gpu-2"]))
    started = fake_cluster.schedule

    def schedule() -> None:
        for pod in fake_cluster.pods.values():
            limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
            if GPU_RESOURCE in limits:
                limits[SHARE_RESOURCE] = limits.pop(GPU_RESOURCE)
        started()

    fake_cluster.schedule = schedule  # type: ignore[method-assign]
    found = run(("gpu-1", "gpu-2"), gpu_1=SHARED)[0]
    assert outcomes(found["gpu-2"]) == all_passed(), found["gpu-2"].findings
    for check in SEVERAL:
        not_applicable(found["gpu-1"].findings[check], "shares")
        not_applicable(found["gpu-2"].findings[check], "left without others: 'gpu-2'")


def test_a_node_with_shares_that_fails_by_itself_has_no_second_failure(
    run: Run, fake_cluster: FakeCluster
) -> None:
    fake_cluster.answers["run_cuda.py"] = answer(ok=False, error="wrong result")
    found = run(("gpu-1", "gpu-2"), gpu_1=SHARED, gpu_2=replace(SHARED, name="gpu-2"))[0]["gpu-1"].findings
    not_applicable(found[SEVERAL[0]], "shares")


# --- who has which GPU -------------------------------------------------------------------------------------------

A, B = "GPU-a", "GPU-b"
NODE = Expected("gpu-1", True, devices({A, B}))
PAIR = Layout(2, SHARE_RESOURCE)


@pytest.mark.parametrize(
    ("given", "causes"),
    [
        ([A, B, A, B], []),
        ([A, A, A, B], ["GPU-a serves 3 of them, GPU-b serves 1 of them, and each GPU has 2 shares"]),
        ([A, A, "GPU-x", "GPU-x"], ["saw GPU-x, which NVML on the host does not know", ": GPU-b serves 0 of them"]),
        # Others hold the rest.
        ([A, A, B], []),
        ([A, A], []),
        ([A, A, A], ["3 pods at the same time: GPU-a serves 3 of them, and each GPU has 2 shares"]),
    ],
)  # fmt: skip
def test_no_gpu_has_more_pods_than_shares_and_none_fewer(given: list[str], causes: list[str]) -> None:
    pods = {f"hold-{n}": uuid for n, uuid in enumerate(given)}
    judged = allocation.judge(NODE, pods, len(given), PAIR, 2)
    assert len(judged.problems) == len(causes), judged.problems
    assert all(cause in problem.cause for cause, problem in zip(causes, judged.problems, strict=True))
    assert all("Node 'gpu-1'" in problem.cause for problem in judged.problems)
    assert judged.evidence["shares"]["gpus"] == 2


def test_without_the_hosts_record_shares_are_counted_by_what_pods_name() -> None:
    blind = replace(NODE, devices=None)
    assert allocation.judge(blind, {"a": A, "b": A, "c": B, "d": B}, 4, PAIR, 2).problems == []
    (problem,) = allocation.judge(blind, {"a": A, "b": A, "c": B, "d": "GPU-c"}, 4, PAIR, 2).problems
    assert ": GPU-b serves 1 of them, GPU-c serves 1 of them, and each GPU has 2 shares" in problem.cause


def test_a_share_too_many_of_one_gpu_fails_the_run(run: Run, fake_cluster: FakeCluster) -> None:
    fake_cluster.gpus["gpu-1"][4] = UUIDS[0]
    finding = run(gpu_1=SHARED)[0]["gpu-1"].findings["workloads.allocation"]
    assert finding.outcome is Outcome.FAILED
    assert f"{UUIDS[0]} serves 5 of them, {UUIDS[1]} serves 3 of them" in finding.cause


def test_by_mps_the_pods_are_told_to_be_its_clients(run: Run, fake_cluster: FakeCluster) -> None:
    told: dict[str, str] = {}

    def hold(env: dict[str, str], uuids: list[str]) -> Any:
        told.update(env)
        return answer(uuid=uuids[0])(env, uuids)

    fake_cluster.answers["hold_gpu.py"] = hold
    assert outcomes(run(gpu_1=of_shares(replace(LAYOUT, mps=True)))[0]["gpu-1"]) == all_passed()
    assert told["GPUSMITH_MPS_SHARES"] == "4"
    told.clear()
    run(gpu_1=SHARED)
    assert "GPUSMITH_MPS_SHARES" not in told


def test_by_mps_nobody_waits_for_programs_of_another_user(run: Run) -> None:
    found = run(gpu_1=of_shares(replace(LAYOUT, mps=True), **held(1)))[0]["gpu-1"]
    assert "team/train-0 on node 'gpu-1' may be clients of MPS" in found.findings["workloads.cuda"].cause
    assert not found.tested


# --- one pod more ------------------------------------------------------------------------------------------------


def test_the_waiting_pod_gets_a_share_of_the_gpu_that_was_freed(run: Run) -> None:
    evidence = run(gpu_1=SHARED)[0]["gpu-1"].findings["workloads.oversubscription"].evidence
    assert f"Insufficient {SHARE_RESOURCE}" in evidence["pending"]
    assert evidence["freed"] == evidence["got"]


def test_a_share_of_another_gpu_fails(run: Run, fake_cluster: FakeCluster) -> None:
    def hold(env: dict[str, str], uuids: list[str]) -> Any:
        late = len(fake_cluster.given) == 15 and "n0-hold-0" not in fake_cluster.given
        return answer(uuid=UUIDS[3] if late else uuids[0])(env, uuids)

    fake_cluster.answers["hold_gpu.py"] = hold
    finding = run(gpu_1=SHARED)[0]["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is Outcome.FAILED
    assert f"a share of {UUIDS[0]} was freed, but the waiting pod got one of {UUIDS[3]}." in finding.cause
    assert "time slicing" not in finding.next_step


def test_a_kubelet_that_takes_fewer_pods_than_it_has_shares(
    run: Run, asked: dict[str, dict[str, Any]]
) -> None:
    """110 by default: eight GPUs in sixteen shares are more."""
    found = run(gpu_1=of_shares(most_pods=18))[0]["gpu-1"]
    assert len([name for name in asked if name.startswith("hold")]) == 10
    rows = found.findings
    assert rows["workloads.allocation"].outcome is Outcome.PASSED
    assert "takes 10 pods more, and has 16 free shares" in rows["workloads.cuda"].evidence["notes"][0]
    not_applicable(rows["workloads.oversubscription"], "10 pods hold a share each, of 16")
    assert sorted(found.tested) == UUIDS[:3], "coverage says which GPUs no pod had"


# --- others, and the denominators --------------------------------------------------------------------------------


def test_shares_that_others_hold_are_left_alone(run: Run, fake_cluster: FakeCluster) -> None:
    fake_cluster.foreign = {"gpu-1": [UUIDS[0]] * 3}
    found = run(gpu_1=of_shares(**held(3)))[0]["gpu-1"]
    assert outcomes(found) == all_passed(), found.findings
    shares = found.findings["workloads.allocation"].evidence["shares"]
    assert shares["pods"] == {UUIDS[0]: 1, **dict.fromkeys(UUIDS[1:], 4)}
    assert sorted(found.tested) == UUIDS


def test_a_node_without_a_free_share_is_busy(run: Run, fake_cluster: FakeCluster) -> None:
    found = run(gpu_1=of_shares(**held(16)))[0]["gpu-1"]
    assert found.reason.startswith(
        "Not tested: all 16 shares of GPUs of node 'gpu-1' are busy, held by team/train-0 (1),"
    )
    assert not fake_cluster.logs


def test_who_took_a_share_meanwhile_took_a_share() -> None:
    said = targets.by_others(Target(make_host(), SHARED, None), of_shares(**held(1)))
    assert said == "shares of GPUs of node 'gpu-1' were taken by team/train-0 (1) meanwhile"


def test_a_budget_is_of_gpus(run: Run) -> None:
    found, _ = run(gpu_budget=4, gpu_1=SHARED)
    assert outcomes(found["gpu-1"]) == all_passed()
    found, _ = run(gpu_budget=3, gpu_1=SHARED)
    assert found["gpu-1"].reason == "Not tested: node 'gpu-1' has 4 GPUs, and --gpu-budget allows 3."
