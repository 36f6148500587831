"""What a program's output proves, and which GPUs it may have seen."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpusmith.wanted.offers import Device, devices
from gpusmith.workloads.judge import (
    Expected,
    last_words,
    program_on_gpus,
    program_result,
    result_of,
    uuids_known,
)

HOST = devices({"GPU-a", "GPU-b"})
NODE = Expected("gpu-1", True, HOST)


def log(**changes: Any) -> str:
    result = {"schema": "gpusmith.workload/1", "ok": True, "simulated": True, "uuid": "GPU-a", **changes}
    return f"before\n{json.dumps(result)}\nafter"


def causes(rows: Any) -> list[str]:
    return [row.cause for row in rows]


def test_last_result_of_a_log_counts() -> None:
    assert result_of(log(n=1) + "\n" + log(n=2) + '\n{"schema": broken') == json.loads(
        log(n=2).splitlines()[1]
    )
    assert result_of(log(schema="another/1")) is None
    assert result_of("words") is None


def test_last_words_are_few() -> None:
    assert last_words("\n".join(str(n) for n in range(40)) + "\n\n").splitlines() == [
        str(n) for n in range(25, 40)
    ]


@pytest.mark.parametrize(
    ("says", "text", "cause"),
    [
        (True, log(), ""),
        (False, log(simulated=False), ""),
        (True, log(not_executed=["the kernel"]), ""),
        (True, "Traceback", "ended without a result"),
        (True, log(ok=False, error="no driver"), "failed: no driver"),
        (True, log(ok="yes"), "failed: None"),
        (True, log(simulated=False), "ran on real GPUs, the inventory says they are simulated"),
        (False, log(), "ran on simulated GPUs, the inventory says they are real"),
        (True, log(simulated=None), "ran on real GPUs"),
        (False, log(simulated=False, not_executed=["the kernel"]), "left out ['the kernel'] on a real GPU"),
    ],
)
def test_program_result(says: bool, text: str, cause: str) -> None:
    result, problems = program_result(Expected("gpu-1", says, HOST), "the program", text)
    assert (result is None) is (text == "Traceback")
    assert len(problems) == bool(cause)
    assert all(f"Node 'gpu-1': the program {cause}" in said for said in causes(problems))
    assert all(problem.next_step and problem.evidence for problem in problems)


@pytest.mark.parametrize(
    ("seen", "wanted", "host", "words"),
    [
        (["GPU-a", "GPU-b"], 2, HOST, []),
        (["GPU-a"], 1, HOST, []),
        (["GPU-x"], 1, None, []),
        (["GPU-a"], 2, HOST, ["saw 1 GPUs, it was given 2"]),
        (["GPU-a", "GPU-b"], 1, HOST, ["saw 2 GPUs, it was given 1"]),
        (["GPU-a", "GPU-a"], 2, HOST, ["GPU-a was given out more than once"]),
        (["GPU-x", "GPU-a"], 2, HOST, ["saw GPU-x, which NVML on the host does not know"]),
        (["GPU-x", "GPU-x"], 1, frozenset(), ["more than once", "saw 2 GPUs", "does not know"]),
    ],
)
def test_uuids(seen: list[str], wanted: int, host: frozenset[Device] | None, words: list[str]) -> None:
    found = causes(uuids_known(Expected("gpu-1", True, host), "it", seen, wanted))
    assert len(found) == len(words)
    assert all(word in cause for word, cause in zip(words, found, strict=True))


def test_parts_of_a_gpu_are_known_by_their_own_uuids_and_exercise_one_gpu() -> None:
    parts = frozenset({Device("MIG-1", "GPU-a"), Device("MIG-2", "GPU-a"), Device("MIG-3", "GPU-b")})
    node = Expected("gpu-1", True, parts)
    assert uuids_known(node, "it", ["MIG-1", "MIG-2"], 2) == []
    assert node.gpus_of(["MIG-1", "MIG-2"]) == ("GPU-a",)
    (whole,) = causes(uuids_known(node, "it", ["GPU-a"], 1))
    assert "does not know" in whole


def test_gpus_are_judged_only_of_a_program_that_succeeded() -> None:
    def judged(text: str) -> list[str]:
        return causes(program_on_gpus(NODE, "it", text, 1, lambda result: [str(result.get("uuid"))]).problems)

    assert judged(log()) == []
    assert judged(log(uuid="GPU-x")) == ["Node 'gpu-1': it saw GPU-x, which NVML on the host does not know."]
    assert judged(log(uuid="GPU-x", ok=False, error="e")) == ["Node 'gpu-1': it failed: e."]
    assert judged("Traceback") == ["Node 'gpu-1': it ended without a result."]
