"""What a run saw besides its findings: coverage of GPUs, why nodes were left out, and what stamps depend on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpusmith.checks.findings import Outcome
from gpusmith.cluster.views import NodeView
from gpusmith.names import LAYOUT_LABEL
from gpusmith.report.coverage import GpuCoverage, gpu_coverage
from gpusmith.suite.sources import Sources
from gpusmith.wanted.layouts import WHOLE
from gpusmith.wording import shorten


def coverage(sources: Sources) -> dict[str, GpuCoverage]:
    """GPUs per node; who was not tested, for which reason. Asks nobody."""
    found = {}
    for name, host in sources.inventory.hosts.items():
        outcome, view = sources.outcomes_so_far.get(name), sources.view_so_far(name)
        # As of the moment when its GPUs were counted: other users took and freed some after the first lists.
        view = outcome.view if outcome and outcome.view else view
        tested = outcome.tested if outcome else ()
        found[name] = gpu_coverage(
            host.gpu_count,
            tested,
            _busy(view, host.gpu_count, len(tested)) if view else {},
            _why_not(sources, name),
            outcome.kept_back if outcome else False,
            view.layout if view else WHOLE,
        )
    return found


def _busy(view: NodeView, gpus: int, tested: int) -> Mapping[str, int]:
    """GPUs per holder. Which GPU a part is of, the API does not tell: all parts of so many may be held, but of those tested."""
    held, shares = view.busy(view.offers(gpus)), view.layout.shares
    if shares == 1:
        return held
    full = min(gpus - tested, sum(held.values()) // shares)
    spaces = shorten(sorted({holder.namespace for holder in view.holders}))
    return {f"pods with {view.layout.part}s, of namespace {spaces}": full} if full > 0 else {}


def _why_not(sources: Sources, host: str) -> str:
    """Why GPUs of a node that nobody holds were not tested."""
    outcome = sources.outcomes_so_far.get(host)
    if outcome is None:
        return (
            "the workloads were ended before they were done"
            if sources.workloads_began
            else "the workloads tier did not run"
        )
    if outcome.reason:
        return outcome.reason
    cuda = outcome.findings.get("workloads.cuda")
    return cuda.cause if cuda and cuda.outcome is not Outcome.PASSED else "not allocatable when the run began"


def node_reasons(sources: Sources) -> dict[str, str]:
    """Why nodes were not tested at all."""
    return {
        **{name: outcome.reason for name, outcome in sources.outcomes_so_far.items() if outcome.reason},
        **{
            name: row.problem
            for name, row in sources.probed_so_far.items()
            if row.record is None and not row.not_asked
        },
    }


def user_lands(sources: Sources) -> dict[str, str]:
    """What user lands are, where they are not their distribution's, as the nodes say."""
    return {
        name: row.record.host.user_land
        for name, row in sources.probed_so_far.items()
        if row.record and row.record.host.user_land
    }


PLACES = re.compile(
    rf"topology\.|node\.kubernetes\.io/instance-type$|nvidia\.com/gpu\.clique$|{re.escape(LAYOUT_LABEL)}$"
)
"""Labels of Nodes that tell where a machine is, what kind of machine, or how it hands its GPUs out."""


def traits(sources: Sources) -> dict[str, list[str]]:
    """Per node what it may share with others, as a person says it; asks nobody."""
    return {name: _traits(sources, name) for name in sources.inventory.hosts}


def _traits(sources: Sources, name: str) -> list[str]:
    host, probed, view = (
        sources.inventory.hosts[name],
        sources.probed_so_far.get(name),
        sources.view_so_far(name),
    )
    record = probed.record if probed else None
    seen = {
        "model": host.gpu_model
        or ", ".join(sorted({gpu.name for gpu in record.nvml.gpus if gpu.name} if record else ())),
        "driver": record.module.loaded_version if record else None,
        "kernel": record.host.kernel if record else None,
    }
    labels = {key: value for key, value in (view.labels if view else {}).items() if PLACES.match(key)}
    return [
        *(f"{kind} {value}" for kind, value in seen.items() if value),
        *(f"group {group}" for group in sources.inventory.groups_of(name)),
        *(f"label {key}={value}" for key, value in {**labels, **host.kubernetes.labels}.items()),
    ]


def facts(sources: Sources) -> dict[str, Mapping[str, Any]]:
    """Per node that answered what a stamp depends on, and what the inventory asked for as its driver."""
    return {
        name: {
            "node": row.record.kubernetes.node_name,
            "boot_id": row.record.host.boot_id,
            "kernel": row.record.host.kernel,
            "driver": row.record.module.loaded_version,
            "driver_asked": sources.inventory.hosts[name].driver.version,
            "containerd": row.record.containerd.version,
            "gpus": [gpu.uuid for gpu in row.record.nvml.gpus],
        }
        for name, row in sources.probed_so_far.items()
        if row.record is not None
    }
