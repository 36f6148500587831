"""Reading one table of data/."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import yaml

from gpusmith import yaml_text
from gpusmith.errors import ToolError
from gpusmith.paths import repo_root

T = TypeVar("T")


def read(path: Path | None, name: str, schema: str, what: str, parse: Callable[[dict[str, Any]], T]) -> T:
    """A table as typed rows.

    Args:
        path: another file than the one of that name in data/.
        name: of the file.
        schema: that it must have.
        what: of what it is a table, for the error.
        parse: makes rows of the file's content.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    source = path or repo_root() / "data" / name
    try:
        content = yaml_text.load(source.read_text())
        if content["schema"] != schema:
            raise ValueError(f"schema is '{content['schema']}', not '{schema}'")
        return parse(content)
    except (OSError, yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise ToolError(
            f"The table of {what} '{source}' cannot be read: {error!r}.",
            "Restore it from the repository.",
        ) from error
