"""What two runs found differently, from their results.json: by check and target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.checks.findings import Outcome, Skip
from gpusmith.report.causes import named_targets
from gpusmith.report.values import measured

Document = Mapping[str, Any]
Row = Mapping[str, Any]
Key = tuple[str, str]
MOVED = 0.05
"""By so much of itself a value may move without being told."""


@dataclass(frozen=True)
class Difference:
    """From one run to another.

    Attributes:
        came: nodes that only the second has.
        went: nodes that only the first has.
        new: failed or could not be asked, and did not before.
        gone: passes, and did not before.
        changed: fails as before, for another reason.
        untested: had a verdict before, and has none.
        moved: lines about values.
    """

    came: Sequence[str] = ()
    went: Sequence[str] = ()
    new: Sequence[Row] = field(default=())
    gone: Sequence[Row] = field(default=())
    changed: Sequence[Row] = field(default=())
    untested: Sequence[Row] = field(default=())
    moved: Sequence[str] = ()

    @property
    def lines(self) -> list[str]:
        """For people; what is the same of several nodes is one line."""
        found = [
            f"nodes that {what}: {named_targets(names)}"
            for what, names in (("came", self.came), ("went", self.went))
            if names
        ]
        for title, rows in (
            ("NEW", self.new),
            ("CHANGED", self.changed),
            ("NOT TESTED ANY MORE", self.untested),
            ("GONE", self.gone),
        ):
            found += _said(title, rows)
        return [*found, *self.moved] or ["no difference"]


def compare(before: Document, after: Document) -> Difference:
    """The difference of two documents of schema gpusmith.results/1."""
    first, second = (_by_key(document) for document in (before, after))
    names, others = (document["run"]["nodes"] for document in (before, after))
    went = [name for name in names if name not in set(others)]
    both = [(first[key], row) for key, row in second.items() if key in first]
    lost = [row for key, row in first.items() if key not in second and key[1] not in went]
    return Difference(
        came=[name for name in others if name not in set(names)],
        went=went,
        new=[row for key, row in second.items() if _bad(row) and not _bad(first.get(key, {}))],
        gone=[old for old, row in both if _bad(old) and row["outcome"] == Outcome.PASSED],
        changed=[row for old, row in both if _bad(old) and _bad(row) and old["cause"] != row["cause"]],
        untested=[row for old, row in both if _judged(old) and not _judged(row) and not _bad(row)]
        + [{**row, "cause": "it was not made"} for row in lost if _judged(row)],
        moved=[line for old, row in both for line in _moved(old, row)],
    )


def _by_key(document: Document) -> dict[Key, Row]:
    return {(str(row["id"]), str(row["target"])): row for row in document["checks"]}


def _judged(row: Row) -> bool:
    return row["outcome"] in (Outcome.PASSED, Outcome.FAILED)


def _bad(row: Row) -> bool:
    return row.get("outcome") in (Outcome.FAILED, Outcome.ERROR) or row.get("skip") == Skip.BLOCKED


def _said(title: str, rows: Sequence[Row]) -> Iterator[str]:
    """A line for each check and cause, with the nodes that have it."""
    alike: dict[Key, list[str]] = {}
    for row in rows:
        cause = str(row["cause"]).replace(f"'{row['target']}'", "'NODE'")
        alike.setdefault((str(row["id"]), cause), []).append(str(row["target"]))
    for (check, cause), targets in alike.items():
        said = cause.replace("'NODE'", f"'{targets[0]}'") if len(targets) == 1 else cause
        yield f"{title} {check} on {named_targets(targets)}{f': {said}' if said else ''}"


def _moved(before: Row, after: Row) -> Iterator[str]:
    old = {(uuid, name): value for uuid, name, value in measured(before["evidence"])}
    for uuid, name, value in measured(after["evidence"]):
        was = old.get((uuid, name))
        if was and abs(value - was) > MOVED * abs(was):
            where = f"{after['target']}{f', {uuid}' if uuid else ''}"
            yield f"MOVED {after['id']} on {where}: {name} {was:g} -> {value:g} ({(value - was) / was:+.0%})"
