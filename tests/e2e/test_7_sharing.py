"""A node with shares, as test_7_removal leaves it: MIG under a pod that has a share, claims, and whole GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusmith.change.ledger import State
from gpusmith.names import DEVICE_CLASS, GPU_RESOURCE, LAYOUT_LABEL, OPERANDS_NAMESPACE, SHARE_RESOURCE
from gpusmith.wait import Deadline, Done, NotYet, wait_until
from gpusmith.wanted.offers import is_gpu
from tests.e2e.harness import NAMESPACE, Lab, PodSpec
from tests.e2e.test_7_removal import NODE, SHARES, sharing
from tests.e2e.upgrades import SHORT, Eyes, stamp_of, start, state_of, wait_gone, wait_state

MIG, INSTANCE = "mig-2x3g.40gb", "nvidia.com/mig-3g.40gb"
INSTANCES = 8
FILE, UNIT = "/etc/gpusmith/gpu-layout.json", "gpusmith-gpu-layout"
WORDS = ["playbooks/change_layout.yml", "-l", NODE, *SHORT]


@pytest.fixture(scope="module")
def eyes(ready_lab: Lab) -> Eyes:
    return Eyes(ready_lab.inventory / "kubeconfig")


@pytest.fixture(scope="module", autouse=True)
def _shared(ready_lab: Lab, eyes: Eyes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """By itself this file has no node with shares: one that serves is changed."""
    if LAYOUT_LABEL not in eyes.nodes()[NODE]["metadata"]["labels"]:
        inventory = sharing(ready_lab, tmp_path_factory.mktemp("sharing"))
        ended = ready_lab.playbook(*WORDS, inventory=inventory)
        assert ended.status == 0, str(ended)


@pytest.fixture(scope="module")
def divided(ready_lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The inventory that asks for MIG."""
    asked = {"gpusmith_gpu_sharing": "mig", "gpusmith_gpu_mig_profile": "3g.40gb"}
    return sharing(ready_lab, tmp_path_factory.mktemp("mig"), **asked)


def asks_for(count: int, name: str, image: str) -> dict[str, Any]:
    """A pod on the node that holds shares until it is deleted."""
    pod = PodSpec(name, NODE, gpus=1).manifest(image)
    (container,) = pod["spec"]["containers"]
    container["resources"] = {"limits": {SHARE_RESOURCE: str(count)}}
    return pod


def phases(eyes: Eyes) -> dict[str, tuple[str, str]]:
    """Phase and reason of pods by name."""
    pods = eyes.pods(NAMESPACE)
    return {
        pod["metadata"]["name"]: (pod["status"]["phase"], pod["status"].get("reason", "")) for pod in pods
    }


@pytest.fixture(scope="module")
def holder(ready_lab: Lab, eyes: Eyes, workload_image: str, namespace: str) -> Iterator[str]:
    """A pod with a share, beside one that asks for two and gets none."""
    ready_lab.apply(asks_for(1, "one", workload_image), asks_for(2, "two", workload_image))

    def look() -> Done[None] | NotYet:
        now = phases(eyes)
        there = {"one": ("Running", ""), "two": ("Failed", "UnexpectedAdmissionError")}
        return Done(None) if now == there else NotYet(str(now))

    wait_until("a pod with a share", look, Deadline(120), tick=1.0)
    yield "one"
    ready_lab.kubectl("delete", "pod", "one", "--namespace", namespace, "--ignore-not-found")


def layouts(lab: Lab) -> list[str]:
    """Objects of layouts in the operands' namespace."""
    found = lab.get("daemonsets,configmaps", "-n", OPERANDS_NAMESPACE, "-l", LAYOUT_LABEL)["items"]
    return sorted(row["metadata"]["name"] for row in found)


def test_site_says_that_it_keeps_what_serves(ready_lab: Lab, eyes: Eyes, holder: str) -> None:
    ended = ready_lab.site_ok("-l", NODE)
    assert f"hands out {SHARES} shares of each GPU" in " ".join(ended.output.split()), str(ended)
    assert eyes.nodes()[NODE]["metadata"]["labels"][LAYOUT_LABEL] == f"time-slicing-{SHARES}"
    assert phases(eyes)[holder] == ("Running", "")
    assert len(layouts(ready_lab)) == 3


def test_check_mode_shows_the_plan_and_changes_nothing(
    ready_lab: Lab, eyes: Eyes, divided: Path, holder: str
) -> None:
    before = eyes.nodes()[NODE]
    ended = ready_lab.playbook(*WORDS, "--check", inventory=divided)
    assert ended.status == 0, str(ended)
    assert re.search(rf"1 +{NODE} +change +time-slicing-{SHARES} +{re.escape(MIG)} +4", ended.output), str(
        ended
    )
    assert f"'{NAMESPACE}/{holder}'" in ended.output, str(ended)
    after = eyes.nodes()[NODE]
    assert (after["spec"], after["metadata"]["labels"]) == (before["spec"], before["metadata"]["labels"])


