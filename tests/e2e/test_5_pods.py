"""Which pods see which GPUs, and that a pod keeps what it was given."""

from __future__ import annotations

import ast
import json
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import NAMESPACE, Lab, PodSpec, PodStarter

NODE, OTHER = "gpu-1", "gpu-2"
LOWEST = "gpusmith-e2e-lowest"
SYSTEM = "--namespace=kube-system"
EPERM = 1
PLUGIN_FILE = "/var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
# Opens every GPU's device node, present or made by hand, and prints the error numbers (0: it could be opened). On simulated
# hardware a granted device answers ENXIO; EPERM is the kernel's device cgroup saying no.
LOOK = """
import glob, os, re
found = {}
for minor in range(8):
    path = f"/dev/nvidia{minor}"
    if os.path.exists(path):
        try:
            os.close(os.open(path, os.O_RDWR))
            found[minor] = 0
        except OSError as error:
            found[minor] = error.errno
print(found)
"""


# How often a kube-proxy has written its rules since it was started.
SYNCED = """
import re, urllib.request
metrics = urllib.request.urlopen("http://localhost:10249/metrics", timeout=5).read().decode()
print(re.findall(r'^kubeproxy_sync_proxy_rules_duration_seconds_count.*family="IPv4".* ([0-9]+)$', metrics, re.MULTILINE)[0])
"""


