"""What a node keeps before a service is changed, and what it says of the service."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpusmith.gpu.plugins.action import serving_change as action
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    manifests,
)
from ansible_collections.gpusmith.gpu.plugins.modules import serving_change
from ansible_collections.gpusmith.gpu.plugins.modules.serving_change import Change, last_words

from gpusmith.expect.changes import OF
from gpusmith.node.serving import CRI
from gpusmith.paths import repo_root
from gpusmith.probe.managed import CHANGES

JOURNAL = """I1122 10:00:00.1 1 server.go:1] "Kubelet version"
E1122 10:00:01.2 1 run.go:72] "command failed" err="unknown eviction signal"
"""


class Machine:
    """systemctl and journalctl of a machine."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.state = "active\nSubState=running\nInvocationID=abc\nActiveEnterTimestampMonotonic=1000000"

    def run(self, words: Sequence[str]) -> tuple[int, str, str]:
        self.ran.append(" ".join(words))
        return 0, JOURNAL if words[0] == "journalctl" else f"ActiveState={self.state}\n", ""


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def change(tmp_path: Path, machine: Machine) -> Change:
    versions = {"kubelet": "1.36.2-1.1"}
    return Change("kubernetes_node", "kubelet", machine.run, lambda _names: versions, tmp_path / "changes")


