"""Which node it is, and its operating system."""

from __future__ import annotations

import copy

import pytest

from gpusmith.checks import host as host_checks
from gpusmith.checks.findings import CannotAsk
from tests.faults.fault import Record
from tests.unit.checks.judged import Facts, failing


def test_swapped_addresses_are_named(facts: Facts, record: Record) -> None:
    other = copy.deepcopy(record)
    record["kubernetes"]["node_name"] = "gpu-2"
    cause = failing(facts(record, fleet={"gpu-2": other}, ansible_host="192.0.2.7"))["nodes.identity"]
    assert "'192.0.2.7'" in cause
    assert "is node 'gpu-2' of the cluster, not 'gpu-1'" in cause
    assert "the addresses of 'gpu-1' and 'gpu-2' are swapped" in cause


def test_the_name_whose_address_is_wrong_is_named(facts: Facts, record: Record) -> None:
    other = copy.deepcopy(record)
    record["kubernetes"]["node_name"] = other["kubernetes"]["node_name"] = "gpu-2"
    assert "also host 'gpu-2'" in failing(facts(record, fleet={"gpu-2": other}))["nodes.identity"]
    # The other way round: this one's address is right, so that of the other one is not.
    record["kubernetes"]["node_name"] = other["kubernetes"]["node_name"] = "gpu-1"
    (problem,) = host_checks.identity(facts(record, fleet={"gpu-2": other}))
    assert "host 'gpu-2' leads to it as well" in problem.cause
    assert "'ansible_host' of 'gpu-2'" in problem.next_step


def test_a_node_of_no_known_name_is_not_this_one(facts: Facts, record: Record) -> None:
    record["kubernetes"]["node_name"] = "db-1"
    (problem,) = host_checks.identity(facts(record))
    assert "is node 'db-1'" in problem.cause
    assert "'ansible_host' of 'gpu-1'" in problem.next_step


def test_a_machine_that_has_not_joined_has_no_name_yet(facts: Facts, record: Record) -> None:
    record["kubernetes"].update(joined=False, node_name=None)
    record["services"]["kubelet"].update(active="activating")
    with pytest.raises(CannotAsk, match="has not joined"):
        host_checks.identity(facts(record))


def test_users_own_parameters_and_modules_are_checked(facts: Facts, record: Record) -> None:
    wants = {
        "host_baseline_sysctl": {"net.ipv4.ip_forward": 1, "vm.max_map_count": 262144, "net.ipv4.tcp_rmem": "4096\t8192 16384"},
        "host_baseline_modules": ["overlay", "nf-conntrack"],
    }  # fmt: skip
    found = failing(facts(record, **wants))["nodes.host-baseline"]
    assert "'vm.max_map_count' is in no file of role 'host_baseline' in sysctl.d, wanted is '262144'" in found
    assert "'nf-conntrack' would not be loaded by a boot (no file in modules-load.d names it)" in found
    assert "ip_forward" not in found
    file = "/etc/sysctl.d/gpusmith-host-baseline.conf"
    record["boot"]["modules"]["nf-conntrack"] = {"file": file, "forbidden_by": None}
    record["boot"]["sysctl"].update(
        {
            "vm.max_map_count": {"value": "262144", "files": [file]},
            "net.ipv4.tcp_rmem": {"value": "4096 8192 16384", "files": [file]},
        }
    )
    found = failing(facts(record, **wants))["nodes.host-baseline"]
    assert "'vm.max_map_count' is not there, wanted is '262144'" in found
    assert "'nf-conntrack' is not loaded, the inventory wants it" in found
    record["system"]["modules"]["nf-conntrack"] = True
    record["system"]["sysctl"].update({"vm.max_map_count": "262144", "net.ipv4.tcp_rmem": "4096 8192 16384"})
    assert failing(facts(record, **wants)) == {}


