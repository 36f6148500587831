"""A pod network by hand on a machine without containers: a bridge with two pods, another node with a pod, and somebody outside.

The rules are those that a pod network and kube-proxy make: forwarded packets of pods are accepted, what leaves the pods' network
is masqueraded, a Service's address is translated. Packets of the other node come in by an interface in the zone of eth0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.long.debian_machines import Machine

PODS, NODES = "10.244.0.0/16", "192.0.2.0/24"
NODE, OTHER_NODE, OUTSIDE = "192.0.2.1", "192.0.2.2", "198.51.100.9"
POD, NEAR, FAR = "10.244.1.2", "10.244.1.3", "10.244.2.2"
SERVICE, FAR_SERVICE = "10.96.0.11", "10.96.0.10"
PORT, KUBELET, CLOSED = 8080, 10250, 9100
ELSEWHERE = "elsewhere"
"""Name of the network namespace that is the other node, its pod and all outside."""

RULES = f"""
table ip pods {{
  chain forwarded {{
    type filter hook forward priority filter; policy accept;
    ip saddr {PODS} accept
    ip daddr {PODS} accept
  }}
  chain leaving {{
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr {PODS} ip daddr != {PODS} oifname != "cni0" masquerade
  }}
  chain arriving {{
    type nat hook prerouting priority dstnat; policy accept;
    ip daddr {SERVICE} tcp dport 80 dnat to {NEAR}:{PORT}
    ip daddr {FAR_SERVICE} tcp dport 80 dnat to {FAR}:{PORT}
    fib daddr type local tcp dport 30080 dnat to {NEAR}:{PORT}
  }}
}}
"""
# The machine has the library, which firewalld uses, and not the program.
APPLY = """
import sys, nftables
status, _output, error = nftables.Nftables().cmd(sys.stdin.read())
sys.exit(f"nftables: {error}" if status else 0)
"""
SERVE = """
import socket, sys
server = socket.create_server(("", int(sys.argv[1])), backlog=64)
while True:
    server.accept()[0].close()
"""
REACH = """
import socket, sys
source, address, port = sys.argv[1:]
try:
    socket.create_connection((address, int(port)), 3, (source, 0)).close()
except OSError:
    sys.exit("no")
print("yes")
"""
SET_UP = f"""set -e
ip link add cni0 type bridge
ip address add 10.244.1.1/24 dev cni0
ip link set cni0 up
for pod in "pod {POD}" "near {NEAR}"; do
    set -- $pod
    ip netns add $1
    ip link add $1 type veth peer name eth0 netns $1
    ip link set $1 master cni0 up
    ip -n $1 address add $2/24 dev eth0
    ip -n $1 link set eth0 up
    ip -n $1 route add default via 10.244.1.1
done
ip netns add {ELSEWHERE}
ip link add eth1 type veth peer name eth0 netns {ELSEWHERE}
ip address add {NODE}/24 dev eth1
ip link set eth1 up
for address in {OTHER_NODE}/24 {FAR}/32 {OUTSIDE}/32; do ip -n {ELSEWHERE} address add $address dev eth0; done
ip -n {ELSEWHERE} link set eth0 up
ip -n {ELSEWHERE} route add 10.244.1.0/24 via {NODE}
ip route add 10.244.2.0/24 via {OTHER_NODE} dev eth1
ip route add 198.51.100.0/24 via {OTHER_NODE} dev eth1
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
for name in pod near {ELSEWHERE}; do
    systemd-run --quiet --unit=serve-$name ip netns exec $name python3 /opt/serve.py {PORT}
done
systemd-run --quiet --unit=serve-closed python3 /opt/serve.py {CLOSED}
"""


@dataclass(frozen=True)
class Way:
    """From where to where.

    Attributes:
        inside: name of the network namespace that connects; empty for the machine itself.
        source: address that connects.
    """

    inside: str
    source: str
    address: str
    port: int = PORT


WAYS = {
    "pod to pod": Way("pod", POD, NEAR),
    "pod to another node's pod": Way("pod", POD, FAR),
    "another node's pod to pod": Way(ELSEWHERE, FAR, POD),
    "another node to pod": Way(ELSEWHERE, OTHER_NODE, POD),
    "node to pod": Way("", "10.244.1.1", POD),
    "pod to outside": Way("pod", POD, OUTSIDE),
    "pod to kubelet": Way("pod", POD, NODE, KUBELET),
    "pod to closed port of its node": Way("pod", POD, NODE, CLOSED),
    "pod to Service": Way("pod", POD, SERVICE, 80),
    "pod to Service on another node": Way("pod", POD, FAR_SERVICE, 80),
    "outside to NodePort": Way(ELSEWHERE, OUTSIDE, NODE, 30080),
    "outside to kubelet": Way(ELSEWHERE, OUTSIDE, NODE, KUBELET),
    "outside to pod": Way(ELSEWHERE, OUTSIDE, POD),
    "outside to closed port": Way(ELSEWHERE, OUTSIDE, NODE, CLOSED),
}


def set_up(machine: Machine) -> None:
    """Pods, the other node and the rules; the kubelet's port is somebody else's."""
    for name, text in (("serve", SERVE), ("reach", REACH), ("apply", APPLY)):
        machine.write(f"/opt/{name}.py", text)
    machine.write("/opt/pods.nft", RULES)
    machine.sh(SET_UP)
    machine.sh("python3 /opt/apply.py < /opt/pods.nft")


def rejected(machine: Machine) -> set[str]:
    """The ways on which no connection comes about."""
    return {name for name, way in WAYS.items() if not _passes(machine, way)}


def _passes(machine: Machine, way: Way) -> bool:
    inside = ("ip", "netns", "exec", way.inside) if way.inside else ()
    words = (*inside, "python3", "/opt/reach.py", way.source, way.address, str(way.port))
    return machine.ask(*words, check=False) == "yes"
