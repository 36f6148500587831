"""What a cluster was measured to have, in a file that later runs compare it with: --record and --expect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml

from gpusmith.cluster.views import NodeView
from gpusmith.errors import InputError, ToolError
from gpusmith.names import DRIVER_LABEL, GPU_RESOURCE, PRODUCT_LABEL, REPLICAS_LABEL

SCHEMA = "gpusmith.expect/1"
LABELS = (PRODUCT_LABEL, DRIVER_LABEL, REPLICAS_LABEL)
"""Labels of feature discovery that say what a node has; the others follow from them, or change by themselves."""

Pinned = Mapping[str, Mapping[str, str]]
"""Of a node: 'capacity' and 'labels', each by name."""


def pinned(view: NodeView) -> Pinned:
    """What is kept of a node."""
    return {
        "capacity": {name: str(count) for name, count in view.capacity.items() if count},
        "labels": {name: view.labels[name] for name in LABELS if name in view.labels},
    }


def gpus(of: Pinned) -> int:
    """How many GPUs a node has, by what is kept of it."""
    return int(of["capacity"].get(GPU_RESOURCE, 0)) // max(1, int(of["labels"].get(REPLICAS_LABEL, 1)))


def record(path: Path, views: Iterable[NodeView]) -> None:
    """Write the file.

    Raises:
        ToolError: it cannot be written.
    """
    document = {"schema": SCHEMA, "nodes": {view.name: pinned(view) for view in views}}
    try:
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
    except OSError as error:
        raise ToolError(
            f"File '{path}' of --record cannot be written: {error.strerror}.", "Name another one."
        ) from error


def load(path: Path) -> Mapping[str, Pinned]:
    """By name of the node.

    Raises:
        InputError: it is none that --record wrote.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is '{document['schema']}', not '{SCHEMA}'")
        return {
            name: {
                part: {key: str(value) for key, value in row[part].items()} for part in ("capacity", "labels")
            }
            for name, row in document["nodes"].items()
        }
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = error.strerror if isinstance(error, OSError) else " ".join(str(error).split())
        raise InputError(
            f"File '{path}' of --expect cannot be read: {why}.", "Give one that --record wrote."
        ) from error
