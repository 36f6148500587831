"""What firewalld lets in, by texts as its programs of Debian 12 and 13 write them."""

from __future__ import annotations

import pytest

from gpusmith.probe import firewall
from gpusmith.probe.firewall import Zone

# The second head is that of firewalld 2.
ZONES = """home
  target: default
  icmp-block-inversion: no
  interfaces:
  services: dhcpv6-client kube-worker
  ports: 8472/udp
  source-ports: 500/udp
  rich rules:
\trule family="ipv4" port port="9100" protocol="tcp" accept

public (default, active)
  target: default
  interfaces: eth0 eth1
  ports: 10250/tcp 30000-32767/udp

trusted (active)
  target: ACCEPT
  interfaces: lan0
  sources: 10.244.0.0/16 ipset:pods
  ports:
"""
SERVICES = {
    "kube-worker": '<service><include service="kubelet" /><include service="kube-worker"/></service>',
    "kubelet": '<service><port protocol="tcp" port="10250"/><port port="10255" protocol="tcp"/></service>',
}
HEAD = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n"
ETH0 = "eth0\t00000000\t0100580A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
ETH1 = "eth1\t00000000\t0100590A\t0003\t0\t0\t50\t00000000\t0\t0\t0\n"
NEAR = "eth2\t0000580A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
ZERO = "0" * 32
LO6 = f"{ZERO} 00 {ZERO} 00 {ZERO} ffffffff 00000001 00000000 00200200 lo\n"
ETH6 = f"{ZERO} 00 {ZERO} 00 fe80{'0' * 28} 00000400 00000001 00000000 00000003 eth6\n"


def test_zones_are_read_with_the_ports_of_their_services() -> None:
    found = firewall.zones(ZONES, lambda name: SERVICES.get(name, ""))
    assert found == {
        "home": Zone(ports=("8472/udp", "10250/tcp", "10255/tcp")),
        "public": Zone(interfaces=("eth0", "eth1"), ports=("10250/tcp", "30000-32767/udp")),
        "trusted": Zone("ACCEPT", ("lan0",)),
    }
    assert firewall.zones("") == {}


@pytest.mark.parametrize(
    ("routes", "routes6", "found"),
    [
        (HEAD + ETH0 + NEAR, "", "eth0"),
        (HEAD + ETH0 + ETH1, ETH6, "eth1"),
        (HEAD + NEAR, LO6 + ETH6, "eth6"),
        (HEAD, LO6, ""),
    ],
)
def test_the_machine_is_reached_by_the_interface_of_the_default_route(
    routes: str, routes6: str, found: str
) -> None:
    assert firewall.interface(routes, routes6) == found


@pytest.mark.parametrize(
    ("text", "zone"),
    [("# x\nDefaultZone=home\n", "home"), ("#DefaultZone=home\n", "public"), ("", "public")],
)
def test_the_default_zone_is_firewalld_s_own_word(text: str, zone: str) -> None:
    assert firewall.default_zone(text) == zone
