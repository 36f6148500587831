"""What a run would do, and whom it would leave out: --dry-run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpusmith.checks.register import CLUSTER, catalog
from gpusmith.report.causes import named_targets
from gpusmith.suite.run import Suite
from gpusmith.workloads.register import in_order
from gpusmith.workloads.targets import why_not


def lines(suite: Suite, planned: Sequence[tuple[str, str]]) -> Iterator[str]:
    """In words, after a look at the cluster.

    Args:
        suite: the run.
        planned: checks that were selected, with their targets.

    Raises:
        GpusmithError: the cluster cannot be asked.
    """
    nodes = list(suite.inventory.hosts)
    yield "Nothing is made, changed or reported: --dry-run."
    for tier in suite.tiers:
        checks = list(dict.fromkeys(name for name, _ in planned if catalog()[name].tier == tier))
        if checks:
            what = f"{len(checks)} checks of {CLUSTER} and {named_targets(nodes)}"
            yield f"Tier {tier}: {what}"
            if tier == "nodes" and suite.inventory.by_pods:
                yield f"  by a privileged pod on each node, in namespace '{suite.inventory.within}'"
    if not any(catalog()[name].tier == "workloads" for name, _ in planned):
        return
    steps, together = in_order()
    titles = [row.title.format(gpus="all free") for step in steps for row in step]
    run, targets = suite.sources.targets(recorded=False)
    limit = f", {run.gpu_budget} GPUs at the same time at most" if run.gpu_budget else ""
    yield f"In namespace '{run.namespace}'{limit}: {', '.join([*titles, *(row.title for row in together)])}"
    found: dict[str, list[str]] = {}
    for target in targets:
        why = why_not(target)
        if why is not None:
            said = f"not on NODES: {why.reason.removeprefix('Not tested: ').replace(repr(target.host.name), 'NODE')}"
        else:
            assert target.view is not None
            free, gpus = sum(map(target.view.free, target.offers)), target.host.gpu_count
            layout = target.view.layout
            of = f"{gpus * layout.shares} {layout.part}s of {gpus} GPUs" if layout.shared else f"{gpus} GPUs"
            said = f"{free} of {of} on NODES"
        found.setdefault(said, []).append(target.host.name)
    for said, names in found.items():
        text = said.replace("NODES", named_targets(names))
        yield f"  {text.replace('NODE', repr(names[0]) if len(names) == 1 else 'NODE')}"
