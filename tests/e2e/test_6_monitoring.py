"""From a fault to a message: monitoring tells what it should and nothing else, and leaves when it is asked to."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests import dashboards
from tests.e2e.alerts import WHERE, Alert, Prometheus, loud, named
from tests.e2e.harness import NAMESPACE, Ended, Lab, PodSpec, PodStarter

FIRST, SECOND = "gpu-1", "gpu-2"
GPU = 2
HOOK = "hook"
MESSAGE_S = 60.0
REMOVE, HOURS = "playbooks/remove_monitoring.yml", "playbooks/report_gpu_hours.yml"
RECLAIM = "playbooks/reclaim_gpus.yml"
OPEN, CLOSED = "e2e-reclaim", "e2e-no-reclaim"
SLEEPS = "import time; time.sleep(3600)"
WORKS = """
import ctypes, time
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
while True:
    begin = time.monotonic()
    while time.monotonic() < begin + 0.05:
        pass
    time.sleep(0.2)
"""
RECEIVER = """
import http.server, sys

class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *words):
        pass

http.server.HTTPServer(("", 9099), Hook).serve_forever()
"""


@dataclass(frozen=True)
class Monitored(Prometheus):
    """A lab whose alerts go to a receiver, and the inventory that asks for it."""

    inventory: Path

    def messages(self) -> list[Alert]:
        """Alerts that arrived at the receiver."""
        log = self.lab.kubectl("logs", "--namespace", NAMESPACE, HOOK)
        return [alert for line in filter(None, log.splitlines()) for alert in json.loads(line)["alerts"]]


def test_it_leaves_when_it_is_asked_to(ready_lab: Lab) -> None:
    """First: what comes after begins without the alerts of faults before, some of which stay for an hour."""
    for changed in (True, False):
        ended = ready_lab.playbook(REMOVE)
        assert ended.status == 0, str(ended)
        assert bool(ended.recap()[FIRST]["changed"]) is changed, str(ended)
    left = ready_lab.get("namespaces")["items"]
    assert WHERE not in [each["metadata"]["name"] for each in left]
    kept = ready_lab.kubectl("get", "daemonsets", "--all-namespaces", "--output=name")
    assert "dcgm-exporter" not in kept


def holder(kind: str, namespace: str, name: str, image: str, program: str) -> dict[str, Any]:
    """A Deployment or Job with one GPU."""
    container = {"name": "main", "image": image, "command": ["python3", "-c", program]}
    pod = {
        "containers": [{**container, "resources": {"limits": {"nvidia.com/gpu": 1}}}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        "terminationGracePeriodSeconds": 0,
    }
    labels = {"app": name}
    found: dict[str, Any] = {
        "apiVersion": "apps/v1" if kind == "Deployment" else "batch/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"template": {"metadata": {"labels": labels}, "spec": pod}},
    }
    if kind == "Deployment":
        found["spec"]["selector"] = {"matchLabels": labels}
    else:
        pod["restartPolicy"] = "Never"
    return found


@pytest.fixture(scope="module")
def holders(ready_lab: Lab, workload_image: str) -> Iterator[None]:
    """Pods with GPUs, some of them idle: long before anybody asks."""
    rows: list[tuple[str, str, str, str]] = [
        ("Deployment", OPEN, "idle", SLEEPS),
        ("Job", OPEN, "job", SLEEPS),
        ("Deployment", OPEN, "kept", SLEEPS),
        ("Deployment", OPEN, "busy", WORKS),
        ("Deployment", CLOSED, "idle", SLEEPS),
    ]
    for name in (OPEN, CLOSED):
        ready_lab.kubectl("create", "namespace", name)
    ready_lab.apply(
        *(holder(kind, space, name, workload_image, program) for kind, space, name, program in rows)
    )
    yield
    free(ready_lab)


def free(lab: Lab) -> None:
    """Faults that follow are of GPUs that nobody holds."""
    lab.kubectl("delete", "namespace", OPEN, CLOSED, "--ignore-not-found", timeout=180)


@pytest.fixture(scope="module")
def monitored(
    ready_lab: Lab,
    namespace: str,
    workload_image: str,
    holders: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Monitored]:
    container = {
        "name": "main",
        "image": workload_image,
        "command": ["python3", "-c", RECEIVER],
        "ports": [{"containerPort": 9099}],
    }
    metadata = {"name": HOOK, "namespace": namespace, "labels": {"app": HOOK}}
    tolerations = [{"operator": "Exists"}]
    ready_lab.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "containers": [container],
                "tolerations": tolerations,
                "terminationGracePeriodSeconds": 0,
            },
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": {"app": HOOK}, "ports": [{"port": 9099}]},
        },
    )
    inventory = ready_lab.copy_inventory(tmp_path_factory.mktemp("monitoring") / "inventory")
    every = inventory / "group_vars" / "all.yml"
    route = {
        "receiver": "hook",
        "group_by": ["alertname", "node"],
        "group_wait": "1s",
        "group_interval": "5s",
    }
    hook = {"url": f"http://{HOOK}.{namespace}.svc:9099/", "send_resolved": True}
    asked = {
        "gpu_monitoring_alertmanager_config": {
            "route": route,
            "receivers": [{"name": "hook", "webhook_configs": [hook]}],
        },
    }
    every.write_text(yaml.safe_dump({**yaml.safe_load(every.read_text()), **asked}))
    ended = ready_lab.site(inventory=inventory)
    assert ended.status == 0, str(ended)
    yield Monitored(ready_lab, inventory)
    # Whatever failed, the tests that follow have the lab's own.
    ready_lab.site_ok()


@pytest.fixture
def healed(monitored: Monitored) -> Iterator[Monitored]:
    yield monitored
    for node in (FIRST, SECOND):
        monitored.lab.gpulab("heal", node)


def test_the_suite_proves_what_was_turned_on(monitored: Monitored) -> None:
    monitored.lab.validate("--tier", "nodes,monitoring", inventory=monitored.inventory).assert_passed()


def test_a_second_run_changes_nothing(monitored: Monitored) -> None:
    ended = monitored.lab.site(inventory=monitored.inventory)
    assert ended.status == 0, str(ended)
    assert {host: row["changed"] for host, row in ended.recap().items() if row["changed"]} == {}, str(ended)


def test_healthy_nodes_raise_nothing(monitored: Monitored) -> None:
    monitored.wait("no alert", lambda now: not loud(now), 60)


def test_every_panel_of_every_dashboard_has_an_answer(
    monitored: Monitored, start_pods: PodStarter, workload_image: str
) -> None:
    """While a pod holds a GPU, another one waits for more than there are, and their namespace has a quota."""
    lab = monitored.lab
    metadata = {"name": "gpus", "namespace": NAMESPACE}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}
    lab.apply({**quota, "spec": {"hard": {"requests.nvidia.com/gpu": 32}}})
    lab.apply(PodSpec("waits", FIRST, gpus=16).manifest(workload_image))
    start_pods(PodSpec("holds", FIRST, gpus=1))
    boards = [dashboards.load(path) for path in dashboards.FILES]

    def look() -> Done[None] | NotYet:
        now = time.time()
        rest = [each for board in boards for each in dashboards.unanswered(board, lab.prometheus, now, 300)]
        return NotYet("\n".join(rest)) if rest else Done(None)

    try:
        wait_until("answers for all panels", look, Deadline(180), tick=5.0)
    finally:
        words = ["pod/holds", "pod/waits", "resourcequota/gpus"]
        lab.kubectl("delete", f"--namespace={NAMESPACE}", *words)


def test_gpu_hours_are_counted(monitored: Monitored, tmp_path: Path) -> None:
    ended = monitored.lab.playbook(
        HOURS, "-e", f"gpusmith_report_dir={tmp_path}", inventory=monitored.inventory
    )
    assert ended.status == 0, str(ended)
    (measured,) = re.findall(r"has values of ([0-9.]+) GPU hours", ended.output)
    assert float(measured) > 0
    assert (tmp_path / "gpu_hours.csv").read_text().startswith("namespace,gpu_hours,")


def reclaim(monitored: Monitored, folder: Path, *words: str) -> Ended:
    asked = {"idle_min": "1", "grace_min": "0", "jobs": "true"}
    given = [word for name, value in asked.items() for word in ("-e", f"gpu_reclaim_{name}={value}")]
    given += ["-e", f"gpusmith_report_dir={folder}"]
    return monitored.lab.playbook(RECLAIM, *given, *words, inventory=monitored.inventory)


def state(lab: Lab) -> dict[str, tuple[int, bool]]:
    """Replicas, or pods that may run, of all holders, and whether they are warned."""
    found = {}
    for namespace in (OPEN, CLOSED):
        for row in lab.get("-n", namespace, "deployments,jobs")["items"]:
            spec, marks = row["spec"], row["metadata"].get("annotations") or {}
            count = spec["replicas"] if row["kind"] == "Deployment" else int(not spec.get("suspend"))
            found[f"{namespace}/{row['metadata']['name']}"] = (count, "gpusmith.io/idle-since" in marks)
    return found


def wait_for_values(monitored: Monitored) -> None:
    """Until Prometheus has those of a minute of all holders."""
    query = f'count_over_time(gpusmith:gpu_busy{{namespace="{OPEN}"}}[90s]) >= 3'

    def look() -> Done[None] | NotYet:
        found = monitored.query(query)
        return Done(None) if len(found) == 4 else NotYet(f"values of {len(found)} GPUs")

    wait_until("values of all holders", look, Deadline(180), tick=5.0)


def test_idle_gpus_are_taken_back_after_a_warning(monitored: Monitored, tmp_path: Path) -> None:
    lab = monitored.lab
    wait_for_values(monitored)
    before = state(lab)
    nobody = reclaim(monitored, tmp_path)
    assert (nobody.status, "No namespace allows it" in nobody.output) == (0, True), str(nobody)
    lab.kubectl("label", "namespace", OPEN, "gpusmith.io/reclaim=allowed")
    lab.kubectl("-n", OPEN, "annotate", "deployment/kept", "gpusmith.io/keep=true")
    look = reclaim(monitored, tmp_path, "--check")
    assert (look.status, f"{OPEN} deployment/idle warned" in look.output) == (0, True), str(look)
    assert state(lab) == before

    warned = reclaim(monitored, tmp_path)
    assert warned.status == 0, str(warned)
    marked = {**before, f"{OPEN}/idle": (1, True), f"{OPEN}/job": (1, True)}
    assert state(lab) == marked, str(warned)
    assert "To keep it: kubectl" in lab.kubectl(
        "-n", OPEN, "get", "events", "--field-selector=reason=GpuIdle"
    )

    stopped = reclaim(monitored, tmp_path)
    assert stopped.status == 0, str(stopped)
    assert state(lab) == {**before, f"{OPEN}/idle": (0, False), f"{OPEN}/job": (0, False)}, str(stopped)
    commands = re.findall(r"To bring it back: (kubectl .+)$", stopped.output, re.MULTILINE)
    assert len(commands) == 2, str(stopped)
    for command in commands:
        # The lab's own kubectl has its kubeconfig, and runs elsewhere.
        _, *words = shlex.split(re.sub(r" --kubeconfig \S+", "", command))
        lab.kubectl(*words)
    assert state(lab) == before


def test_without_values_nothing_is_taken_back(monitored: Monitored, tmp_path: Path) -> None:
    lab = monitored.lab
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 60))
    # One whose pod has run since the beginning: a warning ends with the pods that it was about.
    lab.kubectl("label", "namespace", OPEN, "gpusmith.io/reclaim-")
    lab.kubectl("label", "namespace", CLOSED, "gpusmith.io/reclaim=allowed")
    lab.kubectl("-n", CLOSED, "annotate", "deployment/idle", f"gpusmith.io/idle-since={since}")
    before = state(lab)
    assert before[f"{CLOSED}/idle"] == (1, True)
    lab.kubectl("-n", WHERE, "scale", "deployment/prometheus", "--replicas=0")
    lab.kubectl("-n", WHERE, "wait", "--for=delete", "pod", "-l", "app.kubernetes.io/name=prometheus")
    silent = reclaim(monitored, tmp_path)
    assert (silent.status, "Prometheus does not answer" in silent.output) == (2, True), str(silent)
    assert state(lab) == before

    lab.kubectl("-n", WHERE, "scale", "deployment/prometheus", "--replicas=1")
    lab.kubectl("-n", WHERE, "rollout", "status", "deployment/prometheus")
    young = reclaim(monitored, tmp_path)
    assert (young.status, state(lab)) == (0, before), str(young)
    assert "Nothing to do" in young.output, str(young)
    kept = lab.get("-n", CLOSED, "deployment", "idle")["metadata"]["annotations"]
    assert kept["gpusmith.io/idle-since"] == since
    free(lab)


def test_a_fault_is_a_message_within_a_minute(healed: Monitored) -> None:
    uuids = re.findall(r"GPU-[0-9a-f-]{36}", healed.lab.on(FIRST, "nvidia-smi -L"))
    begin = time.monotonic()
    healed.lab.gpulab("fault", FIRST, "xid", "79", "--gpu", str(GPU))
    healed.lab.gpulab("fault", SECOND, "xid", "31", "--gpu", str(GPU))

    def look() -> Done[Alert] | NotYet:
        come = named(healed.messages(), "GpusmithGpuXid", FIRST)
        return Done(come[0]) if come else NotYet("no message")

    message = wait_until("a message about the Xid", look, Deadline(MESSAGE_S), tick=1.0)
    print(f"The message came after {time.monotonic() - begin:.0f} s.")
    expected = {"gpu": str(GPU), "UUID": uuids[GPU], "xid": "79", "severity": "critical", "cluster": "lab"}
    assert {key: message["labels"].get(key) for key in expected} == expected
    # An Xid of an application, which the inventory accepts.
    assert not named(healed.alerts(), "GpusmithGpuXid", SECOND)
    assert not named(healed.messages(), "GpusmithGpuXid", SECOND)


def test_faults_raise_their_alerts_and_heal(healed: Monitored) -> None:
    for kind in ("ecc-uncorrectable", "throttle"):
        healed.lab.gpulab("fault", FIRST, kind, "--gpu", str(GPU))
    healed.lab.gpulab("fault", SECOND, "gpu-lost", "--gpu", str(GPU))
    expected = {
        ("GpusmithGpuUncorrectableEcc", FIRST),
        ("GpusmithGpuThrottled", FIRST),
        ("GpusmithGpuXid", SECOND),
        ("GpusmithGpuNotAllocatable", SECOND),
        ("GpusmithGpusUnseen", SECOND),
    }
    # Those that wait before they fire are pending: promtool's tests prove the rest.
    healed.wait(
        "the alerts of three faults",
        lambda now: expected <= {(row["labels"]["alertname"], row["labels"].get("node")) for row in now},
        120,
    )
    for node in (FIRST, SECOND):
        healed.lab.gpulab("heal", node)
    # An Xid is told for an hour, whatever is done about it; ECC for five minutes.
    remain = {"GpusmithGpuXid", "GpusmithGpuUncorrectableEcc"}
    now = healed.wait(
        "the alerts to end",
        lambda now: {row["labels"]["alertname"] for row in loud(now)} <= remain,
        420,
    )
    assert all(row.get("keepFiringSince") for row in loud(now)), now


def test_a_driver_that_is_gone_is_told(healed: Monitored) -> None:
    healed.lab.gpulab("fault", FIRST, "driver-not-loaded")
    healed.wait("an alert", lambda now: bool(named(now, "GpusmithExporterDown", FIRST)), 120)
    healed.lab.gpulab("heal", FIRST)
    healed.wait("the alert to end", lambda now: not named(now, "GpusmithExporterDown", FIRST), 120)
