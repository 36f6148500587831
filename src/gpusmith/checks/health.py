"""Checks of the nodes tier on the health of each GPU: memory, slowdowns, PCIe, who uses it."""

from __future__ import annotations

from dataclasses import asdict

from gpusmith.checks import gpu_values
from gpusmith.checks.evidence import desktops_evidence
from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.expect import holders
from gpusmith.node.facts import RESET_STEP, NodeFacts
from gpusmith.probe.nvml import Gpu
from gpusmith.problems import Problem

SLOWDOWNS = {
    "hw_slowdown": "the hardware slows it down (heat or power)",
    "hw_thermal_slowdown": "it is too hot",
    "sw_thermal_slowdown": "the driver slows it down because it is too hot",
    "hw_power_brake_slowdown": "the machine's power supply asks for less load",
}


def _of_model(facts: NodeFacts, feature: str) -> str:
    """Why NVML must know a feature of the inventory's model; empty for a model that nobody knows."""
    return f"GPUs of model '{facts.model.key}' have {feature}" if facts.model is not None else ""


@check(
    "nodes.ecc",
    place=100,
    proves="ECC is on, and there was no uncorrectable memory error since the driver was loaded",
    fails_when="ECC is off and 'validation_ecc_required' is not false, there are such errors, or they cannot be counted",
    do="drain the node, switch ECC on, then reset the GPU or reboot; if errors come back, replace the board",
)
def ecc(facts: NodeFacts) -> list[Problem]:
    """ECC is on, and found no uncorrectable memory error since the driver was loaded."""
    node = facts.host.name
    off = [gpu for gpu in facts.record.nvml.gpus if gpu.ecc_mode == "disabled" and not gpu.error]
    if off and not facts.host.validation.ecc_required:
        names = ", ".join(gpu.label for gpu in off)
        accepted = f"ECC is switched off on {names}, which the inventory accepts (validation_ecc_required)"
    else:
        accepted = ""
    problems = [
        Problem(
            f"Node '{node}': ECC is switched off on {gpu.label}, so errors of its memory stay unseen.",
            f"Drain '{node}', switch it on with 'nvidia-smi -i {gpu.index} -e 1', then reset the GPU or reboot;"
            " where it is off on purpose, set 'validation_ecc_required: false'.",
            {"gpu": gpu.index, "uuid": gpu.uuid, "ecc_mode": gpu.ecc_mode},
        )
        for gpu in off
        if not accepted
    ]
    # Every model of data/gpus.yml has ECC. What is switched off has no count, which is said once.
    values = gpu_values.sort(
        facts,
        ("ecc_mode", "ecc_uncorrected"),
        "the count of uncorrectable memory errors",
        _of_model(facts, "ECC"),
        off,
    )
    judged = values.judged(
        [
            *problems,
            *(
                Problem(
                    f"Node '{node}': {gpu.label} has {gpu.ecc_uncorrected} uncorrectable ECC memory errors"
                    " since the driver was loaded.",
                    RESET_STEP,
                    {"gpu": gpu.index, "uuid": gpu.uuid, "ecc_uncorrected": gpu.ecc_uncorrected},
                )
                for gpu in values.known
                if gpu.ecc_uncorrected
            ),
        ]
    )
    if accepted and not judged:
        raise NotApplicable(f"Node '{node}': not applicable: {accepted}.")
    return judged


MAX_RETIRED_PAGES = 63
"""NVIDIA's diagnostics fail a board with so many or more (DCGM, dcgm_gpu_hardware_limits.h: DCGM_LIMIT_MAX_RETIRED_PAGES)."""


def _row_problem(node: str, gpu: Gpu) -> Problem | None:
    evidence = {
        "gpu": gpu.index,
        "uuid": gpu.uuid,
        "remap_pending": gpu.remap_pending,
        "remap_failed": gpu.remap_failed,
    }
    if gpu.remap_failed:
        return Problem(
            f"Node '{node}': {gpu.label} could not remap a bad memory row.", "Replace the board.", evidence
        )
    if gpu.remap_pending:
        return Problem(
            f"Node '{node}': {gpu.label} has a memory row that waits to be remapped.", RESET_STEP, evidence
        )
    return None


