from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import guard

OPTIONS: guard.Options = {
    "nvidia_driver_version": {"type": "str"},
    "nvidia_driver_repository": {
        "type": "dict",
        "options": {"uris": {"type": "list", "elements": "str"}, "key": {"type": "str"}},
    },
    "gpusmith_gpu_count": {"type": "int"},
    "gpusmith_simulated": {"type": "bool"},
    "gpusmith_validate": {"type": "str", "choices": ["if_needed", "always", "never"]},
    "cuda_toolkit_versions": {"type": "list", "elements": "str"},
}
PREFIXES = guard.prefixes_of(["nvidia_driver", "cuda_toolkit"])


def test_extra_variables_must_be_declared() -> None:
    found = guard.check_extra_names(["wrong_variable", "gpusmith_validate", "ansible_user"], OPTIONS)
    assert [finding.message for finding in found] == [
        "Variable 'wrong_variable', given with -e, does not exist."
    ]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("nvidia_driver_verison", "nvidia_driver_version"), ("nvdia_driver_version", "nvidia_driver_version")],
)
def test_misspelt_names_are_refused_and_the_nearest_is_offered(name: str, nearest: str) -> None:
    (finding,) = guard.check_inventory_names([name], OPTIONS, PREFIXES)
    assert f"'{name}'" in finding.message
    assert f"'{nearest}'" in finding.hint


@pytest.mark.parametrize("name", ["my_site_variable", "ansible_host", "nvidia_driver_version", "rack"])
def test_other_names_in_the_inventory_are_the_users_business(name: str) -> None:
    assert guard.check_inventory_names([name], OPTIONS, PREFIXES) == []


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("nvidia_driver_version", 550.12, "quotes"),
        ("nvidia_driver_version", 580, "quotes"),
        ("cuda_toolkit_versions", [12.8], "quotes"),
        ("cuda_toolkit_versions", "12.8", "list"),
        ("gpusmith_gpu_count", "four", "int"),
        ("gpusmith_gpu_count", True, "int"),
        ("gpusmith_simulated", "perhaps", "bool"),
        ("gpusmith_validate", False, "quotes"),
        ("gpusmith_validate", "alway", "one of"),
        ("nvidia_driver_repository", {"uri": ["x"]}, "uris"),
        ("nvidia_driver_repository", {"uris": "x"}, "list"),
    ],
)
def test_values_of_a_wrong_type_are_refused(name: str, value: Any, word: str) -> None:
    (finding,) = guard.check_values({name: value}, OPTIONS)
    assert word in finding.text()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nvidia_driver_version", "550.120"),
        ("nvidia_driver_version", "{{ site_driver }}"),
        ("nvidia_driver_version", None),
        ("gpusmith_gpu_count", 8),
        ("gpusmith_gpu_count", "8"),
        ("gpusmith_simulated", "true"),
        ("gpusmith_validate", "always"),
        ("cuda_toolkit_versions", ["12.8"]),
        ("nvidia_driver_repository", {"uris": ["x"]}),
    ],
)
def test_good_values_pass(name: str, value: Any) -> None:
    assert guard.check_values({name: value}, OPTIONS) == []


def test_a_run_without_gpu_nodes_is_refused() -> None:
    assert "no host in group" in guard.check_target("gpu_nodes", [], ["localhost"], [], None)[0].message
    (finding,) = guard.check_target("gpu_nodes", ["gpu-1"], ["cp-1"], [], "cp-1")
    assert "'cp-1'" in finding.message
    assert "'gpu-1'" in finding.hint
    (finding,) = guard.check_target("gpu_nodes", [], ["localhost"], ["/no/where"], None)
    assert "'/no/where' does not exist" in finding.message
    assert guard.check_target("gpu_nodes", ["gpu-1", "gpu-2"], ["gpu-2"], [], "gpu-2") == []


def test_the_kubeconfig_must_lead_to_the_cluster_that_nodes_join() -> None:
    here = ["https://10.0.0.1:6443", "https://api.example:6443"]
    assert guard.check_same_cluster("k", "10.0.0.1:6443", here) == []
    assert guard.check_same_cluster("k", "api.example", here) == []
    assert guard.check_same_cluster("k", "", here) == []
    assert guard.check_same_cluster("k", "10.0.0.1:6443", []) == []
    (finding,) = guard.check_same_cluster("k", "10.9.9.9:6443", here)
    assert "10.9.9.9:6443" in finding.message


def test_a_reason_names_its_hosts() -> None:
    one = guard.on_hosts(guard.Finding("Variable 'a' is wrong.", "Do."), ["gpu-1"])
    assert one.text() == "Host 'gpu-1': variable 'a' is wrong. Do."
    assert guard.on_hosts(one, ["gpu-1", "gpu-2"]).message.startswith("Hosts 'gpu-1', 'gpu-2': ")


@pytest.mark.parametrize("value", ["{{ a }}", "{% if a %}b{% endif %}", {"a": ["{{ b }}"]}, {"{{ a }}": 1}])
def test_templates_are_found_wherever_they_are(value: Any) -> None:
    assert guard.has_template(value)
    assert not guard.has_template({"a": ["b", 1, None, "{ c }"]})


def test_long_lists_are_shortened() -> None:
    assert guard.shorten([f"gpu-{n}" for n in range(8)]).endswith("and 3 more")


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({}, False),
        ({"gpusmith_offline": False}, False),
        ({"gpusmith_offline": True}, True),
        ({"gpusmith_offline": "true", "gpusmith_image_registry": ""}, True),
        ({"gpusmith_offline": True, "gpusmith_image_registry": "registry.example.com:5000"}, False),
    ],
)
def test_offline_needs_a_registry(variables: dict[str, Any], refused: bool) -> None:
    assert bool(guard.check_offline(variables)) is refused


def test_a_second_inventory_is_refused() -> None:
    assert guard.check_sources(["one"]) == []
    (finding,) = guard.check_sources(["one", "two"])
    assert "'two'" in finding.message
