"""report.html: one page without any other file, made of the template and the script beside this module."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from typing import Any

import jinja2
from markupsafe import Markup

from gpusmith.checks.findings import Finding, Outcome, Skip
from gpusmith.checks.register import catalog
from gpusmith.report import document
from gpusmith.report.causes import FEW, causes, headline, named_targets
from gpusmith.report.denominators import denominators
from gpusmith.report.matrix import matrix
from gpusmith.report.results import NODES_BY_NAME, Results

TEMPLATE, SCRIPT = "report.html.j2", "report.js"
ORDER = (
    (Outcome.FAILED, None),
    (Outcome.ERROR, None),
    (Outcome.SKIPPED, Skip.BLOCKED),
    (Outcome.SKIPPED, Skip.LEFT_OUT),
    (Outcome.SKIPPED, Skip.NOT_APPLICABLE),
    (Outcome.SKIPPED, None),
    (Outcome.PASSED, None),
)
"""What a person has to do something about comes first."""


def html(results: Results) -> bytes:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gpusmith.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    environment.filters["named"] = named_targets
    many = len(results.info.nodes) > NODES_BY_NAME
    shown = [row for row in results.findings if not (many and row.outcome is Outcome.PASSED)]
    folded = Counter(row.check for row in results.findings if many and row.outcome is Outcome.PASSED)
    found = causes(results)
    script = (environment.loader or jinja2.BaseLoader()).get_source(environment, SCRIPT)[0]
    return (
        environment.get_template(TEMPLATE)
        .render(
            **document.plain(results, sorted(shown, key=_place)),
            proves={check.id: check.proves for check in catalog().values()},
            folded=folded,
            causes=found,
            headline=headline(results, found),
            denominators=denominators(results),
            given=results.info.given,
            matrix=matrix(results),
            few=FEW,
            data=_data(results),
            # Only this script runs, whatever a node's words contain.
            script=Markup(script),  # noqa: S704 - the file beside this module
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
        .encode()
    )


def _place(row: Finding) -> int:
    return ORDER.index((row.outcome, row.skip)) if (row.outcome, row.skip) in ORDER else len(ORDER)


def _data(results: Results) -> dict[str, Any]:
    """Of each node how many checks passed and what it shares with others, for the page's script."""
    traits = list(dict.fromkeys(trait for row in results.traits.values() for trait in row))
    places = {trait: place for place, trait in enumerate(traits)}
    passed = Counter(row.target for row in results.findings if row.outcome is Outcome.PASSED)
    nodes = {
        name: [passed[name], *(places[trait] for trait in results.traits.get(name, ()))]
        for name in results.info.nodes
    }
    return {"traits": traits, "nodes": nodes}
