"""What a node has for its layout, and in which order it comes and goes."""

from __future__ import annotations

import base64
import errno
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.action import gpu_partitions as action
from ansible_collections.gpusmith.gpu.plugins.modules import gpu_partitions

from gpusmith.node.bundle import partition
from gpusmith.probe import layout

HALVES = {"profile": "3g.40gb", "nvml": "3_SLICE", "starts": [0, 4]}
SEVENTHS = {"profile": "1g.10gb", "nvml": "1_SLICE", "starts": list(range(7))}
ENABLE = ["enable --no-reload gpusmith-gpu-layout.service", "daemon-reload"]
START, STOP = (f"{word} gpusmith-gpu-layout.service" for word in ("start", "stop"))
DEVICES = "restart gpusmith-gpu-devices.service"


class Failed(Exception):  # noqa: N818 - what Ansible calls it
    """The module says that it failed."""


class Killed(Exception):  # noqa: N818 - no error of ours
    """Whoever ran it ended it."""


class Machine:
    """Files of a node, a systemd that makes links, and GPUs that are as the program's file says."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gpus: dict[str, Any] = {}
        self.commands: list[str] = []
        self.ends_at = ""
        self.error: dict[str, Any] = {}
        self.ended: dict[str, Any] = {}
        self.enabled = {"gpusmith-gpu-devices.service"}

    @property
    def file(self) -> Path:
        return self.folder / "etc" / "gpu-layout.json"

    def files(self) -> list[str]:
        ours = (str(path.relative_to(self.folder)) for path in self.folder.rglob("*gpu-layout*"))
        return sorted(path for path in ours if not path.startswith("tmp/"))

    def _command(self, words: list[str]) -> tuple[int, str, str]:
        if words[0] != "systemctl":
            return self._program(words[1], words[2:])
        if words[1] == "is-enabled":
            return int(words[-1] not in self.enabled), "", ""
        self.commands.append(" ".join(words[1:]))
        link = self.folder / "units" / gpu_partitions.LINK
        if words[1] == "enable":
            link.parent.mkdir(exist_ok=True)
            link.symlink_to("unit")
        if words[1] == "disable":
            link.unlink()
        return 0, "", ""

    def _program(self, program: str, words: list[str]) -> tuple[int, str, str]:
        assert Path(program).read_bytes() == b"program"
        file = Path(words[words.index("--file") + 1]) if "--file" in words else self.file
        wanted = layout.parse(file.read_text())
        right = self.gpus == wanted.__dict__ if wanted.profile else not self.gpus
        done = [] if right else [f"becomes '{wanted.profile}'"]
        if "--check" not in words:
            self.commands.append("program")
            if self.error:
                return 1, json.dumps(self.error) + "\n", ""
            if self.ends_at == "program":
                raise Killed
            self.gpus = dict(wanted.__dict__) if wanted.profile else {}
        return 0, json.dumps({"changed": bool(done), "done": done, "simulated": True}) + "\n", ""

    def run(
        self,
        wanted: dict[str, Any],
        check: bool = False,
        ignored: list[str] | None = None,
        look: bool = False,
    ) -> bool:
        packed = base64.b64encode(b"program").decode()
        params = {"layout": wanted, "ignored": ignored or [], "mps": False, "look": look, "bundle": packed}

        def fails(**answer: Any) -> None:
            self.ended = answer
            raise Failed(answer["msg"])

        (self.folder / "tmp").mkdir(exist_ok=True)
        module = SimpleNamespace(
            params=params, check_mode=check, run_command=self._command, fail_json=fails,
            exit_json=lambda **answer: self.ended.update(answer), tmpdir=str(self.folder / "tmp"),
        )  # fmt: skip
        gpu_partitions.AnsibleModule = lambda **_arguments: module
        self.commands, self.ended = [], {}
        gpu_partitions.main()
        return bool(self.ended["changed"])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(gpu_partitions, "FILE", tmp_path / "etc" / "gpu-layout.json")
    monkeypatch.setattr(gpu_partitions, "PROGRAM", tmp_path / "lib" / "gpu-layout.pyz")
    monkeypatch.setattr(gpu_partitions, "UNITS", tmp_path / "units")
    monkeypatch.setattr(gpu_partitions, "AnsibleModule", None)
    (tmp_path / "units").mkdir()
    return Machine(tmp_path)


ALL = [
    "etc/gpu-layout.json",
    "lib/gpu-layout.pyz",
    "units/gpusmith-gpu-layout.service",
    "units/kubelet.service.wants/gpusmith-gpu-layout.service",
]


def test_a_layout_comes_changes_and_goes(machine: Machine) -> None:
    assert not machine.run({})
    assert machine.run(HALVES, check=True)
    assert machine.ended["done"] == ["becomes '3g.40gb'"]
    assert (machine.files(), machine.commands) == ([], [])

    assert machine.run(HALVES)
    assert (machine.files(), machine.commands) == (ALL, [*ENABLE, "program", START, DEVICES])
    assert layout.read(str(machine.file)) == layout.GpuLayout(
        profile="3g.40gb", nvml="3_SLICE", starts=(0, 4)
    )
    assert machine.file.stat().st_mode & 0o777 == 0o644
    for check in (True, False):
        assert not machine.run(HALVES, check)
    assert machine.commands == []

    assert machine.run(SEVENTHS)
    assert machine.commands == ["program", START, DEVICES], (
        "the unit is the same, so that systemd has nothing to read"
    )
    assert machine.run({}, check=True)
    assert machine.files() == ALL
    assert machine.run({})
    assert machine.commands == [
        "program",
        "disable --no-reload gpusmith-gpu-layout.service",
        STOP,
        "daemon-reload",
        DEVICES,
    ]
    assert (machine.files(), machine.gpus) == ([], {})
    assert not (machine.folder / "etc").exists()
    assert not machine.run({})


def test_gpus_that_somebody_changed_are_divided_again(machine: Machine) -> None:
    machine.run(HALVES)
    machine.gpus = {}
    assert machine.run(HALVES)
    assert machine.commands == ["program", START, DEVICES]


@pytest.mark.parametrize(("before", "after"), [({}, HALVES), (HALVES, SEVENTHS), (SEVENTHS, {})])
def test_a_boot_in_the_middle_makes_what_was_wanted(
    machine: Machine, before: dict[str, Any], after: dict[str, Any]
) -> None:
    machine.run(before)
    machine.ends_at = "program"
    with pytest.raises(Killed):
        machine.run(after)
    assert machine.files() == ALL
    assert layout.parse(machine.file.read_text()).profile == after.get("profile", "")
    machine.ends_at = ""
    assert machine.run(after)
    assert machine.files() == (ALL if after else [])


def test_gpus_left_out_are_told_to_the_program_also_where_others_become_whole(machine: Machine) -> None:
    machine.run(HALVES, ignored=["10de:1fb0"])
    assert layout.parse(machine.file.read_text()).ignored == ("10de:1fb0",)
    machine.ends_at = "program"
    with pytest.raises(Killed):
        machine.run({}, ignored=["10de:1fb0"])
    assert layout.parse(machine.file.read_text()).ignored == ("10de:1fb0",)


def test_a_look_changes_nothing(machine: Machine) -> None:
    assert machine.run(HALVES, look=True)
    assert (machine.gpus, machine.files()) == ({}, [])


def test_why_it_failed_and_what_was_done_before_are_told(machine: Machine) -> None:
    machine.error = {
        "error": "GPU 1 is in use.",
        "hint": "End it.",
        "in_use": True,
        "done": ["a"],
        "changed": True,
    }
    with pytest.raises(Failed, match=r"^GPU 1 is in use\. End it\.$"):
        machine.run(HALVES)
    assert [machine.ended[name] for name in ("done", "changed", "in_use")] == [["a"], True, True]


@pytest.mark.parametrize("before", [{}, SEVENTHS])
def test_a_node_whose_gpus_nobody_could_touch_is_as_it_was(machine: Machine, before: dict[str, Any]) -> None:
    if before:
        machine.run(before)
    machine.error = {"error": "It is in use.", "hint": "", "in_use": True, "done": [], "changed": False}
    with pytest.raises(Failed):
        machine.run(HALVES)
    assert machine.files() == (ALL if before else [])
    if before:
        assert layout.parse(machine.file.read_text()).profile == "1g.10gb"


@pytest.mark.parametrize("before", [{}, SEVENTHS])
def test_a_machine_without_room_for_a_file_is_as_it_was(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, before: dict[str, Any]
) -> None:
    if before:
        machine.run(before)
        gpu_partitions.PROGRAM.unlink()
    put = gpu_partitions.put

    def full(path: Path, text: Any, *mode: int) -> None:
        if path == gpu_partitions.PROGRAM and text is not None:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        put(path, text, *mode)

    monkeypatch.setattr(gpu_partitions, "put", full)
    gpus = machine.gpus
    with pytest.raises(Failed, match=r"^'.*/gpu-layout\.pyz': No space left on device\.$"):
        machine.run(HALVES)
    assert (machine.ended["done"], machine.ended["in_use"]) == ([], False)
    assert machine.gpus == gpus
    if before:
        assert layout.parse(machine.file.read_text()).profile == "1g.10gb"
    else:
        assert machine.files() == []


def test_a_specification_of_the_toolkits_own_unit_is_made_anew_before_ours(machine: Machine) -> None:
    machine.enabled.add("nvidia-cdi-refresh.service")
    machine.run(HALVES)
    assert machine.commands[-2:] == ["restart nvidia-cdi-refresh.service", DEVICES]


@pytest.mark.parametrize("output", ["", "no JSON\n"])
def test_a_program_that_breaks_is_told(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.setattr(machine, "_program", lambda *_: (1, output, "Traceback"))
    with pytest.raises(Failed, match=r"ended with 1\. It said: Traceback"):
        machine.run(HALVES)
    assert machine.files() == []


def test_the_unit_comes_before_the_kubelet_which_does_not_need_it(machine: Machine) -> None:
    machine.run(HALVES)
    lines = (machine.folder / "units" / gpu_partitions.UNIT).read_text().splitlines()
    assert next(line for line in lines if line.startswith("Before=")).endswith(" kubelet.service")
    assert {"WantedBy=kubelet.service", "Restart=on-failure"} <= set(lines)
    assert next(line for line in lines if line.startswith("ExecStart=")).endswith(
        f" {machine.folder}/lib/gpu-layout.pyz"
    )


def test_module_and_probe_mean_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (str(gpu_partitions.FILE), gpu_partitions.SCHEMA) == (layout.PATH, layout.SCHEMA)


def test_the_action_sends_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    plugin: Any = object.__new__(action.ActionModule)

    def execute(_self: object, module_args: dict[str, Any], **_call: object) -> dict[str, Any]:
        sent.append(module_args)
        return {}

    monkeypatch.setattr(action.ActionModule, "_execute_module", execute)
    plugin.run_bundled("gpusmith.gpu.gpu_partitions", {"layout": {}}, {})
    assert base64.b64decode(sent[0]["bundle"]) == partition()
