"""How slow a simulated machine is: large GPU servers take minutes to boot, to load the driver and to bring their fabric up."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from gpulab.state import write_atomically
from gpusmith.errors import InputError, ToolError

LONGEST_S = 3600.0


@dataclass(frozen=True)
class Delays:
    """What a machine takes longer than it would have to, in seconds.

    Attributes:
        boot: before the operating system starts.
        module_load: before the driver's module is there.
        fabric: from the start of the fabric manager to a working NVSwitch fabric. Never at once, as in life.
    """

    boot: float = 0.0
    module_load: float = 0.0
    fabric: float = 1.0

    def __str__(self) -> str:
        return f"boot {self.boot:g} s, module load {self.module_load:g} s, NVSwitch fabric {self.fabric:g} s longer"

    def changed(self, wanted: dict[str, float | None]) -> Delays:
        """The same with other values, None meaning: as before.

        Raises:
            InputError: a value is no sensible number of seconds.
        """
        given = {name: value for name, value in wanted.items() if value is not None}
        for name, value in given.items():
            if not 0 <= value <= LONGEST_S:
                raise InputError(
                    f"'--{name.replace('_', '-')} {value:g}' is no delay.",
                    f"Choose 0 to {LONGEST_S:g} seconds.",
                )
        return replace(self, **given)


def _file(folder: Path) -> Path:
    return folder / "delays.json"


def read(folder: Path) -> Delays:
    """The delays of the machine whose simulated hardware is in a folder; none is written there before a machine is made.

    Raises:
        ToolError: the file is damaged.
    """
    path = _file(folder)
    try:
        found = json.loads(path.read_text())
        return Delays(**{field.name: float(found[field.name]) for field in fields(Delays)})
    except FileNotFoundError:
        return Delays()
    except (ValueError, KeyError, TypeError) as error:
        raise ToolError(f"The delays in '{path}' cannot be read: {error}.", "Delete that file.") from error


def write(folder: Path, delays: Delays) -> None:
    """Tell the simulated kernel; each counts from the next boot, load of the module or start of the fabric manager."""
    write_atomically(_file(folder), json.dumps(asdict(delays), indent=1) + "\n")
