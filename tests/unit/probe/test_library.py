from __future__ import annotations

import sys
from pathlib import Path

from gpusmith.probe import library


def test_a_soname_is_resolved_by_the_loaders_cache(tmp_path: Path) -> None:
    real = tmp_path / "libnvidia-ml.so.580.178.04"
    real.touch()
    link = tmp_path / "libnvidia-ml.so.1"
    link.symlink_to(real)
    cache = f"\tlibnvidia-ml.so.1 (libc6,x86-64) => {link}\n"
    found = library.find_libraries("libnvidia-ml.so.1", cache, "x86_64")[0]
    assert found == str(real)
    assert library.version_of_file(found) == "580.178.04"


def test_a_library_that_shadows_the_drivers_is_seen(tmp_path: Path) -> None:
    paths = [tmp_path / "local" / "libcuda.so.1", tmp_path / "lib" / "libcuda.so.580.178.04"]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    link = tmp_path / "lib" / "libcuda.so.1"
    link.symlink_to(paths[1])
    cache = "".join(f"\tlibcuda.so.1 (libc6,x86-64) => {path}\n" for path in (paths[0], link))
    assert library.find_libraries("libcuda.so.1", cache, "x86_64")[:2] == [str(path) for path in paths]
    found = library.library_file(library.find_libraries("libcuda.so.1", cache, "x86_64"))
    assert (found.path, found.fault, found.shadows[0]) == (str(paths[0]), "is empty", str(paths[1]))


def test_a_library_that_cannot_be_loaded_is_seen_without_loading_it(tmp_path: Path) -> None:
    whole = Path(sys.executable).resolve()
    assert library.library_fault(str(whole)) is None
    path = tmp_path / "libcuda.so.1"
    path.touch()
    assert library.library_fault(str(path)) == "is empty"
    path.write_text("INPUT(libother.so)\n" * 10)
    assert library.library_fault(str(path)) == "is no ELF file"
    path.write_bytes(whole.read_bytes()[:4096])
    assert library.library_fault(str(path)) == "is cut off after 4096 bytes"
    assert "No such file" in str(library.library_fault(str(tmp_path / "none")))