def test_a_layout_waits_for_pods_and_a_killed_run_goes_on(
    ready_lab: Lab, eyes: Eyes, divided: Path, holder: str
) -> None:
    services, others = ready_lab.service_starts("gpu-1"), plugin_pods(ready_lab, "gpu-1")
    run = start(ready_lab, divided, *WORDS)
    wait_state(eyes, run, NODE, ["draining"])
    site = ready_lab.site("-l", NODE)
    assert site.status != 0, str(site)
    assert phases(eyes)[holder] == ("Running", "")
    assert SHARE_RESOURCE in eyes.nodes()[NODE]["status"]["allocatable"]
    workers = run.kill()
    refused = ready_lab.site("-l", NODE)
    assert "playbooks/change_layout.yml" in refused.output, str(refused)
    run = start(ready_lab, divided, *WORDS)
    wait_state(eyes, run, NODE, ["draining"])
    ready_lab.kubectl("delete", "pod", holder, "--namespace", NAMESPACE)
    wait_state(eyes, run, NODE, [State.VALIDATING])
    workers |= run.kill()
    ended = start(ready_lab, divided, *WORDS).ended()
    wait_gone(workers)
    assert ended.status == 0, str(ended)
    node = eyes.nodes()[NODE]
    assert state_of(node) == "done"
    assert not node["spec"].get("unschedulable")
    assert node["metadata"]["labels"][LAYOUT_LABEL] == MIG
    assert offered(node) == {INSTANCE: INSTANCES}
    assert stamp_of(node)["layout"] == MIG
    assert len(layouts(ready_lab)) == 2, "no node has the former one any more"
    assert (ready_lab.service_starts("gpu-1"), plugin_pods(ready_lab, "gpu-1")) == (services, others)
    again = ready_lab.playbook(*WORDS, inventory=divided)
    assert again.status == 0, str(again)
    assert not any(row["changed"] for row in again.recap().values()), str(again)
    site = ready_lab.site_ok("-l", NODE)
    assert not site.recap()[NODE]["changed"], str(site)


@pytest.mark.rare
def test_instances_come_back_with_the_machine_and_are_put_right(ready_lab: Lab, divided: Path) -> None:
    there = ready_lab.playbook(*WORDS, inventory=divided)
    assert there.status == 0, str(there)
    before = {NODE: ready_lab.boots()[NODE]}
    ready_lab.gpulab("reboot", NODE)
    ready_lab.wait_allocatable({NODE: INSTANCES}, 180, rebooted_since=before)
    ready_lab.validate_nodes("--limit", NODE, inventory=divided).assert_passed()
    ready_lab.on(NODE, "nvidia-smi mig -i 1 -dci && nvidia-smi mig -i 1 -dgi")
    broken = ready_lab.validate_nodes("--limit", NODE, inventory=divided)
    # The CDI specification still has its devices.
    found = {row["id"]: row for row in broken.failed()}
    assert set(found) == {"nodes.gpu-layout", "nodes.cdi"}, str(broken.ended)
    assert "GPU 1" in found["nodes.gpu-layout"]["cause"]
    assert "playbooks/change_layout.yml" in found["nodes.gpu-layout"]["next_step"]
    repaired = ready_lab.playbook(*WORDS, inventory=divided)
    assert repaired.status == 0, str(repaired)
    ready_lab.wait_allocatable({NODE: INSTANCES}, 60)


def assert_whole(lab: Lab, eyes: Eyes) -> None:
    """That the node hands out whole GPUs, and that neither it nor the cluster has anything left of another layout."""
    node = eyes.nodes()[NODE]
    assert LAYOUT_LABEL not in node["metadata"]["labels"]
    assert offered(node) == {GPU_RESOURCE: 4}
    assert "layout" not in stamp_of(node)
    looks = f"ls {FILE}; systemctl list-unit-files --no-legend '{UNIT}*'; nvidia-smi -L | grep MIG; ls -d /run/nvidia/mps"
    looks += "; nvidia-smi --query-gpu=compute_mode --format=csv,noheader | grep -v Default; mount | grep nvidia/mps"
    left = f"{{ {looks}; }} 2>/dev/null || true"
    assert lab.on(NODE, left) == ""
    objects = lab.get("deviceclasses,resourceslices,clusterroles", "-l", LAYOUT_LABEL)["items"]
    assert (objects, layouts(lab), lab.get("resourceslices")["items"]) == ([], [], [])


