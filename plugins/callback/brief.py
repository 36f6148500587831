"""Callback plugin for standard output: what changes and what fails, each error once."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible import constants, context
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback.default import CallbackModule as Default

from gpusmith import advice
from gpusmith.verdict import errors

DOCUMENTATION = r"""
name: brief
type: stdout
short_description: What changes and what fails, each error once
description:
  - Like P(ansible.builtin.default#callback), without what is no news, which are results that are C(ok) or skipped, includes, and
    tasks that only compare or decide. Messages of M(ansible.builtin.debug) are shown.
  - A failure is shown once, as text, with what the task's program printed. A host that fails with the same words is named, no more.
  - With C(-v) everything is shown as by the default one.
version_added: "0.1.0"
author: gpusmith contributors
extends_documentation_fragment:
  - ansible.builtin.default_callback
  - ansible.builtin.result_format_callback
requirements:
  - set as stdout in configuration, C(stdout_callback = gpusmith.gpu.brief)
"""

QUIET = frozenset(
    {
        "assert",
        "debug",
        "fail",
        "include_role",
        "include_tasks",
        "include_vars",
        "meta",
        "set_fact",
        "tell",
        "validate_argument_spec",
    }
)
"""Short names of modules that take no time: their tasks get a banner only if they print something."""


class CallbackModule(Default):
    """See DOCUMENTATION."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "gpusmith.gpu.brief"

    def __init__(self) -> None:
        super().__init__()
        self._errors = errors.Errors()
        self._started = advice.Started()

    @property
    def _all(self) -> bool:
        return bool(self._display.verbosity)

    def get_option(self, option: str, hostvars: Any = None) -> Any:
        """Options of the default callback, but for the two that this one sets itself."""
        if option in ("display_ok_hosts", "display_skipped_hosts"):
            return self._all
        return super().get_option(option, hostvars)

    def _task_start(self, task: Any, prefix: str | None = None) -> None:
        super()._task_start(task, prefix)
        # The banner is printed at the start, to show which task takes long. In check mode no task does.
        quiet = self._all or self._last_task_name is None or _short(task) in QUIET
        if not quiet and not context.CLIARGS.get("check"):
            self._print_task_banner(task)

    def v2_runner_on_ok(self, result: Any) -> None:
        """Says what changed, and what a person is told."""
        self._started = advice.of_guard(result.result) or self._started
        said = errors.text(result.result) if _short(result.task) == "debug" else ""
        if not self._all and isinstance(result.task, TaskInclude):
            return
        if not self._all:
            # The default callback drops them with the results that it does not show.
            self._handle_warnings(result.result)
        if self._all or not said:
            super().v2_runner_on_ok(result)
            return
        self._banner(result.task)
        self._display.display(
            f"{result.host.get_name()}: {self._started.said(said)}", color=constants.COLOR_OK
        )

    def v2_playbook_on_include(self, included_file: Any) -> None:
        """No news."""
        if self._all:
            super().v2_playbook_on_include(included_file)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """Says it once."""
        if self._all or (result.task.loop and "results" in result.result):
            super().v2_runner_on_failed(result, ignore_errors)
            return
        self._say(result, "FAILED")
        if ignore_errors:
            self._display.display("...ignoring", color=constants.COLOR_SKIP)

    def v2_runner_item_on_failed(self, result: Any) -> None:
        """Likewise, of an item of a loop."""
        if self._all:
            super().v2_runner_item_on_failed(result)
        else:
            self._say(result, f"FAILED at '{self._get_item_label(result.result)}'")

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """Likewise."""
        if self._all:
            super().v2_runner_on_unreachable(result)
        else:
            self._say(result, "UNREACHABLE")

    def _banner(self, task: Any) -> None:
        if self._last_task_banner != task._uuid:  # noqa: SLF001 - as the default callback does
            self._print_task_banner(task)

    def _say(self, result: Any, what: str) -> None:
        task = result.task
        self._started = advice.of_guard(result.result) or self._started
        self._banner(task)
        self._handle_warnings(result.result)
        stderr = self.get_option("display_failed_stderr")
        words = self._errors.words(str(task._uuid), result.host.get_name(), result.result)  # noqa: SLF001 - likewise
        color = constants.COLOR_UNREACHABLE if what == "UNREACHABLE" else constants.COLOR_ERROR
        self._display.display(
            f"fatal: [{self.host_label(result)}]: {what}! {self._started.said(words)}",
            color=color,
            stderr=stderr,
        )
        if words != errors.SAME and self.get_option("show_task_path_on_failure"):
            self._print_task_path(task)


def _short(task: Any) -> str:
    return str(task.action).rpartition(".")[2]
