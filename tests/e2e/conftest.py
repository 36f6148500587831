"""The lab as a fixture. E2E_KEEP_LAB=1 uses a lab that is up, and leaves it up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.wait import Deadline, Done, GiveUp, NotYet, wait_until
from tests.e2e.harness import NAMESPACE, Lab, PodMaker

STAMP = "gpusmith.io/validated"
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All tests here need the lab."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@pytest.fixture(scope="session")
def keep_lab() -> bool:
    """Whether a lab outlives the tests."""
    return bool(os.environ.get("E2E_KEEP_LAB"))


@pytest.fixture(scope="session")
def lab(root: Path, keep_lab: bool) -> Iterator[Lab]:
    """The commands; the lab itself may be down."""
    logs = root / ".cache" / "e2e"
    shutil.rmtree(logs, ignore_errors=True)
    lab = Lab(root, logs)
    if not keep_lab:
        lab.gpulab("down")
    yield lab
    if not keep_lab:
        lab.gpulab("down")


@pytest.fixture(scope="session")
def bare_lab(lab: Lab) -> Lab:
    """A lab that is up."""
    lab.up()
    return lab


@pytest.fixture(scope="session")
def ready_lab(bare_lab: Lab) -> Lab:
    """A lab whose GPU nodes are validated; brings them in if that was not done before."""
    stamped = {
        node["metadata"]["name"]
        for node in bare_lab.get("nodes")["items"]
        if STAMP in node["metadata"].get("annotations", {})
    }
    if not set(bare_lab.gpu_nodes()) <= stamped:
        bare_lab.site_ok()
    return bare_lab


@pytest.fixture
def spoilt(lab: Lab, tmp_path: Path) -> Path:
    """A copy of the inventory that a test may spoil."""
    return lab.copy_inventory(tmp_path / "inventory")


@pytest.fixture(scope="session")
def workload_image(ready_lab: Lab) -> str:
    """An image with Python that the nodes can pull."""
    values = yaml.safe_load((ready_lab.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    return str(values["validation_image_cuda"])


@pytest.fixture(scope="module")
def namespace(ready_lab: Lab) -> Iterator[str]:
    ready_lab.kubectl("create", "namespace", NAMESPACE)
    yield NAMESPACE
    ready_lab.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=180)


@pytest.fixture
def pod(ready_lab: Lab, namespace: str, workload_image: str) -> Iterator[PodMaker]:
    made: list[str] = []

    def make(
        name: str,
        gpus: int = 0,
        runtime_class: str = "",
        env: dict[str, str] | None = None,
        node: str = "gpu-1",
    ) -> str:
        container: dict[str, Any] = {
            "name": "main",
            "image": workload_image,
            "command": ["python3", "-c", "import time; time.sleep(3600)"],
            "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        }
        if gpus:
            container["resources"] = {"limits": {"nvidia.com/gpu": gpus}}
        spec: dict[str, Any] = {
            "containers": [container],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
            "terminationGracePeriodSeconds": 0,
        }
        if runtime_class:
            spec["runtimeClassName"] = runtime_class
        ready_lab.apply(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": namespace},
                "spec": spec,
            }
        )
        made.append(name)

        def look() -> Done[None] | NotYet:
            phase = ready_lab.get("pod", name, f"--namespace={namespace}")["status"]["phase"]
            if phase in ("Failed", "Succeeded"):
                raise GiveUp(f"Pod '{name}' is {phase}.")
            return Done(None) if phase == "Running" else NotYet(phase)

        wait_until(f"pod '{name}'", look, Deadline(120), tick=1.0)
        return name

    yield make
    if made:
        ready_lab.kubectl("delete", "pod", *made, f"--namespace={namespace}", "--wait=true", timeout=120)
