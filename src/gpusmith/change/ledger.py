"""The ledger of a node's change: an annotation of the Node, so that the next run can finish what a killed one began."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

from gpusmith.errors import GpusmithError
from gpusmith.names import FIRST_CHANGE, HOLD, SENTINEL_LABEL, SENTINEL_LABELS, UPGRADE

SCHEMA = 1

Node = Mapping[str, Any]


class State(StrEnum):
    """How far a node's change is."""

    ADMITTED = "admitted"
    """The node is cordoned, and counts against the budget."""
    DRAINING = "draining"
    """The run waits until no pod holds a GPU."""
    QUIET = "quiet"
    """No pod holds a GPU, and our operands are off."""
    CHANGING = "changing"
    """What is changed is stopped and replaced. From here on the node goes forward or back."""
    LOADED = "loaded"
    """It runs in the wanted version."""
    VALIDATING = "validating"
    """Operands are on again, and the suite tests the node."""
    DONE = "done"
    """The node is validated with the target version."""
    ROLLING_BACK = "rolling_back"
    """The version before is put back."""
    ROLLED_BACK = "rolled_back"
    """The node is validated with the version before."""
    RELEASED = "released"
    """The change was given up before anything was done, and all is as it was."""
    STUCK = "stuck"
    """Neither version could be validated; the node is left cordoned."""


FINISHED = frozenset({State.DONE, State.ROLLED_BACK, State.RELEASED})
"""The node is as before, or better; every other state needs another run."""
UNTOUCHED = frozenset({State.ADMITTED, State.DRAINING, State.QUIET})
"""Nothing was changed on the machine yet: the node can be released."""
FAILED = frozenset({State.ROLLED_BACK, State.STUCK, State.ROLLING_BACK})
"""The target version did not work there."""


@dataclass(frozen=True)
class Ledger:
    """One entry; a node has at most one.

    Attributes:
        run: ID of the run that wrote it last.
        target: version that is to come.
        origin: version before.
        state: how far it is.
        since: when that state began, in UTC.
        cordoned: this change cordoned the node, so it may uncordon it.
        paused: this change took our operands off.
        gpus: number of the node's GPUs.
        model: their model, as the budget counts them.
        stopped: systemd units that were stopped for it, and are started again.
        attempt: how often the change was begun.
        reason: why it failed or was released.
        before: what the GPUs were before, for the comparison afterwards.
        flavour: kind of what was there before, in the change's own words.
        rollback: the target is the version from before an earlier change.
        change: what it is called, see `protocol.Words`.
        opted_out: this change told NVSentinel to leave the node alone; the label's value before, empty if it had none.
    """

    run: str
    target: str
    origin: str
    state: State
    since: str
    cordoned: bool = False
    paused: bool = False
    gpus: int = 0
    model: str = ""
    stopped: tuple[str, ...] = ()
    attempt: int = 0
    reason: str = ""
    before: Mapping[str, Any] = field(default_factory=dict)
    flavour: str = ""
    rollback: bool = False
    change: str = FIRST_CHANGE
    opted_out: str | None = None

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.state in FINISHED


class Unreadable(GpusmithError):  # noqa: N818 - it is a state of the annotation
    """The annotation is there, but no ledger that this release knows."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"Annotation '{UPGRADE}' is no ledger that this release can read ({why}).",
            "Use the release that wrote it.",
        )


def read(node: Node) -> Ledger | None:
    """The ledger of a Node object; None if it has none.

    Raises:
        Unreadable: somebody else wrote it, or a later release.
    """
    text = ((node.get("metadata") or {}).get("annotations") or {}).get(UPGRADE)
    if text is None:
        return None
    try:
        raw = json.loads(text)
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema '{raw['schema']}'")
        known = {each.name: raw[each.name] for each in fields(Ledger) if each.name in raw}
        return Ledger(**{**known, "state": State(raw["state"]), "stopped": tuple(raw.get("stopped") or ())})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unreadable(str(error)) from error


def is_held(node: Node) -> bool:
    """Whether somebody asked, by a label or an annotation, that changes leave the node alone."""
    metadata = node.get("metadata") or {}
    return any(HOLD in (metadata.get(kind) or {}) for kind in ("annotations", "labels"))


def unfinished(node: Node) -> str:
    """Why nothing but its change may touch a node now, with its state; empty if it may.

    Args:
        node: its Node object.
    """
    try:
        ledger = read(node)
    except Unreadable as error:
        return error.message
    if ledger is None or ledger.finished:
        return ""
    words = f"its {ledger.change} from {ledger.origin} to {ledger.target} is '{ledger.state}' since {ledger.since}"
    return f"{words} ({ledger.reason})" if ledger.reason else words


def written(ledger: Ledger) -> str:
    """The annotation's value."""
    return json.dumps({"schema": SCHEMA, **asdict(ledger)}, sort_keys=True)


def now() -> str:
    """The time, as ledgers say it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def to_opt_out(node: Node) -> str | None:
    """What `Ledger.opted_out` becomes of a node: None where NVSentinel does not look after it, or somebody told it not to."""
    labels = (node.get("metadata") or {}).get("labels") or {}
    value = labels.get(SENTINEL_LABEL)
    if value == "false" or not any(
        name == SENTINEL_LABEL or name.startswith(SENTINEL_LABELS) for name in labels
    ):
        return None
    return str(value or "")


def given_back(ledger: Ledger | None) -> dict[str, str | None]:
    """The labels that a node gets back when its change ends, or is void."""
    if ledger is None or ledger.opted_out is None:
        return {}
    return {SENTINEL_LABEL: ledger.opted_out or None}


def patch(
    node: Node,
    ledger: Ledger,
    cordon: bool | None = None,
    others: Mapping[str, str | None] | None = None,
) -> dict[str, Any]:
    """Merge patch that writes a ledger, refused by the API server if somebody changed the Node in between.

    Args:
        node: the Node as it was read.
        ledger: the new one.
        cordon: True cordons, False uncordons, None leaves it.
        others: annotations that are written with it; None removes one.
    """
    annotations: dict[str, str | None] = {UPGRADE: written(ledger), **(others or {})}
    body: dict[str, Any] = {
        "metadata": {"resourceVersion": node["metadata"]["resourceVersion"], "annotations": annotations}
    }
    if ledger.opted_out is not None:
        body["metadata"]["labels"] = given_back(ledger) if ledger.finished else {SENTINEL_LABEL: "false"}
    if cordon is not None:
        body["spec"] = {"unschedulable": True if cordon else None}
    return body
