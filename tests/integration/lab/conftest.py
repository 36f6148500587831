"""Fixtures that tests/unit has as well."""

from __future__ import annotations

from tests.unit.lab.conftest import machinery as machinery
from tests.unit.lab.conftest import places as places
from tests.unit.lab.conftest import podman as podman
