"""Teams and PriorityClasses of an inventory: what the API server would refuse, or take for something else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kubernetes.utils.quantity import parse_quantity

from gpusmith.errors import Refusal
from gpusmith.inventory.kubelet import is_quantity
from gpusmith.inventory.labels import DNS_NAME, is_key, must_be, object_name
from gpusmith.inventory.templates import has_open
from gpusmith.inventory.values import whole
from gpusmith.names import DEVICE_CLASS
from gpusmith.wording import quoted

TEAMS, CLASSES = "gpu_tenants_teams", "gpu_tenants_classes"
MODE, EXEMPT = "gpu_tenants_policy", "gpu_tenants_policy_exempt"
SYSTEM = ("default", "kube-", "gpusmith-")
"""Beginnings of names of namespaces that are no team's."""
HIGHEST = 1_000_000_000
"""Of a PriorityClass: above are those of Kubernetes itself (Kubernetes 1.36, pkg/apis/scheduling/types.go)."""
KINDS = ("User", "Group", "ServiceAccount")

Check = Callable[[str, Any], Iterator[Refusal]]


def _count(place: str, value: Any) -> Iterator[Refusal]:
    found = whole(value)
    if isinstance(value, str) or found is None or found < 0:
        yield must_be(place, "a whole number from 0", value)


def _counts(wants: str, is_name: Callable[[Any], bool]) -> Check:
    def check(place: str, value: Any) -> Iterator[Refusal]:
        if not isinstance(value, Mapping):
            yield must_be(place, f"a mapping of {wants} to numbers", value)
            return
        for key, count in value.items():
            if not is_name(key):
                yield must_be(place, f"a mapping whose keys are {wants}", key)
            else:
                yield from _count(f"{place}.{key}", count)

    return check


def _flag(place: str, value: Any) -> Iterator[Refusal]:
    if not isinstance(value, bool):
        yield must_be(place, "true or false", value)


def _members(place: str, value: Any) -> Iterator[Refusal]:
    rows = value if isinstance(value, list | tuple) else None
    if rows is None:
        yield must_be(place, "a list such as [{kind: Group, name: team-a}]", value)
    for index, row in enumerate(rows or ()):
        known = (
            isinstance(row, Mapping)
            and row.get("kind") in KINDS
            and isinstance(row.get("name"), str)
            and row["name"]
        )
        if not known or set(row) - {"kind", "name", "namespace"}:
            yield must_be(
                f"{place}[{index}]", f"a mapping with 'kind', one of {quoted(KINDS)}, and 'name'", row
            )


def _amount(place: str, value: Any) -> Iterator[Refusal]:
    if not is_quantity(value) or parse_quantity(value) <= 0:
        yield must_be(place, "an amount above 0, such as 64 or 512Gi", value)


def _network(place: str, value: Any) -> Iterator[Refusal]:
    if value not in ("open", "isolated"):
        yield must_be(place, "'open' or 'isolated'", value)


def _standard(place: str, value: Any) -> Iterator[Refusal]:
    if value not in ("privileged", "baseline", "restricted"):
        yield must_be(place, "'privileged', 'baseline' or 'restricted'", value)


def _value(place: str, value: Any) -> Iterator[Refusal]:
    if isinstance(value, bool) or not isinstance(value, int) or not -HIGHEST <= value <= HIGHEST:
        yield must_be(place, f"a whole number from -{HIGHEST} to {HIGHEST}", value)


def _is_resource(name: Any) -> bool:
    named = is_key(name) and "/" in name and not name.startswith(("requests.", "limits."))
    return named or name == DEVICE_CLASS


def _is_class(name: Any) -> bool:
    return isinstance(name, str) and DNS_NAME.fullmatch(name) is not None


OF_TEAM: Mapping[str, Check] = {
    "gpus": _count,
    "resources": _counts("resources such as 'nvidia.com/mig-1g.10gb'", _is_resource),
    "gpus_of_class": _counts("names of PriorityClasses", _is_class),
    "gpus_per_pod": _count,
    "cpu": _amount,
    "memory": _amount,
    "pods": _count,
    "network": _network,
    "members": _members,
    "pod_security": _standard,
    "adopt": _flag,
    "reclaim": _flag,
}
OF_CLASS: Mapping[str, Check] = {"value": _value, "preempts": _flag, "default": _flag}


def teams(name: str, value: Any) -> Iterator[Refusal]:
    """Teams by the names of their namespaces."""
    for key, row in value.items() if isinstance(value, Mapping) else ():
        if not isinstance(key, str) or key.startswith(SYSTEM) or "." in key:
            yield must_be(name, "a mapping whose keys are namespaces of teams", key)
        else:
            yield from object_name(name, key)
            yield from _row(f"{name}.{key}", row, OF_TEAM)


def classes(name: str, value: Any) -> Iterator[Refusal]:
    """PriorityClasses by their names."""
    rows = value if isinstance(value, Mapping) else {}
    for key, row in rows.items():
        if not _is_class(key) or key.startswith("system-"):
            yield must_be(
                name, "a mapping whose keys are names of PriorityClasses, without 'system-' first", key
            )
        elif isinstance(row, Mapping) and "value" not in row:
            yield Refusal(f"'{name}.{key}' lacks 'value'.", "Pods with a class of a higher value come first.")
        else:
            yield from _row(f"{name}.{key}", row, OF_CLASS)
    default = [key for key, row in rows.items() if isinstance(row, Mapping) and row.get("default") is True]
    if len(default) > 1:
        yield Refusal(f"'{name}' has {len(default)} defaults: {quoted(default)}.", "A cluster takes one.")


def _row(place: str, row: Any, known: Mapping[str, Check]) -> Iterator[Refusal]:
    if not isinstance(row, Mapping):
        yield must_be(place, f"a mapping with some of {quoted(known)}", row)
        return
    for key, value in row.items():
        if key not in known:
            yield Refusal(f"'{place}' has no key '{key}'.", f"It has {quoted(known)}.")
        elif not has_open(value):
            yield from known[key](f"{place}.{key}", value)
