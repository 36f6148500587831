"""What only reads lists of the cluster needs: the client has it, and so have the lists of a run that is judged again."""

from __future__ import annotations

from typing import Protocol

from gpusmith.cluster.api import Cut, Object


class Lists(Protocol):
    """A cluster whose lists can be read."""

    def items(self, path: str, cut: Cut | None = None, /, **query: str) -> list[Object]:
        """All objects of a list, cut."""

    def serves(self, version: str) -> bool:
        """Whether the API has a version of a group, by its path."""
