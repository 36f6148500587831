"""Folders of package files on their way to a node."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleError
from ansible_collections.gpusmith.gpu.plugins.action import packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import folder
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError

from tests.unit.expect.converged import converged_record
from tests.unit.plugins.packages.test_folder import OWNER, site
from tests.unit.plugins.plays import play

HERE = {"ansible_connection": "local", "ansible_python_interpreter": "{{ ansible_playbook_python }}"}
DEBIAN = {"distribution": "Debian", "distribution_major_version": "12", "os_family": "Debian"}


class Node:
    """What a node has, and what it was sent."""

    def __init__(self, free: int = 1 << 30, has: bool = False, says: str = "") -> None:
        self.free, self.has, self.says = free, has, says
        self.full = False
        self.sent: list[str] = []
        self.asked: list[dict[str, Any]] = []

    def module(self, module_args: dict[str, Any], **_words: Any) -> dict[str, Any]:
        self.asked.append(module_args)
        if self.says:
            return {"failed": True, "msg": self.says}
        self.has |= "brought" in module_args
        return {"lacking": [] if self.has else ["all"], "free": self.free}

    def bring(self, given: dict[str, Any]) -> dict[str, Any]:
        action = packages.ActionModule.__new__(packages.ActionModule)
        action._connection = SimpleNamespace(put_file=self.put, _shell=SimpleNamespace(tmpdir="/tmp/first"))
        action._execute_module = self.module
        action._make_tmp_path = lambda: "/tmp/x/"
        action._remove_tmp_path = lambda _path: self.sent.append("removed")
        found: dict[str, Any] = action.bring(given, OWNER, {})
        # Ansible removes that one when the action ends.
        assert action._connection._shell.tmpdir == "/tmp/first"
        return found

    def put(self, here: str, there: str) -> None:
        if self.full:
            raise AnsibleError("No space left on device.")
        self.sent.append(f"{here} {there}")


def test_what_a_node_lacks_is_copied_once(tmp_path: Path) -> None:
    place, node = site(tmp_path / "site"), Node()
    known = node.bring({"folder": str(place)})
    assert known == folder.as_on_node({"folder": str(place)}, OWNER)
    assert node.sent == [
        *(f"{place}/{name} /tmp/x/{name}" for name in ("driver_1.0_amd64.deb", "libs_1%3a2.0_all.deb")),
        "removed",
    ]
    assert node.asked[-1] == {
        "name": OWNER,
        "repository": known,
        "sums": (place / folder.SUMS).read_text(),
        "brought": "/tmp/x/",
    }
    node.sent.clear()
    assert node.bring({"folder": str(place)}) == known
    assert node.sent == []


def test_a_folder_that_is_not_proved_is_not_copied(tmp_path: Path) -> None:
    place, node = site(tmp_path / "site"), Node()
    (place / "driver_1.0_amd64.deb").write_text("other")
    with pytest.raises(PackageError, match="driver_1"):
        node.bring({"folder": str(place)})
    assert node.sent == []


def test_what_has_no_room_is_not_copied(tmp_path: Path) -> None:
    node = Node(free=1)
    with pytest.raises(PackageError, match="Make room"):
        node.bring({"folder": str(site(tmp_path / "site"))})
    assert node.sent == []


def test_what_cannot_be_copied_is_told(tmp_path: Path) -> None:
    node = Node()
    node.full = True
    with pytest.raises(PackageError, match=r"cannot be brought to the node: No space left on device\. Look"):
        node.bring({"folder": str(site(tmp_path / "site"))})
    assert node.sent == ["removed"]


def test_what_the_node_says_is_told(tmp_path: Path) -> None:
    with pytest.raises(PackageError, match="is not signed"):
        Node(says="'x.rpm' is not signed").bring({"folder": str(site(tmp_path / "site"))})


def test_a_repository_that_is_no_folder_asks_nobody() -> None:
    node = Node()
    assert node.bring({"uris": ["x"]}) == {"uris": ["x"]}
    assert node.asked == []


@pytest.mark.parametrize("version", ["580", "580.178.04"])
def test_preflight_tells_what_is_wrong_with_a_folder_before_anything_is_brought(
    tmp_path: Path, version: str
) -> None:
    place = site(tmp_path / "site")
    (place / "extra.deb").touch()
    (place / folder.SUMS).unlink()
    record = converged_record()
    record["kubernetes"]["joined"] = False
    record["packages"] = {}
    record["module"]["loaded_version"] = record["module"]["installed_version"] = None
    variables = {
        **HERE,
        "node_record_now": {"record": record},
        "nvidia_driver_repository": {"folder": str(place)},
        "preflight_free_space_mib": {},
        "gpusmith_gpu_model": "h100-sxm",
    }
    include = {"name": "gpusmith.gpu.preflight", "rolespec_validate": False}
    tasks = [
        {
            "ansible.builtin.include_role": include,
            "vars": {"ansible_facts": DEBIAN, "nvidia_driver_version": version},
        },
        {
            "ansible.builtin.debug": {
                "msg": "{{ __preflight_answer.refusals | map(attribute='message') | join(' ') }}"
            }
        },
    ]
    status, output = play(tmp_path, {"gpu-1": variables}, {"tasks": tasks}, "--check")
    assert status == 0, output
    assert "sha256sum *.deb > SHA256SUMS" in output
