"""A node that builds or takes kernel modules, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.looking import LookingAction

from gpusmith.built.cache import Entry
from gpusmith.built.once import BuildFailed, NotBuilt

NAME = "gpusmith-modules.tar.gz"
Ask = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class BuiltNode:
    """What `gpusmith.built.once` wants of a node.

    Attributes:
        host: its name.
        version: of the driver, without the packager's part.
        ask: runs module built_modules there.
        place: a path there that is gone afterwards, which whoever is connected, and root, can read and write.
        fetch: copies a file from there to here.
        send: copies a file from here to there.
    """

    host: str
    version: str
    ask: Ask
    place: Callable[[], contextlib.AbstractContextManager[str]]
    fetch: Callable[[str, str], object]
    send: Callable[[str, str], object]

    def build(self, kernel: str, target: Path) -> tuple[Mapping[str, Any], bool]:
        """Build, and fetch what was built."""
        with self.place() as there:
            answer = self._must({"state": "built", "kernel": kernel, "archive": there})
            target.touch(mode=0o600)
            self.fetch(there, str(target))
        return answer["manifest"], bool(answer["compiled"])

    def take(self, entry: Entry) -> None:
        """Send what was built, and install it."""
        with self.place() as there:
            self.send(str(entry.archive), there)
            asked = {"archive": there, "manifest": dict(entry.manifest), "builder": entry.builder}
            self._must({"state": "taken", **asked})

    def keep_from_building(self, withheld: bool) -> bool:
        """Keep DKMS from building, or let it build again; whether that is new."""
        return bool(self._must({"state": "withheld" if withheld else "allowed"})["changed"])

    def _must(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self.ask({**asked, "version": self.version})
        if not answer.get("failed") and not answer.get("unreachable"):
            return answer
        kind = BuildFailed if answer.get("outcome") == "build" else NotBuilt
        raise kind(f"Node '{self.host}': {answer.get('msg')}")


class BuildingAction(LookingAction):
    """Has a node build modules, or take them."""

    TRANSFERS_FILES = True

    def building(self, host: str, version: str, task_vars: dict[str, Any] | None) -> BuiltNode:
        """The node of this task."""

        def ask(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = self.run_bundled(
                "gpusmith.gpu.built_modules", dict(arguments), task_vars
            )
            return answer

        connection = self._connection
        return BuiltNode(host, version, ask, self._place, connection.fetch_file, connection.put_file)

    @contextlib.contextmanager
    def _place(self) -> Iterator[str]:
        folder = self._make_tmp_path()
        try:
            yield f"{folder.rstrip('/')}/{NAME}"
        finally:
            self._remove_tmp_path(folder)
