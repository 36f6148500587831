"""When each node of a run goes, and how long all of it takes, as the cluster is now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from gpusmith.change.budget import GO, Fleet, Rules, admissible, canary
from gpusmith.change.ledger import Ledger, State
from gpusmith.errors import Refusal

OUT = "in this run"


@dataclass(frozen=True)
class Timing:
    """What an estimate goes by. How long pods go on, nobody knows.

    Attributes:
        node_s: one node without a reboot: what is changed, and the suite.
        reboot_s: a server's way through its firmware and back into the cluster.
    """

    node_s: float = 900.0
    reboot_s: float = 600.0


def forecast(
    nodes: Mapping[str, bool], fleet: Fleet, rules: Rules, now: dt.datetime, timing: Timing
) -> tuple[dict[str, tuple[int | None, str]], float]:
    """By node its wave, or why it has none; and how long all of it takes.

    Every admission is asked as in the run. All nodes of a wave are taken to end together, which is the slowest that can be.

    Args:
        nodes: those that go, in the order of the run, each with whether it is rebooted.
        fleet: all nodes that the budget counts.
        rules: of the run.
        now: the time.
        timing: what the estimate goes by.
    """
    queue, waves = list(nodes), dict[str, tuple[int | None, str]]()
    pending, start, number = list(queue), now, 0
    while pending:
        gates = {name: canary(fleet, name, queue, rules, now) for name in pending}
        why = {name: gate.why for name, gate in gates.items()}
        wave = []
        for name in (name for name in pending if gates[name] == GO):
            most = fleet.limit(rules.max_unavailable, fleet[name].model)
            why[name] = (
                str(most) if isinstance(most, Refusal) else admissible(fleet, name, most, rules.rollback)
            )
            if not why[name]:
                wave.append(name)
                fleet = fleet.with_member(name, _entry(fleet, name, rules, State.ADMITTED, now), OUT)
        soaked = now + dt.timedelta(seconds=rules.soak_s)
        if not wave and any(
            gate != GO and canary(fleet, name, queue, rules, soaked) == GO for name, gate in gates.items()
        ):
            now = soaked
            continue
        if not wave:
            waves |= {name: (None, f"has to wait: {why[name]}") for name in pending}
            break
        number += 1
        now += dt.timedelta(
            seconds=timing.node_s + (timing.reboot_s if any(nodes[name] for name in wave) else 0)
        )
        for name in wave:
            waves[name] = (number, "")
            done = _entry(fleet, name, rules, State.DONE, now)
            fleet = fleet.with_member(name, done, "", version=rules.target)
        pending = [name for name in pending if name not in wave]
    return waves, (now - start).total_seconds()


def _entry(fleet: Fleet, name: str, rules: Rules, state: State, now: dt.datetime) -> Ledger:
    at = now.astimezone(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Ledger(rules.run, rules.target, "", state, at, gpus=fleet[name].gpus, model=fleet[name].model)
