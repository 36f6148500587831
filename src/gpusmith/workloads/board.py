"""Pods of a run that somebody waits for, watched by one repeated list for all nodes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gpusmith.cluster.api import Cluster, Object
from gpusmith.errors import ToolError
from gpusmith.names import RUN_LABEL, WORKLOAD_LABEL
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout
from gpusmith.workloads.states import Warned, is_starting, latest_warnings, state_of

T = TypeVar("T")

TICK_S = 0.5
TROUBLE_S = 30.0
"""How long lists may fail before waiting for pods is given up."""
SLOW_START_S = 15.0
"""From when on the events of placed pods that do not start are read; a status does not carry what a kubelet fails at."""
EVENTS_EVERY_S = 5.0
NAMES_AT_ONCE = 100
"""Names that one list asks for: proxies take addresses of a few thousand characters."""


class Board:
    """A namespace's pods as they were seen last, kept by one thread, read by many.

    Pods that have ended stay in the namespace, thousands of them with many nodes: they are not listed again.

    Args:
        cluster: the API.
        namespace: of the run.
        run: whose pods are watched, where others have theirs in the namespace; empty for all.
    """

    def __init__(self, cluster: Cluster, namespace: str, run: str = "") -> None:
        self._cluster = cluster
        self._of_run = f",{RUN_LABEL}={run}" if run else ""
        self._folder = f"/api/v1/namespaces/{namespace}"
        self._news = threading.Condition()
        self._pods: dict[str, Object] = {}
        self._warnings: dict[str, Warned] = {}
        self._asked_events = 0.0
        self._followed: set[str] = set()
        self._expected: dict[str, float] = {}
        self._placed: dict[str, float] = {}
        self._trouble: ToolError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="gpusmith-pods", daemon=True)

    def __enter__(self) -> Board:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join(timeout=60)

    @property
    def stopped(self) -> bool:
        """Whether the run ends now."""
        return self._stop.is_set()

    def stop(self) -> None:
        """Stop the thread, and end all waits."""
        self._stop.set()
        with self._news:
            self._news.notify_all()

    def _keep(self) -> None:
        failing_since: float | None = None
        while not self._stop.is_set():
            try:
                self._look()
                self._read_events(self._pods)
                trouble, failing_since = None, None
            except ToolError as error:
                failing_since = failing_since or time.monotonic()
                trouble = error if time.monotonic() - failing_since > TROUBLE_S else None
            with self._news:
                self._trouble = trouble
                self._news.notify_all()
            self._stop.wait(TICK_S)

    def _look(self) -> None:
        """List the pods that are followed, and follow those no longer that have ended."""
        with self._news:
            names = sorted(self._followed)
        found: dict[str, Object] = {}
        for first in range(0, len(names), NAMES_AT_ONCE):
            chosen = f"{WORKLOAD_LABEL} in ({','.join(names[first : first + NAMES_AT_ONCE])}){self._of_run}"
            rows = self._cluster.items(f"{self._folder}/pods", labelSelector=chosen)
            found |= {self._key(pod): pod for pod in rows}
        with self._news:
            seen = {name: pod for name, pod in found.items() if name in self._followed}
            self._pods = {**{name: pod for name, pod in self._pods.items() if name not in names}, **seen}
            self._followed -= {name for name, pod in seen.items() if state_of(pod).over}

    def _read_events(self, pods: Mapping[str, Object]) -> None:
        """One list for all pods, and only while one of them is slow to start, or not there."""
        now = time.monotonic()
        for name in set(self._expected) & set(pods):
            self._expected.pop(name, None)
        starting = {key for key, pod in pods.items() if is_starting(pod)}
        self._placed = {key: self._placed.get(key, now) for key in starting}
        waiting = [*self._placed.values(), *list(self._expected.values())]
        slow = any(now - since > SLOW_START_S for since in waiting)
        if slow and now - self._asked_events > EVENTS_EVERY_S:
            self._asked_events = now
            events = self._cluster.items(f"{self._folder}/events", fieldSelector="type=Warning")
            self._warnings = latest_warnings(events)

    def expect(self, workload: str) -> None:
        """Follow a workload that is created, and read events if its pod does not appear."""
        with self._news:
            self._followed.add(workload)
            self._expected[workload] = time.monotonic()

    def forget(self, workload: str) -> None:
        """Nobody asks for its pod any more."""
        with self._news:
            self._followed.discard(workload)
            self._expected.pop(workload, None)
            # A new one: the thread may be going through the other.
            self._pods = {name: pod for name, pod in self._pods.items() if name != workload}

    def job_warning(self, workload: str) -> Warned | None:
        """What was last warned of a Job whose pod does not come."""
        return self._warnings.get(workload)

    def pod(self, workload: str) -> Object | None:
        """One workload's pod as it was last seen."""
        return self._pods.get(workload)

    def warning(self, pod: Mapping[str, Any]) -> Warned | None:
        """What was last warned of a pod that is slow to start."""
        return self._warnings.get(str(pod["metadata"]["name"]))

    @staticmethod
    def _key(pod: Object) -> str:
        return str((pod["metadata"].get("labels") or {}).get(WORKLOAD_LABEL) or pod["metadata"]["name"])

    def wait(
        self, what: str, workload: str, check: Callable[[Object | None], Done[T] | NotYet], deadline: Deadline
    ) -> T:
        """Look at one workload's pod whenever there is a new list.

        Args:
            what: the condition in words.
            workload: its name.
            check: gets the pod, None while there is none; raises what makes waiting pointless.
            deadline: when to stop.

        Raises:
            WaitTimeout: with what was seen last.
            ToolError: the API server no longer answers.
        """
        with self._news:
            self._followed.add(workload)
            while True:
                if self._trouble is not None:
                    raise self._trouble
                outcome = check(self._pods.get(workload))
                if isinstance(outcome, Done):
                    return outcome.value
                if deadline.passed() or self._stop.is_set():
                    raise WaitTimeout(
                        f"Waited {deadline.seconds:.0f} s for {what}; last seen: {outcome.seen}."
                    )
                self._news.wait(timeout=min(2.0, deadline.remaining() + 0.01))
