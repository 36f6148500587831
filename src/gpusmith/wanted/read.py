"""From the variables of a host to what the inventory wants of it. The only place that knows how variables are called.

A section of `NodeWanted` takes the variables of one role, and a field the variable of its name: 'nvidia_driver_version' is
`driver.version`. Types and defaults are those of argument_specs; a field's own type only says how Python holds the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from functools import cache
from typing import Any, Protocol, get_args, get_origin, get_type_hints

from gpusmith.errors import Refusal, all_of
from gpusmith.inventory.rules import CONNECTION, OLD_NAMES
from gpusmith.inventory.specs import Specs
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import UnfilledError, has_open, is_plain, unfilled
from gpusmith.inventory.values import convert
from gpusmith.inventory.variables import check_values
from gpusmith.wanted.node import ROLES, NodeWanted, as_owned

PREFIXES = {section: f"{role}_" for section, role in ROLES.items()}
"""What the variables of a section begin with."""
OF_HOST = ("name", "connection", "managed", "counted_by", "pinned")
"""Fields that are no variables of ours."""
OWN = "gpusmith_"
"""What the project's own variables begin with."""


class Variables(Protocol):
    """The variables of one host."""

    def written(self, name: str) -> Any:
        """A value as it is written; None if the host has no such variable."""

    def filled(self, value: Any, trusted: bool = False) -> Any:
        """A value with its templates filled in; trusted are those of the specs."""


def read(host: str, variables: Variables, specs: Specs) -> NodeWanted:
    """What the inventory wants of a host; arguments as of `judged`.

    Raises:
        InputError: a template cannot be filled in, or its value cannot be used.
    """
    found = judged(host, variables, specs)
    if isinstance(found, NodeWanted):
        return found
    raise all_of([on_hosts(refusal, [host]) for refusal in found])


def judged(host: str, variables: Variables, specs: Specs) -> NodeWanted | list[Refusal]:
    """What the inventory wants of a host, or everything that is wrong with its templates.

    Args:
        host: its name.
        variables: of the host. Those without templates were checked: `inventory.variables.check_hosts`.
        specs: the variables that there are.
    """
    wrong: list[Refusal] = []

    def value(name: str) -> Any:
        spec, written = specs.variables.get(name), variables.written(name)
        default = written is None and spec is not None
        found = spec.default if default and spec else written
        if has_open(found) or not is_plain(found):
            try:
                found = variables.filled(found, trusted=default)
                refused = check_values({name: found}, specs)
            except UnfilledError as error:
                refused = [unfilled(name, error)]
            if not refused and (has_open(found) or not is_plain(found)):
                refused = [unfilled(name, repr(found))]
            if refused:
                wrong.extend(refused)
                return None
        return found if found is None or spec is None else convert(spec, found)

    connection = {name: found for name in CONNECTION if (found := value(name)) is not None}
    connection |= {new: connection.pop(old) for old, new in OLD_NAMES.items() if old in connection}
    wanted = NodeWanted(name=host, connection=connection, **_values(NodeWanted, OWN, value))
    return wrong or wanted


def _values(kind: Any, prefix: str, value: Callable[[str], Any]) -> dict[str, Any]:
    found = {}
    for name, hint in _hints(kind).items():
        if name in PREFIXES:
            found[name] = as_owned(name, hint(**_values(hint, PREFIXES[name], value)))
        elif name not in OF_HOST and (given := value(prefix + name)) is not None:
            found[name] = _typed(hint, given)
    return found


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {row.name: hints[row.name] for row in fields(kind)}


def variables_of(kind: Any = NodeWanted, prefix: str = OWN) -> list[str]:
    """Names of all variables that `read` reads."""
    found: list[str] = []
    for name, hint in _hints(kind).items():
        if name in PREFIXES:
            found += variables_of(hint, PREFIXES[name])
        elif name not in OF_HOST:
            found.append(prefix + name)
    return found


def _typed(hint: Any, value: Any) -> Any:
    """A value that the specs let pass, as the field holds it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple(_typed(inner[0], part) for part in value)
    if origin is frozenset:
        return frozenset(_typed(inner[0], part) for part in value)
    if origin is not None and issubclass(origin, Mapping):
        return {str(key): _typed(inner[1], part) for key, part in value.items()}
    return value if hint is Any else hint(value)


# --- as plain data, which travels through Ansible and out of it ------------------------------------------------------


def to_plain(wanted: NodeWanted) -> dict[str, Any]:
    """As JSON has it."""
    plain: dict[str, Any] = _plain(asdict(wanted))
    return plain


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value


def from_plain(plain: Mapping[str, Any], kind: Any = NodeWanted) -> Any:
    """Back from that."""
    return kind(
        **{
            name: from_plain(plain[name], hint) if name in PREFIXES else _typed(hint, plain[name])
            for name, hint in _hints(kind).items()
            if name in plain
        }
    )
