"""Facts of a site's own: what the functions `facts()` of files find that travel with the probe (node/bundle.py)."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import importlib
import json
import pkgutil
from collections.abc import Mapping
from typing import Any

PACKAGE = "gpusmith_facts"


def gather(errors: list[str], package: str = PACKAGE) -> Mapping[str, Any]:
    """What each file found, by its name without '.py'; one that breaks is a hole of its own.

    Args:
        errors: told of those.
        package: has the files; there is none if the site has none.
    """
    try:
        files = importlib.import_module(package).__path__
    except ImportError:
        return {}
    found = {}
    for row in pkgutil.iter_modules(files):
        try:
            facts = importlib.import_module(f"{package}.{row.name}").facts()
            found[row.name] = json.loads(json.dumps(facts))
        except Exception as error:  # noqa: BLE001 - other people's code
            errors.append(f"own facts '{row.name}': {type(error).__name__}: {error}")
    return found
