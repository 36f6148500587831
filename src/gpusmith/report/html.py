"""report.html: one page without any other file, made of the template beside this module."""

from __future__ import annotations

from collections import Counter

import jinja2

from gpusmith.checks.findings import Outcome
from gpusmith.checks.register import catalog
from gpusmith.report import document
from gpusmith.report.causes import causes, named_targets
from gpusmith.report.results import Results

TEMPLATE = "report.html.j2"
NODES_BY_NAME = 64
"""With more nodes, what passed is one row for each check; results.json has each by itself."""


def html(results: Results) -> bytes:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gpusmith.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    proves = {check.id: check.proves for check in catalog().values()}
    shown, folded = results.findings, Counter[str]()
    if len(results.info.nodes) > NODES_BY_NAME:
        shown = tuple(row for row in shown if row.outcome is not Outcome.PASSED)
        folded.update(row.check for row in results.findings if row.outcome is Outcome.PASSED)
    page = document.plain(results, shown)
    environment.filters["named"] = named_targets
    return (
        environment.get_template(TEMPLATE)
        .render(**page, proves=proves, folded=folded, causes=causes(results))
        .encode()
    )
