"""Whether the kubeconfigs of the inventory can be used, and lead to the cluster that nodes join."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

from gpusmith.cluster import endpoint
from gpusmith.cluster import kubeconfig as kubeconfigs
from gpusmith.cluster.api import ApiRefused, ApiUnreachable, Cluster
from gpusmith.cluster.endpoint import Answer, Found, Place
from gpusmith.cluster.retries import ONE_TRY
from gpusmith.errors import GpusmithError, InputError, Refusal
from gpusmith.inventory import places, proxy
from gpusmith.inventory.skew import ask_version, check_skew
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import UnfilledError, unfilled
from gpusmith.paths import working_root

VARIABLE = "kubernetes_node_control_plane_endpoint"


class Filled(Protocol):
    """The variables of hosts with their templates filled in."""

    def filled(self, host: str, name: str) -> Any:
        """One variable; KeyError if there is none, `UnfilledError` if it cannot be filled in."""


def _text(hosts: Filled, node: str, name: str) -> str:
    try:
        return str(hosts.filled(node, name) or "")
    except KeyError:
        return ""
    except UnfilledError as error:
        raise UnfilledError(on_hosts(unfilled(name, last_words(error)), [node]).message) from error


def _proxy(hosts: Filled, node: str) -> dict[str, Any]:
    """What the node's kubelet is told of a proxy; what is wrong with it is said by `proxy.rules`."""
    for name in ("kubernetes_node_proxy", proxy.VARIABLE):
        try:
            found = hosts.filled(node, name)
        except KeyError:
            continue
        except UnfilledError:
            return {}
        return dict(found) if isinstance(found, Mapping) else {}
    return {}


def check_kubeconfigs(hosts: Filled, nodes: Sequence[str]) -> list[Refusal]:
    """Whether every node names kubeconfigs that exist: the role's, and the suite's own where there is one."""
    try:
        return _kubeconfigs(hosts, nodes)
    except UnfilledError as error:
        return [Refusal(str(error), "Correct it in the inventory.")]


def _kubeconfigs(hosts: Filled, nodes: Sequence[str]) -> list[Refusal]:
    without = [node for node in nodes if not _text(hosts, node, "gpusmith_kubeconfig")]
    if without:
        refusal = Refusal(
            "'gpusmith_kubeconfig' is not set.",
            "Set it to the path of a kubeconfig of the existing cluster on this machine.",
        )
        return [on_hosts(refusal, without)]
    paths: dict[Path, list[str]] = {}
    for node in nodes:
        # The suite is started in the checkout.
        for name, base in (("gpusmith_kubeconfig", Path()), ("validation_kubeconfig", working_root())):
            given = _text(hosts, node, name)
            if given:
                there = paths.setdefault(base / places.path(given), [])
                there += [node] if node not in there else []
    found = []
    for path, there in paths.items():
        try:
            kubeconfigs.content(path)
        except InputError as error:
            # Of a folder the rules of values say so.
            if not isinstance(error.__cause__, IsADirectoryError):
                found.append(on_hosts(Refusal(error.message, error.hint), there))
    return found


def check_cluster(hosts: Filled, node: str, kubelets: Mapping[str, str] | None = None) -> list[Refusal]:
    """Whether the kubeconfig leads to a cluster that answers, to the one that nodes join, and to one that takes their kubelets.

    Args:
        hosts: their variables.
        node: one of them.
        kubelets: version of the kubelet of every node that may join; none if none joins.
    """
    path = str(Path(_text(hosts, node, "gpusmith_kubeconfig")).expanduser())
    try:
        # One refusal is an answer: nobody waits for a cluster that is not there.
        cluster = Cluster(path, ONE_TRY)
        known, version = ask_cluster(cluster), ask_version(cluster) if kubelets else ""
    except ApiRefused as error:
        if error.status not in (401, 403) or not error.of_kubernetes:
            return [Refusal(error.message, error.hint)]
        return [
            Refusal(
                f"The cluster of kubeconfig '{path}' refuses its user ({error.status}).",
                "Give a kubeconfig of an administrator with 'gpusmith_kubeconfig'.",
            )
        ]
    except ApiUnreachable as error:
        return [
            Refusal(
                f"The cluster of kubeconfig '{path}' cannot be reached: {error.message}",
                "Check 'gpusmith_kubeconfig', and that the API server runs.",
            )
        ]
    except GpusmithError as error:
        return [Refusal(error.message, error.hint)]
    found = check_skew(kubelets or {}, version)
    try:
        given = _text(hosts, node, VARIABLE)
    except UnfilledError:
        # The role says what is wrong with it.
        return found
    return [
        *found,
        *check_same_cluster(path, given, known, joins=bool(kubelets)),
        *check_proxy(_proxy(hosts, node), given, known.servers),
    ]


