"""Who uses the driver: processes that have its devices open or mapped, and modules that use its modules.

Only looks. Processes in containers count as well: a device is known by its number, whatever it is called there.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import os
import pwd
import re
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gpusmith.probe.allocations import pod_uid
from gpusmith.probe.child import Child
from gpusmith.probe.files import read_text, to_int

FAMILY = (
    "nvidia_fs", "gdrdrv", "nvidia_peermem", "nvidia_vgpu_vfio", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia",
)  # fmt: skip
"""What goes with the driver, users first. nvidia_fs takes its symbols at run time, so nvidia does not name it as a user."""
# Names of their devices in /proc/devices, besides those that begin with nvidia.
OTHERS = ("gdrdrv",)
DRM = "drm"
# Of all modules of the driver, the one that others than processes and modules use.
DRM_MODULE = "nvidia_drm"
SCREENS = "/dev/dri/"
# Only such links are looked at closer: a stat of just any open file waits for ever if it lies on a server that is gone.
PLACES = ("/dev/nvidia", "/dev/gdrdrv")
MAPPED = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) \S+ \S+ \S+ \d+ +(/.*)$", re.MULTILINE)
CONTAINER = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
COMMAND_LENGTH = 120
# Whoever asks something, as nvidia-smi and this probe do, goes again.
PASSES_S = 3.0
# Mappings and arguments of a process that hangs in a driver call cannot be read: who tries hangs with it.
TIMEOUT_S = 15.0


@dataclass(frozen=True)
class Holder:
    """A process that uses the driver.

    Attributes:
        command: its program and the first argument; others may be secret.
        devices: what it has open or mapped, as it calls them.
        unit: systemd's, whose processes end when it is stopped; None for a pod's.
        pod_uid: of its pod.
        container: id of its container.
        started_unix: None if it has ended since.
    """

    pid: int
    user: str
    command: str
    devices: tuple[str, ...]
    unit: str | None = None
    pod_uid: str | None = None
    container: str | None = None
    started_unix: float | None = None

    @property
    def minors(self) -> tuple[int, ...]:
        """Of the GPUs whose device nodes it has."""
        return tuple(minor for minor in map(minor_of, self.devices) if minor is not None)

    @property
    def words(self) -> str:
        """How messages name it."""
        place = (
            f"pod {self.pod_uid}" if self.pod_uid
            else f"unit '{self.unit}'" if self.unit
            else f"container {self.container[:12]}" if self.container
            else "no unit"
        )  # fmt: skip
        return f"process {self.pid} '{self.command}' (user '{self.user}', {place}) with {', '.join(self.devices)}"


@dataclass(frozen=True)
class Module:
    """A loaded module of the driver, or one that uses it.

    Attributes:
        references: how often it is in use, by modules and processes; None if the kernel does not say.
        used_by: loaded modules that use it.
    """

    name: str
    references: int | None
    used_by: tuple[str, ...]


@dataclass(frozen=True)
class Usage:
    """Who uses the driver.

    Attributes:
        modules: in the order in which they can be unloaded.
        unreadable: processes that could not be looked at.
        complete: False if a process hangs, so that only open files were looked at.
    """

    holders: tuple[Holder, ...] = ()
    modules: tuple[Module, ...] = ()
    unreadable: tuple[int, ...] = ()
    complete: bool = True

    @property
    def kept(self) -> tuple[str, ...]:
        """Modules that the kernel itself uses, as its console does through nvidia_drm: stopping processes does not free them."""
        screens = any(path.startswith(SCREENS) for holder in self.holders for path in holder.devices)
        return tuple(
            module.name
            for module in self.modules
            if module.name == DRM_MODULE and (module.references or 0) > len(module.used_by) and not screens
        )


class Devices:
    """Tells the driver's devices from others, by number.

    Args:
        text: of /proc/devices.
        sys: the folder /sys.
    """

    def __init__(self, text: str, sys: str) -> None:
        rows = re.findall(r"^ *(\d+) (\S+)$", text.partition("Block devices")[0], re.MULTILINE)
        self._majors = {int(major) for major, name in rows if name.startswith("nvidia") or name in OTHERS}
        self._screens = {int(major) for major, name in rows if name == DRM}
        self._sys = sys

    def __bool__(self) -> bool:
        return bool(self._majors)

    def is_ours(self, path: str) -> bool:
        """Whether an open file or mapping, by its link in /proc, is a device of the driver.

        Raises:
            OSError: it cannot be looked at.
        """
        seen = os.stat(path)
        if not stat.S_ISCHR(seen.st_mode):
            return False
        major, minor = os.major(seen.st_rdev), os.minor(seen.st_rdev)
        if major in self._screens:
            # Also those of a board's own graphics have this number.
            driver = os.path.realpath(f"{self._sys}/dev/char/{major}:{minor}/device/driver")
            return os.path.basename(driver) == "nvidia"
        return major in self._majors


def minor_of(path: str) -> int | None:
    """Of the GPU whose device node a path is; None if it is another file."""
    matched = re.match(r".*/dev/nvidia(\d+)(?: \(deleted\))?$", path)
    return int(matched.group(1)) if matched else None


def is_place(path: str) -> bool:
    """Whether an open file may be a device of the driver, by the path that its process has for it."""
    return path.startswith("/dev/") or any(place in path for place in PLACES)


def opened(folder: str, devices: Devices) -> Iterator[str]:
    """Devices that a process has open.

    Raises:
        OSError: the process has ended, or it cannot be looked at.
    """
    for name in os.listdir(f"{folder}/fd"):
        link = f"{folder}/fd/{name}"
        try:
            path = os.readlink(link)
            if is_place(path) and devices.is_ours(link):
                yield path
        except OSError:  # closed since
            continue


def mapped(folder: str, devices: Devices) -> Iterator[str]:
    """Devices that a process has mapped: a mapping outlives the file's closing.

    Raises:
        OSError: the process has ended, or it cannot be looked at.
    """
    with open(f"{folder}/maps", "rb") as file:
        text = file.read()
    if b"/dev/" not in text:
        return
    known: dict[str, bool] = {}
    for begin, end, raw in MAPPED.findall(text):
        path = os.fsdecode(raw)
        if not is_place(path):
            continue
        if path not in known:
            # The names there have no leading zeros.
            link = f"{folder}/map_files/{int(begin, 16):x}-{int(end, 16):x}"
            try:
                known[path] = devices.is_ours(link)
            except OSError:
                known[path] = any(path.startswith(place) for place in PLACES)
        if known[path]:
            yield path


def unit_of(cgroup: str) -> str | None:
    """The unit of the system's systemd that a process belongs to, by the text of /proc/PID/cgroup."""
    rows = [line.split(":", 2) for line in cgroup.splitlines() if line.count(":") >= 2]
    # With the older cgroups, systemd's own tree; with the unified ones, the only one.
    paths = [row[2] for row in rows if row[1] == "name=systemd"] + [row[2] for row in rows if row[0] == "0"]
    for path in paths:
        for part in path.split("/"):
            if part.endswith((".service", ".scope")):
                return part
    return None