def _page_problem(node: str, gpu: Gpu) -> Problem | None:
    evidence = {
        "gpu": gpu.index,
        "uuid": gpu.uuid,
        "retired_pages": gpu.retired_pages,
        "retirement_pending": gpu.retirement_pending,
    }
    if (gpu.retired_pages or 0) >= MAX_RETIRED_PAGES:
        return Problem(
            f"Node '{node}': {gpu.label} has retired {gpu.retired_pages} pages of bad memory, as many as it can.",
            "Replace the board.",
            evidence,
        )
    if gpu.retirement_pending:
        return Problem(
            f"Node '{node}': {gpu.label} has a page of bad memory that waits to be retired.",
            RESET_STEP,
            evidence,
        )
    return None


def _retires_pages(facts: NodeFacts) -> bool:
    """Whether the GPUs retire pages; GPUs before Ampere do that in place of remapping rows."""
    if facts.model is not None:
        return not facts.model.row_remapping
    gpus = facts.record.nvml.gpus
    return bool(gpus) and all(
        "row_remap" in gpu.unsupported and "retired_pages" not in gpu.unsupported for gpu in gpus
    )


@check(
    "nodes.row-remap",
    place=110,
    proves="no bad memory row waits for remapping or failed it; before Ampere, no page waits for retirement or lacks room for it",
    fails_when=(
        "a row or page waits, a row could not be remapped, no page can be retired any more, or the model does not report"
        " it"
    ),
    do="drain the node and reset the GPU or reboot; replace a board that could not remap, or has no page left to retire",
)
def row_remap(facts: NodeFacts) -> list[Problem]:
    """Bad memory is remapped or retired, and the GPU has room to remap or retire more."""
    gpus = facts.record.nvml.gpus
    if _retires_pages(facts):
        # Without ECC, NVML has no list of retired pages; nodes.ecc reports that ECC is off.
        missing = (
            "" if any(gpu.ecc_mode == "disabled" for gpu in gpus) else _of_model(facts, "page retirement")
        )
        values = gpu_values.sort(facts, ("retired_pages",), "the list of retired memory pages", missing)
        found = [_page_problem(facts.host.name, gpu) for gpu in values.known]
    else:
        # With MIG instances NVML does not say (documentation of nvmlDeviceGetRemappedRows).
        partitioned = any(gpu.mig_mode == "enabled" for gpu in gpus)
        missing = _of_model(facts, "row remapping") if facts.model is not None and not partitioned else ""
        values = gpu_values.sort(facts, ("row_remap",), "the state of row remapping", missing)
        found = [_row_problem(facts.host.name, gpu) for gpu in values.known]
    return values.judged([problem for problem in found if problem is not None])


@check(
    "nodes.throttle",
    place=130,
    proves="no GPU is slowed down by heat, hardware or power",
    fails_when="NVML names such a reason for a GPU, or cannot be asked; a power cap does not count",
    do="look at 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER', at the cooling and the power supply",
)
def throttle(facts: NodeFacts) -> list[Problem]:
    """No slowdown by heat, hardware or power."""
    values = gpu_values.sort(facts, ("throttle_reasons",), "the reasons for slowdowns")
    problems = []
    for gpu in values.known:
        reasons = [reason for reason in gpu.throttle_reasons or () if reason in SLOWDOWNS]
        if reasons:
            why = " and ".join(SLOWDOWNS[reason] for reason in reasons)
            problems.append(
                Problem(
                    f"Node '{facts.host.name}': {gpu.label} is throttled ({', '.join(reasons)}): {why}.",
                    "Look at 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER' and at the machine's cooling and power supply.",
                    {
                        "gpu": gpu.index,
                        "uuid": gpu.uuid,
                        "throttle_reasons": list(gpu.throttle_reasons or ()),
                    },
                )
            )
    return values.judged(problems)


