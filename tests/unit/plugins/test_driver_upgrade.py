"""One node's upgrade, as Ansible carries it out."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
import yaml
from ansible_collections.gpusmith.gpu.plugins.action.driver_upgrade import ActionModule
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.changing import Order
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import BACK_S, Patience

from gpusmith.change.outcome import Outcome, Result
from gpusmith.errors import InputError, ToolError
from gpusmith.inventory import specs
from gpusmith.names import UPGRADE
from gpusmith.paths import repo_root
from tests.unit.ledgers import ledger


class Rebooting:
    """Ansible's action that reboots a machine."""

    def __init__(self, answer: dict[str, Any]) -> None:
        self.answer = answer
        self.asked: dict[str, Any] = {}

    def get(self, name: str, task: Any, **_: Any) -> Any:
        assert name == "ansible.builtin.reboot"
        self.asked = task.args
        return SimpleNamespace(run=lambda task_vars: self.answer)


def reboot(rebooting: Rebooting, timeout: float) -> Patience:
    patience = Patience(lambda: None)
    action = MagicMock()
    action._task.copy = lambda: copy.copy(SimpleNamespace(args={}))
    action._shared_loader_obj.action_loader = rebooting
    ActionModule._reboot(action, timeout, {}, patience)
    return patience


def test_a_server_has_its_own_time_for_a_reboot_and_for_what_is_asked_after_it() -> None:
    """One with eight GPUs is in its firmware for longer than its driver takes to come up."""
    rebooting = Rebooting({"rebooted": True})
    assert reboot(rebooting, 1800.0).seconds == 1800.0
    assert rebooting.asked["reboot_timeout"] == 1800
    assert reboot(rebooting, 60.0).seconds == BACK_S
    assert specs.load().variables["gpusmith_reboot_timeout_s"].default >= 1800
    order = yaml.safe_load((repo_root() / "roles/gpu_upgrade/vars/main.yml").read_text())
    assert "{{ gpusmith_reboot_timeout_s " in order["__gpu_upgrade_order"]["reboot_timeout"]


class Left:
    """A node of an upgrade, and what the run's other workers are told of it."""

    def __init__(self, **annotations: str) -> None:
        self.annotations, self.told = annotations, []  # type: dict[str, str], list[str]

    def node(self) -> Any:
        return {"metadata": {"name": "gpu-1", "annotations": self.annotations}}

    def leave_out(self) -> None:
        self.told.append("left out")

    def end(self) -> None:
        self.told.append("ended")


def carried_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, node: Left) -> Outcome:
    """What becomes of a node whose modules nobody can sign."""
    for name in ("Cluster", "Journal", "Rules", "Display", "NodeChange"):
        monkeypatch.setattr(f"{Order.__module__}.{name}", MagicMock())
    monkeypatch.setattr(f"{Order.__module__}.NodeObject", lambda *_: node)
    action = MagicMock()
    action._modules.side_effect = InputError("the key 'modules.key' is not there")
    order = MagicMock()
    words = {"folder": str(tmp_path), "members": {}, "evict": {}, "units": []}
    order.__getitem__.side_effect = lambda name: words.get(name, 1 if name != "row" else MagicMock())
    asked: Any = MagicMock()
    asked.__getitem__.side_effect = lambda name: order if name == "order" else {"signing": {}}
    outcome: Outcome = ActionModule._carry_out(action, asked, {})
    return outcome


def test_without_a_key_a_node_is_left_out_and_nobody_waits_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    node = Left()
    outcome = carried_out(monkeypatch, tmp_path, node)
    assert (outcome.result, node.told) == (Result.UNTOUCHED, ["left out", "ended"])
    assert "modules.key" in outcome.reason
    # One that was begun is not untouched.
    node = Left(**{UPGRADE: ledger()})
    outcome = carried_out(monkeypatch, tmp_path, node)
    assert (outcome.result, node.told) == (Result.UNFINISHED, ["ended"])


def test_a_machine_that_does_not_come_back_is_told() -> None:
    with pytest.raises(ToolError, match="Timed out"):
        reboot(Rebooting({"failed": True, "msg": "Timed out"}), 1800.0)
