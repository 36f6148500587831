"""The IMEX domain: which nodes the service knows, that it runs with them, and that it is off where the inventory names none.

The service reads its list when it starts, one address a line, and ends where there is none. Instances with different lists
refuse each other until all of them are stopped, so that a list cannot be changed node by node. Where an instance is started
anew, jobs lose the memory that they had imported from its node. The DRA driver starts the daemons of its ComputeDomains itself,
and wants the host's unit off. (docs.nvidia.com/multi-node-nvlink-systems/imex-guide, chapters Config, Deployment and
Connections; AWS PCS User Guide, "Configure UltraServer instances"; kubernetes-sigs/dra-driver-nvidia-gpu,
site/content/docs/prerequisites.md; read 2026-11-25)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gpusmith.expect import services
from gpusmith.expect.files import Files, digest
from gpusmith.expect.wanted import Driver
from gpusmith.inventory.imex import COMPONENT
from gpusmith.probe.managed import IMEX_NODES, IMEX_WRITTEN
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

UNIT = "nvidia-imex"
WHY = "GPUs of other machines cannot share their memory with this one's"
RUNS = ("active", "activating", "reloading")
TOGETHER = (
    f"When no job uses the domain, stop the service on all of its nodes ('systemctl stop {UNIT}'): role nvidia_driver changes"
    " the list only where the service does not run."
)


@dataclass(frozen=True)
class Work:
    """What is to be done on a node.

    Attributes:
        stop: whether the service is stopped first.
        write: files by path.
        remove: paths of files.
        start: whether the service is started, and boots start it.
        disable: whether boots start it no more.
    """

    stop: bool = False
    write: Files = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    start: bool = False
    disable: bool = False

    def as_plan(self) -> dict[str, Any]:
        """As plain data, with `due`: whether there is anything."""
        return {**asdict(self), "due": self != Work()}


def content(nodes: Sequence[str]) -> str:
    """What the service reads."""
    return "".join(f"{node}\n" for node in nodes)


def _runs(record: Record) -> bool:
    unit = record.services.get(UNIT)
    return unit is not None and unit.active in RUNS


def _at_boot(record: Record) -> bool:
    unit = record.services.get(UNIT)
    return unit is not None and unit.enabled in services.STARTED_AT_BOOT


def ours(record: Record) -> bool:
    """Whether a list that is there is the one that we wrote."""
    written = record.managed_files.get(IMEX_WRITTEN)
    return written is not None and record.managed_files.get(IMEX_NODES, written) == written


def _differs(record: Record, wanted: Driver) -> bool:
    """Whether the service reads another list than the inventory has; where that has none, whether it reads ours."""
    if not wanted.imex_nodes:
        return ours(record)
    return record.managed_files.get(IMEX_NODES) != digest(content(wanted.imex_nodes))


def _is_kept(record: Record, wanted: Driver) -> bool:
    """Whether a node that serves keeps its list: its service runs with it, and jobs may use that."""
    return record.kubernetes.joined and _runs(record) and _differs(record, wanted)


def _is_idle(record: Record, wanted: Driver) -> bool:
    """Whether boots start a service that has no list, which a package or a person let them do."""
    lists = {IMEX_NODES, IMEX_WRITTEN} & set(record.managed_files)
    return COMPONENT in wanted.components and not lists and _at_boot(record) and not _runs(record)


def kept(record: Record, wanted: Driver) -> list[Problem]:
    """What a person has to see to on a node that serves."""
    if not _is_kept(record, wanted):
        return []
    nodes = (
        "other nodes than the inventory names"
        if wanted.imex_nodes
        else "nodes that the inventory does not name any more"
    )
    return [
        Problem(
            f"Node '{wanted.node}': service '{UNIT}' runs with {nodes} ('nvidia_driver_imex_nodes').",
            TOGETHER,
            {"imex_nodes": list(wanted.imex_nodes)},
        )
    ]


def work(record: Record, wanted: Driver) -> Work:
    """What role nvidia_driver does about it; nothing on a node that keeps its list."""
    if _is_kept(record, wanted):
        return Work()
    there = record.managed_files
    if not wanted.imex_nodes:
        if ours(record):
            paths = tuple(path for path in (IMEX_NODES, IMEX_WRITTEN) if path in there)
            return Work(stop=_runs(record), remove=paths, disable=_at_boot(record))
        # Somebody else has rewritten the list since: it is his, and so is the service.
        return Work(remove=(IMEX_WRITTEN,) if IMEX_WRITTEN in there else (), disable=_is_idle(record, wanted))
    differs = _differs(record, wanted)
    # The copy comes first: a list without it is another's.
    paths = (IMEX_WRITTEN, IMEX_NODES) if differs else ()
    stop = differs and _runs(record)
    return Work(
        stop=stop,
        write=dict.fromkeys(paths, content(wanted.imex_nodes)),
        start=stop or not (_runs(record) and _at_boot(record)),
    )


def problems(record: Record, wanted: Driver) -> list[Problem]:
    """Every way in which the domain is not as wanted, but what a node that serves keeps."""
    node, to_do = wanted.node, work(record, wanted)
    found = []
    if to_do.write:
        state = "names other nodes" if IMEX_NODES in record.managed_files else "is missing"
        found.append(
            Problem(
                f"Node '{node}': file '{IMEX_NODES}' {state}, the inventory names {len(wanted.imex_nodes)}"
                " ('nvidia_driver_imex_nodes').",
                f"Run site.yml; if it comes back, find out who else writes '{IMEX_NODES}' on '{node}'.",
                {"imex_nodes": list(wanted.imex_nodes)},
                Cure.FILES,
            )
        )
    if to_do.remove:
        left = "their list" if IMEX_NODES in to_do.remove else f"'{IMEX_WRITTEN}', our copy of it,"
        cause = f"Node '{node}': the inventory names no nodes of an IMEX domain any more, and {left} is still there."
        found.append(Problem(cause, "Run site.yml for the node.", {"files": list(to_do.remove)}, Cure.FILES))
    elif to_do.disable:
        cause = f"Node '{node}': boots start service '{UNIT}', and the inventory names no nodes for it."
        found.append(Problem(cause, "Run site.yml for the node.", cure=Cure.SERVICES))
    if wanted.imex_nodes and not _is_kept(record, wanted):
        found += services.service(record, node, UNIT, WHY)
    return found
