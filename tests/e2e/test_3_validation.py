"""pytest validation on validated nodes: a complete pass, its reports, its ways of being called."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.names import GPU_RESOURCE, MONITORING_NAMESPACE
from gpusmith.wait import Deadline, Done, NotYet, wait_until
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import PodTask, Run
from tests.e2e.harness import Lab, Validation

RBAC, WATCHED_RBAC = "validation/rbac.yml", "validation/rbac-monitoring.yml"
ACCOUNT = "gpusmith-validation"


OWN = {
    "validation_plugins/facts/rack.py": 'def facts():\n    return {"name": open("/etc/hostname").read().strip()}\n',
    "validation_plugins/site.py": """
from gpusmith.checks.register import check
from gpusmith.problems import Problem


@check("nodes.site-rack", place=500, proves="p", fails_when="f", do="d")
def rack(facts):
    name = facts.record.own["rack"]["name"]
    return [] if name == facts.host.name else [Problem(f"'{name}' is another rack.", "Look.")]
""",
}
OWN_WORKLOAD = {
    "name": "site-hello",
    "image": "{{ validation_images.cuda }}",
    "command": ["python3", "-c", "print('all is well')"],
    "gpus": "all",
    "expect": "all is well",
}


@pytest.fixture(scope="module")
def few_rights(ready_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An inventory whose suite has the rights of validation/rbac.yml and no others."""
    ready_lab.apply(*yaml.safe_load_all((ready_lab.root / RBAC).read_text()))
    watched = ready_lab.kubectl("get", "namespace", MONITORING_NAMESPACE, "--ignore-not-found")
    if watched:
        ready_lab.apply(*yaml.safe_load_all((ready_lab.root / WATCHED_RBAC).read_text()))
    folder = tmp_path_factory.mktemp("few-rights")
    kubeconfig = ready_lab.kubeconfig_of(ACCOUNT, folder)
    inventory = ready_lab.copy_inventory(folder / "inventory")
    with (inventory / "group_vars" / "all.yml").open("a") as out:
        out.write(f"validation_kubeconfig: {kubeconfig}\n")
        out.write(f"validation_workloads: {json.dumps([OWN_WORKLOAD])}\n")
    for name, text in OWN.items():
        (inventory / name).parent.mkdir(parents=True, exist_ok=True)
        (inventory / name).write_text(text)
    yield inventory
    if watched:
        ready_lab.kubectl("-n", MONITORING_NAMESPACE, "delete", "role,rolebinding", ACCOUNT)
    ready_lab.kubectl("delete", "namespace", ACCOUNT, "--wait=true", timeout=180)
    policy = "validatingadmissionpolicy,validatingadmissionpolicybinding"
    ready_lab.kubectl("delete", f"clusterrole,clusterrolebinding,{policy}", ACCOUNT)


@pytest.fixture(scope="module")
def whole(ready_lab: Lab, few_rights: Path) -> Validation:
    """The whole suite, with few rights; site.yml calls it with the lab's own kubeconfig."""
    return ready_lab.validate(inventory=few_rights)


@pytest.mark.parametrize(
    "may",
    [
        "list nodes",
        "list daemonsets.apps",
        "list resourceslices.resource.k8s.io",
        "create namespaces",
        "create jobs.batch",
        "create services",
        "delete jobs.batch",
        "get pods --subresource=log",
    ],
)
def test_rights_that_the_suite_needs(ready_lab: Lab, few_rights: Path, may: str) -> None:
    assert ready_lab.may(ACCOUNT, may)


@pytest.mark.parametrize(
    "may_not",
    [
        "patch nodes",
        "patch daemonsets.apps",
        "get secrets",
        "create pods --subresource=exec",
        "create rolebindings",
        "delete nodes",
        "create priorityclasses.scheduling.k8s.io",
    ],
)
def test_rights_that_the_suite_must_not_have(ready_lab: Lab, few_rights: Path, may_not: str) -> None:
    assert not ready_lab.may(ACCOUNT, may_not)


@pytest.fixture(scope="module")
def token(few_rights: Path) -> Cluster:
    """The API with the suite's token, once the policy of validation/rbac.yml is in force, which takes some seconds."""
    cluster = Cluster(str(few_rights.parent / "kubeconfig"))

    def look() -> Done[None] | NotYet:
        try:
            cluster.delete("/api/v1/namespaces/gpusmith-system", dry_run=True)
        except ApiRefused as error:
            return Done(None) if error.status == 403 else NotYet(error.message)
        return NotYet("it may delete a namespace")

    wait_until("the policy to be in force", look, Deadline(60), tick=1.0)
    return cluster


