"""Calls of a machine that may not answer for a while."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from gpusmith.errors import ToolError
from gpusmith.wait import Deadline, Done, NotYet, wait_until

T = TypeVar("T")
BACK_S = 300.0
TICK_S = 5.0


@dataclass
class Patience:
    """Makes calls again while the machine does not answer: modules can be repeated.

    Attributes:
        fence: raises when this run must not act any more; asked before each call.
        seconds: how long a machine is waited for, from the first call without an answer. How long the call itself took is no part of it.
        sleep: replaced in tests.
        clock: replaced in tests.
    """

    fence: Callable[[], None]
    seconds: float = BACK_S
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def with_call(self, call: Callable[..., T]) -> Callable[..., T]:
        """The same call, made again while the machine does not answer."""

        def patient(*words: Any) -> T:
            def look() -> Done[T] | NotYet:
                self.fence()
                try:
                    answer = call(*words)
                except AnsibleConnectionFailure as error:
                    return NotYet(_short(error))
                except AnsibleError as error:
                    raise ToolError(_short(error)) from error
                return Done(answer) if (lost := _lost(answer)) is None else NotYet(lost)

            first = look()
            if isinstance(first, Done):
                return first.value
            deadline = Deadline(self.seconds, self.clock)
            self.sleep(TICK_S)
            return wait_until("the machine to answer", look, deadline, TICK_S, self.sleep)

        return patient


def _lost(answer: object) -> str | None:
    """Why a module did not answer, as Ansible tells it; None if it did, and for calls of other kinds."""
    if isinstance(answer, Mapping) and answer.get("unreachable"):
        return str(answer.get("msg"))
    return None


def _short(error: Exception) -> str:
    return " ".join(str(error).split())
