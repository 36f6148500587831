"""Filter: the rule files for Prometheus, as a site gets them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Sequence

from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

from gpusmith.errors import GpusmithError
from gpusmith.monitoring import site_rules

DOCUMENTATION = r"""
name: alert_rules
short_description: The rule files for Prometheus, as a site gets them
description: Takes the rules of role C(gpu_monitoring) without some alerts, and with the Xids that the site accepts.
author: gpusmith contributors
positional: _input, accepted, jobs
options:
  _input: {type: list, elements: str, required: true, description: Names of alerts that are left out.}
  accepted: {type: list, default: [], description: "Lists of Xids, such as of several hosts, false for the default. One is accepted that is in all of them."}
  jobs: {type: list, elements: str, description: Exporters that there are. The alert that another one is down is left out. All by default.}
"""

RETURN = r"""
_value: {type: dict, description: Content of each file by its name.}
"""


def alert_rules(
    disabled: Sequence[str], accepted: Sequence[Sequence[int] | bool] = (), jobs: Sequence[str] | None = None
) -> dict[str, str]:
    """See DOCUMENTATION."""
    try:
        return site_rules.rule_files(plain(accepted), plain(disabled), plain(jobs))
    except GpusmithError as error:
        raise AnsibleFilterError(str(error)) from error


FilterModule = filter_module(alert_rules)
