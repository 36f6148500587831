"""What action plugins share that work on the controller: arguments in, one call into gpusmith, its result out."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# Imported here, in the process of ansible-playbook, so that the workers that it forks have it loaded.
import kubernetes.client
import kubernetes.config  # noqa: F401
from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments

from gpusmith.errors import GpusmithError, ToolError
from gpusmith.owner import Process, process


class ControllerAction(ActionBase):
    """Runs on the controller and connects to no host.

    Attributes:
        variables: those of the task.
    """

    TRANSFERS_FILES = False
    _requires_connection = False
    variables: Mapping[str, Any]

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        self.variables = task_vars or {}
        result: dict[str, Any] = super().run(tmp, task_vars)
        asked = arguments(self)
        try:
            result.update(self.act(asked, bool(self._task.check_mode)))
        except GpusmithError as error:
            result.update(failed=True, msg=str(error))
        return result

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        """The work.

        Args:
            asked: arguments as the module's documentation says.
            check: whether nothing may be changed.
        """
        raise NotImplementedError


def leader() -> Process:
    """The process of ansible-playbook, whose worker this process is."""
    parent = multiprocessing.parent_process()
    return process(parent.pid if parent and parent.pid else os.getppid())


def write(path: Path, text: str) -> None:
    """A table or report in the folder for reports.

    Raises:
        ToolError: it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"'{path}' cannot be written: {error.strerror}.",
            "Name another folder with 'gpusmith_report_dir'.",
        ) from error
