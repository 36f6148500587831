"""Which nodes must be validated, whether a suite's results prove a node, and what its Node object then carries."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusmith.cluster import condition
from gpusmith.cluster.api import CONFLICT, ApiRefused, Cluster
from gpusmith.cluster.views import NODES, node_path
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.names import (
    CONDITION,
    MONITORING,
    OF_TEAMS,
    RESULTS_SCHEMA,
    STAMP,
    STAMP_MANAGER,
    STARTUP_TAINT,
)
from gpusmith.problems import Problem
from gpusmith.wanted import layouts

TRIES = 5

Node = Mapping[str, Any]
CHANGED = "since it was validated"
BAD = ("failed", "error")
LAYOUT = "layout"
"""Fact of a stamp that the Node tells, and no machine."""


# --- which nodes ---------------------------------------------------------------------------------------------------


def read_stamp(node: Node) -> dict[str, Any] | None:
    """The stamp of a Node object; None if it has none that can be read."""
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    try:
        stamp = json.loads(annotations.get(STAMP, ""))
    except ValueError:
        return None
    return stamp if isinstance(stamp, dict) else None


def proved(stamp: Mapping[str, Any] | None, fact: str) -> str:
    """A fact that a node was validated with; empty without a stamp. A stamp that names no layout is one of whole GPUs."""
    usual = layouts.WHOLE.name if fact == LAYOUT else ""
    return "" if stamp is None else str(stamp.get(fact) or usual)


def has_taint(node: Node) -> bool:
    """Whether the startup taint is there."""
    taints = (node.get("spec") or {}).get("taints") or []
    return any(taint.get("key") == STARTUP_TAINT for taint in taints)


def differing(stamp: Mapping[str, Any], facts: Mapping[str, Any]) -> list[str]:
    """Names of the facts that changed since the stamp."""
    return [
        name for name in ("driver", "kernel", "runtime", "simulated") if stamp.get(name) != facts.get(name)
    ]


def reason(node: Node | None, facts: Mapping[str, Any], policy: str) -> str:
    """Why a node must be validated now; empty if it need not.

    Args:
        node: its Node object, None if the cluster has none.
        facts: those that a stamp is for, as the probe reads them.
        policy: gpusmith_validate.
    """
    if policy == "never":
        return ""
    if policy == "always":
        return "validation is always asked for"
    if node is None:
        return "the cluster has no such node"
    stamp = read_stamp(node)
    if stamp is None:
        return "it was never validated"
    changed = differing(stamp, facts)
    if proved(stamp, LAYOUT) != layouts.of_node(node).name:
        changed.append(LAYOUT)
    if changed or stamp.get("digest") != facts.get("digest"):
        return f"{CHANGED}, its {' and '.join(changed) or 'stamp'} changed"
    if has_taint(node):
        return "it carries the startup taint"
    return ""


# --- what the suite proved -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Proof:
    """Whether results prove a node: they do if nothing stands against it.

    Attributes:
        problem: why not; None if every check of the node passed, in a complete run, on every GPU.
        busy: nothing was wrong, but jobs held GPUs, so that these could not be tested.
    """

    problem: Problem | None = None
    busy: bool = False


def _none(cause: str, next_step: str = "") -> Proof:
    return Proof(Problem(cause, next_step))


def _rows(results: Mapping[str, Any], kind: str, key: str, node: str) -> list[Mapping[str, Any]]:
    rows = ((results.get("coverage") or {}).get(kind) or {}).get(key) or []
    return [row for row in rows if isinstance(row, Mapping) and row.get("node") == node]


def _coverage(results: Mapping[str, Any], node: str) -> Proof | None:
    run = results.get("run") or {}
    if node not in (run.get("nodes") or []):
        return _none("the suite did not test the node")
    left_out = _rows(results, "nodes", "excluded", node) + _rows(results, "gpus", "excluded", node)
    if left_out:
        return _none("; ".join(str(row.get("reason") or "left out without a reason") for row in left_out))
    busy = _rows(results, "gpus", "busy", node)
    if busy:
        held = ", ".join(f"{row.get('gpus')} by '{row.get('holder')}'" for row in busy)
        cause = f"GPUs were busy and could not be tested: {held}"
        return Proof(Problem(cause, "Run it again when they are free."), busy=True)
    return None


def _causes(checks: Iterable[Mapping[str, Any]]) -> str:
    """What checks say, each with its name: a sentence that goes on."""
    said = ((check.get("id"), str(check.get("cause") or "no cause given")) for check in checks)
    return "; ".join(f"{name}: {cause.rstrip('.')}" for name, cause in said)


def _steps(checks: Iterable[Mapping[str, Any]]) -> str:
    """What the suite says to do next; with the names of the checks, where these say several things."""
    steps: dict[str, list[str]] = {}
    for check in checks:
        if check.get("next_step"):
            steps.setdefault(str(check["next_step"]), []).append(str(check.get("id")))
    if len(steps) == 1:
        return next(iter(steps))
    return " ".join(f"{', '.join(dict.fromkeys(names))}: {step}" for step, names in steps.items())


def _checks(results: Mapping[str, Any], host: str, watching: bool = False) -> list[Mapping[str, Any]]:
    """Those that concern a host, of it or of what watches it: a stamp says nothing of that, and does not depend on it."""
    others = set((results.get("run") or {}).get("nodes") or []) - {host}
    return [
        check
        for check in results.get("checks") or []
        if check.get("target") not in others
        and check.get("id") not in OF_TEAMS
        and str(check.get("id")).startswith(f"{MONITORING}.") == watching
    ]


def unwatched(results: Mapping[str, Any], host: str) -> list[str]:
    """What is wrong with what watches a host, in words."""
    bad = [row for row in _checks(results, host, watching=True) if row.get("outcome") in BAD]
    return [f"{_causes([row])}. {row.get('next_step') or ''}".strip() for row in bad]


def judge(results: Mapping[str, Any], host: str) -> Proof:
    """Whether the results of one run of the suite prove a node.

    Args:
        results: results.json.
        host: its name in the inventory, by which results call it. A check whose target is no host, such as 'cluster', concerns
            every node.
    """
    if results.get("schema") != RESULTS_SCHEMA:
        return _none(f"the results are of schema '{results.get('schema')}', not '{RESULTS_SCHEMA}'")
    if (results.get("run") or {}).get("complete") is not True:
        return _none(
            "only a selection of the checks ran, which proves nothing", "Run the suite without a filter."
        )
    checks = _checks(results, host)
    bad = [check for check in checks if check.get("outcome") in BAD]
    if bad:
        return _none(_causes(bad), _steps(bad))
    uncovered = _coverage(results, host)
    if uncovered:
        return uncovered
    # What the node has not, it need not prove. Any other skip leaves something open.
    open_ones = [
        check
        for check in checks
        if check.get("outcome") != "passed" and check.get("skip") != "not_applicable"
    ]
    if open_ones:
        return _none(f"not every check could be made: {_causes(open_ones)}", "Run the suite again.")
    if not any(check.get("target") == host and check.get("outcome") == "passed" for check in checks):
        return _none("no check of this node passed")
    return Proof()


# --- what the Node object gets -------------------------------------------------------------------------------------


def make_stamp(facts: Mapping[str, Any], time_text: str, node: Node | None = None) -> str:
    """The annotation's value.

    Args:
        facts: that it is for; key 'asked' where a branch of the driver, or the latest version, is what the inventory says.
        time_text: the time.
        node: as it was; a driver that it was validated with before serves since then.
    """
    keys = [
        *("driver", "kernel", "runtime", "digest", "simulated"),
        *(["asked"] if facts.get("asked") else []),
    ]
    old = read_stamp(node or {}) or {}
    since = (old.get("since") or old.get("time")) if old.get("driver") == facts.get("driver") else None
    layout = layouts.of_node(node) if node else layouts.WHOLE
    stamp = {
        **{key: facts.get(key) for key in keys},
        **({LAYOUT: layout.name} if layout.label else {}),
        "time": time_text,
        "since": since or time_text,
    }
    return json.dumps(stamp, sort_keys=True)


def validated_since(node: Node) -> dt.datetime | None:
    """Since when a node's driver is validated on it, without a validation that failed in between; None if it is not."""
    stamp = read_stamp(node) or {}
    try:
        found = dt.datetime.fromisoformat(str(stamp.get("since") or stamp.get("time")))
    except ValueError:
        return None
    return found if found.tzinfo else None


