"""The suite without an inventory, with the documented rights: a look, and workloads in one namespace."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import SUITE_TIMEOUT_S, Ended, Lab

RBAC = "docs/rbac-any-cluster.yml"
ACCOUNT = "gpusmith-look"
NODES = ("gpu-1", "gpu-2")
MADE = "jobs,pods,services,configmaps"


@pytest.fixture(scope="module")
def kubeconfig(ready_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of an account that may look, and work in one namespace of a team."""
    rows: list[dict[str, Any]] = list(yaml.safe_load_all((ready_lab.root / RBAC).read_text()))
    for row in rows:
        if not row["kind"].startswith("Cluster"):
            row["metadata"]["namespace"] = ACCOUNT
        for subject in row.get("subjects", ()):
            subject["namespace"] = ACCOUNT
    ready_lab.kubectl("create", "namespace", ACCOUNT)
    ready_lab.apply(*rows)
    yield ready_lab.kubeconfig_of(ACCOUNT, tmp_path_factory.mktemp("any-cluster"))
    ready_lab.kubectl("delete", "namespace", ACCOUNT, "--wait=true", timeout=180)
    ready_lab.kubectl("delete", "clusterrole,clusterrolebinding", ACCOUNT)


def look(lab: Lab, kubeconfig: Path, *words: str) -> tuple[Ended, dict[str, Any]]:
    reports = kubeconfig.parent / "reports"
    command = ["validation", "--from-cluster", "--kubeconfig", str(kubeconfig), "--report-dir", str(reports)]
    ended = lab.run(lab.program("pytest"), *command, *words, timeout=SUITE_TIMEOUT_S)
    results = reports / "results.json"
    return ended, json.loads(results.read_text()) if results.exists() else {}


def test_a_look_passes_and_is_what_later_ones_compare_with(ready_lab: Lab, kubeconfig: Path) -> None:
    file = str(kubeconfig.parent / "pinned.yml")
    ended, results = look(ready_lab, kubeconfig, "--record", file)
    assert ended.status == 0, str(ended)
    assert results["run"]["nodes"] == list(NODES)
    ended, _ = look(ready_lab, kubeconfig, "--expect", file)
    assert ended.status == 0, str(ended)
    Path(file).write_text(Path(file).read_text().replace("nvidia.com/gpu: '4'", "nvidia.com/gpu: '8'"))
    ended, results = look(ready_lab, kubeconfig, "--expect", file)
    assert ended.status == 1, str(ended)
    failed = {row["id"] for row in results["checks"] if row["outcome"] == "failed"}
    assert failed == {"cluster.gpu-capacity"}
    assert "site.yml" not in ended.output


def images(lab: Lab) -> str:
    values = yaml.safe_load((lab.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    return ",".join(f"{name}={image}" for name, image in values["validation_images"].items())


@pytest.mark.rare
def test_workloads_pass_in_one_namespace_and_leave_nothing(ready_lab: Lab, kubeconfig: Path) -> None:
    words = ["--namespace", ACCOUNT, "--images", images(ready_lab)]
    ended, _ = look(ready_lab, kubeconfig, *words, "--dry-run")
    assert ended.status == 0, str(ended)
    assert "4 of 4 GPUs on gpu-1, gpu-2" in ended.output
    before = ready_lab.kubectl("get", MADE, "--namespace", ACCOUNT, "--output=name")
    ended, results = look(ready_lab, kubeconfig, *words, "--gpu-budget", "8")
    assert ended.status == 0, str(ended)
    assert results["coverage"]["gpus"]["tested"] == 8
    told = {
        row["target"]: row["evidence"].get("compared_with")
        for row in results["checks"]
        if row["id"] == "workloads.allocation"
    }
    assert told == dict.fromkeys(NODES, "the pod that had all GPUs of the node")
    assert ready_lab.kubectl("get", MADE, "--namespace", ACCOUNT, "--output=name") == before


def test_privileged_pods_ask_the_machines_where_they_are_allowed(ready_lab: Lab, kubeconfig: Path) -> None:
    words = ["--namespace", ACCOUNT, "--images", images(ready_lab), "--facts", "privileged"]
    enforce = "pod-security.kubernetes.io/enforce"
    before = ready_lab.kubectl("get", MADE, "--namespace", ACCOUNT, "--output=name")
    ready_lab.kubectl("label", "namespace", ACCOUNT, f"{enforce}=baseline")
    try:
        ended, _ = look(ready_lab, kubeconfig, *words, "--tier", "nodes")
        assert ended.status == 3, str(ended)
        assert f"label namespace {ACCOUNT} {enforce}=privileged" in ended.output
        ready_lab.kubectl("label", "--overwrite", "namespace", ACCOUNT, f"{enforce}=privileged")
        ended, results = look(ready_lab, kubeconfig, *words, "--tier", "nodes")
    finally:
        ready_lab.kubectl("label", "namespace", ACCOUNT, f"{enforce}-")
    assert ended.status == 0, str(ended)
    rows = {(row["id"], row["target"]): row for row in results["checks"]}
    for node in NODES:
        for check in (
            "nodes.reachable",
            "nodes.driver-versions",
            "nodes.gpu-count",
            "nodes.services",
            "nodes.ecc",
        ):
            assert rows[check, node]["outcome"] == "passed", rows[check, node]
    assert "site.yml" not in ended.output
    assert ready_lab.kubectl("get", MADE, "--namespace", ACCOUNT, "--output=name") == before
