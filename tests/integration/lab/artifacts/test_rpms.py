"""Packages for machines that rpm manages, and their repositories."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from gpulab import systems
from gpulab.artifacts import repos, rpm_repos, rpms
from gpulab.artifacts.rpms import Rpm

needs_rpm = pytest.mark.skipif(
    any(shutil.which(program) is None for program in ("rpmbuild", "rpmsign", "createrepo_c", "gpg")),
    reason="needs rpm, createrepo-c and gpg",
)


@needs_rpm
def test_a_repository_is_signed_as_its_vendor_signs(tmp_path: Path) -> None:
    key = repos.signing_key(tmp_path / "key")
    package = Rpm(
        "a",
        "1",
        "2.el9",
        "s",
        epoch="3",
        relations={"requires": ["b = 3:1"]},
        texts={"/etc/a.conf": "x\n", "/usr/bin/a": "#!/bin/sh\n"},
        modes={"/usr/bin/a": 0o4755},
        links={"/usr/lib/a": "../bin/a"},
        scripts={"post": "true\n"},
    )
    for name, signed in (("packages", systems.PACKAGES), ("metadata", systems.METADATA)):
        folder = tmp_path / name
        rpms.write([package], folder)
        rpm_repos.index(folder, signed, key)
        path = folder / "a-1-2.el9.noarch.rpm"
        query = (
            "%{NEVRA} %{DSAHEADER:pgpsig}\n[%{FILENAMES} %{FILEMODES:octal} %{FILEFLAGS:fflags}\n]%{POSTIN}"
        )
        words = ["rpm", "--dbpath", str(tmp_path / "db"), "-qp", "--nosignature", "--qf", query, str(path)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        assert said.startswith("a-3:1-2.el9.noarch ")
        assert ("Key ID" in said) is (name == "packages")
        assert (folder / "repodata" / "repomd.xml.asc").exists() is (name == "metadata")
        assert "/usr/bin/a 104755 " in said
        assert "/etc/a.conf 100644 cn" in said
        assert "true" in said
