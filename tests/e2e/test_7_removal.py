"""A node leaves the cluster when its GPUs are free, and comes back with Debian's own driver packages."""

from __future__ import annotations

import json

from tests.e2e.harness import Lab, PodMaker

NODE = "gpu-2"
REMOVE = "playbooks/remove_nodes.yml"
DEBIAN_DRIVER = "550.163.01"


def test_a_node_with_a_gpu_pod_stays(ready_lab: Lab, pod: PodMaker) -> None:
    name = pod("holder", gpus=1, node=NODE)
    ended = ready_lab.playbook(REMOVE, "-l", NODE)
    assert ended.status != 0
    assert name in ended.output
    assert NODE in ready_lab.allocatable()
    ready_lab.kubectl("uncordon", NODE)


def test_nothing_is_removed_by_accident(ready_lab: Lab) -> None:
    ended = ready_lab.playbook(REMOVE)
    assert ended.status != 0
    assert "name them with -l" in ended.output
    assert {"gpu-1", "gpu-2"} <= set(ready_lab.allocatable())


def test_check_mode_removes_nothing(ready_lab: Lab) -> None:
    ended = ready_lab.playbook(REMOVE, "-l", NODE, "--check")
    assert ended.status == 0, str(ended)
    node = ready_lab.get("node", NODE)
    assert not node["spec"].get("unschedulable", False)
    assert ready_lab.allocatable()[NODE] == 4


def test_a_free_node_leaves_and_its_machine_is_clean(ready_lab: Lab) -> None:
    services = ready_lab.service_starts("gpu-1")
    ended = ready_lab.playbook(REMOVE, "-l", NODE)
    assert ended.status == 0, str(ended)
    assert NODE not in ready_lab.allocatable()
    assert ready_lab.on(NODE, "find /etc/kubernetes -type f") == ""
    assert ready_lab.on(NODE, "command -v kubelet kubeadm || true") == ""
    assert ready_lab.service_starts("gpu-1") == services
    again = ready_lab.playbook(REMOVE, "-l", NODE)
    assert again.status == 0, str(again)
    assert not again.recap()[NODE]["changed"], str(again)


def test_it_joins_again(ready_lab: Lab) -> None:
    ready_lab.site_ok("-l", NODE)
    ready_lab.wait_allocatable({"gpu-1": 4, NODE: 4}, 60)


def test_it_comes_back_with_debians_packages(ready_lab: Lab, keep_lab: bool) -> None:
    ready_lab.gpulab("reinstall", NODE)
    depot = ready_lab.on(NODE, "sed -n 's/^URIs: //p' /etc/apt/sources.list.d/debian.sources")
    key = ready_lab.on(NODE, "sed -n '/BEGIN PGP/,$p' /etc/apt/sources.list.d/debian.sources")
    repository = {
        "uris": [depot],
        "suites": ["./"],
        "components": [],
        "key": "\n".join(line.strip().removeprefix(".") for line in key.splitlines()) + "\n",
    }
    variables = {
        "nvidia_driver_package_layout": "debian",
        "nvidia_driver_version": DEBIAN_DRIVER,
        "nvidia_driver_repository": repository,
        "cuda_toolkit_versions": [],
        "cuda_toolkit_default": "",
    }
    ready_lab.site_ok("-l", NODE, "--extra-vars", json.dumps(variables))
    assert DEBIAN_DRIVER in ready_lab.on(NODE, "cat /sys/module/nvidia/version")
    assert ready_lab.allocatable()[NODE] == 4
    # The inventory says another version: site.yml never changes the driver of a joined node, it refuses.
    ended = ready_lab.site("-l", NODE)
    assert ended.status != 0
    assert "upgrade_driver.yml" in ended.output
    if keep_lab:
        ready_lab.gpulab("reinstall", NODE)
        ready_lab.site_ok("-l", NODE)
