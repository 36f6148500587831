"""What decides whether an artifact is made anew."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from gpulab.artifacts.builder import Builder
from gpulab.artifacts.store import Store, key_of


def test_another_kernel_gets_packages_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(release: str) -> str:
        monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(release=release, machine="x86_64"))
        return key_of(Builder(Store(tmp_path))._simulation)

    assert key("6.1.0-41-amd64") != key("6.1.0-40-amd64") == key("6.1.0-40-amd64")
