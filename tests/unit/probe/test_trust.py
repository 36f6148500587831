"""Which of our certificates the trust store has."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpusmith.probe import containerd, trust
from tests.authorities import authority


def test_a_certificate_is_known_by_what_it_is_not_by_its_lines(tmp_path: Path) -> None:
    trusted, other, unwritten = (authority().certificate for _ in range(3))
    lines = trusted.splitlines()
    bundle = tmp_path / "bundle.crt"
    bundle.write_text(
        "# someone\n" + "\n".join([lines[0], "".join(lines[1:-1]), lines[-1]]) + "\n" + unwritten
    )
    (tmp_path / "gpusmith-a.crt").write_text(f"# Written by gpusmith\n{trusted}")
    (tmp_path / "gpusmith-b.crt").write_text(other)
    patterns = (f"{tmp_path}/gpusmith-*.crt", f"{tmp_path}/none/*.pem")
    assert trust.gather(patterns, (str(tmp_path / "none"), str(bundle))) == (f"{tmp_path}/gpusmith-a.crt",)
    assert trust.gather(patterns[1:], (str(bundle),)) == ()


def test_a_start_of_containerd_goes_by_our_authorities(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gpusmith-a.crt"
    monkeypatch.setattr(trust, "paths", lambda: [str(file)])
    monkeypatch.setattr(containerd, "ENVIRONMENT", ())
    without = containerd.start_digest("dump")
    assert without == containerd.digest("dump")
    file.write_text("one")
    with_one = containerd.start_digest("dump")
    file.write_text("another")
    assert len({without, with_one, containerd.start_digest("dump")}) == 3
