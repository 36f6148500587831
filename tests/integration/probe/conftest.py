"""Fixtures that tests/unit has as well."""

from __future__ import annotations

from tests.unit.probe.conftest import boot_file as boot_file
