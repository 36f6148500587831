"""What a workflow of GitHub gets: a summary, and an error for each cause."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpusmith.errors import InputError, ToolError
from gpusmith.report import github
from tests.unit.report.samples import FAILED, INFO, PASSED, results

INSIDE = {"GITHUB_ACTIONS": "true"}
HOSTILE = "100 %\n::stop-commands::x | <b>*a*</b> [l](u) `c` \\"


def test_the_summary_has_verdict_denominators_and_causes() -> None:
    rows = [
        replace(FAILED, check=name, target=node, cause=f"{name}.")
        for name in ("nodes.nvml", "nodes.gpu-count")
        for node in INFO.nodes
    ]
    text = github.markdown(
        replace(
            results(*rows, PASSED),
            info=replace(INFO, nodes=(*INFO.nodes, "gpu-3")),
            traits=dict.fromkeys(INFO.nodes, ("kernel 6",)),
        )
    )
    assert "## Validation: FAILED" in text
    assert "**1 cause on 2 of 3 nodes; checks: 1 passed, 4 failed, 0 error, 0 skipped**" in text
    assert "- GPUs: 8 expected, 8 tested, 0 busy, 0 excluded" in text
    assert (
        "| gpu-1, gpu-2 (2) | nodes.nvml | nodes.nvml.<br>**Next:** Reset it.<br>**In common:** kernel 6; no other node has that"
        "<br>**Also failed there, which this explains:** nodes.gpu-count (2) |\n" in text
    )
    assert "| nodes |" not in github.markdown(results())


def test_words_of_a_node_are_no_markdown_and_no_commands() -> None:
    found = results(replace(FAILED, cause=HOSTILE, target="a:b,c"))
    assert (
        "100 % ::stop-commands::x \\| &lt;b&gt;\\*a\\*&lt;/b&gt; \\[l\\](u) \\`c\\` \\\\<br>"
        in github.markdown(found)
    )
    (line,) = github.commands(found)
    assert line == (
        "::error title=nodes.ecc on a%3Ab%2Cc::100 %25%0A::stop-commands::x | <b>*a*</b> [l](u) `c` \\%0ANext: Reset it."
    )


def test_very_many_causes_are_counted() -> None:
    rows = [replace(FAILED, target=f"gpu-{n}", cause=f"Xid {n}") for n in range(github.MOST + 7)]
    text = github.markdown(results(*rows))
    assert text.count("| nodes.ecc |") == github.MOST
    assert "7 more causes are in `report.html`." in text


@pytest.mark.parametrize("inside", [True, False])
def test_the_step_gets_the_summary_besides_what_it_had(tmp_path: Path, inside: bool) -> None:
    step, asked = tmp_path / "step", tmp_path / "asked.md"
    step.write_text("before\n")
    environment = {github.STEP_SUMMARY: str(step), **(INSIDE if inside else {})}
    github.write(results(FAILED), asked, environment)
    assert asked.read_text() == github.markdown(results(FAILED))
    assert step.read_text() == ("before\n" + asked.read_text() if inside else "before\n")
    github.write(results(FAILED), None, INSIDE)


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    nowhere = tmp_path / "no" / "summary.md"
    with pytest.raises(InputError, match=f"'{nowhere}' cannot be written"):
        github.prepare(nowhere)
    with pytest.raises(ToolError, match=f"'{nowhere}'"):
        github.write(results(), nowhere, {})
    with pytest.raises(ToolError, match=f"'{nowhere}'"):
        github.write(results(), None, {**INSIDE, github.STEP_SUMMARY: str(nowhere)})


def test_the_summary_of_an_earlier_run_is_removed(tmp_path: Path) -> None:
    old = tmp_path / "summary.md"
    old.write_text("of an earlier run")
    github.prepare(old)
    assert not old.exists()
    github.prepare(None)
