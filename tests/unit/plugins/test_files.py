"""Files of others, in whatever encoding."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import files

LATIN = "# f\xfcr die K\xf6pfe\n".encode("latin-1")


def test_what_is_not_utf_8_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(LATIN)
    text = files.read(path)
    assert text is not None
    files.put(path, text + "ours\n")
    assert path.read_bytes() == LATIN + b"ours\n"
    # Ansible refuses a result with anything else than UTF-8.
    assert files.shown(text).encode().startswith(b"# f")


def test_a_file_that_the_disk_has_no_room_for_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def full(_path: Path, _data: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left") as caught:
        files.put(path, "after")
    assert caught.value.filename == str(path)
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "before"
