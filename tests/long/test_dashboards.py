"""The shipped dashboards as Grafana's components draw them, of a lab where teams work: docs/images; needs npm and chromium."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.dashboards import FILES, load, unanswered
from tests.e2e.harness import Lab, PodSpec
from tests.long import drawings

NODES = {"gpu-1": 4, "gpu-2": 4}
IDLE_S = 2700.0
"""A GPU is idle after half an hour."""
# Holds its GPUs, and is busy for a share of the time.
WORK = """
import ctypes, os, random, time
assert ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
share = float(os.environ["SHARE"])
while True:
    until = time.monotonic() + share * random.uniform(0.7, 1.2)
    while time.monotonic() < until:
        pass
    time.sleep(1 - share)
"""
QUOTAS = {"language": 8, "vision": 4, "speech": 2}
PODS = [
    ("language", PodSpec("pretrain", "gpu-1", gpus=3, env={"SHARE": "0.7"})),
    ("language", PodSpec("finetune", "gpu-1", gpus=4, env={"SHARE": "0.7"})),  # waits
    ("vision", PodSpec("detector", "gpu-2", gpus=1, env={"SHARE": "0.4"})),
    ("vision", PodSpec("notebook", "gpu-2", gpus=1, env={"SHARE": "0"})),
    ("speech", PodSpec("transcribe", "gpu-2", gpus=1, env={"SHARE": "0.2"})),
]


@dataclass(frozen=True)
class Worked:
    """A lab in which teams have worked for a while, and the time of it."""

    lab: Lab
    until: float
    seconds: int


@pytest.fixture(scope="module")
def worked(root: Path) -> Iterator[Worked]:
    """With a pod that waits, a GPU that is held and idle, and one that is broken."""
    if not shutil.which("npm"):
        pytest.skip("apt-get install npm")
    drawings.bundle()
    lab = Lab(root, root / ".cache" / "long" / str(int(time.time())))
    lab.gpulab("down")
    try:
        lab.up("--gpu-nodes", str(len(NODES)), "--gpus", ",".join(map(str, NODES.values())))
        lab.site_ok()
        begin = time.time()
        lab.apply(*(each for team, gpus in QUOTAS.items() for each in namespace(team, gpus)))
        image = yaml.safe_load((lab.inventory / "group_vars/gpu_nodes.yml").read_text())["validation_images"]
        lab.apply(*(manifest(team, spec, image["cuda"]) for team, spec in PODS))
        wait_for(lab, "an idle GPU", "gpusmith:gpu_idle == 1", IDLE_S)
        lab.gpulab("fault", "gpu-2", "xid", "79", "--gpu", "3")
        wait_for(lab, "an alert", 'ALERTS{alertname="GpusmithGpuXid",alertstate="firing"}', 120)
        until = time.time()
        yield Worked(lab, until, int(until - begin))
    finally:
        lab.gpulab("down")


def namespace(team: str, gpus: int) -> list[dict[str, Any]]:
    hard = {"requests.nvidia.com/gpu": gpus}
    quota = {"metadata": {"name": "gpus", "namespace": team}, "spec": {"hard": hard}}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": team}},
        {"apiVersion": "v1", "kind": "ResourceQuota", **quota},
    ]


def manifest(team: str, spec: PodSpec, image: str) -> dict[str, Any]:
    pod = spec.manifest(image)
    pod["metadata"]["namespace"] = team
    pod["spec"]["containers"][0]["command"] = ["python3", "-c", WORK]
    return pod


def wait_for(lab: Lab, what: str, query: str, seconds: float) -> None:
    def look() -> Done[None] | NotYet:
        rows = lab.prometheus(f"query?query={quote(query)}")["result"]
        return Done(None) if rows else NotYet("none yet")

    wait_until(what, look, Deadline(seconds), tick=10.0)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_panel_is_drawn(worked: Worked, browser: drawings.Browser, root: Path, path: Path) -> None:
    board = load(path)
    assert unanswered(board, worked.lab.prometheus, worked.until, worked.seconds) == []
    given = drawings.answers(board, worked.lab.prometheus, worked.until, worked.seconds)
    picture = root / "docs/images" / drawings.picture(board)
    seen = drawings.draw(browser, board, given, worked.until, worked.seconds, picture)
    assert drawings.missing(board, given, seen) == []
