"""Renews an annotation of the run's home, so that a run on another machine does not remove it as a leftover."""

from __future__ import annotations

import datetime as dt
import threading
from contextlib import suppress

from gpusmith.cluster import leftovers
from gpusmith.cluster.api import Cluster
from gpusmith.errors import GpusmithError
from gpusmith.names import ALIVE_ANNOTATION, MANAGER
from gpusmith.workloads.jobs import Run

JOIN_S = 1.0


class KeepAlive:
    """Renews it while the block runs.

    Args:
        cluster: the API.
        run: whose home is there.
    """

    def __init__(self, cluster: Cluster, run: Run) -> None:
        self._cluster = cluster
        self._path = run.home
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="gpusmith-keepalive", daemon=True)

    def __enter__(self) -> KeepAlive:
        # The first one here: a run that may not say that it lives must end before others remove what it made.
        self._beat()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(timeout=JOIN_S)

    def _keep(self) -> None:
        while not self._stop.wait(leftovers.BEAT_S):
            # The API server may be away for a while; who watches this run cannot look then, either.
            with suppress(GpusmithError):
                self._beat()

    def _beat(self) -> None:
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        self._cluster.patch(self._path, {"metadata": {"annotations": {ALIVE_ANNOTATION: now}}}, MANAGER)
