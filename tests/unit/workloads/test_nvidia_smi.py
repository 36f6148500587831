"""What nvidia-smi lists in a pod."""

from __future__ import annotations

import pytest

from gpusmith.wanted.offers import Device, devices
from gpusmith.workloads.judge import Expected
from gpusmith.workloads.nvidia_smi import judge

UUID = "GPU-00000000-1111-2222-3333-444444444440"
NODE = Expected("gpu-1", True, devices({UUID}))
LISTED = f"GPU 0: NVIDIA H100 (UUID: {UUID})"


def test_it_lists_what_was_given() -> None:
    judged = judge(NODE, LISTED, 1)
    assert (judged.evidence, judged.problems, judged.tested) == ({"uuids": [UUID]}, [], ())


def test_a_gpu_above_its_parts_was_not_given() -> None:
    parts = ["MIG-1a", "MIG-1b"]
    log = "\n".join(
        [LISTED, *(f"  MIG 3g.40gb     Device  {n}: (UUID: {uuid})" for n, uuid in enumerate(parts))]
    )
    judged = judge(Expected("gpu-1", True, frozenset(Device(uuid, UUID) for uuid in parts)), log, 2)
    assert (judged.evidence, judged.problems) == ({"uuids": parts}, [])


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("", "lists no GPU: no output."),
        ("NVIDIA-SMI has failed\n because", "lists no GPU: NVIDIA-SMI has failed because."),
        (LISTED + "\n" + LISTED, f"nvidia-smi: {UUID} was given out more than once"),
    ],
)
def test_anything_else_fails_and_its_uuids_are_evidence(log: str, cause: str) -> None:
    judged = judge(NODE, log, 1)
    assert cause in judged.problems[0].cause
    assert "uuids" in judged.evidence
