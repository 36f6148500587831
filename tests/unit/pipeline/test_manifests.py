"""The example's manifests are what its page promises, and take what a site sets."""

from __future__ import annotations

from typing import Any

import yaml

from gpusmith.paths import repo_root
from gpusmith.pipeline.manifests import KUSTOMIZATION, NAMESPACE, Pipeline, folder

PIPELINE = Pipeline("here", "registry/image:1")


def pods(pipeline: Pipeline = PIPELINE) -> dict[str, dict[str, Any]]:
    rows = [row for row in pipeline.objects if "template" in row.get("spec", {})]
    return {row["metadata"]["name"]: row["spec"]["template"]["spec"] for row in rows}


def env(pipeline: Pipeline, step: str) -> dict[str, str]:
    return {row["name"]: row["value"] for row in pods(pipeline)[step]["containers"][0]["env"]}


def test_all_files_of_the_example_are_in_the_kustomization() -> None:
    given = yaml.safe_load((folder() / KUSTOMIZATION).read_text())
    (generator,) = given["configMapGenerator"]
    # It would be given the name of a team's namespace, and deleted with the rest.
    assert NAMESPACE not in given["resources"]
    named = {KUSTOMIZATION, NAMESPACE, *given["resources"], *generator["files"]}
    there = {str(path.relative_to(folder())) for path in folder().rglob("*") if path.is_file()}
    assert {name for name in there if not name.endswith(".pyc")} == named


def test_the_role_has_the_image_and_namespace_of_the_kustomization() -> None:
    given = yaml.safe_load((folder() / KUSTOMIZATION).read_text())
    (image,) = given["images"]
    role = yaml.safe_load((repo_root() / "roles/gpu_pipeline/defaults/main.yml").read_text())
    assert role["gpu_pipeline_image"] == f"{image['newName']}:{image['newTag']}"
    assert role["gpu_pipeline_namespace"] == given["namespace"]
    ports = [row["spec"]["ports"][0]["nodePort"] for row in PIPELINE.objects if row["kind"] == "Service"]
    assert ports == [role["gpu_pipeline_node_port"]]


def test_pods_are_restricted_and_only_those_with_a_gpu_tolerate_its_taint() -> None:
    for step, spec in pods().items():
        (container,) = spec["containers"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert container["securityContext"] == security
        assert spec["automountServiceAccountToken"] is False
        gpus = container["resources"].get("limits", {}).get("nvidia.com/gpu", 0)
        assert (gpus, "tolerations" in spec) == ((0, False) if step == "preprocess" else (1, True))


def test_a_new_pod_of_the_service_needs_no_second_gpu() -> None:
    (row,) = (row for row in PIPELINE.objects if row["kind"] == "Deployment")
    assert row["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


def test_what_a_site_sets_is_set() -> None:
    tolerations = ({"key": "cpu", "operator": "Exists"},)
    site = Pipeline("here", "image", "nfs", 30100, 7, True, tolerations, ("registry",))
    by_kind = {row["kind"]: row for row in site.objects}
    assert by_kind["PersistentVolumeClaim"]["spec"]["storageClassName"] == "nfs"
    assert by_kind["Service"]["spec"]["ports"][0]["nodePort"] == 30100
    assert by_kind["Namespace"]["metadata"]["name"] == "here"
    assert {row["metadata"].get("namespace", "here") for row in site.objects} == {"here"}
    assert {row["metadata"]["labels"]["app.kubernetes.io/managed-by"] for row in site.objects} == {"gpusmith"}
    assert env(site, "train")["SECONDS"] == "7"
    (train,) = site.of("train")
    assert train["spec"]["activeDeadlineSeconds"] == 3607
    assert pods(site)["preprocess"]["tolerations"] == [{"key": "cpu", "operator": "Exists"}]
    assert [spec["containers"][0]["image"] for spec in pods(site).values()] == ["image"] * 3
    assert [spec["imagePullSecrets"] for spec in pods(site).values()] == [[{"name": "registry"}]] * 3


def test_pods_on_simulated_gpus_are_told_and_go_to_no_other_node() -> None:
    site = Pipeline("here", "image", simulated=True)
    for step in ("train", "inference"):
        assert env(site, step)["GPUSMITH_SIMULATED"] == "true"
        assert pods(site)[step]["nodeSelector"] == {"gpusmith.io/simulated": "true"}
        assert "GPUSMITH_SIMULATED" not in env(PIPELINE, step)
    assert "GPUSMITH_SIMULATED" not in env(site, "preprocess")
    assert "nodeSelector" not in pods(site)["preprocess"]


def test_the_first_step_also_makes_what_all_need() -> None:
    kinds = {step: [row["kind"] for row in PIPELINE.of(step)] for step in pods()}
    assert kinds == {
        "preprocess": ["Namespace", "PersistentVolumeClaim", "ConfigMap", "Job"],
        "train": ["Job"],
        "inference": ["Deployment", "Service"],
    }
