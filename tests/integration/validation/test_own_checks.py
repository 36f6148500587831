"""What docs/own_checks.md shows works as it stands there: a check beside the inventory, and a workload in it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.fleet import site


def examples(root: Path, language: str) -> list[str]:
    text = (root / "docs" / "own_checks.md").read_text()
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.fixture
def inventory(root: Path, tmp_path: Path) -> Path:
    """Of one node, with both examples."""
    folder = site.make(1, tmp_path)
    (folder / "validation_plugins" / "facts").mkdir(parents=True)
    (folder / "validation_plugins" / "facts" / "rack.py").write_text(examples(root, "python")[1])
    (folder / "validation_plugins" / "site.py").write_text(examples(root, "python")[0])
    values = folder / "group_vars" / "gpu_nodes.yml"
    values.write_text(
        yaml.safe_dump(yaml.safe_load(values.read_text()) | yaml.safe_load(examples(root, "yaml")[0]))
    )
    return folder


def test_the_examples_are_made_reported_and_replayed(root: Path, inventory: Path, tmp_path: Path) -> None:
    words = ["--inventory", str(inventory)]
    listed = site.suite(root, tmp_path, *words, "--collect-only", "-q").stdout
    assert "[nodes.site-kernel-gpu-00000]" in listed
    assert "[workloads.burn-gpu-00000]" in listed
    for more in (words, ["--replay", "reports"]):
        reports = "reports" if more is words else "again"
        done = site.suite(root, tmp_path, *more, "--report-dir", reports, "-k", "nodes.site-kernel")
        assert done.returncode == 1, done.stdout + done.stderr
        (found,) = json.loads((tmp_path / reports / "results.json").read_text())["checks"]
        assert (found["id"], found["cause"]) == ("nodes.site-kernel", "Node 'gpu-00000': kernel 6.1.0 runs.")


def test_what_is_broken_ends_with_file_and_line_before_a_node_is_asked(
    root: Path, inventory: Path, tmp_path: Path
) -> None:
    (inventory / "validation_plugins" / "site.py").write_text("import no_such_module\n")
    done = site.suite(root, tmp_path, "--inventory", str(inventory / "hosts.yml"))
    assert done.returncode == 4
    said = done.stdout + done.stderr
    assert f"'{inventory}/validation_plugins/site.py', line 1: ModuleNotFoundError" in said
    assert "probing" not in said
