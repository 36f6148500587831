"""The kubelet."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import socket
import ssl
from dataclasses import dataclass

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

KUBECONFIG = "/etc/kubernetes/kubelet.conf"


@dataclass(frozen=True)
class Kubernetes:
    """Whether the machine has joined a cluster, and under which name.

    Attributes:
        joined: whether kubelet's kubeconfig is there.
        node_name: of its Node object; None if it has not joined.
        authorities: digests of the certificates by which it knows its cluster.
        client_expires_unix: when the certificate expires with which the kubelet speaks to its cluster; None if that is not known.
        config_dir: folder whose files the running kubelet reads besides its configuration; empty if there is none, None if it
            does not run.
        cpu_policy: of the CPU manager whose state the kubelet keeps, and with which alone it starts; None if it keeps none.
        memory_policy: of the memory manager, likewise.
    """

    kubelet_version: str | None = None
    joined: bool = False
    node_name: str | None = None
    authorities: tuple[str, ...] = ()
    client_expires_unix: float | None = None
    config_dir: str | None = None
    cpu_policy: str | None = None
    memory_policy: str | None = None


def digests(certificates: str) -> tuple[str, ...]:
    """SHA-256 of each certificate of a PEM text."""
    found = []
    for body in re.findall(r"-----BEGIN CERTIFICATE-----(.*?)-----END", certificates, re.DOTALL):
        try:
            found.append(hashlib.sha256(base64.b64decode("".join(body.split()), validate=True)).hexdigest())
        except binascii.Error:
            continue
    return tuple(found)


def authorities(kubeconfig: str) -> tuple[str, ...]:
    """Digests of the certificates in which a kubeconfig trusts."""
    key = "certificate-authority"
    inside = re.search(key + r"-data:\s*\"?([A-Za-z0-9+/=]+)", kubeconfig)
    if inside:
        try:
            return digests(base64.b64decode(inside.group(1), validate=True).decode("ascii", "replace"))
        except binascii.Error:
            return ()
    beside = re.search(key + r":\s*\"?([^\s\"]+)", kubeconfig)
    return digests((read_text(beside.group(1)) or "") if beside else "")


def client_expires(kubeconfig: str) -> float | None:
    """When the certificate expires with which a kubeconfig's user speaks to the cluster, if that is a file, as kubelets write it.

    CPython's tests read certificates in this way, by OpenSSL; nodes need have no program for it.
    """
    file = re.search(r"client-certificate:\s*\"?([^\s\"]+)", kubeconfig)
    try:
        decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]  # noqa: SLF001 - no public one
        return float(ssl.cert_time_to_seconds(decode(file.group(1))["notAfter"])) if file else None
    except (AttributeError, KeyError, OSError, ValueError):
        return None


def config_dir(command_line: str) -> str | None:
    """The folder of settings that a kubelet was started with, from its words in /proc; empty if it was started with none.

    None if it is no kubelet: a script that starts one tells nothing.
    """
    if os.path.basename(command_line.partition("\0")[0]) != "kubelet":
        return None
    given = re.findall(r"(?:^|\0)--?config-dir[=\0]([^\0]*)", command_line)
    return os.path.normpath(given[-1]) if given and given[-1] else ""


def kept_policy(manager: str, folder: str = "/var/lib/kubelet") -> str | None:
    """The policy in the state that a manager of the kubelet keeps over restarts."""
    try:
        found = json.loads(read_text(f"{folder}/{manager}_manager_state") or "{}").get("policyName")
    except (ValueError, AttributeError):
        return None
    return str(found) if found else None


def ask() -> tuple[Command, Command]:
    """Start the kubelet, which tells its version, and ask for the process of the one that runs."""
    return Command("kubelet", "--version"), Command(
        "systemctl", "show", "--property=MainPID", "kubelet.service"
    )


def gather(asked: tuple[Command, Command], errors: list[str]) -> Kubernetes:
    """The kubelet of this machine."""
    version, process = asked
    words = (version.output(errors) or "").split()
    number = (process.output(errors) or "").strip().rpartition("=")[2]
    command_line = read_text(f"/proc/{number}/cmdline") if number not in ("", "0") else None
    override = re.search(
        r"--hostname-override[= ]([^\s\"']+)", read_text("/var/lib/kubelet/kubeadm-flags.env") or ""
    )
    joined = os.path.exists(KUBECONFIG)
    kubeconfig = read_text(KUBECONFIG) or ""
    name = override.group(1) if override else socket.gethostname().lower()
    return Kubernetes(
        kubelet_version=words[-1].lstrip("v") if words else None,
        joined=joined,
        node_name=name if joined else None,
        authorities=authorities(kubeconfig),
        client_expires_unix=client_expires(kubeconfig),
        config_dir=config_dir(command_line or ""),
        cpu_policy=kept_policy("cpu"),
        memory_policy=kept_policy("memory"),
    )
