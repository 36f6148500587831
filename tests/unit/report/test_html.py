"""The page: escaped, honest about simulation and about what did not run."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gpusmith.report.html import TEMPLATE, html
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


def test_template_is_packed_with_the_package(root: Path) -> None:
    assert (root / "src" / "gpusmith" / "report" / TEMPLATE).is_file()
    packed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    assert any(Path(TEMPLATE).match(pattern) for pattern in packed["gpusmith.report"])


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
    first = text.partition("<h2>Coverage")[0]
    assert first.count("it is broken") == 1
    assert "gpu-[000:016]" in first
    assert "Node &#39;NODE&#39;: it is broken." in first
    assert text.count("nodes.xid") == 1
    assert "83 targets" in text
    few = page(replace(results(*good[:2]), info=replace(INFO, nodes=nodes[:2])))
    assert "Causes" not in few
    assert few.count("nodes.xid") == 2
