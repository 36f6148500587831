"""A lab whose podman is a recorder."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from gpulab.hosts import Host
from gpulab.machines import Machinery
from gpulab.podman import Podman
from gpulab.state import Places

from gpusmith.errors import ToolError


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
            self.containers[name] = {"Id": identity, "State": {"Status": "created", "Pid": 0}}
            out = identity
        elif arguments[0] == "start":
            self.containers[arguments[-1]]["State"] = {"Status": "running", "Pid": os.getpid()}
        elif arguments[0] == "stop":
            self.containers[arguments[-1]]["State"] = {"Status": "exited", "Pid": 0}
        elif arguments[0] == "rm":
            status = self._rm(arguments[-1])
        elif arguments[0] == "ps":
            out = json.dumps(
                [
                    {"Names": [name], "Pid": container["State"]["Pid"]}
                    for name, container in self.containers.items()
                    if container["State"]["Status"] == "running"
                ]
            )
        elif arguments[:2] == ("volume", "create"):
            self.volume(arguments[-1]).mkdir(parents=True, exist_ok=True)
        elif arguments[:2] == ("volume", "inspect"):
            out = f"{self.volume(arguments[-1])}\n"
        elif arguments[:2] == ("container", "inspect"):
            found = self.containers.get(arguments[2])
            out, status = (json.dumps([found]), 0) if found else ("", 125)
        if check and status != 0:
            raise ToolError(f"'podman {arguments[0]}' ended with status {status}.", "")
        return subprocess.CompletedProcess(list(arguments), status, out, "")

    def _rm(self, name: str) -> int:
        """As podman does: what was killed with its monitor is settled by the first try, removed by the next."""
        state = self.containers.get(name, {}).get("State", {})
        if state.get("Status") == "running" and not Path(f"/proc/{state['Pid']}").exists():
            self.containers[name]["State"] = {"Status": "exited", "Pid": 0}
            return 125
        self.containers.pop(name, None)
        return 0

    def volume(self, name: str) -> Path:
        """Folder of a volume."""
        return self.log.parent / "volumes" / name / "_data"

    def verbs(self) -> list[str]:
        """First words of what was run, without questions."""
        return [call[0] for call in self.calls if call[1] != "inspect"]


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
