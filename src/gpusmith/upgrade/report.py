"""What became of the nodes of a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gpusmith.change.outcome import Result
from gpusmith.expect.versions import answers

SCHEMA = "gpusmith.upgrade/1"
FILE = "upgrade.json"
GOOD = frozenset({Result.UPGRADED, Result.CHANGED})
CALLED_BACK = frozenset({Result.ROLLED_BACK, Result.RELEASED})
"""What is good of a node whose unfinished upgrade was to be taken back."""
NEXT = {
    Result.ROLLED_BACK: "It serves with the version before. Look at its journal and reports.",
    Result.RELEASED: "It serves as before. Run the same command again when it is free.",
    Result.STUCK: "It is cordoned. Repair what is wrong, then run the same command again; or {way_back}.",
    Result.UNFINISHED: "It is left cordoned: look whether it is. Run the same command again: it goes on from there."
    " Or {way_back}.",
    Result.UNTOUCHED: "",
}
"""What a person does about a node that is not where it should be."""


@dataclass(frozen=True)
class Row:
    """One node.

    Attributes:
        host: its name in the inventory.
        node: its Node.
        origin: version before.
        target: version that was wanted.
        result: what became of it.
        reason: why.
        good: it is where it should be.
    """

    host: str
    node: str
    origin: str
    target: str
    result: str
    reason: str
    good: bool

    @property
    def line(self) -> str:
        """For the table."""
        arrow = f"{self.origin} -> {self.target}" if self.origin != self.target else self.target
        return f"{self.node:<24} {self.result:<14} {arrow:<28} {self.reason}".rstrip()


def rows(
    planned: Mapping[str, Mapping[str, Any]], outcomes: Mapping[str, Mapping[str, Any] | None]
) -> list[Row]:
    """One for each node of the plan.

    Args:
        planned: the plan's rows by host.
        outcomes: what action driver_upgrade returned, by host; None for a host whose task did not end.
    """
    found = []
    for host, row in planned.items():
        given = outcomes.get(host)
        if row.get("action") == "none":
            result, reason, good = "no change", str(row.get("reason") or ""), True
        elif given is None or "result" not in given:
            skipped = row.get("action") == "skip"
            lost = str((given or {}).get("msg") or "its task did not come to an end")
            result = str(Result.UNTOUCHED if skipped else Result.UNFINISHED)
            reason, good = str(row.get("reason") or "") if skipped else lost, False
        else:
            result, reason = str(given["result"]), str(given.get("reason") or "")
            good = result in (CALLED_BACK if row.get("back") else GOOD)
        found.append(
            Row(host, str(row["node"]), str(row["origin"]), str(row["target"]), result, reason, good)
        )
    return found


def table(found: Iterable[Row]) -> list[str]:
    """Lines for a person."""
    return [row.line for row in found]


def left(found: Iterable[Row], way_back: str) -> dict[str, str]:
    """By host, why it is not where it should be and what to do; nothing for the others.

    Args:
        found: what became of the hosts.
        way_back: what brings a node back that is half done.
    """
    steps = {result: words.format(way_back=way_back) for result, words in NEXT.items()}
    return {
        row.host: f"Node '{row.node}' is {row.result}: {row.reason} {steps.get(Result(row.result), '')}".strip()
        for row in found
        if not row.good
    }


def inventory_line(found: Iterable[Row], asked: Mapping[str, str]) -> str:
    """What to change in the inventory, so that site.yml wants what the nodes have; empty if nothing has to be.

    Args:
        found: what became of the hosts.
        asked: 'nvidia_driver_version' by host; a branch may be met already.
    """
    targets = sorted(
        {
            row.target
            for row in found
            if row.result == Result.UPGRADED and not answers(row.target, asked.get(row.host, ""))
        }
    )
    if not targets:
        return ""
    lines = " or ".join(f'nvidia_driver_version: "{target}"' for target in targets)
    return f"Put {lines} into the variables of these nodes: until then site.yml reports the difference and changes nothing."


def write(folder: Path, run: str, found: Iterable[Row]) -> Path:
    """The same for programs."""
    path = folder / FILE
    content = {"schema": SCHEMA, "run": run, "nodes": [asdict(row) for row in found]}
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return path
