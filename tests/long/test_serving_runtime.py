"""Newer containerd, toolkit and kubelet on a fleet that serves: kept and named, or changed node after node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.harness import NAMESPACE, Lab, PodSpec

NODES = ("gpu-1", "gpu-2")
CONTAINERD, TOOLKIT, KUBERNETES = "2.3.7-2", "1.20.1-2", "1.36.3-1.2"
# By the release that the lab's depot has, whose files they hold: only the revision of the package is newer.
NEWER = {
    "containerd.io": ("2.3.7-1", CONTAINERD),
    **dict.fromkeys(
        (
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
            "libnvidia-container-tools",
            "libnvidia-container1",
        ),
        ("1.20.1-1", TOOLKIT),
    ),
    **dict.fromkeys(("kubelet", "kubeadm", "kubectl"), ("1.36.3-1.1", KUBERNETES)),
}
ASKED = (
    *("-e", f"containerd_version={CONTAINERD}"),
    *("-e", f"nvidia_container_toolkit_version={TOOLKIT}"),
    *("-e", f"kubernetes_node_version={KUBERNETES}"),
)
# A mirror of the site, on the node itself.
PUBLISH = """
mkdir -p /srv/newer && cd /srv/newer
apt-get -q download {name}={old}
dpkg-deb -R {name}_{old}_*.deb work
rm {name}_{old}_*.deb
sed -i 's/{old}/{new}/g' work/DEBIAN/control
{more}
dpkg-deb --root-owner-group -Zgzip -b work {name}_{new}.deb
rm -r work
dpkg-deb -f {name}_{new}.deb >> Packages
sum=$(sha256sum < {name}_{new}.deb | cut -d' ' -f1)
printf 'Filename: ./{name}_{new}.deb\\nSize: %s\\nSHA256: %s\\n\\n' "$(stat -c %s {name}_{new}.deb)" "$sum" >> Packages
"""
OFFER = (
    "echo 'deb [trusted=yes] file:/srv/newer ./' > /etc/apt/sources.list.d/newer.list && apt-get -q update"
)
# A release whose program does not start.
BAD = "2.3.7-3"
SPOILT = "printf '#!/bin/sh\\nexit 1\\n' > work/usr/bin/containerd"
UNITS = ("containerd", "kubelet")


def installed(lab: Lab, node: str) -> dict[str, str]:
    """Versions of what is changed here."""
    lines = lab.on(node, f"dpkg-query -W -f '${{Package}} ${{Version}}\\n' {' '.join(NEWER)}").splitlines()
    return {name: version for name, _, version in (line.partition(" ") for line in lines)}


def started(lab: Lab, node: str) -> dict[str, int]:
    """When the services were started, in microseconds of the clock that all machines of a lab share."""
    shown = f"systemctl show --value --property=ExecMainStartTimestampMonotonic {' '.join(UNITS)}"
    return dict(zip(UNITS, map(int, lab.on(node, shown).split()), strict=True))


def containers(lab: Lab) -> dict[str, Any]:
    """Container and restarts of every pod."""
    return {
        pod["metadata"]["name"]: [
            (status["containerID"], status["restartCount"])
            for status in pod["status"].get("containerStatuses", [])
        ]
        for pod in lab.get("pods", f"--namespace={NAMESPACE}")["items"]
    }


@pytest.fixture(scope="module")
def serving(root: Path) -> Iterator[Lab]:
    """Two nodes that serve a job with a GPU each, and are offered newer releases."""
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", "2", "--gpus", "2")
    lab.site_ok()
    for node in NODES:
        for name, (old, new) in NEWER.items():
            lab.on(node, PUBLISH.format(name=name, old=old, new=new, more=""), timeout=180)
        name, old = "containerd.io", NEWER["containerd.io"][0]
        lab.on(node, PUBLISH.format(name=name, old=old, new=BAD, more=SPOILT), timeout=180)
        lab.on(node, OFFER)
    values = yaml.safe_load((lab.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    lab.kubectl("create", "namespace", NAMESPACE)
    lab.apply(
        *(
            PodSpec(f"job-{node}", node, gpus=1).manifest(str(values["validation_image_cuda"]))
            for node in NODES
        )
    )
    lab.kubectl(
        "wait",
        f"--namespace={NAMESPACE}",
        "pods",
        "--all",
        "--for=condition=Ready",
        "--timeout=120s",
        timeout=150,
    )
    yield lab
    lab.gpulab("down")


def test_a_release_that_does_not_start_is_taken_back_and_stops_the_rest(serving: Lab) -> None:
    before = {node: installed(serving, node) for node in NODES}
    starts, jobs = started(serving, "gpu-2"), containers(serving)
    ended = serving.site("-e", f"containerd_version={BAD}", "-e", "gpusmith_change_runtime_on_joined=true")
    assert ended.status != 0, str(ended)
    assert {node: installed(serving, node) for node in NODES} == before, str(ended)
    assert started(serving, "gpu-2") == starts
    assert containers(serving) == jobs
    serving.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    same = serving.site_ok()
    assert {host: row["changed"] for host, row in same.recap().items() if row["changed"]} == {}, str(same)


def test_newer_releases_change_serving_nodes_one_after_another(
    serving: Lab, measured: Callable[[str, object], None]
) -> None:
    before = {node: (installed(serving, node), started(serving, node)) for node in NODES}
    jobs = containers(serving)

    kept = serving.site(*ASKED)
    assert kept.status != 0, str(kept)
    assert "serves and keeps what it has" in kept.output
    assert {node: kept.recap()[node]["failed"] for node in NODES} == dict.fromkeys(NODES, 1), str(kept)
    assert {node: (installed(serving, node), started(serving, node)) for node in NODES} == before

    begin = time.monotonic()
    changed = serving.site_ok(*ASKED, "-e", "gpusmith_change_runtime_on_joined=true")
    seconds = time.monotonic() - begin
    for node in NODES:
        assert installed(serving, node) == {name: new for name, (_, new) in NEWER.items()}, str(changed)
    starts = {node: started(serving, node) for node in NODES}
    for unit in UNITS:
        # After a restart the node's own heartbeat is waited for, before it is the next one's turn.
        assert starts["gpu-2"][unit] - starts["gpu-1"][unit] > 1_000_000, str(starts)
        assert starts["gpu-1"][unit] > before["gpu-1"][1][unit]
    # What runs does not notice.
    assert containers(serving) == jobs
    held = serving.on("gpu-2", "apt-mark showhold").split()
    assert set(NEWER) <= set(held)

    again = serving.site_ok(*ASKED, "-e", "gpusmith_change_runtime_on_joined=true")
    assert {host: row["changed"] for host, row in again.recap().items() if row["changed"]} == {}, str(again)
    serving.wait_allocatable(dict.fromkeys(NODES, 2), 60)
    measured("containerd, toolkit and kubelet of two serving nodes", f"{seconds:.0f} s")
