"""What of MPS is on a machine."""

from __future__ import annotations

from pathlib import Path

from gpusmith.probe.mps import Mps, gather


def process(proc: Path, pid: int, *words: str) -> None:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "comm").write_text(f"{Path(words[0]).name[:15]}\n")
    (folder / "cmdline").write_text("\0".join([*words, ""]))


def test_control_daemons_are_told_from_their_servers(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    process(proc, 7, "/usr/bin/nvidia-cuda-mps-control", "-d")
    process(proc, 8, "nvidia-cuda-mps-server")
    process(proc, 9, "/bin/sh", "nvidia-cuda-mps-control")
    (proc / "self").mkdir()
    (tmp_path / "mps").mkdir()
    assert gather(str(proc), str(tmp_path / "mps")) == Mps((7,), left=True)


def test_a_machine_without_mps(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    assert gather(str(tmp_path / "proc"), str(tmp_path / "none")) == Mps()
