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
Checked (5 s): 3 hosts would change.
"""
REMOVAL = """
WHAT WOULD CHANGE ****
gpu-1:
  containerd
    packages: containerd.io 2.3.7-1 is removed, runc 1.2-1 -> 1.3-1
    files: /etc/a/gpusmith.conf, /etc/systemd/system/a.wants/gpusmith-x.service, /var/run/cdi/a.yaml, /var/lib/elsewhere
    units: gpusmith-x.service
Checked (5 s): 1 host would change.
"""
THERE = [
    "package containerd.io 2.3.7-1 ii",
    "package runc 1.2-1 ii",
    "file /etc/a/gpusmith.conf 1",
    "file /etc/containerd/config.toml 2",
    "owned /etc/containerd/config.toml",
    "file /run/cdi/a.yaml 3",
    "file /etc/own.conf 4",
    "link /etc/systemd/system/a.wants/gpusmith-x.service /etc/systemd/system/gpusmith-x.service",
    "enabled gpusmith-x.service",
    "active gpusmith-x.service",
    "active containerd.service",
]
GONE = ["package runc 1.3-1 ii", "file /etc/own.conf 4"]
BEFORE = [
    "package bash 5.2 ii",
    "file /etc/b.toml 11",
    "file /etc/own.conf 1",
    "active containerd.service",
]
AFTER = [
    "file /etc/own.conf 1",
    "file /etc/runc/default.conf 66",
    "owned /etc/runc/default.conf",
    "enabled containerd.service",
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


def removed(tmp_path: Path, after: list[str], output: str = REMOVAL) -> list[str]:
    said = foretold.told(output)["gpu-1"]
    return foretold.differences(said, machine(tmp_path, THERE), machine(tmp_path, after))


def test_what_came_as_told_differs_in_nothing(tmp_path: Path) -> None:
    assert set(foretold.told(OUTPUT)) == {"gpu-1", "gpu-2", "gpu-3"}
    assert compared(tmp_path, AFTER) == []
    # What others write is known by its path.
    assert compared(tmp_path, [*AFTER, "file /etc/kubernetes/kubelet.conf 1"]) == []


@pytest.mark.parametrize(
    ("line", "becomes", "says"),
    [
        ("package containerd.io 2.3.7-1~debian ii", "package containerd.io 2.3.8-1 ii", "2.3.7 was told, there is 2.3.8-1"),
        ("package runc 1.2-1 ii", "package crun 1.2-1 ii", "package crun was not told"),
        ("package bash 5.2 ii", "", "package bash went, and was not told"),
        ("file /etc/b.toml 33", "file /etc/b.toml 11", "file /etc/b.toml was told, and is as before"),
        ("", "file /etc/gpusmith-x.conf 1", "file /etc/gpusmith-x.conf was not told"),
        ("file /etc/own.conf 1", "", "file /etc/own.conf went, and was not told"),
        ("owned /etc/runc/default.conf", "", "file /etc/runc/default.conf was not told"),
        ("active containerd.service", "", "unit containerd.service was told, and does not run"),
        ("", "active kubelet.service", "unit kubelet.service is active, and that was not told"),
    ],
)  # fmt: skip
def test_each_difference_is_found(tmp_path: Path, line: str, becomes: str, says: str) -> None:
    after = [row for row in AFTER if row != line]
    assert says in "\n".join(compared(tmp_path, [*after, becomes] if becomes else after))


def test_what_comes_along_is_compared_only_where_it_was_told(tmp_path: Path) -> None:
    came = ["package containerd.io 2.3.7-1 ii", "package neighbour 9 ii", "package other 1 ii", *BEFORE[1:]]
    assert compared(tmp_path, came, "gpu-2") == []
    del came[1]
    assert compared(tmp_path, came, "gpu-2") == ["package neighbour (as offered) was told, there is None"]


def test_what_goes_as_told_differs_in_nothing(tmp_path: Path) -> None:
    """With a package go its files and its service; nobody looks below /var/lib/elsewhere."""
    assert removed(tmp_path, GONE) == []


@pytest.mark.parametrize(
    ("after", "says"),
    [
        ([*GONE, THERE[0]], "package containerd.io is removed was told, there is 2.3.7-1"),
        ([*GONE, THERE[2]], "file /etc/a/gpusmith.conf was told, and is as before"),
        ([*GONE, THERE[7]], "file /etc/systemd/system/a.wants/gpusmith-x.service was told, and is as before"),
        (GONE[:1], "file /etc/own.conf went, and was not told"),
    ],
)
def test_each_difference_of_a_removal_is_found(tmp_path: Path, after: list[str], says: str) -> None:
    assert says in removed(tmp_path, after)


def test_our_own_units_are_told_even_where_packages_go(tmp_path: Path) -> None:
    output = REMOVAL.replace("    units: gpusmith-x.service\n", "")
    assert len(removed(tmp_path, GONE, output)) == 2
