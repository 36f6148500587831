"""The program simgpu, and how the programs of a node start."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from gpulab import faults
from gpulab.simgpu import rootfs
from simgpu import cli, faults_file, kmod, modules_load, programs
from simgpu.fault import registry

NODE = rootfs() / "usr" / "lib" / "simgpu"
PROGRAMS = ("simgpu", "modules-load", "sbin/insmod", "sbin/rmmod", "sbin/modprobe", "sbin/lsmod")


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("kinds", [[], ["throttle"]])
def test_the_lab_sees_which_faults_are_in(capsys: pytest.CaptureFixture[str], kinds: list[str]) -> None:
    def real_program(_: str, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        status = cli.main(list(words[1:]))
        return subprocess.CompletedProcess(words, status, capsys.readouterr().out, "")

    faults_file.save([{"kind": kind, "pci": None, "since": 1} for kind in kinds])
    assert faults.present(real_program, "gpu-1") == set(kinds)


@pytest.mark.usefixtures("driven")
def test_status_is_for_programs_and_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert (content["schema"], content["fabric"]) == ("gpusmith.simgpu.status/1", "not-started")
    assert content["modules"]["nvidia"] == {"version": "580.178.04", "references": 1}
    assert cli.main(["status"]) == 0
    assert "nvidia 580.178.04 (1 users), nvidia_uvm" in capsys.readouterr().out


@pytest.mark.usefixtures("kernel")
def test_a_refusal_is_one_line_and_its_errno(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["status"]) == 19
    said = capsys.readouterr().err
    assert said.startswith("simgpu: this machine has no simulated hardware")
    assert said.count("\n") == 1


def test_help_lists_the_faults(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["fault", "--help"])
    said = capsys.readouterr().out
    assert all(fault.help in said for fault in registry().values())


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_program_starts_by_its_name(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (NODE / name).resolve() == NODE / "launcher"
    assert os.access(NODE / name, os.X_OK)
    asked: list[str] = []
    monkeypatch.setattr(cli, "main", lambda _: asked.append("simgpu"))
    monkeypatch.setattr(modules_load, "main", lambda _: asked.append("modules-load"))
    for tool in ("insmod", "rmmod", "modprobe", "lsmod"):
        monkeypatch.setattr(kmod, tool, lambda _, tool=tool: asked.append(tool))
    programs.main(Path(name).name, [])
    assert asked == [Path(name).name]
