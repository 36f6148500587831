"""Which of the machine's own files of sources name a repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt_sources import naming

TOOLKIT = "https://nvidia.github.io/libnvidia-container/stable/deb"


@pytest.mark.parametrize(
    ("line", "address", "named"),
    [
        (f"deb {TOOLKIT}/amd64 /", f"{TOOLKIT}/amd64/", True),
        # As NVIDIA publishes it.
        (f"deb [signed-by=/usr/share/keyrings/toolkit.gpg] {TOOLKIT}/$(ARCH) /", f"{TOOLKIT}/amd64", True),
        (f"deb {TOOLKIT}/$(ARCH) /", f"{TOOLKIT}/amd64/more", False),
        (f"# deb {TOOLKIT}/$(ARCH) /", f"{TOOLKIT}/amd64", False),
    ],
)
def test_a_file_that_names_the_repository_is_found(
    line: str, address: str, named: bool, tmp_path: Path
) -> None:
    source = tmp_path / "sources.list.d/nvidia-container-toolkit.list"
    source.parent.mkdir()
    source.write_text(line + "\n")
    assert naming(address, tmp_path) == ([str(source)] if named else [])
