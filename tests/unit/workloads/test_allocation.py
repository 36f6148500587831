"""One pod per free GPU."""

from __future__ import annotations

import pytest

from gpusmith.wanted.offers import devices
from gpusmith.workloads.allocation import judge
from gpusmith.workloads.judge import Expected

NODE = Expected("gpu-1", True, devices({"GPU-a", "GPU-b"}))


@pytest.mark.parametrize(
    ("held", "cause"),
    [
        ({"n0-hold-0": "GPU-b", "n0-hold-1": "GPU-a"}, ""),
        (
            {"n0-hold-0": "GPU-a", "n0-hold-1": "GPU-a"},
            "2 pods at the same time: GPU-a was given out more than once",
        ),
        ({"n0-hold-0": "GPU-a", "n0-hold-1": "GPU-x"}, "2 pods at the same time saw GPU-x"),
        ({"n0-hold-0": "GPU-a"}, "saw 1 GPUs, it was given 2"),
    ],
)
def test_each_pod_has_a_gpu_of_its_own(held: dict[str, str], cause: str) -> None:
    judged = judge(NODE, held, 2)
    assert judged.evidence == {"held": held}
    assert len(judged.problems) == bool(cause)
    assert all(cause in problem.cause for problem in judged.problems)
