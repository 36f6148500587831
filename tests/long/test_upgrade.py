"""Upgrades of six light nodes: kills at every state, every broken driver, and people and machines in the way."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from gpusmith.change import ledger
from gpusmith.change.ledger import State
from tests.e2e.harness import NAMESPACE, Ended, Lab, PodSpec
from tests.e2e.upgrades import (
    BROKEN,
    NEW,
    NEXT_BRANCH,
    OLD,
    ROLLBACK_PLAYBOOK,
    SHORT,
    Eyes,
    Watch,
    cordoned,
    evict,
    offering_broken_drivers,
    start,
    state_of,
    upgrade_words,
    wait_for,
    wait_gone,
    wait_state,
)

NODES = tuple(f"gpu-{number}" for number in range(1, 7))
FIRST, SECOND, THIRD, *_ = NODES
GPUS = dict.fromkeys(NODES, 1)
DRAIN = ("-e", "gpu_upgrade_drain_timeout_s=20")
# As a console does that the kernel draws: a reference to nvidia_drm, in the table of the simulated kernel, with no device open.
CONSOLE = (
    "import fcntl,os,struct,time; live=os.open('/run/simgpu/live',os.O_RDONLY);"
    " fcntl.fcntl(live,37,struct.pack('hhqqi4x',fcntl.F_RDLCK,0,3,1,0)); time.sleep(3600)"
)
ALL_AT_ONCE = ("-e", "gpu_upgrade_max_unavailable=6")


@pytest.fixture(scope="module")
def fleet(root: Path) -> Iterator[Lab]:
    """Six nodes with one GPU each, brought in."""
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    lab.up("--gpu-nodes", str(len(NODES)), "--gpus", "1")
    lab.site_ok()
    yield lab
    lab.gpulab("down")


@pytest.fixture(scope="module")
def eyes(fleet: Lab) -> Eyes:
    return Eyes(fleet.inventory / "kubeconfig")


@pytest.fixture(scope="module")
def inventory(fleet: Lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return offering_broken_drivers(fleet, tmp_path_factory.mktemp("upgrade") / "inventory")


@pytest.fixture
def image(fleet: Lab) -> str:
    values = yaml.safe_load((fleet.inventory / "group_vars" / "gpu_nodes.yml").read_text())
    return str(values["validation_images"]["cuda"])


@pytest.fixture
def namespace(fleet: Lab) -> Iterator[str]:
    fleet.kubectl("create", "namespace", NAMESPACE)
    yield NAMESPACE
    fleet.kubectl("delete", "namespace", NAMESPACE, "--wait=true", timeout=180)


def version(lab: Lab, node: str) -> str:
    """Version of the loaded module."""
    return lab.on(node, "cat /sys/module/nvidia/version")


def goes(lab: Lab, eyes: Eyes, inventory: Path, *words: str, untouched: tuple[str, ...] = ()) -> Ended:
    """A run, watched: with a budget of one GPU unless the words say more."""
    budget = 6 if ALL_AT_ONCE[1] in words else 1
    with Watch(eyes, GPUS, budget, untouched=frozenset(untouched)).on():
        return start(lab, inventory, *words).ended()


def assert_as_before(lab: Lab, eyes: Eyes, node: str, before: str) -> None:
    """In use, with the driver that it had."""
    found = eyes.nodes()[node]
    assert version(lab, node) == before
    assert not cordoned(found)
    assert ledger.unfinished(found) == ""
    lab.wait_allocatable({node: 1}, 60)


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_driver_goes_back(fleet: Lab, eyes: Eyes, inventory: Path, kind: str) -> None:
    ended = goes(
        fleet, eyes, inventory, *upgrade_words(f"{FIRST},{SECOND}", BROKEN[kind]), untouched=NODES[1:]
    )
    assert ended.status != 0, str(ended)
    assert state_of(eyes.nodes()[FIRST]) == State.ROLLED_BACK, str(ended)
    assert_as_before(fleet, eyes, FIRST, OLD)


class Trouble:
    """What others do while a node waits for its pods, each on a node of its own; and what the run must say."""

    def __init__(self, lab: Lab, eyes: Eyes, image: str) -> None:
        self.lab, self.eyes, self.image = lab, eyes, image

    def pod_that_stays(self, node: str) -> None:
        """A pod of nobody holds the GPU until the deadline."""
        self.lab.apply(PodSpec(f"stays-{node}", node, gpus=1).manifest(self.image))
        wait_for(
            "the pod", lambda: any(pod["status"]["phase"] == "Running" for pod in self.eyes.pods(NAMESPACE))
        )

    def protected_pod(self, node: str) -> None:
        """A PodDisruptionBudget never allows the eviction."""
        manifest = PodSpec(f"stays-{node}", node, gpus=1).manifest(self.image)
        manifest["metadata"]["labels"] = {"app": "protected"}
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "never", "namespace": NAMESPACE},
            "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "protected"}}},
        }
        self.lab.apply(manifest, budget)
        wait_for(
            "the pod", lambda: any(pod["status"]["phase"] == "Running" for pod in self.eyes.pods(NAMESPACE))
        )

    def program_that_stays(self, node: str) -> None:
        """A program outside of pods computes."""
        hold = "import ctypes,time; c=ctypes.CDLL('libcuda.so.1'); assert c.cuInit(0)==0; time.sleep(3600)"
        self.lab.on(node, f'systemd-run --unit=stays python3 -c "{hold}"')

    def held(self, node: str) -> None:
        """A person's veto."""
        self.lab.kubectl("annotate", "node", node, "gpusmith.io/hold=mine")

    def take_back(self, node: str) -> None:
        """As if nothing had been."""
        self.lab.kubectl("annotate", "node", node, "gpusmith.io/hold-")
        self.lab.on(node, "systemctl stop stays 2>/dev/null || true")


