"""Many nodes: what is asked of the API server does not grow with what is checked. Times: scripts/bench-suite-scale."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpusmith.checks.register import catalog
from gpusmith.cluster.api import PAGE_SIZE
from tests.fleet import api, site

NODES = 300


def suite(root: Path, folder: Path, tiers: str) -> tuple[subprocess.CompletedProcess[str], dict[str, int]]:
    """A run of it, and how often each list was asked for."""
    asked: dict[str, int] = {}
    for fleet in api.served(NODES, folder):
        words = [
            "--inventory",
            str(folder / "inventory"),
            "--tier",
            tiers,
            "--report-dir",
            str(folder / "reports"),
        ]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", str(root / "validation"), *words],
            cwd=root,
            env={**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        asked = dict(fleet.asked)
    return done, asked


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fleet")
    site.make(NODES, made)
    return made


def test_every_list_is_read_once_in_pages(root: Path, folder: Path) -> None:
    done, asked = suite(root, folder, "nodes,cluster")
    assert done.returncode == 0, done.stdout[-3000:]
    results = json.loads((folder / "reports" / "results.json").read_text())
    per_node = [
        check.id for check in catalog().values() if check.per_node and check.tier in ("nodes", "cluster")
    ]
    assert results["summary"]["passed"] + results["summary"]["skipped"] >= len(per_node) * NODES
    assert results["coverage"]["nodes"]["tested"] == NODES
    pods = NODES * len(api.PODS) + 1
    assert asked["GET /api/v1/nodes"] == math.ceil(NODES / PAGE_SIZE)
    assert asked["GET /api/v1/pods"] == math.ceil(pods / PAGE_SIZE)
    assert sum(asked.values()) <= asked["GET /api/v1/nodes"] + asked["GET /api/v1/pods"] + 8, asked
    # One test for each check, and one block for what is the same of all nodes.
    assert len(done.stdout.splitlines()) < 150, done.stdout


def test_of_a_broken_site_four_causes_are_told(root: Path, tmp_path: Path) -> None:
    """39 nodes with 111 failures."""
    site.make(NODES, tmp_path, broken=True)
    done, _asked = suite(root, tmp_path, "nodes")
    assert done.returncode == 1, done.stdout[-3000:]
    told = [line.split() for line in done.stdout.splitlines() if line.startswith("FAILED nodes.")]
    assert [(row[1], " ".join(row[3:])) for row in told] == [
        ("nodes.driver-versions", "gpu-[00100:00117]"),
        ("nodes.nvml", "gpu-00299"),
        ("nodes.fabric", "gpu-[00140:00156]"),
        ("nodes.ecc", "gpu-00203, gpu-00240, gpu-00277"),
    ]
    also = "nodes.cuda-toolkits (18), nodes.fabric (18), nodes.cdi (18), nodes.uniformity (18)"
    assert f"  also:  {also}" in done.stdout
    assert f"  common: driver {site.OLD_DRIVER}; no other node has that" in done.stdout
    assert "  common: group rack_07; 3 other nodes have that" in done.stdout
    results = json.loads((tmp_path / "reports" / "results.json").read_text())
    assert results["summary"]["failed"] == 111, "what is folded is in the results"


def test_the_cluster_is_judged_without_a_way_to_its_machines(root: Path, folder: Path) -> None:
    (folder / "bin" / "ssh").write_text("#!/bin/sh\nexit 255\n")
    done, _asked = suite(root, folder, "cluster")
    assert done.returncode == 0, done.stdout[-3000:]
    results = json.loads((folder / "reports" / "results.json").read_text())
    outcomes = {row["outcome"] for row in results["checks"] if row["id"] == "cluster.gpu-capacity"}
    assert outcomes == {"passed"}
    told = {row["skip"] for row in results["checks"] if row["id"] == "cluster.node-identity"}
    assert told == {"not_applicable"}
