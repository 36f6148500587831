"""docs/first_hour.md, walked as it stands: six nodes of kubespray, an inventory in INI, and the page's own commands."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import first_hour
from tests.e2e.harness import Lab
from tests.long import kubespray

GPUS = 2
STEPS = list(first_hour.commands())
OWN = ("containerd_", "kubernetes_node_", "cuda_toolkit_", "gpusmith_gpu_")
"""What the lab's own nodes need, and nodes that kubespray built do not."""


@pytest.fixture(scope="module")
def built(root: Path) -> Iterator[Lab]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "6", "--gpus", str(GPUS))
    kubespray.build(lab, *lab.gpu_nodes())
    yield lab
    lab.gpulab("down")


@pytest.fixture(scope="module")
def before(built: Lab) -> dict[str, str]:
    return {node: kubespray.what_runs(built, node) for node in built.gpu_nodes()}


@pytest.fixture(scope="module")
def mysite(built: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's files, with what a reader replaces: addresses, number of GPUs, repositories; and the lab's own settings."""
    folder = tmp_path_factory.mktemp("first") / "mysite"
    pages = {name.removeprefix("mysite/"): text for name, text in first_hour.files().items()}
    lab = _variables(built.inventory)
    (folder / "group_vars").mkdir(parents=True)
    hosts = pages["hosts.ini"].replace("10.0.0.", "10.77.0.").replace("_count=8", f"_count={GPUS}")
    (folder / "hosts.ini").write_text(hosts.replace("~/.kube/config", lab["gpusmith_kubeconfig"]))
    repositories = yaml.safe_load(pages["group_vars/gpu_nodes.yml"])
    (folder / "group_vars" / "gpu_nodes.yml").write_text(
        yaml.safe_dump({name: lab[name] for name in repositories})
    )
    said = {*repositories, *re.findall(r"(?m)^(\w+)=", hosts)}
    rest = {name: value for name, value in lab.items() if name not in said and not name.startswith(OWN)}
    (folder / "group_vars" / "all.yml").write_text(yaml.safe_dump(rest))
    return folder


def _variables(inventory: Path) -> dict[str, Any]:
    folder = inventory / "group_vars"
    return {
        key: value
        for name in ("all.yml", "gpu_nodes.yml")
        for key, value in yaml.safe_load((folder / name).read_text()).items()
    }


@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda number: f"{number + 1}")
def test_the_page(built: Lab, mysite: Path, before: dict[str, str], number: int) -> None:
    step = STEPS[number]
    words = [word.replace("mysite", str(mysite)) for word in shlex.split(step.words)]
    ended = built.run(*words, timeout=1800)
    assert ended.status == 0, str(ended)
    output = re.sub(rf"\b{GPUS}( expected| tested|$)", r"8\1", ended.output, flags=re.MULTILINE)
    assert step.printed
    assert first_hour.missing(step, output) == [], str(ended)
    # Whatever the step did, the nodes are still those that kubespray built.
    assert {node: kubespray.what_runs(built, node) for node in built.gpu_nodes()} == before