def command_of(folder: str) -> str:
    """Program and first argument of a process; what follows may be secret."""
    words = [word for word in (read_text(f"{folder}/cmdline") or "").split("\0") if word]
    text = " ".join(words[:2]) or read_text(f"{folder}/comm") or "?"
    return text[:COMMAND_LENGTH]


def user_of(folder: str) -> str:
    """Name of the user as whom a process works; the number, where the machine has no name for it."""
    found = re.search(r"^Uid:\s+\d+\s+(\d+)", read_text(f"{folder}/status") or "", re.MULTILINE)
    if not found:
        return "?"
    try:
        return pwd.getpwuid(int(found.group(1))).pw_name
    except (KeyError, OverflowError):
        return found.group(1)


def started_unix(folder: str) -> float | None:
    """When a process started; None if it has ended."""
    # The name before it is in brackets, and may have blanks and brackets.
    words = (read_text(f"{folder}/stat") or "").rpartition(")")[2].split()
    if len(words) < 20:
        return None
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - int(words[19]) / os.sysconf("SC_CLK_TCK")
    return time.time() - age


def describe(folder: str, pid: int, devices: Sequence[str], deep: bool) -> Holder:
    """What is to be known of a process that holds devices; its name alone if not deep."""
    cgroup = read_text(f"{folder}/cgroup") or ""
    pod = pod_uid(cgroup)
    container = CONTAINER.search(cgroup)
    return Holder(
        pid=pid,
        user=user_of(folder),
        command=command_of(folder) if deep else read_text(f"{folder}/comm") or "?",
        devices=tuple(sorted(set(devices))),
        unit=None if pod else unit_of(cgroup),
        pod_uid=pod,
        container=container.group(0) if container else None,
        started_unix=started_unix(folder),
    )


