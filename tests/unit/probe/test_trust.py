"""Which of our certificates the trust store has, and what containerd started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import authorities

from gpusmith.inventory.authorities import digests, texts
from gpusmith.probe import containerd, trust
from tests.authorities import authority


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with our files, the store 'bundle', and 'stamp'."""
    monkeypatch.setattr(trust, "FOLDERS", (str(tmp_path), "/nonexistent"))
    monkeypatch.setattr(trust, "BUNDLES", (str(tmp_path / "none"), str(tmp_path / "bundle")))
    monkeypatch.setattr(trust, "STAMP", str(tmp_path / "stamp"))
    return tmp_path


def test_repositories_are_asked_with_what_the_store_has() -> None:
    """Nodes that have no probe yet ask repositories, so that the paths stand twice."""
    assert authorities.STORES == trust.BUNDLES


def test_a_certificate_is_known_by_what_it_is_not_by_its_lines(machine: Path) -> None:
    certificates = {"a": authority().certificate, "b": authority().certificate}
    lines = certificates["a"].splitlines()
    (machine / "bundle").write_text("# someone\n" + "\n".join([lines[0], "".join(lines[1:-1]), lines[-1]]))
    for name, text in texts(certificates).items():
        (machine / f"gpusmith-{name}.crt").write_text(text)
    (machine / "gpusmith-half.crt").write_text("# Written by gpusmith\n-----BEGIN CERTIFICATE-----\nMII")
    (machine / "gpusmith-theirs.crt").write_text(certificates["a"])
    found = trust.gather()
    assert found.authorities == {"a": digests(certificates)["a"], "b": "", "half": ""}
    assert found.pending is False
    (machine / "stamp").write_text(trust.PENDING)
    assert trust.gather().pending is True


def test_a_start_of_containerd_goes_by_what_the_store_has_of_ours(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containerd, "ENVIRONMENT", ())
    without = containerd.start_digest("dump")
    assert without == containerd.digest("dump")
    (text,) = texts({"a": authority().certificate}).values()
    (machine / "gpusmith-a.crt").write_text(text)
    assert containerd.start_digest("dump") == without
    (machine / "bundle").write_text(text)
    with_one = containerd.start_digest("dump")
    assert with_one != without
    (machine / "gpusmith-a.crt").write_text(text.replace("; changes", "; all changes"))
    assert containerd.start_digest("dump") == with_one


def test_without_a_note_the_stamp_tells_that_containerd_is_older(machine: Path) -> None:
    before = containerd.changed_unix()
    (machine / "stamp").write_text("done\n")
    os.utime(machine / "stamp", (4_000_000_000, 4_000_000_000))
    assert containerd.changed_unix() == 4_000_000_000
    assert before is None or before < 4_000_000_000
