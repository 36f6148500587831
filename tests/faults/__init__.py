"""Ways in which a node can be broken, as changes of a healthy record: which check fails, what it says, and what cures it."""

from __future__ import annotations

from tests.faults import cdi, containerd, driver, fabric, gpus, health, host, packages, services
from tests.faults.fault import Fault

FAULTS: dict[str, Fault] = {
    **cdi.FAULTS,
    **containerd.FAULTS,
    **driver.FAULTS,
    **fabric.FAULTS,
    **gpus.FAULTS,
    **health.FAULTS,
    **host.FAULTS,
    **packages.FAULTS,
    **services.FAULTS,
}
