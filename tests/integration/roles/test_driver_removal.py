"""'nvidia_driver_state: absent' in real plays, in check mode: what would go, and where it stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpusmith.expect import removal
from gpusmith.paths import repo_root
from tests.integration.plugins.plays import play
from tests.integration.plugins.test_driver_version import DEBIAN, HERE
from tests.unit.expect.converged import converged_record
from tests.unit.expect.test_driver import bare

NOUVEAU = "/etc/modprobe.d/gpusmith-nvidia-driver.conf"


def ran(folder: Path, record: dict[str, Any], joined: bool = False) -> tuple[int, str]:
    record["kubernetes"]["joined"] = joined
    include = {"name": "gpusmith.gpu.nvidia_driver", "rolespec_validate": False}
    task = {
        "ansible.builtin.include_role": include,
        "vars": {"ansible_facts": DEBIAN, "nvidia_driver_state": "absent"},
    }
    hosts = {"gpu-1": {**HERE, "node_record_now": {"record": record}}}
    return play(folder, hosts, {"tasks": [task]}, "--check")


def test_a_node_that_serves_keeps_its_driver(tmp_path: Path) -> None:
    status, output = ran(tmp_path, converged_record(), joined=True)
    assert status != 0
    assert "part of a cluster, so its driver stays. Remove the node first" in " ".join(output.split())


def test_what_cannot_be_removed_is_refused_before_anything_changes() -> None:
    path = repo_root() / "roles/nvidia_driver/tasks/remove.yml"
    (block,) = [task["block"] for task in yaml.safe_load(path.read_text()) if "block" in task]
    of_packages = [task for task in block if "gpusmith.gpu.packages" in task]
    dry, real = of_packages[:2]
    assert dry["gpusmith.gpu.packages"] == real["gpusmith.gpu.packages"]
    assert dry["check_mode"] is True
    assert "check_mode" not in real
    # It refuses where the other one would, and tells no change twice.
    assert (dry["changed_when"], dry["diff"], "when" in dry, "failed_when" in dry) == (
        False,
        False,
        False,
        False,
    )
    looks = {"gpusmith.gpu.driver_state": "used"}
    for task in block[: block.index(dry)]:
        (module,) = [name for name in task if "." in name]
        assert module == "ansible.builtin.assert" or task[module].get("state") == looks.get(module), task[
            "name"
        ]


def test_a_machine_without_one_is_left_alone(tmp_path: Path) -> None:
    status, output = ran(tmp_path, bare())
    assert status == 0, output
    assert "Nothing would change" in output


def test_check_mode_comes_to_the_end_where_nothing_is_loaded(tmp_path: Path) -> None:
    record = {**bare(), "managed_files": {NOUVEAU: "digest"}}
    status, output = ran(tmp_path, record)
    assert status == 0, output


def test_every_file_that_the_role_writes_goes() -> None:
    content = yaml.safe_load((repo_root() / "roles/nvidia_driver/vars/main.yml").read_text())
    assert {key for key in content["__nvidia_driver_own"] if key.endswith("files")} == set(removal.FILES)