def find_holders(proc: str, devices: Devices, deep: bool = True) -> tuple[list[Holder], list[int]]:
    """The processes that use the driver, and those that cannot be looked at; by open files alone if not deep."""
    holders, unreadable = [], []
    for pid in sorted(int(name) for name in os.listdir(proc) if name.isdigit()):
        folder = f"{proc}/{pid}"
        try:
            found = [*opened(folder, devices), *(mapped(folder, devices) if deep else ())]
        except PermissionError:
            unreadable.append(pid)
            continue
        except OSError:  # it has ended
            continue
        if found:
            holders.append(describe(folder, pid, found, deep))
    return holders, unreadable


def ask(proc: str = "/proc", sys: str = "/sys") -> Child[tuple[Holder, ...]]:
    """Start to look who has a GPU open, and has run for a while.

    By open files alone, which a process that hangs lets everybody read.
    """

    def look() -> tuple[Holder, ...]:
        devices, now = Devices(read_text(f"{proc}/devices") or "", sys), time.time()
        found = find_holders(proc, devices, deep=False)[0] if devices else []
        return tuple(
            holder
            for holder in found
            if holder.minors and holder.started_unix is not None and now - holder.started_unix > PASSES_S
        )

    return Child(look)


def of_gpus(asked: Child[tuple[Holder, ...]], errors: list[str]) -> tuple[Holder, ...] | None:
    """Who has a GPU open; None if that could not be found out in time."""
    found, problem = asked.result(TIMEOUT_S)
    if problem:
        errors.append(f"who has a GPU open: {problem}")
    return found


def loaded_modules(sys: str) -> dict[str, Module]:
    """The driver's loaded modules and all that use them, by name. /sys has what /proc/modules says, in every container too."""
    found: dict[str, Module] = {}
    waiting = list(FAMILY)
    while waiting:
        name = waiting.pop()
        folder = f"{sys}/module/{name}"
        # What is part of the kernel itself has a folder, and no state.
        if name in found or not os.path.exists(f"{folder}/initstate"):
            continue
        try:
            users = tuple(sorted(os.listdir(f"{folder}/holders")))
        except OSError:
            users = ()
        found[name] = Module(name, to_int(read_text(f"{folder}/refcnt")), users)
        waiting += users
    return found


def unload_order(modules: Mapping[str, Module]) -> list[Module]:
    """Modules in an order in which each comes after those that use it."""
    ranks = {name: place for place, name in enumerate(FAMILY)}
    left, ordered = sorted(modules, key=lambda name: ranks.get(name, -1)), []
    while left:
        # Two modules never use each other, so there is always one.
        name = next((one for one in left if not set(modules[one].used_by) & set(left)), left[0])
        left.remove(name)
        ordered.append(modules[name])
    return ordered


def gather(proc: str = "/proc", sys: str = "/sys") -> Usage:
    """Who uses the driver now.

    Args:
        proc: the folder /proc.
        sys: the folder /sys.
    """
    devices = Devices(read_text(f"{proc}/devices") or "", sys)
    modules = tuple(unload_order(loaded_modules(sys)))
    if not devices:  # without the driver nobody has them
        return Usage(modules=modules)
    found, _problem = Child(lambda: find_holders(proc, devices)).result(TIMEOUT_S)
    holders, unreadable = found or find_holders(proc, devices, deep=False)
    return Usage(tuple(holders), modules, tuple(unreadable), complete=found is not None)
