"""A machine's trust store gets our authorities, and a change that did not end is taken up."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.modules import trust_store

from gpusmith.inventory.authorities import texts
from gpusmith.probe import trust
from tests.authorities import authority

SITE, MORE = (texts({name: authority().certificate}) for name in ("site", "more"))


class Failed(Exception):  # noqa: N818 - what Ansible calls it
    """The module says that it failed."""


class Machine:
    """A folder of certificates, and a store that 'update' makes of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        self.commands: list[list[str]] = []
        self.status = 0
        self.forgets = False
        self.ended: dict[str, Any] = {}

    def update(self, command: list[str]) -> tuple[int, str, str]:
        self.commands.append(command)
        if self.status == 0 and not self.forgets:
            files = sorted(self.folder.glob("*.crt"))
            self.store.write_text("".join(path.read_text() for path in files))
        return self.status, "", "no space left" if self.status else ""

    def run(self, certificates: dict[str, str], check: bool = False) -> bool:
        params = {"certificates": certificates, "folder": str(self.folder), "suffix": ".crt"}
        params |= {"update": ["update"], "fresh": ["--fresh"]}

        def fails(msg: str) -> None:
            raise Failed(msg)

        module = SimpleNamespace(
            params=params, check_mode=check, run_command=self.update, fail_json=fails,
            exit_json=lambda **answer: self.ended.update(answer),
        )  # fmt: skip
        trust_store.AnsibleModule = lambda **_arguments: module
        trust_store.main()
        return bool(self.ended["changed"])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(trust, "FOLDERS", (str(tmp_path),))
    monkeypatch.setattr(trust, "BUNDLES", (str(tmp_path / "store"),))
    monkeypatch.setattr(trust, "STAMP", str(tmp_path / "stamp"))
    monkeypatch.setattr(trust_store.bundle, "take", lambda _module: None)
    monkeypatch.setattr(trust_store, "AnsibleModule", None)
    return Machine(tmp_path)


def test_authorities_come_change_and_leave(machine: Machine) -> None:
    assert machine.run(SITE, check=True)
    assert machine.commands == []
    assert not list(machine.folder.iterdir())
    assert machine.run(SITE)
    assert not machine.run(SITE)
    assert machine.run({**SITE, **MORE})
    other = {"site": texts({"site": authority().certificate})["site"]}
    assert machine.run(other)
    assert machine.ended["paths"] == [f"{machine.folder}/gpusmith-{name}.crt" for name in ("site", "more")]
    assert machine.run({})
    assert not machine.run({})
    assert machine.commands == [["update"], ["update"], ["update", "--fresh"], ["update", "--fresh"]]
    assert machine.store.read_text() == ""


def test_a_change_that_did_not_end_is_taken_up(machine: Machine) -> None:
    machine.run(SITE)
    machine.status = 1
    with pytest.raises(Failed, match=r"'update --fresh' ended with 1.* It said: no space left"):
        machine.run({})
    assert trust.gather().pending
    machine.status = 0
    assert machine.run({})
    assert machine.store.read_text() == ""
    assert not trust.gather().pending
    assert not machine.run({})


def test_a_store_that_does_not_take_a_certificate_is_no_success(machine: Machine) -> None:
    machine.forgets = True
    with pytest.raises(Failed, match="the trust store lacks site"):
        machine.run(SITE)


def test_files_of_others_stay(machine: Machine) -> None:
    theirs = machine.folder / "gpusmith-site.crt"
    theirs.write_text("a person's")
    with pytest.raises(Failed, match="gpusmith did not write it"):
        machine.run(SITE)
    assert not machine.run({})
    assert theirs.read_text() == "a person's"
