"""What may be refused before any host is touched: the target, variable names, types and versions. Pure functions."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import difflib
import re
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence

Options = Dict[str, Mapping[str, Any]]

# Prefixes of variables that no role owns.
PROJECT_PREFIXES = ("gpusmith_", "validation_", "gpu_upgrade_")
# What a typing error does to a name: alike enough that nobody means both.
ALIKE = 0.9
NEAREST = 0.6
BOOLEAN_WORDS = {"yes", "no", "true", "false", "on", "off", "1", "0", "y", "n", "t", "f"}


class Finding(NamedTuple):
    """One reason to refuse: a sentence, and what to do next."""

    message: str
    hint: str

    def text(self) -> str:
        return f"{self.message} {self.hint}".strip()


# --- names ---------------------------------------------------------------------------------------------------------


def options_of(specs: Iterable[Mapping[str, Any]]) -> Options:
    """The options of all entry points of the given argument_specs files, by name."""
    found: Options = {}
    for document in specs:
        for entry in (document.get("argument_specs") or {}).values():
            for name, option in (entry.get("options") or {}).items():
                found[name] = option or {}
    return found


def prefixes_of(roles: Iterable[str]) -> List[str]:
    """What our variables begin with: the roles' names and the project's own words."""
    return sorted({f"{role}_" for role in roles} | set(PROJECT_PREFIXES))


def nearest(name: str, options: Iterable[str]) -> Optional[str]:
    """The declared name that is most like the given one, if any is."""
    matches = difflib.get_close_matches(name, list(options), n=1, cutoff=NEAREST)
    return matches[0] if matches else None


def _did_you_mean(name: str, options: Iterable[str]) -> str:
    other = nearest(name, options)
    if other:
        return f"Did you mean '{other}'?"
    return "See the 'defaults/main.yml' of the roles for the names that exist."


def check_extra_names(extra: Iterable[str], options: Options) -> List[Finding]:
    """Names given with -e: every one must be declared, or be Ansible's own."""
    return [
        Finding(f"Variable '{name}', given with -e, does not exist.", _did_you_mean(name, options))
        for name in sorted(extra)
        if name not in options and not name.startswith("ansible_")
    ]


def check_inventory_names(names: Iterable[str], options: Options, prefixes: Sequence[str]) -> List[Finding]:
    """Names in the inventory: those with our prefixes must be declared, and none may nearly be a declared one."""
    findings = []
    for name in sorted(names):
        if name in options or name.startswith(("ansible_", "_")):
            continue
        ours = name.startswith(tuple(prefixes))
        if ours or difflib.get_close_matches(name, list(options), n=1, cutoff=ALIKE):
            findings.append(
                Finding(f"Variable '{name}' in the inventory does not exist.", _did_you_mean(name, options))
            )
    return findings


# --- values --------------------------------------------------------------------------------------------------------


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "the truth value"
    if isinstance(value, (int, float)):
        return "the number"
    if isinstance(value, str):
        return "the text"
    if isinstance(value, Mapping):
        return "the mapping"
    return "the list" if isinstance(value, (list, tuple)) else "empty:"


def is_template(value: Any) -> bool:
    """Whether a value can only be judged once Ansible has worked it out."""
    return isinstance(value, str) and ("{{" in value or "{%" in value)


def has_template(value: Any) -> bool:
    """Whether that goes for the value or anything inside it."""
    if isinstance(value, Mapping):
        return any(has_template(part) for pair in value.items() for part in pair)
    return any(map(has_template, value)) if isinstance(value, (list, tuple)) else is_template(value)


def _is_number(text: str, cast: Any) -> bool:
    try:
        cast(text)
    except ValueError:
        return False
    return True


def fits(kind: str, value: Any) -> bool:
    """Whether a value is of a type of argument_specs, without the silent conversions of Ansible that lose something."""
    text = isinstance(value, str)
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in ("str", "path"):
        return text
    if kind == "bool":
        return isinstance(value, bool) or (text and value.lower() in BOOLEAN_WORDS)
    if kind == "int":
        return (number and float(value).is_integer()) or (text and _is_number(value, int))
    if kind == "float":
        return number or (text and _is_number(value, float))
    if kind == "list":
        return isinstance(value, (list, tuple))
    if kind == "dict":
        return isinstance(value, Mapping)
    return True


