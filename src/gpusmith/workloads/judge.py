"""What the outputs of pods prove: pure functions from what they printed to what is wrong."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.problems import Problem
from gpusmith.wanted.offers import Device

WORKLOAD_SCHEMA = "gpusmith.workload/1"

Result = Mapping[str, Any]

SECOND_PLUGIN = "Look for a second device plugin: kubectl get pods -A | grep device-plugin"


@dataclass(frozen=True)
class Expected:
    """What is known of a node before its pods say anything.

    Attributes:
        node: its name.
        simulated: the inventory's word.
        devices: what its pods are given, by the host's NVML; None if the node's record could not be read.
        by: who knows them, in words.
        told: who says whether GPUs are simulated, in words.
    """

    node: str
    simulated: bool
    devices: frozenset[Device] | None
    by: str = "NVML on the host"
    told: str = "the inventory"

    @property
    def uuids(self) -> frozenset[str] | None:
        """Of these devices."""
        return None if self.devices is None else frozenset(device.uuid for device in self.devices)

    def gpus_of(self, uuids: Iterable[str]) -> tuple[str, ...]:
        """UUIDs of the GPUs that devices are, or are parts of, each once."""
        parents = {device.uuid: device.gpu for device in self.devices or ()}
        return tuple(dict.fromkeys(parents.get(uuid, uuid) for uuid in uuids))


@dataclass(frozen=True)
class Judged:
    """What a workload proved.

    Attributes:
        evidence: what was seen, as plain JSON data.
        problems: what is wrong; none if it passed.
        tested: UUIDs of the GPUs that it exercised, whatever came of it.
        of_host: it passed by a comparison with the host's GPUs, so that without these nothing is proved.
    """

    evidence: Mapping[str, Any]
    problems: Sequence[Problem] = ()
    tested: Sequence[str] = ()
    of_host: bool = False


def together(parts: Sequence[Judged]) -> Judged:
    """What pods proved that shared the work of one: lists and mappings of their evidence are joined."""
    evidence = dict(parts[0].evidence)
    for name, value in [item for part in parts[1:] for item in part.evidence.items()]:
        there = evidence.get(name)
        if isinstance(there, list):
            evidence[name] = [*there, *(row for row in value if row not in there)]
        elif isinstance(there, dict):
            evidence[name] = {**there, **value}
        else:
            evidence[name] = value
    return Judged(
        evidence,
        [problem for part in parts for problem in part.problems],
        list(dict.fromkeys(uuid for part in parts for uuid in part.tested)),
        of_host=all(part.of_host for part in parts),
    )


def result_of(log: str) -> Result | None:
    """The last line of a pod's log that is a result; None if there is none."""
    for line in reversed(log.splitlines()):
        if line.startswith('{"schema"'):
            try:
                found = json.loads(line)
            except ValueError:
                continue
            if isinstance(found, dict) and found.get("schema") == WORKLOAD_SCHEMA:
                return found
    return None


def last_words(log: str) -> str:
    """The end of a log, for evidence."""
    return "\n".join(log.rstrip().splitlines()[-15:])


def program_result(expected: Expected, what: str, log: str) -> tuple[Result | None, list[Problem]]:
    """A program's result, if it is there, says that it succeeded, and on the kind of GPU that the inventory names.

    Args:
        expected: of the node.
        what: the program in words.
        log: what its pod printed.
    """
    node, found = expected.node, result_of(log)
    if found is None:
        cause, step = "ended without a result", "Read its output in the evidence."
        return None, [Problem(f"Node '{node}': {what} {cause}.", step, {"log": last_words(log)})]
    evidence: dict[str, Any] = {"result": found}
    if found.get("ok") is not True:
        cause = f"failed: {found.get('error')}"
        step = (
            f"Look at the checks of '{node}' in the nodes tier first; then run the program by hand in a pod."
        )
        evidence["log"] = last_words(log)
    elif found.get("simulated") is not expected.simulated:
        said, ran = ("simulated", "real") if expected.simulated else ("real", "simulated")
        cause = f"ran on {ran} GPUs, {expected.told} says they are {said}"
        where = "'gpusmith_simulated' in the inventory" if expected.told == "the inventory" else expected.told
        step = f"Correct {where}, or find out why work fell back to the CPU."
    elif found.get("not_executed") and not expected.simulated:
        cause, step = f"left out {found['not_executed']} on a real GPU", "Report this."
    else:
        return found, []
    return found, [Problem(f"Node '{node}': {what} {cause}.", step, evidence)]


def uuids_known(expected: Expected, what: str, seen: Sequence[str], wanted: int) -> list[Problem]:
    """The number that was asked for, all distinct, all of the host.

    Args:
        expected: of the node.
        what: the workload in words.
        seen: UUIDs.
        wanted: how many there must be.
    """
    host = expected.uuids
    evidence = {"uuids": list(seen), "host_uuids": sorted(host) if host is not None else None}
    twice = sorted(uuid for uuid, count in Counter(seen).items() if count > 1)
    strange = sorted(set(seen) - host) if host is not None else []
    wrong = []
    if twice:
        cause = f"{what}: {', '.join(twice)} was given out more than once at the same time"
        wrong.append(
            (
                cause,
                "Look for a second device plugin or for time slicing: kubectl get pods -A | grep device-plugin",
            )
        )
    if len(seen) != wanted:
        things = "MIG instances" if any(device.parent for device in expected.devices or ()) else "GPUs"
        cause = f"{what} saw {len(seen)} {things}, it was given {wanted}"
        wrong.append((cause, "Look at the CDI specification."))
    if strange:
        cause = f"{what} saw {', '.join(strange)}, which {expected.by} does not know"
        wrong.append((cause, "Restart the device plugin; its list of devices is stale."))
    return [Problem(f"Node '{expected.node}': {cause}.", step, evidence) for cause, step in wrong]


def program_on_gpus(
    expected: Expected, what: str, log: str, wanted: int, seen_in: Callable[[Result], list[str]]
) -> Judged:
    """A program's result, and that it ran on GPUs of the host.

    Args:
        expected: of the node.
        what: the program in words.
        log: what its pod printed.
        wanted: how many GPUs it was given.
        seen_in: UUIDs that a result names.
    """
    result, problems = program_result(expected, what, log)
    if result and not problems:
        problems = uuids_known(expected, what, seen_in(result), wanted)
    return Judged(dict(result or {}), problems, of_host=True)
