"""What the NVLink fabric of a board needs of the machine that no role can bring."""

from __future__ import annotations

from collections.abc import Iterator

from gpusmith.errors import Refusal
from gpusmith.expect import fabric
from gpusmith.expect import wanted as wants
from gpusmith.node.records import load
from gpusmith.preflight.machine import boots_next
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal
from gpusmith.probe.host import Host
from gpusmith.probe.kernels import FABRIC, Kernel
from gpusmith.probe.pci import Pci
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.wording import quoted


def check_fabric(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """Where a subnet manager manages the switches: something to manage them by, and modules of the kernel for it."""
    raw = facts["record"]
    record = Record(SCHEMA, host=load(Host, raw["host"]), pci=load(Pci, raw["pci"] or {}))
    driver = wants.driver_of(wanted.node, models=tables.rows(wanted.node))
    if not fabric.by_subnet(record, driver):
        return
    if not record.pci.switch_managers:
        yield refusal(
            "NVLink switches",
            "no network function manages them, as 'SW_MNG' in its vital product data would say",
            "one at least, on a whole board",
            "Look for it with 'lspci -vv -d 15b3:'. Where the host of a virtual machine manages them, set"
            " 'nvidia_driver_fabric_manager: disabled'.",
        )
    kernels = (load(Kernel, row) for row in raw.get("kernels") or ())
    lacking = {kernel.release: [name for name in FABRIC if name in kernel.lacking] for kernel in kernels}
    running = str(record.host.kernel)
    for release in dict.fromkeys((running, boots_next(facts))):
        if names := lacking.get(release, FABRIC):
            yield refusal(
                "kernel modules",
                f"kernel '{release}' has no {quoted(names)}, through which the fabric manager reaches the NVLink switches",
                f"{quoted(FABRIC)} as files, or as parts of the kernel",
                "Install the package of that kernel which brings them, on Ubuntu 'linux-modules-extra-RELEASE'"
                + ("." if release == running else "; it boots next."),
            )
