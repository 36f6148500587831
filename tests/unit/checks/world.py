"""A healthy lab in memory, of two nodes with four GPUs each, to be broken in one place."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from gpusmith.checks.whole_cluster import Removed
from gpusmith.cluster.api import ApiRefused, Cluster
from gpusmith.cluster.snapshot import POLICIES, take
from gpusmith.names import MONITORING_NAMESPACE, OPERANDS_NAMESPACE
from gpusmith.node.connections import Probed
from gpusmith.node.records import parse
from gpusmith.paths import repo_root
from gpusmith.suite.sources import ClusterState, Sources
from gpusmith.tenants.objects import Tenants
from gpusmith.wanted.inventory import Inventory
from gpusmith.workloads.jobs import Run
from tests.fleet.prometheus import MANAGED, FakePrometheus
from tests.unit.fake_cluster import FakeCluster
from tests.unit.hosts import UUIDS, build, host_variables
from tests.unit.objects import ON_NODE, node, operand
from tests.unit.records import healthy_record, other_record

Json = dict[str, Any]
NAMES = ("gpu-1", "gpu-2")
MACHINES = {"gpu-1": ("m", "b"), "gpu-2": ("other", "other")}
NODES, PODS, CLASSES, SETS = (
    "/api/v1/nodes",
    "/api/v1/pods",
    "/apis/node.k8s.io/v1/runtimeclasses",
    "/apis/apps/v1/daemonsets",
)
IN_PODS = repo_root() / "validation" / "workloads" / "programs"
QUOTAS, RANGES = "/api/v1/resourcequotas", "/api/v1/limitranges"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


VARIABLES: Json = {
    **MANAGED,
    "gpu_tenants_teams": {"team": {"gpus": 8, "cpu": 64}},
    "gpu_tenants_policy": "deny",
    "validation_preemption": True,
}
"""What the inventory says besides its GPUs: everything is watched and proved, one team has GPUs, and a policy is bound."""


def _node(name: str) -> Json:
    found = node()
    found["metadata"]["name"] = name
    found["status"]["nodeInfo"] = {"machineID": MACHINES[name][0], "bootID": MACHINES[name][1]}
    return found


def _operand(name: str, place: str) -> Json:
    found = operand(name)
    found["metadata"]["name"] = f"{name}-{place}"
    found["spec"]["nodeName"] = place
    return found


def _limits(name: str, **spec: Any) -> Json:
    return {"metadata": {"namespace": "team", "name": name}, "spec": spec}


def _lists() -> dict[str, list[Json]]:
    on_nodes = [_operand(name, place) for place in NAMES for name in ON_NODE]
    return {
        NODES: [_node(name) for name in NAMES],
        PODS: [*on_nodes, _operand("nfd-master", "cp-1")],
        CLASSES: [{"metadata": {"name": "nvidia"}, "handler": "nvidia"}],
        SETS: [],
        SLICES: [],
        QUOTAS: [
            _limits(
                "gpusmith-gpus", hard={"requests.nvidia.com/gpu": "8", "requests.nvidia.com/gpu.shared": "0"}
            ),
            _limits("theirs", hard={"requests.nvidia.com/gpu": "8", "pods": "10"}),
        ],
        **{
            POLICIES[row["kind"]]: [row]
            for row in Tenants(
                VARIABLES["gpu_tenants_teams"],
                mode="deny",
                exempt=(OPERANDS_NAMESPACE, MONITORING_NAMESPACE),
            ).policies
        },
        RANGES: [
            _limits("range", limits=[{"type": "Container", "max": {"cpu": "8"}, "default": {"cpu": "1"}}])
        ],
    }


class _Api(FakeCluster):
    """Pods of a run, and the lists of the cluster that it runs in."""

    def __init__(self, lists: dict[str, list[Json]]) -> None:
        super().__init__({"gpu-1": list(UUIDS), "gpu-2": [uuid.replace("GPU-0", "GPU-9") for uuid in UUIDS]})
        self.lists, self.prometheus = lists, FakePrometheus(self.gpus)

    def call(self, method: str, path: str, query: dict[str, str], **_: Any) -> str:
        assert method == "GET"
        answer = self.prometheus.answer(path, query)
        if answer is None:
            raise ApiRefused(f"The API server refused GET '{path}': 503.", "Look at it.", 503)
        return answer

    def serves(self, version: str) -> bool:
        return any(path.startswith(version) for path in self.lists)

    def items(self, path: str, cut: Any = None, /, **query: str) -> Any:
        if path not in self.lists:
            return super().items(path, **query)
        field_name, _, value = query.get("fieldSelector", "").partition("=")
        part, _, key = field_name.partition(".")
        rows = [row for row in self.lists[path] if not key or row.get(part, {}).get(key) == value]
        # As the client does it, which cuts what it has read, and not what the server has.
        return [kept for row in copy.deepcopy(rows) if (kept := cut(row)) is not None] if cut else rows


@dataclass
class World:
    """What a run of the suite is about; a mutation changes it before the run.

    Attributes:
        record: of node gpu-1, as its probe prints it; None for a node that does not answer.
        other: of node gpu-2.
        variables: of node gpu-1 in the inventory.
        lists: of the API server, by path.
        removed: of earlier runs.
        cluster: pods, and what their programs answer.
        answers: whether the cluster can be asked.
    """

    record: Json | None = field(default_factory=healthy_record)
    other: Json = field(default_factory=other_record)
    variables: Json = field(default_factory=lambda: host_variables(**VARIABLES))
    lists: dict[str, list[Json]] = field(default_factory=_lists)
    removed: Removed = field(default_factory=Removed)
    answers: bool = True
    cluster: _Api = field(init=False)

    def __post_init__(self) -> None:
        self.cluster = _Api(self.lists)

    @property
    def seen(self) -> Json:
        """The record of node gpu-1, to be changed."""
        assert self.record is not None
        return self.record

    @property
    def gpu(self) -> Json:
        """GPU 1 of node gpu-1, as its probe prints it."""
        found: Json = self.seen["nvml"]["gpus"][1]
        return found

    @property
    def prometheus(self) -> FakePrometheus:
        """What watches both nodes."""
        return self.cluster.prometheus

    @property
    def node(self) -> Json:
        """The Node object of gpu-1."""
        return self.lists[NODES][0]

    @property
    def inventory(self) -> Inventory:
        """Of both nodes."""
        variables = {"gpu-1": self.variables, "gpu-2": host_variables(**VARIABLES)}
        groups = {"gpu_nodes": {"hosts": list(NAMES)}, "rack1": {"hosts": ["gpu-1"]}}
        return build(groups, variables, "inventory", "")

    def sources(self) -> Sources:
        """What checks are answered from."""
        inventory = self.inventory
        made = Sources(inventory, IN_PODS, Run("a1", "o"), lambda _: None, {}, Path())
        made.__dict__["probed"] = {
            "gpu-1": Probed(parse(self.record), "", "", 0.1)
            if self.record is not None
            else Probed(None, "Node 'gpu-1' does not answer over ssh.", "Try ssh.", 0.1),
            "gpu-2": Probed(parse(self.other), "", "", 0.1),
        }
        if self.answers:
            api = cast("Cluster", self.cluster)
            wanted = {name: host.operands.namespace for name, host in inventory.hosts.items()}
            made.__dict__["cluster_state"] = ClusterState(api, take(api, wanted), self.removed)
        return made