TROUBLES: dict[str, tuple[Callable[[Trouble, str], None], str]] = {
    "pod-that-stays": (Trouble.pod_that_stays, "stays-"),
    "protected-pod": (Trouble.protected_pod, "stays-"),
    "program-that-stays": (Trouble.program_that_stays, "python3|stays"),
    "held": (Trouble.held, "hold"),
}


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("kind", TROUBLES)
def test_a_node_that_cannot_be_emptied_is_given_back(
    fleet: Lab, eyes: Eyes, inventory: Path, image: str, kind: str
) -> None:
    make, says = TROUBLES[kind]
    trouble = Trouble(fleet, eyes, image)
    make(trouble, FIRST)
    protects = frozenset(pod["metadata"]["name"] for pod in eyes.pods(NAMESPACE))
    words = upgrade_words(FIRST, NEW, *DRAIN, *evict("protected"))
    try:
        with Watch(eyes, GPUS, 1, NAMESPACE, protects).on():
            ended = start(fleet, inventory, *words).ended()
    finally:
        trouble.take_back(FIRST)
    assert ended.status != 0, str(ended)
    assert re.search(rf"{FIRST}\b.*({says})", ended.output), str(ended)
    assert_as_before(fleet, eyes, FIRST, OLD)


def test_an_administrator_takes_the_node_back_while_it_waits(
    fleet: Lab, eyes: Eyes, inventory: Path, image: str, namespace: str
) -> None:
    Trouble(fleet, eyes, image).pod_that_stays(FIRST)
    run = start(fleet, inventory, *upgrade_words(FIRST, NEW))
    wait_state(eyes, run, FIRST, [State.DRAINING])
    fleet.kubectl("uncordon", FIRST)
    ended = run.ended()
    assert ended.status != 0, str(ended)
    assert re.search(rf"{FIRST}\b.*uncordoned", ended.output), str(ended)
    assert [pod["status"]["phase"] for pod in eyes.pods(namespace)] == ["Running"]
    assert_as_before(fleet, eyes, FIRST, OLD)


def test_repositories_that_are_down_before_the_fetch(fleet: Lab, eyes: Eyes, inventory: Path) -> None:
    fleet.gpulab("depot", "stop")
    try:
        ended = goes(fleet, eyes, inventory, *upgrade_words(FIRST, NEW), untouched=NODES)
    finally:
        fleet.gpulab("depot", "start")
    assert ended.status != 0, str(ended)
    assert_as_before(fleet, eyes, FIRST, OLD)


@pytest.mark.parametrize("what", ["stop", "reboot"])
def test_a_machine_that_goes_away_in_the_middle(fleet: Lab, eyes: Eyes, inventory: Path, what: str) -> None:
    words = upgrade_words(FIRST, NEW)
    run = start(fleet, inventory, *words)
    wait_state(eyes, run, FIRST, [State.CHANGING])
    fleet.gpulab(what, FIRST)
    first = run.ended()
    if what == "stop":
        assert first.status != 0, str(first)
        assert FIRST in first.output
        fleet.gpulab("start", FIRST)
    fleet.wait_allocatable(dict.fromkeys(NODES[1:], 1), 120)
    if first.status != 0:
        again = goes(fleet, eyes, inventory, *words)
        assert again.status == 0, str(again)
    assert_as_before(fleet, eyes, FIRST, NEW)
    back = goes(fleet, eyes, inventory, ROLLBACK_PLAYBOOK, "-l", FIRST, *SHORT)
    assert back.status == 0, str(back)
    assert_as_before(fleet, eyes, FIRST, OLD)


