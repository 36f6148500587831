"""Fixtures that tests/unit has as well."""

from __future__ import annotations

from tests.unit.cluster.conftest import server as server
