"""The run and the variables of all hosts, for action plugins that decide for a whole run."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from ansible import context
from ansible.errors import AnsibleError, AnsibleUndefinedVariable
from ansible.template import Templar, trust_as_template
from ansible.utils.vars import load_extra_vars

from gpusmith.errors import InputError
from gpusmith.inventory import specs
from gpusmith.inventory.target import GPU_GROUP, Run
from gpusmith.inventory.templates import UnfilledError
from gpusmith.inventory.variables import check_values
from gpusmith.wanted.layouts import WHOLE, Layout
from gpusmith.wanted.node import NodeWanted
from gpusmith.wanted.read import read

SHARING = "gpusmith_gpu_sharing"


def run_of(task_vars: Mapping[str, Any], loader: Any, group: str = GPU_GROUP) -> Run:
    """What was started, by the variables of one of its tasks."""
    return Run(
        group=group,
        members=list(task_vars.get("groups", {}).get(group, [])),
        play_hosts=list(task_vars.get("ansible_play_hosts_all", [])),
        limit=context.CLIARGS.get("subset") or "",
        sources=list(context.CLIARGS.get("inventory") or ()),
        extra=dict(load_extra_vars(loader)),
        tags=list(task_vars.get("ansible_run_tags") or ()),
        skipped_tags=list(task_vars.get("ansible_skip_tags") or ()),
        groups=task_vars.get("groups", {}),
    )


class Variables:
    """The variables of hosts, by Ansible's own."""

    def __init__(self, hostvars: Any, loader: Any = None) -> None:
        self._hostvars = hostvars
        self._loader = loader
        # Ansible puts the variables of a host together anew each time that it is asked for them.
        self._of: dict[str, Any] = {}
        self._wanted: dict[str, NodeWanted] = {}

    def written(self, host: str) -> Mapping[str, Any]:
        """All variables of a host, templates as they are written."""
        found: Mapping[str, Any] = self._hostvars.raw_get(host)
        return found

    def filled(self, host: str, name: str) -> Any:
        """One variable with its templates filled in."""
        try:
            # Ansible fills in what is inside lists and mappings only when it is looked at.
            if host not in self._of:
                self._of[host] = self._hostvars[host]
            return copy.deepcopy(self._of[host][name])
        except AnsibleError as error:
            raise UnfilledError(str(error), isinstance(error, AnsibleUndefinedVariable)) from error

    def wanted(self, host: str) -> NodeWanted:
        """What the inventory wants of a host.

        Raises:
            InputError: a template cannot be filled in, or its value cannot be used.
        """
        if host not in self._wanted:
            known, written = specs.load(), self.written(host)
            # The guard has judged the hosts of the run, and no others.
            for refusal in check_values(
                {name: written[name] for name in known.variables if name in written}, known
            ):
                raise InputError(f"Host '{host}': {refusal.message}", refusal.hint)
            variables = OfHost.named(host, {"hostvars": self._hostvars}, self._loader)
            self._wanted[host] = read(host, variables, known)
        return self._wanted[host]

    def layout(self, host: str) -> Layout:
        """How the GPUs of a host are to be handed out.

        Raises:
            InputError: as of `wanted`.
        """
        # Most hosts say nothing, and to fill in all that the inventory wants of a host takes milliseconds.
        return self.wanted(host).layout if self.written(host).get(SHARING) else WHOLE


def of_task(task_vars: Mapping[str, Any], templar: Templar) -> NodeWanted:
    """What is wanted of the host of a task, with the variables that the task gives.

    Raises:
        InputError: a template cannot be filled in, or its value cannot be used.
    """
    return read(str(task_vars["inventory_hostname"]), OfHost(task_vars, templar), specs.load())


class OfHost:
    """The variables of one host, for `gpusmith.wanted.read`."""

    def __init__(self, written: Mapping[str, Any], templar: Templar) -> None:
        self._written = written
        self._templar = templar

    @classmethod
    def named(cls, host: str, variables: Mapping[str, Any], loader: Any) -> OfHost:
        """Those of another host than that of the task."""
        hostvars = variables["hostvars"]
        written = {**hostvars.raw_get(host), "hostvars": hostvars}
        return cls(written, Templar(loader=loader, variables=written))

    def written(self, name: str) -> Any:
        """A value as it is written; None if the host has no such variable."""
        return self._written.get(name)

    def filled(self, value: Any, trusted: bool = False) -> Any:
        """A value with its templates filled in; trusted are those of the specs."""
        try:
            return plain(self._templar.template(trust_as_template(value) if trusted else value))
        except AnsibleError as error:
            raise UnfilledError(str(error)) from error


def plain(value: Any) -> Any:
    """The same data in Python's own containers: Ansible's fill templates in when they are looked at."""
    # Most values are scalars. isinstance() of an abstract class is slow.
    if isinstance(value, str | bool | int | float | None):
        return value
    if isinstance(value, dict | Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
