"""Role host_baseline beside Debian's own firewalld, which rules the packets of a machine. Needs root, and no lab.

What is open is told by a connection from outside, and by firewalld itself. The tests are one story, in their order. At
its end the machine has a pod network, which is a bridge with two pods, and another node beside it: see 'pod_network'.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusmith.expect import firewall, surroundings
from gpusmith.node import bundle
from gpusmith.node.records import parse
from gpusmith.probe.record import Record
from tests.e2e.harness import Ended
from tests.long import pod_network
from tests.long.debian_machines import QUIET, Machine, booted, host_rootfs

LABEL = "io.gpusmith.test=firewalld"
PORTS = ["10250/tcp", "10256/tcp", "30000-32767/tcp", "30000-32767/udp"]
CONNECT_S = 3.0
PODS, NODES = pod_network.PODS, pod_network.NODES
OUTSIDE = {"outside to pod", "outside to closed port"}
"""What no machine with firewalld accepts, whatever pods may do."""
OTHERS = {"another node to pod"}
REJECTED = (
    OUTSIDE
    | OTHERS
    | {
        "pod to pod",
        "pod to another node's pod",
        "another node's pod to pod",
        "pod to outside",
        "pod to closed port of its node",
    }
)
"""What firewalld rejects although all ports are open."""
OPEN = {**QUIET, "host_baseline_firewall": "open"}
THROUGH = {**OPEN, "host_baseline_firewall_networks": [PODS]}
LISTEN = """
import socket, time
servers = [socket.create_server(("", port), backlog=64) for port in (10250, 10256)]
time.sleep(1e6)
"""
# What firewalld has, without what it says of itself; the files, without the copies that it keeps of the last ones.
LOOK = """for state in '' --permanent; do
    echo "of $state"; firewall-cmd $state --list-all-zones | sed 's/ (.*//'
