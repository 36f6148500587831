"""One change of a service on a node that serves: proved, or taken back.

What happens on the node is asked by steps ('begin', 'look', 'restart', 'restore', 'end'), each one call of module serving_change.
A look tells what commands answered, too: a unit can run and serve nobody.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.matching import satisfies

from gpusmith.errors import GpusmithError
from gpusmith.probe import cri
from gpusmith.wait import Deadline, Done, GiveUp, NotYet, wait_until

UP_S = 60.0
"""How long a unit may take to start; containerd tells systemd when it serves."""
TICK_S = 1.0
PATIENCE_S = 10.0
"""How long what a unit serves may be silent after the time that the unit must stay up."""
CRI = " ".join(cri.LIST)
"""Asks containerd for the state of its CRI plugin. A node whose plugin is down stays Ready for half a minute."""

Seen = Mapping[str, Any]
Step = Callable[[str], Seen]
Heartbeat = Callable[[float, bool], None]
"""Waits for a sign of life since a Unix time; of a node that must be Ready."""


class Unproved(GpusmithError):  # noqa: N818 - it is a verdict
    """A changed service does not run as it must."""


def silent(answers: Sequence[Mapping[str, Any]]) -> str:
    """The first command that did not answer as it must, in words; empty if there is none."""
    for row in answers:
        if row["status"] != 0:
            return f"'{row['asked']}' fails: {row['error'].strip()}"
        error = cri.read_plugins(row["output"]).error if row["asked"] == CRI else None
        if error:
            return f"its CRI plugin is down: {error}"
    return ""


def _of_cri(seen: Seen) -> list[Mapping[str, Any]]:
    return [row for row in seen["answers"] if row["asked"] == CRI]


@dataclass(frozen=True)
class TakenBack:
    """What became of a change that failed.

    Attributes:
        touched: whether it had changed anything, so that it may do so on the next node.
        said: in words.
    """

    touched: bool
    said: str


@dataclass(frozen=True)
class Change:
    """A change on one node.

    Attributes:
        node: its name.
        unit: the service.
        step: does a step on the node.
        heartbeat: waits for a sign of life.
        put_packages: installs packages in these full versions, from a folder if it is not empty.
        save_packages: saves packages in these full versions, and what belongs to them, in a folder.
        restart_with: after a change of which ('files', 'packages') the unit must have been restarted.
        stay_s: seconds that the unit must stay up.
        sleep: replaced in tests.
    """

    node: str
    unit: str
    step: Step
    heartbeat: Heartbeat
    put_packages: Callable[[Mapping[str, str], str], None]
    save_packages: Callable[[Mapping[str, str], str], None]
    restart_with: tuple[str, ...] = ()
    stay_s: float = 5.0
    sleep: Callable[[float], None] = time.sleep

    def begin(self, wanted: Mapping[str, str], ready: bool) -> None:
        """Have what is there kept, and its packages saved.

        What a run kept that was killed stays, unless the unit was started since and its node is well with what is there now: be
        it that run's change or what a person has repaired, it is good, and it has to come back if the next change fails.

        Args:
            wanted: versions of packages after the change.
            ready: whether the node is Ready.

        Raises:
            Unproved: there would be no way back.
            ToolError: the node cannot be asked.
        """
        seen = self.step("look")
        # As long as that, and 'Ready' is not from before.
        well = ready and seen["active"] == "active" and seen["up_s"] >= UP_S and not silent(_of_cri(seen))
        if seen["open"] and well and seen["invocation"] != seen["before"]:
            self.step("end")
            seen = self.step("look")
        self.save(wanted, seen)
        self.step("begin")

    def save(self, wanted: Mapping[str, str], seen: Seen) -> None:
        """Save the present packages before the change, if it brings other versions of them.

        Args:
            wanted: versions after the change.
            seen: the node before it.

        Raises:
            Unproved: there would be no way back.
            ToolError: the node cannot be asked.
        """
        # What an open change has saved is from before it.
        former = {} if seen["open"] else seen["former"]
        if all(satisfies(version, wanted[name]) for name, version in former.items()):
            return
        try:
            self.save_packages(former, seen["folder"])
        except GpusmithError as error:
            raise Unproved(
                f"Node '{self.node}': nothing was changed, since the packages that '{self.unit}' has now cannot be saved for"
                f" the way back: {error}",
                "Add a repository that has them to the node, or put their archives into its cache, then run site.yml again.",
            ) from error

    def prove(self) -> bool:
        """Prove the change; whether the unit was restarted since it began.

        Raises:
            Unproved: the unit does not stay up or does not serve, or the node gives no sign of life.
            ToolError: the node or the cluster cannot be asked.
        """
        seen = self.step("look")
        if not seen["open"]:
            return False
        if any(seen[what] for what in self.restart_with) and seen["invocation"] == seen["before"]:
            self.step("restart")
        restarted = self._runs()
        self.step("end")
        return restarted

    def _runs(self, *, as_before: bool = False) -> bool:
        seen = self._stays_up(as_before)
        if seen["invocation"] == seen["before"]:
            return False
        try:
            self.heartbeat(seen["started"], seen["ready"])
        except GpusmithError as error:
            again = self.step("look")
            raise Unproved(f"{error.message} {self._said(again)}".strip()) from error
        # Between the first seconds and the sign of life it may have ended.
        again = self._stays_up(as_before)
        if again["invocation"] != seen["invocation"]:
            raise Unproved(f"'{self.unit}' was started anew meanwhile. {self._said(again)}".strip())
        return True

    def _stays_up(self, as_before: bool) -> Seen:
        first: list[str] = []

        def look() -> Done[Seen] | NotYet:
            seen = self.step("look")
            state = f"'{self.unit}' is {seen['active']} ({seen['sub']})"
            if seen["active"] in ("failed", "inactive") or seen["sub"] == "auto-restart":
                raise GiveUp(f"{state}. {self._said(seen)}".strip())
            if seen["active"] != "active":
                return NotYet(state)
            if first and first[0] != seen["invocation"]:
                raise GiveUp(f"'{self.unit}' does not stay up. {self._said(seen)}".strip())
            first[:] = [seen["invocation"]]
            if seen["up_s"] < self.stay_s:
                return NotYet(f"{state} for {seen['up_s']:.0f} s")
            # A program that the change brought may not have been there before.
            quiet = silent(_of_cri(seen) if as_before else seen["answers"])
            if quiet and seen["up_s"] > self.stay_s + PATIENCE_S:
                raise GiveUp(f"{state}, but {quiet}")
            return NotYet(f"{state}, but {quiet}") if quiet else Done(seen)

        try:
            return wait_until(
                f"'{self.unit}' to stay up", look, Deadline(UP_S + self.stay_s), TICK_S, self.sleep
            )
        except GpusmithError as error:
            raise Unproved(error.message) from error

    @staticmethod
    def _said(seen: Seen) -> str:
        return f"Its last words: {seen['words']}" if seen.get("words") else ""

    def take_back(self) -> TakenBack:
        """Put back what was kept."""
        seen = self.step("look")
        if not seen["open"]:
            return TakenBack(False, "Nothing was changed on it.")
        different = bool(seen["files"] or seen["packages"])
        if not different and seen["invocation"] == seen["before"]:
            self.step("end")
            return TakenBack(False, "Nothing was changed on it.")
        # Of a run that was killed: nobody knows whether it wrote that, or a person did.
        aside = f" What it took the place of is in '{seen['aside']}'." if seen["aside"] else ""
        trouble = ""
        if seen["packages"]:
            try:
                self.put_packages(seen["former"], seen["folder"] if seen["saved"] else "")
            except GpusmithError as error:
                trouble = f" Its packages could not be put back: {error}"
        try:
            self.step("restore")
            if different or seen["active"] != "active":
                self.step("restart")
            self._runs(as_before=True)
        except GpusmithError as error:
            # What was kept stays, so that the next run goes by it.
            said = f"What was there before was put back, but that cannot be proved either: {error.message}"
            return TakenBack(True, said + trouble + aside)
        if trouble:
            said = f"Its files are what they were before, and '{self.unit}' runs with them.{trouble}{aside}"
            return TakenBack(True, said)
        self.step("end")
        return TakenBack(True, f"What was there before is back, and '{self.unit}' runs with it.{aside}")
