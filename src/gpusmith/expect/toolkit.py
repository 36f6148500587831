"""The container toolkit: runtime 'nvidia', CDI specification, links of device nodes, and the unit that makes them at boot."""

from __future__ import annotations

from collections.abc import Sequence

from gpusmith.expect import cdi, containerd, devices, files, packages, services
from gpusmith.expect.wanted import DEVICES, Toolkit
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

CURED_BY_UNIT = frozenset({Cure.CDI, Cure.LINKS, Cure.SERVICES})
"""What starting the role's unit cures."""


def specification(record: Record, wanted: Toolkit, found: Sequence[Problem]) -> list[str]:
    """Path of the specification, if the role's unit makes it anew, or for the first time at that place."""
    unit = any(path.endswith(f"/{DEVICES}.service") for path in files.outdated(record, wanted.files))
    there = wanted.cdi.spec in {spec.path for spec in record.cdi.specs}
    anew = any(problem.cure is Cure.CDI for problem in found)
    return [wanted.cdi.spec] if anew or (unit and not there) else []


def problems(record: Record, wanted: Toolkit) -> list[Problem]:
    """What role nvidia_container_toolkit answers for."""
    return [
        *packages.problems(record, wanted.packages),
        *files.problems(record, wanted.node, wanted.files),
        *files.problems(record, wanted.node, wanted.runtime_files, Cure.CONTAINERD),
        *containerd.configuration(record, wanted.runtime),
        *cdi.problems(record, wanted.cdi),
        *devices.char_links(record, wanted.node),
        *services.devices(record, wanted.node),
    ]
