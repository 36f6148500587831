"""The lab as a fixture. E2E_KEEP_LAB=1 uses a lab that is up, and leaves it up."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gpusmith.wait import Deadline, Done, GiveUp, NotYet, wait_until
from tests.e2e.harness import NAMESPACE, ROCKY, UBUNTU, Lab, PodSpec, PodStarter

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
    # One of their own, to see what they leave in it.
    with tempfile.TemporaryDirectory(prefix="gpusmith-e2e-") as temporary:
        lab = Lab(root, logs, environment={"TMPDIR": temporary})
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
    if set(bare_lab.gpu_nodes()) - stamped(bare_lab):
        bare_lab.site_ok()
    return bare_lab


def stamped(lab: Lab) -> set[str]:
    """Nodes that a validation has passed."""
    return {
        node["metadata"]["name"]
        for node in lab.get("nodes")["items"]
        if STAMP in node["metadata"].get("annotations", {})
    }


@pytest.fixture(scope="session")
def grown(lab: Lab) -> Lab:
    """A mixed fleet, for upgrades and what distributions do: one node that dnf manages and one of Ubuntu came in together."""
    lab.up("--gpu-nodes", "4", "--os", f"{ROCKY}=rocky-9,{UBUNTU}=ubuntu-24.04")
    nodes = lab.gpu_nodes()
    if new := sorted(set(nodes) - stamped(lab)):
        lab.site_ok("-l", ",".join(new))
        shutil.copytree(lab.root / "reports" / "latest", lab.grown_report)
    lab.wait_allocatable(dict.fromkeys(nodes, 4), 120)
    return lab


@pytest.fixture
def spoilt(lab: Lab, tmp_path: Path) -> Path:
    """A copy of the inventory that a test may spoil."""
    return lab.copy_inventory(tmp_path / "inventory")


@pytest.fixture(scope="session")
def workload_image(ready_lab: Lab) -> str:
    """An image with Python that the nodes can pull."""
    values = yaml.safe_load((ready_lab.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    return str(values["validation_images"]["cuda"])


@pytest.fixture(scope="module")
def namespace(ready_lab: Lab) -> Iterator[str]:
    ready_lab.kubectl("create", "namespace", NAMESPACE)
    yield NAMESPACE
    ready_lab.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=180)


@pytest.fixture(scope="module")
def start_pods(ready_lab: Lab, namespace: str, workload_image: str) -> PodStarter:
    """Starts pods at the same time and waits until all run; they end with the namespace."""

    def start(*specs: PodSpec) -> list[str]:
        ready_lab.apply(*(spec.manifest(workload_image) for spec in specs))
        names = {spec.name for spec in specs}

        def look() -> Done[None] | NotYet:
            pods = ready_lab.get("pods", f"--namespace={namespace}")["items"]
            phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods}
            ended = {name: phase for name, phase in phases.items() if phase in ("Failed", "Succeeded")}
            if ended:
                raise GiveUp(f"Pods ended: {ended}.")
            late = {name: phases.get(name) for name in names if phases.get(name) != "Running"}
            return NotYet(str(late)) if late else Done(None)

        wait_until(f"pods {sorted(names)}", look, Deadline(180), tick=1.0)
        return sorted(names)

    return start
