"""How names stand in messages."""

from __future__ import annotations

import pytest

from gpusmith.wording import in_ranges, of_many, without_own


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], []),
        (["gpu-1", "gpu-2"], ["gpu-1", "gpu-2"]),
        (["gpu-01", "gpu-02", "gpu-03", "gpu-07"], ["gpu-[01:03]", "gpu-07"]),
        # Another width is another name, and the number need not be the last word.
        (["gpu-8", "gpu-9", "gpu-10", "gpu-11", "gpu-12"], ["gpu-8", "gpu-9", "gpu-[10:12]"]),
        (["a1.x", "a2.x", "a3.x", "a4.y"], ["a[1:3].x", "a4.y"]),
        (["h100", "control"], ["h100", "control"]),
        # In the order that they have.
        (["gpu-3", "gpu-2", "gpu-1"], ["gpu-3", "gpu-2", "gpu-1"]),
    ],
)
def test_consecutive_names_are_one_range(names: list[str], said: list[str]) -> None:
    assert in_ranges(names) == said


def test_what_no_two_machines_share_is_not_told_of_several() -> None:
    one, other = (
        f"GPU 0 (GPU-0000000{n}-1111-2222-3333-000000000000, 0000:18:00.0) at 10.0.0.{n}" for n in (1, 2)
    )
    assert of_many([one, other]) == "GPU 0 (UUID, 0000:18:00.0) at ADDRESS"
    assert of_many([one, one]) == one


MEMORY = "Node 'NODE': GPU {0} (PCI 0000:{0}a:00.0) has {0} uncorrectable errors."


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([MEMORY.format(1), MEMORY.format(2)], "Node 'NODE': GPU N (PCI PCI) has N uncorrectable errors."),
        # The same of several GPUs of a node is said once, also if another node has fewer of them.
        (
            [f"{MEMORY.format(1)} {MEMORY.format(2)}", MEMORY.format(1)],
            "Node 'NODE': GPU N (PCI PCI) has N uncorrectable errors.",
        ),
        # What all share stays.
        (["GPU 5 at 10.0.0.1 and 10.0.0.9", "GPU 5 at 10.0.0.2 and 10.0.0.9"], "GPU 5 at ADDRESS and 10.0.0.9"),
        (["Xid 31", "Xid 31"], "Xid 31"),
    ],
)  # fmt: skip
def test_what_differs_between_gpus_is_not_told_of_several(texts: list[str], said: str) -> None:
    assert of_many(texts) == said
    assert len({without_own(text) for text in texts}) == 1


def test_other_numbers_are_other_causes() -> None:
    assert without_own("GPU 1 reported Xid 31") != without_own("GPU 1 reported Xid 79")
