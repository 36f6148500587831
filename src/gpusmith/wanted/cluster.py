"""What the inventory wants of the cluster as a whole: one value of all GPU hosts, whichever of them a run works on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gpusmith.errors import Refusal
from gpusmith.inventory.places import path
from gpusmith.inventory.specs import Spec, Specs
from gpusmith.inventory.target import GPU_GROUP, Run
from gpusmith.inventory.templates import UnfilledError, has_open, is_plain
from gpusmith.inventory.values import check, convert
from gpusmith.wording import quoted, shorten

ROLES = ("gpu_operands", "gpu_monitoring", "gpu_tenants", "gpu_pipeline")
"""Roles that make objects of the cluster, for all its nodes at once: every variable of theirs is cluster-wide."""
OF_A_RUN = "_timeout_s"
"""End of names that are not: how long a run waits is no state of the cluster."""
OTHERS = ("gpusmith_image_registry", "gpusmith_image_pull_secrets")
"""What these roles read besides."""
KUBECONFIG = "gpusmith_kubeconfig"
NAME = re.compile(r"[A-Za-z_]\w*")


class Hosts(Protocol):
    """The variables of the inventory's hosts, as Ansible holds them."""

    def written(self, host: str) -> Mapping[str, Any]:
        """All variables of a host, templates as they are written."""

    def filled(self, host: str, name: str) -> Any:
        """One variable with its templates filled in; KeyError if there is none, `UnfilledError` if that cannot be done."""


@dataclass(frozen=True)
class ClusterWanted:
    """What all GPU hosts of a cluster want of it.

    Attributes:
        values: typed, by name of the cluster-wide variable.
    """

    values: Mapping[str, Any]


def variables(specs: Specs) -> dict[str, Spec]:
    """The cluster-wide variables."""
    of_roles = [name for role in ROLES for name in specs.of(role) if not name.endswith(OF_A_RUN)]
    return {name: specs.variables[name] for name in (*of_roles, *OTHERS)}


def of_hosts(hosts: Mapping[str, Mapping[str, Any]], specs: Specs) -> ClusterWanted | list[Refusal]:
    """What all hosts want, or a refusal for each variable about which they disagree.

    Args:
        hosts: variables by name, templates filled in, by host: all GPU hosts of one cluster, at least one.
        specs: the variables that there are.
    """
    names = variables(specs)
    found = [
        Refusal(
            f"'{name}' holds for the whole cluster, and its GPU hosts disagree: {there}.",
            f"Give all hosts of '{GPU_GROUP}' one value, also those that a limit leaves out.",
        )
        for name, there in disagreements(hosts, names)
    ]
    row = next(iter(hosts.values()))
    return found or ClusterWanted({name: _value(spec, name, row) for name, spec in names.items()})


def disagreements(
    hosts: Mapping[str, Mapping[str, Any]], names: Mapping[str, Spec]
) -> Iterator[tuple[str, str]]:
    """Variables of which hosts have several values, each with these values in words; arguments as of `of_hosts`."""
    for name, spec in names.items():
        by_value: dict[str, list[str]] = {}
        for host, row in hosts.items():
            by_value.setdefault(repr(_value(spec, name, row)), []).append(host)
        if len(by_value) > 1 and spec.secret:
            yield name, f"{shorten(list(hosts))} have {len(by_value)} values"
        elif len(by_value) > 1:
            yield name, "; ".join(f"{value} for {shorten(there)}" for value, there in by_value.items())


def refusals(
    run: Run,
    hosts: Hosts,
    specs: Specs,
    *,
    applied: Mapping[str, Any] | None = None,
    of_host: str = "",
    removes: bool = False,
) -> list[Refusal]:
    """Why a run must not change what is cluster-wide: it would for all GPU hosts, also for those that it does not work on.

    Args:
        run: what was started.
        hosts: variables of the inventory's hosts.
        specs: the variables that there are.
        applied: what a role has for the host that it works for, where variables may come from a play as well.
        of_host: that host.
        removes: whether it deletes all of it.
    """
    rows: dict[str, Mapping[str, Any]] = {}
    for host in run.members:
        try:
            row = _row(hosts, host, specs)
        except UnfilledError as error:
            return [Refusal(str(error), "Correct it in the inventory; it must not need facts.")]
        in_play = {**(applied or {}), **row} if host in run.play_hosts else row
        rows[host] = (applied or {}) if host == of_host else in_play
    paths = {_kubeconfig(rows[host]) for host in run.nodes}
    if len(paths) > 1:
        return [
            Refusal(
                f"The GPU hosts of this run name several clusters: '{KUBECONFIG}' is {quoted(sorted(paths))}.",
                "Work on the nodes of one cluster at a time, with -l.",
            )
        ]
    # Who names no cluster is in this one, as far as anybody knows.
    same = {host: row for host, row in rows.items() if _kubeconfig(row) in {"", *paths}}
    outside = [host for host in same if host not in run.play_hosts]
    if removes and outside:
        return [
            Refusal(
                f"GPU hosts that this run leaves out need what would be deleted: {shorten(outside)}.",
                "Run it for all GPU hosts of the cluster.",
            )
        ]
    if found := list(_for_a_part(run, hosts, specs, outside)):
        return found
    wanted = of_hosts(same, specs) if same else []
    return wanted if isinstance(wanted, list) else []


def _for_a_part(run: Run, hosts: Hosts, specs: Specs, outside: Sequence[str]) -> Iterator[Refusal]:
    """Variables of -e that decide what is cluster-wide: they hide what the inventory says of hosts that the limit leaves out."""
    for name in variables(specs) if outside else ():
        given = sorted(
            set(run.extra) & {name}.union(*(_behind(hosts.written(host), name) for host in run.members))
        )
        if given:
            by = "" if given == [name] else f" is decided by {quoted(given)},"
            yield Refusal(
                f"'{name}'{by} holds for the whole cluster and cannot be given with -e for a part of it:"
                f" the limit leaves {shorten(outside)} out.",
                "Put it into the inventory for all GPU hosts, or leave the limit out.",
            )


def _behind(written: Mapping[str, Any], name: str) -> set[str]:
    """Names of variables that decide the value of one by its template, and those behind them."""
    found: set[str] = set()
    left = [name]
    while left:
        value = written.get(left.pop())
        names = set(NAME.findall(str(value))) - found if has_open(value) else set[str]()
        found |= names
        left += names
    return found


def _row(hosts: Hosts, host: str, specs: Specs) -> dict[str, Any]:
    """What the inventory says of a host about the cluster.

    Raises:
        UnfilledError: a template that cannot be filled in before any host is asked.
    """
    written = hosts.written(host)
    return {
        name: _filled(hosts, host, name, written[name])
        for name in (*variables(specs), KUBECONFIG)
        if written.get(name) is not None
    }


def _filled(hosts: Hosts, host: str, name: str, value: Any) -> Any:
    if is_plain(value) and not has_open(value):
        return value
    try:
        found = hosts.filled(host, name)
    except (KeyError, UnfilledError) as error:
        raise UnfilledError(f"Host '{host}': the template of '{name}' cannot be filled in.") from error
    return found


def _value(spec: Spec, name: str, row: Mapping[str, Any]) -> Any:
    """What holds for a host, typed; what is no value of it is for the guard to refuse."""
    value = row.get(name, spec.default)
    return value if check(name, spec, value) else convert(spec, value)


def _kubeconfig(row: Mapping[str, Any]) -> str:
    """The file itself: one of them, called in two ways, is one cluster."""
    given = str(row.get(KUBECONFIG) or "")
    return str(path(given).resolve()) if given else ""
