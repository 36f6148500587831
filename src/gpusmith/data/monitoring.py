"""What role gpu_monitoring ships: the counters that its exporter reads, and the rules that its Prometheus evaluates."""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpusmith import yaml_text
from gpusmith.errors import InputError
from gpusmith.paths import repo_root

FILES = Path("roles/gpu_monitoring/files")
NONE = "none"
"""What the variable of a part says of one that there is not."""
WATCHDOG = "GpusmithWatchdog"
"""Alert that always fires, to show that alerts arrive."""
RARE = frozenset({"DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_CLOCK_EVENTS_COUNT"})
"""Counters that the exporter may have no value of while there is no event, so that healthy GPUs lack them."""


def files() -> Path:
    """The folder of the role with what it ships."""
    return repo_root() / FILES


def counter_rows() -> list[tuple[str, str, str]]:
    """Field, type and help of each counter, as the exporter reads the file."""
    lines = (files() / "counters.csv").read_text(encoding="utf-8").splitlines()
    rows = csv.reader(line for line in lines if line.strip() and not line.startswith("#"))
    return [(name.strip(), kind.strip(), words.strip()) for name, kind, words in rows]


@functools.cache
def counters() -> tuple[str, ...]:
    """Names of the counters that a healthy GPU has, as far as its model can."""
    return tuple(name for name, kind, _ in counter_rows() if kind != "label" and name not in RARE)


def groups() -> dict[str, list[dict[str, Any]]]:
    """The groups of rules of each file, by its name.

    Raises:
        InputError: a file cannot be read.
    """
    return {path.name: _groups(path) for path in sorted((files() / "rules").glob("*.yml"))}


def _groups(path: Path) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = yaml_text.load(path.read_text(encoding="utf-8"))["groups"]
        [rule["expr"] for group in found for rule in group["rules"]]
    except (KeyError, TypeError, ValueError, yaml.YAMLError) as error:
        name = FILES / "rules" / path.name
        raise InputError(
            f"'{name}' has no rules that Prometheus could read: {' '.join(str(error).split())}.",
            f"Correct it, or take the file as it was: promtool check rules {name}",
        ) from error
    return found


@functools.cache
def needed() -> frozenset[str]:
    """Counters that rules read, and that a healthy GPU has."""
    text = " ".join(rule["expr"] for found in groups().values() for group in found for rule in group["rules"])
    return frozenset(counters()) & frozenset(re.findall(r"\w+", text))


def left_out(rule: Mapping[str, Any], disabled: Collection[str], jobs: Collection[str] | None) -> bool:
    """Whether a site does not get a rule.

    Args:
        rule: as it is in the file.
        disabled: names of alerts that the site does not want.
        jobs: exporters that there are; nobody is told that another one is down. None for all.
    """
    exporter = (rule.get("labels") or {}).get("exporter")
    return rule.get("alert") in disabled or (bool(exporter) and jobs is not None and exporter not in jobs)


@functools.cache
def rules(disabled: frozenset[str] = frozenset(), jobs: frozenset[str] | None = None) -> frozenset[str]:
    """Names of the alerts and records that a site gets, see `left_out`."""
    return frozenset(
        rule.get("alert") or rule["record"]
        for found in groups().values()
        for group in found
        for rule in group["rules"]
        if not left_out(rule, disabled, jobs)
    )
