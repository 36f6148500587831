from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpusmith.probe import boot


@pytest.fixture
def boot_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Path]:
    """Writes a file that boots read; 'etc' comes before 'run' and 'lib'."""
    monkeypatch.setattr(boot, "BOOT_FOLDERS", [str(tmp_path / name) for name in ("etc", "run", "lib")])
    monkeypatch.setattr(boot, "SYSCTL_FILES", str(tmp_path / "etc/sysctl.d/*gpusmith-*"))

    def write(path: str, text: str) -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    return write
