#!/usr/bin/python
"""Ansible module: labels and taints of Node objects, as the inventory says and no more."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_metadata
short_description: Make labels and taints of nodes what the inventory says
description:
  - Waits until the nodes are Ready, by one list call for all of them, then changes only what differs.
  - Does not fail for a node that is missing, not Ready in time, or whose change is refused; it says so in the node's I(problem),
    makes the others right, and the caller judges.
  - Labels go by server-side apply with the field manager C(gpusmith), so that a label that left the inventory leaves the node and
    labels of others stay.
  - The keys of taints that are ours stand in the annotation C(gpusmith.io/owned-taints); taints of others stay.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  nodes:
    description: >-
      By name of the node, its labels (dict), taints (list of key, value and effect), and startup_taint, the key of a taint that a
      node that has just joined has to carry even if its Node object is an old one. That also drops the old one's validation stamp.
    type: dict
    required: true
  ready_timeout:
    description: Seconds until all of the nodes must be Ready.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: Tells what would be patched, and does not wait.
"""

EXAMPLES = r"""
- name: Label and taint
  gpusmith.gpu.node_metadata:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    nodes:
      gpu-1:
        labels: {gpu-type: h100-sxm}
        taints: [{key: nvidia.com/gpu, value: present, effect: NoSchedule}]
  delegate_to: localhost
"""

RETURN = r"""
nodes:
  description: By name, whether the node is there and Ready, what was patched, and what went wrong (empty if nothing did).
  returned: always
  type: dict
  sample: {"gpu-1": {"present": true, "ready": true, "patched": ["labels"], "seen": "Ready", "problem": ""}}
"""

import json
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import (
    ClusterApi,
    ClusterError,
    ClusterRefusedError,
)

MANAGER = "gpusmith"
OWNED_TAINTS = "gpusmith.io/owned-taints"
STAMP = "gpusmith.io/validated"
TICK_S = 1.0
Node = dict[str, Any]


def readiness(node: Node | None) -> tuple[bool, str]:
    """Whether a node is Ready, and what it says of itself."""
    if node is None:
        return False, "the cluster has no such node"
    for condition in node.get("status", {}).get("conditions", []):
        if condition.get("type") == "Ready":
            ready = condition.get("status") == "True"
            return ready, "Ready" if ready else str(condition.get("message") or "not Ready")
    return False, "not Ready yet"


def owned_labels(node: Node) -> set[str]:
    """The labels that were applied by us."""
    for entry in node["metadata"].get("managedFields", []):
        if entry.get("manager") == MANAGER and entry.get("operation") == "Apply":
            fields = entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {})
            return {key[2:] for key in fields if key.startswith("f:")}
    return set()


def label_patch(node: Node, wanted: dict[str, str]) -> Node | None:
    """The server-side apply that makes our labels the wanted ones; None if they are."""
    now = node["metadata"].get("labels", {})
    if owned_labels(node) == set(wanted) and all(now.get(key) == value for key, value in wanted.items()):
        return None
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node["metadata"]["name"], "labels": wanted},
    }


def identity(taint: dict[str, Any]) -> str:
    """Key and effect: what makes two taints the same for Kubernetes."""
    return f"{taint['key']}:{taint['effect']}"


def taint_patch(node: Node, wanted: list[dict[str, Any]], startup: str = "") -> Node | None:
    """The merge patch that makes our taints the wanted ones; None if they are.

    It carries the version that it was computed from: a taint that somebody sets meanwhile is not lost, the patch is refused.
    """
    annotation = node["metadata"].get("annotations", {}).get(OWNED_TAINTS, "")
    owned = {name for name in annotation.split(",") if name}
    ours = {identity(taint): {k: str(v) for k, v in taint.items() if v not in (None, "")} for taint in wanted}
    now = node.get("spec", {}).get("taints") or []
    kept = [taint for taint in now if identity(taint) not in ours and identity(taint) not in owned]
    fresh = [{"key": startup, "effect": "NoSchedule"}] if startup else []
    fresh = [taint for taint in fresh if identity(taint) not in {identity(other) for other in kept}]
    there = {identity(taint): {k: v for k, v in taint.items() if k != "timeAdded"} for taint in now}
    same = all(there.get(name) == taint for name, taint in ours.items()) and not (
        (owned - set(ours)) & set(there)
    )
    if same and owned == set(ours) and not fresh:
        return None
    annotations = {OWNED_TAINTS: ",".join(sorted(ours)) or None}
    if fresh:
        annotations[STAMP] = None
    return {
        "metadata": {
            "resourceVersion": node["metadata"]["resourceVersion"],
            "annotations": annotations,
        },
        "spec": {"taints": kept + fresh + [ours[name] for name in sorted(ours)]},
    }


