"""Teams: quotas that the API server keeps, members that cannot change them, and what is left of a team that leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import Ended, Lab, PodSpec

TEAM, CLASS, LOW = "e2e-team", "e2e-high", "e2e-low"
TEAMS: dict[str, Any] = {
    "gpu_tenants_teams": {
        TEAM: {
            "gpus": 1, "gpus_of_class": {CLASS: 0}, "members": [{"kind": "Group", "name": "e2e"}],
            "cpu": 4, "memory": "0.5Gi", "network": "isolated",
        }
    },
    "gpu_tenants_classes": {CLASS: {"value": 10}},
}  # fmt: skip
HOLDER = PodSpec("holder", "gpu-1", gpus=1)


@pytest.fixture(scope="module")
def inventory(ready_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    yield ready_lab.copy_inventory(tmp_path_factory.mktemp("teams") / "inventory")
    ready_lab.kubectl("delete", "namespace", TEAM, "--ignore-not-found")
    ready_lab.kubectl("delete", "priorityclass", CLASS, LOW, "--ignore-not-found")


def ask_for(inventory: Path, values: dict[str, Any]) -> None:
    path = inventory / "group_vars" / "gpu_nodes.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))


def set_tenants(lab: Lab, inventory: Path, *words: str) -> Ended:
    ended = lab.playbook("playbooks/set_tenants.yml", *words, inventory=inventory)
    assert ended.status == 0, str(ended)
    return ended


def tried(lab: Lab, image: str, pod: PodSpec, **of_container: Any) -> str:
    """What the API server says of a pod, without making it."""
    manifest = pod.manifest(image)
    manifest["metadata"]["namespace"] = TEAM
    manifest["spec"]["containers"][0].update(of_container)
    words = (
        "-n",
        TEAM,
        "run",
        pod.name,
        "--image",
        image,
        "--dry-run=server",
        "--overrides",
        json.dumps(manifest),
    )
    return lab.run(lab.program("gpulab"), "kubectl", *words).output


def test_a_team_holds_no_more_than_its_quota(ready_lab: Lab, inventory: Path, workload_image: str) -> None:
    ask_for(inventory, TEAMS)
    set_tenants(ready_lab, inventory, "--check")
    assert ready_lab.kubectl("get", "namespace", TEAM, "--ignore-not-found") == ""
    set_tenants(ready_lab, inventory)
    again = set_tenants(ready_lab, inventory)
    assert all(row["changed"] == 0 for row in again.recap().values()), str(again)

    # The API server enforces a quota once its controller has counted.
    counted = ("--for=jsonpath={.status.hard}", "--timeout=30s")
    ready_lab.kubectl("-n", TEAM, "wait", "resourcequota", "--all", *counted)
    # Where both quotas refuse, the API server names either.
    first = PodSpec("first", "gpu-1", priority_class=CLASS, gpus=1)
    assert f"exceeded quota: gpusmith-gpus-{CLASS}" in tried(ready_lab, workload_image, first)
    pod = HOLDER.manifest(workload_image)
    pod["metadata"]["namespace"] = TEAM
    ready_lab.apply(pod)
    ready_lab.kubectl("-n", TEAM, "wait", "--for=condition=Ready", "pod/holder", timeout=90)
    asked = ready_lab.get("-n", TEAM, "pod", "holder")["spec"]["containers"][0]["resources"]["requests"]
    assert (asked["cpu"], asked["memory"]) == ("100m", "128Mi"), "it named none, and there is a quota"
    second = PodSpec("second", "gpu-1", gpus=1)
    assert "exceeded quota: gpusmith-gpus, requested: requests.nvidia.com/gpu=1" in tried(
        ready_lab, workload_image, second
    )
    privileged = tried(ready_lab, workload_image, PodSpec("x", "gpu-1"), securityContext={"privileged": True})
    assert 'violates PodSecurity "baseline' in privileged

    for words, may in (
        ("create pods", "yes"),
        ("update resourcequotas", "no"),
        ("create rolebindings", "no"),
    ):
        member = ("--as", "ada", "--as-group", "e2e", "-n", TEAM)
        said = ready_lab.run(ready_lab.program("gpulab"), "kubectl", "auth", "can-i", *words.split(), *member)
        assert said.output.strip().endswith(may), str(said)


def test_the_suite_reads_what_teams_have(ready_lab: Lab, inventory: Path) -> None:
    seen = ready_lab.validate("--tier", "cluster", inventory=inventory)
    seen.assert_passed()
    assert [row["outcome"] for row in seen.results["checks"] if row["id"] == "cluster.tenants"] == ["passed"]
    ready_lab.kubectl("-n", TEAM, "delete", "resourcequota", "gpusmith-gpus")
    trap = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "trap", "namespace": TEAM}}
    ready_lab.apply({**trap, "spec": {"hard": {"limits.nvidia.com/gpu": "1"}}})
    seen = ready_lab.validate("--tier", "cluster", inventory=inventory)
    assert [row["id"] for row in seen.failed()] == ["cluster.gpu-quotas", "cluster.tenants"], str(seen.ended)
    assert f"There is no quota '{TEAM}/gpusmith-gpus'" in str(seen.ended)
    ready_lab.kubectl("-n", TEAM, "delete", "resourcequota", "trap")
    set_tenants(ready_lab, inventory)


def test_a_pod_of_a_higher_class_takes_the_place_of_a_lower_one_and_of_nobody_else(
    ready_lab: Lab, inventory: Path, workload_image: str
) -> None:
    classes = {CLASS: {"value": 10, "preempts": True}, LOW: {"value": -10}}
    # A class cannot be changed: the one of the tests before goes first.
    ready_lab.kubectl("delete", "priorityclass", CLASS)
    team = {"gpus": 5, "gpus_of_class": {CLASS: 1, LOW: 3}}
    ask_for(inventory, {"gpu_tenants_teams": {TEAM: team}, "gpu_tenants_classes": classes})
    set_tenants(ready_lab, inventory)

    # With the pod of the tests before, which names no class, all GPUs of the node are held.
    low = PodSpec("low", "gpu-1", priority_class=LOW, gpus=3)
    for pod in (low, PodSpec("high", "gpu-1", priority_class=CLASS, gpus=1)):
        manifest = pod.manifest(workload_image)
        manifest["metadata"]["namespace"] = TEAM
        ready_lab.apply(manifest)
        ready_lab.kubectl("-n", TEAM, "wait", "--for=condition=Ready", f"pod/{pod.name}", timeout=90)
    names = {row["metadata"]["name"] for row in ready_lab.get("-n", TEAM, "pods")["items"]}
    assert names == {"holder", "high"}, "'low' gave way"
    ready_lab.kubectl("-n", TEAM, "delete", "pod", "high")

    ask_for(inventory, {"validation_preemption": True})
    seen = ready_lab.validate("--tier", "workloads", "--limit", "gpu-2", inventory=inventory)
    seen.assert_passed()
    found = {row["id"]: row for row in seen.results["checks"]}
    assert [found[f"workloads.{name}"]["outcome"] for name in ("preemption", "gpu-type")] == ["passed"] * 2


def test_what_leaves_the_inventory_goes_and_pods_stay(ready_lab: Lab, inventory: Path) -> None:
    ask_for(inventory, {"gpu_tenants_teams": {}, "gpu_tenants_classes": {}})
    refused = ready_lab.playbook("playbooks/set_tenants.yml", inventory=inventory)
    assert (refused.status, f"the cluster has quotas of '{TEAM}'" in refused.output) == (2, True), str(
        refused
    )
    ended = ready_lab.playbook("playbooks/remove_tenants.yml", inventory=inventory)
    assert ended.status == 0, str(ended)
    assert f"Namespace '{TEAM}' stays with its pods" in ended.output
    assert f"PriorityClass '{CLASS}' stays" in ended.output
    assert ready_lab.get("-n", TEAM, "resourcequotas,rolebindings,limitranges,networkpolicies")["items"] == []
    assert ready_lab.get("-n", TEAM, "pod", "holder")["status"]["phase"] == "Running"
