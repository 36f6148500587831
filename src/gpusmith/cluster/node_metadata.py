"""Labels and taints of Node objects: ours come and go with the inventory, those of others stay."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpusmith.change.ledger import given_back
from gpusmith.cluster import condition, layouts
from gpusmith.cluster.api import CONFLICT, ApiRefused, Cluster, Object
from gpusmith.cluster.views import NODES, node_path, readiness
from gpusmith.errors import GpusmithError
from gpusmith.names import (
    CONDITION,
    CORDON_TAINT,
    LAYOUT_LABEL,
    MANAGER,
    OWNED_TAINTS,
    PREVIOUS_DRIVER,
    STAMP,
    UPGRADE,
)
from gpusmith.upgrade import unfinished
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wanted.layouts import WHOLE, Layout

TICK_S = 1.0
TRIES = 5

Taint = Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """What a node has to look like.

    Attributes:
        labels: all that are ours.
        taints: all that are ours, with key, value and effect.
        startup_taint: key of a taint that the node of a machine made anew has to carry, even if its Node object is an old one;
            that also drops the old one's stamp, and the driver upgrade that it was in.
        adopted: somebody else has joined the node, so that taints which it has already are not ours to take away.
        layout: how its GPUs are to be handed out, which becomes a label where no pod can hold one of them.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    startup_taint: str = ""
    adopted: bool = False
    layout: Layout = WHOLE

    @staticmethod
    def read(given: Mapping[str, Any], layout: Layout = WHOLE) -> Wanted:
        """From an entry of the inventory's data, in which numbers may be labels."""
        labels = {str(key): str(value) for key, value in (given.get("labels") or {}).items()}
        startup, adopted = str(given.get("startup_taint") or ""), bool(given.get("adopted"))
        return Wanted(labels, tuple(given.get("taints") or ()), startup, adopted, layout)

    def with_layout(self, label: str) -> Wanted:
        """The same with the label of a layout, of whole GPUs with none."""
        return replace(self, labels={**self.labels, **({LAYOUT_LABEL: label} if label else {})})


@dataclass
class State:
    """What became of a node.

    Attributes:
        present: the cluster has it.
        ready: it says so.
        patched: what was changed, of labels and taints.
        seen: what it said of itself last.
        problem: what went wrong; empty if nothing did.
        changes: of labels and taints, by kind and in words.
        notes: what a person should know.
    """

    present: bool
    ready: bool
    seen: str
    patched: list[str] = field(default_factory=list)
    problem: str = ""
    changes: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def owned_labels(node: Object) -> set[str]:
    """The labels that were applied by us."""
    for entry in node["metadata"].get("managedFields") or []:
        if entry.get("manager") == MANAGER and entry.get("operation") == "Apply":
            fields = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get("f:labels") or {}
            return {key[2:] for key in fields if key.startswith("f:")}
    return set()


def label_patch(node: Object, wanted: Mapping[str, str]) -> Object | None:
    """The server-side apply that makes our labels the wanted ones; None if they are."""
    now = node["metadata"].get("labels") or {}
    if owned_labels(node) == set(wanted) and all(now.get(key) == value for key, value in wanted.items()):
        return None
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["metadata"]["name"], "labels": dict(wanted)},
    }


def identity(taint: Taint) -> str:
    """Key and effect: what makes two taints the same for Kubernetes."""
    return f"{taint['key']}:{taint['effect']}"


