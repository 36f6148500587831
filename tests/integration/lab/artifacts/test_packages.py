"""Descriptions of Debian packages, the archives made from them, and the repositories that hold those."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from gpulab.artifacts import debs, repos

from tests.unit.lab.artifacts.test_packages import EACH

needs_apt = pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("dpkg-deb", "apt-ftparchive", "gpg", "apt-get")),
    reason="needs dpkg-deb, apt-ftparchive and gpg",
)


@EACH
def test_maintainer_scripts_are_shell(package: debs.Package) -> None:
    for text in debs.scripts(package).values():
        assert subprocess.run(["sh", "-n"], input=text, text=True, check=False).returncode == 0


@pytest.fixture
def program(tmp_path: Path) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "tool").write_text("#!/bin/sh\n")
    return folder


def small(**changes: object) -> debs.Package:
    values: dict[str, object] = {
        "repository": "lab",
        "name": "small",
        "version": "1.0-1",
        "description": "A small package\nwith a text\n.\nof two parts",
        "files": {"/usr/bin/tool": "go:any/tool", "/etc/small.conf": "file:kubelet.default"},
        "relations": {"depends": ("base-files",), "pre_depends": ("dpkg",)},
    }
    return debs.Package(**{**values, **changes})  # type: ignore[arg-type]


@needs_apt
def test_an_archive_has_what_its_description_says(tmp_path: Path, program: Path) -> None:
    archive = debs.build(small(units=("small.service",)), tmp_path, lambda _: program)

    def field(name: str) -> str:
        return subprocess.run(
            ["dpkg-deb", "--field", archive, name], capture_output=True, text=True, check=True
        ).stdout.strip()

    assert archive.name == "small_1.0-1_amd64.deb"
    assert field("Pre-Depends") == "dpkg"
    assert field("Description").splitlines()[1:] == [" with a text", " .", " of two parts"]
    listed = subprocess.run(
        ["dpkg-deb", "--contents", archive], capture_output=True, text=True, check=True
    ).stdout
    assert "-rwxr-xr-x root/root" in next(line for line in listed.splitlines() if line.endswith("/tool"))
    out = tmp_path / "control"
    subprocess.run(["dpkg-deb", "--control", archive, out], check=True)
    assert (out / "conffiles").read_text() == "/etc/small.conf\n"
    assert (out / "postinst").stat().st_mode & 0o111
    assert "'small.service'" in (out / "postinst").read_text()


@needs_apt
def test_apt_trusts_the_repository_and_refuses_a_changed_one(tmp_path: Path, program: Path) -> None:
    key = repos.signing_key(tmp_path / "keys")
    assert key.secret.stat().st_mode & 0o777 == 0o600
    assert repos.signing_key(tmp_path / "keys") == key
    repository = tmp_path / "repository"
    archive = debs.build(small(), tmp_path, lambda _: program)
    repos.place([archive], repository)
    repos.index(repository, "test", key)

    def update() -> subprocess.CompletedProcess[str]:
        root = tmp_path / "apt"
        shutil.rmtree(root, ignore_errors=True)
        for name in ("etc", "lists/partial", "archives/partial"):
            (root / name).mkdir(parents=True)
        (root / "status").touch()
        (root / "etc" / "sources.list").write_text(f"deb [signed-by={key.public}] file:{repository} ./\n")
        (root / "apt.conf").write_text(
            f'Dir::Etc "{root}/etc"; Dir::State "{root}"; Dir::State::status "{root}/status";\n'
            f'Dir::Cache "{root}"; Dir::Etc::parts "-"; Dir::Etc::sourceparts "-"; APT::Sandbox::User "root";\n'
        )
        environment = {"APT_CONFIG": str(root / "apt.conf"), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        command = ["apt-get", "update", "-o", "APT::Update::Error-Mode=any"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    good = update()
    assert good.returncode == 0, good.stderr
    packages = repository / "Packages"
    packages.write_text(packages.read_text().replace("1.0-1", "9.9-1"))
    (repository / "Packages.gz").unlink()
    assert update().returncode != 0
