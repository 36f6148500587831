"""The lab as a fixture. E2E_KEEP_LAB=1 uses a lab that is up, and leaves it up."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import Lab

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