def test_the_rights_of_the_documentation_are_enough(
    fleet: Lab, eyes: Eyes, inventory: Path, image: str, namespace: str, tmp_path: Path
) -> None:
    """Upgrade with an eviction, and rollback; the validation has the lab's own account."""
    fleet.apply(*yaml.safe_load_all((fleet.root / "docs" / "rbac-upgrade.yml").read_text()))
    few = ("-e", f"gpusmith_kubeconfig={fleet.kubeconfig_of('gpusmith-upgrade', tmp_path)}")
    manifest = PodSpec("goes", FIRST, gpus=1).manifest(image)
    manifest["metadata"]["labels"] = {"app": "goes"}
    fleet.apply(manifest)
    wait_for("the pod", lambda: [pod["status"]["phase"] for pod in eyes.pods(namespace)] == ["Running"])
    ended = goes(fleet, eyes, inventory, *upgrade_words(FIRST, NEW, *few, *evict("goes")))
    assert ended.status == 0, str(ended)
    assert_as_before(fleet, eyes, FIRST, NEW)
    back = goes(fleet, eyes, inventory, ROLLBACK_PLAYBOOK, "-l", FIRST, *SHORT, *few)
    assert back.status == 0, str(back)
    assert_as_before(fleet, eyes, FIRST, OLD)


def test_a_module_that_the_kernel_itself_uses(fleet: Lab, eyes: Eyes, inventory: Path) -> None:
    fleet.on(FIRST, f'modprobe nvidia-drm && systemd-run --unit=console python3 -c "{CONSOLE}"')
    wait_for("the kernel's reference", lambda: fleet.on(FIRST, "cat /sys/module/nvidia_drm/refcnt") == "1")
    boot = fleet.on(FIRST, "cat /proc/sys/kernel/random/boot_id")
    words = upgrade_words(FIRST, NEW)
    refused = goes(fleet, eyes, inventory, *words, untouched=NODES)
    assert refused.status != 0, str(refused)
    assert "gpu_upgrade_reboot: if_needed" in refused.output
    assert_as_before(fleet, eyes, FIRST, OLD)
    ended = goes(fleet, eyes, inventory, *words, "-e", "gpu_upgrade_reboot=if_needed")
    assert ended.status == 0, str(ended)
    assert re.search(rf"Reboot of {FIRST}: .*nvidia_drm", ended.output), str(ended)
    assert fleet.on(FIRST, "cat /proc/sys/kernel/random/boot_id") != boot
    assert_as_before(fleet, eyes, FIRST, NEW)
    back = goes(fleet, eyes, inventory, ROLLBACK_PLAYBOOK, "-l", FIRST, *SHORT)
    assert back.status == 0, str(back)
    assert_as_before(fleet, eyes, FIRST, OLD)


def test_the_api_server_is_started_anew_in_the_middle(fleet: Lab, eyes: Eyes, inventory: Path) -> None:
    run = start(fleet, inventory, *upgrade_words(FIRST, NEW))
    wait_state(eyes, run, FIRST, [State.CHANGING])
    fleet.on("cp-1", "pkill -x kube-apiserver")
    ended = run.ended()
    assert ended.status == 0, str(ended)
    assert_as_before(fleet, eyes, FIRST, NEW)
    back = goes(fleet, eyes, inventory, ROLLBACK_PLAYBOOK, "-l", FIRST, *SHORT)
    assert back.status == 0, str(back)


def test_a_run_that_is_killed_in_every_state(fleet: Lab, eyes: Eyes, inventory: Path) -> None:
    """Each on a node of its own: a change that is cut short twice goes back."""
    states = [State.ADMITTED, State.DRAINING, State.QUIET, State.CHANGING, State.LOADED, State.VALIDATING]
    workers: dict[int, str] = {}
    for node, state in zip(NODES, states, strict=True):
        words = upgrade_words(node, NEW)
        with Watch(eyes, GPUS, 1).on():
            run = start(fleet, inventory, *words)
            # States that pass quickly may be missed; the next one is as good then.
            wait_state(eyes, run, node, states[states.index(state) :])
            workers |= run.kill()
            ended = start(fleet, inventory, *words).ended()
        assert ended.status == 0, f"{state}: {ended}"
        assert_as_before(fleet, eyes, node, NEW)
    wait_gone(workers)


def test_six_nodes_at_once_and_one_by_one(
    fleet: Lab, eyes: Eyes, inventory: Path, measured: Callable[[str, object], None]
) -> None:
    """From here on all nodes have NEW, as the test before has left them."""
    at_once = goes(fleet, eyes, inventory, *upgrade_words("gpu_nodes", NEXT_BRANCH, *ALL_AT_ONCE))
    assert at_once.status == 0, str(at_once)
    back = goes(fleet, eyes, inventory, ROLLBACK_PLAYBOOK, "-l", "gpu_nodes", *SHORT, *ALL_AT_ONCE)
    assert back.status == 0, str(back)
    one_by_one = goes(fleet, eyes, inventory, *upgrade_words("gpu_nodes", NEXT_BRANCH))
    assert one_by_one.status == 0, str(one_by_one)
    ratio = at_once.seconds / one_by_one.seconds
    words = f"at once {at_once.seconds:.0f} s, one by one {one_by_one.seconds:.0f} s, ratio {ratio:.2f}"
    measured("six nodes", f"{words} (2 of 6 is the bound: a canary, then the others)")
    assert ratio < 0.8, words
