"""The fixtures of tests/unit; these tests may start programs."""

from __future__ import annotations

from tests.unit.conftest import facts as facts
from tests.unit.conftest import fake_cluster as fake_cluster
from tests.unit.conftest import host as host
from tests.unit.conftest import programs as programs
from tests.unit.conftest import record as record
from tests.unit.conftest import variables as variables
