"""Prometheus in a cluster: whether the parts of role gpu_monitoring can work there, and whether values arrive."""

from __future__ import annotations

import time
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusmith.cluster import apply, operands, retries
from gpusmith.cluster.api import Cluster, Object
from gpusmith.cluster.apply import name_of, path_of
from gpusmith.cluster.storage import class_missing
from gpusmith.cluster.web import PROMETHEUS, Addressed, Prometheus, Proxied, Silent, Web
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.errors import InputError, Refusal, ToolError, all_of
from gpusmith.names import EXPORTER, MANAGED_BY, MANAGER, MONITORING_NAMESPACE, STATE_METRICS
from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until
from gpusmith.wording import quoted, shorten

OPERATOR = "monitoring.coreos.com/v1"
"""Group and version of Prometheus Operator's kinds."""
OPERATOR_KINDS = ("PodMonitor", "PrometheusRule")
NAME_LABELS = ("app.kubernetes.io/name", "app")
"""Labels of pods with their name, as templates/prometheus.conf.j2 reads them."""
PARTS = frozenset({"prometheus", "alertmanager", STATE_METRICS, MANAGER})
"""Names of what role gpu_monitoring runs in its namespace, and of its PrometheusRule, which is called as the manager."""
TICK_S = 2.0


def _is_ours(row: Mapping[str, Any]) -> bool:
    return bool((row["metadata"].get("labels") or {}).get(MANAGED_BY) == MANAGER)


def second_exporters(workloads: Iterable[Mapping[str, Any]], namespace: str) -> list[Refusal]:
    """Exporters of GPU metrics that are not ours: two of them count each GPU twice, and only one may profile it.

    Args:
        workloads: DaemonSets and Deployments of the cluster.
        namespace: of ours.
    """
    found = []
    for row in workloads:
        metadata = row["metadata"]
        if EXPORTER not in operands.components(row["spec"]["template"]["spec"]):
            continue
        name = f"'{metadata['namespace']}/{metadata['name']}'"
        if not _is_ours(row):
            found.append(
                Refusal(
                    f"{name} is a dcgm-exporter of somebody else.",
                    "Let it stay with 'gpu_monitoring_dcgm_exporter: existing'; which of the two serves is for its owner to say.",
                )
            )
        elif metadata["namespace"] != namespace:
            found.append(
                Refusal(
                    f"{name} is a dcgm-exporter that gpusmith made under another 'gpu_operands_namespace'.",
                    f"Set that again, or remove the old one: kubectl delete namespace {metadata['namespace']}",
                )
            )
    return found


def refuse_shared(cluster: Cluster, namespace: str, exporters: str) -> list[Refusal]:
    """A namespace that is not the monitoring's alone: its pods have to be restricted ones, and it goes with the monitoring."""
    found = cluster.get(f"/api/v1/namespaces/{namespace}")
    ours = not found or _is_ours(found)
    others = [] if ours else apply.tenants(cluster, namespace)
    if namespace == exporters:
        others = [DEVICE_PLUGIN]
    if not others:
        return []
    return [
        Refusal(
            f"'gpu_monitoring_namespace' is '{namespace}', where others run: {shorten(others)}. It becomes gpusmith's own, for"
            " restricted pods only, and remove_monitoring.yml deletes it.",
            f"Set it to a name that nobody uses, such as '{MONITORING_NAMESPACE}'.",
        )
    ]


def refuse_unbound(cluster: Cluster, namespace: str, storage: Mapping[str, Any]) -> list[Refusal]:
    """A volume that nobody would make: Prometheus would wait for it, after the one before has gone."""
    if not storage:
        return []
    without = "Without the variable, values go with the pod."
    name = str(storage.get("class") or "")
    return class_missing(cluster, namespace, "prometheus", name, "gpu_monitoring_storage", without)


