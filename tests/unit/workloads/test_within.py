"""Workloads in a namespace that stays, on nodes of which only the cluster tells: what is proved, and what is left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.cluster import leftovers
from gpusmith.cluster.api import DRY, ApiRefused, Cluster
from gpusmith.cluster.kubeconfig import Access
from gpusmith.cluster.views import view_of
from gpusmith.names import PRIORITY_CLASS
from gpusmith.owner import process
from gpusmith.suite import sources
from gpusmith.suite.run import Suite
from gpusmith.wanted.from_cluster import hosts
from gpusmith.wanted.inventory import Inventory
from gpusmith.workloads import jobs, namespace, priority, runner
from gpusmith.workloads.jobs import Run, earlier
from gpusmith.workloads.outcome import NodeOutcome
from gpusmith.workloads.targets import Target
from tests.unit.fake_cluster import FakeCluster
from tests.unit.hosts import UUIDS
from tests.unit.objects import node
from tests.unit.workloads.answers import answer, outcomes

RUN = Run("1127093254-a1b2c3", str(process()), within="team", priority="")
IMAGES = dict.fromkeys(("cuda", "pytorch", "tensorflow"), "r/image:1")
TEAM: dict[str, Any] = {
    "metadata": {"name": "theirs", "namespace": "team", "labels": {"app": "theirs"}},
    "spec": {"nodeName": "gpu-1", "containers": []},
    "status": {"phase": "Running"},
}
Json = dict[str, Any]


class Shared(FakeCluster):
    """A cluster with namespace 'team', in which there is a pod of somebody else; nothing outside of it can be made."""

    def __init__(self) -> None:
        super().__init__({"gpu-1": list(UUIDS), "gpu-2": [uuid.replace("GPU-0", "GPU-9") for uuid in UUIDS]})
        self.maps: dict[str, Json] = {}
        self.others = [TEAM]
        self.made: list[Json] = []
        self.tried: list[Json] = []
        self.refuses: ApiRefused | None = None
        self.admits: Json = {}
        self.asked: set[tuple[str, str]] = set()
        self.whole = False

    def ask(self, verb: str, path: str) -> None:
        """Note a call: its verb, and the kind in paths of objects or of lists."""
        parts = path.split("/namespaces/team/")[-1].split("/")
        self.asked.add(
            (verb, parts[0] if "/namespaces/team/" in path else path.split("/v1/")[-1].split("/")[0])
        )

    def create(self, path: str, body: Json, query: Any = None) -> Json:
        self.ask("create", path)
        if query == DRY:
            self.tried.append(body)
            if self.refuses:
                raise self.refuses
            return {**body, "spec": {**body["spec"], **self.admits}}
        self.made.append(body)
        assert body["metadata"]["namespace"] == "team"
        if body["kind"] == "ConfigMap":
            self.maps[body["metadata"]["name"]] = body
        return super().create(path, body)

    def patch(self, path: str, body: Json, manager: str) -> None:
        self.ask("patch", path)
        assert path.rpartition("/")[0] == "/api/v1/namespaces/team/configmaps"
        assert path.rpartition("/")[2] in self.maps
        self.beats += 1

    def log(self, namespace: str, pod: str, container: str) -> str:
        self.asked.add(("get", "pods/log"))
        return super().log(namespace, pod, container)

    def get(self, path: str) -> Any:
        self.ask("get", path)
        return super().get(path) if "priorityclasses" in path else {"metadata": {}}

    def items(self, path: str, _cut: Any = None, /, **query: str) -> list[Any]:
        self.ask("list", path)
        self.whole = self.whole or (path.endswith("/namespaces/team/pods") and "labelSelector" not in query)
        if path == "/api/v1/nodes":
            return [made(query.get("fieldSelector", "=gpu-1").rpartition("=")[2])]
        rows = [*super().items(path), *self.others]
        for row in rows:
            row["metadata"].setdefault("namespace", "team")
        if path.endswith("/configmaps"):
            rows = list(self.maps.values())
        if path.endswith(("/jobs", "/events", "/services")):
            return []
        key, _, value = query.get("labelSelector", "").rpartition(",")[2].partition("=")
        return [row for row in rows if not key or (row["metadata"].get("labels") or {}).get(key) == value]

    def delete(self, path: str, grace_s: int | None = None) -> None:
        self.ask("delete", path)
        self.maps.pop(path.rpartition("/")[2], None)
        super().delete(path, grace_s)


def made(name: str = "gpu-1") -> Json:
    found = node()
    found["metadata"]["name"] = name
    return found


@pytest.fixture
def cluster() -> Shared:
    return Shared()


Start = Callable[..., tuple[dict[str, NodeOutcome], Finding]]


@pytest.fixture
def start(cluster: Shared, programs: Path) -> Start:
    def go(
        *names: str, run: Run = RUN, images: dict[str, str] = IMAGES
    ) -> tuple[dict[str, NodeOutcome], Finding]:
        nodes = [made(name) for name in names or ("gpu-1",)]
        targets = [
            Target(
                replace(host, validation=replace(host.validation, images=images)),
                view_of(node, [pod for pod in cluster.others if pod["spec"]["nodeName"] == host.name], "x"),
                None,
                frozenset(),
                yields=bool(run.priority),
            )
            for node, host in zip(nodes, hosts(nodes).values(), strict=True)
        ]
        return runner.run_all(cast(Cluster, cluster), run, programs, targets, lambda _: None)

    return go


def busy(cluster: Shared) -> None:
    """Two of the four GPUs are somebody's."""
    cluster.foreign["gpu-1"] = set(UUIDS[:2])
    limits = {"resources": {"limits": {"nvidia.com/gpu": "2"}}}
    cluster.others = [{**TEAM, "spec": {"nodeName": "gpu-1", "containers": [limits]}}]


