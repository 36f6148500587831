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
from typing import Any, Mapping

from gpusmith.probe.commands import Command
from gpusmith.probe.files import read_text

KUBECONFIG = "/etc/kubernetes/kubelet.conf"
# The user of a kubelet's certificate, see 'Using Node Authorization' of Kubernetes' reference.
NODE_USER = "system:node:"


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


def client(kubeconfig: str) -> Mapping[str, Any]:
    """The certificate with which a kubeconfig's user speaks to the cluster, if that is a file, as kubelets write it; else empty.

    CPython's tests read certificates in this way, by OpenSSL; nodes need have no program for it.
    """
    file = re.search(r"client-certificate:\s*\"?([^\s\"]+)", kubeconfig)
    try:
        decode = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]  # noqa: SLF001 - no public one
        return dict(decode(file.group(1))) if file else {}
    except (AttributeError, OSError, TypeError, ValueError):
        return {}


def client_expires(certificate: Mapping[str, Any]) -> float | None:
    """When a certificate expires."""
    try:
        return float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    except (KeyError, ValueError):
        return None


def client_name(certificate: Mapping[str, Any]) -> str | None:
    """The Node that a certificate lets its kubelet write, which is none but its own; None of another certificate."""
    names = [value for row in certificate.get("subject") or () for key, value in row if key == "commonName"]
    found = [name[len(NODE_USER) :] for name in names if name.startswith(NODE_USER)]
    return found[0] if found else None


def option(command_line: str, name: str) -> str | None:
    """An option that a kubelet was started with, from its words in /proc; empty if it was started without.

    None if it is no kubelet: a script that starts one tells nothing.
    """
    if os.path.basename(command_line.partition("\0")[0]) != "kubelet":
        return None
    given = re.findall(rf"(?:^|\0)--?{name}[=\0]([^\0]*)", command_line)
    return given[-1] if given else ""


def config_dir(command_line: str) -> str | None:
    """The folder of settings that a kubelet was started with; empty if it was started with none, None if it is no kubelet."""
    given = option(command_line, "config-dir")
    return os.path.normpath(given) if given else given


def node_name(command_line: str, certificate: Mapping[str, Any], flags: str, host: str) -> str:
    """The name of the kubelet's Node: what it was started with, else its certificate's, else what it would be started with.

    Args:
        command_line: its words in /proc; empty if it does not run.
        certificate: of its client.
        flags: content of kubeadm's file of flags.
        host: name of the machine.
    """
    written = re.search(r"--hostname-override[= ]([^\s\"']+)", flags)
    return (
        option(command_line, "hostname-override")
        or client_name(certificate)
        or (written.group(1) if written else host.lower())
    )


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
    joined = os.path.exists(KUBECONFIG)
    kubeconfig = read_text(KUBECONFIG) or ""
    certificate = client(kubeconfig)
    flags = read_text("/var/lib/kubelet/kubeadm-flags.env") or ""
    name = node_name(command_line or "", certificate, flags, socket.gethostname())
    return Kubernetes(
        kubelet_version=words[-1].lstrip("v") if words else None,
        joined=joined,
        node_name=name if joined else None,
        authorities=authorities(kubeconfig),
        client_expires_unix=client_expires(certificate),
        config_dir=config_dir(command_line or ""),
        cpu_policy=kept_policy("cpu"),
        memory_policy=kept_policy("memory"),
    )
