"""What Prometheus says of the GPUs of pods: whether nobody used them in all of a window."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from gpusmith.monitoring.hours import BUSY, interval_s
from gpusmith.reclaim.owners import Pod

SAMPLED = "DCGM_FI_DEV_GPU_UTIL"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
"""Counter that sees work between two samples as well. Without it, an inference that answers now and then looks idle for hours."""
ENOUGH = 0.9
"""Part of the values of a window that must be there."""
LEAST_S = 600
"""Shortest window on real GPUs."""
LABELS = ("node", "UUID", "GPU_I_ID", "namespace", "pod")

Query = Callable[[str], Sequence[Mapping[str, Any]]]


class Use(StrEnum):
    """What became of a pod's GPUs in a window."""

    IDLE = "idle"
    USED = "used"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Judged:
    """An answer, and why."""

    use: Use
    why: str = ""


@dataclass(frozen=True)
class Gpu:
    """A GPU of a pod in a window.

    Attributes:
        node: that it is of.
        part: its instance, by MIG; empty for a whole one.
        peak: the highest of its values; above 0 it was used.
        values: how many there are.
        engine: how many there are of the counter that sees work between samples, of as many.
        now: whether there is a value of this moment, so that the exporter is up.
    """

    node: str
    part: str = ""
    peak: float = 0.0
    values: int = 0
    engine: int = 0
    now: bool = True


Window = Mapping[tuple[str, str], Sequence[Gpu]]
"""GPUs by namespace and name of the pod."""


class Witness:
    """Prometheus, asked for the pods of some namespaces: a few queries for each window, however many pods there are.

    Args:
        query: asks for the series of an instant.
        namespaces: at least one.
    """

    def __init__(self, query: Query, namespaces: Collection[str]) -> None:
        self._query = query
        self._of = f'{{namespace=~"{"|".join(sorted(namespaces))}",pod!=""}}'
        # The clock that the values go by: that of the controller may be another one.
        self.now = float(query("vector(time())")[0]["value"][1])
        self._present: frozenset[tuple[str, ...]] | None = None
        self._windows: dict[int, Window] = {}

    def window(self, seconds: int) -> Window:
        """The last seconds."""
        if seconds not in self._windows:
            self._windows[seconds] = self._ask(seconds)
        return self._windows[seconds]

    def _ask(self, seconds: int) -> Window:
        # Of the record each half minute; of what it is made of all values, however often the exporter is asked.
        values = self._by_gpu("sum", f"count_over_time({BUSY}{self._of}[{seconds}s])")
        sampled = self._by_gpu("max", f"max_over_time({SAMPLED}{self._of}[{seconds}s])")
        engine = self._by_gpu("max", f"max_over_time({ENGINE}{self._of}[{seconds}s])")
        # In steps of the record, so that the same number is due.
        known = self._by_gpu("max", f"count_over_time({ENGINE}{self._of}[{seconds}s:{interval_s()}s])")
        if self._present is None:
            self._present = frozenset(self._by_gpu("max", f"{BUSY}{self._of}"))
        found: dict[tuple[str, str], list[Gpu]] = {}
        for key in sorted({*values, *sampled, *engine}):
            node, _, part, namespace, pod = key
            peak = max(sampled.get(key, 0.0), engine.get(key, 0.0))
            gpu = Gpu(node, part, peak, int(values.get(key, 0)), int(known.get(key, 0)), key in self._present)
            found.setdefault((namespace, pod), []).append(gpu)
        return found

    def _by_gpu(self, by: str, text: str) -> dict[tuple[str, ...], float]:
        return {
            tuple(str(row["metric"].get(label, "")) for label in LABELS): float(row["value"][1])
            for row in self._query(f"{by} by ({', '.join(LABELS)}) ({text})")
        }


def judge(pod: Pod, gpus: Sequence[Gpu], seconds: int, now: float) -> Judged:
    """Whether a pod's GPUs were idle in a window: that must be proved of all of them, for all of it.

    Args:
        pod: it holds GPUs.
        gpus: that Prometheus knows of it.
        seconds: length of the window, which ends now.
        now: seconds since 1970, by Prometheus.
    """
    name = f"pod '{pod.name}'"
    if any(gpu.peak > 0 for gpu in gpus):
        return Judged(Use.USED, f"{name} used its GPUs in the last {minutes(seconds)}")
    if pod.started is None or pod.started > now - seconds:
        return Judged(Use.USED, f"{name} has not run for {minutes(seconds)}")
    if pod.strange:
        return Judged(Use.UNKNOWN, f"{name} {pod.strange}")
    if seconds < LEAST_S and not pod.simulated:
        return Judged(
            Use.UNKNOWN, f"less than {minutes(LEAST_S)} prove nothing of GPUs that are not simulated"
        )
    return (
        Judged(Use.UNKNOWN, f"{lack} of {name}") if (lack := _lack(pod, gpus, seconds)) else Judged(Use.IDLE)
    )


def _lack(pod: Pod, gpus: Sequence[Gpu], seconds: int) -> str:
    """What is not known of its GPUs; empty if all is."""
    if any(gpu.part for gpu in gpus):
        return "the metrics are of parts of GPUs"
    if len(gpus) != pod.gpus or any(gpu.node != pod.node for gpu in gpus):
        seen = Counter(gpu.node for gpu in gpus)
        there = ", ".join(f"{count} on '{node}'" for node, count in sorted(seen.items())) or "none"
        return f"Prometheus knows other GPUs ({there}) than the {pod.gpus} on '{pod.node}'"
    if not all(gpu.now for gpu in gpus):
        return "Prometheus has no value of now"
    whole = seconds / interval_s()
    least = min(gpu.values for gpu in gpus)
    if least < ENOUGH * whole:
        return f"Prometheus has {least} of {whole:.0f} values in {minutes(seconds)}"
    if not pod.simulated and min(gpu.engine for gpu in gpus) < ENOUGH * whole:
        return f"Prometheus has no counter '{ENGINE}', without which work between two samples is not seen,"
    return ""


def minutes(seconds: float) -> str:
    """For a person."""
    found = round(seconds / 60)
    return f"{found} minute{'' if found == 1 else 's'}"
