"""Programs that do not end in time."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import apt, base, dnf_machine, programs

from .test_apt import script


@pytest.fixture(params=[signal.SIG_DFL, signal.SIG_IGN])
def of_a_shell(request: pytest.FixtureRequest) -> Iterator[None]:
    """What began this: a person, or a shell in the background, whose programs ignore SIGINT."""
    before = signal.signal(signal.SIGINT, request.param)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("of_a_shell")
@pytest.mark.parametrize(("run", "name"), [(apt.run, "INT"), (dnf_machine.run, "TERM")])
def test_what_is_asked_to_end_may_finish_what_it_is_doing(tmp_path: Path, run: object, name: str) -> None:
    """Apt is deaf to SIGINT, and rpm to SIGTERM, while packages are unpacked and their scripts run."""
    text = f"trap 'sleep 0.5; touch {tmp_path}/finished; exit 0' {name}; echo unpacking; while :; do sleep 0.05; done"
    with pytest.raises(
        base.UnfinishedError, match=r"did not end within 0 s, and was asked to.*'unpacking'.*half installed"
    ):
        run([script(tmp_path, text)], 0.4)  # type: ignore[operator]
    assert (tmp_path / "finished").exists()


def test_what_does_not_even_end_when_it_is_asked_to_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "ENDING_TIMEOUT_S", 0.3)
    began = time.monotonic()
    with pytest.raises(base.UnfinishedError, match="was killed"):
        dnf_machine.run([script(tmp_path, "trap '' TERM; while :; do sleep 0.05; done")], 0.2)
    assert time.monotonic() - began < 10
