"""Filters are there before ansible-playbook forks a worker for each host and task."""

from __future__ import annotations

import subprocess
import sys

from gpusmith.paths import repo_root

FILTERS = sorted(path.stem for path in (repo_root() / "plugins/filter").glob("*.py"))
PROGRAM = """\
import sys
from ansible.plugins.loader import action_loader, init_plugin_loader
init_plugin_loader([])
# As the strategy does it for the first task of the look at a node.
assert action_loader.get("gpusmith.gpu.node_state", class_only=True)
print(*sys.modules)
"""


def test_the_process_of_ansible_playbook_has_all_filters_loaded() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        cwd=repo_root(),
        timeout=120,
    )
    loaded = done.stdout.split()
    assert [
        name for name in FILTERS if f"ansible_collections.gpusmith.gpu.plugins.filter.{name}" not in loaded
    ] == []
    assert "gpusmith.expect.plans" in loaded
