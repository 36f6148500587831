"""Whether the kubeconfigs of the inventory can be used, and lead to the cluster that nodes join."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import yaml

from gpusmith.cluster.api import ApiRefused, ApiUnreachable, Cluster
from gpusmith.cluster.retries import ONE_TRY
from gpusmith.errors import GpusmithError, Refusal
from gpusmith.inventory import proxy
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import UnfilledError
from gpusmith.paths import repo_root


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
        reason = f"Host '{node}': the template of '{name}' cannot be filled in: {last_words(error)}."
        raise UnfilledError(reason) from error


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
    paths: dict[tuple[str, Path], list[str]] = {}
    for node in nodes:
        # The suite is started in the checkout.
        for name, base in (("gpusmith_kubeconfig", Path()), ("validation_kubeconfig", repo_root())):
            given = _text(hosts, node, name)
            if given:
                paths.setdefault((name, base / Path(given).expanduser()), []).append(node)
    return [
        on_hosts(Refusal(f"Kubeconfig '{path}' does not exist.", f"Set '{name}' to one that does."), there)
        for (name, path), there in paths.items()
        if not path.is_file()
    ]


def check_cluster(hosts: Filled, node: str) -> list[Refusal]:
    """Whether the kubeconfig leads to a cluster that answers, and to the one that nodes join."""
    path = str(Path(_text(hosts, node, "gpusmith_kubeconfig")).expanduser())
    try:
        # One refusal is an answer: nobody waits for a cluster that is not there.
        servers = ask_cluster(Cluster(path, ONE_TRY))
    except ApiRefused as error:
        if error.status not in (401, 403):
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
    try:
        endpoint = _text(hosts, node, "kubernetes_node_control_plane_endpoint")
    except UnfilledError:
        # The role says what is wrong with it.
        return []
    return [
        *check_same_cluster(path, endpoint, servers),
        *check_proxy(_proxy(hosts, node), endpoint, servers),
    ]


def ask_cluster(cluster: Cluster) -> list[str]:
    """Addresses of the cluster: the kubeconfig's, and the one its own cluster-info gives to nodes that join.

    Empty for a cluster that kubeadm did not make: it has no such object, or another form of it.
    """
    cluster.call("GET", "/api/v1/nodes", query={"limit": "1"})
    try:
        info = cluster.get("/api/v1/namespaces/kube-public/configmaps/cluster-info") or {}
        inner = yaml.safe_load(info["data"]["kubeconfig"])
        return [cluster.host, *(entry["cluster"]["server"] for entry in inner["clusters"])]
    except (ApiRefused, KeyError, TypeError, yaml.YAMLError):
        return []


def last_words(error: BaseException) -> str:
    """The innermost reason in one line, without the layers of the client."""
    inner = getattr(error, "reason", None)
    while isinstance(inner, BaseException):
        error, inner = inner, getattr(inner, "reason", None)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")


def host_and_port(server: str) -> str:
    """'https://10.0.0.1:6443/' and '10.0.0.1:6443' are the same place; the port is 6443 or, after https://, 443."""
    default = "443" if server.startswith("https://") else "6443"
    place = re.sub(r"^https?://", "", server.strip()).rstrip("/").lower()
    return place if re.search(r":\d+$", place) else f"{place}:{default}"


def check_same_cluster(kubeconfig: str, endpoint: str, servers: Sequence[str]) -> list[Refusal]:
    """Whether the kubeconfig leads to the cluster that nodes would join.

    Args:
        kubeconfig: its path, for the message.
        endpoint: what the inventory says that nodes join.
        servers: addresses of the cluster that the kubeconfig leads to, by itself and by its cluster-info.
    """
    if (
        not endpoint
        or not servers
        or host_and_port(endpoint) in {host_and_port(server) for server in servers}
    ):
        return []
    return [
        Refusal(
            f"Kubeconfig '{kubeconfig}' leads to the cluster at '{servers[-1]}', but the nodes would join '{endpoint}'.",
            "Set 'gpusmith_kubeconfig' and 'kubernetes_node_control_plane_endpoint' to the same cluster.",
        )
    ]


def check_proxy(given: Mapping[str, Any], endpoint: str, servers: Sequence[str]) -> list[Refusal]:
    """Whether kubelets would ask the API server by the proxy: a join gives them the address of cluster-info."""
    told = any(given.get(scheme) for scheme in proxy.SCHEMES)
    if not told or not servers or not endpoint:
        return []
    server = proxy.host(re.sub(r"^https?://", "", servers[-1].strip()).rstrip("/"))
    if server == proxy.host(endpoint) or proxy.is_near(server, given):
        return []
    return [
        Refusal(
            f"Kubelets would ask the API server at '{server}' by the proxy: the cluster's cluster-info has that address, and"
            f" 'kubernetes_node_control_plane_endpoint' is '{endpoint}'.",
            f"Add '{server}' to 'no_proxy' of '{proxy.VARIABLE}'.",
        )
    ]
