"""The mirrors come from this machine's apt configuration, in both of its formats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from gpulab.artifacts import debian
from gpulab.artifacts.store import Store

from gpusmith.errors import ToolError

DEB822 = """\
Types: deb
# a comment
URIs: http://mirror.invalid/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /some/key.gpg

Types: deb deb-src
URIs: http://mirror.invalid/security
Suites: bookworm-security
Components: main

Enabled: no
Types: deb
URIs: http://off.invalid/debian
Suites: bookworm
Components: main

Types: deb
URIs: http://vendor.invalid/docker
Suites: bookworm
Components: stable
"""
ONE_LINE = """\
# deb http://commented.invalid/debian trixie main
deb [arch=amd64 signed-by=/a.gpg] http://mirror.invalid/debian trixie main non-free # here
deb-src http://mirror.invalid/debian trixie main
deb http://other.invalid/pg trixie-pgdg main
"""


def machine(folder: Path, codename: str, name: str, text: str) -> tuple[Path, Path]:
    target = folder / "apt" / name
    target.parent.mkdir(parents=True)
    (folder / "apt" / "sources.list.d").mkdir(exist_ok=True)
    target.write_text(text)
    release = folder / "os-release"
    release.write_text(f'ID=debian\nVERSION_CODENAME="{codename}"\n')
    return folder / "apt", release


def test_the_suite_is_replaced_in_own_sources_only(tmp_path: Path) -> None:
    places = machine(tmp_path, "bookworm", "sources.list.d/debian.sources", DEB822)
    found = debian.sources_for("trixie", *places)
    assert [(source.uri, source.suite) for source in found] == [
        ("http://mirror.invalid/debian", "trixie"),
        ("http://mirror.invalid/debian", "trixie-updates"),
        ("http://mirror.invalid/security", "trixie-security"),
    ]


def test_one_line_sources(tmp_path: Path) -> None:
    places = machine(tmp_path, "trixie", "sources.list", ONE_LINE)
    assert debian.sources_for("bookworm", *places) == [
        debian.Source("http://mirror.invalid/debian", "bookworm", ("main",))
    ]


def test_a_machine_without_debian_sources_is_refused(tmp_path: Path) -> None:
    places = machine(tmp_path, "noble", "sources.list", ONE_LINE)
    with pytest.raises(ToolError, match="noble"):
        debian.sources_for("bookworm", *places)


@pytest.mark.parametrize("name", ["node", "depot", "slim", "workload", "sysroot"])
def test_the_described_file_systems_can_be_read(name: str) -> None:
    assert debian.load(name).packages


def test_nodes_are_bare() -> None:
    packages = set(debian.load("node").packages)
    roles_install = {"containerd", "containerd.io", "runc", "kubelet", "kubeadm", "nvidia-smi", "dkms"}
    assert not packages & roles_install
    assert {"python3", "python3-apt", "openssh-server", "systemd-sysv"} <= packages


def test_the_base_of_kube_proxy_has_names_of_protocols() -> None:
    assert {"netbase", "nftables"} <= set(debian.load("slim").packages)


def test_an_unknown_file_system_is_refused() -> None:
    with pytest.raises(ToolError, match="nonsense"):
        debian.load("nonsense")


def test_links_of_a_sysroot_stay_inside(tmp_path: Path) -> None:
    library = tmp_path / "usr/lib/ld.so.2"
    library.parent.mkdir(parents=True)
    library.write_text("the sysroot's")
    (tmp_path / "lib64").mkdir()
    absolute, relative = tmp_path / "lib64/ld.so.2", tmp_path / "lib"
    absolute.symlink_to("/usr/lib/ld.so.2")
    relative.symlink_to("usr/lib")
    debian.make_links_relative(tmp_path)
    assert str(absolute.readlink()) == "../usr/lib/ld.so.2"
    assert absolute.read_text() == "the sysroot's"
    assert str(relative.readlink()) == "usr/lib"


def test_a_sysroot_is_made_with_such_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bootstrap(command: Sequence[str | Path], *_: Any, **__: Any) -> None:
        root = next(Path(word) for word in command if str(word).endswith("/rootfs"))
        (root / "lib64").mkdir(parents=True)
        (root / "lib64/ld.so.2").symlink_to("/usr/lib/ld.so.2")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(debian, "run_logged", bootstrap)
    monkeypatch.setattr(debian, "forwarded_options", str)
    monkeypatch.setattr(debian, "sources_for", lambda _: [])
    sysroot = debian.build(Store(tmp_path / "store"), debian.load("sysroot"))
    assert str((sysroot / "lib64/ld.so.2").readlink()) == "../usr/lib/ld.so.2"