RUN = Run("e2e", "nobody")
OURS = jobs.namespace(RUN)
WORKLOAD = PodTask("pod", "gpu-1", "registry.example/x:1", ["true"], 0, True, GPU_RESOURCE)
POD, URGENT = jobs.pod(RUN, WORKLOAD), jobs.job(RUN, WORKLOAD)
URGENT["spec"]["template"]["spec"]["priorityClassName"] = "system-node-critical"
ELSEWHERE = {**POD, "metadata": {**POD["metadata"], "namespace": "default"}}
STRANGE = {**OURS, "metadata": {**OURS["metadata"], "name": "theirs"}}
OPEN = {**OURS, "metadata": {**OURS["metadata"], "labels": {"gpusmith.io/purpose": "validation"}}}
PRIVILEGED = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}}
HARM: dict[str, Callable[[Cluster], object]] = {
    "delete a namespace": lambda api: api.delete("/api/v1/namespaces/gpusmith-system", dry_run=True),
    "delete its own account's": lambda api: api.delete(f"/api/v1/namespaces/{ACCOUNT}", dry_run=True),
    "change a namespace": lambda api: api.patch(
        "/api/v1/namespaces/default", {"metadata": {"labels": {"x": "y"}}}, "e2e", dry_run=True
    ),
    "make a namespace": lambda api: api.create("/api/v1/namespaces", STRANGE),
    "make one for privileged pods": lambda api: api.create("/api/v1/namespaces", OPEN),
    "make a pod elsewhere": lambda api: api.create("/api/v1/namespaces/default/pods", ELSEWHERE),
    "delete a pod": lambda api: api.delete("/api/v1/namespaces/kube-system/pods/etcd-cp-1", dry_run=True),
}


@pytest.mark.parametrize("harm", HARM)
def test_the_token_changes_nothing_but_namespaces_of_runs(token: Cluster, harm: str) -> None:
    with pytest.raises(ApiRefused, match="validation") as caught:
        HARM[harm](token)
    assert caught.value.status in (403, 422), caught.value.message


def test_the_token_works_in_a_namespace_of_a_run_and_its_pods_go_before_nobody(token: Cluster) -> None:
    token.create("/api/v1/namespaces", OURS)
    try:
        with pytest.raises(ApiRefused, match="PriorityClass 'gpusmith-validation'"):
            token.create(f"/apis/batch/v1/namespaces/{RUN.namespace}/jobs", URGENT)
        with pytest.raises(ApiRefused, match="restricted pods only"):
            token.patch(f"/api/v1/namespaces/{RUN.namespace}", PRIVILEGED, "e2e")
    finally:
        assert token.delete(f"/api/v1/namespaces/{RUN.namespace}")


def count(value: int | list[Any]) -> int:
    return len(value) if isinstance(value, list) else value


def test_everything_passes(whole: Validation) -> None:
    whole.assert_passed()
    assert whole.results["schema"] == "gpusmith.results/1"


def test_nothing_is_left_out(whole: Validation) -> None:
    coverage = whole.results["coverage"]
    assert (count(coverage["nodes"]["expected"]), count(coverage["nodes"]["tested"])) == (2, 2)
    assert (count(coverage["gpus"]["expected"]), count(coverage["gpus"]["tested"])) == (8, 8)


@pytest.mark.parametrize(
    "workload", ["nvidia-smi", "cuda", "pytorch", "tensorflow", "pytorch-nodes", "tensorflow-nodes"]
)
@pytest.mark.parametrize("node", ["gpu-1", "gpu-2"])
def test_each_workload_passed_on_each_node_and_says_simulated(
    whole: Validation, workload: str, node: str
) -> None:
    checks = [
        check for check in whole.results["checks"] if workload in check["id"] and check["target"] == node
    ]
    assert checks
    assert {(check["outcome"], check["simulated"]) for check in checks} == {("passed", True)}


def test_eight_distinct_gpus(whole: Validation) -> None:
    tested = whole.results["coverage"]["gpus"]["uuids"]
    assert len({row["uuid"] for row in tested}) == 8
    assert [row["node"] for row in tested].count("gpu-1") == 4


def test_reports(whole: Validation) -> None:
    assert {"results.json", "junit.xml", "report.html"} <= {path.name for path in whole.reports.iterdir()}


@pytest.mark.parametrize("check", ["nodes.site-rack", "workloads.site-hello"])
def test_checks_and_workloads_of_the_sites_own_passed(whole: Validation, check: str) -> None:
    outcomes = [row["outcome"] for row in whole.results["checks"] if row["id"] == check]
    assert outcomes == ["passed", "passed"]


def test_a_replay_finds_the_same(ready_lab: Lab, whole: Validation, tmp_path: Path) -> None:
    words = ["validation", "--replay", str(whole.reports), "--report-dir", str(tmp_path / "again")]
    ready_lab.ok(ready_lab.program("pytest"), *words)
    compare = ["report", "diff", str(whole.reports), str(tmp_path / "again")]
    assert "no difference" in ready_lab.ok(ready_lab.program("gpusmith"), *compare).output


def test_nothing_is_left_behind(ready_lab: Lab, whole: Validation) -> None:
    names = {entry["metadata"]["name"] for entry in ready_lab.get("namespaces")["items"]}
    assert not {name for name in names if name.startswith(f"{ACCOUNT}-")}


@pytest.mark.parametrize("spelling", ["--inventory={}", "--inventory {}"])
def test_called_from_elsewhere(ready_lab: Lab, tmp_path: Path, spelling: str) -> None:
    command = [ready_lab.program("pytest"), str(ready_lab.root / "validation" / "nodes")]
    options = [*spelling.format(ready_lab.inventory).split(), "--limit=gpu-2", "--report-dir", "reports"]
    ready_lab.ok(*command, *options, cwd=tmp_path, timeout=300)
    results = json.loads((tmp_path / "reports" / "results.json").read_text())
    assert results["run"]["nodes"] == ["gpu-2"]


def test_limit_that_matches_nothing(ready_lab: Lab) -> None:
    validation = ready_lab.validate_nodes("--limit", "gpu-9")
    assert validation.ended.status not in (0, 1), str(validation.ended)
    assert "gpu-9" in validation.ended.output
