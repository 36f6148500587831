"""A node leaves the cluster, and joins again at once. One whose GPUs are held is in test_5_pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpusmith.names import STAMP, STARTUP_TAINT
from tests.e2e.claims import POD, SAYS, claimed_gpu
from tests.e2e.harness import NAMESPACE, Lab

NODE = "gpu-2"
SHARES = 2
REMOVE = "playbooks/remove_nodes.yml"


def sharing(lab: Lab, folder: Path, **more: Any) -> Path:
    """The lab's inventory, in which the node is to hand its GPUs out in shares."""
    inventory = lab.copy_inventory(folder)
    (inventory / "host_vars").mkdir()
    new = {"gpusmith_gpu_sharing": "time-slicing", "gpusmith_gpu_shares": SHARES, **more}
    (inventory / "host_vars" / f"{NODE}.yml").write_text(json.dumps(new))
    return inventory


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


def test_a_node_whose_gpu_is_claimed_is_neither_removed_nor_tested(
    ready_lab: Lab, namespace: str, workload_image: str
) -> None:
    with claimed_gpu(ready_lab, NODE, workload_image):
        ended = ready_lab.playbook(REMOVE, "-l", NODE)
        seen = ready_lab.validate(f"--limit={NODE}", tests="validation/cluster")
        tested = ready_lab.validate(f"--limit={NODE}", tests="validation/workloads")
        pod = ready_lab.get("pod", POD, f"--namespace={namespace}")
    assert ended.status != 0
    assert SAYS in " ".join(ended.output.split()), str(ended)
    assert "deletionTimestamp" not in pod["metadata"]
    assert not ready_lab.get("node", NODE)["spec"].get("unschedulable", False), "it was cordoned for nothing"
    # The device plugin offers that GPU as well.
    # So soon after a reboot, an operand that found no API server may wait for its next start as well.
    assert "cluster.gpu-owners" in [row["id"] for row in seen.failed()], str(seen.ended)
    assert SAYS in seen.causes(NODE)
    assert not [
        row for row in tested.results["checks"] if (row["target"], row["outcome"]) == (NODE, "passed")
    ], str(tested.ended)
    holder = {"node": NODE, "gpus": 1, "holder": f"{NAMESPACE}/{POD}"}
    assert holder in tested.results["coverage"]["gpus"]["busy"]


def test_a_free_node_leaves_and_its_machine_is_clean(ready_lab: Lab) -> None:
    services = ready_lab.service_starts("gpu-1")
    # As podman's package brings it, older than the join.
    ready_lab.on(
        NODE,
        "echo '{}' > /etc/cni/net.d/87-own.conflist && touch -d 2020-01-01 /etc/cni/net.d/87-own.conflist",
    )
    ended = ready_lab.playbook(REMOVE, "-l", NODE)
    assert ended.status == 0, str(ended)
    assert ready_lab.on(NODE, "cd /etc/cni/net.d && ls && rm 87-own.conflist").split() == [
        "10-gpulab.conflist.before-gpusmith-removal",
        "87-own.conflist",
    ]
    assert NODE not in ready_lab.allocatable()
    assert ready_lab.on(NODE, "find /etc/kubernetes -type f") == ""
    assert ready_lab.on(NODE, "command -v kubelet kubeadm || true") == ""
    # A machine that joins again would be said to run them.
    assert [
        pod["metadata"]["name"]
        for pod in ready_lab.get("pods", "-A", f"--field-selector=spec.nodeName={NODE}")["items"]
    ] == []
    assert ready_lab.service_starts("gpu-1") == services
    again = ready_lab.playbook(REMOVE, "-l", NODE)
    assert again.status == 0, str(again)
    assert not again.recap()[NODE]["changed"], str(again)


def test_the_operands_leave_when_they_are_asked_to(ready_lab: Lab, tmp_path: Path) -> None:
    playbook = tmp_path / "remove_operands.yml"
    role = {"name": "gpusmith.gpu.gpu_operands", "tasks_from": "remove"}
    tasks = [{"name": "Remove", "ansible.builtin.import_role": role}]
    playbook.write_text(json.dumps([{"hosts": "gpu_nodes", "gather_facts": False, "tasks": tasks}]))
    for changed in (True, False):
        ended = ready_lab.playbook(str(playbook))
        assert ended.status == 0, str(ended)
        assert bool(ended.recap()["gpu-1"]["changed"]) is changed, str(ended)
    kept = ready_lab.get("runtimeclasses")["items"]
    assert "nvidia" not in [each["metadata"]["name"] for each in kept]


def test_it_joins_again_at_once_and_its_pods_have_a_network(ready_lab: Lab, tmp_path: Path) -> None:
    # Even its driver goes, and comes back.
    for changed in (True, False):
        ended = ready_lab.site_ok("-l", NODE, "-e", "nvidia_driver_state=absent")
        assert bool(ended.recap()[NODE]["changed"]) is changed, str(ended)
    script = (
        "dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' | grep -E '^.i +(nvidia-driver|nvidia-kernel|libcuda1)' || true\n"
        "find /etc -name 'gpusmith-nvidia-driver*' -o -name 'gpusmith-nvidia-load*'\n"
        "find /sys/module -maxdepth 1 -name 'nvidia*'"
    )
    assert ready_lab.on(NODE, script) == ""
    mine, versions = ready_lab.service_starts("gpu-1"), "dpkg-query --show | sha256sum"
    packages = ready_lab.on("gpu-1", versions)
    # Its validation has pods find a Service by name. It gets shares as a new node does, for the tests of sharing.
    parameters = {"nvidia_driver_module_parameters": {"NVreg_EnableStreamMemOPs": 1}}
    inventory = sharing(ready_lab, tmp_path / "inventory", **parameters)
    ended = ready_lab.site("-l", NODE, inventory=inventory)
    assert ended.status == 0, str(ended)
    assert "gpu-1" not in ended.recap()
    assert ready_lab.service_starts("gpu-1") == mine, "a node comes, and leaves the others alone"
    assert ready_lab.on("gpu-1", versions) == packages
    assert ready_lab.on(NODE, "grep StreamMemOPs /proc/driver/nvidia/params") == "EnableStreamMemOPs: 1"
    ready_lab.wait_allocatable({"gpu-1": 4, NODE: 4 * SHARES}, 60)
    node = ready_lab.get("node", NODE)
    assert node["status"]["allocatable"]["nvidia.com/gpu.shared"] == str(4 * SHARES)
    assert '"layout": "time-slicing-2"' in node["metadata"]["annotations"][STAMP]
    assert not [taint for taint in node["spec"]["taints"] if taint["key"] == STARTUP_TAINT]


def test_packages_that_cannot_work_are_refused_before_the_driver_changes(ready_lab: Lab) -> None:
    before = ready_lab.on(NODE, "dpkg-query --show | sha256sum")
    ended = ready_lab.site("-l", NODE, "--extra-vars", '{"nvidia_driver_package_layout": "distribution"}')
    assert ended.status != 0
    assert "nvidia_driver_package_layout" in ended.output
    assert ready_lab.on(NODE, "dpkg-query --show | sha256sum") == before
