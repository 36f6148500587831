"""What the suite asks a cluster to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest

from gpusmith.errors import ToolError
from gpusmith.workloads import jobs
from gpusmith.workloads.jobs import PodTask, Run

RUN = Run("a1", "host/1/2")


def workload(**changes: Any) -> PodTask:
    values: dict[str, Any] = {
        "name": "n0-cuda", "node": "gpu-1.example", "image": "registry.example/pytorch:1", "command": jobs.program("run_cuda.py"),
        "gpus": 4, "simulated": True, "resource": "nvidia.com/gpu", "tolerated": ("team",), "timeout_s": 60.5,
    }  # fmt: skip
    return PodTask(**{**values, **changes})


@pytest.mark.parametrize("make", [jobs.job, jobs.pod])
def test_manifests_are_valid(make: Callable[[Run, PodTask], dict[str, Any]], programs: Path) -> None:
    for manifest in (
        make(RUN, workload()),
        make(RUN, workload(gpus=0, runtime_class="nvidia")),
        make(RUN, workload(gpus=0, machine=True)),
        jobs.namespace(RUN),
    ):
        kubernetes_validate.validate(manifest, "1.36", strict=True)
    kubernetes_validate.validate(jobs.programs(RUN, programs, {"probe.zip": b"PK"}), "1.36", strict=True)


def test_pod_asks_for_no_right_it_does_not_need() -> None:
    spec = jobs.pod(RUN, workload())["spec"]
    container = spec["containers"][0]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "runtimeClassName" not in spec


def test_pod_that_looks_at_the_machine_sees_its_root_and_cannot_write_there() -> None:
    spec = jobs.pod(RUN, workload(gpus=0, machine=True))["spec"]
    container = spec["containers"][0]
    assert (spec["hostPID"], spec["hostNetwork"], spec["tolerations"]) == (
        True,
        True,
        [{"operator": "Exists"}],
    )
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True}
    assert container["volumeMounts"][-1] == {"name": "machine", "mountPath": "/host", "readOnly": True}
    assert spec["volumes"][-1] == {"name": "machine", "hostPath": {"path": "/", "type": "Directory"}}
    assert spec["securityContext"] == {"runAsUser": 0, "runAsGroup": 0}


def test_pod_goes_through_the_scheduler_to_its_node() -> None:
    spec = jobs.pod(RUN, workload())["spec"]
    assert "nodeName" not in spec
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    assert terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gpu-1.example"]}]}
    ]
    assert spec["tolerations"] == [{"key": "team", "operator": "Exists"}]


@pytest.mark.parametrize("gpus", [0, 4])
def test_pod_takes_nobodys_place_and_ends_by_itself(gpus: int) -> None:
    made = workload(gpus=gpus, pull_s=100.0)
    pod, job = jobs.pod(RUN, made)["spec"], jobs.job(RUN, made)["spec"]
    assert [spec["priorityClassName"] for spec in (pod, job["template"]["spec"])] == [
        "gpusmith-validation"
    ] * 2
    ends = [spec["activeDeadlineSeconds"] for spec in (pod, job, job["template"]["spec"])]
    assert ends == [160] * 3, "pulling does not shorten what it may run"


def test_gpus_are_asked_for_only_if_wanted() -> None:
    assert jobs.pod(RUN, workload())["spec"]["containers"][0]["resources"]["limits"] == {
        "nvidia.com/gpu": "4"
    }
    assert "limits" not in jobs.pod(RUN, workload(gpus=0))["spec"]["containers"][0]["resources"]


def test_gpus_of_a_device_class_are_asked_for_by_a_claim() -> None:
    task = workload(resource="gpu.nvidia.com")
    spec = jobs.pod(RUN, task)["spec"]
    assert spec["resourceClaims"] == [{"name": "gpus", "resourceClaimTemplateName": task.name}]
    assert spec["containers"][0]["resources"]["claims"] == [{"name": "gpus"}]
    assert "limits" not in spec["containers"][0]["resources"]
    template = jobs.claim_template(RUN, task)
    assert template["metadata"] == jobs.pod(RUN, task)["metadata"]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"] == {
        "deviceClassName": "gpu.nvidia.com",
        "allocationMode": "ExactCount",
        "count": 4,
    }
    assert "resourceClaims" not in jobs.pod(RUN, workload(resource="gpu.nvidia.com", gpus=0))["spec"]


def test_inventory_witness_reaches_the_program() -> None:
    for word, says in (("true", True), ("false", False)):
        env = jobs.pod(RUN, workload(simulated=says))["spec"]["containers"][0]["env"]
        assert {"name": "GPUSMITH_SIMULATED", "value": word} in env


def test_namespace_is_of_the_run_and_restricted() -> None:
    metadata = jobs.namespace(RUN)["metadata"]
    assert metadata["name"] == "gpusmith-validation-a1"
    assert metadata["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert metadata["annotations"] == {"gpusmith.io/owner": "host/1/2"}


def test_programs_do_not_shadow_what_they_import(programs: Path) -> None:
    names = {name.removesuffix(".py") for name in jobs.programs(RUN, programs)["data"]}
    assert not names & {"tensorflow", "torch", "pytorch", "cuda", "numpy", "pynvml"}


def test_folder_without_programs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="No programs"):
        jobs.programs(RUN, tmp_path)


def test_bad_name_is_refused() -> None:
    with pytest.raises(ToolError):
        jobs.pod(RUN, workload(name="Node.One"))


def test_what_policies_of_the_site_ask_for_is_on_everything(programs: Path) -> None:
    run = Run("a1", "host/1/2", {"owner": "ml", "gpusmith.io/run": "x"}, {"sidecar.istio.io/inject": "false"})
    task = workload(limits={"cpu": "4", "memory": "4Gi"})
    made = [
        jobs.namespace(run),
        jobs.job(run, task),
        jobs.job(run, task)["spec"]["template"],
        jobs.pod(run, task),
    ]
    for manifest in made:
        labels, annotations = (manifest["metadata"][key] for key in ("labels", "annotations"))
        assert labels["owner"] == "ml"
        assert labels["gpusmith.io/run"] == "a1", "ours count"
        assert annotations["sidecar.istio.io/inject"] == "false"
    kubernetes_validate.validate(jobs.job(run, task), "1.36", strict=True)
    (container,) = jobs.pod(run, task)["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "4"}


def test_no_pod_requests_more_than_its_limit() -> None:
    (container,) = jobs.pod(RUN, workload(limits={"cpu": "50m", "memory": "4Gi"}))["spec"]["containers"]
    assert container["resources"]["requests"] == {"cpu": "50m", "memory": "64Mi"}


def test_pods_name_the_secrets_of_their_registries() -> None:
    run = replace(RUN, pull_secrets=("registry",))
    assert jobs.pod(run, workload())["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    assert "imagePullSecrets" not in jobs.pod(RUN, workload())["spec"]