def taint_patch(
    node: Object, wanted: Sequence[Taint], startup: str = "", adopted: bool = False
) -> Object | None:
    """The merge patch that makes our taints the wanted ones; None if they are.

    It carries the version that it was computed from: a taint that somebody sets meanwhile is not lost, the patch is refused.
    """
    owned = _owned_taints(node)
    ours = {identity(taint): {k: str(v) for k, v in taint.items() if v not in (None, "")} for taint in wanted}
    now = (node.get("spec") or {}).get("taints") or []
    kept = [taint for taint in now if identity(taint) not in ours and identity(taint) not in owned]
    fresh = [{"key": startup, "effect": "NoSchedule"}] if startup else []
    fresh = [taint for taint in fresh if identity(taint) not in {identity(other) for other in kept}]
    there = {identity(taint): {k: v for k, v in taint.items() if k != "timeAdded"} for taint in now}
    same = all(there.get(name) == taint for name, taint in ours.items()) and not (
        (owned - set(ours)) & set(there)
    )
    annotated = node["metadata"].get("annotations") or {}
    void = [key for key in (STAMP, UPGRADE, PREVIOUS_DRIVER) if startup and key in annotated]
    theirs = {name for name in ours.keys() - owned if adopted and there.get(name) == ours[name]}
    if same and owned == ours.keys() - theirs and not fresh and not void:
        return None
    change = unfinished.open_one(node) if startup else None
    return {
        "metadata": {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": {
                OWNED_TAINTS: ",".join(sorted(ours.keys() - theirs)) or None,
                **dict.fromkeys(void),
            },
            **({"labels": labels} if (labels := given_back(change)) else {}),
        },
        "spec": {
            "taints": kept + fresh + [ours[name] for name in sorted(ours)],
            **({"unschedulable": None} if change is not None and change.cordoned else {}),
        },
    }


def _cordoned_by_upgrade(node: Object) -> bool:
    """Whether its cordon is that of a driver upgrade which is not finished."""
    found = unfinished.open_one(node)
    return found is not None and found.cordoned


def changes(node: Object | None, wanted: Wanted) -> dict[str, list[str]]:
    """What differs from the wanted labels and taints, in words; of a node that the cluster does not have, all of them."""
    there = node or {"metadata": {}}
    labels = there["metadata"].get("labels") or {}
    owned = owned_labels(there)
    told = [f"{key}={value}" for key, value in sorted(wanted.labels.items()) if labels.get(key) != value]
    told += [f"{key} is removed" for key in sorted((owned - set(wanted.labels)) & set(labels))]
    kept = {in_words(taint) for taint in (there.get("spec") or {}).get("taints") or []}
    fresh = [{"key": wanted.startup_taint, "effect": "NoSchedule"}] if wanted.startup_taint else []
    taints = [text for text in map(in_words, [*wanted.taints, *fresh]) if text not in kept]
    ours = {identity(taint) for taint in wanted.taints}
    taints += [
        f"{name} is removed" for name in sorted(_owned_taints(there) - ours) if name in _identities(there)
    ]
    if wanted.startup_taint and _cordoned_by_upgrade(there):
        taints.append(f"{CORDON_TAINT}:NoSchedule is removed")
    return {kind: items for kind, items in (("labels", told), ("taints", taints)) if items}


def in_words(taint: Taint) -> str:
    """A taint as kubectl writes it."""
    value = taint.get("value")
    return f"{taint['key']}{f'={value}' if value else ''}:{taint['effect']}"


def _owned_taints(node: Object) -> set[str]:
    annotation = (node["metadata"].get("annotations") or {}).get(OWNED_TAINTS, "")
    return {name for name in annotation.split(",") if name}


def _identities(node: Object) -> set[str]:
    return {identity(taint) for taint in (node.get("spec") or {}).get("taints") or []}


