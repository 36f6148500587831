"""A healthy node for the checks, and hosts as an inventory describes them."""

from tests.unit.suite.conftest import facts, record

__all__ = ["facts", "record"]
