"""How fast the free GPUs of a node are, and whether that is what healthy ones of their model are (data/baselines.yml)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from gpusmith.checks.findings import Finding
from gpusmith.data import baselines
from gpusmith.data.baselines import Limit, OfModel
from gpusmith.expect.wanted import all_models
from gpusmith.probe.nvml import THROTTLE_REASONS
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted
from gpusmith.workloads import jobs
from gpusmith.workloads.cuda import devices
from gpusmith.workloads.judge import Expected, Judged, Result, program_on_gpus, together
from gpusmith.workloads.load import STEP as UNDER_LOAD
from gpusmith.workloads.outcome import not_applicable
from gpusmith.workloads.pods import Pods
from gpusmith.workloads.register import ALL, workload

CHECK = "workloads.performance"
WHAT = {
    "memory_gb_s": ("memory", "GB/s"),
    "gemm_tflops": ("products of matrices", "TFLOP/s"),
    "h2d_gb_s": ("copies from the host", "GB/s"),
    "d2h_gb_s": ("copies to the host", "GB/s"),
}
"""The values of a GPU in words, and their units."""
COPIES = ("h2d_gb_s", "d2h_gb_s")
STEPS = {
    "memory_gb_s": "Look at nodes.ecc, nodes.row-remap and nodes.xid; a GPU whose memory stays slow is a matter for its vendor.",
    "gemm_tflops": UNDER_LOAD,
    **dict.fromkeys(
        COPIES,
        "Look at nodes.pcie-width, at AER messages in 'journalctl -k', and at the BIOS's settings of IOMMU, NUMA and PCIe power."
        " If such machines are not meant to copy faster, record them: '--record-baseline'.",
    ),
}
NO_ROW = "neither data/baselines.yml nor 'validation_baselines' has a row for it: no baseline"

Rows = Mapping[str, OfModel]
"""By product name."""


@workload(
    CHECK,
    place=55,
    proves="memory, tensor cores and copies between host and GPU are as fast as those of healthy GPUs of the model",
    fails_when=(
        "a rate of a free GPU is below the band of data/baselines.yml, its PCIe link runs at a lower generation under load than"
        " GPU and slot can do, or a result is wrong; a model without a row is measured only; 'validation_performance: false'"
        " leaves this check out"
    ),
    do="read the rates in the evidence; compare with other nodes, and look at memory errors, clocks and the PCIe link",
    title="performance of {gpus} GPUs",
    gpus=ALL,
    image="pytorch",
    after=["workloads.pytorch", "workloads.tensorflow"],
)
def run(pods: Pods) -> Judged | Finding:
    """A Job with all free GPUs, which it measures one after another."""
    host = pods.node.host
    if not host.validation.performance:
        return not_applicable(CHECK, host, "the inventory says 'validation_performance: false'")
    if host.simulated:
        return not_applicable(CHECK, host, "its GPUs are simulated, so that nothing was measured")
    if pods.node.layout.shared:
        return not_applicable(CHECK, host, f"pods get {pods.node.layout.things}, so that no rate is a GPU's")
    logs = pods.run_with_all(pods.task("performance", jobs.program("run_performance.py")))
    rows = rows_of(host)
    judged = together([judge(pods.node.expected, log, pods.gpus // len(logs), rows) for log in logs])
    pods.notes.extend(judged.evidence.get("notes", ()))
    unknown = sorted(
        {str(row["name"]) for row in judged.evidence.get("devices", ()) if row["name"] not in rows}
    )
    if unknown and not judged.problems:
        return not_applicable(CHECK, host, f"{', '.join(unknown)}: {NO_ROW}", judged.evidence)
    return judged


def rows_of(host: NodeWanted) -> Rows:
    """Baselines by the names that NVML and CUDA give the models, with those of the inventory."""
    table = baselines.of_file()
    rows = {
        name: table.models[key]
        for key, model in all_models(host).items()
        if key in table.models
        for name in (model.name, *model.also_named)
    }
    recorded = host.validation.baselines
    return {**rows, **{name: table.known(own, rows.get(name)) for name, own in recorded.items()}}


def judge(expected: Expected, log: str, wanted: int, rows: Rows) -> Judged:
    """Every GPU that was given is measured, and as fast as its model; what is slower than usual is noted.

    Args:
        expected: of the node.
        log: what the program printed.
        wanted: how many GPUs it was given.
        rows: baselines.
    """
    judged = program_on_gpus(expected, "the performance program", log, wanted, devices)
    if judged.problems:
        return judged
    problems: list[Problem] = []
    notes: list[str] = []
    for row in judged.evidence["devices"]:
        problems += _link(expected.node, row)
        for name, limit in limits_of(row, rows).items():
            for said, fails in _shortfall(row, name, limit):
                if fails:
                    problems.append(Problem(f"Node '{expected.node}': {said}.", STEPS[name]))
                else:
                    notes.append(said)
    evidence = {**judged.evidence, **({"notes": notes} if notes else {})}
    return replace(judged, evidence=evidence, problems=problems)


def limits_of(row: Result, rows: Rows) -> dict[str, Limit]:
    """What the values of a GPU are compared with: nothing, where the model has no row."""
    baseline = rows.get(str(row.get("name")))
    if baseline is None:
        return {}
    link = baselines.of_file().link(row.get("pcie_gen"), row.get("pcie_width"))
    return {**(dict.fromkeys(COPIES, link) if link else {}), **baseline.limits}


def _shortfall(row: Result, name: str, limit: Limit) -> Iterator[tuple[str, bool]]:
    """What a value lacks, in words, and whether that is a failure."""
    value = float(row[name])
    if value >= limit.usual:
        return
    what, unit = WHAT[name]
    said = (
        f"{row['uuid']}: {what} at {value:g} {unit}, {value / limit.peak:.0%} of {limit.what} {limit.peak:g}"
    )
    if value >= limit.floor:
        yield f"{said}; {limit.usual:.4g} and more are usual", False
        return
    why_not = excuse(row, name, recorded=limit.recorded)
    yield f"{said}; {limit.floor:.4g} must be{_clocks(row, name)}{why_not}", not why_not


def excuse(row: Result, name: str, *, recorded: bool) -> str:
    """Why a slow GPU is none of the hardware's fault; empty if nothing says so."""
    limit, default = row.get("power_limit_mw"), row.get("power_limit_default_mw")
    if name == "gemm_tflops" and limit and default and limit < default:
        return f"; its power limit is set to {limit // 1000} W of {default // 1000} W"
    if name in COPIES and not row.get("near"):
        return "; the pod could not run on CPUs near the GPU"
    if name in COPIES and not recorded:
        # Healthy machines differ more than sick GPUs do: Azure's own A100 nodes copy to the host at 6.3 GB/s.
        return "; a site that records its own rates fails below them"
    return ""


def _clocks(row: Result, name: str) -> str:
    if name != "gemm_tflops" or not row.get("sm_clock_mhz"):
        return ""
    bits = row.get("reasons") or 0
    why = ", ".join(text for bit, text in THROTTLE_REASONS.items() if bits & bit)
    return f" (it ran at {row['sm_clock_mhz']} MHz{f': {why}' if why else ''})"


def _link(node: str, row: Result) -> list[Problem]:
    now, most = row.get("pcie_gen"), row.get("pcie_gen_max")
    if not now or not most or now >= most:
        return []
    cause = f"Node '{node}': the PCIe link of {row['uuid']} runs at generation {now} under load, GPU and slot can do {most}."
    return [Problem(cause, STEPS["h2d_gb_s"])]
