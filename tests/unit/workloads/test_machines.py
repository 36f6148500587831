"""Machines that pods look at: records by way of their logs, who cannot be asked, refusals, and what is left."""

from __future__ import annotations

import base64
import json
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.cluster.api import FORBIDDEN, ApiRefused
from gpusmith.cluster.kubeconfig import Access
from gpusmith.node.bundle import bundle
from gpusmith.suite import sources
from gpusmith.suite.run import Suite
from gpusmith.wanted.from_cluster import hosts
from gpusmith.wanted.inventory import Inventory
from gpusmith.workloads import runner
from gpusmith.workloads.targets import Target
from tests.unit.records import healthy_record
from tests.unit.workloads.answers import answer
from tests.unit.workloads.test_within import IMAGES, Shared, made, rights

PROGRAM = "ask_machine.py"
Json = dict[str, Any]


def told(stdout: str = "", status: int = 0, stderr: str = "") -> Callable[..., Json]:
    """What the program says of a probe that ended."""
    packed = base64.b64encode(zlib.compress(stdout.encode())).decode()
    return answer(status=status, packed=packed, stderr=stderr)


def record(**sections: Json) -> str:
    found = healthy_record()
    for name, section in sections.items():
        found[name] |= section
    return json.dumps(found)


@pytest.fixture
def cluster() -> Shared:
    found = Shared()
    found.others = []
    return found


Node = Callable[[Json], None]


@pytest.fixture
def progress() -> list[str]:
    return []


@pytest.fixture
def suite(
    cluster: Shared, programs: Path, progress: list[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Suite]:
    """A run on node gpu-1, whose Node a test may change."""

    def make(change: Node = lambda _: None) -> Suite:
        node = made()
        monkeypatch.setattr(sources, "Cluster", lambda _: cluster)
        wanted = hosts([node], "/k")
        change(node)
        items = cluster.items
        monkeypatch.setattr(
            cluster,
            "items",
            lambda path, *words, **query: [node] if path == "/api/v1/nodes" else items(path, *words, **query),
        )
        images = {
            name: replace(row, validation=replace(row.validation, images=IMAGES))
            for name, row in wanted.items()
        }
        inventory = Inventory("cluster", "", images, {}, chosen=Access("/k"), within="team", by_pods=True)
        return Suite(inventory, programs, say=progress.append)

    return make


def reachable(suite: Suite) -> Finding:
    return suite.evaluate("nodes.reachable", "gpu-1")


def test_a_record_comes_by_a_pod_of_which_nothing_is_left(
    cluster: Shared, suite: Callable[..., Suite], progress: list[str], root: Path
) -> None:
    cluster.admits = {"priority": 5}
    cluster.answers[PROGRAM] = told(f"Welcome!\n{record()}\n")
    run = suite()
    assert reachable(run).outcome is Outcome.PASSED
    assert run.evaluate("nodes.ecc", "gpu-1").outcome is Outcome.PASSED
    assert [line for line in progress if "have priority 5" in line] == progress[1:2], progress
    programs, pod = cluster.made
    assert base64.b64decode(programs["binaryData"]["probe.zip"]) == bundle()
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["privileged"]
    env = {row["name"]: row["value"] for row in container["env"]}
    assert json.loads(env["GPUSMITH_COMMAND"])["words"][:2] == ["python3", "-c"]
    assert env["NVIDIA_VISIBLE_DEVICES"] == "void"
    assert "nvidia.com/gpu" not in container["resources"].get("limits", {})
    assert "runtimeClassName" not in pod["spec"]
    assert cluster.asked <= rights(root), "of workloads"
    assert (cluster.maps, cluster.pods) == ({}, {})


def test_what_gpusmith_would_set_up_is_not_judged(cluster: Shared, suite: Callable[..., Suite]) -> None:
    cluster.answers[PROGRAM] = told(record(system={"swap_areas": ["/dev/sda2"]}))
    finding = suite().evaluate("nodes.host-baseline", "gpu-1")
    assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, Skip.NOT_APPLICABLE)
    assert "gpusmith did not set up" in finding.cause


def test_of_a_driver_in_a_container_its_installation_is_not_judged(
    cluster: Shared, suite: Callable[..., Suite]
) -> None:
    gone = {"files": None, "nvml_version": None, "cuda_version": None, "container": "/run/nvidia/driver"}
    cluster.answers[PROGRAM] = told(
        record(library=gone, module={"installed_version": None}, dev={"char_links": []})
    )
    run = suite()
    for check in ("nodes.driver-versions", "nodes.kernels", "nodes.char-links"):
        finding = run.evaluate(check, "gpu-1")
        assert finding.cause == "Not applicable: the driver of node 'gpu-1' is in a container.", check
    for check in ("nodes.simulation-witnesses", "nodes.nvml", "nodes.gpu-count", "nodes.ecc"):
        assert run.evaluate(check, "gpu-1").outcome is Outcome.PASSED, check


