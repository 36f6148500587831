"""Which pods see which GPUs, and that a pod keeps what it was given."""

from __future__ import annotations

import ast

import pytest

from tests.e2e.harness import NAMESPACE, Lab, PodMaker

NODE = "gpu-1"
EPERM = 1
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


def gpus_seen(lab: Lab, pod: str) -> dict[int, int]:
    """Minor number to error number of an open, for each device node in a pod."""
    output = lab.kubectl("exec", pod, f"--namespace={NAMESPACE}", "--", "python3", "-c", LOOK)
    found = ast.literal_eval(output.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def granted(seen: dict[int, int]) -> set[int]:
    return {minor for minor, error in seen.items() if error != EPERM}


def test_no_request_sees_no_gpu(ready_lab: Lab, pod: PodMaker) -> None:
    assert gpus_seen(ready_lab, pod("plain")) == {}


@pytest.mark.parametrize("runtime_class", ["", "nvidia"])
def test_visible_devices_all_gives_nothing(ready_lab: Lab, pod: PodMaker, runtime_class: str) -> None:
    name = f"greedy{'-' if runtime_class else ''}{runtime_class}"
    made = pod(name, runtime_class=runtime_class, env={"NVIDIA_VISIBLE_DEVICES": "all"})
    assert granted(gpus_seen(ready_lab, made)) == set()


def test_two_gpus_are_two(ready_lab: Lab, pod: PodMaker) -> None:
    first, second = pod("pair", gpus=2), pod("other-pair", gpus=2)
    seen = [granted(gpus_seen(ready_lab, name)) for name in (first, second)]
    assert [len(gpus) for gpus in seen] == [2, 2]
    assert not seen[0] & seen[1]


def test_a_pod_keeps_its_gpu(ready_lab: Lab, pod: PodMaker) -> None:
    name = pod("keeper", gpus=1)
    before = gpus_seen(ready_lab, name)
    assert len(granted(before)) == 1
    ready_lab.on(NODE, "systemctl daemon-reload")
    assert gpus_seen(ready_lab, name) == before
    ready_lab.on(NODE, "systemctl restart containerd")
    ready_lab.on(NODE, "systemctl daemon-reload")
    ready_lab.wait_allocatable({NODE: 4}, 120)
    assert gpus_seen(ready_lab, name) == before
