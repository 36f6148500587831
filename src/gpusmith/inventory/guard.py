"""The playbooks' guard: what refuses a run before any host is touched."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.building import check_signing
from gpusmith.inventory.names import check_extra_names
from gpusmith.inventory.needs import KUBERNETES, PREFLIGHT, check_needs, ours
from gpusmith.inventory.places import check_places
from gpusmith.inventory.rules import RULES
from gpusmith.inventory.same_cluster import check_cluster, check_kubeconfigs
from gpusmith.inventory.sharing import check_sharing
from gpusmith.inventory.specs import Specs
from gpusmith.inventory.target import (
    Run,
    check_controller,
    check_limit,
    check_sources,
    check_tags,
    check_target,
    on_hosts,
)
from gpusmith.inventory.templates import UnfilledError, has_open, is_plain, unfilled
from gpusmith.inventory.values import truth
from gpusmith.inventory.variables import check_hosts, check_values
from gpusmith.wanted import cluster as cluster_wide
from gpusmith.wanted.cluster import Hosts

KUBELET = "kubernetes_node_version"
OF_A_RUN = ("gpusmith_bad_host", "gpusmith_report_dir", "gpusmith_validate", "validation_timeout_s")
"""What a task that runs once goes by for all nodes of a run."""
OF_AN_UPGRADE = (
    *("max_unavailable", "canary", "soak_s", "max_failures"),
    *("reboot", "requires_group", "requires_hours", "report_dir"),
)
"""The same of an upgrade, and of the way back; names without their prefix."""


def refusals(
    run: Run,
    hosts: Hosts,
    specs: Specs,
    *,
    cluster: bool = True,
    needs_limit: str = "",
    tags: Sequence[str] = (),
    join_tag: str = "",
    cluster_tags: Sequence[str] = (),
    inventory_only: Sequence[str] = (),
    required: Sequence[str] = (),
) -> list[Refusal]:
    """Every reason to refuse a run.

    Args:
        run: what was started.
        hosts: variables of the inventory's hosts.
        specs: the variables that there are.
        cluster: whether the playbook needs the cluster that nodes join.
        needs_limit: what the playbook does to nodes that must be named for it; empty if they need not.
        tags: those of the playbook.
        join_tag: tag of what joins nodes to the cluster; empty if the playbook joins none.
        cluster_tags: tags of what changes objects of the whole cluster.
        inventory_only: roles whose variables cannot be given with -e.
        required: variables without which the playbook has nothing to do.
    """
    nodes = run.nodes
    templated = frozenset(RULES) | frozenset(specs.variables)
    found = check_controller() + check_target(run) + check_limit(run, needs_limit) + check_tags(run, tags)
    found += check_extra_names(run.extra, specs) + check_values(run.extra, specs)
    found += check_inventory_only(run.extra, specs, inventory_only)
    broken: dict[Refusal, list[str]] = {}
    values = {node: _values(hosts, node, run.extra, templated, broken) for node in nodes}
    found += check_hosts(values, specs)
    found += [on_hosts(refusal, there) for refusal, there in broken.items()]
    rows = {node: {**row, **run.extra} for node, row in values.items()}
    if nodes and any(map(run.includes, cluster_tags)):
        found += cluster_wide.refusals(run, hosts, specs)
    found += check_signing(rows) + check_sharing(rows, run.extra)
    found += check_required(rows, required)
    of_upgrade = [f"gpu_upgrade_{name}" for name in OF_AN_UPGRADE] if inventory_only else []
    found += check_alike(rows, specs, (*required, *OF_A_RUN, *of_upgrade))
    found += check_needs(rows, [tag for tag in tags if tag == PREFLIGHT or run.includes(tag)], specs)
    found += check_places(rows, run.groups)
    if nodes:
        found += check_offline({**hosts.written(nodes[0]), **run.extra})
    found += check_sources(run)
    if nodes and cluster:
        told = {node for there in broken.values() for node in there}
        found += check_kubeconfigs(hosts, [node for node in nodes if node not in told])
    if nodes and cluster and not found:
        # Of the others nothing says which cluster they would join.
        joined = {node: row for node, row in rows.items() if ours(row, KUBERNETES)}
        joins = bool(join_tag) and run.includes(join_tag)
        kubelets = {node: str(row.get(KUBELET) or "") for node, row in joined.items() if joins}
        found += check_cluster(hosts, next(iter(joined), nodes[0]), kubelets)
    return found


def check_inventory_only(extra: Iterable[str], specs: Specs, roles: Sequence[str]) -> list[Refusal]:
    """Variables of -e that the playbook sets itself: those of the command line would win, also where it goes back."""
    return [
        Refusal(
            f"'{name}' cannot be given with -e here.",
            "The playbook decides it node by node; put what shall hold afterwards into the inventory.",
        )
        for name in sorted(extra)
        if name in specs.variables and specs.variables[name].owner in roles
    ]


def check_required(hosts: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> list[Refusal]:
    """Variables that must be given."""
    return [
        Refusal(f"'{name}' is not given.", f"Give it, for example with -e {name}=VALUE.")
        for name in names
        if hosts and not all(row.get(name) for row in hosts.values())
    ]


def check_alike(hosts: Mapping[str, Mapping[str, Any]], specs: Specs, names: Iterable[str]) -> list[Refusal]:
    """Variables of which a run has one value: that of the first host would be taken for all."""
    known = {name: specs.variables[name] for name in names}
    return [
        Refusal(
            f"'{name}' holds for the whole run, and its hosts disagree: {there}.",
            "Give them one value, or run the playbook for one group after another, with -l.",
        )
        for name, there in cluster_wide.disagreements(hosts, known)
    ]


def _values(
    hosts: Hosts,
    node: str,
    extra: Mapping[str, Any],
    templated: frozenset[str],
    broken: dict[Refusal, list[str]],
) -> dict[str, Any]:
    """What the inventory says of a host and the command line does not override; `broken` gets templates that never will do.

    Playbooks leave the roles' own validation of arguments out, since all of it is done here: a task for each role and host costs
    a second run a fifth of its time.
    """
    found: dict[str, Any] = {}
    for name, value in hosts.written(node).items():
        if name not in extra:
            try:
                found[name] = _filled_in(hosts, node, name, value) if name in templated else value
            except UnfilledError as error:
                found[name] = value
                broken.setdefault(unfilled(name, error), []).append(node)
    return found


def _filled_in(hosts: Hosts, node: str, name: str, value: Any) -> Any:
    """A value with its templates filled in; as it is written where that needs what is not known yet, such as facts.

    Raises:
        UnfilledError: it cannot be filled in whatever becomes known.
    """
    if not has_open(value) or not is_plain(value):
        return value
    try:
        found = hosts.filled(node, name)
    except KeyError:
        return value
    except UnfilledError as error:
        if not error.later:
            raise
        return value
    return value if has_open(found) else found


def check_offline(variables: Mapping[str, Any]) -> list[Refusal]:
    """Nodes without the internet need a registry for every image."""
    if not truth(variables.get("gpusmith_offline")) or variables.get("gpusmith_image_registry"):
        return []
    return [
        Refusal(
            "'gpusmith_offline' is set, but 'gpusmith_image_registry' is not: images would be pulled from the internet.",
            "Name the registry that mirrors them.",
        )
    ]