def make(
    cluster: Cluster,
    wanted: Mapping[str, Wanted],
    timeout_s: float,
    check: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, State]:
    """Wait until the nodes are Ready, then patch what can be patched: one bad node is no reason to leave the good ones without.

    Args:
        cluster: the API.
        wanted: by name of the node.
        timeout_s: until all must be Ready.
        check: do not wait, and have the API server try the patches out only.
        sleep: replaced in tests.

    Raises:
        ToolError: the cluster does not answer, or does not list its nodes.
    """
    states: dict[str, State] = {}
    found: dict[str, Object] = {}

    def look() -> Done[None] | NotYet:
        found.clear()
        found.update(
            {
                row["metadata"]["name"]: row
                for row in cluster.items(NODES)
                if row["metadata"]["name"] in wanted
            }
        )
        for name in wanted:
            judged = readiness(found.get(name))
            states[name] = State(name in found, judged.ready, judged.seen)
        late = [f"'{name}': {state.seen}" for name, state in states.items() if not state.ready]
        return NotYet("; ".join(late)) if late and not check else Done(None)

    try:
        wait_until("the nodes to be Ready", look, Deadline(timeout_s), TICK_S, sleep)
    except WaitTimeout:
        for state in states.values():
            if not state.ready:
                state.problem = f"not Ready after {timeout_s:.0f} s, last seen: {state.seen.rstrip('.')}"
    for name, row in wanted.items():
        if check and name not in found:
            # MIG is no matter of a label alone, and comes later.
            states[name].changes = changes(
                None, row.with_layout("" if row.layout.profile else row.layout.label)
            )
    for name, node in found.items():
        # The taint of a machine made anew cannot wait: the next run finds the machine joined and does not ask for it.
        if check or states[name].ready or wanted[name].startup_taint:
            try:
                layout, note = layouts.of_now(cluster, node, wanted[name].layout, wanted[name].startup_taint)
                states[name].notes += [note] if note else []
                _patch(cluster, node, wanted[name].with_layout(layout), states[name], check)
            except ApiRefused as error:
                problems = (states[name].problem, str(error).rstrip("."))
                states[name].problem = "; ".join(filter(None, problems))
    return states


def _patch(cluster: Cluster, node: Object, wanted: Wanted, state: State, check: bool) -> None:
    path = node_path(node["metadata"]["name"])
    state.changes = changes(node, wanted)
    if wanted.startup_taint:
        # It was said of the machine that was there before.
        condition.remove(cluster, node, check)
    body = label_patch(node, wanted.labels)
    if body is not None:
        cluster.apply(path, body, MANAGER, dry_run=check)
        state.patched.append("labels")
        node = cluster.get(path) or node
    for left in reversed(range(TRIES)):
        body = taint_patch(node, wanted.taints, wanted.startup_taint, wanted.adopted)
        if body is None:
            return
        if "taints" not in state.patched:
            state.patched.append("taints")
        try:
            cluster.patch(path, body, MANAGER, dry_run=check)
            return
        except ApiRefused as error:
            # The node's controllers taint it too, and an answer to our own patch may have got lost.
            if error.status != CONFLICT or not left:
                state.patched.remove("taints")
                raise
            node = cluster.get(path) or node


def release(cluster: Cluster, name: str, check: bool = False) -> dict[str, list[str]]:
    """Take our labels, taints and annotations off a node that stays in the cluster; our operands leave it with their label.

    Args:
        cluster: the API.
        name: of the Node; one that is gone has none of them.
        check: have the API server try the patches out only.

    Returns:
        What was taken off, by kind and in words.

    Raises:
        GpusmithError: its driver upgrade is not finished, or the API server refuses.
    """
    node = cluster.get(node_path(name))
    if node is None:
        return {}
    if why := unfinished.refusal(name, node):
        raise GpusmithError(why.message, why.hint)
    state = State(True, True, "")
    _patch(cluster, node, Wanted(), state, check)
    if condition.remove(cluster, node, check):
        state.changes.setdefault("more", []).append(f"condition '{CONDITION}' is removed")
    marks = sorted({STAMP, UPGRADE, PREVIOUS_DRIVER} & set(node["metadata"].get("annotations") or {}))
    if marks:
        cluster.patch(
            node_path(name), {"metadata": {"annotations": dict.fromkeys(marks)}}, MANAGER, dry_run=check
        )
        state.changes.setdefault("more", []).extend(f"annotation '{mark}' is removed" for mark in marks)
    return state.changes
