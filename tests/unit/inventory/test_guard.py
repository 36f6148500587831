"""What the guard refuses, all reasons in one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gpusmith.inventory import guard, specs
from gpusmith.inventory.target import Run
from gpusmith.inventory.templates import UnfilledError
from gpusmith.inventory.variables import check_templates


class Hosts:
    """Variables per host; what a template becomes is in `filled_in`."""

    def __init__(self, rows: Mapping[str, Mapping[str, Any]], **filled_in: Any) -> None:
        self.rows, self.filled_in = rows, filled_in

    def written(self, host: str) -> Mapping[str, Any]:
        return self.rows[host]

    def filled(self, host: str, name: str) -> Any:
        if name not in self.filled_in:
            raise UnfilledError(name)
        if isinstance(self.filled_in[name], UnfilledError):
            raise self.filled_in[name]
        return self.filled_in[name]


def refused(
    rows: Mapping[str, Mapping[str, Any]], extra: dict[str, Any] | None = None, **filled_in: Any
) -> list[str]:
    run = Run("gpu_nodes", list(rows), list(rows), extra=extra or {})
    found = guard.refusals(run, Hosts(rows, **filled_in), specs.load(), cluster=False)
    return [refusal.message for refusal in found]


def test_every_reason_is_told_with_its_hosts() -> None:
    wrong = {"gpusmith_simulated": "perhaps", "kubernetes_node_labels": {"a": 1}}
    assert refused({"a": wrong, "b": {}, "c": wrong}, {"gpusmith_gpu_count": "four"}) == [
        "Variable 'gpusmith_gpu_count' is the text 'four'.",
        "Hosts 'a', 'c': variable 'gpusmith_simulated' is the text 'perhaps'.",
        "Hosts 'a', 'c': 'kubernetes_node_labels.a' must be a string (quote it), not 1.",
    ]


def test_the_command_line_goes_before_the_inventory() -> None:
    assert refused({"a": {"gpusmith_simulated": "perhaps"}}, {"gpusmith_simulated": "yes"}) == []


def test_templates_are_judged_by_what_they_become() -> None:
    rows = {"a": {"gpusmith_gpu_count": "{{ count }}", "gpusmith_simulated": "{{ ansible_facts.simulated }}"}}
    assert refused(rows, gpusmith_gpu_count="4") == []
    (message,) = refused(rows, gpusmith_gpu_count="four")
    assert "'four'" in message


def test_a_template_that_no_fact_will_help_is_told_at_once() -> None:
    """Such as of a key that was not fetched."""
    rows = {host: {"containerd_repository": {"key": "{{ lookup('file', 'x') }}"}} for host in "ab"}
    never = UnfilledError("File not found. Use -vvvvv to see paths searched.", later=False)
    assert refused(rows, containerd_repository=never) == [
        "Hosts 'a', 'b': the template of 'containerd_repository' cannot be filled in: File not found."
    ]
    assert refused(rows) == []


def test_a_name_without_a_value_is_not_its_default() -> None:
    """Roles read the variable itself: the operand would not be 'managed', and be deleted."""
    rows: dict[str, dict[str, Any]] = {
        "a": {"gpu_operands_device_plugin": None, "gpusmith_gpu_model": None},
        "b": {"nvidia_driver_state": "{{ x }}"},
    }
    assert refused(rows, nvidia_driver_state=None) == [
        "Host 'a': variable 'gpu_operands_device_plugin' is empty.",
        "Host 'b': variable 'nvidia_driver_state' is empty.",
    ]


def test_templates_of_every_role_are_judged() -> None:
    # Playbooks leave the roles' own validation of arguments out.
    rows = {"a": {"containerd_registries": "{{ mirrors }}"}}
    (message,) = refused(rows, containerd_registries=[{"host": "r.example.com"}])
    assert "'containerd_registries[0]' lacks the key 'endpoint'" in message


def test_templates_that_need_facts_are_judged_where_these_are_known() -> None:
    def fill(name: str) -> str:
        if name != "gpusmith_gpu_count":
            raise UnfilledError(name)
        return "four"

    written = {
        "gpusmith_gpu_count": "{{ ansible_facts.gpus }}",
        "host_baseline_swap": "{{ unknown }}",
        "x": "{{ y }}",
    }
    (refusal,) = check_templates(written, fill, specs.load())
    assert refusal.message == "Variable 'gpusmith_gpu_count' is the text 'four'."
    assert check_templates({**written, "gpusmith_gpu_count": 4}, fill, specs.load()) == []


def test_a_limit_and_a_target_are_asked_for_first() -> None:
    run = Run("gpu_nodes", ["a"], [], "b")
    found = guard.refusals(run, Hosts({}), specs.load(), needs_limit="This takes nodes out")
    assert [refusal.message for refusal in found] == ["The limit 'b' leaves no host of group 'gpu_nodes'."]


@pytest.mark.parametrize(
    ("variables", "wrong"),
    [
        ({}, False),
        ({"gpusmith_offline": False}, False),
        ({"gpusmith_offline": True}, True),
        ({"gpusmith_offline": "y"}, True),
        ({"gpusmith_offline": "true", "gpusmith_image_registry": ""}, True),
        ({"gpusmith_offline": True, "gpusmith_image_registry": "registry.example.com:5000"}, False),
    ],
)
def test_offline_needs_a_registry(variables: dict[str, Any], wrong: bool) -> None:
    assert bool(guard.check_offline(variables)) is wrong


SIGNING: dict[str, Any] = {"nvidia_driver_build_signing": {"key": "/k", "certificate": "/c"}}
ONCE = {"nvidia_driver_build": "once_per_kernel"}


def test_a_signing_key_that_would_sign_nothing_is_refused() -> None:
    other = {"nvidia_driver_build": "every_node"}
    rows: dict[str, dict[str, Any]] = {"a": SIGNING, "b": {**SIGNING, **ONCE}, "c": {**SIGNING, **other}}
    (found,) = guard.refusals(
        Run("gpu_nodes", list(rows), list(rows)), Hosts(rows), specs.load(), cluster=False
    )
    assert found.message == (
        "Hosts 'a', 'c': 'nvidia_driver_build_signing' is set, but 'nvidia_driver_build' is not 'once_per_kernel': DKMS of each"
        " node would sign with a key of its own, and nobody with this one."
    )
    assert (
        found.hint == "Set 'nvidia_driver_build: once_per_kernel', or take 'nvidia_driver_build_signing' out."
    )


@pytest.mark.parametrize(
    "variables",
    [
        ONCE,
        {"nvidia_driver_build_signing": {}},
        {"nvidia_driver_build_signing": {"key": "", "certificate": ""}},
        # The distribution signs, and other groups may use the key.
        {**SIGNING, "nvidia_driver_module_build": "prebuilt"},
        {**SIGNING, "nvidia_driver_build": "{{ ansible_facts.build }}"},
    ],
)
def test_a_signing_key_that_is_used_or_absent_is_accepted(variables: dict[str, Any]) -> None:
    assert refused({"a": variables}) == []


def test_the_command_line_counts_for_a_signing_key() -> None:
    assert refused({"a": SIGNING}, ONCE) == []
    assert len(refused({"a": {**SIGNING, **ONCE}}, {"nvidia_driver_build": "every_node"})) == 1


def test_what_a_playbook_decides_itself_cannot_be_given_with_extra_variables() -> None:
    extra = {"nvidia_driver_version": "580.190.02", "gpu_upgrade_version": "580.190.02", "ansible_user": "x"}
    (found,) = guard.check_inventory_only(extra, specs.load(), ["nvidia_driver"])
    assert found.message == "'nvidia_driver_version' cannot be given with -e here."
    assert guard.check_inventory_only(extra, specs.load(), []) == []


@pytest.mark.parametrize(("value", "missing"), [("", True), (None, True), ("580.190.02", False)])
def test_a_variable_that_is_compulsory_for_a_playbook(value: Any, missing: bool) -> None:
    hosts = {"a": {"gpu_upgrade_version": "580.190.02"}, "b": {"gpu_upgrade_version": value}}
    assert bool(guard.check_required(hosts, ["gpu_upgrade_version"])) is missing


@pytest.mark.parametrize("join_tag", ["kubernetes_node", ""])
def test_the_cluster_is_asked_for_kubelets_where_nodes_join(
    join_tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def check_cluster(_hosts: Any, node: str, kubelets: Mapping[str, str]) -> list[Any]:
        asked.append((node, kubelets))
        return []

    monkeypatch.setattr(guard, "check_cluster", check_cluster)
    for name in ("check_kubeconfigs", "check_places", "check_sources"):
        monkeypatch.setattr(guard, name, lambda *_: [])
    versions = {"a": "1.36.3", "b": "1.35.4"}
    rows = {node: {"kubernetes_node_version": version} for node, version in versions.items()}
    run = Run("gpu_nodes", list(rows), list(rows))
    guard.refusals(run, Hosts(rows), specs.load(), cluster=True, join_tag=join_tag)
    assert asked.pop() == ("a", versions if join_tag else {})
    # Whose kubelet is somebody else's need not say which cluster it has joined.
    rows["a"] = {"kubernetes_node_owner": "existing"}
    guard.refusals(run, Hosts(rows), specs.load(), cluster=True, join_tag=join_tag)
    assert asked == [("b", {"b": "1.35.4"} if join_tag else {})]


@pytest.mark.parametrize(
    ("changing", "tags", "says"),
    [
        (("gpu_operands",), ("all",), 1),
        (("gpu_monitoring", "gpu_operands"), ("gpu_operands",), 1),
        (("gpu_operands",), ("containerd",), 0),
        ((), ("all",), 0),
    ],
)
def test_hosts_that_disagree_about_the_cluster_are_refused_where_it_would_be_changed(
    changing: tuple[str, ...], tags: tuple[str, ...], says: int
) -> None:
    rows: dict[str, dict[str, Any]] = {"a": {}, "b": {"gpu_operands_device_plugin": "existing"}}
    run = Run("gpu_nodes", list(rows), ["a"], "a", tags=tags)
    known = ["gpu_operands", "containerd"]
    found = guard.refusals(run, Hosts(rows), specs.load(), cluster=False, tags=known, cluster_tags=changing)
    assert len([each for each in found if "disagree" in each.message]) == says


def test_a_plan_has_one_version_and_one_budget() -> None:
    rows = {
        "h100": {"gpu_upgrade_version": "580.200.01", "gpu_upgrade_max_unavailable": "8"},
        "l40s": {"gpu_upgrade_version": "570.195.03", "gpu_upgrade_canary": "1"},
    }

    def refused_with(
        extra: dict[str, Any], *required: str, roles: tuple[str, ...] = ("nvidia_driver",)
    ) -> list[str]:
        run = Run("gpu_nodes", list(rows), list(rows), extra=extra)
        found = guard.refusals(
            run, Hosts(rows), specs.load(), cluster=False, inventory_only=roles, required=required
        )
        return [refusal.message for refusal in found]

    assert refused_with({}, "gpu_upgrade_version") == [
        (
            "'gpu_upgrade_version' holds for the whole run, and its hosts disagree:"
            " '580.200.01' for 'h100'; '570.195.03' for 'l40s'."
        ),
        "'gpu_upgrade_max_unavailable' holds for the whole run, and its hosts disagree: '8' for 'h100'; '' for 'l40s'.",
    ]
    budget = {"gpu_upgrade_max_unavailable": "8"}
    assert refused_with({**budget, "gpu_upgrade_version": "580.200.01"}, "gpu_upgrade_version") == []
    # A rollback goes by what nodes remember, and other playbooks by none of it.
    assert refused_with(budget) == []
    assert refused_with({}, roles=()) == []


def test_whether_nodes_are_validated_is_decided_for_the_whole_run() -> None:
    """The first host's word would be taken for all of them, and nobody be validated."""
    rows = {"a": {"gpusmith_validate": "never"}, "b": {}, "c": {"gpusmith_validate": "if_needed"}}
    assert refused(rows) == [
        "'gpusmith_validate' holds for the whole run, and its hosts disagree: 'never' for 'a'; 'if_needed' for 'b', 'c'."
    ]
    assert refused(rows, {"gpusmith_validate": "always"}) == []
