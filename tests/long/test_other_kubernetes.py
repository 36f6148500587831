"""The releases of Kubernetes before the lab's usual one: bare machines of apt and of dnf become nodes of each."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from gpulab.artifacts.components import versions
from gpulab.releases import KUBERNETES, USUAL, Releases, known

from tests.e2e.harness import Lab

DEBIAN, ROCKY = "gpu-1", "gpu-2"
NODES = (DEBIAN, ROCKY)
# The newest first: what is found there is most often true of the older ones as well.
OTHERS = [name for name in reversed(known(KUBERNETES)) if name != USUAL.kubernetes]
PACKAGES = {
    DEBIAN: "dpkg-query -W -f '${Version} ${Package}\n' kubelet kubeadm kubectl",
    ROCKY: "rpm -q --qf '%{VERSION} %{NAME}\\n' kubelet kubeadm kubectl",
}


@dataclass(frozen=True)
class Site:
    """A lab with one release of Kubernetes."""

    lab: Lab
    minor: str

    @property
    def version(self) -> str:
        """Its exact version, with the 'v'."""
        return versions(Releases(self.minor))["kubernetes"]


@pytest.fixture(scope="module", params=OTHERS)
def site(root: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--kubernetes", request.param, "--gpus", "1", "--os", f"{ROCKY}=rocky-9")
    yield Site(lab, request.param)
    lab.gpulab("down")


def test_a_kubelet_that_is_newer_than_the_cluster_is_refused_before_any_change(site: Site) -> None:
    newer = versions()["kubernetes"].removeprefix("v")
    ended = site.lab.site("-e", f"kubernetes_node_version={newer}")
    assert ended.status != 0, str(ended)
    assert not any(row["changed"] for row in ended.recap().values()), str(ended)
    said = " ".join(ended.output.split())
    assert f"'kubernetes_node_version' is '{newer}'" in said
    assert site.version in said


def test_bare_machines_are_made_nodes(site: Site, measured: Callable[[str, object], None]) -> None:
    assert not re.search(r"failed=[1-9]", site.lab.site_ok("--check").output)
    first = site.lab.site_ok()
    site.lab.wait_allocatable(dict.fromkeys(NODES, 1), 60)
    suite = site.lab.validate()
    suite.assert_passed()
    second = site.lab.site_ok()
    changed = {host: row["changed"] for host, row in second.recap().items() if row["changed"]}
    assert changed == {}, str(second)
    passed = suite.results["summary"]["passed"]
    measured(
        f"{site.version}, two bare nodes", f"first site.yml {first.seconds:.0f} s, {passed} checks passed"
    )


def test_all_of_it_is_of_that_release(site: Site) -> None:
    nodes = site.lab.get("nodes")["items"]
    kubelets = {node["metadata"]["name"]: node["status"]["nodeInfo"]["kubeletVersion"] for node in nodes}
    assert kubelets == dict.fromkeys(("cp-1", *NODES), site.version)
    server = json.loads(site.lab.kubectl("version", "--output=json"))["serverVersion"]
    assert server["gitVersion"] == site.version
    pods = site.lab.get("pods", "--namespace=kube-system")["items"]
    images = {container["image"] for pod in pods for container in pod["spec"]["containers"]}
    assert {image.rpartition(":")[2] for image in images if "/kube-" in image} == {site.version}
    own = Releases(site.minor).of(KUBERNETES).tags
    assert any(image.endswith(f"/etcd:{own['etcd']}") for image in images)
    assert any(image.endswith(f"/coredns:{own['coredns']}") for image in images)
    for node, command in PACKAGES.items():
        rows = [line.split() for line in site.lab.on(node, command).splitlines()]
        assert {version.partition("-")[0] for version, _ in rows} == {site.version.removeprefix("v")}
        assert {name for _, name in rows} == {"kubelet", "kubeadm", "kubectl"}
        assert f"/pause:{own['pause']}" in site.lab.on(node, "containerd config dump")


def test_the_lab_goes_on_with_the_release_that_it_has(site: Site) -> None:
    assert f"Kubernetes {site.minor}" in site.lab.up().output
    refused = site.lab.run(site.lab.program("gpulab"), "up", "--kubernetes", USUAL.kubernetes)
    assert (refused.status, "--kubernetes" in refused.output) == (2, True), str(refused)