def stamp_patch(node: Node, stamp: str) -> dict[str, Any]:
    """Merge patch that stamps a node and takes the startup taint off, other taints kept.

    The resource version makes the API server refuse the patch if somebody changed the node in between: a merge patch replaces
    the whole list of taints.
    """
    patch: dict[str, Any] = {"metadata": {"annotations": {STAMP: stamp}}}
    if has_taint(node):
        taints = [taint for taint in node["spec"]["taints"] if taint.get("key") != STARTUP_TAINT]
        patch["spec"] = {"taints": taints or None}
        patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
    return patch


def unstamp_patch() -> dict[str, Any]:
    """Merge patch that takes a stamp off."""
    return {"metadata": {"annotations": {STAMP: None}}}


# --- with the cluster ----------------------------------------------------------------------------------------------


def by_name(cluster: Cluster) -> dict[str, Node]:
    """All Nodes, by one list."""
    return {row["metadata"]["name"]: row for row in cluster.items(NODES)}


def plan(
    there: Mapping[str, Node], hosts: Mapping[str, Mapping[str, Any]], policy: str, check: bool = False
) -> dict[str, str]:
    """Why which host must be validated now; hosts that need not are left out.

    Args:
        there: the cluster's Nodes by name.
        hosts: per host the name of its Node (node) and its facts (facts).
        policy: gpusmith_validate.
        check: the facts are those from before the run, which makes of a node what it was validated as.
    """
    why = {
        host: reason(there.get(entry["node"]), entry["facts"], policy)
        for host, entry in sorted(hosts.items())
    }
    return {
        host: f"{text}, unless this run sets that right" if check and text.startswith(CHANGED) else text
        for host, text in why.items()
        if text
    }


