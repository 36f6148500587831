"""Checks of the nodes tier on which GPUs there are: their number, model, partitions and likeness to others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial

from gpusmith.checks import devices
from gpusmith.checks.evidence import count_evidence
from gpusmith.checks.findings import CannotAsk, NotApplicable
from gpusmith.checks.register import check
from gpusmith.data.models import Model
from gpusmith.data.operands import DEVICE_PLUGIN
from gpusmith.expect import gpus, mig, mps, versions
from gpusmith.expect.wanted import all_models
from gpusmith.node.facts import RESET_STEP, Fleet, NodeFacts, need_answers
from gpusmith.probe.nvml import Gpu
from gpusmith.probe.record import Record
from gpusmith.problems import Problem
from gpusmith.wanted.node import NodeWanted


def _usual_addresses(facts: NodeFacts) -> set[str]:
    """PCI addresses that all other nodes of the model with the right number of GPUs agree on."""
    others = [
        frozenset(gpu.address for gpu in row.pci.gpus)
        for name, row in facts.fleet.items()
        if name != facts.host.name and len(row.pci.gpus) == facts.host.gpu_count
    ]
    return set(others[0]) if others and len(set(others)) == 1 else set()


def _count_differences(facts: NodeFacts) -> list[str]:
    """The GPUs that are not on PCI, in NVML and in /dev alike."""
    record, wanted = facts.record, facts.host.gpu_count
    known = {gpu.pci for gpu in record.nvml.gpus if gpu.pci}
    drivers = {gpu.address: gpu.driver for gpu in record.pci.gpus}
    named: list[str] = []
    if record.nvml_usable:
        for address in sorted(drivers.keys() - known):
            bound = drivers[address]
            taken = f" and has driver '{bound}'" if bound not in (None, "nvidia") else ""
            named.append(f"the GPU at PCI {address} is unknown to NVML{taken}")
    for gpu in record.nvml.gpus:
        if gpu.pci is not None and gpu.pci not in drivers:
            named.append(f"{gpu.label} is not on the PCI bus")
        if gpu.minor is not None and gpu.minor not in record.dev.gpu_minors:
            named.append(f"{gpu.label} has no device node /dev/nvidia{gpu.minor}")
    unknown = sorted(set(record.dev.gpu_minors) - {gpu.minor for gpu in record.nvml.gpus})
    if record.nvml_usable and unknown:
        named.extend(f"/dev/nvidia{minor} belongs to no GPU that NVML knows" for minor in unknown)
    if len(drivers) < wanted:
        named.append(
            f"{wanted - len(drivers)} of {wanted} GPUs are missing on the PCI bus"
            f" (present: {', '.join(sorted(drivers)) or 'none'})"
        )
        named.extend(
            f"none at PCI {address}, where others of its model have one"
            for address in sorted(_usual_addresses(facts) - drivers.keys())
        )
    if not record.nvml_usable:
        named.append(f"NVML does not start: {record.nvml.error}")
    return named


def _identity_problems(facts: NodeFacts) -> list[Problem]:
    """Every UUID once, on this node and among all nodes."""
    node = facts.host.name
    own = Counter(gpu.uuid for gpu in facts.record.nvml.gpus if gpu.uuid)
    problems = [
        Problem(
            f"Node '{node}': {uuid} is the UUID of {count} GPUs.",
            f"Compare 'nvidia-smi -L' with 'lspci -d 10de:' on '{node}'; reload the driver or reboot.",
            {"uuid": uuid, "count": count},
        )
        for uuid, count in own.items()
        if count > 1
    ]
    everyone = Fleet.of(facts.fleet)
    also = dict.fromkeys(name for uuid in own for name in everyone.with_uuid(uuid) if name != node)
    problems += [
        Problem(
            f"Node '{node}': its GPUs are also those of node '{name}': both names lead to one machine.",
            f"Correct 'ansible_host' of '{node}' or '{name}' in the inventory.",
            {
                "shared_with": name,
                "uuids": sorted(own.keys() & {gpu.uuid for gpu in everyone[name].nvml.gpus}),
            },
        )
        for name in also
    ]
    return problems


@check(
    "nodes.gpu-count",
    place=60,
    proves=(
        "GPUs on PCI = in NVML = in /dev = in the inventory; each GPU is a distinct one, and each device node leads to"
        " its GPU"
    ),
    fails_when="a number differs, a GPU is missing in one place, a UUID appears twice, or a device node leads elsewhere",
    do="look at 'lspci -d 10de:' and the kernel's log; a board that PCI does not show is a matter for the vendor",
    critical=True,
    evidence=count_evidence,
    explained_by=("nodes.nvml",),
)
def gpu_count(facts: NodeFacts) -> list[Problem]:
    """PCI = NVML = /dev = inventory, by number and one by one."""
    record, node, wanted = facts.record, facts.host.name, facts.host.gpu_count
    counts = {
        "inventory": wanted,
        "pci": len(record.pci.gpus),
        "nvml": len(record.nvml.gpus),
        "dev": len(record.dev.gpu_minors),
    }
    others = [*_identity_problems(facts), *devices.device_nodes(facts)]
    # A GPU that does not answer tells neither address nor minor; nodes.nvml names it.
    answer = not any(gpu.error for gpu in record.nvml.gpus)
    named = _count_differences(facts)
    if len(set(counts.values())) == 1 and not (answer and named):
        return others
    seen = f"{counts['pci']} on PCI, {counts['nvml']} in NVML, {counts['dev']} in /dev, {wanted} in the inventory"
    if record.pci.left_out:
        seen += f", and {len(record.pci.left_out)} left out by 'gpusmith_gpus_ignored'"
    evidence = {
        **counts,
        "pci_addresses": sorted(gpu.address for gpu in record.pci.gpus),
        "minors": list(record.dev.gpu_minors),
        "uuids": [gpu.uuid for gpu in record.nvml.gpus],
    }
    differ = Problem(
        f"Node '{node}': GPUs differ: {seen}; {'; '.join(named) or 'none of them can be named'}.",
        f"Look at 'lspci -d 10de:' and 'journalctl -k -g NVRM' on '{node}';"
        " a board that PCI does not show is a matter for the machine's vendor, 'nvidia-modprobe -c MINOR' makes a device node.",
        evidence,
    )
    return [differ, *others]


def _memory_mib(model: Model, gpu: Gpu) -> int:
    """Memory that a GPU of the model has in its present ECC mode."""
    if model.memory_holds_ecc and gpu.ecc_mode == "disabled":
        return model.memory_mib * 16 // 15
    return model.memory_mib


MODEL_STEP = "Correct 'gpusmith_gpu_model' in the inventory, or ask who changed the board."


def _contradictions(facts: NodeFacts, rows: Mapping[str, Model], declared: Model | None) -> list[Problem]:
    """GPUs that are another model than the inventory says; a name that is no row is for GPUs that are none."""
    node, name = facts.host.name, facts.host.gpu_model
    if not name:
        return []
    expected = (
        f"'{name}' has {declared.pci_device_id}" if declared else f"the inventory's '{name}' is no row of it"
    )
    found = []
    for gpu in facts.record.pci.gpus:
        row = rows.get(gpu.device_id.lower())
        if row != declared:
            of = f" ('{row.key}')" if row and not declared else ""
            found.append(
                Problem(
                    f"Node '{node}': {facts.record.gpu_at(gpu.address)} has PCI id {gpu.device_id}{of}, {expected}.",
                    MODEL_STEP,
                    {"pci": gpu.address, "device_id": gpu.device_id},
                )
            )
    return found


def _differences(node: str, gpu: Gpu, model: Model) -> list[Problem]:
    """Name and memory that are not the model's."""
    problems = []
    if gpu.name is not None and gpu.name not in (model.name, *model.also_named):
        problems.append(
            Problem(
                f"Node '{node}': {gpu.label} is a '{gpu.name}', the inventory says '{model.name}'.",
                MODEL_STEP,
                {"gpu": gpu.index, "name": gpu.name},
            )
        )
    expected_mib = _memory_mib(model, gpu)
    # Drivers differ by some MiB in what they reserve.
    if gpu.memory_mib is not None and abs(gpu.memory_mib - expected_mib) > expected_mib * 0.02:
        problems.append(
            Problem(
                f"Node '{node}': {gpu.label} has {gpu.memory_mib} MiB of memory, model '{model.key}' has {expected_mib}"
                f"{' without ECC' if expected_mib != model.memory_mib else ''}.",
                RESET_STEP,
                {"gpu": gpu.index, "memory_mib": gpu.memory_mib},
            )
        )
    return problems