done
find /etc $(ls -d /var/lib/gpusmith/* 2>/dev/null) \\
    -xdev -type f ! -name '*.old' ! -path '/etc/firewalld/zones/*' -exec sha256sum {} +"""


@pytest.fixture(scope="module", params=["bookworm", "trixie"])
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, root: Path
) -> Iterator[Machine]:
    suite = str(request.param)
    with booted("firewalld", LABEL, host_rootfs(suite), root, tmp_path_factory.mktemp(suite)) as there:
        assert there.ask("firewall-cmd", "--state") == "running", there.sh("journalctl -u firewalld")
        there.write("/opt/listen.py", LISTEN)
        there.sh("systemd-run --unit=listen python3 /opt/listen.py")
        yield there


def play(machine: Machine, *options: str, entry: str = "main", **variables: Any) -> Ended:
    ended = machine.play("host_baseline", entry, *options, **variables)
    assert ended.status == 0, str(ended)
    return ended


def changed(machine: Machine, ended: Ended) -> int:
    return ended.recap()[machine.name]["changed"]


def tell(machine: Machine, *words: str) -> str:
    """What firewalld says; a zone's ports and services now and for good, where it is told so."""
    return machine.ask("firewall-cmd", *words)


def tell_both(machine: Machine, *words: str) -> None:
    tell(machine, *words)
    tell(machine, "--permanent", *words)


def record(machine: Machine) -> Record:
    """What the probe tells of it."""
    program = ["exec", "--interactive", machine.name, "python3", "-c", bundle.BOOTSTRAP]
    said = machine.podman.run(*program, stdin=bundle.bundle(), quiet=True).stdout
    return parse(json.loads(said))


def told(machine: Machine, zone: str = "") -> str:
    """What preflight says of its ports before it becomes a node."""
    notes = surroundings.notes(record(machine), firewall.wanted(PORTS, zone), opened=False)
    return next((note for note in notes if note.startswith("firewalld runs")), "")


def told_of_pods(machine: Machine, *networks: str, opened: bool = False) -> str:
    """What preflight says of its pods before it becomes a node."""
    notes = surroundings.notes(record(machine), firewall.wanted(PORTS, "", networks), opened=opened)
    return next((note for note in notes if note.startswith("firewalld rejects")), "")


def listed(machine: Machine, zone: str) -> list[set[str]]:
    """Ports of a zone, now and for good."""
    states: tuple[tuple[str, ...], ...] = ((), ("--permanent",))
    return [set(tell(machine, *state, f"--zone={zone}", "--list-ports").split()) for state in states]


def sources(machine: Machine, zone: str = "trusted") -> list[set[str]]:
    """Networks of a zone, now and for good."""
    states: tuple[tuple[str, ...], ...] = ((), ("--permanent",))
    return [set(tell(machine, *state, f"--zone={zone}", "--list-sources").split()) for state in states]


def answers(machine: Machine, port: int) -> bool:
    """Whether a connection from outside comes in."""
    address = machine.sh("hostname -I").split()[0]
    try:
        socket.create_connection((address, port), CONNECT_S).close()
    except OSError:
        return False
    return True


def unchanged(machine: Machine, **variables: Any) -> None:
    ended = play(machine, **{**OPEN, **variables})
    assert changed(machine, ended) == 0, str(ended)


@pytest.fixture(scope="module")
def bare(machine: Machine) -> str:
    """What there was before the role."""
    return machine.sh(LOOK)


def test_closed_ports_are_told_and_stay_closed(machine: Machine, bare: str) -> None:
    assert not answers(machine, 10250)
    assert told(machine) == (
        f"firewalld runs: open {', '.join(PORTS)} (zone 'public') and those of the pod network,"
        " or set 'host_baseline_firewall: open'"
    )
    play(machine, **QUIET)
    assert listed(machine, "public") == [set(), set()]
    assert changed(machine, play(machine, **QUIET)) == 0


def test_check_mode_tells_what_a_run_then_does_and_a_second_run_does_nothing(
    machine: Machine,
) -> None:
    before = machine.sh(LOOK)
    foretold = play(machine, "--check", **OPEN)
    for port in PORTS:
        assert f"firewalld lets in {port} (zone 'public')" in foretold.output, str(foretold)
    assert machine.sh(LOOK) == before
    play(machine, **OPEN)
    assert listed(machine, "public") == [set(PORTS), set(PORTS)]
    assert answers(machine, 10250)
    assert answers(machine, 10256)
    assert told(machine) == ""
    unchanged(machine)
    # As a boot does.
    machine.ask("systemctl", "restart", "firewalld")
    assert answers(machine, 10250)
    unchanged(machine)


@pytest.mark.parametrize("words", [(), ("--permanent",)], ids=["now", "for good"])
def test_a_port_that_is_open_only_now_or_only_for_good_is_opened(
    machine: Machine, words: tuple[str, ...]
) -> None:
    tell(machine, *words, "--remove-port=10250/tcp")
    assert answers(machine, 10250) == bool(words)
    assert "open 10250/tcp (zone 'public')" in told(machine)
    assert "firewalld lets in 10250/tcp" in play(machine, "--check", **OPEN).output
    assert answers(machine, 10250) == bool(words)
    assert changed(machine, play(machine, **OPEN)) > 0
    assert listed(machine, "public") == [set(PORTS), set(PORTS)]
    unchanged(machine)


def test_the_zone_is_that_of_the_interface_of_the_default_route(machine: Machine) -> None:
    """Neither the default zone nor one that a port is open in somewhere."""
    tell_both(machine, "--zone=work", "--add-interface=eth0")
    assert not answers(machine, 10250)
    assert "(zone 'work')" in told(machine)
    play(machine, **OPEN)
    assert answers(machine, 10250)
    assert listed(machine, "work") == [set(PORTS), set(PORTS)]
    unchanged(machine)


def test_a_default_zone_that_lies_only_with_the_package_is_known(machine: Machine) -> None:
    tell_both(machine, "--zone=work", "--remove-interface=eth0")
    tell(machine, "--set-default-zone=home")
    assert "home.xml" not in machine.sh("ls /etc/firewalld/zones")
    assert not answers(machine, 10250)
    play(machine, **OPEN)
    assert answers(machine, 10250)
    assert listed(machine, "home") == [set(PORTS), set(PORTS)]
    unchanged(machine)


def test_a_zone_that_lets_everything_in_needs_nothing(machine: Machine) -> None:
    tell(machine, "--set-default-zone=trusted")
    assert told(machine) == ""
    unchanged(machine)
    tell(machine, "--set-default-zone=public")


def test_the_inventory_may_name_the_zone(machine: Machine) -> None:
    assert "(zone 'internal')" in told(machine, "internal")
    play(machine, **OPEN, host_baseline_firewall_zone="internal")
    assert listed(machine, "internal") == [set(PORTS), set(PORTS)]
    unchanged(machine, host_baseline_firewall_zone="internal")


def test_a_removal_closes_what_the_role_has_opened_and_nothing_else(machine: Machine, bare: str) -> None:
    assert changed(machine, play(machine, "--check", entry="remove", **OPEN)) > 0
    assert answers(machine, 10250)
    play(machine, entry="remove", **OPEN)
    assert not answers(machine, 10250)
    assert machine.sh(LOOK) == bare
    assert changed(machine, play(machine, entry="remove", **OPEN)) == 0


def test_what_the_site_has_opened_is_open_and_stays_so(machine: Machine, bare: str) -> None:
    """A service that has others in it, and a range of which the role needs more."""
    tell_both(machine, "--add-service=kube-worker")
    tell_both(machine, "--add-port=30000-31000/udp")
    site = machine.sh(LOOK)
    assert answers(machine, 10250)
    assert "open 10256/tcp, 31001-32767/udp (zone 'public')" in told(machine)
    play(machine, **OPEN)
    assert answers(machine, 10256)
    assert listed(machine, "public")[0] == {"10256/tcp", "30000-31000/udp", "31001-32767/udp"}
    unchanged(machine)
    play(machine, entry="remove", **OPEN)
    assert machine.sh(LOOK) == site
    tell_both(machine, "--remove-service=kube-worker")
    tell_both(machine, "--remove-port=30000-31000/udp")
    assert machine.sh(LOOK) == bare


def test_another_python_than_the_systems_finds_firewalld(machine: Machine) -> None:
    """As with 'ansible_python_interpreter' of a site: the module goes on with the one that has firewalld's own library."""
    machine.sh("python3 -m venv --without-pip /opt/python && ! /opt/python/bin/python -c 'import firewall'")
    other = {"ansible_python_interpreter": "/opt/python/bin/python"}
    play(machine, **OPEN, **other)
    assert answers(machine, 10250)
    assert changed(machine, play(machine, **OPEN, **other)) == 0


def test_ports_are_closed_again_where_firewalld_does_not_run(machine: Machine, bare: str) -> None:
    machine.ask("systemctl", "stop", "firewalld")
    unchanged(machine)
    play(machine, entry="remove", **OPEN)
    machine.ask("systemctl", "start", "firewalld")
    assert not answers(machine, 10250)
    assert machine.sh(LOOK) == bare


def test_where_firewalld_says_nothing_the_run_fails_and_opens_nothing(machine: Machine) -> None:
    machine.sh("chmod -x /usr/bin/firewall-cmd")
    try:
        ended = machine.play("host_baseline", "main", **OPEN)
        assert "firewalld runs and does not tell its zones" in " ".join(ended.output.split()), str(ended)
        assert ended.status != 0, str(ended)
    finally:
        machine.sh("chmod +x /usr/bin/firewall-cmd")
        assert listed(machine, "public") == [set(), set()]
        play(machine, entry="remove", **OPEN)


@pytest.fixture(scope="module")
def pods(machine: Machine, bare: str) -> Machine:
    """The machine with a pod network, and with all ports open."""
    assert machine.sh(LOOK) == bare
    pod_network.set_up(machine)
    machine.ask("systemctl", "stop", "firewalld")
    # Without firewalld everything comes through, so that what is rejected below is rejected by it.
    assert pod_network.rejected(machine) == set()
    machine.ask("systemctl", "start", "firewalld")
    play(machine, **OPEN)
    return machine


def test_firewalld_rejects_what_pods_send_although_all_ports_are_open(pods: Machine) -> None:
    """But not what a Service's rules have translated."""
    assert pod_network.rejected(pods) == REJECTED
    unchanged(pods)
    assert "unless a zone accepts the network of the pods" in told_of_pods(pods)
    assert told_of_pods(pods, opened=True).endswith("or set 'host_baseline_firewall_networks'")
    assert f"no zone accepts {PODS}" in told_of_pods(pods, PODS)


def test_interfaces_in_a_zone_do_not_help_pods(pods: Machine) -> None:
    """As NetworkManager puts them there: then firewalld forwards from pods to outside, and still not between pods."""
    for name in ("eth0", "eth1"):
        tell(pods, "--zone=public", f"--add-interface={name}")
    try:
        assert pod_network.rejected(pods) == REJECTED - {"pod to another node's pod", "pod to outside"}
    finally:
        for name in ("eth0", "eth1"):
            tell(pods, "--zone=public", f"--remove-interface={name}")


def test_the_command_that_preflight_names_lets_pods_through(pods: Machine) -> None:
    found = re.search(r"run '(firewall-cmd --permanent [^']+)'", told_of_pods(pods, PODS))
    assert found is not None
    pods.sh(found.group(1))
    pods.sh(found.group(1).replace("--permanent ", ""))
    assert pod_network.rejected(pods) == OUTSIDE | OTHERS
    assert told_of_pods(pods, PODS) == ""
    # It is the site's own: the role leaves it, and so does a removal.
    unchanged(pods, **THROUGH)
    play(pods, entry="remove", **THROUGH)
    assert sources(pods) == [{PODS}, {PODS}]
    tell_both(pods, "--zone=trusted", f"--remove-source={PODS}")
    assert pod_network.rejected(pods) >= REJECTED


def test_the_role_lets_networks_of_pods_through(pods: Machine) -> None:
    before = pods.sh(LOOK)
    foretold = play(pods, "--check", **THROUGH)
    assert f"firewalld accepts all that comes from {PODS} (zone 'trusted')" in " ".join(
        foretold.output.split()
    )
    assert pods.sh(LOOK) == before
    play(pods, **THROUGH)
    assert sources(pods) == [{PODS}, {PODS}]
    assert pod_network.rejected(pods) == OUTSIDE | OTHERS
    unchanged(pods, **THROUGH)
    # As a boot does.
    pods.ask("systemctl", "restart", "firewalld")
    assert pod_network.rejected(pods) == OUTSIDE | OTHERS
    unchanged(pods, **THROUGH)


@pytest.mark.parametrize("words", [(), ("--permanent",)], ids=["now", "for good"])
def test_a_network_that_is_accepted_only_now_or_only_for_good_is_let_through(
    pods: Machine, words: tuple[str, ...]
) -> None:
    tell(pods, *words, "--zone=trusted", f"--remove-source={PODS}")
    assert changed(pods, play(pods, **THROUGH)) > 0
    assert sources(pods) == [{PODS}, {PODS}]
    unchanged(pods, **THROUGH)


def test_other_nodes_reach_pods_by_a_route_where_their_network_is_named_too(pods: Machine) -> None:
    """Their packets are not the pods': with an overlay they come from an address of the pods' network."""
    play(pods, **{**OPEN, "host_baseline_firewall_networks": [PODS, NODES]})
    assert pod_network.rejected(pods) == OUTSIDE


def test_a_removal_lets_networks_through_no_more(pods: Machine, bare: str) -> None:
    assert changed(pods, play(pods, "--check", entry="remove", **THROUGH)) > 0
    assert sources(pods) == [{PODS, NODES}, {PODS, NODES}]
    play(pods, entry="remove", **THROUGH)
    assert sources(pods) == [set(), set()]
    assert pods.sh(LOOK) == bare
    assert changed(pods, play(pods, entry="remove", **THROUGH)) == 0


def test_what_the_site_lets_through_in_a_zone_of_its_own_is_left_there(pods: Machine, bare: str) -> None:
    """A larger network, in a zone that accepts everything."""
    tell(pods, "--permanent", "--new-zone=pods")
    tell(pods, "--permanent", "--zone=pods", "--set-target=ACCEPT")
    tell(pods, "--permanent", "--zone=pods", "--add-source=10.0.0.0/8")
    pods.ask("systemctl", "restart", "firewalld")
    play(pods, **THROUGH)
    assert sources(pods) == [set(), set()]
    assert pod_network.rejected(pods) == OUTSIDE | OTHERS
    play(pods, entry="remove", **THROUGH)
    assert sources(pods, "pods") == [{"10.0.0.0/8"}, {"10.0.0.0/8"}]
    tell(pods, "--permanent", "--delete-zone=pods")
    pods.ask("systemctl", "restart", "firewalld")
    assert pods.sh(LOOK) == bare


def test_a_network_in_another_zone_is_named_and_stays_there(pods: Machine) -> None:
    """firewalld refuses a source that another zone has, in the middle of a run."""
    tell_both(pods, "--zone=work", f"--add-source={PODS}")
    for options in ((), ("--check",)):
        ended = pods.play("host_baseline", "main", *options, **THROUGH)
        assert ended.status != 0, str(ended)
        words = " ".join(ended.output.split())
        assert f"firewalld has '{PODS}' in zone 'work', which does not accept everything" in words, str(ended)
        assert "Put it into a zone whose target is 'ACCEPT'" in words, str(ended)
    assert sources(pods) == [set(), set()]
    tell_both(pods, "--zone=work", f"--remove-source={PODS}")
    play(pods, entry="remove", **THROUGH)


def test_networks_are_let_through_no_more_where_firewalld_does_not_run(pods: Machine, bare: str) -> None:
    play(pods, **THROUGH)
    pods.ask("systemctl", "stop", "firewalld")
    unchanged(pods, **THROUGH)
    play(pods, entry="remove", **THROUGH)
    pods.ask("systemctl", "start", "firewalld")
    assert sources(pods) == [set(), set()]
    assert pods.sh(LOOK) == bare
