"""The probe's code inside a module: the controller sends it along as a zip (`gpusmith.node.bundle`)."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
import os
import sys
from typing import Any

# What nobody wants to read in an output, and no secret.
OPTION = {"type": "str", "no_log": True, "default": ""}


def take(module: Any) -> None:
    """Make ``gpusmith.probe`` importable; the zip stays in memory, or in the module's own temporary folder."""
    try:
        path = f"/proc/self/fd/{os.memfd_create('gpusmith-probe')}"
    except (AttributeError, OSError):
        path = os.path.join(module.tmpdir, "gpusmith-probe.zip")
    with open(path, "wb") as file:
        file.write(base64.b64decode(module.params["bundle"]))
    sys.path.insert(0, path)
