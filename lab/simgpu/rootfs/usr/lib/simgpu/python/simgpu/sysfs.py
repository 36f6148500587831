"""What /sys/module shows."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from simgpu import paths
from simgpu.files import link, write
from simgpu.modules import BYTES, DEPENDS
from simgpu.procfs import module_options
from simgpu.state import State


def show_modules(state: State, counts: Mapping[str, int]) -> None:
    """Write /sys/module of the simulated modules."""
    for name in BYTES:
        folder = paths.MODULES / name
        if name not in state.modules:
            shutil.rmtree(folder, ignore_errors=True)
            continue
        (folder / "holders").mkdir(parents=True, exist_ok=True)
        write(folder / "version", state.values["version"] + "\n")
        write(folder / "refcnt", f"{counts[name]}\n")
        write(folder / "initstate", "live\n")
        write(folder / "srcversion", "51D1A1A1A1A1A1A1A1A1A1A\n")
        write(folder / "taint", "OE\n" if state.values["flavour"] == "open" else "POE\n")
        for other in BYTES:
            holder = folder / "holders" / other
            if other in state.modules and name in DEPENDS[other]:
                link(holder, f"../../{other}")
            else:
                holder.unlink(missing_ok=True)
        for key, value in module_options(state, name).items():
            write(folder / "parameters" / key, f"{value}\n")
