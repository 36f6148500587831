"""The way of package managers out of a site."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import plain

from gpusmith.inventory import proxy


class ProxyAction(ActionBase):
    """Runs modules that ask repositories."""

    def through_proxy(self, task_vars: Mapping[str, Any] | None) -> None:
        """Let modules of this task know of the site's proxy. What a play or task sets in its environment counts more."""
        given = (task_vars or {}).get(proxy.VARIABLE)
        if given and (told := proxy.for_package_managers(plain(self._templar.template(given)))):
            self._task.environment = [told, *(self._task.environment or [])]
