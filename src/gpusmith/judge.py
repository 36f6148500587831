"""What the outputs of pods prove: pure functions from results to problems."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpusmith.problems import Problem

WORKLOAD_SCHEMA = "gpusmith.workload/1"
UUID = re.compile(r"\(UUID: ((?:GPU|MIG)-[0-9a-fA-F-]+)\)")

Result = Mapping[str, Any]


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


def program_result(node: str, what: str, log: str, simulated: bool) -> tuple[Result | None, list[Problem]]:
    """A program's result, if it is there, says that it succeeded, and on the kind of GPU that the inventory names."""
    found = result_of(log)
    if found is None:
        return None, [
            Problem(
                f"Node '{node}': {what} ended without a result.",
                "Read its output in the evidence.",
                {"log": last_words(log)},
            )
        ]
    if found.get("ok") is not True:
        return found, [
            Problem(
                f"Node '{node}': {what} failed: {found.get('error')}.",
                f"Look at the checks of '{node}' in the nodes tier first; then run the program by hand in a pod.",
                {"result": found, "log": last_words(log)},
            )
        ]
    if found.get("simulated") is not simulated:
        said, ran = ("simulated", "real") if simulated else ("real", "simulated")
        return found, [
            Problem(
                f"Node '{node}': {what} ran on {ran} GPUs, the inventory says they are {said}.",
                "Correct 'gpusmith_simulated' in the inventory, or find out why work fell back to the CPU.",
                {"result": found},
            )
        ]
    if bool(found.get("not_executed")) and not simulated:
        return found, [
            Problem(
                f"Node '{node}': {what} left out {found['not_executed']} on a real GPU.",
                "Report this.",
                {"result": found},
            )
        ]
    return found, []


def uuids_known(
    node: str, what: str, seen: Sequence[str], wanted: int, host: frozenset[str] | None
) -> list[Problem]:
    """The number that was asked for, all distinct, all of the host.

    Args:
        node: its name.
        what: the workload in words.
        seen: UUIDs.
        wanted: how many there must be.
        host: UUIDs by the host's NVML; None if the node's record could not be read.
    """
    problems = []
    evidence = {"uuids": list(seen), "host_uuids": sorted(host) if host is not None else None}
    twice = sorted(uuid for uuid, count in Counter(seen).items() if count > 1)
    if twice:
        problems.append(
            Problem(
                f"Node '{node}': {what}: {', '.join(twice)} was given out more than once at the same time.",
                "Look for a second device plugin or for time slicing: kubectl get pods -A | grep device-plugin",
                evidence,
            )
        )
    if len(seen) != wanted:
        problems.append(
            Problem(
                f"Node '{node}': {what} saw {len(seen)} GPUs, it was given {wanted}.",
                "Look at the CDI specification.",
                evidence,
            )
        )
    if host is not None:
        strange = sorted(set(seen) - host)
        if strange:
            problems.append(
                Problem(
                    f"Node '{node}': {what} saw {', '.join(strange)}, which NVML on the host does not know.",
                    "Restart the device plugin; its list of devices is stale.",
                    evidence,
                )
            )
    return problems


def nvidia_smi(
    node: str, log: str, wanted: int, host: frozenset[str] | None
) -> tuple[list[str], list[Problem]]:
    """``nvidia-smi -L``: UUIDs, and what is wrong. The banner is never parsed: its words change."""
    seen = UUID.findall(log)
    if not seen:
        return seen, [
            Problem(
                f"Node '{node}': nvidia-smi in a pod lists no GPU: {' '.join(log.split())[-200:] or 'no output'}.",
                "Compare with 'nvidia-smi -L' on the node; see nodes.nvml.",
                {"log": last_words(log)},
            )
        ]
    return seen, uuids_known(node, "nvidia-smi", seen, wanted, host)


def cuda_devices(result: Result) -> list[str]:
    """UUIDs that the CUDA program exercised."""
    return [str(device.get("uuid")) for device in result.get("devices") or []]


def insufficient(message: str) -> bool:
    """Whether the scheduler's words give lack of GPUs as the reason."""
    return "Insufficient nvidia.com/gpu" in message
