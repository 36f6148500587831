"""Which nodes must be validated, whether a suite's results prove a node, and what its Node object then carries."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional

ANNOTATION = "gpusmith.io/validated"
TAINT = "gpusmith.io/unvalidated"
RESULTS_SCHEMA = "gpusmith.results/1"
POLICIES = ("if_needed", "always", "never")

Node = Mapping[str, Any]


# --- which nodes ---------------------------------------------------------------------------------------------------


def read_stamp(node: Node) -> Optional[Dict[str, Any]]:
    """The stamp of a Node object; None if it has none that can be read."""
    annotations = (node.get("metadata") or {}).get("annotations") or {}
    try:
        stamp = json.loads(annotations.get(ANNOTATION, ""))
    except ValueError:
        return None
    return stamp if isinstance(stamp, dict) else None


def has_taint(node: Node) -> bool:
    """Whether the startup taint is there."""
    taints = (node.get("spec") or {}).get("taints") or []
    return any(taint.get("key") == TAINT for taint in taints)


def differing(stamp: Mapping[str, Any], facts: Mapping[str, Any]) -> List[str]:
    """Names of the facts that changed since the stamp."""
    return [
        name for name in ("driver", "kernel", "runtime", "simulated") if stamp.get(name) != facts.get(name)
    ]


def reason(node: Optional[Node], facts: Mapping[str, Any], policy: str) -> str:
    """Why a node must be validated now; empty if it need not.

    Args:
        node: its Node object, None if the cluster has none.
        facts: from stamp_facts().
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
    if changed or stamp.get("digest") != facts.get("digest"):
        return f"since it was validated, its {' and '.join(changed) or 'stamp'} changed"
    if has_taint(node):
        return "it carries the startup taint"
    return ""


# --- what the suite proved -----------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """Whether results prove a node.

    Attributes:
        passed: every check of the node passed, in a complete run, on every GPU.
        busy: nothing was wrong, but jobs held GPUs, so that these could not be tested.
        cause: why not passed; one sentence or more.
        next_step: what to do; empty if nothing is known.
    """

    passed: bool
    busy: bool
    cause: str
    next_step: str


def _wrong(cause: str, next_step: str = "") -> Verdict:
    return Verdict(False, False, cause, next_step)


def _rows(results: Mapping[str, Any], kind: str, key: str, node: str) -> List[Mapping[str, Any]]:
    rows = ((results.get("coverage") or {}).get(kind) or {}).get(key) or []
    return [row for row in rows if isinstance(row, Mapping) and row.get("node") == node]


def _coverage(results: Mapping[str, Any], node: str) -> Optional[Verdict]:
    run = results.get("run") or {}
    if node not in (run.get("nodes") or []):
        return _wrong("the suite did not test the node")
    left_out = _rows(results, "nodes", "excluded", node) + _rows(results, "gpus", "excluded", node)
    if left_out:
        return _wrong("; ".join(str(row.get("reason") or "left out without a reason") for row in left_out))
    busy = _rows(results, "gpus", "busy", node)
    if busy:
        held = ", ".join(f"{row.get('gpus')} by '{row.get('holder')}'" for row in busy)
        return Verdict(
            False, True, f"GPUs were busy and could not be tested: {held}", "Run it again when they are free."
        )
    return None


def judge(results: Mapping[str, Any], node: str, all_nodes: Iterable[str]) -> Verdict:
    """Whether the results of one run of the suite prove a node.

    Args:
        results: results.json.
        node: its name.
        all_nodes: names of all nodes of the run; a check whose target is none of them, such as 'cluster', concerns every node.
    """
    if results.get("schema") != RESULTS_SCHEMA:
        return _wrong(f"the results are of schema '{results.get('schema')}', not '{RESULTS_SCHEMA}'")
    if (results.get("run") or {}).get("complete") is not True:
        return _wrong(
            "only a selection of the checks ran, which proves nothing", "Run the suite without a filter."
        )
    others = set(all_nodes) - {node}
    checks = [check for check in results.get("checks") or [] if check.get("target") not in others]
    bad = [check for check in checks if check.get("outcome") in ("failed", "error")]
    if bad:
        causes = "; ".join(f"{check.get('id')}: {check.get('cause') or 'no cause given'}" for check in bad)
        steps = list(dict.fromkeys(str(check["next_step"]) for check in bad if check.get("next_step")))
        return _wrong(causes, " ".join(steps))
    uncovered = _coverage(results, node)
    if uncovered:
        return uncovered
    # What the node has not, it need not prove. Any other skip leaves something open.
    open_ones = [
        check
        for check in checks
        if check.get("outcome") != "passed" and check.get("skip") != "not_applicable"
    ]
    if open_ones:
        causes = "; ".join(
            f"{check.get('id')}: {check.get('cause') or 'no cause given'}" for check in open_ones
        )
        return _wrong(f"not every check could be made: {causes}", "Run the suite again.")
    if not any(check.get("target") == node and check.get("outcome") == "passed" for check in checks):
        return _wrong("no check of this node passed")
    return Verdict(True, False, "", "")


# --- what the Node object gets -------------------------------------------------------------------------------------


def make_stamp(facts: Mapping[str, Any], time_text: str) -> str:
    """The annotation's value."""
    keys = ("driver", "kernel", "runtime", "digest", "simulated")
    return json.dumps({**{key: facts.get(key) for key in keys}, "time": time_text}, sort_keys=True)


def stamp_patch(node: Node, stamp: str) -> Dict[str, Any]:
    """Merge patch that stamps a node and takes the startup taint off, other taints kept.

    The resource version makes the API server refuse the patch if somebody changed the node in between: a merge patch replaces
    the whole list of taints.
    """
    patch: Dict[str, Any] = {"metadata": {"annotations": {ANNOTATION: stamp}}}
    if has_taint(node):
        taints = [taint for taint in node["spec"]["taints"] if taint.get("key") != TAINT]
        patch["spec"] = {"taints": taints or None}
        patch["metadata"]["resourceVersion"] = node["metadata"]["resourceVersion"]
    return patch


def unstamp_patch() -> Dict[str, Any]:
    """Merge patch that takes a stamp off."""
    return {"metadata": {"annotations": {ANNOTATION: None}}}
