"""The way of package managers out of a site."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.authorities import ENVIRONMENT
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import plain

from gpusmith.inventory import authorities, proxy


def _filled_in(templar: Any, name: str, task_vars: Mapping[str, Any] | None) -> Any:
    given = (task_vars or {}).get(name)
    return plain(templar.template(given)) if given else {}


class EgressAction(ActionBase):
    """Runs modules that ask repositories."""

    def way_out(self, task_vars: Mapping[str, Any] | None) -> None:
        """Let modules of this task know of the site's proxy and authorities. What a play or task sets in its environment counts more."""
        told = proxy.for_package_managers(_filled_in(self._templar, proxy.VARIABLE, task_vars))
        if texts := authorities.texts(_filled_in(self._templar, authorities.VARIABLE, task_vars)):
            told[ENVIRONMENT] = "".join(texts.values())
        if told:
            self._task.environment = [told, *(self._task.environment or [])]
