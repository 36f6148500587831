"""What a check of a node gets, and what several of them need."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar, cast

from gpusmith.checks.findings import CannotAsk
from gpusmith.data import xids
from gpusmith.data.models import Model
from gpusmith.data.xids import XidTable
from gpusmith.expect.identity import Machine, Machines
from gpusmith.probe.nvml import Gpu
from gpusmith.probe.record import Record
from gpusmith.wanted.node import NodeWanted

T = TypeVar("T")

RESET_STEP = (
    "Drain the node, then reset the GPU ('nvidia-smi --gpu-reset -i INDEX') or reboot;"
    " if it comes back, replace the board."
)


class Fleet(Mapping[str, Record]):
    """Records of many nodes by host, and what is worked out of all of them once, however many checks ask for it.

    Args:
        records: by host.
    """

    def __init__(self, records: Mapping[str, Record]) -> None:
        self._records = records
        self._known: dict[Hashable, object] = {}

    @classmethod
    def of(cls, records: Mapping[str, Record]) -> Fleet:
        """The fleet itself, or one of plain records."""
        return records if isinstance(records, Fleet) else cls(records)

    def __getitem__(self, host: str) -> Record:
        return self._records[host]

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)

    def once(self, what: Hashable, make: Callable[[], T]) -> T:
        """The answer to a question, made by the first who asks it."""
        if what not in self._known:
            self._known[what] = make()
        return cast(T, self._known[what])

    def with_uuid(self, uuid: str) -> Sequence[str]:
        """Hosts that show a GPU with a UUID."""

        def index() -> dict[str, list[str]]:
            found: dict[str, list[str]] = {}
            for host, record in self.items():
                for gpu in record.nvml.gpus:
                    if gpu.uuid:
                        found.setdefault(gpu.uuid, []).append(host)
            return found

        return self.once("uuids", index).get(uuid, ())


@dataclass(frozen=True)
class NodeFacts:
    """What a check of a node gets.

    Attributes:
        host: what the inventory says.
        record: what the probe saw.
        model: the row of the inventory's GPU model, else of what the machine shows; None if its GPUs are no row, or of several.
        fleet: records of all nodes of the run that have the same model, this one included.
        hosts: what the inventory says of the fleet's nodes; of one that is not named, the same as of this one.
        xids: what Xid codes mean.
        everyone: records of all nodes of the run; of the fleet, if they are not given.
    """

    host: NodeWanted
    record: Record
    model: Model | None
    fleet: Mapping[str, Record]
    hosts: Mapping[str, NodeWanted] = field(default_factory=dict)
    xids: XidTable = field(default_factory=xids.load)
    everyone: Mapping[str, Record] = field(default_factory=dict)

    @property
    def machine(self) -> Machine:
        """What the host leads to."""
        return machine_of(self.host, self.record)

    def has_unit(self, name: str) -> bool:
        """Whether a service is to be there: others may run containers and kubelets otherwise."""
        unit = self.record.services.get(name)
        return self.host.managed or (unit is not None and unit.enabled != "not-found")

    @property
    def machines(self) -> Machines:
        """What the hosts of the run lead to."""
        everyone = Fleet.of(self.everyone or self.fleet)
        return everyone.once(
            "machines",
            lambda: Machines(
                machine_of(self.hosts[name], record)
                if name in self.hosts
                else Machine(name, name.lower(), name, record)
                for name, record in everyone.items()
            ),
        )


def machine_of(host: NodeWanted, record: Record) -> Machine:
    """What a host of the inventory leads to."""
    return Machine(host.name, host.node_name, host.address, record)


def need_nvml(facts: NodeFacts) -> tuple[Gpu, ...]:
    """The GPUs that NVML knows.

    Raises:
        CannotAsk: NVML does not start, or knows no GPU.
    """
    node = facts.host.name
    if not facts.record.nvml_usable:
        raise CannotAsk(f"NVML cannot be asked on '{node}': {facts.record.nvml.error}; see nodes.nvml.")
    if not facts.record.nvml.gpus:
        raise CannotAsk(f"NVML knows no GPU on '{node}'; see nodes.gpu-count.")
    return facts.record.nvml.gpus


def need_answers(facts: NodeFacts) -> None:
    """Every GPU answers, for a check whose pass says something of all of them.

    Raises:
        CannotAsk: as of need_nvml(), or a GPU does not answer.
    """
    silent = [gpu.label for gpu in need_nvml(facts) if gpu.error]
    if silent:
        raise CannotAsk(f"Node '{facts.host.name}': {', '.join(silent)} does not answer; see nodes.nvml.")
