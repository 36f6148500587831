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
    "node": "gpu-1",
    "swap": "off",
    "modules": ["overlay", "nf-conntrack"],
    "sysctl": {
        "net.ipv4.ip_forward": "1",
        "vm.max_map_count": 262144,
        "net.ipv4.tcp_rmem": "4096 131072\t6291456",
    },
    "files": {row["path"]: row["content"] for row in FILES},
}
CONVERGED: dict[str, Any] = {
    "schema": "gpusmith.probe/1",
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
        "files": [], "modules": [], "sysctl": [], "units": [], "boot": [], "problems": [], "cures": [], "hints": [],
    }  # fmt: skip


def test_bare_machine_needs_everything() -> None:
    # Names that no file of ours has yet are not in the record.
    bare = {
        "schema": "gpusmith.probe/1",
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
        "file '/etc/sysctl.d/gpusmith-host-baseline.conf' is missing, wanted as the inventory says",
        "swap is on, '/dev/sda2', with which kubelet does not start",
        "/etc/fstab turns swap on at the next boot, '/swapfile'",
        "'swap.target' is not masked, so that the next boot can turn swap on",
        "kernel module 'nf-conntrack' is not loaded, the inventory wants it",
        "kernel parameter 'vm.max_map_count' is '65530', wanted is '262144'",
        "kernel parameter 'net.ipv4.tcp_rmem' is not there, wanted is '4096 131072 6291456'",
    ]
    assert len(plan["hints"]) == 4
    assert "host_baseline_swap: keep" in plan["hints"][0]


def test_changed_file_is_written_again(record: dict[str, Any]) -> None:
    record["managed_files"][FILES[0]["path"]] = "0" * 64
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["files"] == [FILES[0]["path"]]
    assert plan["problems"] == [
        f"file '{FILES[0]['path']}' has another content, wanted as the inventory says"
    ]


def test_files_of_others_that_win_at_boot_are_named(record: dict[str, Any]) -> None:
    # The kernel shows what is wanted: only the next boot would not.
    record["boot"]["modules"]["overlay"]["forbidden_by"] = "/etc/modprobe.d/hard.conf"
    record["boot"]["modules"]["nf-conntrack"]["file"] = None
    record["boot"]["sysctl"]["net.ipv4.ip_forward"] = {"value": "0", "files": ["/etc/sysctl.d/zz.conf"]}
    record["boot"]["sysctl"]["vm.max_map_count"] = {"value": None, "files": ["/etc/sysctl.d/yy.conf"]}
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["problems"] == plan["boot"]
    zz, yy = (
        "(file '/etc/sysctl.d/zz.conf'), wanted is '1'",
        "(file '/etc/sysctl.d/yy.conf'), wanted is '262144'",
    )
    assert plan["boot"] == [
        "kernel module 'overlay' is loaded now, but no boot would load it (file '/etc/modprobe.d/hard.conf' forbids it)",
        "kernel module 'nf-conntrack' is loaded now, but no boot would load it (no file in modules-load.d names it)",
        f"kernel parameter 'net.ipv4.ip_forward' is '1' now, but a boot would set '0' {zz}",
        f"kernel parameter 'vm.max_map_count' is '262144' now, but no boot would set it {yy}",
    ]
    assert "changes no files of others" in plan["hints"][0]


def test_swap_units_are_named_and_are_the_roles_to_disable(record: dict[str, Any]) -> None:
    record["boot"]["swap_units"] = ["/etc/systemd/system/multi-user.target.wants/swapfile.swap"]
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["problems"] == [
        "a swap unit is turned on at the next boot, '/etc/systemd/system/multi-user.target.wants/swapfile.swap'"
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
