"""``pytest validation`` of a site that is watched: what it asks Prometheus does not grow with the number of nodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.checks.register import of_tier
from tests.fleet import api, site
from tests.fleet.prometheus import MANAGED, PROXY, FakePrometheus

NODES = 100
TIER = [row.id for row in of_tier("monitoring")]


def run(root: Path, cwd: Path, *words: str) -> tuple[int, str, list[str]]:
    """Exit code, output, and what Prometheus and Alertmanager were asked."""
    names = map(site.name_of, range(NODES))
    gpus = {name: [f"GPU-{name}-{n}" for n in range(site.GPUS)] for name in names}
    fleet = api.Fleet(NODES, prometheus=FakePrometheus(gpus))
    for _ in api.served(NODES, cwd / "site", fleet):
        done = site.suite(root, cwd, "--inventory", "site/inventory", *words)
    asked = [name for name in fleet.asked if PROXY.partition("{")[0] in name]
    assert fleet.prometheus is not None
    assert bool(asked) == bool(fleet.prometheus.asked)
    return done.returncode, done.stdout, fleet.prometheus.asked


def checks(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["checks"]
    return [{name: value for name, value in row.items() if name != "duration_s"} for row in rows]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    site.make(NODES, tmp_path / "site")
    return tmp_path


def test_a_site_without_prometheus_has_no_such_tier(root: Path, folder: Path) -> None:
    status, said, asked = run(root, folder, "--collect-only", "-q")
    assert (status, asked, "monitoring" in said, "cluster.api" in said) == (0, [], False, True)
    # Asked for by name it is no pass.
    status, said, asked = run(root, folder, "--tier", "monitoring")
    assert (status, asked) == (1, []), said
    assert "'gpu_monitoring_prometheus' is 'none'" in said
    assert {row["skip"] for row in checks(folder / "reports")} == {"not_applicable"}


def test_one_query_for_each_fact_of_the_cluster_and_the_same_from_evidence(root: Path, folder: Path) -> None:
    everywhere = folder / "site" / "inventory" / "group_vars" / "all.yml"
    everywhere.write_text(everywhere.read_text() + yaml.safe_dump(MANAGED))
    status, said, asked = run(root, folder, "--tier", "monitoring")
    assert status == 0, said
    assert len(asked) == 10, asked
    assert {row["id"] for row in checks(folder / "reports")} == set(TIER)
    (folder / "reports").rename(folder / "first")
    replayed = site.suite(root, folder, "--replay", "first")
    assert replayed.returncode == 0, replayed.stdout
    assert checks(folder / "reports") == checks(folder / "first")
    listed = run(root, folder, "--collect-only", "-q")[1]
    assert all(name in listed for name in TIER)
