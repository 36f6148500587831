"""Callback plugin: at the end of a run, per host what was done, or with --check what would be done, and a last line that says it all."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import time
from typing import Any

from ansible import context
from ansible.plugins.callback import CallbackBase

from gpusmith import advice
from gpusmith.verdict import lines
from gpusmith.verdict.run import Run, Task

DOCUMENTATION = r"""
name: verdict
type: aggregate
short_description: Tell at the end of a run what was done
description:
  - Prints per host the roles that changed it, where it failed, and what tasks want a person to know. Equal hosts are told once.
  - After a run with C(--check) it prints packages, files, units, labels and taints that would change, and what only a run can tell.
  - The last line says it in one sentence. A run that had nothing to do prints this line alone.
  - A task adds lines by the key C(verdict) of its result, which has C(changes), C(unpredictable) and C(notes) by host. In a playbook
    M(gpusmith.gpu.tell) does that.
version_added: "0.1.0"
author: gpusmith contributors
requirements:
  - enable in configuration, C(callbacks_enabled = gpusmith.gpu.verdict)
"""


class CallbackModule(CallbackBase):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "gpusmith.gpu.verdict"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self) -> None:
        super().__init__()
        self._begin = time.monotonic()
        self._run = Run()
        self._started = advice.Started()

    @staticmethod
    def _task(result: Any) -> Task:
        task = result.task
        role = task._role  # noqa: SLF001 - Ansible has no other name for it
        return Task(
            name=task.get_name().rpartition(" : ")[2],
            role=role.get_name().rpartition(".")[2] if role else "",
            action=str(task.action),
            # A failure of a task that runs once ends the run for all hosts, as `any_errors_fatal` does.
            for_all=bool(task.run_once or task.any_errors_fatal),
        )

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task that did its work."""
        self._started = advice.of_guard(result.result) or self._started
        self._run.ended(result.host.get_name(), self._task(result), result.result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A task that was left out; in check mode that may be a command that would run."""
        self._run.ended(result.host.get_name(), self._task(result), result.result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task that failed, or that the playbook lets fail."""
        if ignore_errors:
            self._run.host(result.host.get_name())
        else:
            self._run.failed(result.host.get_name(), self._task(result), result.result)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """The end of the run."""
        tags = [tag for tag in context.CLIARGS.get("tags") or () if tag != "all"]
        seconds = time.monotonic() - self._begin
        failed = self._run.failed_hosts(stats.failures, stats.rescued)
        end = lines.End(seconds, failed, frozenset(stats.dark), tags)
        check = bool(context.CLIARGS.get("check"))
        self._display.banner("WHAT WOULD CHANGE" if check else "VERDICT")
        for line in (lines.of_check if check else lines.of_run)(self._run, end):
            self._display.display(self._started.said(line))
