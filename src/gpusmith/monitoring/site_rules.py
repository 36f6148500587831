"""The rule files as a site gets them: its accepted Xids in their place, alerts left out that are of no use to it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import yaml

from gpusmith.data import monitoring
from gpusmith.errors import InputError
from gpusmith.monitoring.rules import ACCEPTED_XIDS
from gpusmith.wording import quoted

DISABLED = "gpu_monitoring_disabled_alerts"
ACCEPTED = re.compile(r'xid!~"[\d|]*"')
"""Where expressions leave accepted Xids out."""


def rule_files(
    accepted: Sequence[Iterable[int] | bool] = (),
    disabled: Collection[str] = (),
    jobs: Collection[str] | None = None,
) -> dict[str, str]:
    """The files by name, as a site gets them.

    Args:
        accepted: lists of Xids, or false for the default. One is accepted that is in all of them. Without any, the default.
        disabled: names of alerts that are left out.
        jobs: exporters that there are; nobody is told that another one is down. None for all.

    Raises:
        InputError: a file cannot be read, or there is no such alert.
    """
    found = monitoring.groups()
    _refuse_unknown(disabled, found)
    default = {int(code) for code in ACCEPTED_XIDS.split("|")}
    lists = [default if isinstance(row, bool) else set(row) for row in accepted]
    codes = set.intersection(*lists) if lists else None
    return {name: _text(groups, codes, disabled, jobs) for name, groups in found.items()}


def _refuse_unknown(disabled: Collection[str], found: Mapping[str, list[dict[str, Any]]]) -> None:
    rules = (rule for groups in found.values() for group in groups for rule in group["rules"])
    known = list(dict.fromkeys(str(rule["alert"]) for rule in rules if "alert" in rule))
    for name in disabled:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3) or known
            raise InputError(
                f"'{DISABLED}' names alert '{name}', which there is not.", f"Alerts are {quoted(near)}."
            )


def _text(
    groups: list[dict[str, Any]],
    codes: set[int] | None,
    disabled: Collection[str],
    jobs: Collection[str] | None,
) -> str:
    kept = [
        {
            **group,
            "rules": [
                _filled(rule, codes)
                for rule in group["rules"]
                if not monitoring.left_out(rule, disabled, jobs)
            ],
        }
        for group in groups
    ]
    return yaml.safe_dump(
        {"groups": [group for group in kept if group["rules"]]}, sort_keys=False, width=1000
    )


def _filled(rule: dict[str, Any], codes: set[int] | None) -> dict[str, Any]:
    if codes is None:
        return rule
    given = "|".join(map(str, sorted(codes)))
    return {**rule, "expr": ACCEPTED.sub(f'xid!~"{given}"', str(rule["expr"]))}
