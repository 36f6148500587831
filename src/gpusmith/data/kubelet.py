"""Fields of KubeletConfiguration: the table data/kubelet.yml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith.data import table

SCHEMA = "gpusmith.kubelet/1"


@dataclass(frozen=True)
class KubeletTable:
    """What the kubelet's configuration may be.

    Attributes:
        kubernetes: minor versions of Kubernetes that it was read from.
        fields: types by name.
        objects: types of a structure's fields by name, by name of the structure.
        choices: values of a field, or keys of a map, by its place.
        since: first minor version of Kubernetes that has a field, where not all of the table's have it.
        ours: why a field is not the inventory's.
    """

    kubernetes: Sequence[str]
    fields: Mapping[str, str]
    objects: Mapping[str, Mapping[str, str]]
    choices: Mapping[str, Sequence[str]]
    since: Mapping[str, str]
    ours: Mapping[str, str]


def _parse(content: dict[str, Any]) -> KubeletTable:
    return KubeletTable(
        kubernetes=list(content["kubernetes"]),
        fields=dict(content["fields"].items()),
        objects={name: dict(fields.items()) for name, fields in content["objects"].items()},
        choices={place: list(map(str, values)) for place, values in content["choices"].items()},
        since=dict(content["since"].items()),
        ours=dict(content["ours"].items()),
    )


@cache
def load(path: Path | None = None) -> KubeletTable:
    """The table.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "kubelet.yml", SCHEMA, "the kubelet's fields", _parse)
