"""`pytest validation --from-cluster`: a cluster that the GPU Operator set up, without inventory, ssh and Ansible."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.fleet import api, machines, operator, site

NODES = 3
ONLY_OURS = ["cluster.runtime-class", "cluster.labels", "cluster.taints"]


def look(
    root: Path, folder: Path, fleet: api.Fleet, *words: str, **environment: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """A run, and its findings. Neither Ansible nor ssh can be started."""
    bare = folder / "bin"
    bare.mkdir(exist_ok=True)
    reports = folder / "reports"
    options = ["--from-cluster", "--report-dir", str(reports), *words]
    for _ in api.served(NODES, folder, fleet):
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", str(root / "validation"), *options],
            cwd=folder,
            env={"PATH": str(bare), "HOME": str(folder / "nobody"), "NO_COLOR": "1", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        fleet.interrupt = process.terminate
        out, err = process.communicate(timeout=120)
        done = subprocess.CompletedProcess(process.args, process.returncode, out, err)
    found = reports / "results.json"
    return done, json.loads(found.read_text())["checks"] if found.exists() else []


def allowed(root: Path) -> set[str]:
    """Lists that the documented rights allow."""
    documents = yaml.safe_load_all((root / "docs" / "rbac-any-cluster.yml").read_text())
    (rules,) = [row["rules"] for row in documents if row["kind"] == "ClusterRole"]
    return {
        f"GET {f'/apis/{group}/v1' if group else '/api/v1'}/{name}"
        for rule in rules
        for group in rule["apiGroups"]
        for name in rule["resources"]
        if rule["verbs"] == ["list"]
    }


def test_a_healthy_cluster_of_the_gpu_operator_passes(root: Path, tmp_path: Path) -> None:
    fleet = api.Fleet(NODES, [operator.node()], operator.PODS)
    fleet.refused = {"/apis/apps/v1/daemonsets", "/apis/node.k8s.io/v1/runtimeclasses", "/api/v1/namespaces"}
    done, found = look(root, tmp_path, fleet, "--kubeconfig", str(tmp_path / "kubeconfig"))
    assert done.returncode == 0, done.stdout + done.stderr
    by_check: dict[str, set[str]] = {}
    for row in found:
        by_check.setdefault(row["id"], set()).add(row["outcome"])
        assert row["id"] not in ONLY_OURS or "gpusmith did not set up this cluster" in row["cause"]
    assert {name for name, outcomes in by_check.items() if outcomes == {"passed"}} == {
        "cluster.api", "cluster.node-ready", "cluster.gpu-capacity", "cluster.gpu-owners", "cluster.operands",
        "cluster.gpu-quotas", "cluster.gpu-limit-ranges",
    }  # fmt: skip
    assert "site.yml" not in done.stdout
    # Discovery is open to everybody.
    asked = {path for path in fleet.asked if path not in ("GET /apis/resource.k8s.io/v1", "GET /readyz")}
    assert asked - {f"GET {path}" for path in fleet.refused} <= allowed(root)
    assert f"nodes: {NODES} expected, {NODES} tested" in done.stdout


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (operator.node(None), "label 'feature.node.kubernetes.io/pci-10de.present' says, and offers none"),
        (operator.node(7), "offers 7 GPUs, feature discovery says 8"),
        (
            operator.node(7, {"nvidia.com/gpu.count": None}),
            "offers 7 GPUs, the majority of its kind says 8",
        ),
    ],
    ids=["offers none", "fewer than its label", "fewer than most"],
)
def test_gpus_that_are_not_offered_fail(
    root: Path, tmp_path: Path, broken: dict[str, Any], says: str
) -> None:
    fleet = api.Fleet(NODES, [broken, operator.node()], operator.PODS)
    environment = {"KUBECONFIG": f"{tmp_path / 'none'}{os.pathsep}{tmp_path / 'kubeconfig'}"}
    done, found = look(root, tmp_path, fleet, "--tier", "cluster", **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    (bad,) = [row for row in found if row["outcome"] == "failed"]
    assert (bad["id"], bad["target"]) == ("cluster.gpu-capacity", "gpu-00000")
    assert says in bad["cause"]
    owner = "Read the log of the device plugin of the GPU Operator: kubectl"
    assert bad["next_step"].startswith(owner), bad["next_step"]
    assert "-n gpu-operator logs nvidia-device-plugin-daemonset-" in bad["next_step"]


def test_a_dry_run_says_what_would_run_and_makes_nothing(root: Path, tmp_path: Path) -> None:
    cordoned = operator.node()
    cordoned["spec"] = {"unschedulable": True}
    fleet = api.Fleet(NODES, [cordoned, operator.node()], operator.PODS)
    words = ["--dry-run", "--namespace", "team", "--images", "r/image:1", "--gpu-budget", "50%"]
    done, found = look(root, tmp_path, fleet, *words, KUBECONFIG=str(tmp_path / "kubeconfig"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Tier cluster: 16 checks of cluster and gpu-00000, gpu-00001, gpu-00002" in done.stdout
    assert "In namespace 'team', 12 GPUs at the same time at most: nvidia-smi, " in done.stdout
    assert "  8 of 8 GPUs on gpu-00001, gpu-00002\n" in done.stdout
    assert "  not on gpu-00000: node 'gpu-00000' is cordoned.\n" in done.stdout
    assert {name.partition(" ")[0] for name in fleet.asked} == {"GET"}
    assert not (tmp_path / "reports").exists()
    assert found == []


def test_what_was_measured_is_what_later_runs_compare_with(root: Path, tmp_path: Path) -> None:
    environment = {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    healthy = api.Fleet(NODES, [operator.node()], operator.PODS)
    words = ["--record", "pinned.yml", "--expect", "pinned.yml"]
    done, _ = look(root, tmp_path, healthy, *words[:2], **environment)
    assert done.returncode == 0, done.stdout
    done, _ = look(root, tmp_path, healthy, *words[2:], **environment)
    assert done.returncode == 0, done.stdout
    # A GPU is gone, also for those who would count it, and so is a node.
    seven = operator.node(7, {"nvidia.com/gpu.count": "7"})
    broken = api.Fleet(NODES - 1, [seven, operator.node()], operator.PODS)
    kept = (tmp_path / "pinned.yml").read_text()
    done, found = look(root, tmp_path, broken, *words, **environment)
    assert done.returncode == 1, done.stdout
    assert (tmp_path / "pinned.yml").read_text() == kept
    assert "nothing is recorded" in done.stdout
    bad = {row["id"]: row["cause"] for row in found if row["outcome"] == "failed"}
    assert bad == {
        "cluster.gpu-capacity": "Node 'gpu-00000' offers 7 of 'nvidia.com/gpu', 'pinned.yml' says 8.",
        "cluster.node-ready": "The cluster has no node 'gpu-00002' (host 'gpu-00002').",
    }


PRIVILEGED = ["--facts", "privileged", "--namespace", "team", "--images", "r/image:1"]


def looked_at(nodes: int = NODES, fault: Callable[[dict[str, Any]], None] = lambda _: None) -> machines.Fleet:
    """Machines with records, the first of which has a fault, and a last one without Python."""
    base = site.healthy()
    records = {}
    for index in range(nodes - 1):
        record = site.record(base, index)
        if not index:
            fault(record)
        records[site.name_of(index)] = json.dumps(record)
    return machines.Fleet(nodes, [operator.node()], operator.PODS, records)


def bad_memory(record: dict[str, Any]) -> None:
    record["nvml"]["gpus"][3]["ecc_uncorrected"] = 7


def test_machines_are_looked_at_by_privileged_pods(root: Path, tmp_path: Path) -> None:
    fleet, environment = looked_at(fault=bad_memory), {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    done, found = look(root, tmp_path, fleet, *PRIVILEGED, "--tier", "nodes,cluster", **environment)
    assert done.returncode == 1, done.stdout + done.stderr
    bad = [(row["id"], row["target"]) for row in found if row["outcome"] not in ("passed", "skipped")]
    assert bad == [("nodes.ecc", "gpu-00000")]
    rows = {(row["id"], row["target"]): row for row in found}
    assert rows["nodes.ecc", "gpu-00001"]["outcome"] == "passed"
    for check in ("nodes.reachable", "nodes.ecc"):
        assert "is not asked: it has no python3" in rows[check, "gpu-00002"]["cause"]
    assert "gpusmith did not set up" in rows["nodes.host-baseline", "gpu-00001"]["cause"]
    # What cannot be asked of a machine is in the way of no verdict.
    without = {row["skip"] for row in found if row["target"] == "gpu-00002"}
    assert without == {None, "not_applicable"}
    assert "site.yml" not in done.stdout
    assert sum("/pods/" in path for path in fleet.ever) == NODES
    assert fleet.there == {}
    # What the pods said is what the run is judged by once more.
    options = ["--replay", str(tmp_path / "reports"), "--report-dir", str(tmp_path / "again")]
    again = subprocess.run(
        [sys.executable, "-m", "pytest", str(root / "validation"), *options],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    replayed = json.loads((tmp_path / "again" / "results.json").read_text())["checks"]
    assert again.returncode == 1, again.stdout + again.stderr
    same = [{key: row[key] for key in ("id", "target", "outcome", "cause")} for row in found]
    assert [{key: row[key] for key in ("id", "target", "outcome", "cause")} for row in replayed] == same


def test_a_dry_run_tells_of_privileged_pods_and_makes_none(root: Path, tmp_path: Path) -> None:
    fleet, environment = looked_at(), {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    done, _ = look(root, tmp_path, fleet, *PRIVILEGED, "--dry-run", **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  by a privileged pod on each node, in namespace 'team'" in done.stdout
    assert fleet.ever == []
    assert {name.partition(" ")[0] for name in fleet.asked} == {"GET"}


def test_pods_that_are_refused_are_an_error_with_the_label_to_set(root: Path, tmp_path: Path) -> None:
    fleet, environment = looked_at(), {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    fleet.refuses = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPID'
    done, found = look(root, tmp_path, fleet, *PRIVILEGED, "--tier", "nodes", **environment)
    assert done.returncode == 3, done.stdout + done.stderr
    (error,) = [row for row in found if row["outcome"] == "error"]
    assert "label namespace team pod-security.kubernetes.io/enforce=privileged" in error["next_step"]
    assert fleet.ever == []


def test_a_look_that_is_interrupted_leaves_nothing(root: Path, tmp_path: Path) -> None:
    fleet, environment = looked_at(), {"KUBECONFIG": str(tmp_path / "kubeconfig")}
    fleet.interrupt_at = NODES
    done, _ = look(root, tmp_path, fleet, *PRIVILEGED, "--tier", "nodes", **environment)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "interrupted by SIGTERM" in done.stdout
    assert sum("/pods/" in path for path in fleet.ever) == NODES
    assert fleet.there == {}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--inventory", "x"], "Option '--inventory' needs an inventory, and '--from-cluster' has none"),
        (["--tier", "nodes"], "Tier 'nodes' needs --facts privileged, or an inventory, since"),
        (["--tier", "monitoring"], "Tier 'monitoring' needs an inventory, which says what"),
        (["--facts", "all"], "'all' of option '--facts' is none of none, privileged."),
        (["--facts", "privileged"], "Option '--facts privileged' needs '--namespace'"),
        (["--expect", "none"], "of --expect cannot be read: No such file"),
        (["--tier", "workloads"], "Tier 'workloads' needs --namespace"),
        (["--namespace", "n"], "Workloads need '--images'"),
        (["--namespace", "n", "--images", "jax=x"], "'jax' of option '--images' is none of cuda, pytorch"),
        (["--selector", "a=b"], "has no GPU nodes with labels 'a=b'"),
        (["--context", "other"], "Give --context one of its own: 'x'."),
        (["--timeout", "-1"], "argument --timeout: invalid seconds value: '-1'"),
        (["--gpu-budget", "0"], "'0' of option '--gpu-budget' is no number of GPUs"),
        (
            ["--kubeconfig", "none"],
            "Kubeconfig 'none' does not exist.\n  Next: Give --kubeconfig one of the cluster.",
        ),
        (["--kubeconfig", ""], "Option '--kubeconfig' is empty"),
        ([], "There is no kubeconfig: neither --kubeconfig nor $KUBECONFIG names one"),
    ],
)
def test_what_cannot_work_is_refused(root: Path, tmp_path: Path, words: list[str], says: str) -> None:
    environment = {"KUBECONFIG": str(tmp_path / "kubeconfig")} if words else {}
    done, _ = look(root, tmp_path, api.Fleet(0), *words, **environment)
    assert done.returncode == 4, done.stdout + done.stderr
    assert says in done.stdout + done.stderr
