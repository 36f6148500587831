"""What results of tasks say of what they changed."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.verdict.changes import Told, of_task


def changes(action: str, **result: Any) -> dict[str, list[str]]:
    told = of_task(action, {"changed": True, **result})
    return {kind: list(items) for kind, items in told.changes.items() if items}


def test_packages_with_their_versions() -> None:
    told = of_task(
        "gpusmith.gpu.packages",
        {
            "changed": True,
            "packages": {
                "kubelet": {"before": "1.36.2-1.1", "after": "1.36.3-1.1"},
                "kubectl": {"before": "1.36.3-1.1", "after": "1.36.3-1.1"},
                "cuda-toolkit-12-8": {"before": None, "after": None},
                "linux-headers": {"before": None, "after": None},
            },
            "plan": {
                "installed": {"cuda-toolkit-12-8": "12.8.1-1", "cri-tools": "1.36.0"},
                "changed": {"kubelet": ["1.36.2-1.1", "1.36.3-1.1"], "libc6": ["1", "2"]},
                "removed": {"runc": "1.1"},
            },
            "invocation": {"module_args": {"unversioned": ["cuda-toolkit-12-8"]}},
            "diff": [{"after_header": "/etc/apt/preferences.d/gpusmith-kubernetes.pref"}],
        },
    )
    assert {kind: list(items) for kind, items in told.changes.items()} == {
        "packages": ["kubelet 1.36.2-1.1 -> 1.36.3-1.1", "cuda-toolkit-12-8 12.8.1-1"],
        "dependencies": ["cri-tools 1.36.0", "libc6 1 -> 2", "runc 1.1 is removed"],
        "files": ["/etc/apt/preferences.d/gpusmith-kubernetes.pref"],
    }
    assert not told.unpredictable


def test_packages_that_are_only_saved_change_their_folder() -> None:
    asked = {"module_args": {"state": "fetched", "folder": "/saved"}}
    assert changes("gpusmith.gpu.packages", packages={}, saved={"a": "1"}, invocation=asked) == {
        "files": ["/saved"]
    }


def test_packages_of_a_repository_that_the_node_does_not_have_yet() -> None:
    told = of_task(
        "gpusmith.gpu.packages",
        {"changed": True, "packages": {"containerd.io": {"before": None, "after": "2.3.7"}}},
    )
    assert list(told.changes["packages"]) == ["containerd.io 2.3.7"]
    assert "dependencies" in next(iter(told.unpredictable))


def test_packages_that_go() -> None:
    told = of_task(
        "gpusmith.gpu.packages",
        {
            "changed": True,
            "packages": {"containerd.io": {"before": "2.3.7-1", "after": None}},
            "diff": [{"after_header": "/etc/apt/preferences.d/gpusmith-containerd.pref"}],
            "invocation": {"module_args": {"state": "absent"}},
        },
    )
    assert {kind: list(items) for kind, items in told.changes.items() if items} == {
        "packages": ["containerd.io 2.3.7-1 is removed"],
        "files": ["/etc/apt/preferences.d/gpusmith-containerd.pref"],
    }
    # Which packages go with it was asked before.
    assert not told.unpredictable


def test_holds_alone() -> None:
    same = {"containerd.io": {"before": "2.3.7-1", "after": "2.3.7-1"}}
    assert changes("gpusmith.gpu.packages", packages=same) == {"more": ["packages are held, or released"]}


@pytest.mark.parametrize(
    ("action", "result", "told"),
    [
        ("ansible.builtin.copy", {"dest": "/etc/a", "state": "file"}, {"files": ["/etc/a"]}),
        ("ansible.builtin.file", {"path": "/etc/a", "state": "directory"}, {}),
        # As check mode says that a folder would be made.
        (
            "ansible.builtin.file",
            {"path": "/etc/a", "invocation": {"module_args": {"state": "directory"}}},
            {},
        ),
        ("ansible.builtin.systemd_service", {"name": "containerd"}, {"units": ["containerd.service"]}),
        ("ansible.builtin.systemd_service", {"name": "a.service"}, {"units": ["a.service"]}),
        ("ansible.builtin.systemd_service", {"name": None}, {}),
        (
            "gpusmith.gpu.containerd_config",
            {"diff": [{"after_header": "/etc/b"}], "restarted": True},
            {"files": ["/etc/b"], "units": ["containerd.service"]},
        ),
        ("gpusmith.gpu.operands", {"objects": ["A"], "left_out": ["B"]}, {"objects": ["A", "B"]}),
        ("gpusmith.gpu.swap_off", {}, {"more": ["swap is turned off, now and at boot"]}),
        (
            "gpusmith.gpu.gpu_partitions",
            {"done": ["MIG mode is on"], "diff": [{"after_header": "/etc/a"}]},
            {"files": ["/etc/a"], "more": ["MIG mode is on"]},
        ),
        ("ansible.builtin.set_fact", {"path": "/etc/a"}, {}),
    ],
)
def test_by_module(action: str, result: dict[str, Any], told: dict[str, list[str]]) -> None:
    assert changes(action, **result) == told


def test_items_of_a_loop_that_changed() -> None:
    items = [{"changed": True, "dest": "/etc/a"}, {"changed": False, "dest": "/etc/b"}]
    assert changes("ansible.builtin.copy", results=items) == {"files": ["/etc/a"]}


def test_a_command_that_check_mode_leaves_out() -> None:
    words = {"changed": False, "skipped": True, "msg": "Command would have run if not in check mode"}
    told = of_task("ansible.builtin.command", {**words, "cmd": ["modprobe", "--all", "overlay"]})
    assert list(told.changes["commands"]) == ["modprobe --all overlay"]
    assert not of_task("ansible.builtin.command", {"skipped": True, "msg": "no"}).changes


def test_the_same_twice_is_told_once() -> None:
    told = Told()
    told.add({"files": ["/etc/a"]}, notes=["n"])
    told.add({"files": ["/etc/a", "/etc/b"]}, notes=["n"])
    assert list(told.changes["files"]) == ["/etc/a", "/etc/b"]
    assert list(told.notes) == ["n"]