def say_stamps(
    cluster: Cluster, there: Mapping[str, Node], hosts: Mapping[str, Mapping[str, Any]], check: bool
) -> dict[str, str]:
    """Have conditions say what the stamps prove, of hosts that are not validated now; in words what was changed, by host.

    Args:
        cluster: the API.
        there: its Nodes by name.
        hosts: as plan() has them, and whether the Node says it in a condition, too (condition).
        check: have the API server try the changes out only.
    """
    said = {}
    for host, entry in sorted(hosts.items()):
        node, wanted = there.get(entry["node"]), bool(entry.get("condition"))
        if wanted and reason(node, entry["facts"], "if_needed"):
            continue
        if _say(cluster, node, None, wanted, check):
            said[host] = f"condition '{CONDITION}' is {'set' if wanted else 'removed'}"
    return said


def read_results(path: Path, not_before: float) -> dict[str, Any]:
    """The results of the run that was just made.

    Raises:
        ToolError: there are none, with what to look at.
    """
    hint = "Look at its log."
    try:
        if path.stat().st_mtime < not_before:
            raise ToolError(f"'{path}' is older than this run: the suite wrote no results.", hint)
        results = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ToolError(f"'{path}' does not exist: the suite wrote no results.", hint) from error
    except (OSError, ValueError) as error:
        raise ToolError(f"'{path}' cannot be read: {error}.", hint) from error
    if not isinstance(results, dict):
        raise ToolError(f"'{path}' holds no results.", hint)
    return results


def driver_asked(results: Mapping[str, Any], host: str) -> str:
    """What the inventory asked for as the driver of a host when it was validated; empty if the results do not tell."""
    facts = ((results.get("run") or {}).get("facts") or {}).get(host) or {}
    return str(facts.get("driver_asked") or "")


@dataclass(frozen=True)
class Stamped:
    """What became of a node's stamp.

    Attributes:
        proved: the node is validated, or nothing speaks against the stamp that it has.
        changed: the Node object is another one now.
        stamp: the annotation's new value; empty if it got none.
        untainted: the startup taint was there, and is gone.
        message: why it got none.
    """

    proved: bool
    changed: bool
    stamp: str = ""
    untainted: bool = False
    message: str = ""


def put_outcome(
    cluster: Cluster,
    name: str,
    proof: Proof,
    facts: Mapping[str, Any],
    check: bool,
    conditions: bool = False,
) -> Stamped:
    """Stamp a node that is proved; take an older stamp off one that is not.

    Args:
        cluster: the API.
        name: of the Node.
        proof: from judge().
        facts: that the stamp is for.
        check: have the API server try the change out only.
        conditions: whether the Node says it in a condition, too.

    Raises:
        ToolError: the cluster does not take the change.
    """
    if proof.problem is None:
        time_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        text, untainted, now = _put(cluster, name, facts, time_text, check)
        _say(cluster, now, proof.problem, conditions, check)
        return Stamped(True, True, text, untainted)
    message = f"Node '{name}' is not validated: {proof.problem.cause.rstrip('.')}. {proof.problem.next_step}".strip()
    node = cluster.get(node_path(name))
    old = read_stamp(node) if node is not None else None
    if proof.busy and old is not None and old.get("digest") == facts.get("digest"):
        # Nothing speaks against the stamp that is there, and nothing new was proved.
        return Stamped(True, _say(cluster, node, None, conditions, check), message=message)
    if old is not None:
        cluster.patch(node_path(name), unstamp_patch(), STAMP_MANAGER, dry_run=check)
    said = _say(cluster, node, proof.problem, conditions, check)
    return Stamped(False, old is not None or said, message=message)


def _say(cluster: Cluster, node: Node | None, problem: Problem | None, wanted: bool, check: bool) -> bool:
    """Its condition, where one is wanted; none where none is. Whether that was a change."""
    if node is None:
        return False
    if not wanted:
        return condition.remove(cluster, node, check)
    return condition.put(cluster, node, problem, check)


def _put(
    cluster: Cluster, name: str, facts: Mapping[str, Any], time_text: str, dry_run: bool
) -> tuple[str, bool, Node]:
    """Stamp and untaint; the stamp, whether the taint was there, and the Node as it is then."""
    text, tainted = "", False
    node: Node | None = None
    for left in reversed(range(TRIES)):
        node = cluster.get(node_path(name))
        if node is None:
            raise GpusmithError(
                f"The cluster has no node '{name}' any more.", "Look who deleted it, then run site.yml."
            )
        tainted, text = tainted or has_taint(node), make_stamp(facts, time_text, node)
        try:
            node = cluster.patch(node_path(name), stamp_patch(node, text), STAMP_MANAGER, dry_run=dry_run)
            break
        except ApiRefused as error:
            # Somebody changed the node between the two calls, or the answer of our own change got lost; look again.
            if error.status != CONFLICT or not left:
                raise
    return text, tainted, node or {}
