"""Which requests are retried, and for how long."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

GONE = 410
"""A list's continue token has expired."""
TOO_MANY = 429
PASSING = frozenset({TOO_MANY, 500, 502, 503, 504})
REPEATABLE = frozenset({"GET", "PUT", "PATCH", "DELETE"})
"""Methods of which a second request does no more than the first."""
FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 4.0


@dataclass(frozen=True)
class Patience:
    """How long one call goes on trying.

    Attributes:
        total_s: seconds, with an API server that has answered before, as one that is restarted.
        contact_s: seconds until it must have answered at all: a dead one must be named soon.
    """

    total_s: float = 30.0
    contact_s: float = 10.0


PATIENT = Patience()
"""Of who does not ask for another one."""
ONE_TRY = Patience(0.0, 0.0)
AWAY = Patience(total_s=300.0, contact_s=60.0)
"""Of a change, as while the API server is upgraded: a node in the middle of it waits for it."""


def may_pass(method: str, status: int) -> bool:
    """Whether a refusal may be gone at the next try, which does no harm.

    Of a 429 nothing was done, whatever the method.
    """
    return status == TOO_MANY or (status in PASSING and method in REPEATABLE)


def asked_pause(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait for; None if it does not say, or in a form that it does not use."""
    try:
        return max(0.0, float(headers.get("Retry-After") or ""))
    except ValueError:
        return None


def next_pause(pause: float) -> float:
    """The pause after this one."""
    return min(pause * 2, LONGEST_PAUSE_S)
