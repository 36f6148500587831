"""pytest validation on validated nodes: a complete pass, its reports, its ways of being called."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import Lab, Validation

RBAC = "validation/rbac.yml"
ACCOUNT = "gpusmith-validation"


@pytest.fixture(scope="module")
def few_rights(ready_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An inventory whose suite has the rights of validation/rbac.yml and no others."""
    ready_lab.apply(*yaml.safe_load_all((ready_lab.root / RBAC).read_text()))
    token = ready_lab.kubectl("--namespace", ACCOUNT, "create", "token", ACCOUNT)
    settings = yaml.safe_load((ready_lab.inventory / "kubeconfig").read_text())
    settings["users"] = [{"name": row["name"], "user": {"token": token}} for row in settings["users"]]
    folder = tmp_path_factory.mktemp("few-rights")
    kubeconfig = folder / "kubeconfig"
    kubeconfig.touch(0o600)
    kubeconfig.write_text(yaml.safe_dump(settings))
    inventory = ready_lab.copy_inventory(folder / "inventory")
    with (inventory / "group_vars" / "all.yml").open("a") as out:
        out.write(f"validation_kubeconfig: {kubeconfig}\n")
    yield inventory
    ready_lab.kubectl("delete", "namespace", ACCOUNT, "--wait=true", timeout=180)
    ready_lab.kubectl("delete", "clusterrole,clusterrolebinding", ACCOUNT)


@pytest.fixture(scope="module")
def whole(ready_lab: Lab, few_rights: Path) -> Validation:
    """The whole suite, with few rights; site.yml calls it with the lab's own kubeconfig."""
    return ready_lab.validate(inventory=few_rights)


@pytest.mark.parametrize(
    "may",
    [
        "list nodes",
        "list daemonsets.apps",
        "create namespaces",
        "create jobs.batch",
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
    ],
)
def test_rights_that_the_suite_must_not_have(ready_lab: Lab, few_rights: Path, may_not: str) -> None:
    assert not ready_lab.may(ACCOUNT, may_not)


def count(value: int | list[Any]) -> int:
    return len(value) if isinstance(value, list) else value


def test_everything_passes(whole: Validation) -> None:
    whole.assert_passed()
    assert whole.results["schema"] == "gpusmith.results/1"


def test_nothing_is_left_out(whole: Validation) -> None:
    coverage = whole.results["coverage"]
    assert (count(coverage["nodes"]["expected"]), count(coverage["nodes"]["tested"])) == (2, 2)
    assert (count(coverage["gpus"]["expected"]), count(coverage["gpus"]["tested"])) == (8, 8)


@pytest.mark.parametrize("workload", ["nvidia-smi", "cuda", "pytorch", "tensorflow"])
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
