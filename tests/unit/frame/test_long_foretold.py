"""How tests/long/test_roles.py compares what check mode told with what came."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.long import foretold

OUTPUT = """
WHAT WOULD CHANGE ****
gpu-1, gpu-3:
  containerd
    packages: containerd.io 2.3.7
    files: /etc/a/gpusmith.conf, /etc/b.toml
    units: containerd.service
  packages that come along: runc 1.2-1
  only a run can tell: whether the package's '/etc/gpusmith.toml' has to be completed
gpu-2:
  containerd
    packages: containerd.io 2.3.7, neighbour (as offered)
  only a run can tell: which packages come along as dependencies: the node has no list of the repository yet
the cluster:
  gpu_operands
    objects: Namespace 'x'
Checked (5 s): 3 hosts would change.
gpu-9:
  packages: nothing 1
"""
BEFORE = ["package bash 5.2 ii", "file /etc/b.toml 11", "active containerd.service"]
AFTER = [
    "package bash 5.2 ii",
    "package containerd.io 2.3.7-1~debian ii",
    "package runc 1.2-1 ii",
    "package linux-headers-6.1.0-40-amd64 6.1 ii",
    "file /etc/a/gpusmith.conf 22",
    "file /etc/b.toml 33",
    "file /etc/gpusmith.toml 44",
    "file /etc/gpusmith.toml.before-gpusmith 55",
    "active containerd.service",
]


def machine(tmp_path: Path, lines: list[str]) -> foretold.Machine:
    path = tmp_path / "kept"
    path.write_text("".join(f"{line}\n" for line in lines))
    return foretold.kept(path)


def compared(tmp_path: Path, after: list[str], name: str = "gpu-1") -> list[str]:
    said = foretold.told(OUTPUT)[name]
    return foretold.differences(said, machine(tmp_path, BEFORE), machine(tmp_path, after))


def test_what_is_told_is_read_by_machine() -> None:
    found = foretold.told(OUTPUT)
    assert set(found) == {"gpu-1", "gpu-2", "gpu-3", "the cluster"}
    assert found["gpu-1"] == found["gpu-3"]
    assert dict(found["gpu-1"].packages) == {"containerd.io": "2.3.7", "runc": "1.2-1"}
    assert (found["gpu-1"].complete, found["gpu-2"].complete) == (True, False)


def test_what_came_as_told_differs_in_nothing(tmp_path: Path) -> None:
    assert compared(tmp_path, AFTER) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("2.3.7-1~debian", "2.3.8-1"), "package containerd.io 2.3.7 was told, there is 2.3.8-1"),
        (("package runc 1.2-1 ii", "package crun 1.2-1 ii"), "package crun was not told"),
        (("file /etc/b.toml 33", "file /etc/b.toml 11"), "file /etc/b.toml was told, and is as before"),
        (
            ("file /etc/b.toml 33", "file /etc/b.toml 33\nfile /etc/gpusmith-x.conf 1"),
            "file /etc/gpusmith-x.conf was not told",
        ),
        (
            ("active containerd.service", "active kubelet.service"),
            "unit containerd.service was told, and does not run",
        ),
    ],
)
def test_each_difference_is_found(tmp_path: Path, change: tuple[str, str], says: str) -> None:
    assert says in compared(tmp_path, [line.replace(*change) for line in AFTER])


def test_what_comes_along_is_compared_only_where_it_was_told(tmp_path: Path) -> None:
    came = ["package containerd.io 2.3.7-1 ii", "package neighbour 9 ii", "package other 1 ii"]
    assert compared(tmp_path, came, "gpu-2") == []
    assert compared(tmp_path, came[:1], "gpu-2") == ["package neighbour (as offered) was told, there is None"]
