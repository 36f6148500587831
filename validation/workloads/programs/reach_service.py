"""Network: a pod must find a Service by the cluster's DNS, and reach what is behind it."""

from __future__ import annotations

import os
import socket
from typing import Any

import gpu_driver
from gpu_driver import ProgramError

# The API server's own Service: every cluster has it, whatever its domain is called; the search list completes the name.
NAME = "kubernetes.default.svc"
PORT = 443
CONNECT_S = 10.0


def nameservers(path: str = "/etc/resolv.conf") -> list[str]:
    """Servers that this pod asks."""
    with open(path, encoding="utf-8") as lines:
        words = [line.split() for line in lines]
    return [row[1] for row in words if row[:1] == ["nameserver"] and len(row) > 1]


def connect(address: str) -> None:
    """Open a connection and close it."""
    try:
        socket.create_connection((address, PORT), CONNECT_S).close()
    except OSError as error:
        raise ProgramError(
            f"a pod resolves '{NAME}', but does not reach it: {address} port {PORT}: {error}"
        ) from error


def work() -> dict[str, Any]:
    """Resolve the name, then connect: DNS, the pod network and the node's proxy of Services."""
    servers = nameservers()
    try:
        rows = socket.getaddrinfo(NAME, PORT, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ProgramError(
            f"a pod does not resolve '{NAME}', it asks {', '.join(servers) or 'no server'}: {error}"
        ) from error
    addresses = sorted({str(row[4][0]) for row in rows})
    for address in addresses:
        connect(address)
    return {
        "name": NAME,
        "addresses": addresses,
        "nameservers": servers,
        "simulated": os.environ.get("GPUSMITH_SIMULATED") == "true",
        "not_executed": [],
    }


if __name__ == "__main__":
    gpu_driver.run("network", work)