@check(
    "nodes.gpu-model",
    place=70,
    proves="PCI ID, name and memory of every GPU match the model",
    fails_when="a GPU is of another model than the inventory says, or its memory differs by over 2 %",
    do="correct 'gpusmith_gpu_model', or ask who changed the board",
)
def gpu_model(facts: NodeFacts) -> list[Problem]:
    """PCI id, name and memory are the model's; where the inventory names none, those of the row that each GPU is."""
    record, node = facts.record, facts.host.name
    if not record.pci.gpus and not record.nvml.gpus:
        raise CannotAsk(f"Node '{node}' shows no GPU; see nodes.gpu-count.")
    models = all_models(facts.host)
    declared = models.get(facts.host.gpu_model)
    rows = {model.pci_device_id: model for model in models.values()}
    by_address = {gpu.address: rows.get(gpu.device_id.lower()) for gpu in record.pci.gpus}
    problems, unknown = _contradictions(facts, rows, declared), []
    for gpu in record.nvml.gpus:
        row = by_address.get(gpu.pci or "")
        # One PCI id is that of several products, of which not all are rows.
        if row is not None and gpu.name not in (None, row.name, *row.also_named):
            row = None
        baseline = declared or row
        if baseline is not None:
            problems += _differences(node, gpu, baseline)
        else:
            unknown.append(f"{gpu.label} ({gpu.name or 'no name'})")
    if problems:
        return problems
    need_answers(facts)
    if unknown:
        rest = len(record.nvml.gpus) - len(unknown)
        raise NotApplicable(
            f"Node '{node}': not applicable to {', '.join(unknown)}: {gpus.NO_ROW}"
            f"{f'; nothing is wrong with the other {rest}' if rest else ''}; {gpus.ADD_ONE}."
        )
    return []


