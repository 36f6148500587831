"""The change of a machine's driver, by modules that the caller runs there."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from ansible_collections.gpusmith.gpu.plugins.module_utils.built_modules import STATUS

from gpusmith.built.once import NotBuilt
from gpusmith.change.ledger import Ledger
from gpusmith.change.protocol import ChangeFailed, InUse, Words
from gpusmith.cluster import stamps
from gpusmith.cluster.api import Cluster
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.expect import (
    driver,
    driver_needs,
    extra_modules,
    fabric,
    files,
    kernels,
    parameters,
    taken,
    versions,
)
from gpusmith.expect import packages as expected
from gpusmith.expect import wanted as wants
from gpusmith.names import DRIVER_LABEL, FIRST_CHANGE
from gpusmith.node.records import parse
from gpusmith.probe.record import Record
from gpusmith.probe.stamp import stamp_facts
from gpusmith.probe.taken import NOTES
from gpusmith.suite.maintenance import Maintenance
from gpusmith.upgrade import previous, snapshot
from gpusmith.upgrade.proof import CURED_BY_A_LOAD, NOT_OF_DRIVER, PRECHECK_TIERS, Validation, failed
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted

FOLDER = "/var/lib/gpusmith/driver"
"""Where a machine keeps the packages of its drivers, one folder for each version."""
LEFTOVERS = "nvidia-driver-leftovers"
"""What module packages calls packages that another version left: a set without files."""
HELD, STUCK = "held", "in_use"
"""Outcomes of driver_state: a process uses the driver; the kernel keeps a module that no process uses."""
TICK_S = 2.0
WORDS = Words(
    name=FIRST_CHANGE,
    subject="the driver",
    prepare="fetching the packages of",
    stop="unloading the modules",
    apply="installing",
    start="loading",
    label="the label of feature discovery for",
)

Ask = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Runs a module on the machine; ToolError if that cannot be done. A module that failed answers with `failed`."""


class Modules(Protocol):
    """How a machine comes to the driver's modules where one node of several builds them."""

    def withheld(self, version: str) -> AbstractContextManager[None]:
        """Inside of it, packages build nothing."""

    def provide(self, record: Record, version: str, flavour: str, releases: Sequence[str]) -> None:
        """Build modules for kernels, or take what another node has built.

        Raises:
            NotBuilt: there are none for this machine.
        """


