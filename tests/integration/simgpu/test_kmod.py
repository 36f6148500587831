"""modprobe and its kin: what goes to the simulated kernel, and what to the real programs."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import pytest
from simgpu import kmod, modules, paths
from simgpu.publish import publish
from simgpu.state import State

from tests.integration.simgpu.conftest import ModuleFile


class RealError(Exception):
    """The real program was started."""


class Node:
    """What the tools ask and tell."""

    def __init__(self) -> None:
        self.plan = ""
        self.status = 0
        self.told: list[tuple[str, ...]] = []
        self.answer = (0, "")

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(words, self.status, self.plan, "")

    def kernel(self, *words: str) -> tuple[int, str]:
        self.told.append(words)
        return self.answer

    def real(self, name: str, arguments: Sequence[str]) -> NoReturn:
        raise RealError(f"{name} {' '.join(arguments)}")


@pytest.fixture
def tools(kernel: None, monkeypatch: pytest.MonkeyPatch) -> Node:
    node = Node()
    for name in ("ask", "kernel", "real"):
        monkeypatch.setattr(kmod, name, getattr(node, name))
    return node


def test_a_simulated_module_is_loaded_by_the_simulated_kernel(tools: Node, module_file: ModuleFile) -> None:
    path = str(module_file("open/nvidia.o"))
    tools.plan = f"builtin drm\ninsmod {path} NVreg_X=1 \n"
    assert kmod.modprobe(["-b", "nvidia"]) == 0
    assert kmod.insmod([path, "NVreg_X=2"]) == 0
    assert tools.told == [("load", path, "NVreg_X=1"), ("load", path, "NVreg_X=2")]


@pytest.mark.parametrize(
    "words",
    [["overlay"], ["--show-depends", "nvidia"], ["-c"], [], ["-r", "overlay"], ["-d", "/x", "nvidia"]],
)
def test_the_rest_is_for_the_real_modprobe(tools: Node, words: list[str]) -> None:
    tools.plan = "builtin overlay\n"
    with pytest.raises(RealError):
        kmod.modprobe(words)
    assert tools.told == []


@pytest.mark.parametrize(("words", "said"), [(["nvidia"], True), (["-q", "nvidia"], False)])
def test_a_refusal_is_said_unless_nobody_asked_for_it(
    tools: Node, module_file: ModuleFile, capsys: pytest.CaptureFixture[str], words: list[str], said: bool
) -> None:
    tools.plan = f"insmod {module_file('open/nvidia.o')}\n"
    tools.answer = (19, "No such device")
    assert kmod.modprobe(words) == 1
    assert ("could not insert 'nvidia': No such device" in capsys.readouterr().err) is said


def test_a_module_that_another_modprobe_loaded_meanwhile_is_loaded(
    tools: Node, module_file: ModuleFile
) -> None:
    tools.plan = f"insmod {module_file('open/nvidia.o')}\n"
    tools.answer = (17, "File exists")
    assert kmod.modprobe(["nvidia"]) == 0
    assert kmod.modprobe(["--first-time", "nvidia"]) == 1


@pytest.mark.usefixtures("driven")
def test_what_is_loaded_stays_loaded(tools: Node, module_file: ModuleFile) -> None:
    publish(State.load())
    tools.plan = f"insmod {module_file('open/nvidia.o')}\n"
    assert kmod.modprobe(["nvidia"]) == 0
    assert kmod.modprobe(["--first-time", "nvidia"]) == 1
    assert tools.told == []


@pytest.mark.usefixtures("driven")
def test_a_module_that_is_only_just_being_loaded_is_waited_for(tools: Node, module_file: ModuleFile) -> None:
    """The state is written before /sys/module shows it; whoever returns in between finds no module."""
    path = str(module_file("open/nvidia.o"))
    tools.plan, tools.answer = f"insmod {path}\n", (17, "File exists")
    assert kmod.modprobe(["nvidia"]) == 0
    assert tools.told == [("load", path)]


@pytest.mark.usefixtures("driven")
def test_removal_takes_what_is_needed_no_more(tools: Node) -> None:
    assert kmod.modprobe(["-r", "nvidia-uvm"]) == 0
    assert tools.told == [("unload", "nvidia_uvm"), ("unload", "nvidia")]
    assert kmod.modprobe(["-r", "nvidia-drm"]) == 0, "it is not loaded"
    tools.answer = (11, "Module nvidia is in use")
    assert kmod.rmmod(["nvidia"]) == 1
    assert kmod.modprobe(["-r", "nvidia"]) == 1
    with pytest.raises(RealError):
        kmod.rmmod(["overlay"])


def test_modules_of_a_kernel_without_a_list_are_listed(
    tools: Node, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "exists", lambda _: False)
    (paths.RUN / "modules").write_text(
        "nvidia_uvm 2076672 0 - Live 0x0 (OE)\nnvidia 14393344 1 nvidia_uvm, Live 0x0 (OE)\n"
    )
    assert kmod.lsmod([]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "nvidia_uvm           2076672  0",
        "nvidia              14393344  1 nvidia_uvm",
    ]


def test_every_module_has_its_byte_and_size() -> None:
    assert set(modules.BYTES) == set(modules.DEPENDS) == set(modules.SIZES)