def test_findings_name_nothing_of_an_inventory(cluster: Shared, suite: Callable[..., Suite]) -> None:
    cluster.answers[PROGRAM] = told(record(pci={"gpus": []}))
    finding = suite().evaluate("nodes.gpu-count", "gpu-1")
    assert finding.outcome is Outcome.FAILED
    assert "4 in the cluster" in finding.cause


def test_a_machine_without_python_is_not_asked_and_does_not_fail(
    cluster: Shared, suite: Callable[..., Suite]
) -> None:
    cluster.answers[PROGRAM] = told(status=69, stderr="it has no python3")
    run = suite()
    for check in ("nodes.reachable", "nodes.ecc"):
        finding = run.evaluate(check, "gpu-1")
        assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, Skip.NOT_APPLICABLE), check
        assert finding.cause == "The machine of node 'gpu-1' is not asked: it has no python3."
    assert run.results().node_reasons == {}


def unready(node: Json) -> None:
    node["status"]["conditions"] = [{"type": "Ready", "status": "False", "message": "the kubelet is gone"}]


@pytest.mark.parametrize(
    ("said", "change", "cause"),
    [
        (told(status=1, stderr="ImportError"), lambda _: None, "ended with status 1 and said: ImportError"),
        (told(status=124), lambda _: None, "did not end within 90 s"),
        (answer(ok=False, error="too long"), lambda _: None, "machine of node 'gpu-1' failed: too long"),
        (told(record()), unready, "Node 'gpu-1' is not Ready, so that no pod can look"),
    ],
    ids=["broken", "late", "too long", "not ready"],
)
def test_a_machine_that_cannot_be_asked_fails(
    cluster: Shared, suite: Callable[..., Suite], said: Any, change: Node, cause: str
) -> None:
    cluster.answers[PROGRAM] = said
    finding = reachable(suite(change))
    assert finding.outcome is Outcome.FAILED
    assert cause in finding.cause


@pytest.mark.parametrize(
    ("said", "step"),
    [
        (
            'pods "x" is forbidden: violates PodSecurity "baseline:latest": host namespaces',
            "label namespace team pod-security.kubernetes.io/enforce=privileged",
        ),
        (
            'pods "x" is forbidden: unable to validate against any security context constraint: []',
            "oc adm policy add-scc-to-user privileged -z default -n team",
        ),
        (
            'pods is forbidden: User "u" cannot create resource "pods" in API group "" in the namespace "team"',
            "-n team apply -f docs/rbac-any-cluster.yml",
        ),
        ('admission webhook "no-host-paths" denied the request', "Have the owner of the policy"),
    ],
)
def test_who_refuses_such_pods_is_told_once_before_anything_is_made(
    cluster: Shared, suite: Callable[..., Suite], said: str, step: str
) -> None:
    cluster.refuses = ApiRefused(said, "", FORBIDDEN)
    run = suite()
    found = reachable(run)
    assert found.outcome is Outcome.ERROR
    assert said in found.cause
    assert step in found.next_step
    assert cluster.tried[-1]["spec"]["hostPID"]
    later = run.evaluate("nodes.ecc", "gpu-1")
    assert (later.outcome, later.skip) == (Outcome.SKIPPED, Skip.BLOCKED)
    assert (cluster.made, len(cluster.tried)) == ([], 2), "the first one asks for the priority"


def test_an_interrupted_look_ends_at_once_and_leaves_nothing(
    cluster: Shared, suite: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Event()

    def never_ends(name: str, pod: Json, *_: Any) -> None:
        pod["status"] = {"phase": "Running"}
        waits.set()

    def interrupted(*_: Any) -> Any:
        assert waits.wait(20)
        raise KeyboardInterrupt

    monkeypatch.setattr(cluster, "run", never_ends)
    monkeypatch.setattr("concurrent.futures.Future.result", interrupted)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        reachable(suite())
    assert time.monotonic() - begin < 60, "its pod may run for 120 s"
    assert len(cluster.made) == 2
    assert (cluster.maps, cluster.pods) == ({}, {})


def test_workloads_are_compared_with_what_the_machine_says(
    cluster: Shared, suite: Callable[..., Suite], monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.answers[PROGRAM] = told(record())
    seen: list[Target] = []

    def run_all(*words: Any) -> Any:
        seen.extend(words[3])
        return {}, None

    monkeypatch.setattr(runner, "run_all", run_all)
    assert suite().sources.workload_runs[0] == {}
    (target,) = seen
    assert {row.uuid for row in target.devices or ()} == set(cluster.gpus["gpu-1"])
    assert not target.by_pods
    assert replace(target, recorded=False).by_pods
    assert cast(Any, target.view).name == "gpu-1"
