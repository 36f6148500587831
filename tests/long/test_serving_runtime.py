"""Newer containerd, toolkit and kubelet on a fleet that serves: kept and named, changed node after node, or taken back."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.harness import NAMESPACE, Ended, Lab, PodSpec
from tests.long.repacked import FOLDER, SPOILT, fetched, published, repacked

NODES = ("gpu-1", "gpu-2")
CONTAINERD, TOOLKIT, KUBERNETES = "2.3.7-2", "1.20.1-2", "1.36.3-1.2"
TOOLKIT_SET = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
# Of the release that the lab's depot has, with its files: only the revision of the package is newer. By folder of the depot.
NEWER = {
    "containerd": {"containerd.io": ("2.3.7-1", CONTAINERD)},
    "nvidia-container-toolkit": dict.fromkeys(TOOLKIT_SET, ("1.20.1-1", TOOLKIT)),
    "kubernetes": dict.fromkeys(("kubelet", "kubeadm", "kubectl"), ("1.36.3-1.1", KUBERNETES)),
}
WANTED = {name: new for rows in NEWER.values() for name, (_, new) in rows.items()}
# A release whose program does not start.
BAD = "2.3.7-3"
REPOSITORIES = (
    "containerd_repository",
    "nvidia_container_toolkit_repository",
    "kubernetes_node_repository",
)
ASKED = (
    *("-e", f"containerd_version={CONTAINERD}"),
    *("-e", f"nvidia_container_toolkit_version={TOOLKIT}"),
    *("-e", f"kubernetes_node_version={KUBERNETES}"),
)
# By the inventory's variable; without a revision the newest one would come, which is the spoilt one.
FORMER = {
    "containerd_version": "2.3.7-1",
    "nvidia_container_toolkit_version": "1.20.1-1",
    "kubernetes_node_version": "1.36.3-1.1",
}
# The jobs keep GPUs that the suite could not test.
ALLOWED = ("-e", "gpusmith_change_runtime_on_joined=true", "-e", "gpusmith_validate=never")
UNITS = ("containerd", "kubelet")


def publish(folder: Path) -> None:
    """Put the newer releases beside the others of the depot, signed with the same key."""
    folder.mkdir()
    for place, rows in NEWER.items():
        for name, (old, new) in rows.items():
            repacked(fetched(place, name, old, folder.parent), folder, old, new)
    old = NEWER["containerd"]["containerd.io"][0]
    spoilt = fetched("containerd", "containerd.io", old, folder.parent)
    repacked(spoilt, folder, old, BAD, ("usr/bin/containerd", SPOILT))
    published(folder)


@dataclass(frozen=True)
class Serving:
    """Two nodes that serve a job with a GPU each, and are offered newer releases."""

    lab: Lab
    inventory: Path

    def site(self, *words: str) -> Ended:
        """Run site.yml, whatever its exit status."""
        return self.lab.site(*words, inventory=self.inventory)

    def unchanged(self, *words: str) -> None:
        """A run that finds nothing to do."""
        ended = self.site(*words)
        assert ended.status == 0, str(ended)
        changed = {host: row["changed"] for host, row in ended.recap().items() if row["changed"]}
        assert changed == {}, str(ended)

    def installed(self, node: str) -> dict[str, str]:
        """Versions of what is changed here."""
        asked = f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(WANTED)}"
        return dict(line.split() for line in self.lab.on(node, asked).splitlines())


@pytest.fixture(scope="module")
def serving(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "2", "--gpus", "2")
    publish(tmp_path_factory.mktemp("newer") / "debs")
    inventory = lab.copy_inventory(tmp_path_factory.mktemp("inventory"))
    path = inventory / "group_vars" / "all.yml"
    values = yaml.safe_load(path.read_text())
    for name in REPOSITORIES:
        (uri,) = values[name]["uris"]
        values[name]["uris"] = [uri, f"{uri.partition('/apt/')[0]}/{FOLDER}/"]
    path.write_text(yaml.safe_dump(values))
    of_nodes = inventory / "group_vars" / "gpu_nodes.yml"
    of_nodes.write_text(yaml.safe_dump({**yaml.safe_load(of_nodes.read_text()), **FORMER}))
    found = Serving(lab, inventory)
    first = found.site()
    assert first.status == 0, str(first)
    image = str(
        yaml.safe_load((inventory / "group_vars" / "gpu_nodes.yml").read_text())["validation_images"]["cuda"]
    )
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.apply(*(PodSpec(f"job-{node}", node, gpus=1).manifest(image) for node in NODES))
    ready = ("pods", "--all", "--for=condition=Ready", "--timeout=120s")
    lab.kubectl("wait", f"--namespace={NAMESPACE}", *ready, timeout=150)
    yield found
    lab.gpulab("down")


def test_a_release_that_does_not_start_is_taken_back_and_stops_the_rest(serving: Serving) -> None:
    before = {node: serving.installed(node) for node in NODES}
    starts, jobs = {node: serving.lab.started(node, *UNITS) for node in NODES}, serving.lab.containers()
    ended = serving.site("-e", f"containerd_version={BAD}", *ALLOWED)
    assert ended.status != 0, str(ended)
    told = re.search(r"Node '(\S+)': the change of 'containerd' failed", ended.output)
    assert told, str(ended)
    first, (second,) = told[1], set(NODES) - {told[1]}
    assert (
        f"Node '{second}' was not changed, because the change of '{first}' failed or could not be verified"
        in ended.output
    )
    assert {node: serving.installed(node) for node in NODES} == before, str(ended)
    assert serving.lab.started(first, *UNITS)["containerd"] > starts[first]["containerd"]
    assert serving.lab.started(second, *UNITS) == starts[second]
    assert serving.lab.containers() == jobs
    serving.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    serving.unchanged()


def test_newer_releases_change_serving_nodes_one_after_another(
    serving: Serving, measured: Callable[[str, object], None]
) -> None:
    before = {node: (serving.installed(node), serving.lab.started(node, *UNITS)) for node in NODES}
    jobs = serving.lab.containers()

    kept = serving.site(*ASKED)
    assert kept.status != 0, str(kept)
    assert "serves and keeps what it has" in kept.output
    assert {node: kept.recap()[node]["failed"] for node in NODES} == dict.fromkeys(NODES, 1), str(kept)
    assert {node: (serving.installed(node), serving.lab.started(node, *UNITS)) for node in NODES} == before

    changed = serving.site(*ASKED, *ALLOWED)
    assert changed.status == 0, str(changed)
    assert {node: serving.installed(node) for node in NODES} == dict.fromkeys(NODES, WANTED), str(changed)
    starts = {node: serving.lab.started(node, *UNITS) for node in NODES}
    for unit in UNITS:
        # After a restart the node's own heartbeat is waited for, before it is the next one's turn.
        assert abs(starts["gpu-2"][unit] - starts["gpu-1"][unit]) > 1_000_000, str(starts)
        assert all(starts[node][unit] > before[node][1][unit] for node in NODES)
    # What runs does not notice.
    assert serving.lab.containers() == jobs
    assert set(WANTED) <= set(serving.lab.on("gpu-2", "apt-mark showhold").split())
    serving.unchanged(*ASKED, *ALLOWED)
    serving.lab.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    measured("containerd, toolkit and kubelet of two serving nodes", f"{changed.seconds:.0f} s")