def test_what_was_there_is_kept_and_comes_back(change: Change, tmp_path: Path) -> None:
    there, new = tmp_path / "there.conf", tmp_path / "new.conf"
    there.write_text("old ä\n")
    assert change.begin([str(there), str(new)], ["kubelet", "absent"], ready=True)
    kept = tmp_path / "changes" / "kubernetes_node.json"
    # Files may have secrets.
    assert (kept.stat().st_mode & 0o777, kept.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    there.write_text("new\n")
    new.write_text("new\n")
    seen = change.look()
    assert (seen["open"], seen["before"], seen["ready"]) == (True, "abc", True)
    assert seen["files"] == [str(there), str(new)]
    assert change.restore() == [str(there), str(new)]
    assert there.read_text() == "old ä\n"
    assert not new.exists()
    assert change.look()["files"] == []
    change.end()
    assert change.look()["open"] is False
    change.end()


def test_a_file_that_comes_back_is_as_private_as_it_was(change: Change, tmp_path: Path) -> None:
    secret = tmp_path / "config.toml"
    secret.write_text("password")
    secret.chmod(0o600)
    change.begin([str(secret)], [], True)
    for change_it in (lambda: secret.write_text("another"), secret.unlink):
        change_it()
        assert change.restore() == [str(secret)]
        assert (secret.read_text(), secret.stat().st_mode & 0o777) == ("password", 0o600)


def test_what_was_good_last_is_not_lost_to_a_second_run(change: Change, tmp_path: Path) -> None:
    file = tmp_path / "file.conf"
    file.write_text("good\n")
    change.begin([str(file)], [], ready=True)
    file.write_text("bad\n")
    assert not change.begin([str(file)], [], ready=False)
    assert change.look()["ready"] is True
    change.restore()
    assert file.read_text() == "good\n"


def test_what_is_there_when_another_run_begins_is_not_lost(change: Change, tmp_path: Path) -> None:
    file = tmp_path / "file.conf"
    file.write_text("good\n")
    change.begin([str(file)], [], ready=True)
    assert change.look()["aside"] == ""
    change.begin([str(file)], [], ready=True)
    assert change.look()["aside"] == ""
    file.write_text("a person's\n")
    change.begin([str(file)], [], ready=True)
    change.restore()
    assert file.read_text() == "good\n"
    aside = Path(change.look()["aside"])
    assert json.loads(aside.read_text())["files"] == {str(file): "a person's\n"}
    assert aside.stat().st_mode & 0o777 == 0o600
    change.end()
    assert aside.exists()
    # It is no open change.
    assert not fnmatch(str(aside), "*.json")


def test_commands_are_asked_with_the_look(change: Change, machine: Machine) -> None:
    assert change.look(["ctr version", "false"])["answers"] == [
        {"asked": words, "status": 0, "output": f"ActiveState={machine.state}\n", "error": ""}
        for words in ("ctr version", "false")
    ]

    def missing(_words: Sequence[str]) -> tuple[int, str, str]:
        raise FileNotFoundError("no such program")

    change._run = missing
    assert change._answer("ctr")["status"] == 127


def test_packages_that_changed_are_named_with_what_they_were(tmp_path: Path, machine: Machine) -> None:
    versions = {"kubelet": "1.36.2-1.1", "kubeadm": "1.36.2-1.1"}
    change = Change("kubernetes_node", "kubelet", machine.run, lambda _names: versions, tmp_path)
    change.begin([], ["kubelet", "kubeadm", "kubectl"], ready=True)
    versions.update(kubelet="1.36.3-1.1", kubectl="1.36.3-1.1")
    seen = change.look()
    assert seen["packages"] == {"kubelet": "1.36.2-1.1"}
    # All of the set go back at once, and none that was not there.
    assert seen["former"] == {"kubelet": "1.36.2-1.1", "kubeadm": "1.36.2-1.1"}


def test_packages_are_kept_with_the_change_and_go_with_it(change: Change, tmp_path: Path) -> None:
    before = change.look(["kubelet"])
    assert (before["open"], before["former"]) == (False, {"kubelet": "1.36.2-1.1"})
    folder = Path(before["folder"])
    assert folder.parent == tmp_path / "changes"
    folder.mkdir(parents=True)
    change.begin([], ["kubelet"], ready=True)
    assert change.look()["saved"] is False
    (folder / manifests.MANIFEST).touch()
    assert change.look()["saved"] is True
    change.end()
    assert not folder.exists()


def test_a_unit_that_does_not_run_says_its_last_words(change: Change, machine: Machine) -> None:
    change.begin([], [], ready=True)
    assert change.look()["words"] == ""
    machine.state = "activating\nSubState=auto-restart\nInvocationID=abd\nActiveEnterTimestampMonotonic=0"
    seen = change.look()
    assert (seen["active"], seen["sub"], seen["up_s"]) == ("activating", "auto-restart", 0.0)
    assert seen["words"] == 'E1122 10:00:01.2 1 run.go:72] "command failed" err="unknown eviction signal"'
    assert machine.ran[-1].startswith("journalctl _SYSTEMD_UNIT=kubelet.service --since=@")


def test_last_words_are_errors_if_there_are_some() -> None:
    assert last_words("a\nb\nc\n\nd\n") == "b c d"
    assert last_words('time="x" level=fatal msg="no"\nfurther\n') == 'time="x" level=fatal msg="no"'
    assert last_words("") == ""


def test_probe_and_judge_know_where_it_is_kept() -> None:
    assert str(serving_change.FOLDER) == CHANGES
    for role, (unit, _cure) in OF.items():
        tasks = (repo_root() / "roles" / role / "tasks/main.yml").read_text()
        assert f"__serving_change_role: gpusmith.gpu.{role}\n" in tasks
        assert f"__serving_change_unit: {unit}\n" in tasks


ASKED: dict[str, Any] = {
    "subject": "containerd", "unit": "containerd", "node": "gpu-1", "kubeconfig": "k", "files": [], "asks": [],
    "restart_with": [],
    "packages": {"name": "containerd", "repository": {"uris": ["dead"]}, "packages": {"containerd.io": "2.3.7"}},
    "stay": 0.0, "timeout": 1.0, "reason": "broken",
}  # fmt: skip


def test_the_way_back_is_saved_first_and_needs_no_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {
        "open": False, "former": {"containerd.io": "2.3.6-1"}, "folder": "/saved", "saved": True, "files": [], "invocation": "2",
        "before": "1", "packages": {"containerd.io": "2.3.6-1"}, "active": "active", "sub": "running", "up_s": 9.0,
        "started": 1.0, "ready": True, "aside": "",
        "answers": [{"asked": CRI, "status": 0, "output": "ID: cri\n", "error": ""}],
    }  # fmt: skip
    calls: list[tuple[str, dict[str, Any]]] = []

    def run(name: str, arguments: dict[str, Any], _variables: Any) -> dict[str, Any]:
        calls.append((name.split(".")[-1], dict(arguments)))
        return seen

    module = object.__new__(action.ActionModule)
    monkeypatch.setattr(module, "_module", run)
    monkeypatch.setattr(action, "Cluster", lambda _path: None)
    monkeypatch.setattr(action.heartbeat, "is_ready", lambda _cluster, _node: True)
    monkeypatch.setattr(action.heartbeat, "wait", lambda *_words, **_options: None)
    module._act({**ASKED, "state": "begun"}, None)
    assert [arguments.get("step", "packages") for _name, arguments in calls] == ["look", "packages", "begin"]
    kept = {"packages": {"containerd.io": "2.3.6-1"}, "folder": "/saved"}
    assert calls[1][1] == {**ASKED["packages"], **kept, "state": "fetched"}
    calls.clear()
    seen["open"] = True
    module._act({**ASKED, "state": "taken_back"}, None)
    (back,) = [arguments for name, arguments in calls if name == "packages"]
    assert back == {**ASKED["packages"], **kept, "state": "present"}
