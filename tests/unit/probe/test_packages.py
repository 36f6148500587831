from __future__ import annotations

from gpusmith.probe import packages


def test_packages_and_holds_are_read() -> None:
    found = packages.parse_dpkg(
        "libcuda1\t580.178.04-1\thi \tlibcuda1\nnvidia-old\t1\trc \tnvidia-old\n"
        "nvidia-smi\t535.1-1\tii \tnvidia-graphics-drivers\n"
        "bash\t5.2-2\tii \tbash\n"
    )
    assert found == {
        "libcuda1": packages.Package("580.178.04-1", held=True),
        "nvidia-smi": packages.Package("535.1-1", held=False, source="nvidia-graphics-drivers"),
    }
