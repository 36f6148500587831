"""What modules that start package managers know of a site: its way out, how long others may work there, and which of their packages may go."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    LOCK_ENVIRONMENT,
    REMOVABLE_ENVIRONMENT,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.authorities import ENVIRONMENT
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

from gpusmith.inventory import authorities, proxy

LOCK_VARIABLE = "gpusmith_package_lock_timeout_s"
REMOVABLE_VARIABLE = "preflight_removable_packages"
"""Also where no preflight runs: what the inventory permits counts for a role that is run by itself."""


def _filled_in(templar: Any, name: str, task_vars: Mapping[str, Any] | None) -> Any:
    given = (task_vars or {}).get(name)
    return {} if given in (None, "") else plain(templar.template(given))


class EgressAction(ActionBase):
    """Runs modules that start package managers."""

    def way_out(self, task_vars: Mapping[str, Any] | None) -> None:
        """Let modules of this task know of the site's proxy, authorities, patience and permissions.

        What a play or task sets in its environment counts more.
        """
        told = proxy.for_package_managers(_filled_in(self._templar, proxy.VARIABLE, task_vars))
        if texts := authorities.texts(_filled_in(self._templar, authorities.VARIABLE, task_vars)):
            told[ENVIRONMENT] = "".join(texts.values())
        if (patience := _filled_in(self._templar, LOCK_VARIABLE, task_vars)) != {}:
            told[LOCK_ENVIRONMENT] = str(patience)
        if permitted := _filled_in(self._templar, REMOVABLE_VARIABLE, task_vars):
            told[REMOVABLE_ENVIRONMENT] = json.dumps([str(name) for name in permitted])
        if told:
            self._task.environment = [told, *(self._task.environment or [])]
