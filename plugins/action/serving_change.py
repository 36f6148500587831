"""Action plugin: proves a change of a service on a node that serves, or takes it back."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction

from gpusmith.cluster import heartbeat
from gpusmith.cluster.api import Cluster
from gpusmith.errors import GpusmithError, ToolError
from gpusmith.node.serving import CRI, Change, TakenBack
from gpusmith.wait import Deadline

KUBELET, CONTAINERD = "kubelet", "containerd"


class ActionModule(EgressAction):
    """Runs each step on the node or against the API server."""

    TRANSFERS_FILES = False

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        self.way_out(task_vars)
        asked = arguments(self, without=("step", "ready"))
        try:
            result.update(self._act(asked, task_vars))
        except GpusmithError as error:
            result.update(failed=True, msg=str(error))
            if asked["state"] == "begun":
                # The other nodes need not wait for this one.
                result["outcome"] = "nothing changed"
        return result

    def _act(self, asked: Mapping[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        cluster = Cluster(asked["kubeconfig"])
        node = asked["node"]
        begun = asked["state"] == "begun"
        ready = begun and heartbeat.is_ready(cluster, node)

        def sign(since: float, ready: bool) -> None:
            deadline = Deadline(asked["timeout"])
            heartbeat.wait(cluster, node, since, deadline, ready=ready, anew=asked["unit"] == KUBELET)

        def packages(versions: Mapping[str, str], folder: str, state: str = "present") -> None:
            arguments = {**asked["packages"], "packages": dict(versions), "folder": folder or None}
            self._module("gpusmith.gpu.packages", {**arguments, "state": state}, task_vars)

        change = Change(
            node=node,
            unit=asked["unit"],
            step=partial(self._on_node, asked, task_vars, ready),
            heartbeat=sign,
            put_packages=packages,
            save_packages=partial(packages, state="fetched"),
            restart_with=tuple(asked["restart_with"]),
            stay_s=asked["stay"],
        )
        if begun:
            change.begin(asked["packages"].get("packages") or {}, ready)
            # The backup on the node is deleted when the change is proved, so it does not count as a change.
            return {"changed": False, "outcome": "begun"}
        if asked["state"] == "proved":
            return {"changed": False, "restarted": change.prove(), "outcome": "proved"}
        back = change.take_back()
        outcome = "taken back" if back.touched else "nothing changed"
        return {"failed": True, "msg": self._words(asked, back), "outcome": outcome}

    @staticmethod
    def _words(asked: Mapping[str, Any], back: TakenBack) -> str:
        reason = " ".join(asked["reason"].split())
        others = " No further node that serves is changed." if back.touched else ""
        return (
            f"Node '{asked['node']}': the change of '{asked['unit']}' failed. {reason} {back.said}{others}"
            " Correct what it says in the inventory or on the node, then run site.yml again."
        )

    def _on_node(
        self, asked: Mapping[str, Any], task_vars: dict[str, Any] | None, ready: bool, step: str
    ) -> dict[str, Any]:
        arguments = {
            "step": step,
            "ready": ready,
            "subject": asked["subject"],
            "unit": asked["unit"],
            "files": asked["files"],
            "packages": sorted(asked["packages"].get("packages") or {}),
            "asks": [*([CRI] if asked["unit"] == CONTAINERD else []), *asked["asks"]],
        }
        return self._module("gpusmith.gpu.serving_change", arguments, task_vars)

    def _module(
        self, name: str, arguments: Mapping[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name=name, module_args=dict(arguments), task_vars=task_vars
        )
        if answer.get("failed"):
            raise ToolError(str(answer.get("msg")))
        return answer
