"""One look at a node, for action plugins that need its record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.bundled import BundledAction

from gpusmith.errors import ToolError
from gpusmith.node.records import parse
from gpusmith.probe.stamp import stamp_facts

# Ansible's words for an os-release ID: distribution and os_family.
SYSTEMS: Mapping[str, tuple[str, str]] = {
    "debian": ("Debian", "Debian"),
    "ubuntu": ("Ubuntu", "Debian"),
    "rhel": ("RedHat", "RedHat"),
    "centos": ("CentOS", "RedHat"),
    "rocky": ("Rocky", "RedHat"),
    "almalinux": ("AlmaLinux", "RedHat"),
    "ol": ("OracleLinux", "RedHat"),
}


def os_facts(record: Mapping[str, Any]) -> dict[str, str]:
    """Ansible's facts of the operating system, by the record: gathering them would be a round trip more.

    Empty for a system that is not known here, of which preflight says so.
    """
    host = record.get("host") or {}
    names, version = SYSTEMS.get(str(host.get("os_id"))), str(host.get("os_version") or "")
    if names is None or not version:
        return {}
    return {
        "distribution": names[0],
        "distribution_version": version,
        "distribution_major_version": version.split(".", maxsplit=1)[0],
        "os_family": names[1],
    }


class LookingAction(BundledAction):
    """Runs the probe on the node."""

    def look(self, nvml_timeout: float, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """A result with the node's record and what its stamp depends on; or what went wrong."""
        answer: dict[str, Any] = self.run_bundled(
            "gpusmith.gpu.probe", {"nvml_timeout": nvml_timeout}, task_vars
        )
        if answer.get("failed") or answer.get("unreachable"):
            return answer
        answer.pop("invocation", None)
        # In addition to facts that Ansible found, such as the node's Python.
        answer["ansible_facts"] = {**answer.get("ansible_facts", {}), **os_facts(answer["record"])}
        try:
            answer["stamp"] = stamp_facts(parse(answer["record"]))
        except ToolError as error:
            answer.update(failed=True, msg=str(error))
        return answer
