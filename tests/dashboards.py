"""The shipped dashboards as data: what each panel asks Prometheus, as Grafana does where nobody chose a node or a namespace."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from gpusmith.data.monitoring import files

FILES = sorted((files() / "dashboards").glob("*.json"))
VALUES = re.compile(r"label_values\((.+), (\w+)\)")
POINTS = 180
"""Of a line, at the most."""

Board = dict[str, Any]
Ask = Callable[[str], Any]
"""From a path below /api/v1/ to the data of the answer, which is a success."""

MAY_BE_EMPTY: Mapping[tuple[str, str], str] = {
    ("gpusmith-fleet", "Changes under way"): "none runs",
    ("gpusmith-fleet", "Alerts that fire"): "nothing is broken",
    ("gpusmith-gpus", "Reasons for lower clocks"): "no GPU is slowed down",
    ("gpusmith-gpus", "Xids of the last five minutes"): "no GPU has an error",
    ("gpusmith-gpus", "GPUs with uncorrectable memory errors"): "no GPU has an error",
    ("gpusmith-gpus", "GPUs with rows that wait for a reset"): "no GPU has an error",
    ("gpusmith-teams", "Pods that hold idle GPUs"): "a GPU is idle after half an hour",
}
"""Panels, by board and title, that have nothing to show while pods hold GPUs, wait for GPUs and have a quota; with the reason."""


@dataclass(frozen=True)
class Question:
    """What one row of a panel asks.

    Attributes:
        panel: title of the panel, or name of the variable that lists values.
        number: id of the panel; 0 of a variable.
        text: PromQL.
        legend: how its answers are called, with labels in double braces.
        instant: whether it asks for one moment.
    """

    panel: str
    number: int
    text: str
    legend: str = ""
    instant: bool = True

    def path(self, until: float, seconds: int) -> str:
        """Where to ask, below /api/v1/, for what was so at a time and in the seconds before."""
        if self.instant:
            return f"query?{urlencode({'query': self.text, 'time': until}, quote_via=quote)}"
        span = {"start": until - seconds, "end": until, "step": max(10, seconds // POINTS)}
        return f"query_range?{urlencode({'query': self.text, **span}, quote_via=quote)}"

    def name(self, labels: Mapping[str, str]) -> str:
        """What the legend calls an answer with these labels."""
        return re.sub(r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), self.legend).strip()


def load(path: Path) -> Board:
    """A dashboard."""
    content: Board = json.loads(path.read_text())
    return content


def questions(board: Board) -> Iterator[Question]:
    """All that a dashboard asks, its variables filled in."""
    variables = [row for row in board["templating"]["list"] if row["type"] == "query"]
    chosen = {row["name"]: row["allValue"] for row in variables}

    def filled(text: str) -> str:
        return re.sub(r"\$(\w+)", lambda found: chosen[found[1]], text)

    for row in variables:
        values = VALUES.fullmatch(row["query"]["query"])
        assert values, row["query"]
        yield Question(row["name"], 0, f"group by ({values[2]}) ({values[1]})")
    for panel in board["panels"]:
        for target in panel["targets"]:
            legend, instant = target["legendFormat"], target["instant"]
            yield Question(panel["title"], panel["id"], filled(target["expr"]), legend, instant)


def unanswered(board: Board, ask: Ask, until: float, seconds: int) -> list[str]:
    """Questions without an answer that should have one; the rest was answered."""
    empty = [each for each in questions(board) if not ask(each.path(until, seconds))["result"]]
    return [
        f"{board['uid']}, '{each.panel}': {each.text}"
        for each in empty
        if (board["uid"], each.panel) not in MAY_BE_EMPTY
    ]
