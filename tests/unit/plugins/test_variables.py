"""Variables of hosts, as action plugins read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.errors import InputError


class Hostvars:
    """Those of one host."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row

    def raw_get(self, host: str) -> Mapping[str, Any]:
        return {**self.row, "inventory_hostname": host}


@pytest.mark.parametrize(
    "wrong", [{"gpusmith_gpu_count": "four"}, {"host_baseline_sysctl": ["a"]}, {"nvidia_driver_state": None}]
)
def test_a_host_that_the_guard_has_not_seen_is_judged_as_well(wrong: dict[str, Any]) -> None:
    """Such as a host that the limit leaves out, whose GPUs the budget of an upgrade counts."""
    assert Variables(Hostvars({"gpusmith_gpu_count": 4}), DataLoader()).wanted("b").gpu_count == 4
    with pytest.raises(InputError, match=f"Host 'b': .*'{next(iter(wrong))}'"):
        Variables(Hostvars(wrong), DataLoader()).wanted("b")
