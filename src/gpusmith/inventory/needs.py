"""Variables that have to be given, by the roles that need them: all are asked for at once, before a machine is."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

from gpusmith.data.operands import EXISTING
from gpusmith.errors import Refusal
from gpusmith.inventory.specs import Specs
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import has_open
from gpusmith.wording import quoted

PREFLIGHT, DRIVER, KUBERNETES = "preflight", "nvidia_driver", "kubernetes_node"
ENDPOINT = "kubernetes_node_control_plane_endpoint"
AS_SHOWN = "as 'inventory/example/group_vars/all.yml' does"
IMAGES, REPOSITORY = "validation_images", "_repository"
VERSION = "Give an exact version, in quotes."

NEEDS: Mapping[str, Mapping[str, str]] = {
    PREFLIGHT: {"gpusmith_gpu_count": "Say how many GPUs the machine has."},
    DRIVER: {
        "nvidia_driver_version": "Give a version or a branch in quotes, or latest.",
        "nvidia_driver_repository": f"Name the driver's repository, {AS_SHOWN}.",
    },
    "containerd": {
        "containerd_version": VERSION,
        "containerd_repository": f"Name containerd's repository, {AS_SHOWN}.",
    },
    "nvidia_container_toolkit": {
        "nvidia_container_toolkit_version": VERSION,
        "nvidia_container_toolkit_repository": f"Name the toolkit's repository, {AS_SHOWN}.",
    },
    KUBERNETES: {
        "kubernetes_node_version": "Give the cluster's version, or one minor below, in quotes.",
        ENDPOINT: "Give host:port of the API server, as the nodes reach it.",
        "kubernetes_node_token_host": "Name a control plane machine of the inventory, which makes the join tokens.",
        "kubernetes_node_repository": f"Name the repository of kubelet and kubeadm, {AS_SHOWN}.",
    },
    "node_stamp": {
        IMAGES: "Name images for the workloads of the suite, as 'inventory/example/group_vars/gpu_nodes.yml' shows."
    },
}
"""By role and variable, what to do about one that is not set."""
OF_THE_SUITE = ("gpusmith_gpu_count", "nvidia_driver_version")
"""What the suite compares nodes with, whoever sets them up."""

Values = Mapping[str, Any]


def ours(values: Values, role: str) -> bool:
    """Whether a role installs its part of a host, or somebody else has: 'kubernetes_node_owner' and its like."""
    return values.get(f"{role}_owner") != EXISTING


def check_needs(
    nodes: Mapping[str, Values], roles: Collection[str], specs: Specs, only: Collection[str] = ()
) -> list[Refusal]:
    """What is not given; each once, with the hosts that lack it.

    Args:
        nodes: variables by name, by node; templates are filled in where that can be done.
        roles: that run.
        specs: the variables that there are.
        only: variables that matter; all by default.
    """
    found: dict[Refusal, list[str]] = {}
    for node, values in nodes.items():
        for role in NEEDS:
            for refusal in _of_role(role, node, values, specs, only) if role in roles else ():
                found.setdefault(refusal, []).append(node)
    return [on_hosts(refusal, there) for refusal, there in found.items()]


def _of_role(role: str, node: str, values: Values, specs: Specs, only: Collection[str]) -> Iterator[Refusal]:
    without = (role == DRIVER and values.get("nvidia_driver_state") == "absent") or (
        role == "node_stamp" and values.get("gpusmith_validate") == "never"
    )
    if without or not ours(values, role):
        return
    for name, hint in NEEDS[role].items():
        value = values.get(name)
        if (only and name not in only) or has_open(value):
            continue
        if not name.endswith((REPOSITORY, IMAGES)):
            yield from () if value else (Refusal(f"'{name}' is not set.", hint),)
        # What else is wrong with the form of a mapping is told already.
        elif isinstance(value or {}, Mapping) and set(value or {}) <= set(specs.variables[name].options):
            yield from _mapping(role, name, value or {}, hint, specs)
    if role == KUBERNETES:
        yield from _join(node, values)


def _mapping(role: str, name: str, given: Values, hint: str, specs: Specs) -> Iterator[Refusal]:
    keys = specs.variables[name].options if name == IMAGES else ["uris"]
    if lacking := [key for key in keys if not given.get(key)]:
        yield Refusal(f"'{name}' has no {quoted(lacking)}.", hint)
    elif name.endswith(REPOSITORY) and (why := _unsound(role, json.dumps(given, default=str))):
        yield Refusal(why, f"Correct '{name}'.")


@functools.cache
def _unsound(role: str, repository: str) -> str:
    """What is wrong with a repository, which many hosts share; empty if nothing is."""
    try:
        repository_of(json.loads(repository), role)
    except PackageError as error:
        return str(error)
    return ""


def _join(node: str, values: Values) -> Iterator[Refusal]:
    """What the role that joins a node would only find after driver and runtime are installed."""
    endpoint, version = (
        "" if has_open(value) else str(value or "")
        for value in (values.get(ENDPOINT), values.get("kubernetes_node_version"))
    )
    if endpoint and not re.fullmatch(r"[^\s/]+:[0-9]{1,5}", endpoint):
        yield Refusal(f"'{ENDPOINT}' must be host:port, not '{endpoint}'.", NEEDS[KUBERNETES][ENDPOINT])
    if version and not re.match(r"[0-9]+\.[0-9]+\.[0-9]+", version):
        yield Refusal(
            f"'kubernetes_node_version' is '{version}'.", "Give all three numbers, for example '1.36.3'."
        )
    if node != node.lower():
        yield Refusal(
            "A node has the name of its host in the inventory, and names of nodes are in lower case.",
            f"Name the host '{node.lower()}' in the inventory.",
        )
