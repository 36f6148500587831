"""The report of preflight: one table of all hosts that are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.node.hostkey import changed_key
from gpusmith.preflight.words import refusal
from gpusmith.wording import ADDRESS, of_many


def of_host(result: Mapping[str, Any] | None) -> list[Refusal]:
    """Reasons to refuse a host by the result of its preflight task; a host without one could not be reached."""
    if result is None or result.get("unreachable") or "refusals" not in result:
        why = str((result or {}).get("msg") or "no answer").strip()
        changed = changed_key(why)
        if changed is not None:
            return [refusal("connection", changed.cause, "the key that is known", changed.next_step)]
        why = why.replace("\n", " ")
        return [refusal("connection", why, "an answer by ssh", "Start the machine, or leave it out with -l.")]
    return [Refusal(row["message"], row["hint"]) for row in result["refusals"]]


def table(by_host: Mapping[str, Sequence[Refusal]]) -> list[str]:
    """Lines for a person: each reason with what to do next, once for all hosts that are refused for it."""
    bad = {host: refusals for host, refusals in by_host.items() if refusals}
    lines = [f"{len(bad)} of {len(by_host)} hosts cannot be worked on:"] if bad else []
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for host, refusals in bad.items():
        for row in refusals:
            alike.setdefault((ADDRESS.sub("", row.message), row.hint), []).append((host, row.message))
    for (_, hint), rows in alike.items():
        names = [name for name, _ in rows]
        lines.append(f"{', '.join(names)} | {of_many(text for _, text in rows)} | {_of_all(hint, names)}")
    return lines


def _of_all(hint: str, names: Sequence[str]) -> str:
    """Advice that is the same for hosts, with their names; as Ansible takes several."""
    return re.sub(r"\bNODE\b", ",".join(names), hint)
