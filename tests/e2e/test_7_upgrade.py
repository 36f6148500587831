"""Driver upgrades: refusals, a clean one, a bad driver without repositories, a killed run. Test 8 has the way back by hand."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.change import ledger
from gpusmith.change.ledger import State
from gpusmith.names import OPERANDS_LABEL, OPERANDS_ON, PREVIOUS_DRIVER, RUNS, RUNS_NAMESPACE
from tests.e2e.alerts import Prometheus
from tests.e2e.claims import SAYS, claimed_gpu
from tests.e2e.harness import NAMESPACE, ROCKY, Lab, PodSpec
from tests.e2e.upgrades import (
    BROKEN,
    NEW,
    NEXT_BRANCH,
    OLD,
    OLDER,
    Eyes,
    Node,
    Running,
    Watch,
    cordoned,
    evict,
    offering_broken_drivers,
    reports,
    stamp_of,
    start,
    state_of,
    untouched_parts,
    upgrade_words,
    wait_for,
    wait_gone,
    wait_state,
)

FIRST, SECOND, THIRD = NODES = ("gpu-1", "gpu-2", ROCKY)
ALL = ",".join(NODES)
GPUS = dict.fromkeys(NODES, 4)
SERVICE, TRAINING, LONELY = "serving", "training", "lonely"
NAME = "nvidia-driver-cuda"
LOADED = "cat /sys/module/nvidia/version"
DPKG = f"{LOADED}; dpkg-query -W -f '${{Version}}\\n' {NAME}; apt-mark showhold | grep -c '^{NAME}$'"
RPM = f"{LOADED}; rpm -q --qf '%{{VERSION}}\\n' {NAME}; dnf -q versionlock list | grep -c '^{NAME}-[0-9]'"
"""What is loaded, the package's version, and how often it is held."""


@pytest.fixture(scope="module")
def eyes(grown: Lab) -> Eyes:
    return Eyes(grown.inventory / "kubeconfig")


