"""What a validation stamp depends on."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from gpusmith.probe.record import Record


def stamp_facts(record: Record) -> dict[str, Any]:
    """The facts after whose change a node must be validated again, with a digest over them.

    Returns:
        driver (loaded version), kernel, runtime (containerd and toolkit with the digest of the effective
        configuration), simulated, digest.
    """
    toolkit = record.packages.get("nvidia-container-toolkit")
    version, toolkit_version = record.containerd.version, toolkit.version if toolkit else None
    configuration = record.containerd.digest[:16] if record.containerd.digest else None
    facts: dict[str, Any] = {
        "driver": record.module.loaded_version,
        "kernel": record.host.kernel,
        "runtime": f"containerd {version}, toolkit {toolkit_version}, configuration {configuration}",
        "simulated": record.library.simulated,
    }
    facts["digest"] = "sha256:" + hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return facts


def missing_facts(facts: Mapping[str, Any]) -> list[str]:
    """The facts that are unknown: a node that lacks one cannot be stamped."""
    return [name for name in ("driver", "kernel") if facts.get(name) is None]
