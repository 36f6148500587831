"""What happened to one node in one run: a line for programs and a line for people, at once, and kept when the run is killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpusmith.change import ledger as ledgers


@dataclass(frozen=True)
class Journal:
    """Two files of one node in the folder of the run.

    Attributes:
        folder: of the run; it is made.
        node: name of the Node.
        show: prints a line for the person who watches.
    """

    folder: Path
    node: str
    show: Callable[[str], None]

    def say(self, state: str, words: str) -> None:
        """Add one entry.

        Args:
            state: of the ledger, or what comes before it.
            words: what happens; may be empty.
        """
        time = ledgers.now()
        entry = {"time": time, "node": self.node, "state": str(state), "text": words}
        self.folder.mkdir(parents=True, exist_ok=True)
        self._add(".jsonl", json.dumps(entry, sort_keys=True))
        line = f"{self.node}: {state}{f': {words}' if words else ''}"
        self._add(".log", f"{time} {line}")
        self.show(f"{time[11:19]} {line}")

    def _add(self, suffix: str, line: str) -> None:
        with (self.folder / f"{self.node}{suffix}").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")
