"""What the kernel module's Xid codes mean: the table data/xid.yml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gpusmith.data import table

SCHEMA = "gpusmith.xid/1"
UNKNOWN = "unknown"


@dataclass(frozen=True)
class XidClass:
    """What codes of one kind have in common.

    Attributes:
        name: of the class.
        what: in words.
        next_step: with '{node}' and '{code}' to be put in.
    """

    name: str
    what: str
    next_step: str


@dataclass(frozen=True)
class XidMeaning:
    """One code.

    Attributes:
        code: its number.
        meaning: in words; empty if the table does not have it.
        kind: its class.
        action: what NVIDIA's catalog says to do at once, in its own word; empty if nothing.
    """

    code: int
    meaning: str
    kind: XidClass
    action: str

    @property
    def words(self) -> str:
        """Meaning and class."""
        return f"{self.meaning} ({self.kind.what})" if self.meaning else self.kind.what

    def next_step(self, node: str) -> str:
        """What a person does."""
        return self.kind.next_step.format(node=node, code=self.code)


@dataclass(frozen=True)
class XidTable:
    """All codes; those that it does not have are of class 'unknown'."""

    codes: Mapping[int, XidMeaning]
    unknown: XidClass

    def of(self, code: int) -> XidMeaning:
        """What a code means."""
        return self.codes.get(code) or XidMeaning(code, "", self.unknown, "")


def _parse(content: dict[str, Any]) -> XidTable:
    classes = {
        name: XidClass(name, str(row["is"]), str(row["next_step"]).strip())
        for name, row in content["classes"].items()
    }
    codes = {
        int(code): XidMeaning(int(code), str(row["meaning"]), classes[row["class"]], str(row["action"]))
        for code, row in content["codes"].items()
    }
    return XidTable(codes, classes[UNKNOWN])


@cache
def load(path: Path | None = None) -> XidTable:
    """The table.

    Raises:
        ToolError: the file is missing or has another shape.
    """
    return table.read(path, "xid.yml", SCHEMA, "Xid codes", _parse)
