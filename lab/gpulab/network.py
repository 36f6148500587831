"""Addresses of the lab, and the podman network that carries them."""

from __future__ import annotations

import ipaddress
import json
import subprocess
from dataclasses import dataclass

from gpulab.podman import LABEL, Podman
from gpusmith.errors import InputError, ToolError

NETWORK = "gpulab"
POD_CIDR = "10.244.0.0/16"
SERVICE_CIDR = "10.96.0.0/12"
MOST_MACHINES = 90


@dataclass(frozen=True)
class Plan:
    """Fixed addresses in a /24: a restarted container must come back under its old one."""

    subnet: ipaddress.IPv4Network

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a subnet as a user writes it.

        Raises:
            InputError: not an IPv4 /24, or inside a range that the cluster uses.
        """
        try:
            subnet = ipaddress.IPv4Network(text)
        except ValueError as error:
            raise InputError(
                f"Subnet '{text}' is not an IPv4 network: {error}.", "Write it like '10.77.0.0/24'."
            ) from error
        if subnet.prefixlen != 24:
            raise InputError(f"Subnet '{text}' is not a /24.", "Write it like '10.77.0.0/24'.")
        for name, cidr in (("pods", POD_CIDR), ("services", SERVICE_CIDR)):
            if subnet.overlaps(ipaddress.IPv4Network(cidr)):
                raise InputError(
                    f"Subnet '{text}' overlaps the range of {name}, '{cidr}'.",
                    "Choose another with '--subnet'.",
                )
        return cls(subnet)

    def address(self, host: int) -> str:
        """Address number `host` of the subnet."""
        return str(self.subnet.network_address + host)

    @property
    def depot(self) -> str:
        """The machine that serves packages and images."""
        return self.address(2)

    @property
    def registry(self) -> str:
        """Host and port of the image registry, as image names carry it."""
        return f"{self.depot}:5000"

    @property
    def control_plane(self) -> str:
        """cp-1."""
        return self.address(10)

    def gpu(self, number: int) -> str:
        """gpu-NUMBER, counted from 1."""
        return self.address(20 + number)

    def cpu(self, number: int) -> str:
        """cpu-NUMBER, counted from 1."""
        return self.address(120 + number)


def ensure(podman: Podman, plan: Plan) -> None:
    """Make the network, or find it as it should be.

    Raises:
        InputError: the subnet is in use on this host by something else.
        ToolError: a network of that name is not ours.
    """
    found = podman.run("network", "inspect", NETWORK, check=False, quiet=True)
    if found.returncode == 0:
        network = json.loads(found.stdout)[0]
        key, _, value = LABEL.partition("=")
        if (network.get("labels") or {}).get(key) != value:
            raise ToolError(
                f"A podman network '{NETWORK}' exists that the lab did not make.",
                f"Remove it: 'podman network rm {NETWORK}'.",
            )
        if [entry["subnet"] for entry in network["subnets"]] == [str(plan.subnet)]:
            return
        podman.run("network", "rm", NETWORK)
    refuse_taken(plan, host_routes())
    # Not an --internal one: that has no default route, without which a node cannot reach service addresses.
    # No DNS: nodes are reached by address, and the lab needs no further process.
    podman.run("network", "create", "--disable-dns", "--subnet", str(plan.subnet), "--label", LABEL, NETWORK)


def host_routes() -> list[tuple[str, str]]:
    """(destination, device) of this host's IPv4 routes, without default routes."""
    done = subprocess.run(
        ["ip", "-json", "-4", "route", "show", "table", "main"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return []
    routes = [(str(row.get("dst", "")), str(row.get("dev", "?"))) for row in json.loads(done.stdout or "[]")]
    return [route for route in routes if route[0] != "default"]


def refuse_taken(plan: Plan, routes: list[tuple[str, str]]) -> None:
    """Refuse a subnet to which this host already has a route."""
    for destination, device in routes:
        try:
            taken = ipaddress.IPv4Network(destination)
        except ValueError:
            continue
        if taken.overlaps(plan.subnet):
            raise InputError(
                f"Subnet '{plan.subnet}' is in use on this host: '{destination}' is routed to '{device}'.",
                "Choose another with '--subnet'.",
            )


def remove(podman: Podman) -> None:
    """Remove every network of the lab."""
    for name in podman.owned("network"):
        podman.run("network", "rm", "--force", name)