def former_rules(cluster: Cluster) -> list[Object]:
    """PrometheusRules of gpusmith; there must be an operator."""
    return cluster.items(f"/apis/{OPERATOR}/prometheusrules", labelSelector=f"{MANAGED_BY}={MANAGER}")


def has_operator(cluster: Cluster) -> bool:
    """Whether the cluster knows the kinds of Prometheus Operator."""
    return set(OPERATOR_KINDS) <= set(cluster.kinds(OPERATOR))


def _silence(who: str, ask: Callable[[], object]) -> str:
    """Why nobody answers as who it should be; empty if somebody does."""
    try:
        ask()
    except Silent as error:
        return error.message.rstrip(" .:")
    except ValueError as error:
        return str(error)
    except (KeyError, TypeError):
        return f"an answer that no {who} gives"
    return ""


def refuse_silent(url: str) -> list[Refusal]:
    """Whether a Prometheus, or what speaks as it, answers queries at an address, as the suite asks it."""
    said = _silence("Prometheus", lambda: Prometheus(Addressed(url)).query("vector(1)"))
    return (
        [
            Refusal(
                f"'gpu_monitoring_prometheus_url' is '{url}', where no Prometheus answers: {said}.",
                "Correct it to the address by which this machine reaches Prometheus.",
            )
        ]
        if said
        else []
    )


def prometheus_of(cluster: Callable[[], Cluster], asked: Mapping[str, Any], what: str) -> Prometheus:
    """The Prometheus of role gpu_monitoring.

    Args:
        cluster: makes the API.
        asked: 'prometheus', 'prometheus_url' and 'namespace', as the role has them.
        what: it is asked for.

    Raises:
        InputError: there is none, or it does not answer at its address.
    """
    managed, url = asked["prometheus"] == "managed", asked["prometheus_url"]
    if not managed and not url:
        raise InputError(
            f"There is no Prometheus to ask for {what}.",
            "Set 'gpu_monitoring_prometheus: managed' and run site.yml, or 'existing' with 'gpu_monitoring_prometheus_url'.",
        )
    if managed:
        return Prometheus(Proxied(cluster(), asked["namespace"], PROMETHEUS))
    if silent := refuse_silent(url):
        raise all_of(silent)
    return Prometheus(Addressed(url))


def silence(error: Silent, namespace: str) -> ToolError:
    """What a run says that Prometheus does not answer."""
    return ToolError(
        f"Prometheus does not answer: {error.message.rstrip('.')}.",
        f"Look at it: kubectl -n {namespace} get pods -o wide",
    )


def refuse_deaf(cluster: Cluster, url: str, namespace: str) -> list[Refusal]:
    """Whether an Alertmanager answers at an address, of which only a pod can tell: a Service is asked as the API server does.

    Args:
        cluster: the API.
        url: as a pod reaches it.
        namespace: of that pod, in which names of Services need no other one.
    """

    def ask() -> None:
        if (web := _from_a_pod(cluster, url, namespace)) is not None:
            web.get("/api/v2/status")["config"]

    try:
        said = _silence("Alertmanager", ask)
    except ToolError:
        # Without the right to ask nothing is known.
        return []
    return (
        [
            Refusal(
                f"'gpu_monitoring_alertmanager_url' is '{url}', where no Alertmanager answers: {said}.",
                "Correct it to the address by which pods reach Alertmanager. This machine asked, of a Service the API server.",
            )
        ]
        if said
        else []
    )


def _from_a_pod(cluster: Cluster, url: str, namespace: str) -> Web | None:
    """The way to what a pod reaches by an address; None if there is none."""
    parts = urllib.parse.urlsplit(url)
    host = (parts.hostname or "").split(".")
    space = host[1] if len(host) > 1 else namespace
    path = f"/api/v1/namespaces/{space}/services/{host[0]}"
    service = cluster.get(path) if host[2:3] in ([], ["svc"]) else None
    if service is None:
        return Addressed(url)
    if not service["spec"].get("selector"):
        # Of what is no pod the API server knows no way.
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Proxied(
        cluster, space, f"{parts.scheme}:{host[0]}:{port}", retries.ONE_TRY, parts.path.rstrip("/")
    )


