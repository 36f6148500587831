"""ansible-doc can show every plugin of the collection."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gpusmith.paths import repo_root

FOLDERS = {"module": "modules", "filter": "filter", "lookup": "lookup", "callback": "callback"}


@pytest.mark.parametrize("kind", FOLDERS)
def test_every_plugin_is_documented(kind: str) -> None:
    files = sorted((repo_root() / "plugins" / FOLDERS[kind]).glob("*.py"))
    names = [f"gpusmith.gpu.{path.stem}" for path in files if path.stem != "__init__"]
    program = Path(sys.executable).parent / "ansible-doc"
    done = subprocess.run(
        [program, "--json", "--type", kind, *names], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert [name for name in names if not (shown.get(name) or {}).get("doc", {}).get("description")] == []
