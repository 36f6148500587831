"""``pytest validation --replay``: without the site that the evidence is of."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fleet import api, site

NODES = 2


def found(folder: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())["checks"]
    return [{name: value for name, value in row.items() if name != "duration_s"} for row in rows]


@pytest.fixture(scope="module")
def reports(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a run in which a node had lost a GPU and another did not answer; the site is gone."""
    cwd = tmp_path_factory.mktemp("person")
    folder = cwd / "site"
    inventory = site.make(NODES + 1, folder)
    record = folder / "records" / f"{site.name_of(0)}.json"
    lost = json.loads(record.read_text())
    lost["nvml"]["gpus"].pop()
    record.write_text(json.dumps(lost))
    (folder / "records" / f"{site.name_of(NODES)}.json").unlink()
    for _fleet in api.served(NODES + 1, folder):
        words = ["--inventory", str(inventory), "--tier", "nodes,cluster", "--report-dir", "first"]
        done = site.suite(root, cwd, *words)
    assert done.returncode == 1, done.stdout[-3000:]
    folder.rename(cwd / "gone")
    return cwd / "first"


def test_a_run_is_judged_again_without_inventory_nodes_and_cluster(root: Path, reports: Path) -> None:
    again = reports.parent / "again"
    done = site.suite(root, reports.parent, "--replay", "first", "--report-dir", "again")
    assert done.returncode == 1, done.stdout[-3000:]
    assert found(again) == found(reports)
    assert {row["outcome"] for row in found(again)} == {"passed", "failed", "skipped"}
    first, second = (json.loads((folder / "results.json").read_text())["run"] for folder in (reports, again))
    assert (second["replay_of"], second["tiers"]) == (first["id"], ["nodes", "cluster"])
    assert not (again / "evidence").exists(), "a replay asks nobody"


def test_checks_of_a_replay_are_selected_and_what_was_not_asked_is_no_pass(root: Path, reports: Path) -> None:
    words = ["--replay", "first/evidence", "--report-dir", "again"]
    for selected, status, said in (
        (("-k", "nodes.nvml and gpu-00001"), 0, "replay of run"),
        (("--tier", "workloads"), 1, "Not replayed"),
    ):
        done = site.suite(root, reports.parent, *words, *selected)
        assert (done.returncode, said in done.stdout) == (status, True), done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--replay", "nowhere"), "There is no evidence of a run: "),
        (("--replay", "first", "--report-dir", "first"), "names the folder that is replayed"),
        (("--replay", "first", "--inventory", "x"), "Option '--inventory' cannot be used with '--replay'"),
    ],
    ids=["no evidence", "its own reports", "an inventory"],
)
def test_a_replay_of_nothing_or_over_itself_is_refused(
    root: Path, reports: Path, words: tuple[str, ...], said: str
) -> None:
    before = (reports / "results.json").read_bytes()
    done = site.suite(root, reports.parent, *words)
    assert done.returncode == 4
    assert said in done.stdout + done.stderr
    assert (reports / "results.json").read_bytes() == before
