"""The dashboards that role gpu_monitoring ships are what Grafana reads, and ask for metrics that are there."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.dashboards import FILES, MAY_BE_EMPTY, load, questions
from tests.unit.monitoring.metrics import METRIC, known

OURS = frozenset({"ALERTS", "gpusmith_simulated"})
"""What Prometheus makes, and what the lab's exporter adds."""
NAME = re.compile(f"{METRIC.pattern}|ALERTS|gpusmith_simulated")

each = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def lost(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """What a model does not know, or reads as something else; defaults that it adds are no matter."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs.get(key), f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{place}[{number}]")
    elif ours != theirs:
        yield f"{place}: {ours!r} becomes {theirs!r}"


def through_the_model(board: dict[str, Any]) -> Any:
    return json.loads(json.dumps(Dashboard.from_json(json.loads(json.dumps(board))), cls=JSONEncoder))


@each
def test_grafana_knows_every_field(path: Path) -> None:
    board = load(path)
    assert list(lost(board, through_the_model(board))) == []


@pytest.mark.parametrize("field", ["titel", "maxPerRows"])
def test_a_field_that_grafana_does_not_know_is_found(field: str) -> None:
    board = load(FILES[0])
    board["panels"][0][field] = "x"
    assert list(lost(board, through_the_model(board))) == [f".panels[0].{field}: 'x' becomes None"]


@each
def test_every_query_can_be_read_and_every_metric_is_there(path: Path) -> None:
    for query in (each.text for each in questions(load(path))):
        promql_parser.parse(query)
        assert set(NAME.findall(query)) - (known() | OURS) == set(), query
        assert NAME.search(query), query


@each
def test_a_panel_says_what_it_shows(path: Path) -> None:
    board = load(path)
    titles = [panel["title"] for panel in board["panels"]]
    assert len(set(titles)) == len(titles)
    assert [panel["title"] for panel in board["panels"] if not panel["fieldConfig"]["defaults"]["unit"]] == []
    assert [panel["id"] for panel in board["panels"]] == list(range(1, len(titles) + 1))
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in board["panels"])


def test_boards_differ_in_title_and_uid() -> None:
    boards = [load(path) for path in FILES]
    assert [board["uid"] for board in boards] == [path.stem for path in FILES]
    assert len({board["title"] for board in boards}) == len(FILES) == 3


def test_a_panel_that_may_be_empty_says_so() -> None:
    said = {
        (board["uid"], panel["title"]): panel["fieldConfig"]["defaults"].get("noValue")
        for board in map(load, FILES)
        for panel in board["panels"]
    }
    assert [where for where in MAY_BE_EMPTY if said[where] != "none"] == []
