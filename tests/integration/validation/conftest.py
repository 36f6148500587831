"""The API server on the loopback, which also the suite's command asks."""

from __future__ import annotations

from tests.unit.cluster.conftest import server as server