class Known(NamedTuple):
    """What a cluster says of itself.

    Attributes:
        servers: its addresses: the kubeconfig's, and the one that its cluster-info gives to nodes that join.
        authority: certificates of its authority by cluster-info, in PEM; empty if it has none.
    """

    servers: Sequence[str] = ()
    authority: str = ""


def ask_cluster(cluster: Cluster) -> Known:
    """What the cluster says of itself; nothing of one that kubeadm did not make: it has no such object, or another form of it."""
    cluster.call("GET", "/api/v1/nodes", query={"limit": "1"})
    try:
        info = cluster.get("/api/v1/namespaces/kube-public/configmaps/cluster-info") or {}
        rows = [entry["cluster"] for entry in yaml.safe_load(info["data"]["kubeconfig"])["clusters"]]
        data = next((row.get("certificate-authority-data") or "" for row in rows), "")
        authority = base64.b64decode(data).decode("ascii")
        return Known([cluster.host, *(row["server"] for row in rows)], authority)
    except (ApiRefused, AttributeError, KeyError, TypeError, ValueError, yaml.YAMLError):
        return Known()


def last_words(error: BaseException) -> str:
    """The innermost reason in one line, without the layers of the client."""
    inner = getattr(error, "reason", None)
    while isinstance(inner, BaseException):
        error, inner = inner, getattr(inner, "reason", None)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


def check_same_cluster(
    kubeconfig: str,
    given: str,
    known: Known,
    ask: Callable[[Place, str], Answer] = endpoint.ask,
    joins: bool = True,
) -> list[Refusal]:
    """Whether the kubeconfig leads to the cluster that nodes would join.

    Args:
        kubeconfig: its path, for the message.
        given: what the inventory says that nodes join.
        known: what the cluster of the kubeconfig says of itself.
        ask: who answers at another address than the cluster's own, as at a load balancer's.
        joins: whether nodes may join. Without that, an address where nobody answers keeps nobody from a way back.
    """
    if not given or not known.servers:
        return []
    where = endpoint.place(given)
    if where is None:
        return [
            Refusal(
                f"'{VARIABLE}' is '{given}', which is no address of an API server.",
                "Give host:port, an address of IPv6 in brackets.",
            )
        ]
    if where in {endpoint.place(server) for server in known.servers}:
        return []
    answer = ask(where, known.authority) if known.authority else Answer(Found.OTHER, "it has no authority")
    if answer.found is Found.SAME or (answer.found is Found.NOBODY and not joins):
        return []
    leads = f"Kubeconfig '{kubeconfig}' leads to the cluster at '{known.servers[-1]}'"
    if answer.found is Found.NAMELESS:
        return [
            Refusal(
                f"{leads}, which answers at '{given}', too, but with a certificate that does not have the name '{where.host}':"
                " kubeadm would refuse to join by it.",
                f"Add '{where.host}' to 'certSANs' of the API server in kubeadm's configuration and make its certificate anew, or"
                f" set '{VARIABLE}' to a name that it has.",
            )
        ]
    if answer.found is Found.NOBODY:
        return [
            Refusal(
                f"{leads}, and at '{given}', which nodes would join, nobody answers from here ({answer.reason}):"
                " it may be another cluster.",
                f"Start what answers there, or set '{VARIABLE}' to '{_written(known)}', which the cluster calls its own.",
            )
        ]
    return [
        Refusal(
            f"{leads}, but the nodes would join '{given}' ({answer.reason}).",
            f"Set 'gpusmith_kubeconfig' and '{VARIABLE}' to the same cluster.",
        )
    ]


def _written(known: Known) -> str:
    return str(endpoint.place(known.servers[-1]) or known.servers[-1])


def check_proxy(given: Mapping[str, Any], joins: str, servers: Sequence[str]) -> list[Refusal]:
    """Whether kubelets would ask the API server by the proxy: a join gives them the address of cluster-info."""
    told = any(given.get(scheme) for scheme in proxy.SCHEMES)
    if not told or not servers or not joins:
        return []
    server = proxy.host(re.sub(r"^https?://", "", servers[-1].strip()).rstrip("/"))
    if server == proxy.host(joins) or proxy.is_near(server, given):
        return []
    return [
        Refusal(
            f"Kubelets would ask the API server at '{server}' by the proxy: the cluster's cluster-info has that address, and"
            f" '{VARIABLE}' is '{joins}'.",
            f"Add '{server}' to 'no_proxy' of '{proxy.VARIABLE}'.",
        )
    ]
