"""Whether hosts' variables can be used: names, types, choices, rules. The playbooks' guard and the suite ask here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory import kubelet
from gpusmith.inventory.machines import check_addresses, check_models
from gpusmith.inventory.names import check_inventory_names
from gpusmith.inventory.rules import RULES, Rule, from_zero
from gpusmith.inventory.specs import Specs
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import UnfilledError, has_open, is_plain
from gpusmith.inventory.values import check


def check_values(values: Mapping[str, Any], specs: Specs) -> list[Refusal]:
    """Types and choices by argument_specs; then, of values that fit them, what only the rules know."""
    found: list[Refusal] = []
    for name, value in sorted(values.items()):
        spec = specs.variables.get(name)
        if value is None and spec is not None and spec.default is not None:
            # Roles would take it for a value: an operand that is not 'managed' is deleted.
            hint = "Give it a value, or take the line out: then its default holds."
            found.append(Refusal(f"Variable '{name}' is empty.", hint))
            continue
        wrong = check(name, spec, value) if spec is not None else []
        rule = _rule(name, specs)
        if not wrong and rule is not None and is_plain(value) and not has_open(value):
            wrong = list(rule(name, value))
        found += wrong
    return found


def _rule(name: str, specs: Specs) -> Rule | None:
    """Numbers are counts, sizes and times: without a rule of its own, none is negative."""
    spec = specs.variables.get(name)
    return RULES.get(name) or (from_zero if spec is not None and spec.type == "int" else None)


def check_templates(written: Mapping[str, Any], fill: Callable[[str], Any], specs: Specs) -> list[Refusal]:
    """Types, choices and rules of a host's templates: those that the guard could not fill in, since they need facts.

    Args:
        written: variables by name, templates as they are written.
        fill: the value of one with its templates filled in. What raises `UnfilledError` is left to the task that needs it.
        specs: the variables that there are.
    """
    values: dict[str, Any] = {}
    for name in specs.variables:
        value = written.get(name)
        if has_open(value) and is_plain(value):
            with suppress(UnfilledError):
                values[name] = fill(name)
    return check_values(values, specs)


def check_hosts(hosts: Mapping[str, Mapping[str, Any]], specs: Specs) -> list[Refusal]:
    """What is wrong among the variables of hosts; a value that several share is judged and told once.

    Args:
        hosts: variables by name, by host. Templates are filled in where that can be done.
        specs: the variables that there are.
    """
    names = sorted({name for values in hosts.values() for name in values})
    found = check_inventory_names(names, specs)
    for name in names:
        if name not in specs.variables and name not in RULES:
            continue
        rows: list[tuple[Any, list[str]]] = []
        for host, values in hosts.items():
            if name not in values:
                continue
            value = values[name]
            same = [there for other, there in rows if value == other and type(value) is type(other)]
            if same:
                same[0].append(host)
            else:
                rows.append((value, [host]))
        for value, there in rows:
            found += [on_hosts(refusal, there) for refusal in check_values({name: value}, specs)]
    return found + _too_new(hosts) + check_models(hosts) + check_addresses(hosts)


def _too_new(hosts: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    """Settings that the kubelet of a host's version does not know yet."""
    rows: dict[Refusal, list[str]] = {}
    for host, values in hosts.items():
        for refusal in kubelet.too_new(values.get(kubelet.VARIABLE), values.get("kubernetes_node_version")):
            rows.setdefault(refusal, []).append(host)
    return [on_hosts(refusal, there) for refusal, there in rows.items()]
