"""One node of a key builds, the others take: what becomes of one node."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gpusmith.built.cache import Cache, Entry
from gpusmith.built.key import Key
from gpusmith.built.signing import Signer
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.wait import Deadline

ATTEMPTS = 2
"""Nodes on which one run tries to build for a key: a second one, since the first may have been ill."""


class NotBuilt(GpusmithError):  # noqa: N818
    """There are no modules for this node."""


class BuildFailed(NotBuilt):
    """They do not compile on this node."""


class Node(Protocol):
    """What is done on a node, each step in one call."""

    def build(self, kernel: str, target: Path) -> tuple[Mapping[str, Any], bool]:
        """Build, and bring the archive to `target`; what is in it, and whether anything was compiled.

        Raises:
            BuildFailed: the modules do not compile.
        """

    def take(self, entry: Entry) -> None:
        """Install what another node has built.

        Raises:
            NotBuilt: it does not fit, or cannot be installed.
        """


@dataclass(frozen=True)
class Came:
    """How a node came to its modules for a kernel.

    Attributes:
        kernel: release.
        builder: who has compiled them.
        seconds: how long that took; 0 if they were there already.
        compiled: whether this node compiled, in this call.
        after: nodes on which the build had failed before.
    """

    kernel: str
    builder: str
    seconds: float
    compiled: bool
    after: tuple[str, ...] = ()

    def words(self, host: str) -> str:
        """For people."""
        if self.compiled:
            failed = f", after it failed on {_names(self.after)}" if self.after else ""
            return f"compiled the driver's modules for kernel {self.kernel} in {self.seconds:.0f} s{failed}"
        if self.builder == host:
            return f"had the driver's modules for kernel {self.kernel}, which other nodes can take now"
        return f"took the driver's modules for kernel {self.kernel}, which '{self.builder}' has compiled"


@dataclass(frozen=True)
class Once:
    """Builds by turns.

    Attributes:
        cache: where what was built is kept.
        host: the node's name in the inventory.
        run: which run of Ansible it is, so that its failures are told from those of others.
        signer: who signs; None leaves modules as the builder's DKMS leaves them.
        timeout_s: how long others are waited for.
        clock: replaced in tests.
    """

    cache: Cache
    host: str
    run: str
    signer: Signer | None = None
    timeout_s: float = 1800.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def provide(self, key: Key, node: Node) -> Came:
        """Give a node the modules of a key.

        Args:
            key: what they are for.
            node: that gets them.

        Raises:
            NotBuilt: nobody has built them, or this node cannot take them.
            WaitTimeout: who builds did not come to an end.
            ToolError: the controller cannot keep what is built.
        """
        try:
            return self._provide(key, node)
        except OSError as error:
            raise ToolError(
                f"The modules of {key} cannot be kept in '{self.cache.folder}': {error}.",
                "Look at that folder, and at the room that is left there.",
            ) from error

    def _provide(self, key: Key, node: Node) -> Came:
        # Before it is looked for, so that no other host of the run forgets it meanwhile.
        self.cache.used(key)
        entry = self.cache.find(key)
        if entry is None:
            with self.cache.turn(key, self.host, Deadline(self.timeout_s), self.sleep):
                entry = self.cache.find(key)
                if entry is None:
                    return self._build(key, node)
        node.take(entry)
        return Came(key.kernel, entry.builder, entry.seconds, compiled=False)

    def _build(self, key: Key, node: Node) -> Came:
        before = self.cache.failures(key, self.run)
        if self.host in before or len(before) >= ATTEMPTS:
            raise NotBuilt(
                f"Nobody has built the modules of {key}: it failed on {_names(before)}, where this run says why."
                f" Nothing was compiled on '{self.host}'.",
                "Cure that, or set 'nvidia_driver_build: every_node', then run this again.",
            )
        begun = self.clock()
        target = self.cache.folder / f".{key.name}.{os.getpid()}"
        try:
            manifest, compiled = node.build(key.kernel, target)
            seconds = self.clock() - begun if compiled else 0.0
            if self.signer:
                manifest = self.signer.sign(target, manifest)
            entry = self.cache.put(key, target, manifest, self.host, seconds)
        except BuildFailed:
            self.cache.failed(key, self.run, self.host)
            raise
        finally:
            target.unlink(missing_ok=True)
        if self.signer:
            # Its own DKMS has signed them with a key that only this node has, or not at all.
            node.take(entry)
        return Came(key.kernel, self.host, seconds, compiled, tuple(before))


def forecast(key: Key, cache: Cache, there: bool = False) -> str:
    """What a run would do on a host, in words.

    Args:
        key: of its modules.
        cache: as in the run.
        there: whether the host has them, and somebody else has signed them.
    """
    what, entry = f"the driver's modules for kernel {key.kernel}", cache.find(key)
    if entry:
        return f"would take {what}, which '{entry.builder}' has compiled"
    done = f"would have {what} signed" if there else f"would compile {what}"
    return f"{done}, or take them from a node of the same kind that comes first"


def _names(hosts: Sequence[str]) -> str:
    shown = [f"'{host}'" for host in hosts[:4]]
    if len(hosts) > len(shown):
        shown.append(f"{len(hosts) - len(shown)} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)
