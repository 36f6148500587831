"""Action plugin: give teams what the inventory lets them have, and take away what it has no more."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.controller import ControllerAction

from gpusmith.cluster import apply
from gpusmith.cluster.api import Cluster
from gpusmith.errors import all_of
from gpusmith.tenants.cluster import forgotten, judged, left, overcommitted, refusals
from gpusmith.tenants.objects import Tenants
from gpusmith.tenants.proof import prove


class ActionModule(ControllerAction):
    """Refuses, applies, removes, and names what stays."""

    def act(self, asked: dict[str, Any], check: bool) -> dict[str, Any]:
        cluster = Cluster(asked["kubeconfig"])
        if asked["state"] == "proved":
            notes = [] if check else prove(cluster, Tenants(asked["teams"], offered=asked["offered"]))
            return {"changed": False, **({"warnings": notes} if notes else {})}
        wanted, notes = Tenants(), list[str]()
        if asked["state"] == "present":
            names = ("teams", "classes", "offered", "policy", "exempt")
            wanted = Tenants(*(asked[name] for name in names))
            if found := [*forgotten(cluster, wanted), *refusals(cluster, wanted)]:
                raise all_of(found)
            notes += [*judged(cluster, wanted, check), *overcommitted(cluster, wanted)]
        gone, stays = left(cluster, wanted)
        notes += stays
        done = apply.apply(cluster, wanted.objects, check)
        removed = apply.remove(cluster, gone, asked["timeout"], check)
        diff: list[dict[str, Any]] = [
            {"before": before, "after": after, "before_header": name, "after_header": name}
            for name, (before, after) in done.changed.items()
        ]
        diff += [{"prepared": f"deleted: {name}\n"} for name in removed]
        return {
            "changed": bool(done.changed or done.foreign or removed),
            "objects": [*done.changed, *removed],
            "diff": diff,
            **({"warnings": notes} if notes else {}),
        }
