"""The plan for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpusmith.preflight.table import table
from gpusmith.upgrade.disruption import Claimant
from gpusmith.upgrade.plan import Plan, Row, counted

HEAD = ("wave", "node", "action", "from", "to", "GPUs", "why")
NO_WAVE = "-"


def lines(plan: Plan) -> list[str]:
    """Lines of text: the hosts, then what concerns them all, and what is refused last, where a person looks first."""
    return [
        *_columns([HEAD, *(_cells(row) for row in plan.rows)]),
        *(line for model, row in counted(plan).items() for line in _budget(plan, model, row)),
        *_disturbed(plan),
        *_estimate(plan),
        *table({row.name: plan.refused.get(row.name, ()) for row in plan.rows}),
    ]


def _cells(row: Row) -> tuple[str, ...]:
    why = "" if row.action == "refuse" else row.reason
    wave = NO_WAVE if row.wave is None else str(row.wave)
    return (wave, row.name, str(row.action), row.origin or "?", row.target, str(row.gpus), why)


def _columns(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _budget(plan: Plan, model: str, row: Mapping[str, Any]) -> Iterator[str]:
    if row["limit"] is None:
        return
    at_once = max(
        (
            sum(each.gpus for each in plan.rows if (each.wave, each.model) == (wave, model))
            for wave in {each.wave for each in plan.rows} - {None}
        ),
        default=0,
    )
    out = ", ".join(f"'{name}' ({why})" for name, why in row["out"].items())
    yield (
        f"Budget of model '{model}': {row['limit']} of {row['gpus']} GPUs may be out; the plan takes {at_once} at once"
        + (f"; out now: {out}." if out else ".")
    )


def _disturbed(plan: Plan) -> Iterator[str]:
    """Who uses GPUs of nodes that go; of those that stay, nobody is disturbed."""
    for row in (row for row in plan.rows if row.goes):
        yield from (f"Pod on {row.name}: {_pod(pod)}" for pod in row.pods)
        yield from (f"Without a pod on {row.name}: {words}" for words in row.holders)
        if row.reboot:
            yield f"Reboot of {row.name}: {row.reboot}"


def _pod(pod: Claimant) -> str:
    uses = f"{pod.gpus} GPU{'s' * (pod.gpus > 1)}" if pod.gpus else "uses the driver, holds no GPU"
    if pod.devices:
        uses = f"{uses if pod.gpus else 'holds devices'} by {'; '.join(pod.devices)}"
    budgets = ", ".join(
        f"PodDisruptionBudget '{name}' allows {count} evictions now" for name, count in pod.budgets.items()
    )
    return f"'{pod.pod}' ({pod.owner or 'no owner'}): {uses}, {budgets or 'no PodDisruptionBudget'}"


def _estimate(plan: Plan) -> Iterator[str]:
    waves = max((row.wave or 0 for row in plan.rows), default=0)
    if not waves:
        return
    rests = [f"{plan.timing.node_s / 60:.0f} min a node"]
    if any(row.goes and row.reboot for row in plan.rows):
        rests.append(f"{plan.timing.reboot_s / 60:.0f} min a reboot")
    if plan.rules.canaries > 0:
        rests.append(f"{plan.rules.soak_s / 60:.0f} min in which canaries are watched")
    yield (
        f"About {plan.seconds / 60:.0f} min in {waves} waves at the most, by {', '.join(rests)};"
        " waiting for pods comes on top. Nodes do not wait for the others of their wave."
    )
