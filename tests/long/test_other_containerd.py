"""Releases of containerd before the lab's usual one: pods with GPUs run on them, and serving nodes go on or are taken back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from gpulab.artifacts.components import numbers
from gpulab.releases import CONTAINERD, USUAL, Releases, known

from tests.e2e.harness import NAMESPACE, Lab, PodSpec
from tests.long.repacked import FOLDER, SPOILT, fetched, published, repacked

DEBIAN, ROCKY = "gpu-1", "gpu-2"
NODES = (DEBIAN, ROCKY)
# The only one that supports all of them.
KUBERNETES = "1.34"
# The oldest first: it differs most from the usual one.
OTHERS = [name for name in known(CONTAINERD) if name != USUAL.containerd]
# What the depot serves beside the release that the lab was started with.
USUAL_PACKAGES = {"all": "apt/containerd", "os_rocky_9": "rocky-9/containerd"}
# The jobs keep GPUs that the suite could not test.
ALLOWED = ("-e", "gpusmith_change_runtime_on_joined=true", "-e", "gpusmith_validate=never")


@dataclass(frozen=True)
class Site:
    """A lab with one release of containerd."""

    lab: Lab
    version: str

    def runtimes(self) -> dict[str, str]:
        """What each node says that it runs its containers with."""
        return {
            node["metadata"]["name"]: node["status"]["nodeInfo"]["containerRuntimeVersion"].replace(
                "//v", "//"
            )
            for node in self.lab.get("nodes")["items"]
        }


def unchanged(lab: Lab, *words: str, inventory: Path | None = None) -> None:
    """A run that finds nothing to do."""
    ended = lab.site(*words, inventory=inventory)
    assert ended.status == 0, str(ended)
    changed = {host: row["changed"] for host, row in ended.recap().items() if row["changed"]}
    assert changed == {}, str(ended)


@pytest.fixture(scope="module", params=OTHERS)
def site(root: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    words = ("--kubernetes", KUBERNETES, "--containerd", request.param)
    lab.up(*words, "--gpus", "2", "--os", f"{ROCKY}=rocky-9")
    yield Site(lab, numbers(Releases(KUBERNETES, request.param))[CONTAINERD])
    lab.gpulab("down")


@pytest.fixture(scope="module")
def jobs(site: Site) -> None:
    """A pod with a GPU on each node."""
    values = yaml.safe_load((site.lab.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    image = str(values["validation_images"]["cuda"])
    site.lab.kubectl("create", "namespace", NAMESPACE)
    site.lab.apply(*(PodSpec(f"job-{node}", node, gpus=1).manifest(image) for node in NODES))
    ready = ("pods", "--all", "--for=condition=Ready", "--timeout=120s")
    site.lab.kubectl("wait", f"--namespace={NAMESPACE}", *ready, timeout=150)


def test_bare_machines_run_pods_with_gpus_on_it(site: Site, measured: Callable[[str, object], None]) -> None:
    first = site.lab.site_ok()
    site.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    assert site.runtimes() == dict.fromkeys(("cp-1", *NODES), f"containerd://{site.version}")
    suite = site.lab.validate()
    suite.assert_passed()
    unchanged(site.lab)
    passed = suite.results["summary"]["passed"]
    measured(
        f"{site.version} with Kubernetes {KUBERNETES}, two bare nodes",
        f"first site.yml {first.seconds:.0f} s, {passed} checks passed",
    )


@pytest.mark.usefixtures("jobs")
def test_a_newer_one_that_does_not_start_is_taken_back_under_the_job(site: Site, tmp_path: Path) -> None:
    newer = numbers()[CONTAINERD]
    folder = tmp_path / "debs"
    folder.mkdir()
    good, bad = f"{newer}-1", f"{newer}-3"
    archive = fetched("containerd", "containerd.io", good, tmp_path)
    repacked(archive, folder, good, bad, ("usr/bin/containerd", SPOILT))
    published(folder)
    inventory = site.lab.copy_inventory(tmp_path / "inventory")
    path = inventory / "group_vars" / "all.yml"
    values = yaml.safe_load(path.read_text())
    (uri,) = values["containerd_repository"]["uris"]
    values["containerd_repository"]["uris"] = [uri, f"{uri.partition('/containerd-')[0]}/{FOLDER}/"]
    path.write_text(yaml.safe_dump(values))

    before = site.lab.containers()
    ended = site.lab.site("-l", DEBIAN, *ALLOWED, "-e", f"containerd_version={bad}", inventory=inventory)
    assert ended.status != 0, str(ended)
    assert f"Node '{DEBIAN}': the change of 'containerd' failed" in ended.output, str(ended)
    site.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    assert site.runtimes()[DEBIAN] == f"containerd://{site.version}"
    assert "containerd.io" in site.lab.on(DEBIAN, "apt-mark showhold").split()
    assert site.lab.containers() == before
    site.lab.site_ok("-l", DEBIAN, *ALLOWED)
    unchanged(site.lab, *ALLOWED)


@pytest.mark.usefixtures("jobs")
def test_serving_nodes_go_on_to_the_usual_one_under_their_jobs(
    site: Site, tmp_path: Path, measured: Callable[[str, object], None]
) -> None:
    inventory = site.lab.copy_inventory(tmp_path / "inventory")
    newer = numbers()[CONTAINERD]
    for group, folder in USUAL_PACKAGES.items():
        path = inventory / "group_vars" / f"{group}.yml"
        values = yaml.safe_load(path.read_text())
        (uri,) = values["containerd_repository"]["uris"]
        values["containerd_repository"]["uris"] = [f"{uri.partition('/containerd-')[0]}/{folder}/"]
        if group == "all":
            values["containerd_version"] = newer
        path.write_text(yaml.safe_dump(values))

    before = site.lab.containers()
    kept = site.lab.site(inventory=inventory)
    assert kept.status != 0, str(kept)
    assert "serves and keeps what it has" in kept.output
    changed = site.lab.site(*ALLOWED, inventory=inventory)
    assert changed.status == 0, str(changed)
    site.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    assert site.runtimes() == {
        "cp-1": f"containerd://{site.version}",
        **dict.fromkeys(NODES, f"containerd://{newer}"),
    }
    # What runs does not notice.
    assert site.lab.containers() == before
    unchanged(site.lab, *ALLOWED, inventory=inventory)

    site.lab.kubectl("delete", "namespace", NAMESPACE, timeout=120)
    site.lab.validate(inventory=inventory).assert_passed()
    measured(f"two serving nodes from {site.version} to {newer}", f"{changed.seconds:.0f} s")
