"""Unloading the driver from a node, and loading it again, so that a call that is killed anywhere can be repeated."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Callable, Dict, Iterable, List, Mapping, Sequence, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils import files, gpu_layout

if TYPE_CHECKING:
    from gpusmith.probe.services import Service
    from gpusmith.probe.usage import Holder, Module, Usage

# What is to be there again; of no use after a reboot, which starts what is enabled.
NOTES = Path("/run/gpusmith/driver-upgrade.json")
# Debian gives its modules other names, by kind.
MODULES = tuple(
    "nvidia" + kind + part
    for kind in ("", "-current", "-current-open")
    for part in ("", "-uvm", "-modeset", "-drm", "-peermem")
)
NEEDED = ("nvidia", "nvidia_uvm")

DEVICES = "gpusmith-gpu-devices"
FABRIC_MANAGER = "nvidia-fabricmanager"
PERSISTENCED = "nvidia-persistenced"
LOAD = "gpusmith-nvidia-load"
OURS = (DEVICES, FABRIC_MANAGER, PERSISTENCED, LOAD)
# Their units come with packages: one that is removed for another that has the same unit takes the link for boots with it.
PACKAGED = (FABRIC_MANAGER, PERSISTENCED)
RUNNING = ("active", "activating", "reloading")
NEVER = ("not-found", "masked", "masked-runtime")
POLL_S = 0.5
NEARLY_W = 0.5
LAST_WORDS = 8

Run = Callable[[Sequence[str]], Tuple[int, str, str]]


class DriverStateError(Exception):
    """It could not be done.

    Attributes:
        outcome: 'held' by processes, 'in_use' by what no process explains, 'refused' by the kernel, 'unit', or 'settings'.
        message: sentences for people.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


def plain(unit: str) -> str:
    """A unit's name without '.service'."""
    return unit[: -len(".service")] if unit.endswith(".service") else unit


def block_text() -> str:
    """What keeps everybody from loading the driver: NVML as root does so whenever somebody asks it something.

    modprobe goes by the first install line for a name, in the order of the files' names, whichever folder they are in (modprobe.d(5)).
    It knows no patterns there, and takes no notice of install lines of a module with soft dependencies, as NVIDIA's packages give nvidia:
    the first softdep line counts, so ours names none (kmod 30, tried). A reboot empties /run, and so brings the driver back.
    """
    lines = "".join("install {0} /bin/false\nsoftdep {0} post:\n".format(name) for name in MODULES)
    return (
        "# Written by gpusmith while it replaces the driver; gone when it is loaded again, or after a reboot.\n"
        + lines
    )


