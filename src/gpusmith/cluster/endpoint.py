"""What answers at an address by which nodes are to join: the cluster's own API server, another one, or nobody.

Names, addresses and ports tell nothing: a load balancer has others than the control planes behind it. The certificate does.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl
from enum import Enum
from typing import NamedTuple
from urllib.parse import urlsplit

PORT = 6443
TIMEOUT_S = 5.0
# X509_V_ERR_HOSTNAME_MISMATCH and X509_V_ERR_IP_ADDRESS_MISMATCH of OpenSSL's x509_vfy.h.
OTHER_NAME = (62, 64)


class Found(Enum):
    """Who answers."""

    SAME = "the API server of this cluster"
    NAMELESS = "the API server of this cluster, whose certificate does not have this name"
    OTHER = "somebody whom another authority vouches for"
    NOBODY = "nobody who speaks TLS"


class Place(NamedTuple):
    """A host, in lower case and without brackets, and its port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Answer(NamedTuple):
    """Who answers, and in words why that is thought."""

    found: Found
    reason: str = ""


def place(endpoint: str) -> Place | None:
    """Where an endpoint is, 'host:port' or a URL: the port is 6443 or, after https://, 443; None if it is no such thing."""
    scheme, found, rest = endpoint.strip().partition("://")
    try:
        parts = urlsplit(f"//{rest if found else endpoint.strip()}")
        host, port = (parts.hostname or "").removesuffix("."), parts.port
    except ValueError:
        return None
    with contextlib.suppress(ValueError):
        host = str(ipaddress.ip_address(host))
    return Place(host, port or (443 if scheme == "https" and found else PORT)) if host else None


def ask(where: Place, authority: str, timeout_s: float = TIMEOUT_S) -> Answer:
    """Who answers at a place.

    Args:
        where: the place.
        authority: certificates of the cluster's authority, in PEM.
        timeout_s: of each step.
    """
    try:
        context = ssl.create_default_context(cadata=authority)
        with (
            socket.create_connection(where, timeout_s) as connection,
            context.wrap_socket(connection, server_hostname=where.host),
        ):
            return Answer(Found.SAME)
    except ssl.SSLCertVerificationError as error:
        found = Found.NAMELESS if error.verify_code in OTHER_NAME else Found.OTHER
        return Answer(found, error.verify_message.rstrip("."))
    except OSError as error:
        return Answer(Found.NOBODY, error.strerror or str(error) or type(error).__name__)
