"""CDI specifications of NVIDIA's GPUs."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import glob
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusmith.probe.files import read_text

CDI_KIND = "nvidia.com/gpu"
# What the device plugin gives pods: its own specification, with GPUs by UUID.
PLUGIN_CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
# containerd's own and the toolkit's; what a later folder has wins.
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")


@dataclass(frozen=True)
class CdiNode:
    """A device node that a CDI device gives to containers.

    Attributes:
        path: in the container.
        host_path: what it is made of; None if the specification names none.
        numbers: MAJOR:MINOR if the specification gives them.
    """

    path: str
    host_path: str | None = None
    numbers: str | None = None

    @property
    def source(self) -> str:
        """Path on the host."""
        return self.host_path or self.path


@dataclass(frozen=True)
class CdiDevice:
    """A device with its GPU nodes."""

    name: str
    nodes: tuple[CdiNode, ...] = ()


@dataclass(frozen=True)
class CdiSpec:
    """A specification.

    Attributes:
        priority: of its folder; the highest one wins.
        driver_version: by the names of the libraries in it.
        problem: why it cannot be read; None if it can.
        devices: all, also those that it has twice.
    """

    path: str
    priority: int
    driver_version: str | None = None
    problem: str | None = None
    devices: tuple[CdiDevice, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all its devices, also those that it has twice."""
        return tuple(device.name for device in self.devices)

    @property
    def nodes(self) -> Mapping[str, tuple[CdiNode, ...]]:
        """GPU nodes by the device's name."""
        return {device.name: device.nodes for device in self.devices}


@dataclass(frozen=True)
class Cdi:
    """What containerd and the device plugin read.

    Attributes:
        specs: of kind nvidia.com/gpu, in the order of their folders.
        plugin_specs: the device plugin's own.
        devices: full names of all devices.
        driver_version: of the specification that wins.
    """

    specs: tuple[CdiSpec, ...] = ()
    plugin_specs: tuple[CdiSpec, ...] = ()
    devices: tuple[str, ...] = ()
    driver_version: str | None = None


def _cdi_tree(text: str) -> Any:
    """Kind and devices of a specification; its other parts are not looked at.

    Raises:
        ValueError: it cannot be read.
    """
    if text.lstrip().startswith("{"):
        return json.loads(text)
    kept, inside = [], False
    for line in text.splitlines():
        if re.match(r"^[\w\"']", line):
            inside = re.match(r"^[\"']?(kind|devices)[\"']?:", line) is not None
        elif line.startswith("---"):
            inside = False
        # Empty lines keep the numbers right.
        kept.append(line if inside else "")
    return read_yaml("\n".join(kept))


def read_yaml(text: str) -> Any:
    """Mappings, lists and texts of a YAML document; numbers stay text, since a device may be called 0 or 1:0.

    Raises:
        ValueError: it cannot be read.
    """
    # Only these parts of PyYAML travel: a node compiles them for every probe.
    from yaml.error import MarkedYAMLError, YAMLError

    try:
        return _document(text)
    except MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}" if error.problem_mark else "a line"
        raise ValueError(f"{line} is not understood: {error.problem}") from error
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def _document(text: str) -> Any:
    from yaml import events
    from yaml.parser import Parser
    from yaml.reader import Reader
    from yaml.scanner import Scanner

    class Events(Reader, Scanner, Parser):
        def __init__(self) -> None:
            Reader.__init__(self, text)
            Scanner.__init__(self)
            Parser.__init__(self)

    source: Any = Events()

    def build(event: Any) -> Any:
        if isinstance(event, events.ScalarEvent):
            return None if event.implicit[0] and event.value in ("", "~", "null") else event.value
        if isinstance(event, events.SequenceStartEvent):
            rows = []
            while not source.check_event(events.SequenceEndEvent):
                rows.append(build(source.get_event()))
            source.get_event()
            return rows
        if isinstance(event, events.MappingStartEvent):
            found = {}
            while not source.check_event(events.MappingEndEvent):
                key = str(build(source.get_event()))
                found[key] = build(source.get_event())
            source.get_event()
            return found
        raise ValueError(f"line {event.start_mark.line + 1} is not understood: a reference to another part")

    while not source.check_event(events.DocumentStartEvent, events.StreamEndEvent):
        source.get_event()
    if source.check_event(events.StreamEndEvent):
        return None
    source.get_event()
    tree = build(source.get_event())
    while not source.check_event(events.StreamEndEvent):
        source.get_event()  # what follows may be wrong
    return tree


def _device(device: Mapping[str, Any]) -> CdiDevice:
    """Name and GPU nodes of a device."""
    nodes = []
    for node in (device.get("containerEdits") or {}).get("deviceNodes") or []:
        paths = [str(node.get(key) or "") for key in ("path", "hostPath")]
        if any(re.search(r"/dev/nvidia\d+$", path) for path in paths):
            given = node.get("major") or node.get("minor")
            numbers = f"{node.get('major')}:{node.get('minor') or 0}" if given else None
            nodes.append(CdiNode(path=paths[0], host_path=paths[1] or None, numbers=numbers))
    return CdiDevice(name=str(device["name"]), nodes=tuple(nodes))


def read_cdi(path: str, priority: int, text: str, kind: str = CDI_KIND) -> CdiSpec | None:
    """A CDI specification of NVIDIA's GPUs, with the reason if it cannot be read; None for one of something else."""
    if not re.search(rf"kind[\"']?\s*:\s*[\"']?{re.escape(kind)}[\"'\s,}}]", text + "\n"):
        return None
    version = re.search(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)", text)
    devices: tuple[CdiDevice, ...] = ()
    problem = None
    try:
        tree = _cdi_tree(text)
        if tree.get("kind") != kind:
            return None
        devices = tuple([_device(device) for device in tree.get("devices") or []])
    except ValueError as error:
        problem = str(error)
    except (KeyError, TypeError, AttributeError):
        problem = "its devices are no list of devices with names"
    return CdiSpec(
        path=path,
        priority=priority,
        driver_version=version.group(1) if version else None,
        problem=problem,
        devices=devices,
    )


def gather(folders: Sequence[str] = CDI_FOLDERS) -> Cdi:
    """Specifications in the order of their folders, whose later ones win. CDI reads these two endings only."""
    texts = [
        (path, priority, read_text(path) or "")
        for priority, folder in enumerate(folders)
        for path in sorted(glob.glob(folder + "/*.yaml") + glob.glob(folder + "/*.json"))
    ]
    specs = [spec for row in texts if (spec := read_cdi(*row)) is not None]
    plugin_specs = [spec for row in texts if (spec := read_cdi(*row, PLUGIN_CDI_KIND)) is not None]
    names = dict.fromkeys(name for spec in specs for name in spec.names)
    versions = [spec.driver_version for spec in specs if spec.driver_version]
    return Cdi(
        specs=tuple(specs),
        plugin_specs=tuple(plugin_specs),
        devices=tuple(f"{CDI_KIND}={name}" for name in names),
        driver_version=versions[-1] if versions else None,
    )
