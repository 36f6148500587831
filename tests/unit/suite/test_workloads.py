"""The workloads against a cluster in memory: what passes, what each broken answer leads to, who is left alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith import pods, workloads
from gpusmith.findings import Finding, Outcome, Skip
from gpusmith.inventory import Host
from gpusmith.jobs import Run
from gpusmith.kube import Cluster
from gpusmith.snapshot import Holder, NodeView
from gpusmith.wait import NotYet
from gpusmith.workloads import PER_NODE, NodeOutcome, Target

MakeHost = Callable[..., Host]
READY = NodeView("gpu-1", True, (), False, 4, 4, {}, {}, ())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pods, "TICK_S", 0.02)
    monkeypatch.setattr(workloads, "STAYS_PENDING_S", 0.05)
    monkeypatch.setattr(workloads, "PENDING_WAIT_S", 0.5)


@pytest.fixture
def run(
    host: MakeHost, fake_cluster: Any, programs: Path
) -> Callable[..., tuple[dict[str, NodeOutcome], Finding]]:
    def start(
        names: tuple[str, ...] = ("gpu-1",), **views: NodeView | None
    ) -> tuple[dict[str, NodeOutcome], Finding]:
        targets = []
        for name in names:
            view = views.get(name.replace("-", "_"), replace(READY, name=name))
            targets.append(
                Target(host(name), view, frozenset(fake_cluster.gpus[name]), frozenset({"nvidia"}))
            )
        said: list[str] = []
        return workloads.run_all(cast(Cluster, fake_cluster), Run("a1", "o"), programs, targets, said.append)

    return start


def outcomes(found: NodeOutcome) -> dict[str, str]:
    return {name: finding.outcome.value for name, finding in found.findings.items()}


def test_two_healthy_nodes(run: Any, fake_cluster: Any) -> None:
    found, cleanup = run(("gpu-1", "gpu-2"))
    for name in ("gpu-1", "gpu-2"):
        assert outcomes(found[name]) == dict.fromkeys(PER_NODE, "passed"), found[name].findings
        assert set(found[name].tested) == set(fake_cluster.gpus[name])
        assert all(row.simulated for row in found[name].findings.values())
    assert cleanup.outcome is Outcome.PASSED
    assert fake_cluster.namespaces == {}


def test_busy_gpus_are_not_taken(run: Any, fake_cluster: Any) -> None:
    taken = fake_cluster.gpus["gpu-1"][:1]
    fake_cluster.foreign["gpu-1"] = set(taken)
    found, _cleanup = run(gpu_1=replace(READY, holders=(Holder("team", "train", 1),)))
    assert outcomes(found["gpu-1"]) == dict.fromkeys(PER_NODE, "passed")
    assert set(found["gpu-1"].tested) == set(fake_cluster.gpus["gpu-1"]) - set(taken)


@pytest.mark.parametrize(
    ("view", "outcome", "says"),
    [
        (None, "failed", "has no node"),
        (replace(READY, unschedulable=True), "skipped", "cordoned"),
        (
            replace(READY, ready=False, conditions=("Ready=Unknown: lost",)),
            "failed",
            "not Ready: Ready=Unknown: lost",
        ),
        (replace(READY, allocatable=0), "failed", "no allocatable GPU"),
        (replace(READY, allocatable=None), "failed", "no allocatable GPU"),
        (replace(READY, holders=(Holder("team", "train", 4),)), "skipped", "held by team/train (4)"),
        (
            replace(READY, taints=({"key": "fix", "effect": "NoSchedule"},)),
            "skipped",
            "taint fix=:NoSchedule",
        ),
    ],
)
def test_node_that_cannot_be_tested_is_never_a_pass(
    run: Any, fake_cluster: Any, view: NodeView | None, outcome: str, says: str
) -> None:
    found, _cleanup = run(gpu_1=view)
    assert outcomes(found["gpu-1"]) == dict.fromkeys(PER_NODE, outcome)
    assert all(says in row.cause for row in found["gpu-1"].findings.values())
    assert says in found["gpu-1"].reason
    assert fake_cluster.namespaces == {}


def answer(**changes: Any) -> Callable[[dict[str, str], list[str]], Any]:
    def make(env: dict[str, str], uuids: list[str]) -> Any:
        good = {
            "ok": True,
            "simulated": True,
            "uuid": uuids[0] if uuids else None,
            "devices": [{"uuid": uuid} for uuid in uuids],
        }
        return {**good, **changes}

    return make


@pytest.mark.parametrize(
    ("program", "says", "check", "cause"),
    [
        (
            "run_cuda.py",
            answer(ok=False, error="GPU-x: the kernel's result is wrong"),
            "cuda",
            "the kernel's result is wrong",
        ),
        (
            "run_cuda.py",
            answer(simulated=False),
            "cuda",
            "ran on real GPUs, the inventory says they are simulated",
        ),
        ("run_cuda.py", answer(devices=[{"uuid": "GPU-strange"}] * 4), "cuda", "GPU-strange"),
        ("run_pytorch.py", answer(uuid="GPU-strange"), "pytorch", "NVML on the host does not know"),
        (
            "run_tensorflow.py",
            answer(ok=False, error="the loss does not fall"),
            "tensorflow",
            "the loss does not fall",
        ),
        ("reach_service.py", answer(ok=False, error="does not reach it"), "network", "does not reach it"),
        ("look_around.py", answer(ok=False, error="sees /dev/nvidia0"), "isolation", "sees /dev/nvidia0"),
        (
            "hold_gpu.py",
            answer(uuid="GPU-00000000-1111-2222-3333-444444444440"),
            "allocation",
            "more than once",
        ),
    ],
)
def test_broken_answer_fails_its_check(
    run: Any, fake_cluster: Any, program: str, says: Any, check: str, cause: str
) -> None:
    fake_cluster.answers[program] = says
    found, _cleanup = run()
    finding = found["gpu-1"].findings[f"workloads.{check}"]
    assert finding.outcome is Outcome.FAILED
    assert cause in finding.cause
    assert "gpu-1" in finding.cause
    wrong = {name for name, outcome in outcomes(found["gpu-1"]).items() if outcome != "passed"}
    also = {"workloads.oversubscription"} if check == "allocation" else set()
    assert wrong == {f"workloads.{check}"} | also


def test_network_is_left_out_where_the_inventory_says_so(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch, host: MakeHost
) -> None:
    fake_cluster.answers["reach_service.py"] = answer(ok=False, error="no server")
    target = Target(
        host(validation_network=False), READY, frozenset(fake_cluster.gpus["gpu-1"]), frozenset({"nvidia"})
    )
    programs = Path(workloads.__file__).parents[2] / "validation" / "workloads" / "programs"
    found, _ = workloads.run_all(
        cast(Cluster, fake_cluster), Run("a1", "o"), programs, [target], lambda _: None
    )
    rows = found["gpu-1"].findings
    assert rows.pop("workloads.network").skip is Skip.NOT_APPLICABLE
    assert {row.outcome for row in rows.values()} == {Outcome.PASSED}


def test_network_is_told_of_a_node_without_gpus_that_work(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    never_starts(monkeypatch, fake_cluster, "no such device", "n0-nvidia-smi-x")
    found = outcomes(run()[0]["gpu-1"])
    assert {name for name, outcome in found.items() if outcome == "passed"} == {
        "workloads.network",
        "workloads.isolation",
    }


def test_one_pod_too_many_that_runs_fails(run: Any, fake_cluster: Any) -> None:
    spare = "GPU-5"
    fake_cluster.gpus["gpu-1"].append(spare)
    found, _cleanup = run(gpu_1=READY)
    finding = found["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is Outcome.FAILED
    assert "was placed while 4 pods hold all GPUs" in finding.cause


def test_wrong_gpu_after_a_release_fails(run: Any, fake_cluster: Any) -> None:
    def hold(env: dict[str, str], uuids: list[str]) -> Any:
        late = (
            len(fake_cluster.given) == 3
            and "n0-hold-0" not in fake_cluster.given
            and "n0-hold-1" in fake_cluster.given
        )
        return answer(uuid="GPU-00000001-1111-2222-3333-444444444441" if late else uuids[0])(env, uuids)

    fake_cluster.answers["hold_gpu.py"] = hold
    finding = run()[0]["gpu-1"].findings["workloads.oversubscription"]
    assert finding.outcome is Outcome.FAILED
    assert "which another pod holds" in finding.cause


def start_error(message: str) -> dict[str, Any]:
    ended = {"exitCode": 128, "reason": "StartError", "message": message}
    return {"phase": "Failed", "containerStatuses": [{"state": {"terminated": ended}}]}


def never_starts(monkeypatch: pytest.MonkeyPatch, fake_cluster: Any, message: str, *names: str) -> None:
    """Pods of these names end as if the runtime had not started their container."""
    started = fake_cluster.run

    def start(name: str, pod: dict[str, Any], *rest: Any) -> None:
        started(name, pod, *rest)
        if name in names:
            fake_cluster.logs[name] = ""
            fake_cluster.given.pop(name, None)
            pod["status"] = start_error(message)

    monkeypatch.setattr(fake_cluster, "run", start)


@pytest.mark.parametrize(
    ("pod", "check"),
    [
        ("n0-nvidia-smi", "nvidia-smi"), ("n0-cuda", "cuda"), ("n0-pytorch", "pytorch"), ("n0-visible-all", "isolation"),
        ("n0-hold-2", "allocation"), ("n0-one-more", "oversubscription"),
    ],
)  # fmt: skip
def test_a_pod_whose_runtime_lost_the_race_is_made_once_more(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch, pod: str, check: str
) -> None:
    of_job = check not in ("allocation", "oversubscription")
    never_starts(
        monkeypatch, fake_cluster, "runc create failed: unable to freeze", pod + ("-x" if of_job else "")
    )
    found = run()[0]["gpu-1"]
    assert outcomes(found) == dict.fromkeys(PER_NODE, "passed"), found.findings
    said = {
        name: row.evidence["made_again"]
        for name, row in found.findings.items()
        if "made_again" in row.evidence
    }
    assert list(said) == [f"workloads.{check}"]
    assert "unable to freeze" in said[f"workloads.{check}"][pod]


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        (("n0-cuda-x", "n0-cuda-again-x"), "unable to freeze"),
        (("n0-cuda-x",), "nvidia-container-cli: initialization error"),
    ],
    ids=["twice", "another reason"],
)
def test_a_pod_that_does_not_start_fails(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch, pods: tuple[str, ...], message: str
) -> None:
    never_starts(monkeypatch, fake_cluster, message, *pods)
    finding = run()[0]["gpu-1"].findings["workloads.cuda"]
    assert finding.outcome is Outcome.FAILED
    assert message in finding.cause


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (
            start_error("no such device"),
            "'n0-hold-1' ended before it named its GPU: exit status 128 no such device",
        ),
        ({"phase": "Succeeded"}, "'n0-hold-1' ended before it named its GPU: Succeeded"),
        (None, "pod 'n0-hold-1' was deleted by somebody else"),
    ],
    ids=["did not start", "ended", "deleted"],
)
def test_a_holder_that_ends_is_not_waited_for(
    run: Any, fake_cluster: Any, monkeypatch: pytest.MonkeyPatch, status: dict[str, Any] | None, cause: str
) -> None:
    started, listed = fake_cluster.run, fake_cluster.items
    seen: list[str] = []

    def start(name: str, pod: dict[str, Any], *rest: Any) -> None:
        started(name, pod, *rest)
        if name == "n0-hold-1":
            fake_cluster.logs[name] = ""
            pod["status"] = status or {"phase": "Running"}

    def items(path: str, **query: str) -> Any:
        found = list(listed(path, **query))
        here = [pod for pod in found if pod["metadata"]["name"] == "n0-hold-1"]
        seen.extend("n0-hold-1" for _ in here)
        # It is seen running at first.
        return [pod for pod in found if pod not in here or status is not None or len(seen) < 5]

    monkeypatch.setattr(fake_cluster, "run", start)
    monkeypatch.setattr(fake_cluster, "items", items)
    finding = run()[0]["gpu-1"].findings["workloads.allocation"]
    assert (finding.outcome, finding.duration_s < 4) == (Outcome.FAILED, True), "the deadline is 5 s"
    assert cause in finding.cause


def test_a_probe_that_could_not_be_made_is_no_pass(host: MakeHost, fake_cluster: Any, programs: Path) -> None:
    target = Target(host("gpu-1"), READY, frozenset(fake_cluster.gpus["gpu-1"]), runtime_classes=frozenset())
    found, _ = workloads.run_all(
        cast(Cluster, fake_cluster), Run("a1", "o"), programs, [target], lambda _: None
    )
    finding = found["gpu-1"].findings["workloads.isolation"]
    assert finding.outcome is Outcome.FAILED
    assert "RuntimeClass 'nvidia' sees was not tested" in finding.cause


def test_missing_image_is_an_error_and_not_a_pass(host: MakeHost, fake_cluster: Any, programs: Path) -> None:
    target = Target(host(validation_image_pytorch=None), READY, None)
    found, _cleanup = workloads.run_all(
        cast(Cluster, fake_cluster), Run("a1", "o"), programs, [target], lambda _: None
    )
    finding = found["gpu-1"].findings["workloads.pytorch"]
    assert finding.outcome is Outcome.ERROR
    assert "validation_image_pytorch" in finding.next_step


def test_interrupted_run_leaves_nothing(run: Any, fake_cluster: Any) -> None:
    def interrupt(env: dict[str, str], uuids: list[str]) -> Any:
        raise KeyboardInterrupt

    fake_cluster.answers["run_cuda.py"] = interrupt
    with pytest.raises(KeyboardInterrupt):
        run()
    assert fake_cluster.namespaces == {}


def test_a_pod_that_was_deleted_is_not_waited_for() -> None:
    running = {"metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Running"}}
    check = pods.ends(lambda: 0.0)
    assert [check(None), check(running)] == [NotYet("no pod yet"), NotYet("Running")]
    with pytest.raises(pods.PodProblem, match="was deleted by somebody else"):
        check(None)


REFUSED = pods.Warned("FailedCreate", "failed calling webhook 'policy.example'")


def test_a_job_whose_pod_is_refused_is_given_up_with_the_reason() -> None:
    young = pods.ends(lambda: 20.0, refusal=lambda: REFUSED)(None)
    assert isinstance(young, NotYet)
    assert "policy.example" in young.seen
    with pytest.raises(pods.PodProblem, match=r"no pod can be made.*policy\.example"):
        pods.ends(lambda: 40.0, refusal=lambda: REFUSED)(None)
    assert isinstance(pods.ends(lambda: 40.0)(None), NotYet)


def test_a_missing_pod_makes_the_board_read_its_jobs_events(monkeypatch: pytest.MonkeyPatch) -> None:
    class Api:
        def items(self, path: str, **_: str) -> list[dict[str, Any]]:
            job = {"kind": "Job", "name": "n0-cuda"}
            return [sandbox_event("2026-01-01T00:00:02Z", "no", reason="FailedCreate", involvedObject=job)]

    board = pods.Board(cast("Cluster", Api()), "ns")
    now = [1000.0]
    monkeypatch.setattr("gpusmith.pods.time.monotonic", lambda: now[0])
    board.expect("n0-cuda")
    board._read_events({})
    assert board.refusal("n0-cuda") is None, "it is young"
    now[0] += 20.0
    board._read_events({})
    assert str(board.refusal("n0-cuda")) == "FailedCreate: no"


def test_hopeless_pod_is_given_up_early() -> None:
    pod = {
        "status": {
            "phase": "Pending",
            "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff", "message": "no"}}}],
        }
    }
    with pytest.raises(pods.PodProblem, match="ImagePullBackOff: no"):
        pods.starts(lambda: 0.0)(pod)


def sandbox_event(when: str, message: str, **changes: Any) -> dict[str, Any]:
    return {
        "type": "Warning", "reason": "FailedCreatePodSandBox", "message": message, "lastTimestamp": when,
        "involvedObject": {"kind": "Pod", "name": "cuda-x"}, **changes,
    }  # fmt: skip


def test_latest_warning_of_a_pod_is_found() -> None:
    events = [
        sandbox_event("2026-01-01T00:00:02Z", "no\n cni"),
        sandbox_event("2026-01-01T00:00:01Z", "older"),
        sandbox_event("2026-01-01T00:00:03Z", "pulled", type="Normal"),
        sandbox_event("2026-01-01T00:00:03Z", "a node's", involvedObject={"kind": "Node", "name": "cuda-x"}),
    ]
    assert {name: str(found) for name, found in pods.latest_warnings(events).items()} == {
        "cuda-x": "FailedCreatePodSandBox: no cni"
    }


def test_a_pod_whose_sandbox_cannot_be_made_is_given_up_with_the_reason() -> None:
    pod = {
        "metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"},
        "status": {"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ContainerCreating"}}}]},
    }  # fmt: skip
    warned = pods.Warned("FailedCreatePodSandBox", "no cni")
    young = pods.starts(lambda: 20.0, lambda _: warned)(pod)
    assert isinstance(young, NotYet)
    assert young.seen == "Pending, ContainerCreating; FailedCreatePodSandBox: no cni"
    with pytest.raises(pods.PodProblem, match=r"node 'gpu-1' cannot make a sandbox.*no cni"):
        pods.starts(lambda: 100.0, lambda _: warned)(pod)
    slow_pull = pods.Warned("FailedMount", "later")
    assert isinstance(pods.starts(lambda: 100.0, lambda _: slow_pull)(pod), NotYet)


def test_events_are_listed_only_while_a_pod_is_slow_to_start(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Api:
        def items(self, path: str, **_: str) -> list[dict[str, Any]]:
            asked.append(path)
            return [sandbox_event("2026-01-01T00:00:02Z", "no cni")]

    board = pods.Board(cast("Cluster", Api()), "ns")
    slow = {"metadata": {"name": "cuda-x"}, "spec": {"nodeName": "gpu-1"}, "status": {"phase": "Pending"}}
    now = [1000.0]
    monkeypatch.setattr("gpusmith.pods.time.monotonic", lambda: now[0])
    for passed in (0.0, 5.0, 11.0, 1.0, 6.0):
        now[0] += passed
        board._read_events({"cuda": slow})
    assert asked == ["/api/v1/namespaces/ns/events"] * 2
    assert str(board.warning(slow)) == "FailedCreatePodSandBox: no cni"
    now[0] += 60.0
    board._read_events({"cuda": {**slow, "status": {"phase": "Running"}}})
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("view", "step"),
    [
        (replace(READY, unschedulable=True), "kubectl uncordon gpu-1"),
        (
            replace(READY, taints=({"key": "fix", "value": "disk", "effect": "NoSchedule"},)),
            "kubectl taint node gpu-1 fix:NoSchedule-",
        ),
        (replace(READY, holders=(Holder("team", "train", 4),)), "when the node is free"),
    ],
)
def test_a_node_that_waiting_does_not_free_is_told_what_frees_it(
    run: Callable[..., tuple[dict[str, NodeOutcome], Finding]], view: NodeView, step: str
) -> None:
    outcomes, _ = run(gpu_1=view)
    assert all(step in finding.next_step for finding in outcomes["gpu-1"].findings.values())
