"""A node that builds or takes kernel modules, from the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import leader
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.looking import LookingAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.patience import Patience

from gpusmith.built import key
from gpusmith.built.cache import KEEP_DAYS, Cache, Entry
from gpusmith.built.once import BuildFailed, Came, NotBuilt, Once
from gpusmith.built.signing import Signer
from gpusmith.errors import ToolError
from gpusmith.expect.versions import upstream
from gpusmith.probe.record import Record

NAME = "gpusmith-modules.tar.gz"
INSTEAD = (
    "Set 'nvidia_driver_module_flavour' to the other kind of module where the GPUs allow it, or 'nvidia_driver_version' to one that"
    " compiles for this kernel, or give the node another kernel."
)
INSTEAD_OF_DEPENDENT = "Install a release of it that compiles with this driver and kernel, or take it out of 'nvidia_driver_extra_modules'."
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

    def compile(self, kernel: str) -> bool:
        """Have DKMS build and install the modules for a kernel, on this node for itself; whether it compiled."""
        return bool(self._must({"state": "compiled", "kernel": kernel})["compiled"])

    def restore(self, kernel: str) -> None:
        """Have DKMS install once more what it keeps for a kernel."""
        self._must({"state": "restored", "kernel": kernel})

    def rebuild(self, kernel: str, modules: Sequence[str]) -> None:
        """Have DKMS build modules of others anew for a kernel and this driver."""
        self._must({"state": "rebuilt", "kernel": kernel, "modules": list(modules)})

    def mend(self) -> bool:
        """Finish packages whose module did not compile, and fail with what the compiler said; whether there was anything."""
        return bool(self._must({"state": "mended"})["changed"])

    def _must(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self.ask({**asked, "version": self.version})
        if answer.get("unreachable"):
            raise ToolError(f"Node '{self.host}' does not answer: {answer.get('msg')}")
        if not answer.get("failed"):
            return answer
        said = f"Node '{self.host}': {answer.get('msg')}"
        if answer.get("outcome") == "dependent":
            raise NotBuilt(said, INSTEAD_OF_DEPENDENT)
        raise BuildFailed(said, INSTEAD) if answer.get("outcome") == "build" else NotBuilt(said)


@dataclass(frozen=True)
class Provider:
    """Gives one node modules, as its settings say.

    Attributes:
        once: whose turn it is to build.
        layout: whose packages they are.
        node: by the driver's version, without the packager's part.
    """

    once: Once
    layout: str
    node: Callable[[str], BuiltNode]

    @contextlib.contextmanager
    def withheld(self, version: str) -> Iterator[None]:
        """Inside of it, packages build nothing."""
        node = self.node(upstream(version))
        try:
            node.keep_from_building(withheld=True)
        except NotBuilt as error:
            raise ToolError(error.message) from error
        try:
            yield
        finally:
            node.keep_from_building(withheld=False)

    def provide(
        self,
        record: Record,
        version: str,
        flavour: str,
        releases: Sequence[str],
    ) -> list[Came]:
        """Build modules for kernels, or take what another node has built."""
        certificate = self.once.signer.fingerprint if self.once.signer else ""
        node = self.node(upstream(version))
        keys = [
            key.of(record, release, upstream(version), flavour, self.layout, certificate)
            for release in releases
        ]
        return [self.once.provide(each, node) for each in keys]


def refuse_unsigned(host: str, record: Record, signer: Signer | None) -> None:
    """Refuse modules that the node's firmware would not let be loaded.

    Raises:
        NotBuilt: it boots with Secure Boot, and nobody signs.
    """
    if record.system.secure_boot and signer is None:
        raise NotBuilt(
            f"Node '{host}' boots with Secure Boot, and modules that another node has built are signed with a key that only that"
            " node knows.",
            "Name a key and an enrolled certificate ('nvidia_driver_build_signing'), or set 'nvidia_driver_build: every_node'.",
        )


class BuildingAction(LookingAction):
    """Has a node build modules, or take them."""

    TRANSFERS_FILES = True

    def provider(
        self,
        asked: Mapping[str, Any],
        signer: Signer | None,
        task_vars: dict[str, Any],
        sleep: Callable[[float], None] = time.sleep,
        patience: Patience | None = None,
    ) -> Provider:
        """For the node of this task.

        Args:
            asked: keys cache, cache_days, layout and timeout.
            signer: who signs; None if nobody does.
            task_vars: of the task.
            sleep: while another node builds.
            patience: with a node that does not answer for a while; None leaves that to Ansible.
        """
        host = str(task_vars["inventory_hostname"])
        cache = Cache(asked["cache"], int(asked.get("cache_days", KEEP_DAYS)))
        once = Once(cache, host, str(leader()), signer, float(asked["timeout"]), sleep=sleep)
        return Provider(once, asked["layout"], lambda version: self.node(host, version, task_vars, patience))

    def node(
        self, host: str, version: str, task_vars: dict[str, Any], patience: Patience | None = None
    ) -> BuiltNode:
        """The node of this task."""

        def ask(arguments: Mapping[str, Any]) -> Mapping[str, Any]:
            answer: Mapping[str, Any] = self.run_bundled(
                "gpusmith.gpu.built_modules", dict(arguments), task_vars
            )
            return answer

        fetch, send, make = self._connection.fetch_file, self._connection.put_file, self._make_tmp_path
        if patience:
            ask, make = patience.with_call(ask), patience.with_call(make)
            fetch, send = patience.with_call(fetch), patience.with_call(send)
        return BuiltNode(host, version, ask, lambda: self._place(make), fetch, send)

    @contextlib.contextmanager
    def _place(self, make: Callable[[], str]) -> Iterator[str]:
        folder = make()
        try:
            yield f"{folder.rstrip('/')}/{NAME}"
        finally:
            # It is in a folder for temporary files: nothing is undone because it stays.
            with contextlib.suppress(AnsibleConnectionFailure):
                self._remove_tmp_path(folder)
