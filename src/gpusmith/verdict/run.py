"""What is kept of a run while it goes on, by host and role."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusmith.verdict.changes import TELLS, Told, of_task

CLUSTER = "the cluster"
"""Stands for a host where one task acts for all of them."""


@dataclass(frozen=True)
class Task:
    """A task of a playbook.

    Attributes:
        name: without its role.
        role: empty outside of roles.
        action: the module's name.
        for_all: whether it runs once for all hosts, or ends the run for all of them.
    """

    name: str
    role: str = ""
    action: str = ""
    for_all: bool = False

    def __str__(self) -> str:
        return f"'{self.name}' of role {self.role}" if self.role else f"'{self.name}'"


@dataclass
class Host:
    """What a run did to a host.

    Attributes:
        parts: what is told of it, by role, or by task outside of roles.
        changed: those parts that changed something.
        failed: the task that failed last.
        failures: how many failed, rescued ones too; without those that end the run for all hosts.
    """

    parts: dict[str, Told] = field(default_factory=dict)
    changed: dict[str, None] = field(default_factory=dict)
    failed: Task | None = None
    failures: int = 0

    def part(self, name: str) -> Told:
        """What is told of a part."""
        return self.parts.setdefault(name, Told())

    @property
    def notes(self) -> list[str]:
        """What a person should know of it."""
        return list(dict.fromkeys(note for told in self.parts.values() for note in told.notes))

    @property
    def unpredictable(self) -> list[str]:
        """What only a run can tell."""
        return list(dict.fromkeys(text for told in self.parts.values() for text in told.unpredictable))


@dataclass
class Run:
    """A run.

    Attributes:
        hosts: those on which tasks ran, and CLUSTER if a task acted for all.
        stopped: the task that ended the run for all hosts.
    """

    hosts: dict[str, Host] = field(default_factory=dict)
    stopped: Task | None = None

    def host(self, name: str) -> Host:
        """A host, from now on part of the run."""
        return self.hosts.setdefault(name, Host())

    def ended(self, name: str, task: Task, result: Mapping[str, Any]) -> None:
        """A task came to its end on a host, with success or left out."""
        told = result.get(TELLS)
        if isinstance(told, Mapping):
            self._tell(told, task)
            return
        if not task.for_all:
            self.host(name)
        found = of_task(task.action, result)
        if not (result.get("changed") or found.changes or found.unpredictable):
            return
        host, part = self.host(CLUSTER if task.for_all else name), task.role or task.name
        host.part(part).add(found.changes, found.unpredictable, found.notes)
        if result.get("changed"):
            host.changed[part] = None

    def failed(self, name: str, task: Task, result: Mapping[str, Any]) -> None:
        """A task failed on a host; a rescue may follow."""
        told = result.get(TELLS)
        if isinstance(told, Mapping):
            self._tell(told, task)
        if task.for_all:
            self.stopped = task
        else:
            host = self.host(name)
            host.failed = task
            host.failures += 1

    def failed_hosts(self, failures: Mapping[str, int], rescued: Mapping[str, int]) -> frozenset[str]:
        """Hosts with a failure of their own that nothing rescued.

        Args:
            failures: how many failures of a host nothing rescued, as Ansible counts: those that end the run for all hosts too.
            rescued: how many were rescued.
        """
        if not self.stopped:
            return frozenset(failures)
        return frozenset(
            name for name in failures if self.hosts.get(name, Host()).failures > rescued.get(name, 0)
        )

    def _tell(self, told: Mapping[str, Any], task: Task) -> None:
        """What a task says of hosts by their names, also of others than the one that it ran on."""
        part = task.role or task.name
        for name, said in told.items():
            host = self.host(str(name))
            host.part(part).add(said.get("changes"), said.get("unpredictable") or (), said.get("notes") or ())
            if said.get("changes"):
                host.changed[part] = None
