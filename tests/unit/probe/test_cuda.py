"""CUDA toolkits that lie side by side."""

from __future__ import annotations

from pathlib import Path

from gpusmith.probe import cuda


def toolkit(folder: Path, version: str) -> Path:
    made = folder / f"cuda-{version}"
    (made / "bin").mkdir(parents=True)
    (made / "bin" / "nvcc").touch()
    return made


def test_toolkits_are_those_with_a_compiler(tmp_path: Path) -> None:
    (tmp_path / "cuda-11.8").mkdir()
    toolkit(tmp_path, "12.8")
    (tmp_path / "cuda").symlink_to(toolkit(tmp_path, "13.0"))
    assert cuda.gather(str(tmp_path)) == cuda.Cuda(("12.8", "13.0"), "13.0")


def test_a_link_that_leads_nowhere_is_no_default(tmp_path: Path) -> None:
    (tmp_path / "cuda").symlink_to(tmp_path / "cuda-13.0")
    assert cuda.gather(str(tmp_path)) == cuda.Cuda()
