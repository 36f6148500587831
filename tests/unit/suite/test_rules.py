"""What values of the inventory may be, for playbooks and suite alike."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from gpusmith import rules
from gpusmith.inventory import DEFAULT_SYSCTL, DEFAULT_TAINTS, NEEDED
from gpusmith.paths import repo_root

TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


def taint(**changes: Any) -> list[dict[str, Any]]:
    return [{**TAINT, **changes}]


@pytest.mark.parametrize(
    ("name", "value", "place", "wants"),
    [
        ("ansible_host", {"a": 1}, "ansible_host", "a string"),
        ("ansible_user", ["root"], "ansible_user", "a string"),
        ("ansible_user", 1000, "ansible_user", "a string"),
        ("ansible_become_user", True, "ansible_become_user", "a string"),
        ("ansible_port", [22], "ansible_port", "a port"),
        ("ansible_port", "ssh", "ansible_port", "a port"),
        ("ansible_port", True, "ansible_port", "a port"),
        ("ansible_port", 65536, "ansible_port", "a port"),
        ("ansible_port", 0, "ansible_port", "a port"),
        ("ansible_become", ["yes"], "ansible_become", "true or false"),
        ("gpusmith_kubeconfig", ["/a"], "gpusmith_kubeconfig", "the path of a file"),
        ("gpusmith_kubeconfig", "~nobody-at-all/config", "gpusmith_kubeconfig", "the path of a file"),
        ("validation_kubeconfig", "/", "validation_kubeconfig", "the path of a file"),
        ("host_baseline_swap", "kep", "host_baseline_swap", "one of 'off', 'keep'"),
        ("host_baseline_swap", True, "host_baseline_swap", "one of 'off', 'keep'"),
        ("host_baseline_sysctl", ["a"], "host_baseline_sysctl", "a mapping"),
        ("host_baseline_sysctl", {"a": ["1"]}, "host_baseline_sysctl.a", "a string of one line or a number"),
        ("host_baseline_sysctl", {"a": True}, "host_baseline_sysctl.a", "a string of one line or a number"),
        ("host_baseline_sysctl", {"a": "1\nb = 2"}, "host_baseline_sysctl.a", "a string of one line"),
        ("host_baseline_sysctl", {"a b": "1"}, "host_baseline_sysctl", "names of kernel parameters"),
        ("kubernetes_node_labels", ["a"], "kubernetes_node_labels", "a mapping"),
        ("kubernetes_node_labels", None, "kubernetes_node_labels", "a mapping"),
        ("kubernetes_node_labels", {"a": 1}, "kubernetes_node_labels.a", "quote it"),
        ("kubernetes_node_labels", {"a": None}, "kubernetes_node_labels.a", "quote it"),
        ("kubernetes_node_labels", {"a": "b c"}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a": "b\n"}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a": "-b"}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a": "b" * 64}, "kubernetes_node_labels.a", "63 letters"),
        ("kubernetes_node_labels", {"a b": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"a" * 64: "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"Example.com/a": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"a/b/c": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {"/c": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_labels", {f"{'a.' * 126}aa/c": "c"}, "kubernetes_node_labels", "keys"),
        ("kubernetes_node_taints", "x", "kubernetes_node_taints", "a list"),
        ("kubernetes_node_taints", ["x"], "kubernetes_node_taints[0]", "a mapping of key"),
        ("kubernetes_node_taints", [{"key": "a"}], "kubernetes_node_taints[0]", "a mapping of key"),
        ("kubernetes_node_taints", taint(since=1), "kubernetes_node_taints[0]", "a mapping of key"),
        ("kubernetes_node_taints", taint(key="a b"), "kubernetes_node_taints[0].key", "63 letters"),
        ("kubernetes_node_taints", taint(key=["a"]), "kubernetes_node_taints[0].key", "63 letters"),
        (
            "kubernetes_node_taints",
            taint(effect="NoSchedul"),
            "kubernetes_node_taints[0].effect",
            "NoExecute",
        ),
        ("kubernetes_node_taints", taint(effect=["x"]), "kubernetes_node_taints[0].effect", "NoExecute"),
        ("kubernetes_node_taints", taint(value=1), "kubernetes_node_taints[0].value", "quote it"),
        ("kubernetes_node_taints", taint(value="a/b"), "kubernetes_node_taints[0].value", "63 letters"),
        ("kubernetes_node_taints", [TAINT, taint(value="x")[0]], "kubernetes_node_taints[1]", "the only one"),
        ("kubernetes_node_startup_taint", "a b", "kubernetes_node_startup_taint", "empty or"),
    ],
)
def test_wrong_values_are_named_with_what_is_allowed(name: str, value: Any, place: str, wants: str) -> None:
    (wrong,) = rules.find({name: value})
    assert wrong.message.startswith(f"'{place}' must be ")
    assert wants in wrong.wants


@pytest.mark.parametrize(
    "values",
    [
        {"ansible_host": "192.0.2.1", "ansible_port": "22", "ansible_user": None, "ansible_become": "yes"},
        {"ansible_port": 65535, "ansible_become": True},
        {"gpusmith_kubeconfig": "/nowhere/config", "validation_kubeconfig": ""},
        {"host_baseline_swap": False},
        {"host_baseline_swap": "keep"},
        {"host_baseline_sysctl": {"vm.swappiness": 0, "net.ipv4.tcp_rmem": "4096 131072 6291456"}},
        {"kubernetes_node_labels": {"a": "", "example.com/A_b.c-1": "H100_80.GB-x", "a" * 63: "b" * 63}},
        {"kubernetes_node_labels": {f"{'a.' * 126}a/c": "c"}},
        {"kubernetes_node_taints": [TAINT, {"key": "nvidia.com/gpu", "effect": "NoExecute"}]},
        {"kubernetes_node_taints": taint(value=None), "kubernetes_node_startup_taint": ""},
        {"kubernetes_node_startup_taint": "gpusmith.io/unvalidated", "rack": ["anything"]},
    ],
)
def test_good_values_pass(values: dict[str, Any]) -> None:
    assert list(rules.find(values)) == []


def test_what_the_rules_allow_is_what_roles_and_suite_start_from() -> None:
    taints = yaml.safe_load((repo_root() / "roles/kubernetes_node/meta/argument_specs.yml").read_text())
    options = taints["argument_specs"]["main"]["options"]
    effects = options["kubernetes_node_taints"]["options"]["effect"]["choices"]
    assert list(rules.EFFECTS) == effects
    host = yaml.safe_load((repo_root() / "roles/host_baseline/meta/argument_specs.yml").read_text())
    assert list(rules.SWAP) == host["argument_specs"]["main"]["options"]["host_baseline_swap"]["choices"]
    assert not list(
        rules.find({"kubernetes_node_taints": DEFAULT_TAINTS, "host_baseline_sysctl": DEFAULT_SYSCTL})
    )


def test_templates_are_filled_in_before_the_rules_look() -> None:
    assert set(rules.RULES) <= set(NEEDED)