def test_a_healthy_node_passes_by_what_its_pods_agree_on(cluster: Shared, start: Start) -> None:
    found, cleanup = start("gpu-1", "gpu-2")
    created = cluster.made
    for name, outcome in found.items():
        rest = {name: row for name, row in outcomes(outcome).items() if name != "workloads.performance"}
        assert set(rest.values()) == {"passed"}, outcome.findings
        assert set(outcome.tested) == set(cluster.gpus[name])
        for check in ("nvidia-smi", "cuda", "allocation"):
            told = outcome.findings[f"workloads.{check}"].evidence["compared_with"]
            assert told == "the pod that had all GPUs of the node"
    assert cleanup.outcome is Outcome.PASSED
    assert (cluster.maps, cluster.pods) == ({}, {})
    assert {row["kind"] for row in created} == {"ConfigMap", "Job", "Pod", "Service"}
    # Another run may have pods beside these.
    assert all("a1b2c3-n" in row["metadata"]["name"] for row in created if row["kind"] != "ConfigMap")
    assert all(row["metadata"]["labels"]["gpusmith.io/run"] == RUN.id for row in created)
    pods = [row for row in created if row["kind"] in ("Job", "Pod")]
    specs = [row["spec"]["template"]["spec"] if row["kind"] == "Job" else row["spec"] for row in pods]
    assert not any("priorityClassName" in spec for spec in specs)
    assert {spec["volumes"][0]["configMap"]["name"] for spec in specs} == {f"gpusmith-programs-{RUN.id}"}
    assert cluster.beats
    assert not cluster.whole, "a team may have thousands of pods there"


def rights(root: Path) -> set[tuple[str, str]]:
    """Verbs with resources that are documented."""
    documents = yaml.safe_load_all((root / "docs" / "rbac-any-cluster.yml").read_text())
    return {
        (verb, name)
        for document in documents
        for rule in document.get("rules", ())
        for verb in rule["verbs"]
        for name in rule["resources"]
    }


def test_the_documented_rights_are_enough(cluster: Shared, start: Start, root: Path) -> None:
    start("gpu-1", "gpu-2")
    assert cluster.asked <= rights(root)


def test_a_gpu_that_the_first_pod_did_not_see_is_named(cluster: Shared, start: Start) -> None:
    cluster.answers["run_pytorch.py"] = answer(uuids=["GPU-strange", *UUIDS[1:]])
    found, _ = start()
    finding = found["gpu-1"].findings["workloads.pytorch"]
    assert finding.outcome is Outcome.FAILED
    assert "saw GPU-strange, which the pod that had all GPUs of the node does not know" in finding.cause


def test_a_simulation_that_no_label_tells_is_named(cluster: Shared, start: Start) -> None:
    cluster.answers["run_cuda.py"] = answer(simulated=False)
    found, _ = start()
    finding = found["gpu-1"].findings["workloads.cuda"]
    assert (
        "ran on real GPUs, label 'gpusmith.io/simulated' of the Node says they are simulated" in finding.cause
    )
    assert "inventory" not in finding.next_step


def test_what_nobody_could_compare_is_no_pass(cluster: Shared, start: Start) -> None:
    busy(cluster)
    found, _ = start(run=replace(RUN, priority=PRIORITY_CLASS))
    finding = found["gpu-1"].findings["workloads.allocation"]
    assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, Skip.LEFT_OUT)
    assert "no pod had all GPUs of the node" in finding.cause
    assert set(found["gpu-1"].tested) == set(UUIDS[2:])


