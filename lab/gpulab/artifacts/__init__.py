"""Everything that the lab's machines get, built once per machine and cached by content.

from gpulab.artifacts import ensure
artifacts = ensure()
"""

from __future__ import annotations

from pathlib import Path

from gpulab.artifacts.builder import Artifacts, Builder, ensure, store

__all__ = ["Artifacts", "ensure", "sysroot"]


def sysroot() -> Path:
    """C library and headers of the nodes' distribution, for a compiler's --sysroot: this machine's may be newer."""
    return Builder(store()).sysroot()
