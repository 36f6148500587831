"""Modules of others built anew, over the simulated dkms; tests/long has the real one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.built_modules import BuiltModulesError
from ansible_collections.gpusmith.gpu.plugins.module_utils.dependent_modules import rebuild

KERNEL, OTHER = "6.1.0-40-amd64", "6.1.0-41-amd64"


class Dkms:
    """Answers 'dkms status', and ends every other command as it is told."""

    def __init__(self, status: str, **ended: int) -> None:
        self.status, self.ended = status, ended
        self.ran: list[str] = []

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        said = " ".join(words)
        if said.startswith("dkms status"):
            return 0, self.status, ""
        self.ran.append(said)
        return self.ended.get(said.split()[1], 0), "", "it says no"


@pytest.mark.parametrize(
    ("status", "ran"),
    [
        (f"gdrdrv/2.6, {KERNEL}, x86_64: installed\n", ["unbuild 2.6", "install 2.6"]),
        # As DKMS 2 prints it.
        (f"gdrdrv, 2.6, {KERNEL}, x86_64: installed\n", ["unbuild 2.6", "install 2.6"]),
        (f"gdrdrv/2.6, {OTHER}, x86_64: installed\n", ["install 2.6"]),
        # A run that was killed after the first step.
        ("gdrdrv/2.6: added\n", ["install 2.6"]),
        (
            f"gdrdrv/2.5, {KERNEL}, x86_64: installed\ngdrdrv/2.6, {KERNEL}, x86_64: built\n",
            ["unbuild 2.5", "install 2.5"],
        ),
        ("gdrdrv/2.10: added\ngdrdrv/2.9: added\n", ["install 2.10"]),
        # Killed between the steps, beside one that was built and never installed.
        (f"gdrdrv/2.5, {KERNEL}, x86_64: built\ngdrdrv/2.6: added\n", ["install 2.6"]),
        (f"nvidia/580.1, {KERNEL}, x86_64: installed\ngdrdrv/2.6: added\n", ["install 2.6"]),
    ],
)
def test_what_was_built_is_forgotten_first(status: str, ran: list[str]) -> None:
    dkms = Dkms(status)
    assert rebuild(dkms.run, "gdrdrv", KERNEL) == ran[-1].split()[1]
    expected = [f"dkms {step} -m gdrdrv -v {version} -k {KERNEL}" for step, version in map(str.split, ran)]
    assert dkms.ran == [*expected[:-1], f"{expected[-1]} --force"]


def test_what_dkms_does_not_know_is_told() -> None:
    dkms = Dkms(f"nvidia/580.1, {KERNEL}, x86_64: installed\n")
    with pytest.raises(BuiltModulesError, match="knows no module 'gdrdrv'"):
        rebuild(dkms.run, "gdrdrv", KERNEL)
    assert dkms.ran == []


def test_what_the_compiler_says_is_told(tmp_path: Path) -> None:
    log = tmp_path / "gdrdrv/2.6/build/make.log"
    dkms = Dkms("gdrdrv/2.6: added\n", install=10)
    with pytest.raises(BuiltModulesError, match="it says no") as told:
        rebuild(dkms.run, "gdrdrv", KERNEL, tmp_path)
    assert told.value.outcome == "dependent"
    log.parent.mkdir(parents=True)
    log.write_text("make: x\n/b/gdrdrv.c:7:1: error: unknown type name 'nvidia_p2p_page_table_t'\nmake: y\n")
    with pytest.raises(BuiltModulesError, match="nvidia_p2p_page_table_t"):
        rebuild(dkms.run, "gdrdrv", KERNEL, tmp_path)


def test_what_dkms_does_not_forget_is_told() -> None:
    dkms = Dkms(f"gdrdrv/2.6, {KERNEL}, x86_64: installed\n", unbuild=4)
    with pytest.raises(BuiltModulesError, match="'dkms unbuild"):
        rebuild(dkms.run, "gdrdrv", KERNEL)
    assert len(dkms.ran) == 1