def test_without_its_priority_class_nodes_in_use_are_left_alone(cluster: Shared, start: Start) -> None:
    busy(cluster)
    found, _ = start()
    assert found["gpu-1"].reason.startswith(
        "Not tested: pods hold GPUs of node 'gpu-1', team/theirs, and without Prio"
    )
    assert found["gpu-1"].kept_back
    assert not cluster.pods


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        ({}, ""),
        ({PRIORITY_CLASS: priority.manifest()}, PRIORITY_CLASS),
        ({PRIORITY_CLASS: {**priority.manifest(), "value": 5}}, ""),
    ],
)
def test_the_class_is_used_where_an_administrator_made_it(
    cluster: Shared, classes: dict[str, Json], name: str
) -> None:
    cluster.classes = classes
    assert priority.there(cast(Cluster, cluster)) == name


@pytest.mark.parametrize(
    ("admits", "says"),
    [
        (
            {"priority": 0, "preemptionPolicy": "PreemptLowerPriority"},
            "have priority 0, and they may preempt pods with less",
        ),
        ({"priority": 9}, "have priority 9, and they may preempt pods with less"),
        ({"priority": 9, "preemptionPolicy": "Never"}, "have priority 9, and they preempt nobody"),
        ({"priority": 0, "preemptionPolicy": "Never"}, ""),
    ],
)
def test_what_pods_without_the_class_may_do_is_asked_and_told(
    cluster: Shared, admits: Json, says: str
) -> None:
    cluster.admits = admits
    said = priority.of_default(cast(Cluster, cluster), RUN, "gpu-1", "r/image:1")
    assert says in said
    assert bool(said) == bool(says)
    assert (len(cluster.tried), cluster.made) == (1, [])


def test_a_workload_without_an_image_is_not_applicable(start: Start) -> None:
    found, _ = start(images={"cuda": "r/image:1"})
    for name in ("pytorch", "tensorflow"):
        finding = found["gpu-1"].findings[f"workloads.{name}"]
        assert (finding.outcome, finding.skip) == (Outcome.SKIPPED, Skip.NOT_APPLICABLE), finding.cause
    assert found["gpu-1"].findings["workloads.isolation"].outcome is Outcome.PASSED


def test_what_a_killed_run_left_is_found_by_its_programs_and_removed(cluster: Shared, programs: Path) -> None:
    api, other_start = cast(Cluster, cluster), RUN.owner.rpartition("/")[0] + "/1"
    for run in (replace(RUN, id="dead", owner=other_start), replace(RUN, id="alive")):
        cluster.maps[run.programs] = jobs.programs(run, programs)
    found = leftovers.find(api, within="team")
    assert (found.dead, found.alive) == (("gpusmith-programs-dead",), ("gpusmith-programs-alive",))
    left = {"metadata": {"name": "dead-n0-x", "namespace": "team", "labels": {"gpusmith.io/run": "dead"}}}
    cluster.pods["dead-n0-x"] = {**left, "status": {"phase": "Running"}}
    assert namespace.clear(api, earlier(RUN, found.dead[0])) == ""
    assert (list(cluster.maps), cluster.pods) == (["gpusmith-programs-alive"], {})


def test_a_run_asks_no_machine_and_looks_for_leftovers_in_its_namespace(
    cluster: Shared, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.classes = {PRIORITY_CLASS: priority.manifest()}
    cluster.maps["gpusmith-programs-dead"] = jobs.programs(
        replace(RUN, id="dead", owner=RUN.owner.rpartition("/")[0] + "/1"), programs
    )
    monkeypatch.setattr(sources, "Cluster", lambda _: cluster)
    monkeypatch.setattr(sources, "connect", lambda *_: pytest.fail("it asks machines"))
    seen: list[Any] = []

    def run_all(*words: Any) -> Any:
        seen.extend(words)
        return {}, None

    monkeypatch.setattr(runner, "run_all", run_all)
    nodes = hosts([made()], "/k")
    suite = Suite(
        Inventory("cluster", "", nodes, {}, chosen=Access("/k"), within="team"),
        programs,
        ("cluster", "workloads"),
    )
    assert suite.sources.workload_runs[0] == {}
    _, run, _, (target,), _ = seen
    assert (run.namespace, run.priority) == ("team", PRIORITY_CLASS)
    assert (target.devices, target.yields) == (None, True)
    assert cluster.maps == {}
    assert cluster.tried == [], "it has the class"
    removed = suite.sources.cluster_state.removed
    assert removed is not None
    assert (removed.dead, removed.within) == (("gpusmith-programs-dead",), "team")
