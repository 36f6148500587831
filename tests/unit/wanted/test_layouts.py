"""How GPUs are handed out: the inventory's words, the Node's label, and what comes of both."""

from __future__ import annotations

import pytest

from gpusmith.names import GPU_RESOURCE, LAYOUT_LABEL, SHARE_RESOURCE
from gpusmith.wanted.layouts import WHOLE, Layout, asked, in_use, of_label, of_labels, serves
from gpusmith.wanted.offers import Offer

SHARED, AS_GPU = Layout(4, SHARE_RESOURCE), Layout(4, GPU_RESOURCE)


def test_a_whole_gpu_is_one_of_the_resource() -> None:
    assert WHOLE.offers(4) == (Offer(GPU_RESOURCE, 4, 4),)
    assert [WHOLE.offers(4)[0].gpus(count) for count in (0, 1, 4)] == [0, 1, 4]
    assert WHOLE.offers(0)[0].gpus(3) == 3, "nothing tells how many it has"


def test_shares_are_many_of_few_gpus() -> None:
    assert SHARED.offers(4) == (Offer(SHARE_RESOURCE, 16, 4),)
    assert AS_GPU.offers(2) == (Offer(GPU_RESOURCE, 8, 2),)


def test_the_inventory_asks_for_a_layout() -> None:
    assert asked("time-slicing", 4, SHARE_RESOURCE) == SHARED
    assert asked("none", 4, SHARE_RESOURCE) == WHOLE, "how many counts only where GPUs are shared"


@pytest.mark.parametrize(
    ("layout", "label"), [(WHOLE, ""), (SHARED, "time-slicing-4"), (AS_GPU, "time-slicing-4-as-gpu")]
)
def test_a_label_says_which(layout: Layout, label: str) -> None:
    assert (layout.label, of_label(label)) == (label, layout)
    assert of_labels({LAYOUT_LABEL: label} if label else {}) == layout


@pytest.mark.parametrize(
    "label", ["time-slicing-1", "time-slicing-49", "time-slicing-4-as-tpu", "mps-4", "x"]
)
def test_labels_that_nobody_serves(label: str) -> None:
    assert of_label(label) is None
    assert of_labels({LAYOUT_LABEL: label}) == WHOLE


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("nvidia-device-plugin", True),
        ("nvidia-device-plugin-time-slicing-4", True),
        ("nvidia-device-plugin-daemonset", False),  # as NVIDIA's chart calls it
        ("nvidia-device-plugin-", False),
        ("my-nvidia-device-plugin-time-slicing-4", False),
    ],
)
def test_daemon_sets_that_are_called_as_ours(name: str, ours: bool) -> None:
    assert serves(name, "nvidia-device-plugin") is ours


def test_layouts_with_operands_of_their_own() -> None:
    assert in_use([SHARED, WHOLE, AS_GPU, SHARED]) == [SHARED, AS_GPU]
