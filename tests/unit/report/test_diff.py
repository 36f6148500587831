"""What two runs found differently."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpusmith import cli

Json = dict[str, Any]
PASSED: Json = {"outcome": "passed", "skip": None, "cause": "", "evidence": {}}
FAILED = {**PASSED, "outcome": "failed", "cause": "Node '{}': Xid 79."}
OTHERWISE = {**FAILED, "cause": "Node '{}': Xid 48."}
BLOCKED = {**PASSED, "outcome": "skipped", "skip": "blocked", "cause": "NVML cannot be asked."}
BUSY = {**PASSED, "outcome": "skipped", "skip": "left_out", "cause": "others hold it"}


def speed(first: float, busbw: float = 400.0) -> Json:
    rows = [
        {"uuid": "GPU-1", "memory_gb_s": first, "elements": first},
        {"uuid": "GPU-2", "memory_gb_s": 2000},
    ]
    return {**PASSED, "evidence": {"devices": rows, "busbw_gb_s": busbw}}


def run(folder: Path, *rows: Json, **nodes: Json) -> str:
    """Results of one check by node."""
    checks = [
        {"id": "nodes.xid", "target": name, **row, "cause": row["cause"].format(name)}
        for name, row in nodes.items()
    ]
    folder.mkdir()
    document = {"schema": "gpusmith.results/1", "run": {"nodes": list(nodes)}, "checks": [*checks, *rows]}
    (folder / "results.json").write_text(json.dumps(document))
    return str(folder)


@pytest.mark.parametrize(
    ("before", "after", "status", "said"),
    [
        ({"a": PASSED}, {"a": PASSED}, 0, ["no difference"]),
        ({"a": PASSED}, {"a": FAILED}, 1, ["NEW nodes.xid on a: Node 'a': Xid 79."]),
        (
            {"a": PASSED, "b": PASSED},
            {"a": FAILED, "b": FAILED},
            1,
            ["NEW nodes.xid on a, b: Node 'NODE': Xid 79."],
        ),
        ({"a": BUSY}, {"a": BLOCKED}, 1, ["NEW nodes.xid on a: NVML cannot be asked."]),
        ({"a": FAILED}, {"a": PASSED}, 0, ["GONE nodes.xid on a: Node 'a': Xid 79."]),
        ({"a": FAILED}, {"a": FAILED}, 0, ["no difference"]),
        ({"a": FAILED}, {"a": OTHERWISE}, 0, ["CHANGED nodes.xid on a: Node 'a': Xid 48."]),
        ({"a": FAILED}, {"a": BUSY}, 0, ["NOT TESTED ANY MORE nodes.xid on a: others hold it"]),
        (
            {"a": PASSED, "b": FAILED},
            {"a": PASSED, "c": FAILED},
            1,
            ["nodes that came: c", "nodes that went: b", "NEW nodes.xid on c: Node 'c': Xid 79."],
        ),
        (
            {"a": speed(3000.0)},
            {"a": speed(2000.0, 396.0)},
            0,
            ["MOVED nodes.xid on a, GPU-1: memory_gb_s 3000 -> 2000 (-33%)"],
        ),
        ({"a": speed(3000.0)}, {"a": speed(2900.0)}, 0, ["no difference"]),
    ],
)
def test_what_is_new_gone_changed_and_moved(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    before: dict[str, Json],
    after: dict[str, Json],
    status: int,
    said: list[str],
) -> None:
    words = [run(tmp_path / "A", **before), run(tmp_path / "B", **after) + "/results.json"]
    assert cli.main(["report", "diff", *words]) == status
    assert capsys.readouterr().out.splitlines() == said


def test_a_check_that_was_not_made_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = {**PASSED, "id": "nodes.ecc", "target": "a"}
    words = [run(tmp_path / "A", more, a=PASSED), run(tmp_path / "B", a=PASSED)]
    assert cli.main(["report", "diff", *words]) == 0
    assert capsys.readouterr().out == "NOT TESTED ANY MORE nodes.ecc on a: it was not made\n"


def test_results_that_cannot_be_read_are_no_difference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = run(tmp_path / "A", a=PASSED)
    (tmp_path / "B").mkdir()
    (tmp_path / "B" / "results.json").write_text('{"schema": "gpusmith.results/1"}')
    assert cli.main(["report", "diff", good, str(tmp_path / "nowhere")]) == 4
    assert cli.main(["report", "diff", good, str(tmp_path / "B")]) == 4
    said = capsys.readouterr().err.splitlines()
    assert ["nowhere/results.json' cannot be read" in said[0], "lacks what its schema has" in said[1]] == [
        True,
        True,
    ]


def test_help_says_how_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["report", "diff", "--help"])
    assert (ended.value.code, "Exit status" in capsys.readouterr().out) == (0, True)
