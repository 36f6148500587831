"""The causes for GitHub: a summary in Markdown, and a line for each that the page of a run shows as an error."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from gpusmith.errors import InputError, ToolError
from gpusmith.report.causes import Cause, causes, headline, named_targets
from gpusmith.report.denominators import denominators
from gpusmith.report.results import Results

MARKED = re.compile(r"([\\`*_{}\[\]|~#])")
MOST = 50
"""Causes in a summary, which GitHub limits to a MiB; of lines it shows ten a step."""
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"


def markdown(results: Results) -> str:
    """Verdict, denominators and causes."""
    found = causes(results)
    nodes, gpus = denominators(results)
    lines = [
        f"## Validation: {_plain(results.verdict)}",
        "",
        f"**{_plain(headline(results, found))}**",
        "",
        *(f"- {_plain(str(row))}" for row in (nodes, *nodes.reasons, gpus, *gpus.reasons)),
        "",
    ]
    if found:
        lines += ["| nodes | check | cause, next step |", "| --- | --- | --- |"]
        lines += [_row(cause) for cause in found[:MOST]]
        lines += [""]
    if len(found) > MOST:
        lines += [f"{len(found) - MOST} more causes are in `report.html`.", ""]
    return "\n".join(lines)


def _row(cause: Cause) -> str:
    told = {
        "": cause.text,
        "Next": cause.next_step,
        "In common": cause.common,
        "Also failed there, which this explains": cause.also,
    }
    said = "<br>".join(
        f"{f'**{word}:** ' if word else ''}{_plain(text)}" for word, text in told.items() if text
    )
    where = f"{_plain(named_targets(cause.targets))} ({len(cause.targets)})"
    return f"| {where} | {'<br>'.join(map(_plain, cause.checks))} | {said} |"


def _plain(text: str) -> str:
    """A text that Markdown takes as it is, in one line."""
    return MARKED.sub(r"\\\1", html.escape(" ".join(text.split()), quote=False))


def commands(results: Results) -> Iterator[str]:
    """Commands of a workflow: an error for each cause."""
    for cause in causes(results):
        title = f"{', '.join(cause.checks)} on {named_targets(cause.targets)}"
        said = f"{cause.text}\nNext: {cause.next_step}" if cause.next_step else cause.text
        yield f"::error title={_escaped(title).replace(':', '%3A').replace(',', '%2C')}::{_escaped(said)}"


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def inside(environment: Mapping[str, str]) -> bool:
    """Whether a workflow of GitHub runs this."""
    return environment.get("GITHUB_ACTIONS") == "true"


def prepare(asked: Path | None) -> None:
    """Remove the summary of an earlier run, which must never be read as this one's.

    Raises:
        InputError: it cannot be written.
    """
    try:
        if asked is not None:
            asked.write_text("")
            asked.unlink()
    except OSError as error:
        raise InputError(
            f"'{asked}' cannot be written: {error.strerror}.",
            "Give --summary-md a file in a folder that exists.",
        ) from error


def write(results: Results, asked: Path | None, environment: Mapping[str, str]) -> None:
    """Write the summary to the file that was asked for, and add it to that of the workflow's step.

    Raises:
        ToolError: one of them cannot be written.
    """
    step = environment.get(STEP_SUMMARY) if inside(environment) else None
    try:
        if asked is not None:
            asked.write_text(markdown(results), encoding="utf-8")
        if step:
            with Path(step).open("a", encoding="utf-8") as file:
                file.write(markdown(results))
    except OSError as error:
        raise ToolError(
            f"The summary cannot be written to '{error.filename}': {error.strerror}.", "Is the disk full?"
        ) from error
