"""Action plugin: whether the machines of a run are those that the inventory means, and the claim on their nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import getpass
import os
import socket
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from ansible import context
from ansible.utils.display import Display
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction, leader
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables

from gpusmith.cluster import keeper
from gpusmith.cluster.api import Cluster
from gpusmith.cluster.claims import Claim
from gpusmith.cluster.machines import nodes_for
from gpusmith.errors import Refusal
from gpusmith.expect import identity
from gpusmith.expect.identity import Machine, Verdict
from gpusmith.inventory.templates import UnfilledError
from gpusmith.node.records import parse
from gpusmith.preflight import table

CORDONED = "Node '{0}' is cordoned: it takes no pods until 'kubectl uncordon {0}'."


class ActionModule(ControllerAction):
    """Refuses the whole run before any change; what it claims is given back when the run ends."""

    SPEC: ClassVar[dict[str, dict[str, Any]]] = {
        "kubeconfig": {"type": "path", "default": ""},
        "preflight": {"type": "str", "default": ""},
        "bad_host": {"type": "str", "choices": ["refuse_all", "exclude_host"], "default": "refuse_all"},
    }

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        hosts = list(self.variables.get("ansible_play_hosts_all", []))
        of = Variables(self.variables.get("hostvars"))
        written = {host: of.written(host) for host in hosts}
        machines = [found for host in hosts if (found := machine(host, written[host], of))]
        cluster = Cluster(asked["kubeconfig"]) if asked["kubeconfig"] else None
        seen = nodes_for(cluster, machines) if cluster else None
        cordoned, upgrading = (seen.cordoned, seen.upgrading) if seen else ((), {})
        verdicts = {row.host: identity.judge(row, machines, seen.nodes if seen else None) for row in machines}
        refused = {
            host: _refusals(verdicts.get(host))
            + ([upgrading[host]] if host in upgrading else [])
            + (table.of_host(written[host].get(asked["preflight"])) if asked["preflight"] else [])
            for host in hosts
        }
        result: dict[str, Any] = {
            "changed": False,
            "cordoned": list(cordoned),
            "refused": {
                host: [*table.table({host: rows}), "The other hosts go on."]
                for host, rows in refused.items()
                if rows
            },
        }
        if asked["preflight"] and cordoned:
            result["verdict"] = {
                row.host: {"notes": [CORDONED.format(row.node)]}
                for row in machines
                if row.node in cordoned and row.host not in upgrading
            }
        if notes := [
            f"{row.cause} {row.next_step}".strip() for each in verdicts.values() for row in each.notes
        ]:
            result["warnings"] = notes
        wrong = any(verdict.problems for verdict in verdicts.values())
        if wrong or (asked["bad_host"] == "refuse_all" and any(refused.values())):
            return {**result, "failed": True, "msg": [*table.table(refused), "Nothing was changed."]}
        mine = {row.node: row.machine_id for row in machines if not refused[row.host]}
        if cluster and mine and not check:
            keeper.start(lambda: Cluster(asked["kubeconfig"]), claim(mine), Display().display)
        return result


def machine(host: str, written: Mapping[str, Any], of: Variables) -> Machine | None:
    """The machine behind a host of the inventory; None if it did not answer."""
    record = (written.get("node_record_now") or {}).get("record")
    if not record:
        return None
    node, address = (_text(of, host, name) for name in ("kubernetes_node_name", "ansible_host"))
    return Machine(host, node.lower(), address, parse(record))


def _text(of: Variables, host: str, name: str) -> str:
    try:
        return str(of.filled(host, name)) if of.written(host).get(name) else host
    except UnfilledError:
        return host


def _refusals(verdict: Verdict | None) -> list[Refusal]:
    return [Refusal(row.cause, row.next_step) for row in (verdict.problems if verdict else ())]


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