@check(
    "nodes.pcie-width",
    place=140,
    proves="every GPU has all PCIe lanes that its model has",
    fails_when="a GPU runs on fewer lanes than its model has, or than 'validation_pcie_width' says",
    do="reseat the board or riser; look for AER messages in the kernel's log; for narrower slots, set 'validation_pcie_width'",
)
def pcie_width(facts: NodeFacts) -> list[Problem]:
    """All lanes; the generation is left alone, it falls when a GPU is idle."""
    values = gpu_values.sort(facts, ("pcie_width", "pcie_width_max"), "the number of PCIe lanes")
    found, of_model = [], facts.model.pcie_width if facts.model is not None else None
    for gpu in values.known:
        lanes, slot = gpu.pcie_width or 0, gpu.pcie_width_max or 0
        # NVML's maximum is that of GPU and slot together: lanes that a riser lost are missing in it as well.
        wanted = facts.host.validation.pcie_width or of_model or slot
        if lanes >= wanted:
            continue
        why = f"{facts.host.validation.pcie_width} are wanted ('validation_pcie_width')"
        if not facts.host.validation.pcie_width:
            why = (
                f"model '{facts.model.key}' has {wanted}"
                if facts.model is not None and of_model
                else f"it can use {wanted}"
            )
        narrow = f"; more than {slot} its slot does not offer" if lanes == slot else ""
        found.append(
            Problem(
                f"Node '{facts.host.name}': {gpu.label} runs on {lanes} PCIe lanes, {why}{narrow}.",
                "Reseat the board or riser; look for AER messages in 'journalctl -k'"
                + (
                    "; if the machine's slots are meant to have fewer lanes, say so with 'validation_pcie_width'."
                    if narrow and not facts.host.validation.pcie_width
                    else "."
                ),
                {"gpu": gpu.index, "uuid": gpu.uuid, "pcie_width": lanes, "pcie_width_max": slot},
            )
        )
    problems = values.judged(found)
    if not problems and not facts.host.validation.pcie_width and not of_model:
        raise NotApplicable(
            f"Node '{facts.host.name}': how many lanes its GPUs have says no row of data/gpus.yml: no baseline; each runs on all"
            " that GPU and slot share. With 'validation_pcie_width' it is compared."
        )
    return problems


@check(
    "nodes.processes",
    place=150,
    proves="no process outside of Kubernetes pods computes on a GPU or has its device open",
    fails_when=(
        "a process that is in no pod computes on a GPU or has its '/dev/nvidiaN' open, or the processes cannot be read; of those"
        " that have it open, NVIDIA's daemons, units of 'gpu_upgrade_stop_units' and what began seconds ago do not count,"
        " and desktops are only named"
    ),
    do=(
        "find the owner of the process, and end it or take the node out of Kubernetes; name the unit of a monitor in"
        " 'gpu_upgrade_stop_units'"
    ),
    evidence=desktops_evidence,
)
def processes(facts: NodeFacts) -> list[Problem]:
    """Who computes on a GPU without Kubernetes takes it from the job that gets it."""
    node, record = facts.host.name, facts.record
    values = gpu_values.sort(facts, ("processes",), "the list of processes")
    problems, computing = [], set()
    for gpu in values.known:
        strange = [row for row in gpu.processes or () if not row.pod]
        computing |= {row.pid for row in strange}
        if strange:
            names = ", ".join(f"'{row.name or 'unknown'}' (PID {row.pid})" for row in strange)
            problems.append(
                Problem(
                    f"Node '{node}': {gpu.label} is used outside of Kubernetes by {names}.",
                    _ask_whose(node, *(row.pid for row in strange)),
                    {f"processes_gpu_{gpu.index}": [{"pid": row.pid, "name": row.name} for row in strange]},
                )
            )
    # NVML lists who computes; who only has a device open can begin at any time.
    spare = {gpu.minor for gpu in record.nvml.left_out}
    for holder in holders.strangers(record, facts.host.upgrade.stop_units):
        if holder.pid not in computing and not spare.issuperset(holder.minors):
            indexes = ", ".join(str(gpu.index) for gpu in record.nvml.gpus if gpu.minor in holder.minors)
            problems.append(
                Problem(
                    f"Node '{node}': GPU {indexes} is open outside of Kubernetes, since {holders.since(holder)}:"
                    f" {holder.words}.",
                    f"{_ask_whose(node, holder.pid)} Name the unit of a monitor in 'gpu_upgrade_stop_units'.",
                    {f"process_{holder.pid}": asdict(holder)},
                )
            )
    found = values.judged(problems)
    if not found and record.holders is None:
        raise CannotAsk(f"Node '{node}': who has a GPU open is not known: {'; '.join(record.errors)}.")
    return found


def _ask_whose(node: str, *pids: int) -> str:
    numbers = ",".join(map(str, pids))
    return f"Ask whose they are: 'ps -fp {numbers}' on '{node}'; end them or take the node out of Kubernetes."
