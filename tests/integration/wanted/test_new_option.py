"""What a new option of the driver costs: four files, and roles, preflight, upgrade and suite all go by it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpusmith.paths import repo_root

EDITS = {
    # Its value where the inventory has none.
    "roles/nvidia_driver/defaults/main.yml": ("---\n", "---\nnvidia_driver_made_up: false\n"),
    # Its name and type.
    "roles/nvidia_driver/meta/argument_specs.yml": (
        "      nvidia_driver_version:\n",
        "      nvidia_driver_made_up: {type: bool, default: false, description: x}\n      nvidia_driver_version:\n",
    ),
    # Its place in the wanted state.
    "src/gpusmith/wanted/node.py": (
        "    kernel_headers: bool = True\n",
        "    kernel_headers: bool = True\n    made_up: bool = False\n",
    ),
    # Its judge.
    "src/gpusmith/expect/parameters.py": (
        "    node, serves = wanted.node, record.kubernetes.joined\n",
        (
            "    node, serves = wanted.node, record.kubernetes.joined\n"
            "    if wanted.made_up:\n"
            "        return [Problem(f\"Node '{node}': it is made up.\", 'Run site.yml.', {}, Cure.FILES)]\n"
        ),
    ),
}
"""The files that are changed, and in each what is replaced by what."""

LOOK = """
import json
from ansible_collections.gpusmith.gpu.plugins.filter.plan import plan
from gpusmith.expect.wanted import all_models
from gpusmith.upgrade.hosts import Look
from gpusmith.wanted.read import to_plain
from tests.unit.checks.judged import failing
from tests.unit.expect.converged import LAYOUTS, converged_record
from tests.unit.hosts import VERSION, make_host, run
from tests.unit.upgrade.nodes import node
from gpusmith.node.records import parse
from gpusmith.node.facts import NodeFacts

def found(made_up):
    variables = {"nvidia_driver_made_up": made_up}
    host, record = make_host(**variables), converged_record()
    return {
        "role": plan(record, "nvidia_driver", to_plain(host), {"layouts": LAYOUTS})["problems"],
        "suite": failing(NodeFacts(host, parse(record), all_models()["h100-sxm"], {})),
        "preflight": run(**variables).node.driver.made_up,
        "upgrade": Look("gpu-1", node("gpu-1"), VERSION, wanted=host).driver.made_up,
    }

print(json.dumps([found(True), found(False)]))
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what the project is made of."""
    folder = tmp_path / "ansible_collections" / "gpusmith" / "gpu"
    for name in ("src", "plugins", "roles", "meta", "data", "tests"):
        shutil.copytree(repo_root() / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_an_option_of_the_driver_is_four_files(checkout: Path, tmp_path: Path) -> None:
    for name, (before, after) in EDITS.items():
        path = checkout / name
        text = path.read_text(encoding="utf-8")
        assert before in text, name
        path.write_text(text.replace(before, after, 1), encoding="utf-8")
    ways = (checkout / "src", checkout, tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        capture_output=True,
        text=True,
        check=False,
        cwd=checkout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, ways))},
    )
    assert done.returncode == 0, done.stderr
    with_it, without = json.loads(done.stdout)
    assert with_it["role"] == ["it is made up"]
    assert "it is made up" in json.dumps(with_it["suite"])
    assert (with_it["preflight"], with_it["upgrade"]) == (True, True)
    assert without == {"role": [], "suite": {}, "preflight": False, "upgrade": False}
