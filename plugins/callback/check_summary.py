"""Callback plugin: after a run with --check, per host what would change and what cannot be predicted."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: check_summary
type: aggregate
short_description: Tell after a run in check mode what would change
description:
  - Prints per host the roles that would change it, and the steps that check mode cannot predict. Those are the ones that are
    left out in check mode because they need the outcome of an earlier step.
  - Prints nothing after a run that is no check.
version_added: "0.1.0"
author: gpusmith contributors
requirements:
  - enable in configuration, C(callbacks_enabled = gpusmith.gpu.check_summary)
"""

# What the conditions of steps that are left out in check mode contain.
CHECK_WORDS = ("ansible_check_mode", "_unpredictable")


class CallbackModule(CallbackBase):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpusmith.gpu.check_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._changing: dict[str, dict[str, None]] = {}
        self._unpredictable: dict[str, dict[tuple[str, str], None]] = {}

    @staticmethod
    def _parts(result: Any) -> tuple[str, str, str, dict[str, Any]]:
        task = getattr(result, "task", None) or result._task  # noqa: SLF001 - core 2.19 has no other name for it
        host = getattr(result, "host", None) or result._host  # noqa: SLF001
        data = getattr(result, "result", None)
        data = data if isinstance(data, dict) else result._result  # noqa: SLF001
        role = task._role  # noqa: SLF001
        return host.get_name(), role.get_name().rpartition(".")[2] if role else "", task.get_name(), data

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task that reports a change."""
        host, role, name, data = self._parts(result)
        if data.get("changed"):
            self._changing.setdefault(host, {})[role or name] = None

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A task that is left out only because this is a check."""
        host, role, name, data = self._parts(result)
        if any(word in str(data.get("false_condition", "")) for word in CHECK_WORDS):
            self._unpredictable.setdefault(host, {})[role, name.rpartition(" : ")[2]] = None

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The end of the run."""
        if not context.CLIARGS.get("check"):
            return
        self._display.banner("WHAT WOULD CHANGE")
        for host in sorted(stats.processed):
            roles = list(self._changing.get(host, {}))
            self._display.display(f"{host}: {', '.join(roles) or 'nothing'}")
            steps: dict[str, None] = {}
            for role, name in self._unpredictable.get(host, {}):
                # Where nothing would change, a verification that is left out leaves nothing open.
                if not name.startswith("Verify"):
                    steps[f"{role}: {name}" if role else name] = None
                elif role in roles:
                    steps[f"{role}: its verification"] = None
            for step in steps:
                self._display.display(f"    cannot be predicted: {step}")
