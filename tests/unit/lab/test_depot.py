"""The depot: whether it serves, and what must outlive the cache below it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpulab import depot
from gpulab.artifacts import repos
from gpulab.artifacts.builder import Builder
from gpulab.artifacts.store import Store
from gpulab.machines import DEPOT, Machine, Machinery
from gpulab.network import Plan
from gpulab.podman import Podman
from gpulab.state import Places

PLAN = Plan.parse("10.77.0.0/24")


@dataclass(frozen=True)
class Answers(Podman):
    status: int = 0

    def exec(self, *_: Any, **__: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess([], self.status, "", "HTTP Error 404: Not Found")


@pytest.mark.parametrize(("status", "expected"), [(0, True), (1, False)])
def test_whether_it_serves(places: Places, machinery: Machinery, status: int, expected: bool) -> None:
    asked = Machinery(Answers(places.root / "podman.log", status=status), places, machinery.host)
    assert depot.serves(asked, Machine(DEPOT, DEPOT, PLAN.depot), PLAN, ["cuda"]) is expected


def test_every_repository_is_asked_for() -> None:
    asked = depot.urls(PLAN, ["apt/cuda/InRelease", "rocky-9/cuda/repodata/repomd.xml"])
    assert f"http://{PLAN.depot}/apt/cuda/InRelease" in asked
    assert f"http://{PLAN.depot}/rocky-9/cuda/repodata/repomd.xml" in asked


def test_the_signing_key_outlives_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folders: list[Path] = []

    def made(folder: Path) -> repos.SigningKey:
        folders.append(folder)
        return repos.SigningKey(folder / "public.asc", folder / "secret.asc")

    monkeypatch.setattr(repos, "signing_key", made)
    Builder(Store(tmp_path / "cache" / "gpusmith" / "artifacts")).signing_key  # noqa: B018 - a property that asks
    assert folders == [tmp_path / "state" / "gpusmith" / "keys" / "apt"]
