"""Action plugin: make objects that are ours alone what the role says, or delete them."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import dataclasses
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import Variables, plain, run_of

from gpusmith.cluster import apply, layouts
from gpusmith.cluster.api import Cluster
from gpusmith.errors import GpusmithError
from gpusmith.inventory import specs
from gpusmith.wanted import cluster as cluster_wide
from gpusmith.wording import quoted, shorten

FORMER_CLASS = (
    "RuntimeClass '{name}' is gpusmith's, and the inventory has another one. It stays, since pods may name it."
    " If none does: kubectl delete runtimeclass {name}"
)
DATA = (
    "Namespace '{space}' stays with the data in its PersistentVolumeClaim {claims}. If nobody needs them:"
    " kubectl delete namespace {space}"
)
OTHERS = "Namespace '{space}' stays with what somebody else runs in it: {names}."


class ActionModule(ControllerAction):
    """Takes fields of others over, applies, and says what that changed."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        self._refuse_for_a_part(removes=asked["state"] == "absent")
        cluster = Cluster(asked["kubeconfig"])
        objects = [apply.of_site(row, asked["labels"], asked["pull_secrets"]) for row in asked["objects"]]
        if asked["state"] == "absent":
            spaces = [row["metadata"]["name"] for row in objects if row["kind"] == "Namespace"]
            held = apply.claims(cluster, objects)
            others = {space: names for space in spaces if (names := apply.tenants(cluster, space))}
            objects = [
                row
                for row in objects
                if row["kind"] != "Namespace" or row["metadata"]["name"] not in {*held, *others}
            ]
            gone = apply.remove(cluster, objects, asked["timeout"], check)
            kept = [
                *(DATA.format(space=space, claims=quoted(names)) for space, names in held.items()),
                *(OTHERS.format(space=space, names=shorten(names)) for space, names in others.items()),
            ]
            return {
                "changed": bool(gone),
                "objects": gone,
                "foreign": {},
                "left_out": [],
                **({"warnings": kept} if kept else {}),
            }
        # First: two device plugins on one node would fight over its GPUs.
        left = [*apply.ours(cluster, asked["gone"]), *layouts.left(cluster, objects)]
        gone = apply.remove(cluster, left, asked["timeout"], check)
        done = apply.apply(cluster, objects, check)
        classes = apply.former_classes(cluster, objects)
        lines = [f"{name}: {', '.join(fields)}" for name, fields in done.foreign.items()]
        diff: list[dict[str, Any]] = [
            {"prepared": "".join(f"others set, which is taken away: {line}\n" for line in lines)}
        ]
        diff += [
            {"before": before, "after": after, "before_header": name, "after_header": name}
            for name, (before, after) in done.changed.items()
        ]
        diff += [{"prepared": f"deleted: {name}\n"} for name in gone]
        return {
            "changed": bool(gone or done.foreign or done.changed),
            "objects": [*gone, *done.changed],
            "foreign": done.foreign,
            "left_out": done.left_out,
            "msg": f"Others set, which is taken away: {'; '.join(lines)}."
            if lines
            else "Nobody else set anything.",
            "diff": diff,
            **({"warnings": [FORMER_CLASS.format(name=name) for name in classes]} if classes else {}),
        }

    def _refuse_for_a_part(self, removes: bool) -> None:
        """The guard refuses this for our playbooks; a play of somebody's own may have no guard, and variables of its own."""
        known, values = specs.load(), self.variables
        run = run_of(values, self._loader)
        run = dataclasses.replace(run, members=list(dict.fromkeys([*run.members, *run.play_hosts])))
        names = [*cluster_wide.variables(known), cluster_wide.KUBECONFIG]
        found = cluster_wide.refusals(
            run,
            Variables(values.get("hostvars")),
            known,
            applied={name: plain(self._templar.template(values[name])) for name in names if name in values},
            of_host=str(values.get("inventory_hostname")),
            removes=removes,
        )
        if found:
            raise GpusmithError("\n".join(map(str, found)))
