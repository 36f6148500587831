"""Another operand is a row of role gpu_operands and its files: nothing else lists operands."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.cluster import operands
from gpusmith.cluster.dra import NO_CLAIMS
from gpusmith.data import operands as data
from gpusmith.paths import repo_root
from gpusmith.upgrade import disruption
from gpusmith.wanted import node
from tests.unit.cluster.roles import filled_in

MADE_UP = "gpu-thermometer"
VARIABLES = "roles/gpu_operands/vars/main.yml"
ROW = {
    "component": MADE_UP,
    "images": [MADE_UP],
    "with_driver": True,
    "name": "thermometer",
    "owner": "{{ gpu_operands_thermometer }}",
    "files": ["thermometer.yml.j2"],
    "daemon_set": MADE_UP,
}
SPEC = {"containers": [{"image": f"registry.example.com/{MADE_UP}:v1"}]}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[dict[str, Any]]]:
    variables = yaml.safe_load((repo_root() / VARIABLES).read_text())
    variables["__gpu_operands_rows"].append(ROW)
    path = tmp_path / VARIABLES
    path.parent.mkdir(parents=True)
    path.write_text(yaml.safe_dump(variables))
    monkeypatch.setattr(data, "repo_root", lambda: tmp_path)
    data.rows.cache_clear()
    yield variables["__gpu_operands_rows"]
    data.rows.cache_clear()


@pytest.mark.usefixtures("listed")
def test_it_is_recognised_and_has_a_second_owner_refused() -> None:
    theirs = {
        "kind": "DaemonSet",
        "metadata": {"namespace": "monitoring", "name": "heat"},
        "spec": {"template": {"spec": SPEC}},
    }
    (found,) = operands.second_owners([theirs], "gpusmith", [MADE_UP])
    assert found.startswith("'monitoring/heat' is a thermometer of somebody else.")
    assert "'gpu_operands_thermometer: existing'" in found


@pytest.mark.usefixtures("listed")
def test_it_leaves_a_node_before_the_driver_does() -> None:
    assert disruption._uses_driver(
        {"metadata": {"namespace": "monitoring", "name": "heat"}, "spec": SPEC}, NO_CLAIMS
    )


@pytest.mark.parametrize(("owner", "group"), [("managed", "managed"), ("existing", "left")])
def test_the_role_applies_its_files_or_takes_them_away(
    listed: list[dict[str, Any]], owner: str, group: str
) -> None:
    files = filled_in(
        f"{{{{ __gpu_operands_{group} | map(attribute='files') | flatten }}}}",
        __gpu_operands_rows=listed,
        gpu_operands_thermometer=owner,
    )
    assert "thermometer.yml.j2" in files


@pytest.mark.usefixtures("listed")
def test_the_wanted_state_says_whose_it_is() -> None:
    wanted = runpy.run_path(node.__file__)["Operands"]
    assert MADE_UP in wanted().ours
    assert MADE_UP not in wanted(thermometer="existing").ours


def test_daemon_sets_go_to_nodes_on_which_other_controllers_wait_for_them() -> None:
    """Behind taints of every key and effect: no toleration matches the beginning of a key alone."""
    files = sorted((repo_root() / "roles/gpu_operands/templates").glob("*.j2"))
    shares = {"shares": 4, "resource": "nvidia.com/gpu.shared", "strategy": "none"}
    layouts = [
        {"label": "", "strategy": "none", "sharing": "none"},
        {**shares, "label": "time-slicing-4", "sharing": "time-slicing"},
        {**shares, "label": "mps-4", "sharing": "mps"},
        {"label": "dra", "shares": 1, "resource": "gpu.nvidia.com", "strategy": "none", "sharing": "dra"},
    ]
    made = [
        row
        for path in files
        for row in yaml.safe_load_all(filled_in(path.read_text(), __gpu_operands_layouts=layouts))
        if row
    ]
    tolerations = [
        row["spec"]["template"]["spec"]["tolerations"] for row in made if row["kind"] == "DaemonSet"
    ]
    assert tolerations == [[{"operator": "Exists"}]] * 10
