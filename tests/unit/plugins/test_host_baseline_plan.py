"""What host_baseline has to do on a node, and what its verification says, from one record of the probe."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.filter.host_baseline_plan import host_baseline_plan

FILES = [
    {"path": "/etc/modules-load.d/gpusmith-host-baseline.conf", "content": "overlay\nnf-conntrack\n"},
    {"path": "/etc/sysctl.d/gpusmith-host-baseline.conf", "content": "net.ipv4.ip_forward = 1\n"},
]
SETTINGS: dict[str, Any] = {
    "swap": "off",
    "modules": ["overlay", "nf-conntrack"],
    "sysctl": {
        "net.ipv4.ip_forward": "1",
        "vm.max_map_count": 262144,
        "net.ipv4.tcp_rmem": "4096 131072\t6291456",
    },
    "files": FILES,
}
CONVERGED: dict[str, Any] = {
    "system": {
        "swap_areas": [],
        "swap_fstab": [],
        "swap_target_masked": True,
        "modules": {"overlay": True, "br_netfilter": True, "nf-conntrack": True},
        "sysctl": {
            "net.ipv4.ip_forward": "1", "vm.max_map_count": "262144", "net.ipv4.tcp_rmem": "4096 131072 6291456",
        },
    },
    "boot": {
        "modules": {name: {"file": FILES[0]["path"], "forbidden_by": None} for name in ("overlay", "nf-conntrack")},
        "sysctl": {
            "net.ipv4.ip_forward": {"value": "1", "files": [FILES[1]["path"]]},
            "vm.max_map_count": {"value": "262144", "files": [FILES[1]["path"]]},
            "net.ipv4.tcp_rmem": {"value": "4096 131072 6291456", "files": [FILES[1]["path"]]},
        },
        "swap_units": [],
    },
    "managed_files": {row["path"]: hashlib.sha256(row["content"].encode()).hexdigest() for row in FILES},
}  # fmt: skip


@pytest.fixture
def record() -> dict[str, Any]:
    return copy.deepcopy(CONVERGED)


def test_numbers_and_blanks_of_the_inventory_are_no_difference(record: dict[str, Any]) -> None:
    # A second run sets nothing: the kernel shows text, and tabs between numbers.
    assert host_baseline_plan(record, SETTINGS) == {
        "files": [], "modules": [], "sysctl": [], "boot": [], "problems": [], "hints": [],
    }  # fmt: skip


def test_bare_machine_needs_everything() -> None:
    # Names that no file of ours has yet are not in the record.
    bare = {
        "system": {
            "swap_areas": ["/dev/sda2"], "swap_fstab": ["/dev/sda2"], "swap_target_masked": False,
            "modules": {"overlay": False}, "sysctl": {"net.ipv4.ip_forward": "0"},
        },
        "boot": {"modules": {}, "sysctl": {}, "swap_units": []},
        "managed_files": {},
    }  # fmt: skip
    plan = host_baseline_plan(bare, SETTINGS)
    assert plan["files"] == [row["path"] for row in FILES]
    assert plan["modules"] == ["overlay", "nf-conntrack"]
    assert plan["sysctl"] == list(SETTINGS["sysctl"])
    # Check mode refuses nothing that the run itself would change.
    assert plan["boot"] == []


def test_what_differs_is_named_with_the_wanted_and_the_seen(record: dict[str, Any]) -> None:
    record["system"].update(swap_areas=["/dev/sda2"], swap_fstab=["/swapfile"], swap_target_masked=False)
    record["system"]["modules"]["nf-conntrack"] = False
    record["system"]["sysctl"].update({"vm.max_map_count": "65530", "net.ipv4.tcp_rmem": None})
    del record["managed_files"][FILES[1]["path"]]
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["problems"] == [
        "swap: wanted off, seen on '/dev/sda2'",
        "swap in '/etc/fstab': wanted none, seen '/swapfile'",
        "'swap.target': wanted masked, seen unmasked",
        "kernel module 'nf-conntrack': wanted loaded, seen not loaded",
        "kernel parameter 'vm.max_map_count': wanted '262144', seen '65530'",
        "kernel parameter 'net.ipv4.tcp_rmem': wanted '4096 131072 6291456', seen nothing",
        "file '/etc/sysctl.d/gpusmith-host-baseline.conf': wanted as the inventory says, seen missing",
    ]
    assert len(plan["hints"]) == 4
    assert "host_baseline_swap: keep" in plan["hints"][0]


def test_changed_file_is_written_again(record: dict[str, Any]) -> None:
    record["managed_files"][FILES[0]["path"]] = "0" * 64
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["files"] == [FILES[0]["path"]]
    assert plan["problems"] == [
        f"file '{FILES[0]['path']}': wanted as the inventory says, seen another content"
    ]


def test_files_of_others_that_win_at_boot_are_named(record: dict[str, Any]) -> None:
    # The kernel shows what is wanted: only the next boot would not.
    record["boot"]["modules"]["overlay"]["forbidden_by"] = "/etc/modprobe.d/hard.conf"
    record["boot"]["modules"]["nf-conntrack"]["file"] = None
    record["boot"]["sysctl"]["net.ipv4.ip_forward"] = {"value": "0", "files": ["/etc/sysctl.d/zz.conf"]}
    record["boot"]["sysctl"]["vm.max_map_count"] = {"value": None, "files": ["/etc/sysctl.d/yy.conf"]}
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["problems"] == plan["boot"]
    assert plan["boot"] == [
        "kernel module 'overlay' at boot: wanted loaded, seen forbidden by '/etc/modprobe.d/hard.conf'",
        "kernel module 'nf-conntrack' at boot: wanted loaded, seen nothing",
        "kernel parameter 'net.ipv4.ip_forward' at boot: wanted '1', seen '0' in '/etc/sysctl.d/zz.conf'",
        "kernel parameter 'vm.max_map_count' at boot: wanted '262144', seen nothing in '/etc/sysctl.d/yy.conf'",
    ]
    assert "changes no files of others" in plan["hints"][0]


def test_swap_units_are_named_and_are_the_roles_to_disable(record: dict[str, Any]) -> None:
    record["boot"]["swap_units"] = ["/etc/systemd/system/multi-user.target.wants/swapfile.swap"]
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["problems"] == [
        "swap at boot: wanted off, seen '/etc/systemd/system/multi-user.target.wants/swapfile.swap'"
    ]
    assert plan["boot"] == []


@pytest.mark.parametrize("swap", ["off", False])
def test_unquoted_off_is_off(record: dict[str, Any], swap: object) -> None:
    record["system"]["swap_areas"] = ["/dev/sda2"]
    assert host_baseline_plan(record, {**SETTINGS, "swap": swap})["problems"]


def test_swap_that_is_kept_is_no_problem(record: dict[str, Any]) -> None:
    record["system"].update(swap_areas=["/dev/sda2"], swap_fstab=["/dev/sda2"], swap_target_masked=False)
    assert host_baseline_plan(record, {**SETTINGS, "swap": "keep"})["problems"] == []


def test_machine_without_systemd_has_nothing_to_mask(record: dict[str, Any]) -> None:
    record["system"]["swap_target_masked"] = None
    assert host_baseline_plan(record, SETTINGS)["problems"] == []


@pytest.mark.parametrize("hole", [{"swap_areas": None}, {"modules": None}, {"sysctl": None}])
def test_hole_in_the_record_is_no_pass(record: dict[str, Any], hole: dict[str, Any]) -> None:
    record["system"].update(hole)
    assert host_baseline_plan(record, SETTINGS)["problems"]
    assert host_baseline_plan({**record, "system": None}, SETTINGS)["problems"]
    assert host_baseline_plan({**record, "boot": None}, SETTINGS)["boot"]


def test_something_else_than_a_record_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="node_state"):
        host_baseline_plan({}, SETTINGS)
