"""Types and choices: what guard and suite take, and as what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any

import pytest

from gpusmith.errors import InputError
from gpusmith.inventory import guard, specs
from gpusmith.inventory.specs import Spec, parse
from gpusmith.inventory.target import Run
from gpusmith.inventory.values import FALSE_WORDS, TRUE_WORDS, check, convert
from gpusmith.wanted.node import NodeWanted

DECLARED: Mapping[str, Mapping[str, Any]] = {
    "nvidia_driver_version": {"type": "str"},
    "nvidia_driver_repository": {
        "type": "dict",
        "options": {"uris": {"type": "list", "elements": "str"}, "key": {"type": "str"}},
    },
    "gpusmith_gpu_count": {"type": "int"},
    "gpusmith_simulated": {"type": "bool"},
    "gpusmith_validate": {"type": "str", "choices": ["if_needed", "always", "never"]},
    "cuda_toolkit_versions": {"type": "list", "elements": "str"},
    "kubernetes_node_labels": {"type": "dict"},
    "containerd_registries": {"type": "list", "elements": "dict", "options": {"host": {"type": "str"}}},
}
OPTIONS: Mapping[str, Spec] = {name: parse(option) for name, option in DECLARED.items()}


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        (
            "nvidia_driver_version",
            550.12,
            """Write it in quotes, "..." (in a host's line of an INI file, '"..."')""",
        ),
        ("nvidia_driver_version", 580, """quotes, "580" (in a host's line of an INI file, '"580"')"""),
        ("cuda_toolkit_versions", [12.8], "quotes"),
        ("cuda_toolkit_versions", "12.8", "list"),
        ("cuda_toolkit_versions", ["12.8", None], "[1]' is empty"),
        ("gpusmith_gpu_count", "four", "int"),
        ("gpusmith_gpu_count", True, "int"),
        ("gpusmith_simulated", "perhaps", "bool"),
        ("gpusmith_simulated", 2, "bool"),
        ("gpusmith_validate", False, "quotes"),
        ("gpusmith_validate", "alway", "one of"),
        ("nvidia_driver_repository", {"uri": ["x"]}, "Did you mean 'uris'? Its keys are 'uris', 'key'."),
        ("nvidia_driver_repository", {"url": "x"}, "Did you mean 'uris'? Its keys are 'uris', 'key'."),
        ("nvidia_driver_repository", {"other": "x"}, "has no key 'other'. Its keys are 'uris', 'key'."),
        ("nvidia_driver_repository", "x", 'a mapping, as in {"uris": ["..."], "key": "..."}.'),
        ("kubernetes_node_labels", "x", 'a mapping, as in {"NAME": "..."}.'),
        ("containerd_registries", {}, 'a list, as in [{"host": "..."}].'),
        ("nvidia_driver_repository", {"folder": "/srv/driver"}, "docs/provisioning.md"),
        ("nvidia_driver_repository", {"uris": "x"}, "list"),
    ],
)
def test_values_of_a_wrong_type_are_refused(name: str, value: Any, word: str) -> None:
    (refusal,) = check(name, OPTIONS[name], value)
    assert word in str(refusal)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nvidia_driver_version", "550.120"),
        ("nvidia_driver_version", "{{ site_driver }}"),
        ("nvidia_driver_version", None),
        ("nvidia_driver_version", {"__ansible_vault": "$ANSIBLE_VAULT;1.1;AES256"}),
        ("gpusmith_gpu_count", 8),
        ("gpusmith_gpu_count", "8"),
        ("gpusmith_simulated", "true"),
        ("gpusmith_validate", "always"),
        ("cuda_toolkit_versions", ["12.8"]),
        ("nvidia_driver_repository", {"uris": ["x"]}),
    ],
)
def test_good_values_pass(name: str, value: Any) -> None:
    assert check(name, OPTIONS[name], value) == []


def test_words_for_truth_are_those_of_ansible() -> None:
    from ansible.module_utils.parsing.convert_bool import BOOLEANS_FALSE, BOOLEANS_TRUE

    assert {word for word in BOOLEANS_TRUE if isinstance(word, str)} == TRUE_WORDS
    assert {word for word in BOOLEANS_FALSE if isinstance(word, str)} == FALSE_WORDS


def test_parts_are_converted_as_well() -> None:
    spec = parse(
        {"type": "list", "elements": "dict", "options": {"on": {"type": "bool"}, "n": {"type": "int"}}}
    )
    assert convert(spec, [{"on": "y", "n": "4"}, {"n": None}]) == [{"on": True, "n": 4}, {}]


# --- guard and suite -----------------------------------------------------------------------------------------------