@pytest.fixture(scope="module")
def inventory(grown: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return offering_broken_drivers(grown, tmp_path_factory.mktemp("upgrade") / "inventory")


@pytest.fixture
def reported(tmp_path: Path) -> tuple[Path, list[str]]:
    """Folder for the reports of a run, and the words that name it."""
    return tmp_path / "reports", ["-e", f"gpu_upgrade_report_dir={tmp_path / 'reports'}"]


@pytest.fixture
def depot(grown: Lab) -> Iterator[Callable[[], None]]:
    """Takes the repositories away until the end of the test."""

    def stop() -> None:
        grown.gpulab("depot", "stop")

    yield stop
    grown.gpulab("depot", "start")


def on_machine(lab: Lab, node: str) -> tuple[str, str]:
    """Version of the loaded module and of the packages, which are held."""
    module, package, held = lab.on(node, RPM if node == ROCKY else DPKG).splitlines()
    # dnf has two lines: one pins the version, one holds the package.
    assert held == ("2" if node == ROCKY else "1"), f"the driver of '{node}' is not held"
    return module, package.split("-")[0]


def assert_serves(lab: Lab, node: Node, version: str) -> None:
    """A node is in use, with that driver, and validated with it."""
    name = node["metadata"]["name"]
    assert on_machine(lab, name) == (version, version)
    assert not cordoned(node)
    assert node["metadata"]["labels"][OPERANDS_LABEL] == OPERANDS_ON
    assert stamp_of(node)["driver"] == version
    assert ledger.unfinished(node) == ""


def state_of_lab(lab: Lab, eyes: Eyes) -> dict[str, Any]:
    """Everything that a run may not change which only looks."""
    nodes = eyes.nodes()
    listed = {name: "rpm -qa | sort" if name == ROCKY else "dpkg-query -W" for name in NODES}
    packages = {
        name: hashlib.sha256(lab.on(name, words).encode()).hexdigest() for name, words in listed.items()
    }
    folders = {name: lab.on(name, "ls /var/lib/gpusmith/driver 2>/dev/null || true") for name in NODES}
    claims = {row["metadata"]["name"]: row for row in lab.get("configmaps", "-n", RUNS_NAMESPACE)["items"]}
    parts = {name: untouched_parts(nodes[name]) for name in NODES}
    held = claims.get(RUNS, {}).get("data")
    return {"nodes": parts, "packages": packages, "folders": folders, "claims": held}


# --- refusals ----------------------------------------------------------------------------------------------

REFUSED = {
    "downgrade": ([*upgrade_words(ALL, OLDER)], rf"downgrade.*{OLDER}"),
    "version-in-no-repository": ([*upgrade_words(ALL, "580.191.00")], r"580\.191\.00"),
    "budget-below-a-node": (
        upgrade_words(ALL, NEW, "-e", "gpu_upgrade_max_unavailable=3"),
        r"gpu_upgrade_max_unavailable.*\b3\b|\b3\b.*gpu_upgrade_max_unavailable",
    ),
    "input-of-a-role": (
        upgrade_words(ALL, NEW, "-e", f"nvidia_driver_version={NEW}"),
        r"nvidia_driver_version",
    ),
    "staging-without-proof": (
        upgrade_words(SECOND, NEW, "-e", "gpu_upgrade_requires_group=kube_control_plane"),
        r"gpu_upgrade_requires_group|kube_control_plane",
    ),
}


def test_refusals_and_a_look_change_nothing(grown: Lab, eyes: Eyes, reported: tuple[Path, list[str]]) -> None:
    before = state_of_lab(grown, eyes)
    for name, (words, says) in REFUSED.items():
        ended = grown.playbook(*words)
        assert ended.status != 0, f"{name}: {ended}"
        assert re.search(says, ended.output, re.DOTALL), f"{name}: {ended}"
    folder, where = reported
    ended = grown.playbook(*upgrade_words(ALL, NEW, "--check", *where))
    assert ended.status == 0, str(ended)
    (plan,) = reports(folder, "plan.json")
    assert plan["target"] == NEW
    assert plan["would_change"]
    assert plan["refused"] in ([], {})
    assert {row["name"]: (row["from"], row["gpus"]) for row in plan["nodes"]} == dict.fromkeys(
        NODES, (OLD, 4)
    )
    assert state_of_lab(grown, eyes) == before


# --- a clean upgrade ---------------------------------------------------------------------------------------


def training(image: str) -> dict[str, Any]:
    """A Job on the canary's GPU that ends when it is told to; nothing but our waiting protects it."""
    wait = "import os, time\nwhile not os.path.exists('/tmp/done'): time.sleep(0.2)"
    pod = PodSpec(TRAINING, FIRST, gpus=1).manifest(image)["spec"]
    pod["containers"][0]["command"] = ["python3", "-c", wait]
    template = {"spec": {**pod, "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": TRAINING, "namespace": NAMESPACE},
        "spec": {"backoffLimit": 0, "template": template},
    }


def serving(image: str) -> list[dict[str, Any]]:
    """Two replicas with a GPU each on these nodes, one of which must be there, behind a Service."""
    labels = {"app": SERVICE}
    serve = "import http.server as h; h.ThreadingHTTPServer(('', 8080), h.SimpleHTTPRequestHandler).serve_forever()"
    pod = PodSpec(SERVICE, FIRST, gpus=1).manifest(image)["spec"]
    del pod["nodeSelector"]
    these = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [*NODES]}]}
    required = {"nodeSelectorTerms": [these]}
    pod["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    (container,) = pod["containers"]
    container |= {
        "command": ["python3", "-c", serve],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        # As serving programs do: requests that are on their way find it still there.
        "lifecycle": {"preStop": {"exec": {"command": ["python3", "-c", "import time; time.sleep(4)"]}}},
    }
    pod["terminationGracePeriodSeconds"] = 6
    pod["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": labels},
        }
    ]
    meta = {"name": SERVICE, "namespace": NAMESPACE}
    template = {"metadata": {"labels": labels}, "spec": pod}
    selector = {"matchLabels": labels}
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": meta,
            "spec": {"replicas": 2, "selector": selector, "template": template},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": meta,
            "spec": {"minAvailable": 1, "selector": selector},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": meta,
            "spec": {"selector": labels, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    ]