def check_value(name: str, option: Mapping[str, Any], value: Any) -> List[Finding]:
    """Type and choices of one value.

    Args:
        name: variable, with the place inside it for nested ones.
        option: its entry in argument_specs.
        value: as the inventory has it; None and templates are left to the roles.
    """
    if value is None or is_template(value):
        return []
    kind = str(option.get("type", "str"))
    if not fits(kind, value):
        hint = f"It must be of type '{kind}'."
        if kind == "str" and isinstance(value, (int, float)) and not isinstance(value, bool):
            hint = (
                f'Write it in quotes, as in {name}: "..."; without them YAML reads a number and drops digits.'
            )
        elif kind == "str" and isinstance(value, bool):
            hint = f'Write it in quotes, as in {name}: "..."; without them YAML reads a truth value.'
        return [Finding(f"Variable '{name}' is {_kind(value)} {value!r}.", hint)]
    choices = option.get("choices")
    if choices and value not in choices:
        return [
            Finding(f"Variable '{name}' is '{value}'.", f"It must be one of {', '.join(map(repr, choices))}.")
        ]
    findings: List[Finding] = []
    elements = option.get("elements")
    inner = option.get("options")
    if kind == "list" and (elements or inner):
        for index, element in enumerate(value):
            findings += check_value(
                f"{name}[{index}]", {"type": elements or "dict", "options": inner}, element
            )
    elif kind == "dict" and inner:
        for key, entry in value.items():
            if key in inner:
                findings += check_value(f"{name}.{key}", inner[key] or {}, entry)
            else:
                findings.append(
                    Finding(f"Variable '{name}' has no key '{key}'.", _did_you_mean(str(key), inner))
                )
    return findings


def check_values(values: Mapping[str, Any], options: Options) -> List[Finding]:
    """Types and choices of all declared variables among the given ones."""
    findings = []
    for name in sorted(values):
        if name in options:
            findings += check_value(name, options[name], values[name])
    return findings


# --- target --------------------------------------------------------------------------------------------------------


def check_target(
    group: str,
    members: Sequence[str],
    play_hosts: Sequence[str],
    missing_sources: Sequence[str],
    limit: Optional[str],
) -> List[Finding]:
    """Whether the run has any node to work on.

    Args:
        group: inventory group of the nodes.
        members: its hosts, by the inventory.
        play_hosts: hosts of the play, after --limit.
        missing_sources: inventory paths that do not exist.
        limit: the pattern given with --limit.
    """
    findings = [
        Finding(f"Inventory '{path}' does not exist.", "Give the path of an inventory with -i.")
        for path in missing_sources
    ]
    if findings:
        return findings
    if not members:
        hint = f"Put the nodes into group '{group}', as 'inventory/example' shows, and name the inventory with -i."
        return [Finding(f"The inventory has no host in group '{group}'.", hint)]
    if not set(members) & set(play_hosts):
        hint = f"Members of the group are {shorten(members)}."
        return [Finding(f"The limit '{limit or ''}' leaves no host of group '{group}'.", hint)]
    return []


def on_hosts(finding: Finding, hosts: Sequence[str]) -> Finding:
    """The same reason, with the hosts that it is about."""
    message = finding.message
    if not message.startswith("'"):
        message = message[:1].lower() + message[1:]
    return Finding(f"Host{'s' if len(hosts) > 1 else ''} {shorten(hosts)}: {message}", finding.hint)


def shorten(names: Sequence[str], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    shown = ", ".join(f"'{name}'" for name in list(names)[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


# --- cluster -------------------------------------------------------------------------------------------------------


def host_and_port(server: str) -> str:
    """'https://10.0.0.1:6443/' and '10.0.0.1:6443' are the same place; the port is 6443 or, after https://, 443."""
    default = "443" if server.startswith("https://") else "6443"
    place = re.sub(r"^https?://", "", server.strip()).rstrip("/").lower()
    return place if re.search(r":\d+$", place) else f"{place}:{default}"


def check_same_cluster(kubeconfig: str, endpoint: str, servers: Sequence[str]) -> List[Finding]:
    """Whether the kubeconfig leads to the cluster that nodes would join.

    Args:
        kubeconfig: its path, for the message.
        endpoint: what the inventory says that nodes join.
        servers: addresses of the cluster that the kubeconfig leads to, by itself and by its cluster-info.
    """
    if (
        not endpoint
        or not servers
        or host_and_port(endpoint) in {host_and_port(server) for server in servers}
    ):
        return []
    return [
        Finding(
            f"Kubeconfig '{kubeconfig}' leads to the cluster at '{servers[-1]}', but the nodes would join '{endpoint}'.",
            "Set 'gpusmith_kubeconfig' and 'kubernetes_node_control_plane_endpoint' to the same cluster.",
        )
    ]


def check_offline(variables: Mapping[str, Any]) -> list[Finding]:
    """Nodes without the internet need a registry for every image."""
    if str(variables.get("gpusmith_offline", "")).lower() not in ("true", "yes", "1") or variables.get(
        "gpusmith_image_registry"
    ):
        return []
    return [
        Finding(
            "'gpusmith_offline' is set, but 'gpusmith_image_registry' is not: images would be pulled from the internet.",
            "Name the registry that mirrors them.",
        )
    ]


def check_sources(sources: Sequence[str]) -> list[Finding]:
    """The validation suite reads one inventory, and must read the one that the run uses."""
    if len(sources) <= 1:
        return []
    return [
        Finding(
            f"{len(sources)} inventories are given with -i: {', '.join(repr(source) for source in sources)}.",
            "Put them into one folder and name that: the validation suite reads one.",
        )
    ]