def test_forwarding_is_needed_whatever_the_inventory_lists(facts: Facts, record: Record) -> None:
    record["system"]["sysctl"]["net.ipv4.ip_forward"] = "0"
    assert "ip_forward" in failing(facts(record, host_baseline_sysctl={}))["nodes.host-baseline"]


def test_steps_tell_what_site_yml_repairs_and_what_it_refuses(facts: Facts, record: Record) -> None:
    boot = record["boot"]
    boot["modules"]["br_netfilter"].update(file=None)
    boot["modules"]["overlay"].update(forbidden_by="/etc/modprobe.d/hard.conf")
    boot["sysctl"]["net.ipv4.ip_forward"].update(value=None, files=[])
    boot["sysctl"]["net.bridge.bridge-nf-call-iptables"].update(value="0", files=["/etc/sysctl.d/zz.conf"])
    # Somebody edited ours: that is written again.
    boot["sysctl"]["net.bridge.bridge-nf-call-ip6tables"]["value"] = "0"
    assert [problem.next_step for problem in host_checks.host_baseline(facts(record))] == [
        "Take the module out of '/etc/modprobe.d/hard.conf' on 'gpu-1'.",
        "Run site.yml for the node.",
        "Run site.yml for the node.",
        "Correct '/etc/sysctl.d/zz.conf' on 'gpu-1', which wins over the file of role 'host_baseline'.",
        "Run site.yml for the node.",
    ]


def test_a_node_that_was_booted_with_the_override_says_whose_it_is(facts: Facts, record: Record) -> None:
    record["system"]["sysctl"]["net.ipv4.ip_forward"] = "0"
    record["boot"]["sysctl"]["net.ipv4.ip_forward"].update(value="0", files=["/etc/sysctl.d/zz.conf"])
    record["system"]["modules"]["overlay"] = False
    record["boot"]["modules"]["overlay"].update(forbidden_by="/etc/modprobe.d/hard.conf")
    found = failing(facts(record))["nodes.host-baseline"]
    assert "'net.ipv4.ip_forward' is '0', and a boot would set '0' (file '/etc/sysctl.d/zz.conf')" in found
    assert (
        "'overlay' is not loaded, and no boot would load it (file '/etc/modprobe.d/hard.conf' forbids it)"
        in found
    )


def test_what_boots_do_and_nobody_could_read_is_no_pass(facts: Facts, record: Record) -> None:
    # A record of an older probe has no such section, too.
    del record["boot"]
    assert failing(facts(record)) == {
        "nodes.host-baseline": "Node 'gpu-1': what a boot would load and set could not be read."
    }


def test_forwarding_is_needed_at_the_next_boot_as_well(facts: Facts, record: Record) -> None:
    row = record["boot"]["sysctl"]["net.ipv4.ip_forward"]
    row.update(value=None, files=[])
    assert "no boot would set it" in failing(facts(record, host_baseline_sysctl={}))["nodes.host-baseline"]
    row.update(value="0", files=["/etc/sysctl.d/zz.conf"])
    assert "a boot would set '0'" in failing(facts(record, host_baseline_sysctl={}))["nodes.host-baseline"]


def test_what_the_inventory_leaves_out_is_not_needed(facts: Facts, record: Record) -> None:
    record["system"].update(
        swap_areas=["/dev/sda2"], modules={"br_netfilter": False}, sysctl={"net.ipv4.ip_forward": "1"}
    )
    forwarding = {
        "net.ipv4.ip_forward": {"value": "1", "files": ["/etc/sysctl.d/gpusmith-host-baseline.conf"]}
    }
    record["boot"].update(
        swap_units=["/etc/systemd/system/a.target.wants/b.swap"], modules={}, sysctl=forwarding
    )
    wants = {"host_baseline_swap": "keep", "host_baseline_modules": [], "host_baseline_sysctl": {}}
    wants["host_baseline_sysctl_minimum"] = {}
    wants["nvidia_driver_extra_modules"] = []
    assert failing(facts(record, **wants)) == {}
