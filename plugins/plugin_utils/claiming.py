"""The machines of a run of ansible-playbook, and its claim on their Nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import getpass
import os
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

from ansible import context
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import leader
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.cluster.claims import Claim
from gpusmith.expect.identity import Machine
from gpusmith.node.records import parse


def machine(host: str, of: Variables) -> Machine | None:
    """The machine behind a host of the inventory; None if it did not answer."""
    record = (of.written(host).get("node_record_now") or {}).get("record")
    wanted = of.wanted(host)
    return Machine(host, wanted.node_name, wanted.address, parse(record)) if record else None


def claim(nodes: Mapping[str, str]) -> Claim:
    """The claim of this run of ansible-playbook."""
    mine = leader()
    playbooks = ", ".join(Path(word).name for word in context.CLIARGS.get("args") or ()) or "ansible"
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    who = f"{_user()}@{socket.gethostname()}"
    return Claim(uuid.uuid4().hex[:12], playbooks, who, since, mine, mine, dict(nodes))


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
