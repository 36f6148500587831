"""Calls of a machine that does not answer for a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import BACK_S, Patience

from gpusmith.change.protocol import Fenced
from gpusmith.errors import ToolError
from gpusmith.wait import WaitTimeout

LOST: Mapping[str, Any] = {"unreachable": True, "msg": "the connection was closed"}


class Machine:
    """Time, and calls that each take some of it."""

    def __init__(self, *answers: tuple[float, Mapping[str, Any] | Exception]) -> None:
        self.answers, self.time, self.calls = list(answers), 0.0, 0

    def call(self, _module: str) -> dict[str, Any]:
        self.calls += 1
        seconds, answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        self.time += seconds
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    def sleep(self, seconds: float) -> None:
        self.time += seconds

    def patience(self, **other: Any) -> Patience:
        return Patience(other.pop("fence", lambda: None), sleep=self.sleep, clock=lambda: self.time, **other)


def test_a_long_call_whose_connection_drops_is_made_again() -> None:
    """DKMS builds for longer than a machine is waited for."""
    machine = Machine((2 * BACK_S, LOST), (1.0, {"changed": False}))
    assert machine.patience().with_call(machine.call)("packages") == {"changed": False}
    assert machine.calls == 2


@pytest.mark.parametrize("answer", [LOST, AnsibleConnectionFailure("no route")])
def test_a_machine_that_stays_away_is_given_up_after_its_time(answer: Any) -> None:
    machine = Machine((10.0, answer))
    with pytest.raises(WaitTimeout, match=f"Waited {BACK_S:.0f} s for the machine to answer"):
        machine.patience().with_call(machine.call)("probe")
    assert BACK_S <= machine.time <= BACK_S + 30


def test_the_time_can_be_changed_for_later_calls() -> None:
    machine = Machine((10.0, LOST))
    patience = machine.patience()
    call = patience.with_call(machine.call)
    patience.seconds = 3 * BACK_S
    with pytest.raises(WaitTimeout, match=f"Waited {3 * BACK_S:.0f} s"):
        call("probe")


def test_what_is_no_trouble_of_the_connection_is_told_at_once() -> None:
    machine = Machine((1.0, AnsibleError("no such module")))
    with pytest.raises(ToolError, match="no such module"):
        machine.patience().with_call(machine.call)("probe")
    assert machine.calls == 1


def test_a_run_that_must_not_act_any_more_makes_no_further_call() -> None:
    machine = Machine((1.0, LOST))

    def fence() -> None:
        if machine.calls:
            raise Fenced("another run has it")

    with pytest.raises(Fenced):
        machine.patience(fence=fence).with_call(machine.call)("probe")
    assert machine.calls == 1
