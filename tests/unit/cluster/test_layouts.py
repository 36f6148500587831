"""Operands of layouts: what is deployed for each, and what is taken away again."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpusmith.change.ledger import State
from gpusmith.cluster.layouts import left
from gpusmith.data.operands import DEVICE_PLUGIN, DRA_DRIVER, FEATURE_DISCOVERY, MPS_DAEMON
from gpusmith.names import (
    DEVICE_CLASS,
    GPU_RESOURCE,
    LAYOUT_LABEL,
    MANAGED_BY,
    OPERANDS_LABEL,
    SHARE_RESOURCE,
    UPGRADE,
)
from gpusmith.probe.mps import ROOT
from gpusmith.wanted.layouts import CLAIMS, Layout, instances, serves
from tests.unit.cluster.conftest import Memory
from tests.unit.cluster.roles import filled_in
from tests.unit.ledgers import ledger

SHARED, AS_GPU = Layout(4, SHARE_RESOURCE), Layout(2, GPU_RESOURCE)
HALVES = instances("3g.40gb", 2)
BY_MPS = Layout(4, SHARE_RESOURCE, mps=True)
pytestmark = pytest.mark.usefixtures("lookups")
FILES = ["device-plugin.yml.j2", "dra-driver.yml.j2", "gpu-feature-discovery.yml.j2"]


def objects(*layouts: Layout) -> list[dict[str, Any]]:
    """What the role describes where nodes have these layouts."""
    rows = [
        {name: getattr(row, name) for name in ("label", "shares", "resource", "strategy", "sharing")}
        for row in layouts
    ]
    found: list[dict[str, Any]] = filled_in(
        "{{ __gpu_operands_objects }}",
        __gpu_operands_files=FILES,
        __gpu_operands_layouts=[{"label": "", "strategy": "none", "sharing": "none"}, *rows],
    )
    return found


def of_kind(kind: str, rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["metadata"]["name"]: row for row in rows if row["kind"] == kind}


def test_each_layout_has_operands_of_its_own_on_nodes_of_its_own() -> None:
    found = of_kind("DaemonSet", objects(SHARED, AS_GPU))
    names = [
        f"{base}{end}"
        for base in (DEVICE_PLUGIN, FEATURE_DISCOVERY)
        for end in ("", "-time-slicing-4", "-time-slicing-2-as-gpu")
    ]
    assert list(found) == names
    for name, row in found.items():
        spec = row["spec"]["template"]["spec"]
        component = next(base for base in (DEVICE_PLUGIN, FEATURE_DISCOVERY) if name.startswith(base))
        assert serves(name, component)
        label = name.removeprefix(component).removeprefix("-")
        chosen = spec["nodeSelector"]
        assert chosen == {OPERANDS_LABEL: "enabled", **({LAYOUT_LABEL: label} if label else {})}
        terms = (
            spec.get("affinity", {})
            .get("nodeAffinity", {})
            .get("requiredDuringSchedulingIgnoredDuringExecution")
        )
        rest = {"key": LAYOUT_LABEL, "operator": "DoesNotExist"}
        assert terms == (None if label else {"nodeSelectorTerms": [{"matchExpressions": [rest]}]})
        mine = {"app.kubernetes.io/name": component, **({LAYOUT_LABEL: label} if label else {})}
        assert row["spec"]["selector"]["matchLabels"] == row["spec"]["template"]["metadata"]["labels"] == mine
        env = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
        assert ("CONFIG_FILE" in env) is bool(label)
        maps = [volume["configMap"]["name"] for volume in spec["volumes"] if "configMap" in volume]
        assert maps == ([f"gpu-layout-{label}"] if label else [])
        mounted = [m["mountPath"] for m in spec["containers"][0]["volumeMounts"] if m["name"] == "layout"]
        assert mounted == (["/etc/gpu-layout"] if label else [])


@pytest.mark.parametrize(("layout", "renamed"), [(SHARED, True), (AS_GPU, False)])
def test_the_plugin_is_told_how_to_divide(layout: Layout, renamed: bool) -> None:
    (row,) = of_kind("ConfigMap", objects(layout)).values()
    assert row["metadata"]["labels"] == {MANAGED_BY: "gpusmith", LAYOUT_LABEL: layout.label}
    told = yaml.safe_load(row["data"]["config.yaml"])
    assert told["version"] == "v1"
    assert told["sharing"]["timeSlicing"] == {
        "renameByDefault": renamed,
        "failRequestsGreaterThanOne": True,
        "resources": [{"name": GPU_RESOURCE, "replicas": layout.shares}],
    }


def test_what_mig_divides_is_called_by_its_profile() -> None:
    found = objects(HALVES)
    assert not of_kind("ConfigMap", found)
    for base in (DEVICE_PLUGIN, FEATURE_DISCOVERY):
        strategies = {
            name: env["value"]
            for name, row in of_kind("DaemonSet", found).items()
            if name.startswith(base)
            for env in row["spec"]["template"]["spec"]["containers"][0]["env"]
            if env["name"] == "MIG_STRATEGY"
        }
        # The plugin never offers a GPU whole that MIG divides, whatever the label says.
        whole = "mixed" if base == DEVICE_PLUGIN else "none"
        assert strategies == {base: whole, f"{base}-mig-2x3g.40gb": "mixed"}


def test_the_plugin_of_instances_waits_for_them() -> None:
    row = of_kind("DaemonSet", objects(HALVES))[f"{DEVICE_PLUGIN}-mig-2x3g.40gb"]
    (volume,) = [each for each in row["spec"]["template"]["spec"]["volumes"] if each["name"] == "divided"]
    assert volume["hostPath"] == {"path": "/run/gpusmith/gpu-layout/mig-2x3g.40gb", "type": "File"}


def test_mps_has_its_daemon_and_the_plugin_waits_for_it() -> None:
    found = objects(BY_MPS)
    sets = of_kind("DaemonSet", found)
    assert set(sets) == {
        DEVICE_PLUGIN, FEATURE_DISCOVERY, *(f"{base}-mps-4" for base in (DEVICE_PLUGIN, FEATURE_DISCOVERY, MPS_DAEMON))
    }  # fmt: skip
    (row,) = of_kind("ConfigMap", found).values()
    assert yaml.safe_load(row["data"]["config.yaml"])["sharing"] == {
        "mps": {
            "renameByDefault": True,
            "failRequestsGreaterThanOne": True,
            "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
        }
    }
    daemon, plugin = (sets[f"{base}-mps-4"]["spec"] for base in (MPS_DAEMON, DEVICE_PLUGIN))
    assert daemon["updateStrategy"] == {"type": "OnDelete"}, "its end is the end of its clients"
    of_daemon, of_plugin = (row["template"]["spec"] for row in (daemon, plugin))
    assert of_daemon["hostPID"] is True
    assert of_daemon["nodeSelector"] == {OPERANDS_LABEL: "enabled", LAYOUT_LABEL: "mps-4"}
    (first,), (container,) = of_daemon["initContainers"], of_daemon["containers"]
    assert first["command"] == [MPS_DAEMON, "mount-shm"]
    assert first["volumeMounts"] == [
        {"name": "mps", "mountPath": "/mps", "mountPropagation": "Bidirectional"}
    ]
    assert container["image"] == of_plugin["containers"][0]["image"]
    # 'mixed' would be refused by the plugin.
    env = {item["name"]: item["value"] for item in of_plugin["containers"][0]["env"]}
    assert (env["MIG_STRATEGY"], env["MPS_ROOT"]) == ("single", ROOT)
    volumes = {row["name"]: row.get("hostPath") for row in of_plugin["volumes"]}
    assert volumes["mps-ready"] == {"path": f"{ROOT}/.ready", "type": "File"}
    for spec in (of_daemon, of_plugin):
        paths = {row["name"]: row["hostPath"]["path"] for row in spec["volumes"] if "hostPath" in row}
        mounts = {row["mountPath"]: paths.get(row["name"]) for row in spec["containers"][0]["volumeMounts"]}
        assert (mounts["/mps"], mounts["/dev/shm"]) == (ROOT, f"{ROOT}/shm")
    assert serves(f"{MPS_DAEMON}-mps-4", MPS_DAEMON)


def test_by_claims_the_dra_driver_is_in_the_plugins_place() -> None:
    found = objects(CLAIMS)
    sets = of_kind("DaemonSet", found)
    assert list(sets) == [DEVICE_PLUGIN, DRA_DRIVER, FEATURE_DISCOVERY, f"{FEATURE_DISCOVERY}-dra"]
    for name in (DRA_DRIVER, f"{FEATURE_DISCOVERY}-dra"):
        chosen = sets[name]["spec"]["template"]["spec"]["nodeSelector"]
        assert chosen == {OPERANDS_LABEL: "enabled", LAYOUT_LABEL: "dra"}
    (chosen,) = of_kind("DeviceClass", found).values()
    assert chosen["metadata"]["name"] == DEVICE_CLASS
    # With it, pods that ask for nvidia.com/gpu would come to these nodes, and no check here counts them.
    assert "extendedResourceName" not in chosen["spec"]
    assert not of_kind("ConfigMap", found)
    labels = [row["metadata"]["labels"].get(LAYOUT_LABEL) for row in found]
    assert labels.count("dra") == len(found) - len(objects())


def test_what_serves_claims_goes_with_the_last_node_that_has_them() -> None:
    rows = [row for row in objects(CLAIMS) if row["metadata"]["labels"].get(LAYOUT_LABEL) == "dra"]
    kinds = {"DaemonSet", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "DeviceClass"}
    assert {row["kind"] for row in rows} == kinds
    assert left(cluster("dra", rows).cluster, objects()) == []
    assert left(cluster("", rows).cluster, objects(CLAIMS)) == []
    gone = left(cluster("", rows).cluster, objects())
    assert {(row["kind"], row["metadata"]["name"]) for row in gone} == {
        (row["kind"], row["metadata"]["name"]) for row in rows
    }


def test_whole_gpus_need_no_more_than_before() -> None:
    assert list(of_kind("DaemonSet", objects())) == [DEVICE_PLUGIN, FEATURE_DISCOVERY]
    assert not of_kind("ConfigMap", objects())


# --- what nobody has any more -----------------------------------------------------------------------------------------


def cluster(label: str, rows: list[dict[str, Any]]) -> Memory:
    """A cluster with these objects, and a node with a layout."""
    paths = {
        "DaemonSet": "/apis/apps/v1/namespaces/{}/daemonsets/{}",
        "ConfigMap": "/api/v1/namespaces/{}/configmaps/{}",
        "ServiceAccount": "/api/v1/namespaces/{}/serviceaccounts/{}",
        "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles/{1}",
        "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{1}",
        "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses/{1}",
    }
    there = {
        paths[row["kind"]].format(row["metadata"].get("namespace"), row["metadata"]["name"]): row
        for row in rows
        if row["kind"] in paths
    }
    return Memory({**there, "/api/v1/nodes/a": {"metadata": {"name": "a", "labels": {LAYOUT_LABEL: label}}}})


@pytest.mark.parametrize(
    ("label", "wanted", "goes"),
    [
        ("", (), True),
        ("time-slicing-4", (), False),  # a node has it still
        ("", (SHARED,), False),
        ("time-slicing-2-as-gpu", (), True),
    ],
)
def test_a_layout_goes_when_nobody_asks_for_it_and_no_node_has_it(
    label: str, wanted: tuple[Layout, ...], goes: bool
) -> None:
    found = left(cluster(label, objects(SHARED)).cluster, objects(*wanted))
    names = [
        f"{DEVICE_PLUGIN}-time-slicing-4",
        f"{FEATURE_DISCOVERY}-time-slicing-4",
        "gpu-layout-time-slicing-4",
    ]
    assert [row["metadata"]["name"] for row in found] == (names if goes else [])


@pytest.mark.parametrize(("state", "goes"), [(State.CHANGING, False), (State.DONE, True)])
def test_the_way_back_of_a_change_stays_until_it_is_finished(state: State, goes: bool) -> None:
    memory = cluster("", objects(SHARED))
    entry = ledger(change="layout change", origin="time-slicing-4", target="whole", state=state)
    memory.objects["/api/v1/nodes/a"]["metadata"]["annotations"] = {UPGRADE: entry}
    assert bool(left(memory.cluster, objects())) is goes


def test_objects_of_others_stay() -> None:
    rows = objects(SHARED)
    for row in rows:
        row["metadata"]["labels"][MANAGED_BY] = "somebody"
    assert left(cluster("", rows).cluster, objects()) == []


def test_who_deploys_no_device_plugin_asks_for_nothing() -> None:
    assert left(None, [{"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "y"}}]) == []  # type: ignore[arg-type]
