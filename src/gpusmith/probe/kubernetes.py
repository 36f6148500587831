"""The kubelet."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text


@dataclass(frozen=True)
class Kubernetes:
    """Whether the machine has joined a cluster, and under which name.

    Attributes:
        joined: whether kubelet's kubeconfig is there.
        node_name: of its Node object; None if it has not joined.
    """

    kubelet_version: str | None = None
    joined: bool = False
    node_name: str | None = None


def ask() -> Command:
    """Start the kubelet, which tells its version."""
    return Command("kubelet", "--version")


def gather(asked: Command, errors: list[str]) -> Kubernetes:
    """The kubelet of this machine."""
    words = (asked.output(errors) or "").split()
    override = re.search(
        r"--hostname-override[= ]([^\s\"']+)", read_text("/var/lib/kubelet/kubeadm-flags.env") or ""
    )
    joined = os.path.exists("/etc/kubernetes/kubelet.conf")
    name = override.group(1) if override else socket.gethostname().lower()
    return Kubernetes(
        kubelet_version=words[-1].lstrip("v") if words else None,
        joined=joined,
        node_name=name if joined else None,
    )
