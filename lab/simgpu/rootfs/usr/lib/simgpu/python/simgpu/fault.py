"""What a fault is, and the registry of all faults.

Each fault is one class in a module of ``faults/`` that has the fault's name; a module that is added there is found.
"""

from __future__ import annotations

import errno
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from simgpu import faults, faults_file
from simgpu.errors import RefusedError
from simgpu.faults_file import Row
from simgpu.hardware import Machine
from simgpu.kernel_log import ERROR, klog
from simgpu.state import State


class Code(NamedTuple):
    """The number that a fault is given.

    Attributes:
        allowed: which numbers make sense.
        example: one of them.
    """

    allowed: range
    example: int


class Target(NamedTuple):
    """Where a fault is put in or taken away.

    Attributes:
        machine: the hardware.
        state: the live state, which is written afterwards.
        row: what the record keeps of the fault.
    """

    machine: Machine
    state: State
    row: Row

    @property
    def live(self) -> dict[str, str] | None:
        """The fault's GPU in the live state; None if the driver does not drive it."""
        return self.state.gpu(self.row.get("pci") or "")

    @property
    def driven(self) -> dict[str, str]:
        """The same, for faults that need ``driven_gpu``."""
        live = self.live
        if live is None:
            text = f"the driver does not drive GPU {self.row['pci']} now: load the driver first"
            raise RefusedError(errno.ENODEV, text)
        return live

    def report(self, code: int, detail: str) -> None:
        """The driver reports an Xid of the fault's GPU."""
        self.state.xid(self.driven, code)
        bus = self.driven["pci"].rsplit(".", 1)[0]
        klog(f"NVRM: Xid (PCI:{bus}): {code}, {detail}", ERROR)


Need = Callable[[Target], object]
"""Refuses a machine that does not have what a fault needs."""


def loaded_driver(at: Target) -> None:
    """The driver is loaded."""
    if not at.state.values.get("version"):
        raise RefusedError(errno.ENODEV, "no driver is loaded: there is nothing to differ from")


def driven_gpu(at: Target) -> None:
    """The driver drives the fault's GPU."""
    assert at.driven


def fabric_manager(at: Target) -> None:
    """The model has NVSwitches with a fabric manager."""
    if not at.machine["fabric_manager"]:
        model = at.machine["model"]
        raise RefusedError(errno.EINVAL, f"the model '{model}' has no NVSwitch, so no fabric manager")


class Fault(ABC):
    """One way in which a machine breaks.

    Attributes:
        name: as people write it; the module's name with '-' for '_'.
        help: what it is, for help texts.
        on_gpu: it is one of a GPU (option --gpu), not of the whole machine.
        code: it is given a number.
        needs: what the machine must have.
        repeatable: it can be put in again while it is in.
        cured_by_reboot: as in life.
        blinds_monitors: whoever watches GPUs has to begin anew after it was healed.
        returns_devices: healing it brings devices back, which a boot of the node would find.
        load_refusal: why the driver cannot be loaded while it is in.
    """

    name: str
    help: str
    on_gpu: bool = False
    code: Code | None = None
    needs: Sequence[Need] = ()
    repeatable: bool = False
    cured_by_reboot: bool = False
    blinds_monitors: bool = True
    returns_devices: bool = False
    load_refusal: str = ""

    @abstractmethod
    def inject(self, at: Target) -> None:
        """Change the live state and files; keep in ``at.row`` what healing needs. Who refuses changes nothing."""

    @abstractmethod
    def heal(self, at: Target) -> None:
        """Take back what ``inject`` did, unless somebody else did so in the meantime."""

    # These may stay as they are.

    def after_inject(self) -> None:  # noqa: B027
        """What the machine does next, when the fault is recorded and the live state is written."""

    def after_heal(self) -> None:  # noqa: B027
        """What the machine does next, when the fault is forgotten and the live state is written."""

    def show(self, at: Target) -> None:  # noqa: B027
        """Show it in a live state that a boot, or a load of the driver, has just made."""


@cache
def registry() -> dict[str, Fault]:
    """All faults by name."""
    found: dict[str, Fault] = {}
    for path in sorted(path for folder in faults.__path__ for path in Path(folder).glob("*.py")):
        if path.stem != "__init__":
            module = importlib.import_module(f"{faults.__name__}.{path.stem}")
            for item in vars(module).values():
                if isinstance(item, type) and issubclass(item, Fault) and item.__module__ == module.__name__:
                    found[item.name] = item()
    return found


def listing() -> str:
    """All faults for people, one a line."""
    return "\n".join(
        f"  {kind.name:<29}{kind.help}{' (--gpu)' if kind.on_gpu else ''}" for kind in registry().values()
    )


def known(rows: Sequence[Row]) -> list[tuple[Fault, Row]]:
    """Recorded faults with their class; one that another version of the lab put in has none."""
    # The registry costs some imports, and a machine that loads its driver seldom has faults.
    return [(registry()[row["kind"]], row) for row in rows if row["kind"] in registry()] if rows else []


def load_refusal() -> str:
    """Why the driver cannot be loaded now; empty if no fault forbids it."""
    return next((kind.load_refusal for kind, _ in known(faults_file.present()) if kind.load_refusal), "")


def show_all(machine: Machine, state: State) -> None:
    """Show the faults that are in, in a live state that a boot, or a load of the driver, has just made."""
    rows = faults_file.present()
    for kind, row in known(rows):
        kind.show(Target(machine, state, row))
    if rows:
        faults_file.save(rows)


def forget_cured() -> None:
    """A reboot cures what it cures in life."""
    rows = faults_file.present()
    cured = [row for kind, row in known(rows) if kind.cured_by_reboot]
    faults_file.save([row for row in rows if row not in cured])
