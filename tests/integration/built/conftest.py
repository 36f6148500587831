"""Fixtures that tests/unit has as well."""

from __future__ import annotations

from tests.unit.built.conftest import cache as cache
from tests.unit.built.conftest import log as log
from tests.unit.built.conftest import pair as pair
