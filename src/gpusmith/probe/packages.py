"""Installed packages that matter to GPUs, containers and Kubernetes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Package:
    """An installed package."""

    version: str
    held: bool
