"""A node that builds or takes modules while its connection is lost."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpusmith.gpu.plugins.plugin_utils import built_node
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import Patience

from gpusmith.built.once import BuildFailed, NotBuilt
from gpusmith.errors import ToolError

VERSION, KERNEL = "580.178.04", "6.1.0-40-amd64"
LOST = AnsibleConnectionFailure("no route")
BUILT: Mapping[str, Any] = {"compiled": True, "manifest": {"kernel": KERNEL}}


class Machine:
    """Answers each step once the steps before it in `answers` are used up."""

    def __init__(self, **answers: Exception | Mapping[str, Any]) -> None:
        self.answers, self.said = dict(answers), []  # type: dict[str, Any], list[str]

    def step(self, name: str, usual: Any = None) -> Any:
        self.said.append(name)
        answer = self.answers.pop(name, usual)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def node(self, patience: Patience | None = None) -> built_node.BuiltNode:
        action = built_node.BuildingAction.__new__(built_node.BuildingAction)
        action._connection = SimpleNamespace(
            fetch_file=lambda _there, here: self.step("fetch") or Path(here).write_bytes(b"x"),
            put_file=lambda _here, _there: self.step("send"),
        )
        action.run_bundled = lambda *_: self.step("ask", BUILT)
        action._make_tmp_path = lambda: self.step("make", "/tmp/x/")
        action._remove_tmp_path = lambda _path: self.step("remove")
        return action.node("gpu-1", VERSION, {}, patience)


@pytest.mark.parametrize("step", ["make", "ask", "fetch", "remove"])
def test_an_upgrade_builds_although_the_connection_is_lost_once(tmp_path: Path, step: str) -> None:
    machine = Machine(**{step: LOST})
    waited: list[float] = []
    node = machine.node(Patience(lambda: None, sleep=waited.append))
    assert node.build(KERNEL, tmp_path / "target") == ({"kernel": KERNEL}, True)
    # A folder for a while that stays behind is nothing to wait for.
    assert machine.said.count(step) == (1 if step == "remove" else 2)
    assert (tmp_path / "target").read_bytes() == b"x"


@pytest.mark.parametrize("step", ["send", "ask"])
def test_an_upgrade_takes_although_the_connection_is_lost_once(tmp_path: Path, step: str) -> None:
    machine = Machine(**{step: LOST})
    entry = built_node.Entry(tmp_path / "archive", {}, "gpu-2", 0.0)
    machine.node(Patience(lambda: None, sleep=lambda _: None)).take(entry)
    assert machine.said.count(step) == 2


def test_a_node_that_cannot_be_reached_says_nothing_about_its_modules(tmp_path: Path) -> None:
    node = Machine(ask={"unreachable": True, "msg": "no route"}).node()
    with pytest.raises(ToolError, match="no route") as told:
        node.build(KERNEL, tmp_path / "target")
    assert not isinstance(told.value, NotBuilt)


def test_a_module_that_does_not_compile_is_told_with_what_else_can_be_done() -> None:
    said = {"failed": True, "outcome": "build", "msg": "Module 'nvidia' does not compile."}
    with pytest.raises(BuildFailed, match="does not compile") as told:
        Machine(ask=said).node().mend()
    assert "nvidia_driver_module_flavour" in told.value.hint
    with pytest.raises(BuildFailed, match="does not compile"):
        Machine(ask=said).node().compile(KERNEL)
