from __future__ import annotations

from gpusmith.probe import packages


def test_packages_and_holds_are_read() -> None:
    found = packages.parse_dpkg("libcuda1\t580.178.04-1\thi \nold\t1\trc \nnvidia-smi\t535.1-1\tii \n")
    assert found == {
        "libcuda1": packages.Package("580.178.04-1", held=True),
        "nvidia-smi": packages.Package("535.1-1", held=False),
    }
