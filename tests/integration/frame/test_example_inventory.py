"""The example inventory says only what the guard lets pass, and names every variable that a person may set."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from gpusmith.paths import repo_root
from gpusmith.wanted.inventory import read
from tests.unit.frame.test_example_inventory import EXAMPLE


def test_the_folder_of_keys_is_no_inventory(tmp_path: Path) -> None:
    copy = tmp_path / "mysite"
    shutil.copytree(EXAMPLE, copy)
    named = re.findall(r"/keys/([a-z-]+\.asc)", (copy / "group_vars" / "all.yml").read_text())
    told = (copy / "keys" / "README.md").read_text()
    for name in named:
        assert f"curl -fsSLo {name} " in told
        (copy / "keys" / name).write_text("-----BEGIN PGP PUBLIC KEY BLOCK-----\n")
    found = read(str(copy), None, repo_root())
    assert len(found.hosts) == 10
