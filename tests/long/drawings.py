"""The shipped dashboards as pictures: Prometheus' answers, drawn by Grafana's components (tests/long/drawing) in Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusmith.paths import repo_root
from tests.dashboards import Ask, Board, questions

SOURCE = repo_root() / "tests/long/drawing"
FOLDER = repo_root() / ".cache/drawing"
"""Where the components are installed and bundled."""
WIDTH, ROW, GAP = 1280, 30, 8
"""Pixels of a page, and of Grafana's grid."""
LINE = 300
"""Pixels that have a colour where lines are drawn."""
PAGE = """<!doctype html>
<meta charset="utf-8"><title>{title}</title><style>{css}
body {{ background: #111217; margin: {gap}px; overflow: hidden }}</style>
<body><div id="root"></div><script>window.DRAWING = {data};</script><script>{script}</script></body>
"""
Answers = dict[int, list[dict[str, Any]]]
Browser = Callable[..., str]


@dataclass(frozen=True)
class Panel:
    """What is to be seen of a panel.

    Attributes:
        id: by the dashboard.
        text: all that can be read.
        coloured: pixels of lines.
    """

    id: int
    text: str
    coloured: int


def bundle() -> None:
    """Install the locked packages, and make one script of them and ours."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in SOURCE.iterdir():
        shutil.copy(path, FOLDER)
    for words in (["ci", "--no-progress"], ["run", "build"]):
        subprocess.run(["npm", *words], cwd=FOLDER, check=True, timeout=900)


def answers(board: Board, ask: Ask, until: float, seconds: int) -> Answers:
    """What Prometheus says to each question of each panel, with the names that legends have for it."""
    found: Answers = {panel["id"]: [] for panel in board["panels"]}
    for each in questions(board):
        if each.number:
            rows = ask(each.path(until, seconds))["result"]
            found[each.number].append({"names": [each.name(row["metric"]) for row in rows], "result": rows})
    return found


def draw(
    browser: Browser, board: Board, given: Answers, until: float, seconds: int, picture: Path
) -> list[Panel]:
    """Write the picture of a dashboard, and say what is to be seen on it.

    Raises:
        AssertionError: a component failed.
    """
    data = {
        "board": board,
        "answers": given,
        "from": int((until - seconds) * 1000),
        "to": int(until * 1000),
    }
    page = FOLDER / f"{board['uid']}.html"
    # The text is inside of a script.
    text = json.dumps(data).replace("</", "<\\/")
    parts = {"script": (FOLDER / "drawing.js").read_text(), "css": (FOLDER / "drawing.css").read_text()}
    page.write_text(PAGE.format(title=html.escape(board["title"]), gap=GAP, data=text, **parts))
    height = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in board["panels"]) * (ROW + GAP)
    words = [f"--window-size={WIDTH + GAP},{height + GAP}", "--virtual-time-budget=10000"]
    dom = browser(page.as_uri(), *words, "--dump-dom")
    failed = re.search(r'data-failed="([^"]+)"', dom)
    assert failed is None, html.unescape(failed[1])
    drawn = re.search(r'data-drawn="([^"]+)"', dom)
    assert drawn is not None, dom[-2000:]
    browser(page.as_uri(), *words, f"--screenshot={picture}")
    return [Panel(**row) for row in json.loads(html.unescape(drawn[1]))]


def picture(board: Board) -> str:
    """Name of the file in docs/images."""
    return f"dashboard-{board['uid'].removeprefix('gpusmith-')}.png"


def missing(board: Board, given: Answers, seen: list[Panel]) -> list[str]:
    """What a dashboard should show of the answers and does not."""
    shown = {panel.id: panel for panel in seen}
    found = []
    for panel in board["panels"]:
        place, rows = shown[panel["id"]], given[panel["id"]]
        found += [f"{panel['title']}: {what!r}" for what in _wanted(panel, rows) if what not in place.text]
        if panel["type"] == "timeseries" and _any(rows) and place.coloured < LINE:
            found.append(f"{panel['title']}: {place.coloured} pixels of lines")
    return found


def _any(rows: list[dict[str, Any]]) -> bool:
    return any(row["result"] for row in rows)


def _wanted(panel: dict[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    """Texts of a panel: its title, names of lines and bars, numbers, and cells of the first row of a table."""
    yield panel["title"]
    if not _any(rows):
        yield panel["fieldConfig"]["defaults"]["noValue"]
    elif panel["type"] == "table":
        yield from rows[0]["result"][0]["metric"].values()
    elif panel["type"] == "stat":
        mappings = panel["fieldConfig"]["defaults"].get("mappings", [{"options": {}}])[0]["options"]
        value = rows[0]["result"][0]["value"][1]
        yield mappings.get(value, {"text": value})["text"]
    else:
        yield from (name for row in rows for name in row["names"])
