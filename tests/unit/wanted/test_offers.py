"""Resources of a node and the GPUs behind them."""

from __future__ import annotations

import pytest

from gpusmith.wanted.offers import Device, Offer, gpus_of, is_gpu, strange

SHARES = Offer("nvidia.com/gpu.shared", 16, 4)
SMALL, LARGE = Offer("nvidia.com/mig-1g.10gb", 16, 4), Offer("nvidia.com/mig-3g.40gb", 4, 4)


@pytest.mark.parametrize(("count", "gpus"), [(0, 0), (1, 1), (4, 1), (5, 2), (16, 4)])
def test_shares_take_up_as_many_gpus_as_they_need_at_the_least(count: int, gpus: int) -> None:
    assert SHARES.gpus(count) == gpus


def test_parts_of_several_sizes_are_of_the_same_gpus() -> None:
    counts = {SMALL.resource: 16, LARGE.resource: 4}
    assert gpus_of(counts, (SMALL, LARGE)) == 4
    assert strange(counts, (SMALL,)) == {LARGE.resource: 4}
    assert strange({LARGE.resource: 0}, (SMALL,)) == {}, "there is none of it"


@pytest.mark.parametrize(
    ("resource", "is_one"),
    [
        ("nvidia.com/gpu", True),
        ("nvidia.com/gpu.shared", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("nvidia.com/hostdev", False),
        ("cpu", False),
    ],
)
def test_resources_that_are_gpus(resource: str, is_one: bool) -> None:
    assert is_gpu(resource) is is_one


def test_a_part_knows_its_gpu() -> None:
    assert (Device("GPU-a").gpu, Device("MIG-1", "GPU-a").gpu) == ("GPU-a", "GPU-a")
