"""A healthy node, and hosts as an inventory describes them."""

from tests.unit.suite.conftest import facts, host, record

__all__ = ["facts", "host", "record"]