def homes(workloads: Iterable[Mapping[str, Any]], names: Collection[str]) -> list[str]:
    """Namespaces of workloads of others whose pods have one of these names, by which a managed Prometheus finds them."""
    found = set()
    for row in workloads:
        labels = (row["spec"]["template"].get("metadata") or {}).get("labels") or {}
        # Ours goes with this run.
        if not _is_ours(row) and not {labels.get(name) for name in NAME_LABELS}.isdisjoint(names):
            found.add(str(row["metadata"]["namespace"]))
    return sorted(found)


def refuse_homeless(part: str, names: Collection[str], spaces: Collection[str]) -> list[Refusal]:
    """A part of others that is nowhere: all namespaces would be read, also those of tenants."""
    if spaces:
        return []
    variable = f"gpu_monitoring_{part.replace('-', '_')}"
    return [
        Refusal(
            f"'{variable}' is 'existing', and no workload's pods have the label 'app.kubernetes.io/name' or 'app' with"
            f" {quoted(names)}.",
            f"Give these pods the label, or set '{variable}' to 'managed'.",
        )
    ]


def refuse_former(objects: Iterable[Mapping[str, Any]], namespace: str) -> list[Refusal]:
    """What an earlier run made in another namespace: it would go on, and send each alert twice."""
    found = {
        str(row["metadata"]["namespace"]): str(row["metadata"]["name"])
        for row in objects
        if row["metadata"]["name"] in PARTS and _is_ours(row)
    }
    return [
        Refusal(
            f"'gpu_monitoring_namespace' is '{namespace}', and '{name}' of an earlier run is in '{space}'.",
            "Take that away first: ansible-playbook -i INVENTORY playbooks/remove_monitoring.yml"
            f" -e gpu_monitoring_namespace={space}",
        )
        for space, name in sorted(found.items())
        if space != namespace
    ]


@dataclass(frozen=True)
class Missing:
    """What monitoring lacks at the end of a wait.

    Attributes:
        of_all: what all nodes need, with where to look; empty if nothing.
        of_nodes: by node, what is missing of it alone.
    """

    of_all: str = ""
    of_nodes: Mapping[str, str] = field(default_factory=dict)


