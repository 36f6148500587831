"""What findings say, each cause once, however many nodes have it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import CLUSTER
from gpusmith.report.results import Results
from gpusmith.wording import in_ranges, of_many, without_own

MOST_NAMED = 20
"""Nodes, or ranges of them, that are named where they share a cause; the reports have all."""
FEW = 6
"""So many nodes are named one by one."""
NODE = "NODE"
"""Stands for the name of each of several nodes."""
IN_ANSIBLE = re.compile(rf"(?<!')\b{NODE}\b(?!')")


def alike(results: Results, *outcomes: Outcome) -> Iterator[tuple[Outcome, str, str, list[Finding]]]:
    """Findings by what they say, each said once: what is the same of many nodes differs by what no two of them share."""
    found: dict[tuple[Outcome, str, str], list[Finding]] = {}
    for row in results.findings:
        if row.outcome in outcomes:
            cause, step = (without_own(_without_name(text, row)) for text in (row.cause, row.next_step))
            found.setdefault((row.outcome, cause, step), []).append(row)
    for (outcome, _, _), rows in found.items():
        targets = list(dict.fromkeys(row.target for row in rows))
        # One node is named as it was.
        cause, step = (
            texts[0] if len(targets) == 1 else of_many(map(_without_name, texts, rows))
            for texts in ([row.cause for row in rows], [row.next_step for row in rows])
        )
        names = ",".join(targets) if len(targets) <= MOST_NAMED else NODE
        yield outcome, cause, IN_ANSIBLE.sub(names, step), rows


def _without_name(text: str, row: Finding) -> str:
    """A text that says of a node what it would say of another; Ansible takes the names of several in one command."""
    if row.target == CLUSTER:
        return text
    quoted = text.replace(f"'{row.target}'", f"'{NODE}'")
    return re.sub(
        rf"(ansible(?:-playbook)? [^';]*?)(?<![\w.-]){re.escape(row.target)}(?![\w.-])", rf"\1{NODE}", quoted
    )


def named_targets(targets: Sequence[str]) -> str:
    """Nodes in a sentence: a few by name, many as ranges."""
    if len(targets) <= FEW:
        return ", ".join(targets)
    names = in_ranges(targets)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
