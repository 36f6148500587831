"""Memory and huge pages, by what the kernel shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import memory


@pytest.mark.parametrize(
    ("kib", "size"), [(64, "64Ki"), (2048, "2Mi"), (32768, "32Mi"), (1048576, "1Gi"), (16777216, "16Gi")]
)
def test_a_size_is_named_as_kubernetes_names_it(kib: int, size: str) -> None:
    assert memory.size_of(kib) == size


def test_the_total_is_that_of_the_machine() -> None:
    assert memory.total_kib("MemTotal:       24579072 kB\nMemFree:         1234 kB\n") == 24579072
    assert memory.total_kib("") is None


def test_pages_are_counted_by_size(tmp_path: Path) -> None:
    for kib, count in ((2048, "1024\n"), (1048576, "")):
        folder = tmp_path / f"hugepages-{kib}kB"
        folder.mkdir()
        (folder / "nr_hugepages").write_text(count)
    found = memory.huge_pages(str(tmp_path))
    assert found == {"2Mi": memory.HugePages(1024, False), "1Gi": memory.HugePages(None, False)}
    assert memory.huge_pages(str(tmp_path / "none")) == {}
