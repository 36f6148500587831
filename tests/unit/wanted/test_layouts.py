"""How GPUs are handed out: the inventory's words, the Node's label, and what comes of both."""

from __future__ import annotations

import pytest

from gpusmith.errors import InputError
from gpusmith.names import DEVICE_CLASS, GPU_RESOURCE, LAYOUT_LABEL, SHARE_RESOURCE
from gpusmith.wanted.layouts import (
    CLAIMS,
    WHOLE,
    Layout,
    asked,
    by_mig,
    contradictions,
    daemon_set,
    in_use,
    of_label,
    of_labels,
    placements,
    serves,
)
from gpusmith.wanted.offers import Offer

SHARED, AS_GPU = Layout(4, SHARE_RESOURCE), Layout(4, GPU_RESOURCE)
HALVES, MEDIA = (
    Layout(2, "nvidia.com/mig-3g.40gb", "3g.40gb"),
    Layout(1, "nvidia.com/mig-1g.10gb.me", "1g.10gb+me"),
)
BY_MPS, BY_MPS_AS_GPU = Layout(4, SHARE_RESOURCE, mps=True), Layout(48, GPU_RESOURCE, mps=True)
NO_MEDIA = Layout(4, "nvidia.com/mig-1g.24gb-me", "1g.24gb-me")


def test_a_whole_gpu_is_one_of_the_resource() -> None:
    assert WHOLE.offers(4) == (Offer(GPU_RESOURCE, 4, 4),)
    assert [WHOLE.offers(4)[0].gpus(count) for count in (0, 1, 4)] == [0, 1, 4]
    assert WHOLE.offers(0)[0].gpus(3) == 3, "nothing tells how many it has"


def test_shares_are_many_of_few_gpus() -> None:
    assert SHARED.offers(4) == (Offer(SHARE_RESOURCE, 16, 4),)
    assert AS_GPU.offers(2) == (Offer(GPU_RESOURCE, 8, 2),)


def test_the_inventory_asks_for_a_layout() -> None:
    assert asked("time-slicing", 4, SHARE_RESOURCE) == SHARED
    assert asked("mps", 4, SHARE_RESOURCE) == BY_MPS
    assert BY_MPS.offers(4) == SHARED.offers(4)
    assert (BY_MPS.words, BY_MPS.sharing) == ("4 shares of each GPU by MPS as 'nvidia.com/gpu.shared'", "mps")
    assert asked("none", 4, SHARE_RESOURCE) == WHOLE, "how many counts only where GPUs are shared"


@pytest.mark.parametrize(("profile", "layout"), [("3g.40gb", HALVES), ("1g.10gb+me", MEDIA)])
def test_each_gpu_gets_as_many_instances_as_it_can_have(profile: str, layout: Layout) -> None:
    assert by_mig(profile, "h100-sxm", {}) == layout
    assert layout.offers(4) == (Offer(layout.resource, 4 * layout.shares, 4),)
    assert len(placements(layout, "h100-sxm", {})) == layout.shares


def test_claims_are_for_whole_gpus_of_another_owner() -> None:
    assert asked("dra", 4, SHARE_RESOURCE) == CLAIMS
    assert CLAIMS.offers(4) == (Offer(DEVICE_CLASS, 4, 4),)
    assert (CLAIMS.sharing, CLAIMS.shared, CLAIMS.part) == ("dra", False, "GPU")
    assert in_use([WHOLE, CLAIMS, SHARED]) == [CLAIMS, SHARED]
    names = [daemon_set(name, CLAIMS) for name in ("nvidia-device-plugin", "gpu-feature-discovery")]
    assert names == ["dra-driver-nvidia-gpu", "gpu-feature-discovery-dra"]


def test_a_site_s_own_model_can_have_instances() -> None:
    own = {"name": "X", "pci_device_id": "1234", "memory_mib": 81559, "architecture": "hopper"}
    assert by_mig("3g.40gb", "x", {"x": {**own, "mig_table": "a100"}}) == HALVES
    with pytest.raises(InputError, match="No MIG profiles are known of GPU model 'x'"):
        by_mig("3g.40gb", "x", {"x": own})


@pytest.mark.parametrize(
    ("layout", "label"),
    [
        (WHOLE, ""), (SHARED, "time-slicing-4"), (AS_GPU, "time-slicing-4-as-gpu"), (HALVES, "mig-2x3g.40gb"),
        (MEDIA, "mig-1x1g.10gb.me"), (BY_MPS, "mps-4"), (BY_MPS_AS_GPU, "mps-48-as-gpu"), (NO_MEDIA, "mig-4x1g.24gb-me"),
        (CLAIMS, "dra"),
    ],
)  # fmt: skip
def test_a_label_says_which(layout: Layout, label: str) -> None:
    assert (layout.label, of_label(label)) == (label, layout)
    assert of_labels({LAYOUT_LABEL: label} if label else {}) == layout


@pytest.mark.parametrize(
    "label",
    [
        "time-slicing-1",
        "time-slicing-49",
        "time-slicing-4-as-tpu",
        "mps-49",
        "x",
        "mig-3g.40gb",
        "mig-2x3g",
        "mig-2x3g.40gb+me",
    ],
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
    assert in_use([SHARED, WHOLE, AS_GPU, SHARED, BY_MPS]) == [BY_MPS, SHARED, AS_GPU]


@pytest.mark.parametrize(
    ("layout", "said", "found"),
    [
        (BY_MPS, "mps", []),
        (BY_MPS, "time-slicing", ["sharing by 'time-slicing'"]),
        (SHARED, "mps", ["sharing by 'mps'"]),
        (SHARED, None, []),
        (CLAIMS, "none", []),
        (HALVES, "none", []),
    ],
)
def test_what_feature_discovery_says_of_another_way(
    layout: Layout, said: str | None, found: list[str]
) -> None:
    labels = {
        "nvidia.com/gpu.replicas": str(layout.replicas),
        "nvidia.com/mig.strategy": layout.strategy,
        f"{layout.resource}.count": "8",
        **({"nvidia.com/gpu.sharing-strategy": said} if said else {}),
    }
    assert contradictions(labels, layout) == found
