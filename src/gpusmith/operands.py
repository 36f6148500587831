"""What a pod of an operand says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Pod = Mapping[str, Any]

NFD_MASTER = "nfd-master"
COMES_UP = frozenset({"", "ContainerCreating", "PodInitializing"})
"""Reasons of a waiting container that need no help; every other one names a trouble."""


def name(pod: Pod) -> str:
    """Which operand a pod is of; empty if it does not say."""
    return str((pod["metadata"].get("labels") or {}).get("app.kubernetes.io/name") or "")


def problem(pod: Pod) -> str:
    """Why a pod does not serve; empty if it does."""
    status = pod.get("status") or {}
    for row in status.get("containerStatuses") or []:
        if not row.get("ready"):
            return f"container '{row.get('name')}' is not ready ({_why(row)})"
    if not _is_ready(pod):
        return f"it is {status.get('phase')}"
    return ""


def starting(pods: Iterable[Pod]) -> list[str]:
    """Names of pods that are on a node and not ready, of which nothing says that they will not be.

    A readiness probe answers seconds after its container runs, and may miss once on a busy node.
    """
    return [str(pod["metadata"]["name"]) for pod in pods if _comes_up(pod)]


def _comes_up(pod: Pod) -> bool:
    if _is_ready(pod) or not (pod.get("spec") or {}).get("nodeName"):
        return False
    states = [row.get("state") or {} for row in (pod.get("status") or {}).get("containerStatuses") or []]
    return all(
        not state.get("terminated") and str((state.get("waiting") or {}).get("reason") or "") in COMES_UP
        for state in states
    )


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(row.get("type") == "Ready" and row.get("status") == "True" for row in conditions)


def _why(container: Mapping[str, Any]) -> str:
    state = container.get("state") or {}
    if running := state.get("running"):
        return f"runs since {running.get('startedAt')}, its readiness probe does not pass"
    stopped = state.get("waiting") or state.get("terminated") or {}
    message = " ".join(str(stopped.get("message") or "").split())
    return f"{stopped.get('reason') or 'no reason given'}{': ' + message[-300:] if message else ''}"
