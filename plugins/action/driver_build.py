"""Action plugin: gives a node the driver's kernel modules, which one node of several builds."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.arguments import arguments
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.built_node import (
    BuildingAction,
    BuiltNode,
    refuse_unsigned,
)
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import plain

from gpusmith.built import key, signing
from gpusmith.built.cache import Cache
from gpusmith.built.once import NotBuilt, forecast
from gpusmith.errors import GpusmithError
from gpusmith.expect import signatures, versions
from gpusmith.node.records import parse
from gpusmith.probe.record import Record
from gpusmith.verdict.changes import TELLS

RECORD = "node_record_now"


class ActionModule(BuildingAction, EgressAction):
    """One host at a time builds for a key; the others wait, and take what came out."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        asked, variables = arguments(self), task_vars or {}
        try:
            # Whatever is wrong with it, DKMS builds again.
            signs = asked["state"] in ("withheld", "present")
            signer = signing.load(**asked["signing"]) if signs else None
            record = _record(variables)
            if record is None:
                raise NotBuilt("'driver_build' needs the record of 'gpusmith.gpu.node_state'.")
            said = self._act(asked, variables, record, signer)
        except GpusmithError as error:
            result.update(failed=True, msg=str(error))
            return result
        result.update(said)
        if said["words"]:
            # Who takes is one of many, and no news at the end of a run.
            kind = {"changes": {"more": said["words"]}} if self._task.check_mode else {"notes": said["notes"]}
            result[TELLS] = {str(variables["inventory_hostname"]): kind}
        return result

    def _act(
        self,
        asked: Mapping[str, Any],
        variables: Mapping[str, Any],
        record: Record,
        signer: signing.Signer | None,
    ) -> dict[str, Any]:
        host = str(variables["inventory_hostname"])
        node = self.node(host, versions.upstream(asked["version"]), dict(variables))
        if asked["state"] == "allowed":
            return {"changed": node.keep_from_building(withheld=False), "words": []}
        if asked["state"] == "mended":
            return {"changed": node.mend(), "words": []}
        if asked["state"] == "rebuilt":
            return self._rebuild(asked["modules"], node, record.host.kernel or "")
        if asked["state"] in ("compiled", "restored"):
            for kernel in asked["kernels"]:
                node.compile(kernel) if asked["state"] == "compiled" else node.restore(kernel)
            return {"changed": bool(asked["kernels"]), "words": []}
        refuse_unsigned(host, record, signer)
        if self._task.check_mode:
            return _forecast(asked, record, signer)
        provider = self.provider(asked, signer, dict(variables))
        if asked["state"] == "withheld":
            return {"changed": node.keep_from_building(withheld=True), "words": []}
        came = provider.provide(
            record,
            asked["version"],
            asked["flavour"],
            asked["kernels"],
        )
        return {
            "changed": bool(came),
            "words": [each.words(host) for each in came],
            "notes": [each.words(host) for each in came if each.compiled],
            "compiled": [each.kernel for each in came if each.compiled],
            "builders": {each.kernel: each.builder for each in came},
        }

    def _rebuild(self, modules: Mapping[str, list[str]], node: BuiltNode, running: str) -> dict[str, Any]:
        """For the running kernel they have to compile; for others, which nobody may ever boot, it is told if they do not."""
        words, notes = [], []
        for kernel, names in modules.items():
            try:
                if not self._task.check_mode:
                    node.rebuild(kernel, names)
            except NotBuilt as error:
                if kernel == running:
                    raise
                notes.append(str(error))
            else:
                words += [f"module '{name}' built anew by DKMS for kernel {kernel}" for name in names]
        return {"changed": bool(words), "words": [*words, *notes], "notes": notes}


def _record(variables: Mapping[str, Any]) -> Record | None:
    found = (variables.get(RECORD) or {}).get("record")
    return parse(plain(found)) if found else None


def _forecast(asked: Mapping[str, Any], record: Record, signer: signing.Signer | None) -> dict[str, Any]:
    cache, certificate = Cache(asked["cache"]), signer.fingerprint if signer else ""
    version = versions.upstream(asked["version"])
    words = [
        forecast(
            key.of(record, kernel, version, asked["flavour"], asked["layout"], certificate),
            cache,
            there=_signed_by_others(record, kernel, version, signer),
        )
        for kernel in asked["kernels"]
    ]
    return {"changed": bool(words), "words": words, "compiled": [], "builders": {}}


def _signed_by_others(record: Record, kernel: str, version: str, signer: signing.Signer | None) -> bool:
    """Whether a node has them, and somebody else has signed them."""
    return signer is not None and any(
        each.release == kernel for each in signatures.not_of(signer.number, record, version)
    )
