"""Action plugins that look at a node: what they send, what they return, and when waiting ends."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.playbook.task import Task
from ansible.template import Templar, trust_as_template
from ansible_collections.gpusmith.gpu.plugins.action import device_plugin_restart, driver_wait, node_state

from gpusmith.data import systems
from gpusmith.names import LAYOUT_LABEL
from gpusmith.node.bundle import bundle
from gpusmith.wait import wait_until
from gpusmith.wanted.node import NodeWanted
from tests.unit.expect.role_plans import driver_parts
from tests.unit.records import healthy_record

Run = Callable[..., tuple[dict[str, Any], list[dict[str, Any]]]]
NODE: dict[str, Any] = {"metadata": {"name": "gpu-1"}}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs an action against answers of the node's module; returns its result and what the module was given."""

    def make(
        plugin: Any,
        answers: list[dict[str, Any]],
        check: bool = False,
        wanted: NodeWanted | None = None,
        variables: dict[str, Any] | None = None,
        **arguments: Any,
    ) -> Any:
        sent: list[dict[str, Any]] = []

        def execute(_self: Any, **call: Any) -> dict[str, Any]:
            sent.append(call)
            return dict(answers[min(len(sent), len(answers)) - 1])

        monkeypatch.setattr(plugin.ActionModule, "_execute_module", execute)
        if wanted:
            monkeypatch.setattr(plugin, "of_task", lambda *_: wanted)
        task = Task.load({"name": "x", "action": {"module": "gpusmith.gpu.x", **arguments}})
        task.check_mode = check
        connection = SimpleNamespace(_shell=SimpleNamespace(tmpdir=None))
        own = {"inventory_hostname": "gpu-1", **(variables or {})}
        parts = (SimpleNamespace(check_mode=check), None, Templar(variables=own), None)
        action = plugin.ActionModule(task, connection, *parts)
        return action.run(task_vars=own), sent

    return make


def looked(**module: Any) -> dict[str, Any]:
    record = healthy_record()
    record["module"].update(module)
    return {"changed": False, "record": record, "invocation": {"module_args": {"bundle": "x"}}}


def test_gpus_that_the_inventory_leaves_out_are_none_of_the_nodes(run: Run) -> None:
    result, _ = run(
        node_state,
        [looked()],
        variables={"gpusmith_gpus_ignored": [trust_as_template("{{ slot }}")], "slot": "0000:18:00.0"},
    )
    pci = result["record"]["pci"]
    assert [len(pci["gpus"]), len(pci["left_out"]), len(result["record"]["nvml"]["gpus"])] == [3, 1, 3]


def test_the_probe_travels_and_its_record_comes_back_with_the_stamp(run: Run) -> None:
    result, sent = run(node_state, [looked()], nvml_timeout="7")
    assert result["record"] == healthy_record()
    assert result["stamp"]["driver"] == "580.178.04"
    assert "invocation" not in result
    assert [(call["module_name"], call["module_args"]["nvml_timeout"]) for call in sent] == [
        ("gpusmith.gpu.probe", 7.0)
    ]
    assert base64.b64decode(sent[0]["module_args"]["bundle"]) == bundle()


def test_a_look_tells_ansible_the_operating_system(run: Run) -> None:
    answer = looked()
    answer["record"]["host"].update(os_id="debian", os_version="12")
    answer["ansible_facts"] = {"discovered_interpreter_python": "/usr/bin/python3"}
    result, _sent = run(node_state, [answer])
    assert result["ansible_facts"] == {
        "discovered_interpreter_python": "/usr/bin/python3",
        "distribution": "Debian", "distribution_version": "12", "distribution_major_version": "12", "os_family": "Debian",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("os_id", "version", "names"),
    [
        ("rocky", "9.5", ["Rocky_9.yml", "Rocky.yml", "RedHat_9.yml", "RedHat.yml"]),
        ("plan9", "4", None),
        ("debian", None, None),
    ],
)
def test_names_of_systems_are_those_of_ansible(
    os_id: str, version: str | None, names: list[str] | None
) -> None:
    facts = systems.os_facts({"os_id": os_id, "os_version": version})
    assert (systems.candidates(facts) if facts else None) == names


def test_a_module_that_failed_is_told_as_it_is(run: Run) -> None:
    result, _sent = run(node_state, [{"failed": True, "msg": "no python"}])
    assert (result["failed"], result["msg"]) == (True, "no python")


LAYOUTS = {
    "nvidia": [
        {
            "packages": [],
            "module": {"dkms": {"open": ["nvidia-driver-cuda"]}},
            "patterns": [],
            "stands_for_all": "nvidia-driver-cuda",
        }
    ]
}


