"""What built modules are for: nodes of one key take each other's."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import Any

from gpusmith.errors import InputError
from gpusmith.probe.record import Record


@dataclass(frozen=True)
class Key:
    """Everything that decides how a driver's modules come out of a build.

    Attributes:
        kernel: release.
        machine: architecture, as 'uname -m' says it.
        version: of the driver, without the packager's part.
        flavour: 'open' or 'proprietary'.
        family: operating system with its major version: compilers and package sources differ.
        layout: whose packages they are, which differ in what the modules are called.
        certificate: fingerprint of what they are signed with; empty if they are as the builder's DKMS leaves them.
    """

    kernel: str
    machine: str
    version: str
    flavour: str
    family: str
    layout: str
    certificate: str = ""

    @property
    def name(self) -> str:
        """Of its folder in the cache: readable, and another one for another key."""
        digest = hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]
        return re.sub(
            r"[^A-Za-z0-9._+~-]", "_", f"{self.version}-{self.flavour}-{self.kernel}-{self.family}-{digest}"
        )

    def __str__(self) -> str:
        return f"driver {self.version} ({self.flavour}) for kernel '{self.kernel}' on {self.family}"


def of(record: Record, kernel: str, version: str, flavour: str, layout: str, certificate: str = "") -> Key:
    """The key of a node's kernel.

    Raises:
        InputError: the record does not tell what machine it is.
    """
    host = record.host
    if not (host.architecture and host.os_id and host.os_version):
        raise InputError(
            "The node does not tell its operating system and architecture.", "Look at '/etc/os-release'."
        )
    family = f"{host.os_id}-{host.os_version.split('.')[0]}"
    # Ubuntu's releases are no points of one another.
    family = f"{host.os_id}-{host.os_version}" if host.os_id == "ubuntu" else family
    return Key(kernel, host.architecture, version, flavour, family, layout, certificate)


def as_json(key: Key) -> dict[str, Any]:
    """Plain data."""
    return asdict(key)