class Work:
    """The work of one call."""

    def __init__(self, api: ClusterApi, wanted: dict[str, Any], check: bool) -> None:
        self._api = api
        self._wanted = wanted
        self._check = check
        self.nodes: dict[str, dict[str, Any]] = {}

    def look(self) -> tuple[dict[str, Node], list[str]]:
        """One list call: our nodes, and what is not Ready."""
        found = {
            node["metadata"]["name"]: node
            for node in self._api.nodes()
            if node["metadata"]["name"] in self._wanted
        }
        late = []
        for name in self._wanted:
            ready, seen = readiness(found.get(name))
            self.nodes[name] = {
                "present": name in found,
                "ready": ready,
                "patched": [],
                "seen": seen,
                "problem": "",
            }
            if not ready:
                late.append(f"'{name}': {seen}")
        return found, late

    def patch(self, node: Node) -> None:
        """Labels and taints of one node."""
        name = node["metadata"]["name"]
        wanted = self._wanted[name]
        labels = {key: str(value) for key, value in (wanted.get("labels") or {}).items()}
        body = label_patch(node, labels)
        if body is not None:
            query = {"fieldManager": MANAGER, "force": "true"}
            self._api.patch(name, body, "application/apply-patch+yaml", dry_run=self._check, query=query)
            self.nodes[name]["patched"].append("labels")
            fresh = self._api.node(name)
            node = fresh if fresh is not None else node
        body = taint_patch(node, wanted.get("taints") or [], wanted.get("startup_taint") or "")
        if body is not None:
            self._api.patch(name, body, dry_run=self._check, query={"fieldManager": MANAGER})
            self.nodes[name]["patched"].append("taints")

    def run(self, timeout: float) -> dict[str, dict[str, Any]]:
        """Wait, then patch what can be patched: one bad node is no reason to leave the good ones without labels and taints.

        Raises:
            ClusterError: the cluster does not answer, or does not list its nodes.
        """
        # The core of gpusmith lives in the controller's environment, where this module runs.
        from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

        seen: dict[str, Node] = {}

        def look() -> Done[None] | NotYet:
            found, late = self.look()
            seen.clear()
            seen.update(found)
            return NotYet("; ".join(late)) if late and not self._check else Done(None)

        try:
            wait_until("the nodes to be Ready", look, Deadline(timeout), TICK_S)
        except WaitTimeout:
            for entry in self.nodes.values():
                if not entry["ready"]:
                    entry["problem"] = (
                        f"not Ready after {timeout:.0f} s, last seen: {entry['seen'].rstrip('.')}"
                    )
        for name, node in seen.items():
            # The taint of a machine made anew cannot wait: the next run finds the machine joined and does not ask for it.
            if self._check or self.nodes[name]["ready"] or self._wanted[name].get("startup_taint"):
                try:
                    self.patch(node)
                except ClusterRefusedError as error:
                    problems = (self.nodes[name]["problem"], str(error).rstrip("."))
                    self.nodes[name]["problem"] = "; ".join(filter(None, problems))
        return self.nodes


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "nodes": {"type": "dict", "required": True},
            "ready_timeout": {"type": "float", "default": 300.0},
        },
        supports_check_mode=True,
    )
    try:
        work = Work(ClusterApi(module.params["kubeconfig"]), module.params["nodes"], module.check_mode)
        work.run(module.params["ready_timeout"])
    except ClusterError as error:
        module.fail_json(msg=str(error))
    patched = {name: entry["patched"] for name, entry in work.nodes.items() if entry["patched"]}
    module.exit_json(
        changed=bool(patched),
        nodes=work.nodes,
        diff={"prepared": json.dumps(patched, indent=2) if patched else ""},
    )


if __name__ == "__main__":
    main()
