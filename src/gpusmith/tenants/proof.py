"""That quotas are kept: the API server is asked for a GPU more than each team has left, by dry run, and must refuse it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from kubernetes.utils.quantity import parse_quantity

from gpusmith.cluster.api import Cluster, Object
from gpusmith.errors import ToolError
from gpusmith.names import GPU_RESOURCE, POLICY
from gpusmith.tenants.objects import QUOTA, REQUESTS, Tenants
from gpusmith.tenants.trial import ask
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

COUNTED_S = 30.0
"""Until the quota controller has counted, and the API server keeps a quota that it has taken; it takes a second or two."""
TICK_S = 0.5
KEY = REQUESTS + GPU_RESOURCE
REFUSES = re.compile(
    rf"exceeded quota: {QUOTA}.*?, requested: [^ ]*{re.escape(KEY)}|'{POLICY}' denied request"
)
"""Words of the API server: of a quota of ours, of all or of a class, that has no GPU left, and of the policy, which is first."""


def prove(cluster: Cluster, wanted: Tenants, sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Teams of which it could not be found out, in words.

    Raises:
        ToolError: a team would get more GPUs than it has, or the cluster does not answer.
    """
    left, notes = list(wanted.teams), list[str]()

    def look() -> Done[None] | NotYet:
        while left:
            name = left[0]
            path = f"/api/v1/namespaces/{name}/resourcequotas/{QUOTA}"
            status = (cluster.get(path) or {}).get("status") or {}
            hard, used = (_count(status.get(part)) for part in ("hard", "used"))
            if hard != int(wanted.hard(name)[KEY]) or used is None:
                return NotYet(f"quota '{name}/{QUOTA}' is not counted")
            more = max(0, hard - used) + 1
            said = ask(cluster, _pod(name, more)).words
            if not said:
                return NotYet(f"a pod of team '{name}' gets {more} GPUs, with {used} of {hard} in use")
            if not REFUSES.search(said):
                notes.append(f"Whether the quota of team '{name}' is kept, nobody could say: {said}")
            left.pop(0)
        return Done(None)

    try:
        wait_until("the API server to keep the quotas of all teams", look, Deadline(COUNTED_S), TICK_S, sleep)
    except WaitTimeout as error:
        hint = "Is the controller manager running, and the API server's admission plugin ResourceQuota on?"
        raise ToolError(error.message, hint) from error
    return notes


def _count(numbers: Mapping[str, str] | None) -> int | None:
    """GPUs by a part of a quota, which the API server may write as '1k'."""
    return int(parse_quantity(numbers[KEY])) if numbers and KEY in numbers else None


def _pod(space: str, gpus: int) -> Object:
    """One that each Pod Security Standard admits."""
    return {
        "metadata": {"namespace": space},
        "spec": {
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": {GPU_RESOURCE: str(gpus)}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }
            ],
        },
    }
