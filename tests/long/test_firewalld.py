"""What preflight says of Debian's own firewalld, which rules the packets of a machine. Needs root, and no lab.

What is open is told by a connection from outside. The tests are one story, in their order. At its end the machine has a pod
network, which is a bridge with two pods, and another node beside it: see 'pod_network'.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpusmith.expect import surroundings
from gpusmith.node import bundle
from gpusmith.node.records import parse
from tests.long import pod_network
from tests.long.debian_machines import Machine, booted, host_rootfs

LABEL = "io.gpusmith.test=firewalld"
CONNECT_S = 3.0
PODS = pod_network.PODS
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
LISTEN = """
import socket, time
servers = [socket.create_server(("", port), backlog=64) for port in (10250, 10256)]
time.sleep(1e6)
"""


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


def tell(machine: Machine, *words: str) -> str:
    """What firewalld says."""
    return machine.ask("firewall-cmd", *words)


def told(machine: Machine) -> list[str]:
    """What preflight says of firewalld before the machine becomes a node: of its ports, and of pods."""
    program = ["exec", "--interactive", machine.name, "python3", "-c", bundle.BOOTSTRAP]
    said = machine.podman.run(*program, stdin=bundle.bundle(), quiet=True).stdout
    return [note for note in surroundings.notes(parse(json.loads(said))) if "firewalld" in note]


def follow(machine: Machine, note: str, network: str = "") -> None:
    """Type the command that a note names, and the same without '--permanent'."""
    found = re.search(r"'(firewall-cmd --permanent [^']+)'", note)
    assert found is not None, note
    command = found.group(1).replace("NETWORK", network).replace("ZONE", "public")
    machine.sh(command)
    machine.sh(command.replace("--permanent ", ""))


def answers(machine: Machine, port: int) -> bool:
    """Whether a connection from outside comes in."""
    address = machine.sh("hostname -I").split()[0]
    try:
        socket.create_connection((address, port), CONNECT_S).close()
    except OSError:
        return False
    return True


def test_the_command_that_preflight_names_opens_closed_ports(machine: Machine) -> None:
    assert not answers(machine, 10250)
    (ports, _pods) = told(machine)
    follow(machine, ports)
    assert answers(machine, 10250)
    assert answers(machine, 10256)
    # As a boot does.
    machine.ask("systemctl", "restart", "firewalld")
    assert answers(machine, 10250)


@pytest.fixture(scope="module")
def pods(machine: Machine) -> Machine:
    """The machine with a pod network, and with all ports open."""
    pod_network.set_up(machine)
    machine.ask("systemctl", "stop", "firewalld")
    # Without firewalld everything comes through, so that what is rejected below is rejected by it.
    assert pod_network.rejected(machine) == set()
    machine.ask("systemctl", "start", "firewalld")
    return machine


def test_firewalld_rejects_what_pods_send_although_all_ports_are_open(pods: Machine) -> None:
    """But not what a Service's rules have translated."""
    assert pod_network.rejected(pods) == REJECTED
    (_ports, note) = told(pods)
    assert "even if all ports are open, unless a zone accepts the network of the pods" in note


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
    (_ports, note) = told(pods)
    follow(pods, note, PODS)
    assert pod_network.rejected(pods) == OUTSIDE | OTHERS
    # As a boot does.
    pods.ask("systemctl", "restart", "firewalld")
    assert pod_network.rejected(pods) == OUTSIDE | OTHERS


def test_other_nodes_reach_pods_by_a_route_where_their_network_is_named_too(pods: Machine) -> None:
    """Their packets are not the pods': with an overlay they come from an address of the pods' network."""
    (_ports, note) = told(pods)
    follow(pods, note, pod_network.NODES)
    assert pod_network.rejected(pods) == OUTSIDE
