"""A cluster whose policies ask for something on every pod: told as theirs, and passed with what they ask for."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Lab, Validation

NODE, POLICY = "gpu-1", "e2e-every-pod-has-an-owner"
RULES = {
    "object.?metadata.labels.team.hasValue()": "every object names its team",
    "object.kind != 'Pod' || object.spec.containers.all(c, c.?resources.limits.memory.hasValue())": "no memory without a limit",
}
ASKED = {"validation_labels": {"team": "gpu"}, "validation_pod_limits": {"cpu": "4", "memory": "2Gi"}}


@pytest.fixture(scope="module")
def policy(ready_lab: Lab) -> Iterator[str]:
    """By the API server's own admission, as Gatekeeper and Kyverno do it by a webhook."""
    kind = {"apiVersion": "admissionregistration.k8s.io/v1"}
    ours = {"name": "ours", "expression": "request.namespace.startsWith('gpusmith-validation-')"}
    match = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    ready_lab.apply(
        {
            **kind,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": POLICY},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [match]},
                "matchConditions": [ours],
                "validations": [{"expression": rule, "message": why} for rule, why in RULES.items()],
            },
        },
        {
            **kind,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": POLICY},
            "spec": {"policyName": POLICY, "validationActions": ["Deny"]},
        },
    )
    yield POLICY
    for name in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
        ready_lab.kubectl("delete", name, POLICY)


# Before the policy is there.
@pytest.mark.rare
def test_a_controller_that_waits_for_the_proof_gets_it(ready_lab: Lab, spoilt: Path) -> None:
    """With the taint that it sets until then, behind which everything of ours has to run."""
    values = spoilt / "group_vars" / "gpu_nodes.yml"
    values.write_text(
        yaml.safe_dump({**yaml.safe_load(values.read_text()), "validation_node_condition": True})
    )
    taint = "readiness.k8s.io/e2e"
    ready_lab.kubectl("taint", "node", NODE, f"{taint}=:NoExecute")
    try:
        ended = ready_lab.playbook("playbooks/validate.yml", "-l", NODE, inventory=spoilt)
    finally:
        ready_lab.kubectl("taint", "node", NODE, f"{taint}-")
    assert ended.status == 0, str(ended)
    assert conditions(ready_lab)["gpusmith.io/Validated"] == "True"
    # What leaves the inventory leaves the Node.
    ended = ready_lab.playbook("playbooks/validate.yml", "-l", NODE)
    assert ended.status == 0, str(ended)
    assert "gpusmith.io/Validated" not in conditions(ready_lab)
    assert conditions(ready_lab)["Ready"] == "True"


def workloads(lab: Lab, inventory: Path) -> Validation:
    return lab.validate(
        "--limit", NODE, "--tier", "workloads", "-k", "nvidia-smi or cuda", inventory=inventory
    )


def test_what_a_policy_refuses_is_no_fault_of_the_node(ready_lab: Lab, policy: str, spoilt: Path) -> None:
    ran = workloads(ready_lab, spoilt)
    assert ran.ended.status == 3, str(ran.ended)
    assert ran.failed() == []
    (row,) = [row for row in ran.results["checks"] if row["outcome"] == "error"]
    assert policy in row["cause"]
    assert "every object names its team" in row["cause"]
    assert "validation_labels" in row["next_step"]


@pytest.mark.rare
def test_with_what_it_asks_for_the_node_is_proved(ready_lab: Lab, policy: str, spoilt: Path) -> None:
    values = spoilt / "group_vars" / "gpu_nodes.yml"
    values.write_text(yaml.safe_dump({**yaml.safe_load(values.read_text()), **ASKED}))
    ran = workloads(ready_lab, spoilt)
    assert ran.failed() == []
    assert {row["outcome"] for row in ran.results["checks"]} == {"passed"}, str(ran.ended)


def conditions(lab: Lab) -> dict[str, str]:
    return {row["type"]: row["status"] for row in lab.get("node", NODE)["status"]["conditions"]}
