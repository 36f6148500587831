"""Hosts, files and folders that variables name: they are there before a machine is changed, not only when they are used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.specs import did_you_mean
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import has_open
from gpusmith.wording import shorten

TOKEN_HOST = "kubernetes_node_token_host"  # noqa: S105 - the name of a variable
LOCALHOST = ("localhost", "127.0.0.1", "::1")
"""Ansible knows these without an inventory."""
FOLDERS_TO_WRITE = ("gpusmith_report_dir", "gpu_upgrade_report_dir")

Values = Mapping[str, Any]


def check_places(nodes: Mapping[str, Values], groups: Mapping[str, Sequence[str]]) -> list[Refusal]:
    """Named things that do not exist; each once, with the hosts that name it.

    Args:
        nodes: variables by name, by node of the run; templates are filled in where that can be done.
        groups: hosts of the inventory by group; 'all' has every one.
    """
    found: dict[Refusal, list[str]] = {}
    for node, values in nodes.items():
        for refusal in _there(values, groups):
            found.setdefault(refusal, []).append(node)
    return [on_hosts(refusal, there) for refusal, there in found.items()]


def _there(values: Values, groups: Mapping[str, Sequence[str]]) -> Iterator[Refusal]:
    judges: list[tuple[Sequence[str], Callable[[str, str], Refusal | None]]] = [
        ((TOKEN_HOST,), lambda name, value: _host(name, value, groups)),
        (FOLDERS_TO_WRITE, _folder_to_write),
    ]
    for names, judge in judges:
        for name in names:
            # Templates that need facts are judged by the role that uses them.
            if (value := values.get(name)) and not has_open(value) and (refusal := judge(name, str(value))):
                yield refusal


def _host(name: str, value: str, groups: Mapping[str, Sequence[str]]) -> Refusal | None:
    known = groups.get("all", ())
    if not known or value in known or value in LOCALHOST:
        return None
    if value in groups:
        members = groups[value]
        hint = (
            f"Name one of its hosts: {shorten(members)}." if members else "Name a host; the group has none."
        )
        return Refusal(f"'{name}' must be a host, and '{value}' is a group.", hint)
    control_plane = list(groups.get("kube_control_plane", ()))
    hint = (
        f"Machines of 'kube_control_plane' are {shorten(control_plane)}."
        if control_plane
        else did_you_mean(value, known)
    )
    return Refusal(f"'{name}' names '{value}', which is no host of the inventory.", hint)


def _folder_to_write(name: str, value: str) -> Refusal | None:
    folder = path(value).absolute()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    if there.is_dir() and os.access(there, os.W_OK | os.X_OK):
        return None
    why = "is no folder" if not there.is_dir() else "cannot be written by this user"
    return Refusal(
        f"'{name}' names the folder '{value}', but '{there}' {why}.", "Name a folder that can be made."
    )


def path(value: str) -> Path:
    """A path as it is written, with the home folder that '~' stands for."""
    try:
        return Path(value).expanduser()
    except RuntimeError:
        return Path(value)
