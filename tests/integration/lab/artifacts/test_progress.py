"""Long commands tell how far they are."""

from __future__ import annotations

from pathlib import Path

import pytest
from gpulab import progress


def test_a_long_command_tells_from_its_own_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "TELL_S", 0.2)
    log = tmp_path / "log"
    log.write_text("an earlier command\n")
    command = ["sh", "-c", "echo one; echo two; sleep 1"]
    progress.run_logged(command, log, tell=lambda text: f"{len(text.splitlines())} lines")
    assert "    2 lines\n" in capsys.readouterr().err
    assert "an earlier command" in log.read_text()
