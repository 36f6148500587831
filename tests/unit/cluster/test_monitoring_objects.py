"""Role gpu_monitoring: which objects it makes for whom, and what they may do."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible._internal._datatag._tags import VaultedValue

from gpusmith.cluster import apply
from gpusmith.monitoring import site_rules
from gpusmith.names import MANAGED_BY, MANAGER
from gpusmith.paths import repo_root
from tests.fleet import watched
from tests.unit.cluster.roles import of_role

ROLE = repo_root() / "roles/gpu_monitoring"
PARTS = ("dcgm_exporter", "kube_state_metrics", "prometheus", "alertmanager", "dashboards")
INSTALL, VERIFY, REMOVE = (
    yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text())[0] for name in ("install", "verify", "remove")
)
OPERATOR = {"__gpu_monitoring_cluster": {"operator": True}}
pytestmark = pytest.mark.usefixtures("lookups")


def filled_in(task: dict[str, Any], argument: str, **given: Any) -> Any:
    """An argument of a task's module; variables of the role without its name."""
    module = next(value for key, value in task.items() if key.startswith("gpusmith."))
    variables = {
        key
        if key.startswith(("__", "gpusmith_", "validation_", "groups", "hostvars"))
        else f"gpu_monitoring_{key}": value
        for key, value in given.items()
    }
    return _filled_in(str(module[argument]), json.dumps({**task.get("vars", {}), **variables}))


@functools.cache
def _filled_in(template: str, given: str) -> Any:
    play = {"groups": {"all": []}, "hostvars": {}, "ansible_play_hosts": ["GPU-1"]}
    # Filters of the collection are not found here; what this one does is tested beside it.
    rules = {"__gpu_monitoring_rule_files": site_rules.rule_files()}
    return of_role("gpu_monitoring", template, {**play, **json.loads(given)}, rules)


def parts(_owner: str = "managed", /, **others: Any) -> dict[str, Any]:
    return {**dict.fromkeys(PARTS, _owner), **others}


