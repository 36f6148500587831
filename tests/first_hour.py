"""docs/first_hour.md as data: the files that a reader writes, and the commands with what the page says they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpusmith.paths import repo_root

PAGE = repo_root() / "docs" / "first_hour.md"
BLOCK = re.compile(r"^```(\w+) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
LEFT_OUT = "..."


@dataclass(frozen=True)
class Command:
    """A command of the page.

    Attributes:
        words: as a shell reads them.
        printed: lines of its output, in their order; what stands between them is left out.
    """

    words: str
    printed: tuple[str, ...]


def files() -> dict[str, str]:
    """Content by name, relative to the reader's folder."""
    return {name: text for _kind, name, text in BLOCK.findall(PAGE.read_text()) if name}


def commands() -> Iterator[Command]:
    """In their order."""
    for kind, _name, text in BLOCK.findall(PAGE.read_text()):
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                words, *printed = part.splitlines()
                yield Command(words, tuple(line for line in printed if line != LEFT_OUT))


def missing(command: Command, output: str) -> list[str]:
    """Lines that the page has and the output has not, in that order; times differ, and so do widths of tables."""
    rest = iter([_plain(line) for line in output.splitlines()])
    return [line for line in command.printed if _plain(line) not in rest]


def _plain(line: str) -> str:
    return re.sub(r"\(\d+ s\)", "(N s)", " ".join(line.split()))
