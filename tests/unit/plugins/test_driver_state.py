"""The driver of a machine unloaded and loaded again, on a machine that keeps units, modules and processes in memory."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import driver_state, gpu_layout
from ansible_collections.gpusmith.gpu.plugins.module_utils.driver_state import Driver, DriverStateError
from ansible_collections.gpusmith.gpu.plugins.modules import driver_state as module

from gpusmith.probe import usage
from gpusmith.probe.module import UPGRADE_BLOCK
from gpusmith.probe.usage import Holder, Module, Usage

DEPENDS = {
    "nvidia": (),
    "nvidia_uvm": ("nvidia",),
    "nvidia_modeset": ("nvidia",),
    "nvidia_drm": ("nvidia_modeset", "nvidia"),
    "gdrdrv": ("nvidia",),
}
OURS = list(driver_state.OURS)
GPUS = ("GPU-a", "GPU-b")
KERNEL = "NVRM: The NVIDIA GPU 0000:18:00.0 requires use of the NVIDIA open kernel modules."


class KilledError(BaseException):
    """The module is killed here."""


def holder(pid: int, unit: str | None, pod: str | None = None) -> Holder:
    return Holder(pid, "root", f"program{pid}", ("/dev/nvidia0",), unit, pod)


class Machine:
    """What systemctl, rmmod, modprobe, nvidia-smi and journalctl know and do."""

    def __init__(self, folder: Path) -> None:
        self.block, self.notes = folder / "run/modprobe.d/block.conf", folder / "run/gpusmith/notes.json"
        # Name: runs, how it is enabled.
        self.units = {name: [True, "enabled"] for name in OURS}
        self.units["dcgm"] = [True, "enabled"]
        self.units["exporter"] = [False, "enabled"]
        self.modules = ["nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm"]
        # Who holds the driver while his unit runs, and others.
        self.by_unit = {"nvidia-persistenced": 10, "dcgm": 11}
        self.others: list[Holder] = []
        self.refused: dict[str, str] = {}
        self.broken: set[str] = set()
        self.settings = {uuid: [700.0, "Enabled"] for uuid in GPUS}
        # Whose unit files are others than those that systemd has read.
        self.unread: set[str] = set()
        self.udev_sees = False
        self.seconds = 0.0
        self.effects: list[str] = []
        self.kill_at, self.kill_before = -1, False

    # --- what the module sees and does

    def driver(self, check: bool = False) -> Driver:
        return Driver(
            self.run, self.look, lambda: self.modules, self.block, 5.0, check=check, notes=self.notes,
            sleep=self.sleep, clock=lambda: self.seconds,
        )  # fmt: skip

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def used_by(self, name: str) -> tuple[str, ...]:
        return tuple(other for other in self.modules if name in DEPENDS[other])

    def look(self) -> Usage:
        holders = [
            holder(pid, f"{unit}.service") for unit, pid in self.by_unit.items() if self.units[unit][0]
        ]
        modules = {name: Module(name, 1, self.used_by(name)) for name in self.modules}
        return Usage((*(holders if self.modules else []), *self.others), tuple(usage.unload_order(modules)))

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        name, *rest = words
        changes = (
            name in ("rmmod", "modprobe")
            or (name == "systemctl" and rest[0] != "show")
            or "-pl" in rest
            or "-pm" in rest
        )
        if changes:
            self.effects.append(" ".join(words))
            if len(self.effects) - 1 == self.kill_at and self.kill_before:
                raise KilledError
        answer: tuple[int, str, str] = getattr(self, "_" + name.replace("-", "_"))(rest)
        if changes and len(self.effects) - 1 == self.kill_at:
            raise KilledError
        return answer

    # --- programs

    def _systemctl(self, words: Sequence[str]) -> tuple[int, str, str]:
        verb, *rest = words
        names = [driver_state.plain(word) for word in rest if not word.startswith("--")]
        if verb == "show":
            return self._show(names)
        if verb == "daemon-reload" and verb in self.refused:
            return 1, "", self.refused[verb]
        if verb == "daemon-reload" or (verb == "enable" and "--no-reload" not in rest):
            self.unread.clear()
        for name in names:
            if verb == "stop":
                self.units[name][0] = False
            elif verb == "enable":
                self.units[name][1] = "enabled"
            elif verb in ("start", "restart"):
                if name not in self.units or name in self.broken:
                    return 1, "", f"Job for {name}.service failed."
                if name == "gpusmith-nvidia-load":
                    for part in ("nvidia", "nvidia-uvm"):
                        code, _, error = self._modprobe([part])
                        if code:
                            return 1, "", error
                self.units[name][0] = True
        return 0, "", ""

    def _show(self, names: Sequence[str]) -> tuple[int, str, str]:
        rows = ((name, *self.units.get(name, [False, ""])) for name in names)
        blocks = (
            f"Id={name}.service\nActiveState={'active' if runs else 'inactive'}\nUnitFileState={enabled}\n"
            f"NeedDaemonReload={'yes' if name in self.unread else 'no'}"
            for name, runs, enabled in rows
        )
        return 0, "\n\n".join(blocks), ""

    def _rmmod(self, words: Sequence[str]) -> tuple[int, str, str]:
        (name,) = words
        assert name in self.modules
        if self.used_by(name) or name in self.refused:
            by = f" by: {' '.join(self.used_by(name))}" if self.used_by(name) else ""
            return 1, "", f"rmmod: ERROR: Module {name} is in use{by}"
        self.modules.remove(name)
        return 0, "", ""

    def _modprobe(self, words: Sequence[str]) -> tuple[int, str, str]:
        name = words[0].replace("-", "_")
        if name in self.modules:
            return 0, "", ""
        if self.block.exists():
            return (
                1,
                "",
                f"modprobe: ERROR: Error running install command '/bin/false' for module {name}: retcode 1",
            )
        if name in self.refused:
            return 1, "", f"modprobe: ERROR: could not insert '{name}': No such device"
        for needed in reversed(DEPENDS[name]):
            self._modprobe([needed])
        self.modules.append(name)
        return 0, "", ""

    def _udevadm(self, words: Sequence[str]) -> tuple[int, str, str]:
        self.udev_sees = self.block.exists()
        return 1, "", "no udev"

    def _nvidia_smi(self, words: Sequence[str]) -> tuple[int, str, str]:
        if words[0] != "-i":
            return 0, "".join(f"{uuid}, {row[0]:.2f}, {row[1]}\n" for uuid, row in self.settings.items()), ""
        _, uuid, option, value = words
        if option == "-pl":
            if float(value) > 700:
                return 2, f"Provided power limit {value} W is not a valid power limit\n", ""
            self.settings[uuid][0] = float(value)
        else:
            self.settings[uuid][1] = "Enabled" if value == "1" else "Disabled"
        return 0, "All done.\n", ""

    def _journalctl(self, words: Sequence[str]) -> tuple[int, str, str]:
        return 0, KERNEL + "\n" if "-g" in words else "said by the unit\n", ""

    # --- what tests compare

    def state(self) -> Any:
        return {
            "units": {name: row[0] for name, row in self.units.items()},
            "modules": set(self.modules),
            "files": (self.block.exists(), self.notes.exists(), self.udev_sees),
            "settings": json.loads(json.dumps(self.settings)),
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def unloaded(machine: Machine, units: Iterable[str] = ("dcgm",)) -> bool:
    return bool(machine.driver().unload(list(units)))


def loaded(machine: Machine, units: Iterable[str] = ("dcgm",), fabric_manager: bool = False) -> bool:
    return bool(machine.driver().load(list(units), fabric_manager))


def test_unloaded_stops_blocks_and_unloads_and_loaded_takes_it_all_back(machine: Machine) -> None:
    before = machine.state()
    assert unloaded(machine)
    assert machine.modules == []
    assert [name for name, row in machine.units.items() if row[0]] == []
    assert [effect for effect in machine.effects if effect.startswith("rmmod")] == [
        "rmmod nvidia_drm", "rmmod nvidia_modeset", "rmmod nvidia_uvm", "rmmod nvidia",
    ]  # fmt: skip
    lines = set(machine.block.read_text().splitlines())
    assert {"install nvidia /bin/false", "install nvidia-current-uvm /bin/false"} <= lines
    # Without these, modprobe takes no notice of install lines where NVIDIA's packages name soft dependencies.
    assert {"softdep nvidia post:", "softdep nvidia-uvm post:"} <= lines
    assert machine.state()["files"] == (True, True, True)
    assert machine.driver().noted("units") == ["dcgm", *OURS]
    assert not unloaded(machine), "nothing is left to do"
    assert loaded(machine)
    assert machine.state() == before
    assert not loaded(machine, fabric_manager=True)


def test_modprobe_reads_the_block_before_what_others_wrote() -> None:
    block = Path(UPGRADE_BLOCK)
    assert block.match("/run/modprobe.d/*.conf")
    names = ["nvidia.conf", "50-nvidia.conf", "gpusmith-nvidia-driver.conf", "10-x.conf"]
    assert min(block.name, *names) == block.name


def test_units_start_in_the_order_in_which_they_depend_on_each_other(machine: Machine) -> None:
    unloaded(machine)
    machine.effects.clear()
    loaded(machine)
    started = [effect for effect in machine.effects if "start" in effect]
    assert started == [
        "systemctl restart gpusmith-nvidia-load.service", "systemctl start nvidia-persistenced",
        "systemctl start nvidia-fabricmanager", "systemctl start dcgm",
        "systemctl restart gpusmith-gpu-devices",
    ]  # fmt: skip


def test_gpus_are_divided_again_before_others_use_them(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: list[dict[str, object]] = [
        {"error": "GPU 0 does not take it.", "hint": "Reboot."},
        {"changed": True},
    ]

    def run(words: Sequence[str]) -> tuple[int, str, str]:
        if words[0] != sys.executable:
            return machine.run(words)
        machine.effects.append(words[1])
        return 0, json.dumps({"done": [], "changed": False, **answers.pop(0)}), ""

    unloaded(machine)
    machine.effects.clear()
    (tmp_path / "layout").touch()
    monkeypatch.setattr(gpu_layout, "FILE", tmp_path / "layout")
    driver = machine.driver()
    monkeypatch.setattr(driver, "_run", run)
    with pytest.raises(DriverStateError, match=r"^GPU 0 does not take it\. Reboot\.$"):
        driver.load(["dcgm"], False)
    assert driver.load(["dcgm"], False), "it goes on"
    began = machine.effects.index("systemctl start dcgm")
    assert machine.effects[began - 2] == "/usr/local/lib/gpusmith/gpu-layout.pyz"


def test_a_foreign_process_is_named_and_nothing_is_touched(machine: Machine) -> None:
    machine.others = [holder(40, "session-3.scope")]
    before = machine.state()
    with pytest.raises(DriverStateError) as refused:
        unloaded(machine)
    assert refused.value.outcome == "held"
    assert "process 40 'program40' (user 'root', unit 'session-3.scope')" in refused.value.message
    assert (machine.state(), machine.effects) == (before, [])
    assert machine.seconds >= 5, "a monitor that asks something goes by itself"


def test_a_process_that_ends_soon_is_waited_for(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.others = [holder(40, None)]

    def sleep(seconds: float) -> None:
        machine.seconds += seconds
        machine.others = [] if machine.seconds > 2 else machine.others

    monkeypatch.setattr(machine, "sleep", sleep)
    assert unloaded(machine)
    assert machine.modules == []


def test_who_comes_while_units_stop_is_named_and_what_was_stopped_runs_again(machine: Machine) -> None:
    before = machine.state()
    stop = machine._systemctl

    def stopped(words: Sequence[str]) -> tuple[int, str, str]:
        if words[0] == "stop":
            machine.others = [holder(41, None)]
        return stop(words)

    machine._systemctl = stopped  # type: ignore[method-assign]
    with pytest.raises(
        DriverStateError, match=r"process 41 .* What was stopped for it runs again\."
    ) as refused:
        unloaded(machine)
    assert refused.value.outcome == "held"
    assert machine.state() == before


def test_a_module_that_the_kernel_keeps_is_named_and_the_others_come_back(machine: Machine) -> None:
    before = machine.state()
    machine.refused["nvidia_modeset"] = ""
    with pytest.raises(DriverStateError) as refused:
        unloaded(machine)
    assert refused.value.outcome == "in_use"
    assert (
        "Module 'nvidia_modeset' cannot be unloaded (1 references, no process has it open)"
        in refused.value.message
    )
    assert "rmmod: ERROR: Module nvidia_modeset is in use" in refused.value.message
    assert machine.state() == before


def test_a_refusal_that_cannot_be_taken_back_says_so(machine: Machine) -> None:
    machine.refused["nvidia"] = ""
    machine.broken = {"nvidia-persistenced"}
    with pytest.raises(
        DriverStateError, match=r"could not be started again: systemctl start nvidia-persistenced failed"
    ):
        unloaded(machine)
    assert machine.notes.exists(), "the next call knows what is to be there"


@pytest.mark.parametrize("before_it", [True, False])
@pytest.mark.parametrize("place", range(12))
def test_killed_around_every_effect_and_called_again_it_ends_the_same(
    tmp_path: Path, place: int, before_it: bool
) -> None:
    whole = Machine(tmp_path / "whole")
    whole.modules.append("gdrdrv")
    before = whole.state()
    unloaded(whole)
    assert len(whole.effects) == 6
    between = whole.state()
    loaded(whole)
    assert len(whole.effects) == 18

    for begin in ("unloaded", "loaded"):
        killed = Machine(tmp_path / begin)
        killed.modules.append("gdrdrv")
        if begin == "loaded":
            unloaded(killed)
            killed.effects.clear()
        killed.kill_at, killed.kill_before = place, before_it
        try:
            unloaded(killed) if begin == "unloaded" else loaded(killed)
        except KilledError:
            pass
        else:
            assert place >= (6 if begin == "unloaded" else 12)
        killed.kill_at = -1
        # Whoever finds it goes either way.
        loaded(killed)
        assert killed.state() == before
        unloaded(killed)
        assert killed.state() == between
        loaded(killed)
        assert killed.state() == before


def test_killed_before_the_first_effect_the_notes_say_what_ran(machine: Machine) -> None:
    machine.kill_at, machine.kill_before = 0, True
    with pytest.raises(KilledError):
        unloaded(machine)
    assert machine.block.exists()
    assert json.loads(machine.notes.read_text())["units"] == ["dcgm", *OURS]


def test_after_a_reboot_nothing_is_left_to_do_and_what_is_enabled_may_be_started(machine: Machine) -> None:
    unloaded(machine)
    machine.block.unlink()
    machine.notes.unlink()
    machine.modules = ["nvidia", "nvidia_uvm"]
    for name in OURS:
        machine.units[name][0] = True
    assert not loaded(machine), "an enabled service of others that does not run is nobody's business here"
    machine.modules = []
    machine.units["exporter"][1] = "disabled"
    assert loaded(machine, ["dcgm", "exporter"])
    assert (machine.units["dcgm"][0], machine.units["exporter"][0]) == (True, False)


def test_a_service_that_did_not_run_before_does_not_run_afterwards(machine: Machine) -> None:
    unloaded(machine, ["exporter", "dcgm"])
    loaded(machine, ["exporter", "dcgm"])
    assert not machine.units["exporter"][0]
    for row in machine.units.values():
        row[0] = False
    unloaded(machine)
    loaded(machine)
    assert not machine.units["dcgm"][0]


@pytest.mark.parametrize("unit", ["nvidia-persistenced", "nvidia-fabricmanager"])
def test_a_unit_that_lost_its_link_with_its_former_package_runs_at_boot_again(
    machine: Machine, unit: str
) -> None:
    unloaded(machine)
    machine.units[unit][1] = "disabled"
    machine.unread = {unit}
    machine.effects.clear()
    loaded(machine)
    assert machine.units[unit] == [True, "enabled"]
    assert machine.effects[0] == f"systemctl enable {unit}", (
        "while there is no driver that containers could lose"
    )
    assert not machine.unread
    # Where containers may have GPUs nothing is read anew.
    machine.units[unit][1] = "disabled"
    assert machine.driver(check=True).load([], True)
    assert machine.units[unit][1] == "disabled"
    assert machine.driver().load([], True)
    assert machine.units[unit] == [True, "enabled"]
    assert f"systemctl enable --no-reload {unit}" in machine.effects
    assert not machine.driver().load([], True)


@pytest.mark.parametrize(
    ("unread", "reloads"),
    [({"nvidia-persistenced"}, 1), ({"nvidia-fabricmanager"}, 1), ({"dcgm"}, 0), (set(), 0)],
)
def test_unit_files_of_new_packages_are_read_while_there_is_no_driver(
    machine: Machine, unread: set[str], reloads: int
) -> None:
    unloaded(machine)
    machine.unread = unread
    machine.effects.clear()
    loaded(machine)
    assert machine.effects.count("systemctl daemon-reload") == reloads
    assert "systemctl daemon-reload" not in machine.effects[1:]
    machine.unread = {"nvidia-persistenced"}
    machine.effects.clear()
    assert not loaded(machine), "where containers may have GPUs nothing is read anew"
    assert machine.effects == []


def test_a_refused_reload_is_told_and_can_be_repeated(machine: Machine) -> None:
    before = machine.state()
    unloaded(machine)
    machine.unread = {"nvidia-persistenced"}
    machine.refused["daemon-reload"] = "Refusing to reload, not enough space available on /run/systemd."
    with pytest.raises(DriverStateError) as failure:
        loaded(machine)
    assert failure.value.message == (
        "systemctl daemon-reload failed: Refusing to reload, not enough space available on /run/systemd."
    )
    assert machine.modules == []
    machine.refused.clear()
    loaded(machine)
    assert machine.state() == before


def test_a_unit_that_an_administrator_masked_stays_off(machine: Machine) -> None:
    machine.units["nvidia-persistenced"] = [False, "masked"]
    machine.broken = {"nvidia-persistenced"}
    unloaded(machine)
    assert loaded(machine)
    assert not loaded(machine)


def test_a_machine_without_toolkit_or_load_unit_gets_its_modules_all_the_same(machine: Machine) -> None:
    for name in ("gpusmith-gpu-devices", "gpusmith-nvidia-load", "nvidia-fabricmanager"):
        del machine.units[name]
    unloaded(machine)
    assert loaded(machine)
    assert {"nvidia", "nvidia_uvm", "nvidia_drm"} <= set(machine.modules)
    unloaded(machine)
    with pytest.raises(DriverStateError, match="nvidia-fabricmanager"):
        loaded(machine, fabric_manager=True)


@pytest.mark.parametrize("load_unit", [True, False])
def test_a_module_that_refuses_to_load_fails_with_the_kernels_words(
    machine: Machine, load_unit: bool
) -> None:
    if not load_unit:
        del machine.units["gpusmith-nvidia-load"]
    unloaded(machine)
    machine.refused["nvidia"] = ""
    with pytest.raises(DriverStateError) as refused:
        loaded(machine)
    assert refused.value.outcome == "refused"
    assert refused.value.message.startswith("Module 'nvidia' cannot be loaded: ")
    assert refused.value.message.endswith(f"The kernel's log says: {KERNEL}")
    assert machine.notes.exists()
    # The version before is put back.
    machine.refused.clear()
    assert unloaded(machine)
    assert loaded(machine)
    assert machine.units["dcgm"][0]


def test_a_module_of_others_that_is_lost_is_named(machine: Machine) -> None:
    machine.modules.append("gdrdrv")
    unloaded(machine)
    machine.refused["gdrdrv"] = ""
    with pytest.raises(DriverStateError, match=r"Module 'gdrdrv' cannot be loaded: modprobe: ERROR"):
        loaded(machine)


def test_a_service_that_does_not_start_is_named_with_its_words(machine: Machine) -> None:
    unloaded(machine)
    machine.broken = {"nvidia-fabricmanager"}
    with pytest.raises(
        DriverStateError, match=r"systemctl start nvidia-fabricmanager failed: .* said by the unit"
    ) as refused:
        loaded(machine)
    assert refused.value.outcome == "unit"


def test_check_mode_looks_and_does_nothing(machine: Machine) -> None:
    before = machine.state()
    assert machine.driver(check=True).unload(["dcgm"])
    assert not machine.driver(check=True).load(["dcgm"], True)
    machine.others = [holder(40, None)]
    with pytest.raises(DriverStateError):
        machine.driver(check=True).unload(["dcgm"])
    assert machine.seconds == 0
    machine.others = []
    unloaded(machine)
    effects = list(machine.effects)
    assert machine.driver(check=True).load(["dcgm"], False)
    assert not machine.driver(check=True).unload(["dcgm"])
    assert machine.effects == effects
    loaded(machine)
    assert machine.driver(check=True).settle({"GPU-a": 300}, {}) == ["power limit of GPU-a from 700 to 300 W"]
    assert machine.state() == before


def test_limits_and_persistence_are_set_where_they_differ(machine: Machine) -> None:
    machine.settings["GPU-b"] = [700.2, "Disabled"]
    wanted = ({"GPU-a": 350.5, "GPU-b": 700}, {"GPU-a": True, "GPU-b": True})
    assert machine.driver().settle(*wanted) == [
        "persistence mode of GPU-b on", "power limit of GPU-a from 700 to 350.5 W",
    ]  # fmt: skip
    assert machine.settings == {"GPU-a": [350.5, "Enabled"], "GPU-b": [700.2, "Enabled"]}
    assert machine.driver().settle(*wanted) == []
    with pytest.raises(DriverStateError, match="No such GPU: GPU-c"):
        machine.driver().settle({"GPU-c": 300}, {})
    with pytest.raises(DriverStateError, match="not a valid power limit"):
        machine.driver().settle({"GPU-a": 900}, {})


@pytest.mark.parametrize("state", ["used", "unloaded", "loaded"])
def test_the_module_answers_in_every_state(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    machine.others = [holder(40, None, pod="5b1f")] if state == "unloaded" else []
    ended: list[dict[str, Any]] = []
    ansible = SimpleNamespace(
        params={
            "state": state, "units": [], "fabric_manager": True, "power_limits": {"GPU-a": 300}, "persistence": {},
            "timeout": 0.0,
        },
        check_mode=False,
        get_bin_path=lambda name: None if name == "journalctl" else name,
        run_command=machine.run,
        exit_json=lambda **result: ended.append(result),
        fail_json=lambda **result: ended.append({"failed": True, **result}),
    )  # fmt: skip
    monkeypatch.setattr(module, "AnsibleModule", lambda **_arguments: ansible)
    monkeypatch.setattr(module.bundle, "take", lambda module: None)
    monkeypatch.setattr(usage, "gather", machine.look)
    monkeypatch.setattr(usage, "loaded_modules", lambda sys: machine.modules)
    monkeypatch.setattr(driver_state.Driver, "__init__", _in(machine, driver_state.Driver.__init__))
    module.main()
    (answer,) = ended
    assert {row["pid"] for row in answer["holders"]} >= {10, 11}
    assert [row["name"] for row in answer["modules"]][-1] == "nvidia"
    # dcgm is not among the units here.
    assert len(answer["users"]) == (2 if state == "unloaded" else 1)
    assert len(answer["strangers"]) == 1
    assert answer.get("outcome") == ("held" if state == "unloaded" else None)
    assert answer["settings"] == (["power limit of GPU-a from 700 to 300 W"] if state == "loaded" else [])
    assert answer["changed"] is (state == "loaded")


def _in(machine: Machine, begin: Any) -> Any:
    def begun(
        self: Driver, run: Any, look: Any, loaded: Any, _block: Path, *arguments: Any, **more: Any
    ) -> None:
        begin(self, run, look, loaded, machine.block, *arguments, **more, notes=machine.notes)

    return begun