@check(
    "nodes.gpu-layout",
    place=75,
    proves=(
        "every GPU is divided by MIG as the node's layout says: mode, exactly its instances at exactly their places, each with a"
        f" MIG device; and '{mig.FILE}' says the same, so that a boot brings it back. Whole GPUs: no MIG mode and no file"
    ),
    fails_when="a GPU or the file says otherwise, or a GPU does not tell",
    do="divide the GPUs anew with playbooks/change_layout.yml",
    evidence=lambda facts: {
        "layout": facts.host.layout.name,
        "mig": {gpu.label: gpu.mig_mode for gpu in facts.record.nvml.gpus},
        "instances": {
            gpu.label: [asdict(row) for row in gpu.instances]
            for gpu in facts.record.nvml.gpus
            if gpu.instances
        },
    },
    managed_only=True,
)
def gpu_layout(facts: NodeFacts) -> list[Problem]:
    """NVML and the file that boots go by say what the node's layout asks for."""
    problems = mig.problems(facts.record, mig.wanted(facts.host, facts.host.layout))
    if not problems:
        need_answers(facts)
    return problems


@check(
    "nodes.mps",
    place=76,
    proves=(
        "where the layout shares GPUs by MPS, its control daemon runs, and every GPU is in the compute mode in which MPS alone"
        " computes on it (EXCLUSIVE_PROCESS); elsewhere all are in mode DEFAULT, so that nothing of MPS is left"
    ),
    fails_when="no control daemon runs, a GPU is in another compute mode, or does not tell it",
    do="look at the pod of the control daemon; set a mode that was left to DEFAULT, with the command that the finding has",
    evidence=lambda facts: {
        "layout": facts.host.layout.name,
        "compute_modes": {gpu.label: gpu.compute_mode for gpu in facts.record.nvml.gpus},
        "control_daemons": list(facts.record.mps.controls) if facts.record.mps else None,
    },
    managed_only=True,
)
def gpu_mps(facts: NodeFacts) -> list[Problem]:
    """Compute modes and the control daemon are as the node's layout asks for."""
    if DEVICE_PLUGIN not in facts.host.operands.ours:
        raise NotApplicable(
            f"Node '{facts.host.name}': its device plugin is somebody else's, and so may MPS be."
        )
    problems = mps.problems(facts.record, facts.host)
    if not problems:
        need_answers(facts)
        silent = [
            gpu.label
            for gpu in facts.record.nvml.gpus
            if gpu.compute_mode is None and "compute_mode" not in gpu.unsupported
        ]
        if silent:
            raise CannotAsk(f"Node '{facts.host.name}': {', '.join(silent)} does not tell its compute mode.")
        if facts.host.layout.mps and facts.record.mps is None:
            raise CannotAsk(f"Node '{facts.host.name}': whether MPS's control daemon runs is not known.")
    return problems