def gpus_seen(lab: Lab, pod: str) -> dict[int, int]:
    """Minor number to error number of an open, for each device node in a pod."""
    output = lab.kubectl("exec", pod, f"--namespace={NAMESPACE}", "--", "python3", "-c", LOOK)
    found = ast.literal_eval(output.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def granted(seen: dict[int, int]) -> set[int]:
    return {minor for minor, error in seen.items() if error != EPERM}


@pytest.fixture(scope="module")
def pods(ready_lab: Lab, start_pods: PodStarter) -> Mapping[str, dict[int, int]]:
    """What each pod sees. They run at the same time: started one after the other they would take a minute."""
    everything = {"NVIDIA_VISIBLE_DEVICES": "all"}
    lowest = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": LOWEST}}
    ready_lab.apply({**lowest, "value": -2_000_000_000, "description": "less than that of the suite's pods"})
    names = start_pods(
        PodSpec("plain", NODE),
        PodSpec("greedy", NODE, env=everything),
        PodSpec("greedy-nvidia", NODE, runtime_class="nvidia", env=everything),
        PodSpec("pair", NODE, gpus=2),
        PodSpec("other-pair", NODE, gpus=2),
        PodSpec("keeper", OTHER, gpus=1, priority_class=LOWEST),
    )
    return {name: gpus_seen(ready_lab, name) for name in names}


def test_no_request_sees_no_gpu(pods: Mapping[str, dict[int, int]]) -> None:
    assert pods["plain"] == {}


@pytest.mark.parametrize("name", ["greedy", "greedy-nvidia"])
def test_visible_devices_all_gives_nothing(pods: Mapping[str, dict[int, int]], name: str) -> None:
    assert granted(pods[name]) == set()


def test_two_gpus_are_two(pods: Mapping[str, dict[int, int]]) -> None:
    seen = [granted(pods[name]) for name in ("pair", "other-pair")]
    assert [len(gpus) for gpus in seen] == [2, 2]
    assert not seen[0] & seen[1]


def test_a_pod_keeps_its_gpu(ready_lab: Lab, pods: Mapping[str, dict[int, int]]) -> None:
    before = pods["keeper"]
    assert len(granted(before)) == 1
    ready_lab.on(OTHER, "systemctl daemon-reload")
    assert gpus_seen(ready_lab, "keeper") == before
    ready_lab.on(OTHER, "systemctl restart containerd && systemctl daemon-reload")
    ready_lab.wait_allocatable({OTHER: 4}, 120)
    assert gpus_seen(ready_lab, "keeper") == before
    # A node that was set up by others has neither our units nor our links; an older runc would then lose GPUs by a reload.
    ours = "gpusmith-nvidia-load gpusmith-gpu-devices"
    ready_lab.on(
        OTHER,
        f"systemctl disable --now {ours} && rm /etc/systemd/system/gpusmith-*.service"
        " && find /dev/char -lname '*nvidia*' -delete && systemctl daemon-reload",
    )
    loaded = "systemctl show --property=UnitsLoadTimestampMonotonic"
    when = ready_lab.on(OTHER, loaded)
    ready_lab.site_ok("-l", OTHER)
    assert ready_lab.on(OTHER, loaded) == when
    assert ready_lab.on(OTHER, f"systemctl is-enabled {ours}").split() == ["enabled", "enabled"]
    assert gpus_seen(ready_lab, "keeper") == before


def device_plugins(lab: Lab) -> dict[str, str]:
    """Its pods by node."""
    listed = lab.get(
        "pods", "--namespace=gpusmith-system", "--selector=app.kubernetes.io/name=nvidia-device-plugin"
    )
    return {pod["spec"]["nodeName"]: pod["metadata"]["name"] for pod in listed["items"]}


@pytest.mark.rare
def test_a_device_plugin_that_lost_its_file_is_restarted_and_pods_keep_their_gpus(
    ready_lab: Lab, pods: Mapping[str, dict[int, int]]
) -> None:
    assert "keeper" in pods
    before, was = gpus_seen(ready_lab, "keeper"), device_plugins(ready_lab)
    ready_lab.on(OTHER, f"rm {PLUGIN_FILE}")
    broken = ready_lab.validate_nodes("--limit", OTHER)
    assert broken.ended.status == 1, str(broken.ended)
    assert "no CDI specification of the device plugin" in broken.causes(OTHER)
    told = ready_lab.site_ok("-l", OTHER, "--check")
    assert was[OTHER] in told.output, str(told)
    assert device_plugins(ready_lab) == was
    ended = ready_lab.site_ok("-l", OTHER)
    assert ended.recap()[OTHER]["changed"] == 1, str(ended)
    now = device_plugins(ready_lab)
    assert now[OTHER] != was[OTHER]
    assert now[NODE] == was[NODE], "the plugin of another node was restarted"
    ready_lab.on(OTHER, f"test -s {PLUGIN_FILE}")
    assert gpus_seen(ready_lab, "keeper") == before
    again = ready_lab.site_ok("-l", OTHER)
    assert again.recap()[OTHER]["changed"] == 0, str(again)
    ready_lab.validate_nodes("--limit", OTHER).assert_passed()


def test_services_answer_after_kube_proxy_was_started_anew(
    ready_lab: Lab, pods: Mapping[str, dict[int, int]]
) -> None:
    assert "plain" in pods
    which = ("--selector=k8s-app=kube-proxy", f"--field-selector=spec.nodeName={NODE}")
    ready_lab.kubectl("delete", "pod", SYSTEM, *which)

    def look() -> Done[None] | NotYet:
        command = (ready_lab.program("gpulab"), "ssh", NODE, "--", f"python3 -c {shlex.quote(SYNCED)}")
        ended = ready_lab.run(*command)
        synced = ended.status == 0 and int(ended.output) > 0
        return Done(None) if synced else NotYet(ended.output[-300:])

    wait_until("kube-proxy to write its rules", look, Deadline(60), tick=1.0)
    resolve = "import socket; print(socket.gethostbyname('kubernetes.default.svc.cluster.local'))"
    words = ("plain", f"--namespace={NAMESPACE}", "--", "python3", "-c", resolve)
    assert ready_lab.kubectl("exec", *words) == "10.96.0.1"


def test_two_runs_and_a_pod_of_less_priority_leave_each_other_alone(
    ready_lab: Lab, pods: Mapping[str, dict[int, int]], tmp_path: Path
) -> None:
    before = ready_lab.get("pod", "keeper", f"--namespace={NAMESPACE}")
    words = [
        ready_lab.program("pytest"),
        "validation/workloads",
        f"--inventory={ready_lab.inventory}",
        f"--limit={OTHER}",
    ]
    # As in two containers of a CI system: the same host name, and process ids of their own.
    container = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    folders = [tmp_path / "one", tmp_path / "two"]
    runs = [ready_lab.start(*container, *words, f"--report-dir={folder}") for folder in folders]
    for (process, log), folder in zip(runs, folders, strict=True):
        assert process.wait(300) in (0, 1), log.read_text()
        results = json.loads((folder / "results.json").read_text())
        wrong = [row for row in results["checks"] if row["outcome"] in ("failed", "error")]
        assert wrong == [], log.read_text()
        assert {"node": OTHER, "gpus": 1, "holder": f"{NAMESPACE}/keeper"} in results["coverage"]["gpus"][
            "busy"
        ]
    after = ready_lab.get("pod", "keeper", f"--namespace={NAMESPACE}")
    assert (after["metadata"]["uid"], after["status"]["phase"]) == (before["metadata"]["uid"], "Running")
    names = {entry["metadata"]["name"] for entry in ready_lab.get("namespaces")["items"]}
    assert not {name for name in names if name.startswith("gpusmith-validation-")}


def test_a_node_with_a_gpu_pod_is_not_removed(ready_lab: Lab, pods: Mapping[str, dict[int, int]]) -> None:
    ended = ready_lab.playbook("playbooks/remove_nodes.yml", "-l", OTHER)
    assert ended.status != 0
    assert f"{NAMESPACE}/keeper" in ended.output
    assert OTHER in ready_lab.allocatable()
    assert not ready_lab.get("node", OTHER)["spec"].get("unschedulable", False), "it was cordoned for nothing"
