"""What is decided for the whole cluster is decided by all its GPU hosts, whichever of them a run works on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusmith.inventory import specs
from gpusmith.inventory.target import Run
from gpusmith.inventory.templates import UnfilledError, has_open
from gpusmith.wanted import cluster

PLUGIN = "gpu_operands_device_plugin"
KNOWN = specs.load()


class Hosts:
    """Variables per host; what a template becomes is in `filled_in`."""

    def __init__(self, rows: Mapping[str, Mapping[str, Any]], filled_in: Mapping[str, Any]) -> None:
        self.rows, self.filled_in = rows, filled_in

    def written(self, host: str) -> Mapping[str, Any]:
        return self.rows[host]

    def filled(self, host: str, name: str) -> Any:
        if name not in self.filled_in:
            raise UnfilledError(name)
        return self.filled_in[name]


def refused(
    rows: Mapping[str, Mapping[str, Any]],
    limit: tuple[str, ...] = (),
    extra: dict[str, Any] | None = None,
    filled_in: Mapping[str, Any] | None = None,
) -> list[str]:
    given = extra or {}
    # Ansible puts the variables of -e over those of all hosts.
    seen = Hosts({host: {**row, **given} for host, row in rows.items()}, filled_in or {})
    run = Run("gpu_nodes", list(rows), [*(limit or rows), "localhost"], extra=given)
    return [refusal.message for refusal in cluster.refusals(run, seen, KNOWN)]


def test_which_variables_are_cluster_wide_is_read_from_the_specs() -> None:
    of_role = [
        "device_plugin", "feature_discovery", "node_feature_discovery", "device_plugin_image", "dra_driver_image",
        "node_feature_discovery_image",
        "labels", "namespace", "runtime_class",
    ]  # fmt: skip
    of_pipeline = ["namespace", "image", "storage_class", "node_port", "cpu_tolerations", "train_s"]
    names = list(cluster.variables(KNOWN))
    of_monitoring = [name for name in names if name.startswith("gpu_monitoring_")]
    assert {"gpu_monitoring_prometheus", "gpu_monitoring_alertmanager_config"} <= set(of_monitoring)
    assert "gpu_monitoring_ready_timeout_s" not in of_monitoring
    assert names == [
        *(f"gpu_operands_{name}" for name in of_role),
        *of_monitoring,
        "gpu_tenants_teams",
        "gpu_tenants_classes",
        "gpu_tenants_policy",
        "gpu_tenants_policy_exempt",
        *(f"gpu_pipeline_{name}" for name in of_pipeline),
        "gpusmith_image_registry",
        "gpusmith_image_pull_secrets",
    ]


def test_hosts_that_say_the_same_or_nothing_agree() -> None:
    rows = {"a": {}, "b": {PLUGIN: "managed", "gpu_operands_ready_timeout_s": 900}}
    wanted = cluster.of_hosts(rows, KNOWN)
    assert isinstance(wanted, cluster.ClusterWanted)
    assert wanted.values[PLUGIN] == "managed"
    assert wanted.values["gpusmith_image_registry"] == ""
    assert refused(rows) == []
    assert refused(rows, ("b",), {"gpu_operands_ready_timeout_s": 600}) == []


def test_what_is_no_value_of_a_variable_is_for_the_guard_to_refuse() -> None:
    rows = {"a": {"gpu_monitoring_storage": {"storageClass": "fast"}}, "b": {}}
    assert "gpu_monitoring_storage" in " ".join(map(str, refused(rows)))


def test_a_disagreement_about_a_secret_shows_no_value() -> None:
    name = "gpu_monitoring_alertmanager_config"
    rows: dict[str, dict[str, Any]] = {"a": {name: {"route": {"receiver": "geheim"}}}, "b": {}}
    assert refused(rows) == [
        f"'{name}' holds for the whole cluster, and its GPU hosts disagree: 'a', 'b' have 2 values."
    ]


@pytest.mark.parametrize("limit", [(), ("a",), ("c",)])
def test_hosts_that_disagree_are_named_with_both_values_whatever_the_limit(limit: tuple[str, ...]) -> None:
    rows: dict[str, dict[str, Any]] = {"a": {}, "b": {PLUGIN: "managed"}, "c": {PLUGIN: "existing"}}
    assert refused(rows, limit) == [
        f"'{PLUGIN}' holds for the whole cluster, and its GPU hosts disagree: 'managed' for 'a', 'b'; 'existing' for 'c'."
    ]


def test_the_registry_of_the_images_is_one_as_well() -> None:
    (message,) = refused({"a": {"gpusmith_image_registry": "one:5000"}, "b": {}})
    assert message.startswith("'gpusmith_image_registry' holds for the whole cluster")
    assert "'one:5000' for 'a'; '' for 'b'" in message


def test_defaults_of_cluster_wide_variables_are_no_templates() -> None:
    assert [spec for spec in cluster.variables(KNOWN).values() if has_open(spec.default)] == []


def test_templates_are_compared_by_what_they_become() -> None:
    rows = {"a": {PLUGIN: "{{ owner }}", "owner": "managed"}, "b": {}}
    assert refused(rows, filled_in={PLUGIN: "managed"}) == []
    assert len(refused(rows, filled_in={PLUGIN: "existing"})) == 1
    assert refused(rows) == [f"Host 'a': the template of '{PLUGIN}' cannot be filled in."]


@pytest.mark.parametrize(
    ("row", "extra", "says"),
    [
        ({}, {PLUGIN: "existing"}, f"'{PLUGIN}' holds"),
        # Also the value that the inventory may have: -e hides what it says.
        ({PLUGIN: "managed"}, {PLUGIN: "managed"}, f"'{PLUGIN}' holds"),
        (
            {PLUGIN: "{{ theirs }}", "theirs": "{{ owner }}"},
            {"owner": "x"},
            f"'{PLUGIN}' is decided by 'owner', holds",
        ),
        (
            {},
            {"gpusmith_image_registry": "r"},
            "'gpusmith_image_registry' holds",
        ),
    ],
)
def test_the_command_line_decides_nothing_for_hosts_that_the_limit_leaves_out(
    row: dict[str, Any], extra: dict[str, Any], says: str
) -> None:
    rows, filled = {"a": row, "b": row}, {PLUGIN: "x"}
    (message,) = refused(rows, ("a",), extra, filled)
    assert message.startswith(says)
    assert message.endswith("for a part of it: the limit leaves 'b' out.")
    # For all of them it may.
    assert refused(rows, (), extra, filled) == []


def test_a_kubeconfig_that_is_called_in_two_ways_is_one_cluster() -> None:
    written = ("~/kubeconfig", str(Path.home() / "x" / ".." / "kubeconfig"))
    rows = {name: {"gpusmith_kubeconfig": path} for name, path in zip("ab", written, strict=True)}
    assert refused(rows) == []
    rows["b"][PLUGIN] = "existing"
    for limit in ((), ("a",), ("b",)):
        (message,) = refused(rows, limit)
        assert message.startswith(f"'{PLUGIN}' holds for the whole cluster, and its GPU hosts disagree")


def test_hosts_of_another_cluster_are_left_to_its_own_runs() -> None:
    rows = {
        "a": {"gpusmith_kubeconfig": "/one"},
        "b": {"gpusmith_kubeconfig": "/two", PLUGIN: "existing"},
    }
    assert refused(rows, ("a",)) == refused(rows, ("b",)) == []
    assert refused(rows, ("a",), {PLUGIN: "existing"}) == []
    (message,) = refused(rows)
    assert message.startswith("The GPU hosts of this run name several clusters")
    # Who names none is in this one, as far as anybody knows.
    assert len(refused({**rows, "c": {PLUGIN: "existing"}}, ("a",))) == 1
