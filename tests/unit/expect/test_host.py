"""What host_baseline has to do on a node, and what its verification says, from one record of the probe."""

from __future__ import annotations

import copy
import hashlib
from typing import Any

import pytest
from ansible.errors import AnsibleFilterError

from gpusmith.expect import host, wanted
from gpusmith.node.records import parse
from tests.unit.expect.role_plans import host_baseline_plan, parts

FILES = [
    {"path": "/etc/modules-load.d/gpusmith-host-baseline.conf", "content": "overlay\nnf-conntrack\n"},
    {
        "path": "/etc/sysctl.d/gpusmith-host-baseline.conf",
        "content": "# head\nnet.ipv4.ip_forward = 1\nvm.max_map_count = 262144\nnet.ipv4.tcp_rmem = 4096 131072 6291456\n",
    },
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
    "sysctl_minimum": {},
    "files": {FILES[0]["path"]: FILES[0]["content"]},
    "sysctl_file": {"path": FILES[1]["path"], "head": "# head"},
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
        "files": [], "contents": {}, "modules": [], "sysctl": {}, "units": [], "boot": [], "problems": [], "cures": [],
        "hints": [], "leaving": [], "huge_pages": {}, "trust_outdated": False,
        "modules_packages": [], "swap": False,
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
    assert plan["contents"] == {row["path"]: row["content"] for row in FILES}
    assert plan["sysctl"] == {
        **SETTINGS["sysctl"],
        "vm.max_map_count": "262144",
        "net.ipv4.tcp_rmem": "4096 131072 6291456",
    }
    # Check mode refuses nothing that the run itself would change.
    assert plan["boot"] == []


def test_a_node_that_serves_keeps_its_swap(record: dict[str, Any]) -> None:
    """Turned off under running jobs, it could end them for lack of memory."""
    record["system"].update(swap_areas=["/dev/sda2"], swap_fstab=["/dev/sda2"], swap_target_masked=False)
    assert host_baseline_plan(record, SETTINGS)["swap"] is True
    record["kubernetes"] = {"joined": True}
    plan = host_baseline_plan(record, SETTINGS)
    assert (plan["swap"], plan["problems"], plan["boot"]) == (False, [], [])
    (problem,) = host.baseline(parse(record), wanted.baseline_of(parts("host_baseline", SETTINGS)[0]))
    assert problem.cause == "Node 'gpu-1': swap is on, '/dev/sda2', and stays on while the node is joined."
    assert "drain the node" in problem.next_step
    # What only boots would turn on, nobody uses.
    record["system"]["swap_areas"] = []
    assert host_baseline_plan(record, SETTINGS)["swap"] is True


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


def test_what_leaves_the_inventory_is_told_since_the_kernel_keeps_it(record: dict[str, Any]) -> None:
    modules, sysctl = record["boot"]["modules"], record["boot"]["sysctl"]
    modules["nf_tables"] = {"file": FILES[0]["path"], "forbidden_by": None}
    modules["theirs"] = {"file": "/etc/modules-load.d/theirs.conf", "forbidden_by": None}
    # The inventory writes it with a dash.
    modules["nf_conntrack"] = modules["nf-conntrack"]
    sysctl["vm.swappiness"] = {"value": "1", "files": [FILES[1]["path"]]}
    sysctl["vm.dirty_ratio"] = {"value": "1", "files": ["/etc/sysctl.d/theirs.conf"]}
    plan = host_baseline_plan(record, SETTINGS)
    assert plan["leaving"] == ["module 'nf_tables'", "parameter 'vm.swappiness'"]


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


LIMIT = "fs.inotify.max_user_instances"
OURS = [FILES[1]["path"]]
WITH_LIMIT = {**SETTINGS, "sysctl_minimum": {LIMIT: "8192"}}


def limited(record: dict[str, Any], seen: str | None, value: str | None, files: list[str]) -> dict[str, Any]:
    """The plan for a machine with a limit: as it is now, and as boots set it."""
    record["system"]["sysctl"][LIMIT] = seen
    record["boot"]["sysctl"][LIMIT] = {"value": value, "files": files}
    plan: dict[str, Any] = host_baseline_plan(record, WITH_LIMIT)
    return plan


@pytest.mark.parametrize(
    ("seen", "value", "files"),
    [
        ("8192", None, []),  # the kernel's own
        ("1048576", None, []),
        ("65536", "65536", ["/etc/sysctl.d/99-other.conf"]),
    ],
)
def test_a_limit_that_is_enough_without_us_is_not_ours_to_set(
    record: dict[str, Any], seen: str, value: str | None, files: list[str]
) -> None:
    # A line of ours would make it less at the next boot.
    plan = limited(record, seen, value, files)
    assert (plan["problems"], plan["contents"], plan["sysctl"]) == ([], {}, {})


@pytest.mark.parametrize(
    ("seen", "value", "files", "now"),
    [
        ("128", None, [], {LIMIT: "8192"}),
        (None, None, [], {LIMIT: "8192"}),
        ("128", "256", ["/etc/sysctl.d/10-other.conf"], {LIMIT: "8192"}),
        ("65536", "256", ["/etc/sysctl.d/10-other.conf"], {}),  # raised by hand: the next boot makes it less
    ],
)
def test_a_limit_that_is_too_low_is_set_now_and_at_boot(
    record: dict[str, Any], seen: str | None, value: str | None, files: list[str], now: dict[str, str]
) -> None:
    plan = limited(record, seen, value, files)
    assert plan["sysctl"] == now
    assert plan["contents"] == {OURS[0]: f"{FILES[1]['content']}{LIMIT} = 8192\n"}
    assert plan["problems"]
    assert plan["boot"] == []


def test_a_limit_that_is_ours_stays_ours(record: dict[str, Any]) -> None:
    text = f"{FILES[1]['content']}{LIMIT} = 8192\n"
    record["managed_files"][OURS[0]] = hashlib.sha256(text.encode()).hexdigest()
    for seen in ("8192", "65536"):  # also where somebody raised it further for now
        plan = limited(record, seen, "8192", OURS)
        assert (plan["problems"], plan["contents"], plan["sysctl"]) == ([], {}, {})
    plan = limited(record, "256", "256", ["/etc/sysctl.d/zz.conf"])
    assert "a boot would set '256' ('/etc/sysctl.d/zz.conf')" in plan["boot"][0]


def test_a_value_of_the_inventory_goes_before_a_least_one(record: dict[str, Any]) -> None:
    settings = {**WITH_LIMIT, "sysctl": {**SETTINGS["sysctl"], LIMIT: "1024"}}
    text = f"{FILES[1]['content']}{LIMIT} = 1024\n"
    record["managed_files"][OURS[0]] = hashlib.sha256(text.encode()).hexdigest()
    record["system"]["sysctl"][LIMIT] = "1024"
    record["boot"]["sysctl"][LIMIT] = {"value": "1024", "files": OURS}
    assert host_baseline_plan(record, settings)["problems"] == []


def test_what_a_container_cannot_set_is_left_to_its_host(record: dict[str, Any]) -> None:
    record["system"]["locked"] = [LIMIT]
    plan = limited(record, "128", None, [])
    assert f"'{LIMIT}' is '128', wanted is at least '8192'" in plan["problems"][-1]
    assert plan["boot"] == [plan["problems"][-1]]