def made(**given: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = filled_in(INSTALL, "objects", **{**parts(), **given})
    return found


def one(objects: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    (found,) = (row for row in objects if row["kind"] == kind and row["metadata"]["name"] == name)
    return found


def titles(objects: list[dict[str, Any]]) -> set[str]:
    return {f"{row['kind']} {row['metadata']['name']}" for row in objects}


def config(**given: Any) -> dict[str, Any]:
    text = one(made(**given), "ConfigMap", "prometheus")["data"]["prometheus.yml"]
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def workloads(**given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for row in made(**given):
        if "template" in row.get("spec", {}):
            yield row["metadata"]["name"], row["spec"]["template"]["spec"]


def test_all_objects_are_marked_as_ours_and_their_pods_found_by_their_name() -> None:
    for row in made(storage={"size": "5Gi"}):
        assert row["metadata"]["labels"][MANAGED_BY] == MANAGER
        if "template" in row.get("spec", {}):
            name = {"app.kubernetes.io/name": row["metadata"]["name"]}
            assert (
                row["spec"]["selector"]["matchLabels"]
                == row["spec"]["template"]["metadata"]["labels"]
                == name
            )


def test_images_have_one_version_and_a_sites_registry_in_front() -> None:
    images = {name: spec["containers"][0]["image"] for name, spec in workloads()}
    assert images["dcgm-exporter"].startswith("nvcr.io/nvidia/k8s/dcgm-exporter:")
    assert not [image for image in images.values() if not re.search(r":v?\d+\.\d+\.\d+", image)]
    site = {
        name: spec["containers"][0]["image"] for name, spec in workloads(gpusmith_image_registry="here:5000")
    }
    assert site == {name: f"here:5000/{image}" for name, image in images.items()}


def test_pods_are_restricted_but_for_the_exporter() -> None:
    for name, spec in workloads():
        (container,) = spec["containers"]
        rights = container["securityContext"]
        assert rights["capabilities"]["drop"] == ["ALL"]
        assert rights["allowPrivilegeEscalation"] is False
        assert {"memory"} <= set(container["resources"]["limits"])
        assert "readinessProbe" in container
        if name == "dcgm-exporter":
            assert rights["capabilities"]["add"] == ["SYS_ADMIN"]
            assert spec["nodeSelector"] == {"gpusmith.io/operands": "enabled"}
            assert spec["tolerations"] == [{"operator": "Exists"}]
            continue
        assert rights["readOnlyRootFilesystem"]
        assert "add" not in rights["capabilities"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert (
            not [volume for volume in spec["volumes"] if "hostPath" in volume] if "volumes" in spec else True
        )
    space = one(made(), "Namespace", "gpusmith-monitoring")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


def test_prometheus_writes_beside_etcd_only_where_there_are_no_other_nodes_without_gpus() -> None:
    def weight(spec: dict[str, Any], labels: set[str]) -> int:
        rows = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        absent = [(row["weight"], row["preference"]["matchExpressions"]) for row in rows]
        assert {each["operator"] for _, (each,) in absent} == {"DoesNotExist"}
        return sum(points for points, (each,) in absent if each["key"] not in labels)

    nodes = [set[str](), {"node-role.kubernetes.io/control-plane"}, {"gpusmith.io/operands"}]
    for spec in (spec for name, spec in workloads() if name != "dcgm-exporter"):
        points = [weight(spec, labels) for labels in nodes]
        assert points == sorted(points, reverse=True)
        assert len(set(points)) == len(nodes)


@pytest.mark.parametrize("owner", ["managed", "existing"])
def test_nobody_may_read_secrets_or_change_anything(owner: str) -> None:
    rules = [rule for row in made(dcgm_exporter=owner) for rule in row.get("rules", [])]
    assert rules
    assert {word for rule in rules for word in rule["resources"]} <= {
        "namespaces",
        "nodes",
        "pods",
        "resourcequotas",
    }
    assert {word for rule in rules for word in rule["verbs"]} <= {"get", "list", "watch"}


def test_all_that_rules_and_dashboards_read_of_the_cluster_is_let_through() -> None:
    args = dict(
        arg.removeprefix("--").partition("=")[::2]
        for arg in next(spec for name, spec in workloads() if name == "kube-state-metrics")["containers"][0][
            "args"
        ]
    )
    files = [*ROLE.glob("files/rules/*.yml"), *ROLE.glob("files/dashboards/*.json")]
    text = "".join(path.read_text() for path in files)
    assert set(re.findall(r"\bkube_[a-z_]+", text)) <= set(args["metric-allowlist"].split(","))
    for kind in ("label", "annotation"):
        listed = args[f"metric-{kind}s-allowlist"].removeprefix("nodes=[").removesuffix("]").split(",")
        known = {f"{kind}_{re.sub(r'[^a-z0-9]', '_', name)}" for name in listed}
        assert set(re.findall(rf"\b{kind}_(?:gpu|gpusmith|nvidia)_[a-z_]+", text)) <= known
    assert args["resources"] == "namespaces,nodes,pods,resourcequotas"


@pytest.mark.parametrize(
    ("series", "kept"),
    [
        ({"__name__": "kube_node_labels", "node": "gpu-1"}, True),
        ({"__name__": "kube_node_status_capacity", "resource": "nvidia_com_mig_1g_10gb"}, True),
        ({"__name__": "kube_node_status_capacity", "resource": "memory"}, False),
        ({"__name__": "kube_resourcequota", "resource": "requests.nvidia.com/gpu"}, True),
        ({"__name__": "kube_pod_status_phase", "phase": "Unknown"}, True),
        ({"__name__": "kube_pod_status_phase", "phase": "Succeeded"}, False),
        ({"__name__": "kube_pod_info", "node": "gpu-1"}, False),
    ],
)  # fmt: skip
def test_of_the_cluster_only_what_is_read_is_kept(series: dict[str, str], kept: bool) -> None:
    rows = config()["scrape_configs"][1]["metric_relabel_configs"]
    matches = [
        bool(re.fullmatch(row["regex"], ";".join(series.get(name, "") for name in row["source_labels"])))
        is (row["action"] == "keep")
        for row in rows
    ]
    assert all(matches) is kept


def test_values_carry_the_node_and_the_pod_that_holds_a_gpu() -> None:
    jobs = {job["job_name"]: job for job in config()["scrape_configs"]}
    assert list(jobs) == ["dcgm-exporter", "kube-state-metrics", "prometheus"]
    exporter = jobs["dcgm-exporter"]
    assert exporter["honor_labels"]
    assert exporter["kubernetes_sd_configs"] == [
        {"role": "pod", "namespaces": {"names": ["gpusmith-system"]}}
    ]
    of_node = {
        row["target_label"]: row["source_labels"]
        for row in exporter["relabel_configs"]
        if "target_label" in row
    }
    assert of_node == {word: ["__meta_kubernetes_pod_node_name"] for word in ("node", "instance")}
    (dropped,) = exporter["metric_relabel_configs"]
    assert {"Hostname", "hostname"} <= set(dropped["regex"].split("|"))
    # Its series have nodes of their own.
    assert "node" not in [row.get("target_label") for row in jobs["kube-state-metrics"]["relabel_configs"]]


def test_what_is_measured_is_what_is_shipped_but_for_where_targets_are_found() -> None:
    """scripts/bench-monitoring-scale."""

    def but(found: dict[str, Any]) -> dict[str, Any]:
        jobs = [
            {
                key: value
                for key, value in job.items()
                if not re.fullmatch(".*_sd_configs|static_configs", key)
            }
            for job in found["scrape_configs"]
        ]
        return {**found, "scrape_configs": jobs, "rule_files": []}

    measured = watched.site(3).config(9400, 9090, Path("/rules"))
    assert but(measured) == but(config(alertmanager="none"))
    assert [len(job["static_configs"]) for job in measured["scrape_configs"]] == [3, 1, 1]


@pytest.mark.parametrize(
    ("labels", "kept"),
    [
        ("dcgm-exporter;", True), (";nvidia-dcgm-exporter", True), ("dcgm-exporter;dcgm-exporter", True),
        ("my-dcgm-exporter;", False), (";", False),
    ],
)  # fmt: skip
def test_exporters_of_others_are_found_by_their_labels(labels: str, kept: bool) -> None:
    there = {"spaces": {"dcgm-exporter": ["gpu-operator", "more"]}}
    job = config(dcgm_exporter="existing", __gpu_monitoring_cluster=there)["scrape_configs"][0]
    # Not of tenants, whose pods may have the label as well.
    assert job["kubernetes_sd_configs"] == [
        {"role": "pod", "namespaces": {"names": ["gpu-operator", "more"]}}
    ]
    # Prometheus' expressions have to match all of a text.
    assert bool(re.fullmatch(job["relabel_configs"][0]["regex"], labels)) is kept
    assert "ClusterRole gpusmith-prometheus" in titles(made(dcgm_exporter="existing"))
    assert "ClusterRole gpusmith-prometheus" not in titles(made())


@pytest.mark.parametrize(
    ("given", "alerting"),
    [
        ({"alertmanager": "none"}, None),
        ({"alertmanager": "managed"}, "alertmanager;web"),
        ({"alertmanager": "existing", "alertmanager_url": "https://am.example.com:9093/x"}, "am.example.com:9093"),
    ],
)  # fmt: skip
def test_alerts_go_to_the_alertmanager_that_there_is(given: dict[str, Any], alerting: str | None) -> None:
    found = config(**given).get("alerting")
    assert (alerting in json.dumps(found)) if alerting else found is None


def test_a_receivers_password_is_in_a_secret_only() -> None:
    given = {
        "route": {"receiver": "us"},
        "receivers": [{"name": "us", "webhook_configs": [{"url": "http://geheim"}]}],
    }
    objects = made(alertmanager_config=given)
    held = base64.b64decode(one(objects, "Secret", "alertmanager")["data"]["alertmanager.yml"])
    assert yaml.safe_load(held) == given
    assert "geheim" not in json.dumps(objects)
    of_pods = [one(each, "Deployment", "alertmanager")["spec"]["template"] for each in (objects, made())]
    assert of_pods[0]["metadata"]["annotations"] != of_pods[1]["metadata"]["annotations"]


def test_a_pod_that_never_was_ready_is_replaced_by_the_next_run() -> None:
    """That is not so with a StatefulSet: whose image's name was misspelt, would keep that pod."""
    kinds = {row["metadata"]["name"]: row for row in made() if "template" in row.get("spec", {})}
    assert {row["kind"] for row in kinds.values()} == {"Deployment", "DaemonSet"}
    # Nodes that are down count.
    assert kinds["dcgm-exporter"]["spec"]["updateStrategy"]["rollingUpdate"] == {"maxUnavailable": "10%"}
    # Never two at once, of which one would find the volume locked.
    assert kinds["prometheus"]["spec"]["strategy"] == {"type": "Recreate"}
    # With a wrong configuration, the one before goes on.
    assert kinds["alertmanager"]["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize(
    ("hosts", "memory"),
    [(0, ["256Mi", "512Mi"]), (10, ["256Mi", "512Mi"]), (1000, ["2048Mi", "4096Mi"]), (1001, ["2048Mi", "4096Mi"]),
     (5000, ["8192Mi", "16384Mi"])],
)  # fmt: skip
def test_the_memory_of_prometheus_follows_the_gpus_of_the_inventory(hosts: int, memory: list[str]) -> None:
    """In steps, since another limit starts it anew."""
    given = {f"gpu-{number}": {"gpusmith_gpu_count": "8"} for number in range(hosts)} | {"other": {}}
    objects = made(groups={"all": list(given)}, hostvars=given)
    (container,) = one(objects, "Deployment", "prometheus")["spec"]["template"]["spec"]["containers"]
    assert [container["resources"][word]["memory"] for word in ("requests", "limits")] == memory


def test_a_value_that_is_encrypted_alone_arrives_open() -> None:
    """As 'ansible-vault encrypt_string' has it: filters that write YAML would write the closed vault."""
    url = VaultedValue(ciphertext="$ANSIBLE_VAULT;1.1;AES256\n62").tag("https://geheim")
    given = {"receivers": [{"name": "us", "webhook_configs": [{"url": url}]}]}
    texts = {"gpu_monitoring_alertmanager_config": given, "__gpu_monitoring_files": ["alertmanager.yml.j2"]}
    objects = of_role("gpu_monitoring", "{{ __gpu_monitoring_objects }}", {}, texts)
    held = base64.b64decode(one(objects, "Secret", "alertmanager")["data"]["alertmanager.yml"])
    assert yaml.safe_load(held) == given


def test_the_volume_is_kept_where_there_is_one() -> None:
    storage = {"size": "50Gi", "class": "fast"}
    for given, volume in (({}, "emptyDir"), ({"storage": storage}, "persistentVolumeClaim")):
        objects = made(**given)
        volumes = one(objects, "Deployment", "prometheus")["spec"]["template"]["spec"]["volumes"]
        assert volume in volumes[-1]
        assert ("PersistentVolumeClaim prometheus" in titles(objects)) is bool(given)
        assert "PersistentVolumeClaim prometheus" not in titles(
            filled_in(REMOVE, "objects", **parts(**given))
        )
        assert "PersistentVolumeClaim prometheus" not in titles(
            filled_in(INSTALL, "gone", **parts("none", dashboards="managed", **given))
        )


def test_removal_takes_all_that_any_part_made() -> None:
    kept = {"PersistentVolumeClaim prometheus"}
    worlds: list[dict[str, Any]] = [
        parts(),
        parts("existing", dashboards="none"),
        parts(prometheus="existing", **OPERATOR),
    ]
    everything = set().union(*(titles(made(**world)) for world in worlds))
    assert everything - kept <= titles(filled_in(REMOVE, "objects", **parts("none")))


@pytest.mark.parametrize("part", PARTS)
def test_a_part_that_is_no_longer_ours_goes_and_the_others_stay(part: str) -> None:
    given = parts(**{part: "none"})
    before, gone, stay = (
        {apply.name_of(row) for row in rows}
        for rows in (made(), *(filled_in(INSTALL, word, **given) for word in ("gone", "objects")))
    )
    assert before - stay <= gone
    assert not gone & stay


@pytest.mark.parametrize(
    ("given", "there", "not_there"),
    [
        (OPERATOR, {"PodMonitor gpusmith-dcgm-exporter", "PrometheusRule gpusmith"}, {"ConfigMap prometheus-rules"}),
        ({}, {"ConfigMap prometheus-rules"}, {"PrometheusRule gpusmith", "PodMonitor gpusmith-dcgm-exporter"}),
        ({**OPERATOR, "dcgm_exporter": "existing"}, {"PrometheusRule gpusmith"}, {"PodMonitor gpusmith-dcgm-exporter"}),
    ],
)  # fmt: skip
def test_an_existing_prometheus_gets_exporter_and_rules(
    given: dict[str, Any], there: set[str], not_there: set[str]
) -> None:
    site = parts("none", dcgm_exporter="managed", prometheus="existing", operator_labels={"release": "stack"})
    objects = filled_in(INSTALL, "objects", **{**site, **given})
    assert there <= titles(objects)
    assert not not_there & titles(objects)
    assert not {"Deployment prometheus", "ConfigMap prometheus"} & titles(objects)
    for row in objects:
        if row["apiVersion"].startswith("monitoring.coreos.com/"):
            assert row["metadata"]["labels"]["release"] == "stack"
    exporter = [spec for spec in objects if spec["kind"] == "DaemonSet"]
    asked = [
        row["spec"]["template"]["metadata"]["annotations"].get("prometheus.io/scrape") for row in exporter
    ]
    assert asked == ([] if not exporter else [None if "__gpu_monitoring_cluster" in given else "true"])


@pytest.mark.parametrize(
    ("given", "jobs", "nodes", "namespace", "notes"),
    [
        ({}, ["dcgm-exporter", "kube-state-metrics", "prometheus"], ["gpu-1"], "gpusmith-monitoring",
         ["emptyDir", "'gpu_monitoring_alertmanager_config' names receivers"]),
        ({"alertmanager": "none", "storage": {"size": "1Gi"}}, ["dcgm-exporter", "kube-state-metrics", "prometheus"], ["gpu-1"],
         "gpusmith-monitoring", ["'gpu_monitoring_alertmanager' is 'none'"]),
        ({"prometheus": "existing", "alertmanager": "none"}, None, ["gpu-1"], "", []),
        ({"dcgm_exporter": "none", "alertmanager_config": {"route": {}}, "kube_state_metrics": "none"}, ["prometheus"], [],
         "gpusmith-monitoring", ["port-forward service/prometheus 9090", "emptyDir"]),
    ],
)  # fmt: skip
def test_what_is_waited_for_and_told(
    given: dict[str, Any], jobs: list[str] | None, nodes: list[str], namespace: str, notes: list[str]
) -> None:
    found = {
        word: filled_in(VERIFY, word, **parts(**given)) for word in ("jobs", "nodes", "namespace", "notes")
    }
    assert jobs is None or found["jobs"] == jobs
    assert list(found["nodes"]) == nodes
    assert found["namespace"] == namespace
    told = " ".join(found["notes"])
    assert [note for note in notes if note not in told] == []
    assert ("emptyDir" in told) is ("emptyDir" in notes)
    assert bool(told) is bool(notes)


@pytest.mark.parametrize("owner", ["none", "existing", "managed"])
def test_without_any_part_no_task_runs(owner: str) -> None:
    for name in ("install", "verify", "verdict", "validate"):
        for task in yaml.safe_load((ROLE / f"tasks/{name}.yml").read_text()):
            assert task["when"] == "__gpu_monitoring_wanted"
    wanted = [
        filled_in(
            {"gpusmith.x": {"a": "{{ __gpu_monitoring_wanted }}"}}, "a", **parts("none", **{part: owner})
        )
        for part in PARTS
    ]
    assert wanted == [owner != "none"] * len(PARTS)


def test_xids_count_that_all_hosts_accept() -> None:
    hosts: dict[str, Any] = {
        "a": {"validation_accepted_xids": [13, 79]},
        "b": {},
        "c": {"validation_accepted_xids": [31, 79]},
    }
    task = {"gpusmith.x": {"lists": "{{ __gpu_monitoring_accepted }}"}}
    for here, given, lists in (
        (["a", "b", "c"], {}, [[13, 79], False, [31, 79]]),
        (["b"], {}, [False]),
        (["b"], {"validation_accepted_xids": [8]}, [False, [8]]),
    ):
        with_gpus = {name: {**hosts[name], "gpusmith_gpu_model": "h100-sxm"} for name in here}
        play = {"groups": {"all": [*hosts, "other"]}, "hostvars": {**hosts, "other": {}, **with_gpus}}
        assert filled_in(task, "lists", **play, **given) == lists


def test_a_number_of_the_command_line_is_one() -> None:
    """What -e KEY=VALUE gives is a text."""
    assert made(interval_s="20") == made(interval_s=20)
    assert made(interval_s=20) != made()
