"""A simulated machine that can be divided, and the program that divides it, as it travels."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpulab.simgpu import packages
from simgpu import paths
from simgpu.hardware import Machine
from simgpu.state import State

from gpusmith.data import mig, models
from gpusmith.node import bundle
from tests.integration.simgpu.conftest import built as built
from tests.integration.simgpu.conftest import driven as driven
from tests.integration.simgpu.conftest import kernel as kernel
from tests.integration.simgpu.conftest import libraries as libraries
from tests.integration.simgpu.conftest import node as node
from tests.integration.simgpu.test_mig import capabilities
from tests.integration.simgpu.test_mig import kernel_program as kernel_program
from tests.unit.simgpu.conftest import powered_on

HEAD = """
import sys
sys.path.insert(0, {program!r})
import os
from gpusmith.probe import library, usage
class Files:
    def __init__(self, *_): pass
    def is_ours(self, path): return os.readlink(path).startswith({root!r})
library.find_libraries = lambda *_: {libraries!r}
usage.Devices = Files
from gpusmith.partition import gpu, run
gpu.PATIENCE_S = {patience}
run.MARKS = run.Path({root!r}) / "marks"
run.MPS = run.Path({root!r}) / "mps"
run.mps.gather = run.mps.Mps
"""


@pytest.fixture
def machine(request: pytest.FixtureRequest, kernel: None) -> Machine:
    """A machine with two GPUs of a model, no driver loaded."""
    return powered_on(getattr(request, "param", "h100-sxm"), 2)


@dataclass
class Divided:
    """The machine, and how its GPUs are."""

    node: Any
    folder: Path
    tools: Path
    model: str

    @property
    def file(self) -> Path:
        """The machine's own word."""
        return self.folder / "gpu-layout.json"

    def write(self, profile: str = "", **more: object) -> None:
        """As many instances of a profile as a GPU can have."""
        rows: dict[str, object] = {"schema": "gpusmith.gpu-layout/1", **more}
        if profile:
            gpu = mig.of_model(models.load()[self.model])
            assert gpu
            placed = mig.place([mig.ALL + profile], gpu)
            rows |= {
                "profile": profile,
                "nvml": placed[0].profile.nvml,
                "starts": [row.start for row in placed],
            }
        self.file.write_text(json.dumps(rows))

    def python(self, code: str, patience: float = 0.2) -> tuple[int, Any]:
        """Run code beside the program that travels; its status, and the JSON that it prints last."""
        head = HEAD.format(
            program=str(self.folder / "gpu-layout.pyz"),
            root=str(self.node.root),
            libraries=[str(self.node.libraries / "libnvidia-ml.so.1")],
            patience=patience,
        )
        env = self.node.env({"PATH": f"{self.tools}:{os.environ['PATH']}"})
        command = [sys.executable, "-I", "-S", "-c", head + code]
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=60, check=False)
        assert done.stdout, done.stderr
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    def run(self, *words: str) -> tuple[int, Any]:
        """Run the program."""
        return self.python(f"sys.exit(run.main({['--file', str(self.file), *words]!r}))")

    def says(self, *words: str) -> Sequence[str]:
        """What it does, without names of GPUs; it must succeed."""
        status, result = self.run(*words)
        assert status == 0, result
        assert result["simulated"] is True
        assert result["changed"] == bool(result["done"])
        return [re.sub(r"GPU \d+ \(.*?\)", "GPU", row) for row in result["done"]]

    def instances(self) -> Sequence[tuple[int, str, str]]:
        """Index of the GPU, the profile's id and start of each that can be used."""
        minors = [row["minor"] for row in self.gpus()]
        return sorted(
            (minors.index(row["minor"]), row["profile"], row["start"])
            for row in State.load().instances
            if row["compute"] == "1"
        )

    def uuids(self, index: int) -> set[str]:
        """Of the instances of a GPU."""
        minor = self.gpus()[index]["minor"]
        return {row["uuid"] for row in State.load().instances if row["minor"] == minor}

    def modes(self) -> Sequence[str]:
        """Of each GPU, now and after a reset."""
        return [row["mig"] + row["mig_pending"] for row in self.gpus()]

    def gpus(self) -> Sequence[dict[str, str]]:
        """In NVML's order, which is that of addresses, and not of minors."""
        return sorted(State.load().gpus, key=lambda row: row["pci"])

    @contextmanager
    def held(self, index: int) -> Iterator[int]:
        """A process that has a GPU open; its PID."""
        path = self.node.root / "dev" / f"nvidia{self.gpus()[index]['minor']}"
        code = f"f = open({str(path)!r}); print(flush=True); input()"
        with subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdout
            holder.stdout.readline()
            link = paths.PROCESSES / str(holder.pid)
            link.symlink_to(f"/proc/{holder.pid}")
            try:
                yield holder.pid
            finally:
                link.unlink()
                holder.kill()


@pytest.fixture
def divided(
    request: pytest.FixtureRequest,
    node: Any,
    machine: Machine,
    kernel_program: None,
    built: packages.Driver,
    tmp_path: Path,
) -> Divided:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "gpu-layout.pyz").write_bytes(bundle.partition())
    node.devices(0, 1)
    capabilities(node, *range(1, 2 * 135))
    return Divided(node, folder, Path(built.part("nvidia-smi")).parent, str(machine["model"]))