def wanted(fabric_manager: str = "disabled") -> dict[str, Any]:
    settings = {"version": "580.178.04", "fabric_manager": fabric_manager, "components": []}
    of_node, own = driver_parts({"node": "gpu-1", **settings}, LAYOUTS)
    return {"wanted": of_node, "own": own}


def test_waiting_ends_when_nothing_differs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_wait, "wait_until", partial(wait_until, sleep=lambda _seconds: None))
    late = looked()
    late["record"]["services"]["nvidia-persistenced"]["active"] = "activating"
    result, sent = run(driver_wait, [late, late, looked()], **wanted(), timeout=60)
    assert len(sent) == 3
    assert result["record"] == healthy_record()
    assert result["waited"] >= 0
    assert "failed" not in result


def test_what_waiting_cannot_help_is_not_waited_for(run: Run) -> None:
    result, sent = run(driver_wait, [looked(loaded_version="1.2.3")], **wanted(), timeout=60)
    assert len(sent) == 1
    assert result["record"]["module"]["loaded_version"] == "1.2.3"


@pytest.mark.parametrize(("check", "timeout"), [(True, 60), (False, 0)])
def test_the_last_record_is_returned_when_the_time_is_over(run: Run, check: bool, timeout: int) -> None:
    late = looked()
    late["record"]["services"]["nvidia-persistenced"]["active"] = "activating"
    result, sent = run(driver_wait, [late], check=check, **wanted(), timeout=timeout)
    assert len(sent) == 1
    assert result["record"] == late["record"]
    assert "failed" not in result


def test_settings_that_cannot_be_met_are_refused(run: Run) -> None:
    result, _sent = run(driver_wait, [looked()], **wanted("enabled"), timeout=60)
    assert result["failed"] is True
    assert "NVSwitches" in result["msg"]


RESTART: dict[str, Any] = {"kubeconfig": "/nowhere/k", "wanted": NodeWanted(name="gpu-1"), "timeout": 60}


def without_plugin_file() -> dict[str, Any]:
    late = looked()
    late["record"]["cdi"]["plugin_specs"] = []
    return late


@pytest.fixture
def restarts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the cluster was asked for."""
    done: list[tuple[Any, ...]] = []

    def restart(_cluster: Any, *asked: Any) -> list[str]:
        done.append(asked)
        return ["Pod 'x'"]

    module = device_plugin_restart
    monkeypatch.setattr(module, "Cluster", lambda _kubeconfig: SimpleNamespace(get=lambda _path: NODE))
    monkeypatch.setattr(module.device_plugin, "restart", restart)
    monkeypatch.setattr(module, "wait_until", partial(wait_until, sleep=lambda _seconds: None))
    return done


def test_a_device_plugin_that_wrote_its_file_is_left_alone(run: Run, restarts: list[tuple[Any, ...]]) -> None:
    result, sent = run(device_plugin_restart, [looked()], record=healthy_record(), **RESTART)
    assert (result["changed"], result["objects"], restarts, sent) == (False, [], [], [])


def test_a_device_plugin_is_restarted_until_its_file_is_back(
    run: Run, restarts: list[tuple[Any, ...]]
) -> None:
    late = without_plugin_file()
    result, sent = run(device_plugin_restart, [late, looked()], record=late["record"], **RESTART)
    assert (result["changed"], result["objects"]) == (True, ["Pod 'x'"])
    assert restarts == [("gpusmith-system", "gpu-1", 2.0, 60.0, False)]
    assert len(sent) == 2


def test_a_node_that_still_hands_gpus_out_by_claims_has_no_device_plugin(
    run: Run, restarts: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(NODE["metadata"], "labels", {LAYOUT_LABEL: "dra"})
    result, _sent = run(device_plugin_restart, [], record=without_plugin_file()["record"], **RESTART)
    assert (result["changed"], restarts) == (False, [])


def test_check_mode_names_the_device_plugin_that_would_be_restarted(
    run: Run, restarts: list[tuple[Any, ...]]
) -> None:
    late = without_plugin_file()
    result, sent = run(device_plugin_restart, [late], check=True, record=late["record"], **RESTART)
    assert (result["changed"], result["objects"]) == (True, ["Pod 'x'"])
    assert (restarts[0][-1], sent) == (True, [])


def test_a_file_that_does_not_come_back_fails(run: Run, restarts: list[tuple[Any, ...]]) -> None:
    late = without_plugin_file()
    result, _sent = run(device_plugin_restart, [late], record=late["record"], **{**RESTART, "timeout": 0})
    assert result["failed"] is True
    assert "there is no CDI specification of the device plugin" in result["msg"]
    assert restarts