@dataclass(frozen=True)
class Aspect:
    """What nodes of a model have in common.

    Attributes:
        seen: reads it from a record.
        wanted: what the inventory says of it; only nodes of which it says the same are compared.
        free: whether what the inventory says lets nodes differ.
    """

    seen: Callable[[Record], object]
    wanted: Callable[[NodeWanted], object] = lambda _: None
    free: Callable[[NodeWanted], bool] = lambda _: False


ASPECTS: Mapping[str, Aspect] = {
    # Nodes that serve keep their version of a branch when others get a newer one.
    "loaded driver": Aspect(
        lambda row: row.module.loaded_version,
        lambda host: host.driver.version,
        lambda host: versions.is_open(host.driver.version),
    ),
    "module flavour": Aspect(
        lambda row: row.module.flavour, lambda host: (host.driver.module_flavour, host.driver.version)
    ),
    "kernel": Aspect(lambda row: row.host.kernel),
    "containerd": Aspect(lambda row: row.containerd.version, lambda host: host.containerd.version),
    "GPU names": Aspect(lambda row: tuple(sorted({gpu.name for gpu in row.nvml.gpus if gpu.name}))),
    "number of NVSwitches": Aspect(lambda row: str(len(row.pci.nvswitches))),
    "number of PCIe lanes": Aspect(
        lambda row: tuple(sorted({gpu.pcie_width_max for gpu in row.nvml.gpus if gpu.pcie_width_max}))
    ),
    "MIG modes": Aspect(
        lambda row: tuple(sorted({gpu.mig_mode for gpu in row.nvml.gpus if gpu.mig_mode})),
        lambda host: host.layout.profile,
    ),
}


def _kind(facts: NodeFacts) -> str:
    return f"model '{facts.host.gpu_model}'" if facts.host.gpu_model else "its GPUs"


def _seen(facts: NodeFacts, aspect: Aspect, wanted: object) -> Counter[object]:
    """What nodes show of which the inventory wants the same; what is not there at all is another check's matter."""
    return Counter(
        value
        for node, row in facts.fleet.items()
        if aspect.wanted(facts.hosts.get(node, facts.host)) == wanted
        and (value := aspect.seen(row)) not in (None, 0, ())
    )


@check(
    "nodes.uniformity",
    place=210,
    proves="the node does not differ from the others of its model",
    fails_when=(
        "driver, kernel, containerd, switches, lanes or names differ from those of most nodes for which the inventory"
        " wants the same"
    ),
    do="bring the nodes to one state with site.yml, or put them into groups of their own",
    explained_by=(
        "nodes.driver-versions",
        "nodes.gpu-model",
        "nodes.gpu-layout",
        "nodes.pcie-width",
        "nodes.containerd-version",
    ),
)
def uniformity(facts: NodeFacts) -> list[Problem]:
    """Most nodes of a model set the norm; one that differs is named, unless the inventory wants it so (a canary)."""
    if len(facts.fleet) < 2:
        raise NotApplicable(f"Node '{facts.host.name}' is the only one of {_kind(facts)} in this run.")
    problems = []
    for name, aspect in ASPECTS.items():
        if aspect.free(facts.host):
            continue
        wanted = aspect.wanted(facts.host)
        values = Fleet.of(facts.fleet).once((name, wanted), partial(_seen, facts, aspect, wanted))
        own = aspect.seen(facts.record)
        if own not in values:
            continue
        usual, count = values.most_common(1)[0]
        # Two nodes that differ have no majority; then both are named, since nobody can tell which is right.
        if own != usual or (len(values) > 1 and count * 2 <= values.total()):
            other = usual if own != usual else next(value for value in values if value != own)
            problems.append(
                Problem(
                    f"Node '{facts.host.name}': {name} is {own!r}, on others of {_kind(facts)} {other!r}.",
                    "Bring the nodes to one state, or say in the inventory that they differ.",
                    {name: {"own": repr(own), "other": repr(other)}},
                )
            )
    return problems
