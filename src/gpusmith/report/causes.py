"""What findings say, each cause once, however many nodes have it, with what follows from it and what its nodes have in common."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gpusmith.checks.findings import Finding, Outcome
from gpusmith.checks.register import CLUSTER, explanations
from gpusmith.report.results import Results
from gpusmith.wording import in_ranges, of_many, without_own

MOST_NAMED = 20
"""Nodes, or ranges of them, that are named where they share a cause; the reports have all."""
FEW = 6
"""So many nodes are named one by one."""
MOST_TRAITS = 3
NODE = "NODE"
"""Stands for the name of each of several nodes."""
IN_ANSIBLE = re.compile(rf"(?<!')\b{NODE}\b(?!')")


@dataclass(frozen=True)
class Cause:
    """What findings say alike.

    Attributes:
        outcome: of these findings.
        text: what they say, once.
        next_step: of all.
        findings: that say it.
        follow_ups: failures on the same nodes that these explain.
        common: what its nodes have in common, and few others have; may be empty.
    """

    outcome: Outcome
    text: str
    next_step: str
    findings: tuple[Finding, ...]
    follow_ups: tuple[Finding, ...] = ()
    common: str = ""

    @property
    def checks(self) -> list[str]:
        """Ids, each once."""
        return list(dict.fromkeys(row.check for row in self.findings))

    @property
    def targets(self) -> list[str]:
        """Names, each once."""
        return list(dict.fromkeys(row.target for row in self.findings))

    @property
    def also(self) -> str:
        """The follow-ups in a few words."""
        counts = Counter(row.check for row in self.follow_ups)
        return ", ".join(f"{check} ({count})" for check, count in counts.items())


def causes(results: Results) -> list[Cause]:
    """What is wrong: what failed, without what another failure on the same node explains, which is counted there."""
    bad = [row for row in results.findings if row.outcome in (Outcome.FAILED, Outcome.ERROR)]
    by_place = {(row.target, row.check): row for row in bad}
    kinds = {(row.check, bool(row.evidence)) for row in bad}
    explain = {kind: explanations(*kind) for kind in kinds}

    def root(row: Finding) -> Finding:
        found, seen = row, {row.check}
        while by := [
            name for name in explain[found.check, bool(found.evidence)] if (row.target, name) in by_place
        ]:
            if by[0] in seen:
                return row  # checks of a site's own that explain each other: none is left out
            seen.add(by[0])
            found = by_place[row.target, by[0]]
        return found

    follow_ups: dict[tuple[str, str], list[Finding]] = {}
    roots = []
    for row in bad:
        found = root(row)
        if found is row:
            roots.append(row)
        else:
            follow_ups.setdefault((found.target, found.check), []).append(row)
    return [
        Cause(
            cause.outcome,
            cause.text,
            cause.next_step,
            cause.findings,
            tuple(each for row in cause.findings for each in follow_ups.get((row.target, row.check), ())),
            in_common(results, cause.targets),
        )
        for cause in alike(roots)
    ]


def alike(findings: Iterable[Finding]) -> list[Cause]:
    """Findings by what they say, each said once: what is the same of many nodes differs by what no two of them share."""
    found: dict[tuple[Outcome, str, str], list[Finding]] = {}
    for row in findings:
        cause, step = (without_own(_without_name(text, row.target)) for text in (row.cause, row.next_step))
        found.setdefault((row.outcome, cause, step), []).append(row)
    return [_of(outcome, rows) for (outcome, _, _), rows in found.items()]


def _of(outcome: Outcome, rows: Sequence[Finding]) -> Cause:
    targets = list(dict.fromkeys(row.target for row in rows))
    cause, step = (
        _told([(row.target, text) for row, text in zip(rows, texts, strict=True)])
        for texts in ([row.cause for row in rows], [row.next_step for row in rows])
    )
    names = ",".join(targets) if len(targets) <= MOST_NAMED else NODE
    return Cause(outcome, cause, IN_ANSIBLE.sub(names, step), tuple(rows))


def said_alike(rows: Sequence[tuple[str, str]]) -> list[tuple[str, list[str], list[int]]]:
    """What is said of targets, each once: the text, its targets, and their places in the rows."""
    found: dict[str, list[int]] = {}
    for place, (target, text) in enumerate(rows):
        found.setdefault(without_own(_without_name(text, target)), []).append(place)
    return [
        (
            _told([rows[place] for place in places]),
            list(dict.fromkeys(rows[place][0] for place in places)),
            places,
        )
        for places in found.values()
    ]


def _told(rows: Sequence[tuple[str, str]]) -> str:
    """What is said alike of targets; one is named as it was."""
    if len({target for target, _ in rows}) == 1:
        return rows[0][1]
    return of_many(_without_name(text, target) for target, text in rows)


def _without_name(text: str, target: str) -> str:
    """A text that says of a node what it would say of another; Ansible takes the names of several in one command."""
    if target == CLUSTER:
        return text
    quoted = text.replace(f"'{target}'", f"'{NODE}'")
    return re.sub(
        rf"(ansible(?:-playbook)? [^';]*?)(?<![\w.-]){re.escape(target)}(?![\w.-])", rf"\1{NODE}", quoted
    )


def headline(results: Results, found: Sequence[Cause]) -> str:
    """Causes, nodes and findings in one line."""
    rows = [row for cause in found for row in (*cause.findings, *cause.follow_ups)]
    bad = {row.target for row in rows} - {CLUSTER}
    counts = ", ".join(f"{results.count(outcome)} {outcome.value}" for outcome in Outcome)
    many = "1 cause" if len(found) == 1 else f"{len(found)} causes"
    where = f" on {len(bad)} of {len(results.info.nodes)} nodes" if bad else ""
    return f"{f'{many}{where}' if found else 'nothing is wrong'}; checks: {counts}"


def in_common(results: Results, targets: Sequence[str]) -> str:
    """What several nodes have in common that at most a fourth as many others have: where to look first."""
    if len(targets) < 2 or len(targets) >= len(results.info.nodes):
        return ""
    shared = [
        trait
        for trait in results.traits.get(targets[0], ())
        if all(trait in results.traits.get(name, ()) for name in targets)
    ]
    own = set(targets)
    others = Counter(
        trait
        for name, traits in results.traits.items()
        if name not in own
        for trait in set(traits) & set(shared)
    )
    fewest = min((others[trait] for trait in shared), default=len(targets))
    if fewest > len(targets) // 4:
        return ""
    named = ", ".join([trait for trait in shared if others[trait] == fewest][:MOST_TRAITS])
    more = f"{fewest} other nodes have" if fewest > 1 else f"{'one' if fewest else 'no'} other node has"
    return f"{named}; {more} that"


def named_targets(targets: Sequence[str]) -> str:
    """Nodes in a sentence: a few by name, many as ranges."""
    if len(targets) <= FEW:
        return ", ".join(targets)
    names = in_ranges(targets)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
