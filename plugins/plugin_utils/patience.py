"""Calls of a machine that may not answer for a while."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError

from gpusmith.errors import ToolError
from gpusmith.wait import Deadline, Done, NotYet, wait_until

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

    def with_call(self, call: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        """The same call, made again while the machine does not answer."""

        def patient(*words: Any) -> dict[str, Any]:
            def look() -> Done[dict[str, Any]] | NotYet:
                self.fence()
                try:
                    answer = call(*words)
                except AnsibleConnectionFailure as error:
                    return NotYet(_short(error))
                except AnsibleError as error:
                    raise ToolError(_short(error)) from error
                return NotYet(str(answer.get("msg"))) if answer.get("unreachable") else Done(answer)

            first = look()
            if isinstance(first, Done):
                return first.value
            deadline = Deadline(self.seconds, self.clock)
            self.sleep(TICK_S)
            return wait_until("the machine to answer", look, deadline, TICK_S, self.sleep)

        return patient


def _short(error: Exception) -> str:
    return " ".join(str(error).split())