class Driver:
    """The driver of this machine.

    Args:
        run: runs a command; status, output and error.
        look: finds who uses the driver.
        loaded: names of the driver's modules that are loaded.
        block: file that keeps the modules from being loaded.
        timeout_s: until others let go of it.
        check: change nothing.
        notes: file with what is to be there again.
        sleep: replaced in tests.
        clock: likewise.
    """

    def __init__(
        self,
        run: Run,
        look: Callable[[], Usage],
        loaded: Callable[[], Iterable[str]],
        block: Path,
        timeout_s: float = 30.0,
        check: bool = False,
        notes: Path = NOTES,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._look, self._loaded = run, look, loaded
        self._timeout_s, self._check = timeout_s, check
        self._block, self._notes, self._sleep, self._clock = block, notes, sleep, clock

    # --- used ----------------------------------------------------------------------------------------------------

    def others(self, units: Sequence[str]) -> Callable[[Usage], List[Holder]]:
        """Tells who still holds the driver when its services and these units are stopped."""
        # By systemd's own names, which may be others than those of the caller.
        stopped = set(self._states([*units, *OURS]))
        return lambda usage: [holder for holder in usage.holders if plain(holder.unit or "") not in stopped]

    def noted(self, kind: str) -> List[str]:
        """Units, or modules, that are to be there again."""
        text = files.read(self._notes)
        found: List[str] = json.loads(text)[kind] if text else []
        return found

    # --- unloaded ------------------------------------------------------------------------------------------------

    def unload(self, units: Sequence[str]) -> bool:
        """Unload all modules and keep them from being loaded, or leave everything as it was; whether that changed anything.

        Raises:
            DriverStateError: somebody uses them.
        """
        try:
            usage = self._without_others(units)
            running = self._running([*units, *OURS])
            if self._check:
                return bool(usage.modules or running or not self._block.exists())
            self._note(running, [module.name for module in usage.modules])
            changed = files.read(self._block) != block_text()
            files.put(self._block, block_text())
            self._tell_udev()
            if running:
                self._systemctl("stop", running)
            self._take_out()
        except DriverStateError as failure:
            back = [] if self._check else self._as_before()
            raise DriverStateError(failure.outcome, " ".join([failure.message, *back])) from failure
        return changed or bool(running or usage.modules)

    def _without_others(self, units: Sequence[str]) -> Usage:
        """Who asks something and goes again, as a monitor does, is waited for."""
        others = self.others(units)

        def left() -> str:
            return "; ".join(holder.words for holder in others(self._look()))

        words = self._wait(left, 0.0 if self._check else self._timeout_s)
        if words:
            raise DriverStateError("held", "The driver is in use: {}.".format(words))
        return self._look()

    def _take_out(self) -> None:
        outcome = "in_use"

        def left() -> str:
            nonlocal outcome
            usage = self._look()
            # A module that goes while somebody begins to use it would break him: only the kernel can tell, so it is asked last.
            outcome = "held" if usage.holders else "in_use"
            if usage.holders:
                return "The driver is in use: {}.".format("; ".join(one.words for one in usage.holders))
            for module in usage.modules:
                status, _output, error = self._run(["rmmod", module.name])
                if status != 0:
                    return "Module '{}' cannot be unloaded ({} references, {}): {}".format(
                        module.name,
                        module.references,
                        self._explained(module, usage),
                        " ".join(error.split()),
                    )
            return ""

        words = self._wait(left, self._timeout_s)
        if words:
            raise DriverStateError(outcome, words)

    @staticmethod
    def _explained(module: Module, usage: Usage) -> str:
        if module.used_by:
            return "used by {}".format(", ".join(module.used_by))
        blind = bool(usage.unreadable) or not usage.complete
        return "no process {}has it open".format("that can be looked at " if blind else "")

    def _unblock(self) -> None:
        files.put(self._block, None)
        self._tell_udev()

    def _tell_udev(self) -> None:
        """The device manager loads modules by itself, and does not see a folder of modprobe.d that is new. A machine may have none."""
        self._run(["udevadm", "control", "--reload", "--timeout=5"])

    def _note(self, units: Iterable[str], modules: Iterable[str]) -> None:
        """Remember what ran, and what an earlier call remembered that was killed."""
        content = {
            "units": list(dict.fromkeys([*self.noted("units"), *units])),
            "modules": list(dict.fromkeys([*self.noted("modules"), *modules])),
        }
        files.put(self._notes, json.dumps(content))

    def _as_before(self) -> List[str]:
        """Put back what was stopped and unloaded; what cannot be."""
        if not (self._notes.exists() or self._block.exists()):
            return []
        try:
            self._unblock()
            self._insert(reversed(self.noted("modules")))
            self._start(self._noted_in_order())
            files.put(self._notes, None)
        except DriverStateError as failure:
            return ["And what was stopped could not be started again: " + failure.message]
        return ["What was stopped for it runs again."]

    # --- loaded --------------------------------------------------------------------------------------------------

    def load(self, units: Sequence[str], fabric_manager: bool) -> bool:
        """Load the modules and start what was stopped; whether that changed anything.

        Raises:
            DriverStateError: the kernel refuses a module, or a unit does not start.
        """
        states = self._states([*units, *OURS])
        wanted = self._wanted(states, fabric_manager)
        missing = self._missing([*NEEDED, *self.noted("modules")])
        # Without notes nobody knows whether others ran before.
        stopped = [unit for unit in wanted if unit in OURS and not self._runs(states, unit)]
        packaged = [unit for unit in wanted if unit in PACKAGED]
        disabled = [unit for unit in packaged if states[unit].enabled == "disabled"]
        if not (missing or stopped or disabled or self._block.exists() or self._notes.exists()):
            return False
        if self._check:
            return True
        if missing:
            self._read_units(disabled, any(states[unit].reload_due for unit in packaged))
        elif disabled:
            self._systemctl("enable", disabled, "--no-reload")
        self._unblock()
        begin = time.time()
        if LOAD in wanted:
            status, _output, error = self._run(["systemctl", "restart", LOAD + ".service"])
            if status != 0:
                said = self._journal(begin, "-u", LOAD) or error
                raise DriverStateError("refused", self._refusal(begin, said))
        self._insert(["nvidia", "nvidia-uvm", *reversed(self.noted("modules"))])
        self._start([unit for unit in wanted if unit in PACKAGED])
        self._divide()
        self._start([unit for unit in wanted if unit not in (LOAD, DEVICES, *PACKAGED)])
        if DEVICES in wanted:
            # Device links and CDI specification are of the driver that was there before.
            self._start([DEVICES], anew=True)
        files.put(self._notes, None)
        return True

    def _divide(self) -> None:
        """Have GPUs as the node's layout says: what MIG made of them went with the driver. Not by its unit, which would end the kubelet."""
        if gpu_layout.FILE.exists():
            _result, problem = gpu_layout.call(self._run, gpu_layout.PROGRAM)
            if problem:
                raise DriverStateError("settings", problem)

    def _read_units(self, disabled: Sequence[str], due: bool) -> None:
        """Have services of new packages run at boot, and by their new unit files.

        Canonical's packages ask systemd for nothing after an upgrade (dh_installsystemd --no-start --no-restart-after-upgrade in
        debian/rules of nvidia-graphics-drivers, read 2026-11-25). Without a driver no container has GPUs that a reload could take away.
        """
        if disabled:
            self._systemctl("enable", disabled)
        elif due:
            self._systemctl("daemon-reload", [])

    def _wanted(self, states: Mapping[str, Service], fabric_manager: bool) -> List[str]:
        """The units that shall run, in their order."""
        there = {name for name, unit in states.items() if unit.enabled not in NEVER}
        wanted = [unit for unit in (LOAD, PERSISTENCED, DEVICES) if unit in there]
        if fabric_manager:
            wanted.append(FABRIC_MANAGER)
        noted = self._noted_in_order()
        if not self._notes.exists():
            # After a reboot what is enabled should run.
            noted = [name for name, unit in states.items() if unit.enabled == "enabled" and name not in OURS]
        order = [*reversed(OURS[1:]), *(unit for unit in noted if unit not in OURS), DEVICES]
        return [unit for unit in order if unit in wanted or unit in noted]

    def _noted_in_order(self) -> List[str]:
        """Units that ran: the driver's own before those that use them, the devices' last."""
        noted = self.noted("units")
        return [
            *(unit for unit in reversed(OURS[1:]) if unit in noted),
            *(unit for unit in noted if unit not in OURS),
            *(unit for unit in noted if unit == DEVICES),
        ]

    def _missing(self, names: Iterable[str]) -> List[str]:
        there = set(self._loaded())
        return [name for name in dict.fromkeys(name.replace("-", "_") for name in names) if name not in there]

    def _insert(self, names: Iterable[str]) -> None:
        begin = time.time()
        for name in self._missing(names):
            status, _output, error = self._run(["modprobe", name])
            # What another has brought along since is there already.
            if status != 0 or self._missing([name]):
                raise DriverStateError("refused", self._refusal(begin, error, name))

    def _refusal(self, begin: float, said: str, name: str = "nvidia") -> str:
        kernel = self._journal(
            begin, "-g", "NVRM|nvidia|gdrdrv", "_TRANSPORT=kernel", "+", "SYSLOG_IDENTIFIER=kernel"
        )
        return "Module '{}' cannot be loaded: {} The kernel's log says: {}".format(
            name, " ".join(said.split()) or "it is not there afterwards.", kernel or "nothing."
        )

    # --- settings ------------------------------------------------------------------------------------------------

    def settle(self, power_limits: Mapping[str, float], persistence: Mapping[str, bool]) -> List[str]:
        """Set what a driver forgets when it is unloaded; returns what was set, in words.

        Raises:
            DriverStateError: a GPU is not there, or does not take it.
        """
        now = self._settings() if power_limits or persistence else {}
        gone = sorted({*power_limits, *persistence} - set(now))
        if gone:
            raise DriverStateError("settings", "No such GPU: {}.".format(", ".join(gone)))
        done = []
        # Without persistence mode a limit is forgotten when the last process ends.
        for uuid, on in persistence.items():
            if now[uuid][1] != on:
                self._nvidia_smi(uuid, "-pm", "1" if on else "0")
                done.append("persistence mode of {} {}".format(uuid, "on" if on else "off"))
        for uuid, watts in power_limits.items():
            if abs(now[uuid][0] - float(watts)) > NEARLY_W:
                self._nvidia_smi(uuid, "-pl", "{:g}".format(float(watts)))
                done.append("power limit of {} from {:g} to {:g} W".format(uuid, now[uuid][0], float(watts)))
        return done

    def _settings(self) -> Dict[str, Tuple[float, bool]]:
        query = ["--query-gpu=uuid,power.limit,persistence_mode", "--format=csv,noheader,nounits"]
        status, output, error = self._run(["nvidia-smi", *query])
        if status != 0:
            raise DriverStateError(
                "settings", "nvidia-smi does not answer: {}".format(" ".join((output + error).split()))
            )
        found = {}
        for line in output.splitlines():
            words = [word.strip() for word in line.split(",")]
            try:
                limit = float(words[1])
            except (IndexError, ValueError):
                limit = float("nan")  # [N/A]: it has none, and takes none
            found[words[0]] = (limit, words[-1] == "Enabled")
        return found

    def _nvidia_smi(self, uuid: str, *words: str) -> None:
        if self._check:
            return
        status, output, error = self._run(["nvidia-smi", "-i", uuid, *words])
        if status != 0:
            raise DriverStateError(
                "settings",
                "nvidia-smi -i {} {} failed: {}".format(
                    uuid, " ".join(words), " ".join((output + error).split())
                ),
            )

    # --- small steps ---------------------------------------------------------------------------------------------

    def _wait(self, left: Callable[[], str], seconds: float) -> str:
        """Ask until nothing is left or the time is over; what is left."""
        end = self._clock() + seconds
        words = left()
        while words and self._clock() < end:
            self._sleep(POLL_S)
            words = left()
        return words

    def _states(self, units: Iterable[str]) -> Dict[str, Service]:
        from gpusmith.probe.services import parse_services

        names = [unit if "." in unit else unit + ".service" for unit in dict.fromkeys(map(plain, units))]
        _status, output, _error = self._run(
            ["systemctl", "show", "--property=Id,ActiveState,UnitFileState,NeedDaemonReload", *names]
        )
        found: Dict[str, Service] = parse_services(output)
        return found

    @staticmethod
    def _runs(states: Mapping[str, Service], unit: str) -> bool:
        return unit in states and states[unit].active in RUNNING

    def _running(self, units: Iterable[str]) -> List[str]:
        states = self._states(units)
        return [unit for unit in states if self._runs(states, unit)]

    def _systemctl(self, verb: str, units: Sequence[str], *options: str) -> None:
        begin = time.time()
        status, _output, error = self._run(["systemctl", verb, *options, *units])
        if status != 0:
            # Without a unit it would be everybody's.
            said = self._journal(begin, *(word for unit in units for word in ("-u", unit))) if units else ""
            raise DriverStateError(
                "unit",
                "systemctl {} failed: {} {}".format(
                    " ".join([verb, *units]), " ".join(error.split()), said
                ).strip(),
            )

    def _start(self, units: Sequence[str], anew: bool = False) -> None:
        """Start them one by one; also one that somebody tried to start while the modules were blocked."""
        for unit in units:
            self._run(["systemctl", "reset-failed", unit])
            self._systemctl("restart" if anew else "start", [unit])
            if not self._runs(self._states([unit]), unit):
                raise DriverStateError("unit", "Unit '{}' does not run after its start.".format(unit))

    def _journal(self, begin: float, *matches: str) -> str:
        """The last lines since a time, in one."""
        words = ["journalctl", "-q", "-b", "-o", "cat", "--no-pager", "--since=@{:d}".format(int(begin))]
        _status, output, _error = self._run([*words, "-n", str(LAST_WORDS), *matches])
        return "; ".join(line.strip() for line in output.splitlines() if line.strip())
