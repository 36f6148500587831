"""Jobs over both nodes: a wrong gradient, a rank that dies, pods that do not reach each other."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.e2e.harness import Lab, Validation

FIRST, SECOND = NODES = ("gpu-1", "gpu-2")
CHECKS = PYTORCH, TENSORFLOW = ("workloads.pytorch-nodes", "workloads.tensorflow-nodes")
BACKWARD = "                loss.backward()\n"
WRONG_GRADIENT = (
    BACKWARD,
    f"{BACKWARD}                if world > 4 and rank == 5 and step == 3:\n                    linear.weight.grad.mul_(1.01)\n",
)
DEATH = (
    "        results = [descend()",
    "        if group.place == 1:\n            os.kill(os.getpid(), 9)\n        results = [descend()",
)
Suite = Callable[[Mapping[str, tuple[str, str]]], Validation]


@pytest.fixture
def suite(ready_lab: Lab, tmp_path: Path) -> Suite:
    """Runs the workloads with programs that were changed: a fault of a GPU that computes cannot be simulated otherwise."""

    def run(changes: Mapping[str, tuple[str, str]]) -> Validation:
        copy = Path(shutil.copytree(ready_lab.root / "validation", tmp_path / "validation"))
        for name, (old, new) in changes.items():
            program = copy / "workloads" / "programs" / name
            text = program.read_text()
            assert text.count(old) == 1, name
            program.write_text(text.replace(old, new))
        configuration = ["-c", str(ready_lab.root / "pyproject.toml"), "--rootdir", str(ready_lab.root)]
        return ready_lab.validate(*configuration, "--tier", "workloads", tests=str(copy))

    return run


@pytest.fixture
def cut(ready_lab: Lab) -> Iterator[None]:
    """Pods of the second node do not reach those of the first."""
    here, there = (
        ready_lab.kubectl("get", "node", node, "--output=jsonpath={.spec.podCIDR}") for node in NODES
    )
    rule = f"FORWARD -s {there} -d {here} -j DROP"
    ready_lab.on(FIRST, f"iptables -I {rule}")
    yield
    ready_lab.on(FIRST, f"iptables -D {rule}")


def failed(run: Validation) -> dict[str, set[str]]:
    """Checks that failed, by node."""
    rows = run.results["checks"]
    return {
        node: {row["id"] for row in rows if row["target"] == node and row["outcome"] == "failed"}
        for node in NODES
    }


@pytest.mark.rare
def test_a_wrong_gradient_and_a_rank_that_dies_are_named(suite: Suite) -> None:
    run = suite({"run_pytorch.py": WRONG_GRADIENT, "run_tensorflow.py": DEATH})
    assert failed(run) == {FIRST: set(CHECKS), SECOND: set(CHECKS)}, str(run.ended)
    for node in NODES:
        causes = run.causes(node)
        assert "the weights of rank 5 of node 'gpu-2' differ from those of rank 0" in causes
        assert "of node 'gpu-2' ended without a word, with signal SIGKILL" in causes


@pytest.mark.rare
@pytest.mark.usefixtures("cut")
def test_nodes_whose_pods_do_not_reach_each_other_are_named(suite: Suite) -> None:
    run = suite({"ranks.py": ("REACH_S = 90.0", "REACH_S = 15.0")})
    assert failed(run) == {FIRST: set(CHECKS), SECOND: set(CHECKS)}, str(run.ended)
    assert "the pod on node 'gpu-1' does not reach the pod on node 'gpu-2'" in run.causes(FIRST)
    assert "Look at the pod network between these nodes" in run.ended.output
