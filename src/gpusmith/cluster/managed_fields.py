"""Who set which field of an object of ours, by the API server's own record of it: metadata.managedFields.

A server-side apply takes away what its own manager sent before and sends no longer. What somebody else added stays, until the
record says that it is ours.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gpusmith.names import MANAGER

LEFT_ALONE = ((), ("f:metadata",), ("f:status",))
"""Where controllers, and tools that only note something, write as well."""
RESTARTED_AT = (
    "f:spec", "f:template", "f:metadata", "f:annotations", "f:kubectl.kubernetes.io/restartedAt",
)  # fmt: skip
"""What 'kubectl rollout restart' leaves behind; without it the pods would start once more, for nothing."""

Path = tuple[str, ...]
Object = Mapping[str, Any]


def title(kind: str, name: str, namespace: str = "") -> str:
    """What an object is called in sentences."""
    return f"{kind} '{namespace + '/' if namespace else ''}{name}'"


def additions(found: Object) -> list[str]:
    """What others set in an object of ours, in words: the outermost field of which nothing is ours.

    That is what somebody added, and also what somebody changed, since a change takes the field over.
    """
    foreign, known = _split(found)
    outermost = {next(path[:n] for n in range(1, len(path) + 1) if path[:n] not in known) for path in foreign}
    return sorted(map(_words, outermost))


def taken_over(found: Object) -> list[Object]:
    """The record with these fields as ours and nobody else's, so that the next apply takes them away; the rest stays as it is.

    Args:
        found: an object as the API server gives it by itself; in a list it does not have its 'apiVersion'.
    """
    foreign, _ = _split(found)
    ours: Object = {
        "manager": MANAGER,
        "operation": "Apply",
        "apiVersion": found["apiVersion"],
        "fieldsType": "FieldsV1",
    }
    own = set(foreign)
    others = []
    for row in _rows(found):
        if _is_ours(row):
            ours = row
            own |= _members(row)
        elif left := _members(row) - foreign:
            others.append({**row, "fieldsV1": _tree(left)})
    return [{**ours, "fieldsV1": _tree(own)}, *others]


def own_fields(found: Object) -> frozenset[Path]:
    """What our applies set in an object."""
    return frozenset(path for row in _rows(found) if _is_ours(row) for path in _members(row))


def _split(found: Object) -> tuple[set[Path], set[Path]]:
    """Fields that only others have, and all that stays, with what it lies in."""
    own: set[Path] = set()
    others: set[Path] = set()
    for row in _rows(found):
        if _is_ours(row):
            own |= _members(row)
        elif not row.get("subresource"):
            others |= _members(row)
    stays = own | (others & {RESTARTED_AT})
    known = {path[:n] for path in stays for n in range(len(path) + 1)}
    return {path for path in others if path[:1] not in LEFT_ALONE and path not in known}, known


def _rows(found: Object) -> list[Object]:
    return list(found["metadata"].get("managedFields") or [])


def _is_ours(row: Object) -> bool:
    return row.get("manager") == MANAGER and row.get("operation") == "Apply" and not row.get("subresource")


def _members(row: Object) -> set[Path]:
    return set(_walk(row.get("fieldsV1") or {}, ()))


def _walk(fields: Object, above: Path) -> Iterable[Path]:
    """Leaves of a FieldsV1, and what says by '.' that it is a member itself."""
    for key, below in fields.items():
        if key == ".":
            yield above
        elif below:
            yield from _walk(below, (*above, key))
        else:
            yield (*above, key)


def _tree(members: Iterable[Path]) -> Object:
    """The FieldsV1 of these members."""
    root: dict[str, Any] = {}
    # Backwards, so that what lies in a member is there before the member, which is a leaf if nothing does.
    for path in sorted(members, reverse=True):
        part = root
        for key in path:
            part = part.setdefault(key, {})
        if part:
            part["."] = {}
    return root


def _words(path: Path) -> str:
    """As people write it: 'spec.containers[main].env[NAME]'."""
    words = ""
    for key in path:
        kind, _, value = key.partition(":")
        if kind == "f":
            words += f".{value}"
        elif kind == "k":
            words += f"[{','.join(str(part) for part in json.loads(value).values())}]"
        else:
            words += f"[{value}]"
    return words.removeprefix(".")
