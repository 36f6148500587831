"""report.html: one page without any other file, made of the template beside this module."""

from __future__ import annotations

import jinja2

from gpusmith.catalog import CATALOG
from gpusmith.report import document
from gpusmith.report.results import Results

TEMPLATE = "report.html.j2"


def html(results: Results) -> bytes:
    """The page."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("gpusmith.report", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    proves = {check.id: check.proves for check in CATALOG.values()}
    return environment.get_template(TEMPLATE).render(**document.plain(results), proves=proves).encode()
