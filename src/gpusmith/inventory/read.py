"""The inventory as Ansible reads it: which GPU nodes there are, and what they should be."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusmith.errors import InputError, Refusal, ToolError
from gpusmith.inventory import specs
from gpusmith.inventory.host import NEEDED, Inventory, host_of
from gpusmith.inventory.programs import ansible_environment, last_lines, run
from gpusmith.inventory.target import GPU_GROUP
from gpusmith.inventory.templates import has_open
from gpusmith.inventory.variables import check_hosts


def read(source: str | None, limit: str | None, working_folder: Path | None = None) -> Inventory:
    """Read an inventory.

    Args:
        source: file, folder or host list with a comma; None for the one of ansible.cfg.
        limit: Ansible pattern; None for all GPU nodes.
        working_folder: relative paths start here.

    Raises:
        InputError: it cannot be used, with the reason.
        ToolError: Ansible's programs are not there.
    """
    folder = working_folder or Path.cwd()
    environment = ansible_environment(folder)
    if source is not None:
        if not source:
            raise InputError("The inventory's path is empty.", "Give --inventory a file or a folder.")
        if "," not in source:
            path = (folder / Path(source).expanduser()).resolve()
            if not path.exists():
                raise InputError(
                    f"Inventory '{source}' does not exist.", "Give --inventory an existing file or folder."
                )
            source = str(path)
    words = ["--inventory", source] if source is not None else []
    words += ["--limit", limit] if limit else []
    done = run("ansible-inventory", ["--list", *words], folder, environment)
    named = source or _default_source(environment)
    if done.returncode != 0:
        raise _unreadable(source, named, limit, done.stderr)
    try:
        tree: dict[str, Any] = json.loads(done.stdout)
    except ValueError as error:
        raise ToolError(
            "'ansible-inventory --list' printed no JSON.",
            f"Try: ansible-inventory --inventory {named} --list",
        ) from error
    variables = _variables(tree, words, folder, environment)
    return build(tree, variables, named, limit or "")


def _unreadable(source: str | None, named: str, limit: str | None, stderr: str) -> InputError:
    said = last_lines(stderr)
    if limit and ("does not match any hosts" in stderr or "Specified inventory" in stderr):
        return InputError(
            f"Pattern '{limit}' matches no host of inventory '{named}'.",
            "Give --limit a host or group of it.",
        )
    if source is None:
        return InputError(
            f"No usable inventory: {said}",
            "Start the lab with 'gpulab up', or name yours with --inventory.",
        )
    return InputError(
        f"Inventory '{named}' cannot be read: {said}",
        f"Try: ansible-inventory --inventory {named} --list",
    )


def _default_source(environment: Mapping[str, str]) -> str:
    return environment.get("ANSIBLE_INVENTORY") or f"of {environment.get('ANSIBLE_CONFIG', 'ansible.cfg')}"


def members(tree: Mapping[str, Any], group: str) -> list[str]:
    """Hosts of a group and of its children, in order, each once."""
    row = tree.get(group) or {}
    found = dict.fromkeys(str(host) for host in row.get("hosts") or [])
    for child in row.get("children") or []:
        found.update(dict.fromkeys(members(tree, str(child))))
    return list(found)


def _variables(
    tree: dict[str, Any], words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """Variables per host; templates among the needed ones are filled in by Ansible, which only then costs a second call."""
    listed: dict[str, dict[str, Any]] = (tree.get("_meta") or {}).get("hostvars") or {}
    nodes = members(tree, GPU_GROUP)
    if not any(has_open(listed.get(node, {}).get(name)) for node in nodes for name in NEEDED):
        return listed
    # A connection that cannot be made would fail the call below, without the reason.
    _refuse(check_hosts({node: listed.get(node, {}) for node in nodes}, specs.load()))
    wanted = ", ".join(f"'{name}': {name} | default(none)" for name in NEEDED)
    command = [GPU_GROUP, *words, "-m", "ansible.builtin.debug", "-a", f"msg={{{{ {{{wanted}}} }}}}"]
    output = {
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "ansible.posix.json",
    }
    done = run("ansible", command, folder, {**environment, **output})
    try:
        # Other callbacks of the user's ansible.cfg may print after it.
        answer, _end = json.JSONDecoder().raw_decode(done.stdout[done.stdout.index("{") :])
        hosts = answer["plays"][0]["tasks"][0]["hosts"]
        for node in nodes:
            filled = {name: value for name, value in hosts[node]["msg"].items() if value is not None}
            before = listed.get(node, {})
            empty = [name for name in NEEDED if has_open(before.get(name)) and name not in filled]
            if empty:
                raise InputError(
                    f"Host '{node}': the template of '{empty[0]}' cannot be filled in: {before[empty[0]]!r}.",
                    f"Try: ansible {node} -m ansible.builtin.debug -a var={empty[0]}",
                )
            left = {name: value for name, value in before.items() if not has_open(value)}
            listed[node] = {**left, **filled}
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise InputError(
            f"Templates among the inventory's variables cannot be filled in: {last_lines(done.stdout + done.stderr)}",
            "Look at the named variable in the inventory.",
        ) from error
    return listed


def _refuse(refusals: Sequence[Refusal]) -> None:
    if refusals:
        raise InputError(refusals[0].message, refusals[0].hint)


def build(
    tree: Mapping[str, Any], variables: Mapping[str, Mapping[str, Any]], source: str, limit: str
) -> Inventory:
    """The inventory from what ansible-inventory printed.

    Raises:
        InputError: no GPU nodes, or one whose variables cannot be used.
    """
    names = members(tree, GPU_GROUP)
    if not names:
        if limit:
            raise InputError(
                f"Pattern '{limit}' matches no host of group '{GPU_GROUP}' in inventory '{source}'.",
                "Give --limit a GPU node or a group that has some.",
            )
        raise InputError(
            f"Inventory '{source}' has no host in group '{GPU_GROUP}'.",
            f"Put the GPU nodes into group '{GPU_GROUP}'.",
        )
    known = specs.load()
    hosts = {name: variables.get(name, {}) for name in names}
    _refuse(check_hosts(hosts, known))
    return Inventory(
        source, limit, {name: host_of(name, values, known) for name, values in hosts.items()}, tree
    )
