"""Whether a run has nodes to work on: its inventories, its group and its limit."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.wording import shorten

GPU_GROUP = "gpu_nodes"


@dataclass(frozen=True)
class Run:
    """What a run of ansible-playbook was started with.

    Attributes:
        group: inventory group of the nodes to work on.
        members: its hosts, by the inventory.
        play_hosts: hosts of the play, after --limit.
        limit: the pattern given with --limit; empty if none.
        sources: inventories of the command line, or of ansible.cfg.
        extra: variables given with -e.
        tags: given with --tags; `all` if none was.
        skipped_tags: given with --skip-tags.
        groups: hosts of the inventory by group.
    """

    group: str
    members: Sequence[str]
    play_hosts: Sequence[str]
    limit: str = ""
    sources: Sequence[str] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ("all",)
    skipped_tags: Sequence[str] = ()
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def nodes(self) -> list[str]:
        """The hosts that the run works on."""
        return [host for host in self.members if host in self.play_hosts]

    def includes(self, tag: str) -> bool:
        """Whether tasks run that have this tag only."""
        chosen = tag in self.tags or not ALL_TAGS.isdisjoint(self.tags)
        return chosen and tag not in self.skipped_tags


def check_controller(system: str = sys.platform) -> list[Refusal]:
    """Whether this machine can run playbooks: the keeper of a run's claim needs fork and /proc.

    Args:
        system: as `sys.platform` calls it.
    """
    if system == "linux":
        return []
    return [
        Refusal(
            f"Playbooks must run on Linux, and this machine runs '{system}'.",
            "Use a Linux machine, or a container on this one.",
        )
    ]


def check_target(run: Run) -> list[Refusal]:
    """Whether the run has any node to work on."""
    missing = [
        Refusal(f"Inventory '{path}' does not exist.", "Give the path of an inventory with -i.")
        for path in run.sources
        # Host lists with a comma are no paths.
        if "," not in path and not Path(path).exists()
    ]
    if missing:
        return missing
    if not run.members:
        hint = f"Put the nodes into group '{run.group}', as 'inventory/example' shows, and name the inventory with -i."
        return [Refusal(f"The inventory has no host in group '{run.group}'.", hint)]
    if not run.nodes:
        hint = f"Members of the group are {shorten(run.members)}."
        return [Refusal(f"The limit '{run.limit}' leaves no host of group '{run.group}'.", hint)]
    return []


def check_limit(run: Run, why: str) -> list[Refusal]:
    """Whether nodes were named, for a playbook that must not take a whole group by accident.

    Args:
        run: the run.
        why: what the playbook does to them; empty if they need not be named.
    """
    if not why or run.limit:
        return []
    return [Refusal(f"{why}: name them with -l.", "Nothing was changed.")]


def check_sources(run: Run) -> list[Refusal]:
    """The validation suite reads one inventory, and must read the one that the run uses."""
    if len(run.sources) <= 1:
        return []
    return [
        Refusal(
            f"{len(run.sources)} inventories are given with -i: {', '.join(map(repr, run.sources))}.",
            "Put them into one folder and name that: the validation suite reads one.",
        )
    ]


ALL_TAGS = frozenset({"all", "tagged"})
"""Ansible's words by which all that a playbook does is run."""


def check_tags(run: Run, known: Sequence[str]) -> list[Refusal]:
    """Whether tags name parts of the playbook: Ansible runs nothing for an unknown one, and ends with success.

    Args:
        run: the run.
        known: tags of the playbook.
    """
    there = f"It knows {', '.join(known)}." if known else "It has no parts to choose from: leave tags out."
    found = [
        Refusal(f"The playbook has no tag '{tag}'.", there)
        for tag in (*run.tags, *run.skipped_tags)
        if tag not in known and not (tag in ALL_TAGS and tag in run.tags)
    ]
    if "preflight" in run.skipped_tags:
        found.append(
            Refusal(
                "Preflight cannot be skipped: it finds what would go wrong before a machine is changed.",
                "Leave '--skip-tags preflight' out.",
            )
        )
    return found


def on_hosts(refusal: Refusal, hosts: Sequence[str]) -> Refusal:
    """The same reason, with the hosts that it is about."""
    message = refusal.message
    if not message.startswith("'"):
        message = message[:1].lower() + message[1:]
    return Refusal(f"Host{'s' if len(hosts) > 1 else ''} {shorten(hosts)}: {message}", refusal.hint)