@pytest.fixture
def load(grown: Lab, eyes: Eyes) -> Iterator[str]:
    """People's work on the nodes: a Deployment behind a Service, a Job, and a pod of nobody. Returns the Job's pod."""
    values = yaml.safe_load((grown.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    image = str(values["validation_images"]["cuda"])
    grown.kubectl("create", "namespace", NAMESPACE)
    try:
        grown.apply(*serving(image), training(image), PodSpec(LONELY, SECOND, gpus=1).manifest(image))

        def running() -> bool:
            pods = eyes.pods(NAMESPACE)
            ready = [
                pod
                for pod in pods
                if any(
                    row["type"] == "Ready" and row["status"] == "True"
                    for row in pod["status"].get("conditions", [])
                )
            ]
            return len(ready) == 4

        wait_for("the load to run", running)
        (job,) = (
            name for name in (pod["metadata"]["name"] for pod in eyes.pods(NAMESPACE)) if TRAINING in name
        )
        yield str(job)
    finally:
        grown.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=180)


def _waits_for(run: Running, pod: str, no_more: str) -> bool:
    """Whether a run waits for a pod to give back its GPU, and not for another one any more."""
    said = [line for line in run.said().splitlines() if "waiting for no pod to hold a GPU: " in line]
    return bool(said) and pod in said[-1] and no_more not in said[-1]


def test_a_group_is_upgraded_under_load(
    grown: Lab, eyes: Eyes, load: str, reported: tuple[Path, list[str]]
) -> None:
    folder, where = reported
    group = f"{FIRST},{SECOND}"
    boots = grown.boots()
    words = upgrade_words(group, NEW, *evict(SERVICE), *where)
    watch = Watch(eyes, GPUS, 4, NAMESPACE, frozenset({load, LONELY}), SERVICE, untouched=frozenset({THIRD}))
    with watch.on(), Prometheus(grown).no_alarm():
        run = start(grown, grown.inventory, *words)
        wait_state(eyes, run, FIRST, ["draining"])
        # While it waits for the Job: others are refused, by name.
        second = grown.playbook(*upgrade_words(THIRD, NEW))
        assert second.status != 0, str(second)
        assert str(run.process.pid) in second.output, str(second)
        site = grown.site("-l", FIRST)
        assert site.status != 0, str(site)
        assert re.search(rf"'{FIRST}'.*(upgrade|playbook)", site.output), str(site)
        assert state_of(eyes.nodes()[FIRST]) == "draining", "it waits for as long as the Job runs"
        values = yaml.safe_load((grown.inventory / "group_vars" / "gpu_nodes.yml").read_text())
        with claimed_gpu(grown, FIRST, str(values["validation_images"]["cuda"])):
            grown.kubectl("exec", load, "-n", NAMESPACE, "--", "touch", "/tmp/done")
            # The Job is over: now it is the claim alone that holds the node up.
            wait_for("the run to wait for the claim", lambda: _waits_for(run, SAYS, load))
            assert state_of(eyes.nodes()[FIRST]) == "draining"
            assert on_machine(grown, FIRST) == (OLD, OLD)
        # What nobody may evict is waited for, until its owner takes it away: here, when it is the second node's turn.
        wait_state(eyes, run, SECOND, ["draining"])
        watch.protected -= {LONELY}
        grown.kubectl("delete", "pod", LONELY, "-n", NAMESPACE)
        ended = run.ended()
    assert ended.status == 0, str(ended)
    nodes = eyes.nodes()
    for name in (FIRST, SECOND):
        assert_serves(grown, nodes[name], NEW)
        assert state_of(nodes[name]) == "done"
        assert json.loads(nodes[name]["metadata"]["annotations"][PREVIOUS_DRIVER])["version"] == OLD
    assert on_machine(grown, THIRD) == (OLD, OLD)
    assert watch.most_out == 4, "it was one node at a time, and the watch saw it"
    assert grown.boots() == boots
    assert re.search(rf'nvidia_driver_version: "{NEW}"', ended.output), "the line for group_vars"
    assert reports(folder, "upgrade.json"), "no report"
    # Until that line is there, site.yml says so and leaves the driver alone.
    site = grown.site("-l", FIRST)
    assert "nvidia_driver_version" in site.output, str(site)
    assert on_machine(grown, FIRST) == (NEW, NEW)


# --- a bad driver ------------------------------------------------------------------------------------------


def test_a_bad_driver_stops_at_the_canary_and_goes_back_without_repositories(
    grown: Lab, eyes: Eyes, inventory: Path, depot: Callable[[], None]
) -> None:
    before = {name: on_machine(grown, name)[0] for name in (FIRST, SECOND)}
    watch = Watch(eyes, GPUS, 4, untouched=frozenset({SECOND, THIRD}))
    with watch.on(), Prometheus(grown).no_alarm():
        run = start(grown, inventory, *upgrade_words(f"{FIRST},{SECOND}", BROKEN["cuda"]))
        wait_state(eyes, run, FIRST, ["draining", "quiet", "changing"])
        depot()
        ended = run.ended()
    assert ended.status != 0, str(ended)
    assert re.search(rf"{FIRST}\b.*rolled back", ended.output, re.IGNORECASE), str(ended)
    assert re.search(rf"{SECOND}\b.*untouched", ended.output, re.IGNORECASE), str(ended)
    node = eyes.nodes()[FIRST]
    assert "changing" in watch.states[FIRST]
    assert state_of(node) == "rolled_back"
    assert_serves(grown, node, before[FIRST])
    assert on_machine(grown, SECOND)[0] == before[SECOND]


# --- killed runs -------------------------------------------------------------------------------------------


@pytest.fixture
def cordoned_by_hand(grown: Lab) -> Iterator[str]:
    grown.kubectl("cordon", THIRD)
    yield THIRD
    grown.kubectl("uncordon", THIRD)


def test_a_run_that_is_killed_in_the_change_ends_as_if_it_was_not(
    grown: Lab, eyes: Eyes, cordoned_by_hand: str
) -> None:
    # The node that an administrator cordoned is of the group, and counts against the budget.
    words = upgrade_words(f"{SECOND},{cordoned_by_hand}", NEXT_BRANCH, "-e", "gpu_upgrade_max_unavailable=8")
    before = on_machine(grown, cordoned_by_hand), ledger.read(eyes.nodes()[cordoned_by_hand])
    with Watch(
        eyes, GPUS, 8, foreign=frozenset({cordoned_by_hand}), untouched=frozenset({FIRST})
    ).on() as watch:
        # It is begun once more; one that is killed later goes on where it was, as test_7_sharing has it.
        run = start(grown, grown.inventory, *words)
        wait_state(eyes, run, SECOND, [State.CHANGING])
        workers = run.kill()
        ended = start(grown, grown.inventory, *words).ended()
        wait_gone(workers)
    assert re.search(rf"{cordoned_by_hand}\b.*cordoned", ended.output), str(ended)
    nodes = eyes.nodes()
    assert_serves(grown, nodes[SECOND], NEXT_BRANCH)
    assert state_of(nodes[SECOND]) == "done"
    assert cordoned(nodes[cordoned_by_hand])
    assert (on_machine(grown, cordoned_by_hand), ledger.read(nodes[cordoned_by_hand])) == before
    assert "done" not in watch.states[SECOND][1:-1], "it was begun anew after it was done"
