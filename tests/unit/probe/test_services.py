from __future__ import annotations

from typing import Any, cast

import pytest

from gpusmith.probe import services


def test_services_are_read_with_their_start_in_unix_time() -> None:
    text = (
        "Id=containerd.service\nActiveState=active\nUnitFileState=enabled\n"
        "ActiveEnterTimestamp=Sat 2026-11-21 10:11:57 UTC\nNeedDaemonReload=yes\n\n"
        "Id=kubelet.service\nActiveState=inactive\nUnitFileState=\nActiveEnterTimestamp=\n"
    )
    found = services.parse_services(text)
    assert found["containerd"] == services.Service(
        "active", "enabled", started_unix=1795255917.0, changed=True, reload_due=True
    )
    assert found["kubelet"] == services.Service("inactive", "not-found")


def test_a_reload_that_systemd_wants_for_all_units_says_nothing_of_one() -> None:
    text = (
        "Id=containerd.service\nActiveState=active\nUnitFileState=enabled\nNeedDaemonReload=yes\n\n"
        "Id=init.scope\nActiveState=active\nUnitFileState=\nNeedDaemonReload={}\n"
    )
    assert services.parse_services(text.format("yes")) == {
        "containerd": services.Service("active", "enabled", changed=False, reload_due=True)
    }
    assert services.parse_services(text.format("no")) == {
        "containerd": services.Service("active", "enabled", changed=True, reload_due=True)
    }


def test_systemd_is_asked_for_the_unit_that_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(services, "Command", lambda *words: asked.append(words))
    services.ask()
    assert asked[0][-1] == "init.scope"
    assert "init.scope" not in asked[1]


class Said:
    """A program that has ended."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def output(self, _errors: list[str], **_more: object) -> str | None:
        return self.text


def test_what_boots_do_is_read_from_files_not_from_what_systemd_has_read() -> None:
    shown = Said(
        "Id=a.service\nActiveState=active\nUnitFileState=disabled\n\nId=b.service\nActiveState=active\nUnitFileState=enabled\n"
    )
    listed = Said("a.service enabled enabled\n")
    found = services.gather(cast(Any, (shown, listed)), [])
    assert {name: unit.enabled for name, unit in found.items()} == {"a": "enabled", "b": "not-found"}
    found = services.gather(cast(Any, (shown, Said(None))), [])
    assert {name: unit.enabled for name, unit in found.items()} == {"a": "disabled", "b": "enabled"}
