"""The policy for pods: the API server judges it first, what runs against it is named, and what serves nodes goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import Ended, Lab, PodSpec

TEAM, OTHER, EXEMPT = "e2e-policy-team", "e2e-policy", "e2e-policy-exempt"
POLICY = "gpusmith-gpu-nodes"
POLICIES = "validatingadmissionpolicies,validatingadmissionpolicybindings"
TEAMS = {TEAM: {"gpus": 2, "gpus_per_pod": 1, "pod_security": "privileged"}}
PRIVILEGED: dict[str, Any] = {"securityContext": {"privileged": True}}


@pytest.fixture(scope="module")
def inventory(ready_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    for name in (OTHER, EXEMPT):
        ready_lab.kubectl("create", "namespace", name)
    yield ready_lab.copy_inventory(tmp_path_factory.mktemp("policy") / "inventory")
    ready_lab.kubectl("delete", POLICIES, POLICY, "--ignore-not-found")
    ready_lab.kubectl("delete", "namespace", TEAM, OTHER, EXEMPT, "--ignore-not-found", timeout=120)


def set_tenants(lab: Lab, inventory: Path, status: int = 0, **values: Any) -> Ended:
    path = inventory / "group_vars" / "gpu_nodes.yml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **values}))
    ended = lab.playbook("playbooks/set_tenants.yml", inventory=inventory)
    assert ended.status == status, str(ended)
    # Neither policy nor namespaces of the trial stay.
    assert lab.kubectl("get", POLICIES, "--selector=gpusmith.io/trial", "--output=name") == ""
    spaces = lab.get("namespaces", "--selector=gpusmith.io/trial")["items"]
    assert [row for row in spaces if "deletionTimestamp" not in row["metadata"]] == []
    return ended


def pod(name: str, space: str, image: str, gpus: int = 0, **container: Any) -> dict[str, Any]:
    made = PodSpec(name, "gpu-1", gpus=gpus).manifest(image)
    made["metadata"]["namespace"] = space
    made["spec"]["containers"][0].update(container)
    return made


def tried(lab: Lab, made: dict[str, Any]) -> str:
    """What the API server says of a pod, without making it."""
    words = ("run", made["metadata"]["name"], "-n", made["metadata"]["namespace"], "--dry-run=server")
    image = made["spec"]["containers"][0]["image"]
    return lab.run(
        lab.program("gpulab"), "kubectl", *words, "--image", image, "--overrides", json.dumps(made)
    ).output


def test_what_runs_against_it_is_named_before_it_is_bound(
    ready_lab: Lab, inventory: Path, workload_image: str
) -> None:
    ready_lab.apply(pod("agent", EXEMPT, workload_image, **PRIVILEGED))
    refused = set_tenants(ready_lab, inventory, 2, gpu_tenants_teams=TEAMS, gpu_tenants_policy="deny")
    assert f"Pod '{EXEMPT}/agent': Privileged containers reach all GPUs" in refused.output
    assert ready_lab.kubectl("get", POLICIES, POLICY, "--ignore-not-found", "--output=name") == ""
    assert ready_lab.kubectl("get", "namespace", TEAM, "--ignore-not-found") == ""

    warned = set_tenants(ready_lab, inventory, gpu_tenants_policy="warn")
    assert f"would refuse Pod '{EXEMPT}/agent'" in warned.output
    set_tenants(ready_lab, inventory, gpu_tenants_policy="deny", gpu_tenants_policy_exempt=[EXEMPT])
    again = set_tenants(ready_lab, inventory)
    assert all(row["changed"] == 0 for row in again.recap().values()), str(again)


def test_it_refuses_what_reaches_gpus_without_asking(
    ready_lab: Lab, inventory: Path, workload_image: str
) -> None:
    for space in (TEAM, OTHER):
        said = tried(ready_lab, pod("x", space, workload_image, **PRIVILEGED))
        assert f"'{POLICY}' denied request: Privileged containers" in said
        assert "tolerates the taint 'nvidia.com/gpu'" in tried(ready_lab, pod("x", space, workload_image))
    assert "may ask for 1 GPUs, and this one asks for 2" in tried(
        ready_lab, pod("x", TEAM, workload_image, 2)
    )
    for made in (
        pod("x", TEAM, workload_image, 1),
        pod("x", OTHER, workload_image, 2),
        pod("x", EXEMPT, workload_image, **PRIVILEGED),
    ):
        assert "pod/x created (server dry run)" in tried(ready_lab, made)


def test_what_serves_nodes_goes_on(ready_lab: Lab, inventory: Path, workload_image: str) -> None:
    """A network's agent comes to all GPU nodes, and a device plugin comes back."""
    agent = pod("agent", OTHER, workload_image, **PRIVILEGED)["spec"]
    agent |= {
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"gpusmith.io/operands": "enabled"},
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
    labels = {"app": "agent"}
    ready_lab.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "agent", "namespace": OTHER},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": agent},
            },
        }
    )
    plugin = ("-n", "gpusmith-system", "delete", "pod", "-l", "app.kubernetes.io/name=nvidia-device-plugin")
    ready_lab.kubectl(*plugin, "--field-selector=spec.nodeName=gpu-1")
    for space, name in ((OTHER, "agent"), ("gpusmith-system", "nvidia-device-plugin")):
        ready_lab.kubectl("-n", space, "rollout", "status", f"daemonset/{name}", "--timeout=60s", timeout=90)
    there = ready_lab.get("-n", OTHER, "pods", "-l", "app=agent")["items"]
    assert {row["spec"]["nodeName"] for row in there} == set(ready_lab.gpu_nodes())

    seen = ready_lab.validate("--tier", "cluster", inventory=inventory)
    seen.assert_passed()
    (row,) = [row for row in seen.results["checks"] if row["id"] == "cluster.admission-policy"]
    assert row["outcome"] == "passed"


def test_it_goes_when_it_is_asked_to(ready_lab: Lab, inventory: Path) -> None:
    ended = ready_lab.playbook("playbooks/remove_tenants.yml", inventory=inventory)
    assert ended.status == 0, str(ended)
    assert ready_lab.kubectl("get", POLICIES, POLICY, "--ignore-not-found", "--output=name") == ""