def wait_for(
    cluster: Cluster,
    objects: Sequence[Object],
    namespace: str,
    jobs: Collection[str],
    nodes: Collection[str],
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> Missing:
    """Until all parts run, and Prometheus gets values from what it is to ask; then what is missing all the same.

    Args:
        cluster: the API.
        objects: what was applied; those with pods count.
        namespace: of our Prometheus; empty if it is somebody else's.
        jobs: of which at least one target is to answer.
        nodes: whose exporters are to answer.
        timeout_s: for all of it.
        sleep: replaced in tests.
    """
    running = [row for row in objects if row["kind"] in ("Deployment", "DaemonSet")]
    late: list[str] = []
    of_nodes: dict[str, str] = {}

    def look() -> Done[None] | NotYet:
        of_nodes.clear()
        late[:] = [said for row in running if (said := _late(cluster, row))]
        for row in running:
            of_nodes.update(_without_pod(cluster, row, nodes) if row["kind"] == "DaemonSet" else {})
        if not late and namespace:
            lost, unseen = _unseen(cluster, namespace, jobs, nodes)
            late[:] = lost
            of_nodes.update({node: said for node, said in unseen.items() if node not in of_nodes})
        waits = [*late, *of_nodes.values()]
        return NotYet("; ".join(waits)) if waits else Done(None)

    try:
        wait_until("the monitoring", look, Deadline(timeout_s), TICK_S, sleep)
    except WaitTimeout as error:
        if not late:
            # The other nodes are as they should be.
            return Missing(of_nodes=of_nodes)
        spaces = list(dict.fromkeys(str(row["metadata"]["namespace"]) for row in running))
        told = [said for space in spaces for said in operands.troubles(cluster, space)]
        look_at = " and ".join(f"'kubectl -n {space} get pods -o wide'" for space in spaces)
        return Missing(" ".join([error.message, *told, f"Look at {look_at}, and at the pods' logs."]))
    return Missing()


def _late(cluster: Cluster, wanted: Object) -> str:
    """What a workload lacks, of a DaemonSet without its pods; empty if nothing."""
    path = path_of(cluster, wanted)
    found = (cluster.get(path) if path else None) or {}
    name = name_of(wanted)
    status = found.get("status") or {}
    if status.get("observedGeneration", 0) < (found.get("metadata") or {}).get("generation", 1):
        return f"{name} is not there yet"
    if wanted["kind"] == "DaemonSet":
        return ""
    there, new, ready = (
        int(status.get(key) or 0) for key in ("replicas", "updatedReplicas", "readyReplicas")
    )
    if there == new == ready > 0:
        return ""
    # One of before may serve as long as the new one does not.
    return f"{name} has no ready pod{' of what it is now' if there > new or ready > new else ''}"


def _without_pod(cluster: Cluster, wanted: Object, nodes: Collection[str]) -> dict[str, str]:
    """Those of these nodes on which a DaemonSet has no ready pod: others may be down."""
    called, namespace = wanted["metadata"]["name"], wanted["metadata"]["namespace"]
    pods = cluster.items(
        f"/api/v1/namespaces/{namespace}/pods", labelSelector=f"app.kubernetes.io/name={called}"
    )
    wrong = {str(pod["spec"].get("nodeName")): operands.problem(pod) for pod in pods}
    return {
        node: f"{name_of(wanted)} has no ready pod on {node}{': ' + said if (said := wrong.get(node)) else ''}"
        for node in nodes
        if wrong.get(node, "none") != ""
    }


def _unseen(
    cluster: Cluster, namespace: str, jobs: Collection[str], nodes: Collection[str]
) -> tuple[list[str], dict[str, str]]:
    """What does not answer Prometheus, in words: of all, and of nodes."""
    try:
        found = Prometheus(Proxied(cluster, namespace, PROMETHEUS, retries.ONE_TRY)).query("up")
    except Silent as error:
        return [f"Prometheus does not answer: {error.message}"], {}
    except (KeyError, TypeError):
        return ["Prometheus does not answer as one does"], {}
    up = [row["metric"] for row in found if row["value"][1] == "1"]
    seen = {row.get("node") for row in up if row.get("job") == EXPORTER}
    lost = [
        f"Prometheus has no target of job '{job}'" for job in jobs if job not in {row["job"] for row in up}
    ]
    unseen = [node for node in nodes if node not in seen]
    return lost, {node: f"Prometheus gets no values from the exporter of {node}" for node in unseen}


def refuse_impossible(asked: Mapping[str, Any], operator: bool) -> list[Refusal]:
    """Parts that would have nobody to read or to tell; arguments are those of the module."""
    found = []
    if asked["prometheus"] == "existing" and not asked["prometheus_url"] and not operator:
        found.append(
            Refusal(
                "'gpu_monitoring_prometheus' is 'existing', and the cluster has no Prometheus Operator.",
                "Set 'gpu_monitoring_prometheus_url' to the address of the Prometheus that reads gpusmith's metrics.",
            )
        )
    if asked["prometheus"] == "existing" and asked["prometheus_url"]:
        found += refuse_silent(asked["prometheus_url"])
    if (
        asked["prometheus"] == "managed"
        and asked["alertmanager"] == "existing"
        and not asked["alertmanager_url"]
    ):
        found.append(
            Refusal(
                "'gpu_monitoring_alertmanager' is 'existing', and 'gpu_monitoring_alertmanager_url' is empty.",
                "Set it to the address by which pods reach Alertmanager.",
            )
        )
    return found
