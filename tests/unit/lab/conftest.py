"""A lab whose podman is a recorder."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gpulab.hosts import Host
from gpulab.machines import Machinery
from gpulab.podman import Podman
from gpulab.state import Places


@dataclass(frozen=True)
class FakePodman(Podman):
    """Keeps containers as dictionaries; knows the few commands that the lab gives."""

    containers: dict[str, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    def run(self, *arguments: str, check: bool = True, **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls.append(arguments)
        out, status = "", 0
        if arguments[0] == "create":
            name = arguments[arguments.index("--name") + 1]
            identity = f"id{len(self.calls)}"
            self.containers[name] = {"Id": identity, "State": {"Status": "created"}}
            out = identity
        elif arguments[0] == "start":
            self.containers[arguments[-1]]["State"]["Status"] = "running"
        elif arguments[0] == "rm":
            self.containers.pop(arguments[-1], None)
        elif arguments[:2] == ("container", "inspect"):
            found = self.containers.get(arguments[2])
            out, status = (json.dumps([found]), 0) if found else ("", 125)
        return subprocess.CompletedProcess(list(arguments), status, out, "")

    def verbs(self) -> list[str]:
        """First words of what was run, without questions."""
        return [call[0] for call in self.calls if call[:2] != ("container", "inspect")]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(
        root=tmp_path / "state", inventory=tmp_path / "repo" / "inventory" / "lab", repo=tmp_path / "repo"
    )


@pytest.fixture
def podman(tmp_path: Path) -> FakePodman:
    return FakePodman(tmp_path / "podman.log")


@pytest.fixture
def machinery(places: Places, podman: FakePodman) -> Machinery:
    return Machinery(podman, places, Host(cgroup_version=1))
