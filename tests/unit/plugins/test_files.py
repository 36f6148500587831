"""Files of others, in whatever encoding."""

from __future__ import annotations

from pathlib import Path

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