@dataclass
class Machine:
    """One machine.

    Attributes:
        host: its name in the inventory.
        node: name of its Node.
        run: ID of the run.
        ask: runs modules there.
        look: its record, as plain data.
        cluster: for the stamp.
        packages: what role nvidia_driver would ask module packages for, with the target version.
        wanted: of the node.
        own: of role nvidia_driver, as its plan takes it.
        validation: how the suite is run.
        reboot: whether the machine may be rebooted where a module cannot be unloaded; None if it may not.
        ready_s: how long the driver may take to be as wanted.
        users_s: how long who uses the driver is waited for before a reboot.
        modules: where one node builds for several; None where every node builds for itself.
        words: of the change.
        sleep: replaced in tests.
    """

    host: str
    node: str
    run: str
    ask: Ask
    look: Callable[[], Mapping[str, Any]]
    cluster: Cluster
    packages: Mapping[str, Any]
    wanted: NodeWanted
    own: Mapping[str, Any]
    validation: Validation
    reboot: Callable[[], None] | None = None
    ready_s: float = 600.0
    users_s: float = 60.0
    modules: Modules | None = None
    words: Words = WORDS
    sleep: Callable[[float], None] = time.sleep

    # --- packages ------------------------------------------------------------------------------------------------

    def prepare(self, version: str) -> None:
        """Have all packages of a version in the machine's folder, with a manifest."""
        record = self._record()
        wanted = self._wanted(version, record)
        named, there = driver_needs.must_have(record, wanted), expected.of_driver(record, wanted)
        # Of the version that is there, only what is there.
        names = {name: there[name] for name in named if versions.is_version(there.get(name), version)}
        names = names or dict.fromkeys(named, version)
        asked = self._of_version(record, wanted)
        # A way back has to be there, whatever repositories have.
        if all(versions.is_older(each, version) for each in expected.installed_versions(record, wanted)):
            asked["counterparts"] = expected.counterparts(record, wanted)
        else:
            asked["companions"] = [
                *(asked.get("companions") or ()),
                *expected.of_own_versions(record, wanted),
                *(name for name in kernels.built(record) if name.endswith(f"-{record.host.kernel}")),
            ]
        self._must("packages", {**asked, "packages": names, "state": "fetched", "folder": _folder(version)})

    def apply(self, version: str) -> None:
        """Replace the packages by those of the folder, pinned and held."""
        folder = _folder(version)
        kept = self._must(
            "packages", {"name": self.packages["name"], "packages": {}, "state": "fetched", "folder": folder}
        )["saved"]
        record = self._record()
        wanted = self._wanted(version, record)
        # The names that the role asks for, so that pins and holds are what site.yml would write.
        names = {name: kept[name] for name in driver_needs.must_have(record, wanted) if name in kept}
        asked = self._of_version(record, wanted)
        # What comes is in the folder; what they stand for goes, as a pin of another branch.
        asked["counterparts"] = expected.counterparts(record, wanted)
        asked = {**asked, "repository": None, "packages": names, "folder": folder}
        with self.modules.withheld(version) if self.modules else nullcontext():
            answer = self.ask("gpusmith.gpu.packages", asked)
        if not answer.get("failed"):
            self._clear(version)
            self._build(version)
            self._rebuild(version)
            return
        if answer.get("busy"):
            raise ToolError(str(answer.get("msg")))
        raise ChangeFailed(
            f"The packages of {version} cannot be installed on '{self.node}': {answer.get('msg')}"
        )

    def _of_version(self, record: Record, wanted: wants.Driver) -> dict[str, Any]:
        """What the role asks for beside the set; names differ between branches."""
        return {
            **self.packages,
            "unversioned": driver_needs.unversioned(record, wanted),
            "patterns": list(wanted.layout.patterns),
            "release": driver_needs.to_release(record, wanted),
            "replaced": driver_needs.to_remove(record, wanted),
            "displaced": driver_needs.displaced(record, wanted),
            "counterparts": [],
        }

    def _clear(self, version: str) -> None:
        """Remove packages that carry the other version in their names: no package manager takes them for older."""
        record = self._record()
        left = driver_needs.to_remove(record, self._wanted(version, record))
        if not left:
            return
        asked = {"name": LEFTOVERS, "packages": dict.fromkeys(left, ""), "state": "absent"}
        answer = self.ask("gpusmith.gpu.packages", asked)
        if answer.get("failed"):
            # Another program with the lock says nothing about the driver.
            kind = ToolError if answer.get("busy") else ChangeFailed
            raise kind(
                f"What another version left on '{self.node}' cannot be removed ({', '.join(left)}): {answer.get('msg')}"
            )

    def _build(self, version: str) -> None:
        """Build the module for kernels without one: packages build for the running kernel and the newest one, if they may."""
        record = self._record()
        wanted = self._wanted(version, record)
        if self.modules:
            self._provide(self.modules, record, wanted)
            return
        for note in record.taken:
            # What it took before is replaced by what it builds itself, even in the same version.
            path = f"{NOTES}/{note.kernel}.json"
            self._must("file", {"path": path, "state": "absent"}, "ansible.builtin")
        releases = kernels.unbuilt(record, wanted)
        if not releases:
            return
        version = versions.upstream(version)
        # A run of 'once_per_kernel' that was killed may have kept DKMS from building.
        self._must("built_modules", {"state": "allowed", "version": version})
        status = self._must("command", {"argv": ["dkms", "status"]}, "ansible.builtin")
        name = kernels.dkms_name(str(status.get("stdout")), version)
        listed = [STATUS.match(line) for line in str(status.get("stdout")).splitlines()]
        known = {
            found["kernel"]
            for found in listed
            if found and found["name"] == name and found["version"] == version
        }
        for release in releases:
            words = ["dkms", "install", "-m", name, "-v", version, "-k", release]
            # DKMS only knows what it has installed, not that another name's removal took the files since.
            words += ["--force"] if release in known else []
            answer = self.ask("ansible.builtin.command", {"argv": words})
            if answer.get("failed"):
                said = answer.get("stderr") or answer.get("stdout") or answer.get("msg")
                raise ChangeFailed(
                    f"The module of {version} cannot be built for kernel '{release}' on '{self.node}': {said}"
                )

    def _rebuild(self, version: str) -> None:
        """Build modules of others anew that are compiled against the driver's sources: they would not load with this one."""
        record = self._record()
        old = extra_modules.to_rebuild(record, self._wanted(version, record), loaded_too=True)
        for release, names in old.items():
            asked = {"state": "rebuilt", "version": version, "kernel": release, "modules": names}
            answer = self.ask("gpusmith.gpu.built_modules", asked)
            # For a kernel that does not run, that is no fault of the driver: it would be there on the way back as well.
            if answer.get("failed") and release == record.host.kernel:
                raise ChangeFailed(
                    f"On '{self.node}' {quoted(names)} ('nvidia_driver_extra_modules') cannot be built for driver {version}:"
                    f" {answer.get('msg')}"
                )

    @staticmethod
    def _provide(modules: Modules, record: Record, wanted: wants.Driver) -> None:
        flavour = driver_needs.flavour(record, wanted)
        try:
            modules.provide(record, versions.upstream(wanted.version), flavour, taken.to_take(record, wanted))
        except NotBuilt as error:
            raise ChangeFailed(error.message) from error
        except WaitTimeout as error:
            # Another node is slow, or this one is away.
            raise ToolError(error.message, error.hint) from error

    def forget(self, kept: Sequence[str]) -> None:
        """Remove the packages of versions that nobody will go back to."""
        kept_folders = {_folder(version) for version in kept}
        there = self._must("find", {"paths": FOLDER, "file_type": "directory"}, "ansible.builtin")
        for row in there.get("files") or []:
            if row["path"] not in kept_folders:
                self._must("file", {"path": row["path"], "state": "absent"}, "ansible.builtin")

    # --- the module ----------------------------------------------------------------------------------------------

    def is_there(self, version: str) -> bool:
        """Whether module and packages are of a version."""
        record = self._record()
        wanted = self._wanted(version, record)
        return (
            record.module.loaded_version == versions.upstream(version)
            and bool(expected.of_driver(record, wanted))
            and not expected.outdated(record, wanted)
        )

    def users(self, stopped: Sequence[str], of_pods: bool = True) -> Sequence[str]:
        """Who uses the driver, in words."""
        answer = self._must("driver_state", {"state": "used", "units": list(stopped)})
        return [str(words) for words in answer["users" if of_pods else "strangers"]]

    def stop(self, units: Sequence[str]) -> None:
        """Stop the driver's services and these units, keep the modules from being loaded again, unload them."""
        answer = self.ask("gpusmith.gpu.driver_state", {"state": "unloaded", "units": list(units)})
        if not answer.get("failed"):
            return
        said, outcome = str(answer.get("msg")), answer.get("outcome")
        if outcome == HELD:
            raise InUse(said)
        if outcome == STUCK and self.reboot is None:
            raise InUse(said, "With 'gpu_upgrade_reboot: if_needed' the node is rebooted for it.")
        if outcome != STUCK:
            raise ToolError(said)
        # The packages are replaced under the module that nobody uses. That takes minutes; start() looks again, and reboots.

    def start(self, version: str, units: Sequence[str]) -> None:
        """Load the modules, start the driver's services and these units, and wait until the driver is as wanted."""
        record = self._record()
        if self.reboot and record.module.loaded_version not in (None, versions.upstream(version)):
            self._unused(version, units)
            self.reboot()
            record = self._record()
        needs_fabric = fabric.needed(record, self._wanted(version, record))
        self._loaded(
            version,
            {"units": list(units), "fabric_manager": needs_fabric},
            "does not come up",
        )
        seen: list[str] = []

        def look() -> Done[None] | NotYet:
            record = self._record()
            wanted = self._wanted(version, record)
            settings = driver.of_settings(record, wanted)
            found = [problem for problem in driver.problems(record, wanted) if problem not in settings]
            seen[:] = [problem.cause for problem in found]
            return NotYet("; ".join(seen)) if found and driver.may_pass(found) else Done(None)

        try:
            wait_until(f"driver {version} on '{self.node}'", look, Deadline(self.ready_s), TICK_S, self.sleep)
        except WaitTimeout as error:
            raise ChangeFailed(error.message) from error
        if seen:
            raise ChangeFailed(f"Driver {version} is not as wanted: {' '.join(seen)}")

    def _unused(self, version: str, units: Sequence[str]) -> None:
        """Who asks something and goes again, as a monitor does, is waited for; nobody else is rebooted away."""
        found: list[str] = []

        def look() -> Done[None] | NotYet:
            found[:] = self.users(units)
            return NotYet(", ".join(found)) if found else Done(None)

        try:
            wait_until("nobody to use the driver", look, Deadline(self.users_s), TICK_S, self.sleep)
        except WaitTimeout as error:
            raise InUse(
                f"Driver {version} takes a reboot of '{self.node}', where somebody uses the one before: {', '.join(found)}.",
                "Wait for them, or end what they run.",
            ) from error

    # --- the GPUs ------------------------------------------------------------------------------------------------

    def snapshot(self, earlier: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
        """What the GPUs are now; in a rollback with what they were before the driver that goes."""
        now = snapshot.taken(self._record())
        return now if earlier is None else snapshot.of_rollback(now, earlier)

    def compare(self, before: Mapping[str, Any]) -> None:
        """Put back what a reload of the driver forgets, and compare the GPUs with what they were."""
        record = self._record()
        if forgotten := snapshot.to_restore(before, record):
            self._loaded(str(record.module.loaded_version), forgotten, "does not take its settings")
            record = self._record()
        if found := snapshot.differences(before, record, self.node):
            raise ChangeFailed(" ".join(problem.cause for problem in found))

    # --- the suite -----------------------------------------------------------------------------------------------

    def precheck(self, version: str) -> None:
        """Refuse a machine that is broken before anything is done to it."""
        self._as_set(version)
        results = self.validation.run(
            "before", self.host, Maintenance(driver_version=version), PRECHECK_TIERS
        )
        if bad := failed(results, without=CURED_BY_A_LOAD):
            raise GpusmithError(
                f"Node '{self.node}' is broken before anything was done to it: {bad}",
                f"Repair it first, see {self.validation.report_dir / 'before'}.",
            )

    def _as_set(self, version: str) -> None:
        """Refuse a machine that a load would not give what the inventory sets: its validation would fail with any driver."""
        record = self._record()
        wanted = self._wanted(version, record)
        if stale := files.outdated(record, wanted.files):
            raise GpusmithError(
                f"On node '{self.node}' these files are not as the inventory says: {quoted(stale)}.",
                "Run site.yml for it, which writes them, then upgrade.",
            )
        shown = parameters.differing(record, wanted.module_parameters)
        if unknown := [name for name, value in shown.items() if value is None]:
            raise GpusmithError(
                f"The module of node '{self.node}' has no parameter {quoted(unknown)} ('nvidia_driver_module_parameters').",
                "Correct the name; set a parameter that only the other version has once all nodes have that.",
            )

    def prove(self, version: str) -> None:
        """Run the whole suite on the node, and stamp it."""
        results = self.validation.run(version, self.host, Maintenance(self.run, version))
        proof = stamps.judge(results, self.host)
        put = stamps.put_outcome(
            self.cluster,
            self.node,
            proof,
            stamp_facts(self._record()),
            check=False,
            conditions=self.wanted.validation.node_condition,
        )
        if put.proved and proof.problem is None:
            return
        where = f"See {self.validation.report_dir / version}."
        if failed(results, self.host, without=NOT_OF_DRIVER):
            raise ChangeFailed(put.message, where)
        raise ToolError(put.message, where)

    # --- what the cluster says of it -------------------------------------------------------------------------------

    def stale(self, node: Mapping[str, Any], version: str) -> Sequence[str]:
        """The label of GPU feature discovery, where it is of another version."""
        described = str((node["metadata"].get("labels") or {}).get(DRIVER_LABEL) or "")
        return (
            [f"'{described}'"]
            if described and not versions.answers(described, versions.upstream(version))
            else []
        )

    def remembered(self, entry: Ledger) -> Mapping[str, str | None]:
        """The driver that a rollback would go back to."""
        found: dict[str, str | None] = previous.remembered(entry)
        return found

    # --- small steps ---------------------------------------------------------------------------------------------

    def _record(self) -> Record:
        return parse(self.look())

    def _wanted(self, version: str, record: Record) -> wants.Driver:
        return driver_needs.asked_for(record, self.wanted.with_driver(version), self.own)

    def _loaded(self, version: str, asked: Mapping[str, Any], trouble: str) -> None:
        answer = self.ask("gpusmith.gpu.driver_state", {"state": "loaded", **asked})
        if answer.get("failed"):
            raise ChangeFailed(f"Driver {version} {trouble} on '{self.node}': {answer.get('msg')}")

    def _must(
        self, module: str, asked: Mapping[str, Any], collection: str = "gpusmith.gpu"
    ) -> Mapping[str, Any]:
        answer = self.ask(f"{collection}.{module}", asked)
        if answer.get("failed"):
            raise ToolError(str(answer.get("msg")))
        return answer


def _folder(version: str) -> str:
    return f"{FOLDER}/{re.sub('[^A-Za-z0-9.+~-]', '_', version)}"
