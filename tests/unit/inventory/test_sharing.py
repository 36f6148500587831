"""Shares that nobody would make are refused."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.inventory.sharing import check_sharing

SHARED = {"gpusmith_gpu_sharing": "time-slicing"}
MPS = {"gpusmith_gpu_sharing": "mps", "gpusmith_gpu_shares": 17}
DRA = {"gpusmith_gpu_sharing": "dra"}
MIG = {"gpusmith_gpu_sharing": "mig", "gpusmith_gpu_model": "h100-sxm", "gpusmith_gpu_mig_profile": "3g.40gb"}


P100 = {
    "p100": {"name": "P100", "pci_device_id": "15f9", "memory_mib": 16276, "architecture": "pascal"},
}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({**SHARED, "gpu_operands_device_plugin": "existing"}, "'gpu_operands_device_plugin' is 'existing'"),
        ({"gpusmith_gpu_shares": 4}, "'gpusmith_gpu_sharing' is not"),
        ({"gpusmith_gpu_share_resource": "nvidia.com/gpu"}, "'gpusmith_gpu_sharing' is not"),
        ({"gpusmith_gpu_mig_profile": "3g.40gb"}, "'gpusmith_gpu_sharing' is not"),
        ({**MIG, "gpu_operands_device_plugin": "existing"}, "'gpu_operands_device_plugin' is 'existing'"),
        ({**DRA, "gpu_operands_device_plugin": "existing"}, "'gpu_operands_device_plugin' is 'existing'"),
        ({**DRA, "gpusmith_gpu_shares": 4}, "'gpusmith_gpu_sharing' is 'dra', which hands out whole GPUs"),
        ({**DRA, "gpusmith_gpu_mig_profile": "3g.40gb"}, "which hands out whole GPUs"),
        ({**MIG, "gpusmith_gpu_model": ""}, "'gpusmith_gpu_model' is not set"),
        ({**MIG, "gpusmith_gpu_mig_profile": None}, "'gpusmith_gpu_mig_profile' is not set"),
        ({**MIG, "gpusmith_gpu_mig_profile": "3g.39gb"}, "'3g.39gb' is no MIG profile of this GPU"),
        ({**MIG, "gpusmith_gpu_model": "t4"}, "No MIG profiles are known of GPU model 't4'"),
        ({**MPS, "gpu_operands_device_plugin": "existing"}, "'gpu_operands_device_plugin' is 'existing'"),
        ({**MPS, "gpusmith_gpu_mig_profile": "3g.40gb"}, "does not share MIG instances by MPS"),
        ({**MPS, "gpusmith_gpu_model": "v100-sxm2-32"}, "by MPS 'v100-sxm2-32' can have 16"),
        ({**MPS, "gpusmith_gpu_model": "p100", "gpusmith_gpu_models": P100}, "'p100' is a GPU before Volta"),
        ({"kubernetes_node_labels": {"gpusmith.io/gpu-layout": "time-slicing-4"}}, "which site.yml sets"),
    ],
)
def test_refused(values: dict[str, Any], says: str) -> None:
    (refusal,) = check_sharing({"gpu-1": values, "gpu-2": {}}, {})
    assert says in refusal.message
    assert "gpu-1" in str(refusal)
    assert "gpu-2" not in str(refusal)


@pytest.mark.parametrize(
    "values",
    [
        {},
        SHARED,
        DRA,
        {**SHARED, "gpusmith_gpu_shares": 4},
        MPS,
        {**MPS, "gpusmith_gpu_model": "t4"},
        {**MPS, "gpusmith_gpu_model": "{{ its_model }}"},
        {**MPS, "gpusmith_gpu_model": "unknown"},  # which is refused
        {**MPS, "gpusmith_gpu_model": "v100-sxm2-32", "gpusmith_gpu_shares": 16},
        MIG,
        {**MIG, "gpusmith_gpu_model": "{{ its_model }}"},
        {**MIG, "gpusmith_gpu_mig_profile": 2},  # whose type is refused
        {**MIG, "gpusmith_gpu_mig_profile": ["3g.40gb"]},
        {"gpusmith_gpu_sharing": "none", "gpusmith_gpu_shares": 4},  # a group that is let out
        {"gpusmith_gpu_sharing": "none", "gpu_operands_device_plugin": "existing"},
        {"kubernetes_node_labels": {"team": "a"}},
    ],
)
def test_taken(values: dict[str, Any]) -> None:
    assert check_sharing({"gpu-1": values}, {}) == []


def test_what_must_last_is_not_given_for_one_run() -> None:
    (refusal,) = check_sharing({"gpu-1": SHARED}, {**SHARED, "gpusmith_gpu_shares": 4, "x": 1})
    assert "'gpusmith_gpu_sharing', 'gpusmith_gpu_shares' cannot be given with -e" in refusal.message
