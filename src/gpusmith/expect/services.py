"""Services: they run, boots start them, and they run by the unit files that are there."""

from __future__ import annotations

import re

from gpusmith.expect.wanted import DEVICES, LOADER
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

STARTED_AT_BOOT = frozenset({"enabled", "enabled-runtime", "static", "alias", "indirect", "generated"})
OURS = {
    LOADER: "nobody loads the driver before the runtime starts",
    DEVICES: "nobody makes device links and CDI specification anew",
}
"""Units of our roles that run once; a node that others set up has none of them."""
FILES_OF_OURS = frozenset(
    {"/etc/modprobe.d/gpusmith-nvidia-driver.conf", "/etc/containerd/conf.d/60-gpusmith-nvidia.toml"}
)
"""Files of the same roles: a node that has one had the units, too, also where somebody deleted them all."""
OF_SYSTEM = {
    "systemd-modules-load": "no kernel modules are loaded",
    "systemd-sysctl": "no kernel parameters are set",
}
"""Units of systemd that boots need."""
DAEMON = re.compile(r"nvidia-persistenced|nvidia-compute-utils-.*")
"""Packages that bring the driver's daemon; Canonical has it in one with others."""
CDI_REFRESH = "nvidia-cdi-refresh"
CDI_REFRESH_FILES = ("/run/cdi/nvidia.yaml", "/var/run/cdi/nvidia.yaml")
"""The toolkit's own unit, and what it makes, which no boot keeps."""
WHY_CONTAINERD = "no container can start"
WHY_PERSISTENCED = "GPUs lose their state when idle"


def service(record: Record, node: str, name: str, why: str, cure: Cure = Cure.SERVICES) -> list[Problem]:
    """A service that runs now, after a reboot, and by the unit files that are there."""
    unit = record.services.get(name)
    active = unit.active if unit else "unknown"
    enabled = unit.enabled if unit else "unknown"
    evidence = {name: {"active": active, "enabled": enabled}}
    if active != "active":
        return [
            Problem(
                f"Node '{node}': service '{name}' is {active or 'unknown'}; {why}.",
                f"Read 'journalctl -u {name}' on '{node}', then 'systemctl start {name}' or site.yml.",
                evidence,
                cure,
            )
        ]
    if enabled not in STARTED_AT_BOOT:
        return [
            Problem(
                f"Node '{node}': service '{name}' runs but is {enabled}, so it will not run after a reboot.",
                f"Run 'systemctl enable {name}' on '{node}' or site.yml.",
                evidence,
                cure,
            )
        ]
    if unit is not None and unit.changed:
        return [
            Problem(
                f"Node '{node}': the unit files of service '{name}' have changed since systemd read them;"
                " its next start uses the new ones.",
                f"Look at 'systemctl cat {name}' on '{node}': take back what is not meant, then 'systemctl daemon-reload'.",
                {name: {**evidence[name], "need_daemon_reload": True}},
            )
        ]
    return []


def containerd(record: Record, node: str) -> list[Problem]:
    """The container runtime's service."""
    return service(record, node, "containerd", WHY_CONTAINERD)


def persistence(record: Record, node: str) -> list[Problem]:
    """The driver's daemon, where it is installed."""
    if not any(DAEMON.fullmatch(name) for name in record.packages):
        return []
    return service(record, node, "nvidia-persistenced", WHY_PERSISTENCED)


def unit_at_boot(record: Record, node: str, name: str, why: str) -> list[Problem]:
    """A unit that must not be kept from running at boot."""
    unit = record.services.get(name)
    gone = unit is not None and name in OURS and ours_are_here(record) and unit.enabled == "not-found"
    if unit is None or not (gone or unit.enabled in ("disabled", "masked")):
        return []
    step = f"Run 'systemctl enable {name}' on '{node}' ('unmask' first, if it is masked) or site.yml."
    return [
        Problem(
            f"Node '{node}': service '{name}' is {unit.enabled}, so that after a reboot {why}.",
            "Run site.yml for the node." if gone else step,
            {name: {"active": unit.active, "enabled": unit.enabled}},
            Cure.SERVICES,
        )
    ]


def ours_are_here(record: Record) -> bool:
    """Whether our roles set the node up."""
    units = (record.services[name] for name in OURS if name in record.services)
    return any(unit.enabled != "not-found" for unit in units) or bool(
        FILES_OF_OURS & record.managed_files.keys()
    )


def loader(record: Record, node: str) -> list[Problem]:
    """The unit that loads the driver."""
    return unit_at_boot(record, node, LOADER, OURS[LOADER])


def devices(record: Record, node: str, managed: bool = True) -> list[Problem]:
    """Who makes links and CDI specification at boot: our unit, if the toolkit is ours, or the toolkit's own."""
    found = unit_at_boot(record, node, DEVICES, OURS[DEVICES]) if managed else []
    ours = record.services.get(DEVICES)
    lost = [spec.path for spec in record.cdi.specs if spec.path in CDI_REFRESH_FILES]
    # Our own unit makes the specification anew as well: with it, the toolkit's may be off.
    if lost and (ours is None or ours.enabled == "not-found"):
        found += unit_at_boot(record, node, CDI_REFRESH, f"nobody makes CDI specification '{lost[0]}' anew")
    return found


def of_system(record: Record, node: str) -> list[Problem]:
    """Units of systemd that a boot needs."""
    return [problem for name, why in OF_SYSTEM.items() for problem in unit_at_boot(record, node, name, why)]