class Hosts:
    """One host's variables, without templates."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def written(self, host: str) -> Mapping[str, Any]:
        return self.values

    def filled(self, host: str, name: str) -> Any:
        return self.values[name]


@pytest.mark.parametrize(
    ("name", "value", "field", "seen"),
    [
        *[("validation_network", word, "validation.network", True) for word in ("y", "Y", "yes", "T", "on", "1", 1, True)],
        *[("validation_network", word, "validation.network", False) for word in ("n", "N", "no", "f", "Off", "0", 0)],
        ("gpusmith_simulated", "y", "simulated", True),
        ("validation_ecc_required", "off", "validation.ecc_required", False),
        ("nvidia_container_toolkit_default_runtime", "On", "toolkit.default_runtime", True),
        ("gpusmith_gpu_count", "4", "gpu_count", 4),
        ("gpusmith_gpu_count", 4.0, "gpu_count", 4),
        ("validation_timeout_pod_s", "600", "validation.timeout_pod_s", 600.0),
        ("validation_accepted_xids", ["13", 31], "validation.accepted_xids", {13, 31}),
        ("host_baseline_swap", "keep", "baseline.swap_off", False),
        # Refused, with the words that both use.
        ("validation_network", "maybe", None, "variable 'validation_network' is the text 'maybe'."),
        ("validation_network", 2, None, "variable 'validation_network' is the number 2."),
        ("gpusmith_simulated", ["y"], None, "variable 'gpusmith_simulated' is the list ['y']."),
        ("gpusmith_gpu_count", "four", None, "variable 'gpusmith_gpu_count' is the text 'four'."),
        ("gpusmith_gpu_count", "4.5", None, "variable 'gpusmith_gpu_count' is the text '4.5'."),
        ("gpusmith_gpu_count", True, None, "variable 'gpusmith_gpu_count' is the truth value True."),
        ("gpusmith_gpu_count", 0, None, "'gpusmith_gpu_count' must be a whole number from 1, not 0."),
        ("validation_timeout_pod_s", -1, None, "'validation_timeout_pod_s' must be a whole number from 1"),
        ("validation_timeout_pod_s", float("nan"), None, "variable 'validation_timeout_pod_s' is the number nan."),
        ("validation_timeout_pod_s", float("inf"), None, "variable 'validation_timeout_pod_s' is the number inf."),
        ("validation_accepted_xids", [True], None, "variable 'validation_accepted_xids[0]' is the truth value"),
        ("validation_accepted_xids", ["x"], None, "variable 'validation_accepted_xids[0]' is the text 'x'."),
        ("nvidia_driver_version", 550.12, None, "variable 'nvidia_driver_version' is the number 550.12."),
        ("containerd_version", 2.3, None, "variable 'containerd_version' is the number 2.3."),
        ("validation_pcie_width", -1, None, "'validation_pcie_width' must be a whole number from 0, not -1."),
        ("host_baseline_swap", False, None, "variable 'host_baseline_swap' is the truth value False."),
        ("host_baseline_swap", "kep", None, "variable 'host_baseline_swap' is 'kep'."),
        ("host_baseline_modules", "overlay", None, "variable 'host_baseline_modules' is the text 'overlay'."),
        ("host_baseline_sysctl", ["x"], None, "variable 'host_baseline_sysctl' is the list ['x']."),
        ("gpu_operands_device_plugin", "Managed", None, "variable 'gpu_operands_device_plugin' is 'Managed'."),
        ("gpu_operands_node_feature_discovery", "", None, "variable 'gpu_operands_node_feature_discovery' is ''."),
        ("kubernetes_node_taints", "x", None, "variable 'kubernetes_node_taints' is the text 'x'."),
        ("kubernetes_node_labels", {"rack": True}, None, "'kubernetes_node_labels.rack' must be a string (quote it)"),
        ("ansible_user", ["a"], None, "'ansible_user' must be a string, not ['a']."),
        ("ansible_become", "y", "name", "gpu-1"),
        ("gpusmith_kubeconfig", "/", None, "'gpusmith_kubeconfig' must be the path of a file, not the folder '/'."),
        ("validation_kubeconfig", "~", None, "'validation_kubeconfig' must be the path of a file, not the folder"),
        ("nvidia_driver_verison", "1", None, "'nvidia_driver_verison' in the inventory does not exist."),
        ("kubernetes_node_startup_taint", "x", None, "'kubernetes_node_startup_taint' in the inventory does not exist."),
    ],
)  # fmt: skip
def test_guard_and_suite_take_and_refuse_the_same(
    host: Callable[..., NodeWanted],
    variables: Callable[..., dict[str, Any]],
    name: str,
    value: Any,
    field: str | None,
    seen: Any,
) -> None:
    run = Run("gpu_nodes", ["gpu-1"], ["gpu-1"])
    refused = guard.refusals(run, Hosts(variables(**{name: value})), specs.load(), cluster=False)
    if field is not None:
        assert refused == []
        assert attrgetter(field)(host(**{name: value})) == seen
        return
    (refusal,) = refused
    assert seen in refusal.message
    with pytest.raises(InputError) as caught:
        host(**{name: value})
    assert (caught.value.message, caught.value.hint) == (refusal.message, refusal.hint)
