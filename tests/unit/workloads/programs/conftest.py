"""Imports a program as its pod would."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workloads.programs.fake_libraries import UUID


@pytest.fixture
def load(programs: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Imports a program as its pod would; the kernel's vectors are shortened."""
    monkeypatch.syspath_prepend(str(programs))
    monkeypatch.setenv("GPUSMITH_SIMULATED", "true")
    monkeypatch.setenv("GPUSMITH_GPUS", "2")
    before = set(sys.modules)
    driver = importlib.import_module("gpu_driver")
    monkeypatch.setattr(driver, "ELEMENTS", 1024)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", "") and str(programs) in str(sys.modules[name].__file__):
            del sys.modules[name]


@pytest.fixture
def uuids(load: Any) -> list[str]:
    return [load("gpu_driver").format_uuid(raw) for raw in UUID]