def claims_one(image: str) -> list[dict[str, Any]]:
    """A pod on the node that holds a GPU by a claim, as users write it."""
    exactly = {"deviceClassName": DEVICE_CLASS, "count": 1}
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu", "namespace": NAMESPACE},
        "spec": {"spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}},
    }
    pod = PodSpec("by-claim", NODE, gpus=1).manifest(image)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return [template, pod]


def test_divided_gpus_are_handed_out_by_claims_and_are_whole_once_no_claim_keeps_them(
    ready_lab: Lab, eyes: Eyes, workload_image: str, namespace: str, tmp_path: Path
) -> None:
    others = plugin_pods(ready_lab, "gpu-1")
    asked = ready_lab.copy_inventory(tmp_path)
    (asked / "host_vars").mkdir()
    (asked / "host_vars" / f"{NODE}.yml").write_text("gpusmith_gpu_sharing: dra\n")
    changed = ready_lab.playbook(*WORDS, inventory=asked)
    assert changed.status == 0, str(changed)
    node = eyes.nodes()[NODE]
    assert (node["metadata"]["labels"][LAYOUT_LABEL], offered(node)) == ("dra", {})
    assert stamp_of(node)["layout"] == "dra"
    assert (plugin_pods(ready_lab, NODE), plugin_pods(ready_lab, "gpu-1")) == ([], others)
    ready_lab.apply(*claims_one(workload_image))
    ready_lab.kubectl("wait", "pod/by-claim", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
    assert ready_lab.kubectl("exec", "-n", namespace, "by-claim", "--", "nvidia-smi", "-L").count("GPU-") == 1
    run = start(ready_lab, ready_lab.inventory, *WORDS)
    wait_state(eyes, run, NODE, ["draining"])
    assert phases(eyes)["by-claim"] == ("Running", "")
    ready_lab.kubectl("delete", "pod", "by-claim", "-n", namespace)
    ended = run.ended()
    assert ended.status == 0, str(ended)
    assert_whole(ready_lab, eyes)
    site = ready_lab.site_ok("-l", NODE)
    assert not site.recap()[NODE]["changed"], str(site)


@pytest.mark.rare
def test_shares_by_mps_come_with_their_daemon_and_are_proved(
    ready_lab: Lab, eyes: Eyes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    asked = {"gpusmith_gpu_sharing": "mps", "gpusmith_gpu_shares": 2}
    inventory = sharing(ready_lab, tmp_path_factory.mktemp("mps"), **asked)
    ended = ready_lab.playbook(*WORDS, inventory=inventory)
    assert ended.status == 0, str(ended)
    node = eyes.nodes()[NODE]
    labels = node["metadata"]["labels"]
    assert (labels[LAYOUT_LABEL], labels["nvidia.com/gpu.sharing-strategy"]) == ("mps-2", "mps")
    assert offered(node) == {SHARE_RESOURCE: 8}
    assert stamp_of(node)["layout"] == "mps-2"
    assert len(layouts(ready_lab)) == 4
    back = ready_lab.playbook(*WORDS)
    assert back.status == 0, str(back)
    assert_whole(ready_lab, eyes)


@pytest.mark.rare
def test_what_a_killed_daemon_of_mps_leaves_is_named_with_its_repair(ready_lab: Lab) -> None:
    # A site's own mode, without what a daemon leaves, is nobody's fault.
    ready_lab.on(NODE, "nvidia-smi -i 1 -c EXCLUSIVE_PROCESS")
    ready_lab.validate_nodes("--limit", NODE).assert_passed()
    ready_lab.on(NODE, "mkdir -p /run/nvidia/mps")
    (found,) = ready_lab.validate_nodes("--limit", NODE).failed()
    assert (found["id"], "GPU 1" in found["cause"]) == ("nodes.mps", True), found
    ready_lab.on(NODE, found["next_step"].rpartition(": ")[2])
    ready_lab.validate_nodes("--limit", NODE).assert_passed()
    ready_lab.on(NODE, "rmdir /run/nvidia/mps")


def offered(node: Mapping[str, Any]) -> dict[str, int]:
    """What pods can get of a node's GPUs."""
    counts = {name: int(count) for name, count in node["status"]["allocatable"].items() if is_gpu(name)}
    return {name: count for name, count in counts.items() if count}


def plugin_pods(lab: Lab, node: str) -> list[str]:
    """Device plugins of a node."""
    chosen = ("-l", "app.kubernetes.io/name=nvidia-device-plugin", f"--field-selector=spec.nodeName={node}")
    return [pod["metadata"]["name"] for pod in lab.get("pods", "-n", OPERANDS_NAMESPACE, *chosen)["items"]]
