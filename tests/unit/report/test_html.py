"""The page: escaped, honest about simulation and about what did not run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tomllib
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from gpusmith.report.coverage import GpuCoverage
from gpusmith.report.html import SCRIPT, TEMPLATE, html
from gpusmith.report.results import ExitCode, Results
from tests.unit.report.samples import BLOCKED, FAILED, INFO, PASSED, all_passed, results


def page(found: Results) -> str:
    return html(found).decode()


def test_what_a_node_says_is_escaped() -> None:
    shown = page(results(FAILED))
    assert "&lt;b&gt;GPU 1&lt;/b&gt;" in shown
    assert "<b>GPU 1" not in shown
    assert "<b>Next:</b> Reset it." in shown


def test_the_page_says_on_what_user_land_it_was() -> None:
    found = results()
    shown = page(replace(found, info=replace(found.info, user_lands={"gpu-2": "of another distribution"})))
    assert "gpu-2: <b>of another distribution</b>" in shown
    assert "gpu-2" not in page(found).split("<h2>")[0]


def test_a_run_for_an_upgrade_says_so() -> None:
    found = results()
    shown = page(replace(found, info=replace(found.info, maintenance_id="u1", driver_version="580.200.01")))
    assert "maintenance <code>u1</code> with the nodes that it cordoned, for driver 580.200.01" in shown
    assert "maintenance" not in page(found)
    assert "for driver" not in page(found)


@pytest.mark.parametrize("simulated", [True, False])
def test_simulation_is_said(simulated: bool) -> None:
    found = results()
    shown = page(replace(found, info=replace(found.info, simulated=simulated)))
    assert ("simulated GPUs</b>" in shown) is simulated


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (results(), ""),
        (results(*all_passed()[1:]), "Only a <b>selection</b> of the checks ran"),
        (replace(results(BLOCKED), ended=ExitCode.INTERRUPTED), "<b>did not come to its end</b>"),
    ],
    ids=["complete", "selection", "interrupted"],
)
def test_a_run_that_stamps_no_node_says_why(found: Results, says: str) -> None:
    shown = page(found)
    assert says in shown
    assert ("it stamps no node" in shown) is bool(says)


@pytest.mark.parametrize("name", [TEMPLATE, SCRIPT])
def test_template_and_script_are_packed_with_the_package(root: Path, name: str) -> None:
    assert (root / "src" / "gpusmith" / "report" / name).is_file()
    packed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert any(Path(name).match(pattern) for pattern in packed["gpusmith.report"])


def test_of_many_nodes_causes_come_first_and_what_passed_is_one_row() -> None:
    nodes = tuple(f"gpu-{n:03d}" for n in range(100))
    good = [replace(PASSED, check="nodes.xid", target=name) for name in nodes[17:]]
    bad = [
        replace(
            FAILED, check="nodes.ecc", target=name, cause=f"Node '{name}': it is broken.", next_step="Look."
        )
        for name in nodes[:17]
    ]
    text = page(replace(results(*good, *bad), info=replace(INFO, nodes=nodes)))
    first = text.partition("<h2>Checks")[0]
    assert first.count("it is broken") == 1
    assert "gpu-[000:016]" in first
    assert "Node &#39;NODE&#39;: it is broken." in first
    assert text.count("<td>nodes.xid") == 1
    assert "83 targets" in text
    few = page(replace(results(*good[:2]), info=replace(INFO, nodes=nodes[:2])))
    assert "Causes" not in few
    assert few.count("<td>nodes.xid") == 2


EVIL = "</script><img src=x onerror=alert(1)>'\"&{{ 7 * 7 }}"


def test_nothing_that_nodes_or_inventory_say_becomes_part_of_the_page() -> None:
    nodes = (EVIL, *(f"gpu-{n}" for n in range(9)))
    rows = [
        replace(FAILED, check=check, target=EVIL, cause=EVIL, next_step=EVIL, evidence={EVIL: EVIL})
        for check in ("nodes.driver-versions", "nodes.cdi")
    ]
    coverage = {EVIL: GpuCoverage(4, (), {f"{EVIL}/{EVIL}": 1}, {EVIL: 3})}
    info = replace(INFO, nodes=nodes, limit=EVIL, inventory=EVIL, user_lands={EVIL: EVIL})
    traits = {EVIL: [f"group {EVIL}"]}
    shown = page(
        replace(results(*rows), info=info, coverage=coverage, traits=traits, node_reasons={EVIL: EVIL})
    )
    tags = Tags()
    tags.feed(shown)
    assert tags.seen.count("script") == 2
    assert "img" not in tags.seen
    assert "{{ 7" in shown
    data = json.loads(shown.partition('id="data">')[2].partition("</script>")[0])
    assert data["nodes"][EVIL] == [0, 0]
    assert data["traits"] == [f"group {EVIL}"]


class Tags(HTMLParser):
    """Which elements a page has."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)


def test_only_the_script_of_the_page_may_run() -> None:
    shown = page(results())
    policy = re.search(r"script-src 'sha256-([^']+)'", shown)
    script = shown.rpartition("<script>")[2].partition("</script>")[0]
    assert policy is not None
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() == policy[1]
    assert "default-src 'none'" in shown


def test_without_the_script_everything_is_readable() -> None:
    """The filter is what the script shows."""
    shown = page(results(FAILED, BLOCKED, PASSED))
    assert '<p id="filter" hidden>' in shown
    table = shown.partition('<table id="checks">')[2]
    outcomes = re.findall(r'<tr data-outcome="(\w+)">', table)
    assert outcomes == ["failed", "skipped", "passed"], "what is to be done comes first"


def test_the_page_begins_with_verdict_and_denominators_in_a_line_each() -> None:
    found = replace(results(FAILED, PASSED), node_reasons={"gpu-2": "it is cordoned"})
    head, _, rest = page(found).partition("<h2>Causes")
    assert "<b>1 cause on 1 of 2 nodes; checks: 1 passed, 1 failed, 0 error, 0 skipped</b>" in head
    assert "<p>nodes: 2 expected, 1 tested, 0 busy, 1 excluded</p>" in head
    assert "<p>GPUs: 8 expected, 8 tested, 0 busy, 0 excluded</p>" in head
    assert "<li>nodes excluded: 1 on gpu-2: it is cordoned</li>" in rest
    assert "nothing is wrong; checks: " in page(results())
