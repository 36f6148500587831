"""All facts of one GPU node as one JSON record (schema ``gpusmith.probe/1``).

One file, standard library only, Python 3.8 or newer: Ansible's state module imports it, the validation suite
sends it to a node as ``python3 - < probe.py``. It never raises, changes nothing, and reports what it could not
find out as null, with the reason in ``errors``.
"""

# ruff: noqa: PERF203 - one unreadable file must not hide the others

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import calendar
import ctypes
import fnmatch
import glob
import hashlib
import json
import os
import platform
import re
import select
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
from typing import Any, Callable, Dict, Iterable, Mapping, Sequence

SCHEMA = "gpusmith.probe/1"
COMMAND_TIMEOUT_S = 10.0
# Of the driver's messages in the kernel log, the youngest. More than that, and the record says that some were not read.
KERNEL_LOG_LINES = 5000
# Without persistence mode a real driver initialises every GPU at nvmlInit, about a second each.
NVML_TIMEOUT_S = 30.0

PACKAGE_PATTERNS = (
    "nvidia*", "libnvidia*", "libcuda*", "libxnvctrl*", "cuda-*", "firmware-nvidia*", "containerd*", "kube*",
)  # fmt: skip
# What must run, and what our roles, or NVIDIA's packages without them, have run once at every boot.
SERVICES = (
    "containerd", "kubelet", "nvidia-persistenced", "nvidia-fabricmanager", "gpusmith-nvidia-load", "gpusmith-gpu-devices",
    "nvidia-cdi-refresh", "systemd-modules-load", "systemd-sysctl",
)  # fmt: skip
MODULES = ("overlay", "br_netfilter")
SYSCTLS = (
    "net.ipv4.ip_forward", "net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables",
)  # fmt: skip
# What users add to those stands in files of ours: without looking there, nobody could tell that it is right already.
MODULE_FILES = "/etc/modules-load.d/gpusmith-*"
SYSCTL_FILES = "/etc/sysctl.d/*gpusmith-*"
# Where modules-load.d, sysctl.d and modprobe.d are: of files with one name, the first folder's counts.
BOOT_FOLDERS = ("/etc", "/run", "/usr/local/lib", "/usr/lib")
UNIT_FOLDER = "/etc/systemd/system"
# Files that roles write carry our name, so that a role can compare what is there with what it would write.
MANAGED_FILES = (
    "/etc/apt/sources.list.d/gpusmith-*",
    "/etc/apt/preferences.d/gpusmith-*",
    "/etc/apt/apt.conf.d/*gpusmith-*",
    "/etc/containerd/conf.d/*gpusmith*",
    "/etc/kubernetes/kubelet.conf.d/gpusmith-*",
    "/etc/modprobe.d/gpusmith-*",
    # The one file without our name: its program reads no other.
    "/etc/nvidia-container-runtime/config.toml",
    MODULE_FILES,
    SYSCTL_FILES,
    "/etc/systemd/system/gpusmith-*.service",
    "/etc/systemd/system/*.service.d/*gpusmith-*",
)
# Module containerd_config notes there the digest of the configuration that it started containerd with.
CONTAINERD_NOTE = "/run/gpusmith/containerd-started-with"

Record = Dict[str, Any]


# --- small readers -----------------------------------------------------------------------------------------------


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def _int(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _find_program(name: str) -> str | None:
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return shutil.which(name, path=path)


class _Command:
    """A program that runs beside the others; asked for its output later."""

    def __init__(self, *words: str) -> None:
        self.name = " ".join(words[:2])
        self.process: subprocess.Popen[str] | None = None
        self.missing = True
        program = _find_program(words[0])
        if program is None:
            return
        environment = dict(os.environ, LC_ALL="C", TZ="UTC")
        try:
            self.process = subprocess.Popen(
                [program, *words[1:]],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=environment, universal_newlines=True, errors="replace",
            )  # fmt: skip
            self.missing = False
        except OSError:
            return

    def output(self, errors: list[str], accept: Sequence[int] | None = (0,)) -> str | None:
        """Standard output; None if the program is missing, failed or did not end in time."""
        if self.process is None:
            return None
        try:
            text, _unused = self.process.communicate(timeout=COMMAND_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            errors.append(f"'{self.name}' did not end within {COMMAND_TIMEOUT_S:.0f} s")
            return None
        except (OSError, ValueError) as error:
            errors.append(f"'{self.name}' could not be read: {error}")
            return None
        if accept is not None and self.process.returncode not in accept:
            errors.append(f"'{self.name}' ended with status {self.process.returncode}")
            return None
        return text

    def first_line(self) -> str:
        """The first line of standard output, without waiting for the rest; empty if there is none in time."""
        if self.process is None or self.process.stdout is None:
            return ""
        line = ""
        try:
            ready, _unused, _none = select.select([self.process.stdout], [], [], COMMAND_TIMEOUT_S)
            line = self.process.stdout.readline() if ready else ""
            self.process.stdout.close()
            self.process.kill()
            self.process.wait(timeout=COMMAND_TIMEOUT_S)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            pass
        return line.rstrip("\n")


# --- host, PCI, module, devices ----------------------------------------------------------------------------------


def read_os_release(text: str) -> dict[str, str]:
    """The assignments of an os-release file."""
    found = {}
    for line in text.splitlines():
        key, separator, value = line.partition("=")
        if separator:
            found[key.strip()] = value.strip().strip("\"'")
    return found


def _host() -> Record:
    release = read_os_release(_read("/etc/os-release") or "")
    uptime = _read("/proc/uptime")
    return {
        "hostname": socket.gethostname(),
        "boot_id": _read("/proc/sys/kernel/random/boot_id"),
        "kernel": platform.release(),
        "architecture": platform.machine(),
        "os_id": release.get("ID"),
        "os_version": release.get("VERSION_ID"),
        "uptime_s": float(uptime.split()[0]) if uptime else None,
        "time_unix": time.time(),
    }


def _pci() -> Record:
    gpus, switches = [], []
    for folder in sorted(glob.glob("/sys/bus/pci/devices/*")):
        vendor = _read(folder + "/vendor")
        if vendor != "0x10de":
            continue
        device = _read(folder + "/device") or ""
        pci_class = _read(folder + "/class") or ""
        driver = folder + "/driver"
        row = {
            "address": os.path.basename(folder),
            "device_id": "10de:" + device.replace("0x", ""),
            "class": pci_class,
            "driver": os.path.basename(os.path.realpath(driver)) if os.path.exists(driver) else None,
        }
        # Display controllers, VGA (0300) and 3D (0302); an NVSwitch is a bridge of class 0680.
        if pci_class.startswith(("0x0300", "0x0302")):
            gpus.append(row)
        elif pci_class.startswith("0x0680"):
            switches.append(row)
    return {"gpus": gpus, "nvswitches": switches}


def flavour_of_license(text: str | None) -> str | None:
    """Open or proprietary, by the licence that the module file carries."""
    if not text:
        return None
    return "open" if "GPL" in text or "MIT" in text else "proprietary"


def parse_modinfo(text: str) -> tuple[str | None, str | None]:
    """Version and licence of the first module in the output of ``modinfo``."""
    version = licence = None
    for line in text.splitlines():
        key, separator, value = line.partition(":")
        if not separator:
            continue
        if key == "version" and version is None:
            version = value.strip()
        elif key == "license" and licence is None:
            licence = value.strip()
    return version, licence


def _module(modinfo: _Command, errors: list[str]) -> Record:
    # Debian's own packages call the module nvidia-current; modinfo ends with 1 if one of the names is unknown.
    version, licence = parse_modinfo(modinfo.output(errors, accept=None) or "")
    loaded = _read("/sys/module/nvidia/version")
    flavour = flavour_of_license(licence)
    running = _read("/proc/driver/nvidia/version")
    if loaded and running:
        flavour = "open" if "Open Kernel Module" in running else "proprietary"
    return {
        "installed_version": version,
        "loaded_version": loaded,
        "flavour": flavour,
        "refcount": _int(_read("/sys/module/nvidia/refcnt")),
        "firmware": sorted(
            os.path.basename(path) for path in glob.glob(f"/lib/firmware/nvidia/{loaded or version}/gsp*")
        ),
        "nouveau_loaded": os.path.isdir("/sys/module/nouveau"),
    }


KINDS = (
    (stat.S_ISCHR, "char"),
    (stat.S_ISBLK, "block"),
    (stat.S_ISLNK, "link"),
    (stat.S_ISREG, "file"),
    (stat.S_ISDIR, "folder"),
)


def read_device(path: str) -> Record | None:
    """What a path in /dev is; None if there is nothing. A link is not followed."""
    try:
        seen = os.lstat(path)
    except OSError:
        return None
    kind = next((name for is_kind, name in KINDS if is_kind(seen.st_mode)), "other")
    device = kind in ("char", "block")
    return {
        "kind": kind,
        "major": os.major(seen.st_rdev) if device else None,
        "minor": os.minor(seen.st_rdev) if device else None,
        "mode": stat.S_IMODE(seen.st_mode),
        "uid": seen.st_uid,
        "gid": seen.st_gid,
    }


def parse_params(text: str) -> Record:
    """Mode and owner that the driver wants its device nodes to have, of /proc/driver/nvidia/params."""
    rows = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def number(name: str) -> int | None:
        value = (rows.get(name) or "").strip()
        # The driver prints decimals; nobody's mode begins with a zero there.
        octal = name == "DeviceFileMode" and re.match(r"^0[0-7]+$", value)
        return int(value, 8) if octal else _int(value)

    return {
        "file_mode": number("DeviceFileMode"),
        "file_uid": number("DeviceFileUID"),
        "file_gid": number("DeviceFileGID"),
    }


def major_of(name: str, text: str) -> int | None:
    """Major number of a character device in the text of /proc/devices."""
    matched = re.search(
        r"^ *(\d+) {}$".format(re.escape(name)), text.partition("Block devices")[0], re.MULTILINE
    )
    return int(matched.group(1)) if matched else None


def leads_to_its_device(link: str) -> bool:
    """Whether a link such as /dev/char/195:0 leads to a device node of NVIDIA's with the numbers in its name."""
    try:
        target = os.path.realpath(link)
        if not os.path.islink(link) or not re.match(r"^/dev/nvidia[^/]*$", target):
            return False
        device = os.stat(target).st_rdev
    except OSError:
        return False
    return os.path.basename(link) == "{}:{}".format(os.major(device), os.minor(device))


def _dev() -> Record:
    """Device nodes as they are before NVML starts: for root it makes missing ones anew, with nvidia-modprobe."""
    minors = []
    for path in glob.glob("/dev/nvidia[0-9]*"):
        matched = re.match(r"^/dev/nvidia(\d+)$", path)
        if matched:
            minors.append(int(matched.group(1)))
    # Not the hundreds of links to /dev/nvidia-caps, which only MIG needs.
    links = [os.path.basename(link) for link in glob.glob("/dev/char/*") if leads_to_its_device(link)]
    paths = [
        *(f"/dev/nvidia{minor}" for minor in sorted(minors)),
        "/dev/nvidiactl",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
    ]
    nodes = {path: read_device(path) for path in paths}
    return {
        "nodes": {path: node for path, node in nodes.items() if node is not None},
        **parse_params(_read("/proc/driver/nvidia/params") or ""),
        "uvm_major": major_of("nvidia-uvm", _read("/proc/devices") or ""),
        "gpu_minors": sorted(minors),
        "control": os.path.exists("/dev/nvidiactl"),
        "uvm": os.path.exists("/dev/nvidia-uvm"),
        "uvm_tools": os.path.exists("/dev/nvidia-uvm-tools"),
        "char_links": sorted(links),
    }


# --- packages and services ---------------------------------------------------------------------------------------


def parse_dpkg(text: str) -> dict[str, Record]:
    """Installed packages of ``dpkg-query`` with package, version and abbreviated status, divided by tabs."""
    found = {}
    for line in text.splitlines():
        fields = line.split("\t")
        # Second letter 'i': all its files are there. First letter 'h': held.
        if len(fields) == 3 and fields[2][1:2] == "i":
            found[fields[0]] = {"version": fields[1], "held": fields[2].startswith("h")}
    return found


def parse_rpm(text: str, locked: str) -> dict[str, Record]:
    """Installed packages of ``rpm -qa`` with the names that dnf's versionlock list mentions."""
    found = {}
    for line in text.splitlines():
        name, separator, version = line.partition("\t")
        if separator:
            found[name] = {
                "version": version,
                "held": re.search(rf"^(\d+:)?{re.escape(name)}-\d", locked, re.MULTILINE) is not None,
            }
    return found


def _packages(dpkg: _Command, rpm: _Command, errors: list[str]) -> dict[str, Record]:
    if not dpkg.missing:
        # Status 1 only says that one of the patterns matched nothing.
        return parse_dpkg(dpkg.output(errors, accept=(0, 1)) or "")
    return parse_rpm(rpm.output(errors) or "", _read("/etc/dnf/plugins/versionlock.list") or "")


def parse_systemd_time(text: str) -> float | None:
    """Unix time of systemd's own format in UTC, for example 'Sat 2026-11-21 10:11:57 UTC'."""
    try:
        return float(calendar.timegm(time.strptime(text.strip(), "%a %Y-%m-%d %H:%M:%S UTC")))
    except ValueError:
        return None


def parse_services(text: str) -> dict[str, Record]:
    """Units of ``systemctl show``: blocks of KEY=VALUE, divided by empty lines."""
    found = {}
    for block in text.split("\n\n"):
        keys = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = keys.get("Id", "")
        if name.endswith(".service"):
            name = name[: -len(".service")]
        if name:
            active = keys.get("ActiveState", "") == "active"
            found[name] = {
                "active": keys.get("ActiveState", ""),
                "enabled": keys.get("UnitFileState", "") or "not-found",
                "started_unix": parse_systemd_time(keys.get("ActiveEnterTimestamp", "")) if active else None,
                "changed": keys.get("NeedDaemonReload") == "yes",
            }
    return found


def normal_pci(address: str) -> str:
    """A PCI address as sysfs writes it, from NVML's (8-digit domain) or the kernel log's (no function)."""
    parts = address.strip().lower().split(":")
    if len(parts) != 3:
        return address
    return "{}:{}:{}".format(
        parts[0][-4:].rjust(4, "0"),
        parts[1],
        parts[2] if "." in parts[2] else parts[2] + ".0",
    )


def _log_entries(text: str) -> tuple[list[tuple[float, str]], float | None]:
    """Time and message of each line of ``journalctl -o json``, and when the driver was loaded last."""
    entries, loaded = [], None
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            message = entry["MESSAGE"]
            stamp = int(entry.get("__REALTIME_TIMESTAMP", 0)) / 1e6
        except (ValueError, KeyError, TypeError):
            continue
        if not isinstance(message, str):
            continue
        if "NVRM: loading NVIDIA UNIX" in message:
            loaded = max(stamp, loaded or 0.0)
        entries.append((stamp, message))
    return sorted(entries), loaded


def parse_kernel_log(text: str) -> tuple[list[Record], float | None]:
    """Xid messages since the driver was loaded, and when that was, from ``journalctl -o json``.

    What a GPU said before its driver was loaded anew is history: loading initialises every GPU.
    """
    found: list[Record] = []
    entries, loaded = _log_entries(text)
    for stamp, message in entries:
        matched = re.search(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+)", message)
        if matched and stamp >= (loaded or 0.0):
            pci, code = normal_pci(matched.group(1)), int(matched.group(2))
            found.append({"time_unix": stamp, "pci": pci, "code": code, "message": message})
    return found, loaded


def parse_switch_log(text: str) -> list[Record]:
    """SXid messages, the NVSwitches' own, since the driver was loaded."""
    found: list[Record] = []
    entries, loaded = _log_entries(text)
    for stamp, message in entries:
        matched = re.search(r"SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+), (Fatal)?", message)
        if matched and stamp >= (loaded or 0.0):
            found.append(
                {
                    "time_unix": stamp, "pci": normal_pci(matched.group(1)), "code": int(matched.group(2)),
                    "fatal": matched.group(3) is not None, "message": message,
                }
            )  # fmt: skip
    return found


# Who may say what the kernel said. The journal itself notes the transport. The identifier is what the sender calls himself, which any
# user can; a simulated driver has no kernel and nothing else, and simulated GPUs prove nothing about real ones.
LOG_SOURCES = {"kernel": "_TRANSPORT=kernel", "identifier": "SYSLOG_IDENTIFIER=kernel"}


def log_words(source: str) -> tuple[Sequence[str], Sequence[str]]:
    """The commands that read the driver's messages of this boot, and the oldest message of all."""
    words = ("journalctl", "-b", "-q", "-o", "json", "--output-fields=MESSAGE", "--no-pager")
    pattern = "NVRM: (Xid|loading NVIDIA UNIX)|SXid"
    return (
        (*words, "-n", str(KERNEL_LOG_LINES), "-g", pattern, LOG_SOURCES[source]),
        (*words, LOG_SOURCES[source]),
    )


def _ask_log(source: str) -> dict[str, _Command]:
    xids, first = log_words(source)
    return {"xids": _Command(*xids), "first": _Command(*first)}


def _kernel_log(
    record: Record,
    trusted: Mapping[str, Any],
    ask: Callable[[str], Mapping[str, Any]],
    errors: list[str],
) -> Record:
    """The Xids, null if nobody can know them; notes in the module's part when it was loaded.

    Args:
        record: with the parts 'module' and 'library'.
        trusted: commands that ask for what the kernel itself said.
        ask: starts the commands for another source.
        errors: gets what went wrong.
    """
    source, commands = "kernel", trusted
    if (record.get("library") or {}).get("simulated") is True:
        for command in trusted.values():
            command.first_line()  # ends it
        source, commands = "identifier", ask("identifier")
    # Status 1: no such message.
    log = commands["xids"].output(errors, accept=(0, 1))
    oldest = commands["first"].first_line()
    stamp = re.search(r'"__REALTIME_TIMESTAMP"\s*:\s*"(\d+)"', oldest)
    found: Record = {"xids": None, "sxids": None, "xids_truncated": None}
    found["log"] = {"source": source, "begins_unix": int(stamp.group(1)) / 1e6 if stamp else None}
    if log is None:
        return found
    xids, loaded_unix = parse_kernel_log(log)
    module = record["module"] or {}
    module["loaded_unix"] = loaded_unix
    if not log.strip() and not oldest and module.get("loaded_version") is not None:
        # A driver that was loaded in silence: the journal does not get what the kernel says.
        errors.append("the journal has no message of the kernel of this boot")
        return found
    truncated = len(log.splitlines()) >= KERNEL_LOG_LINES
    found.update(xids=xids, sxids=parse_switch_log(log), xids_truncated=truncated)
    return found


# --- containerd, CDI, Kubernetes ---------------------------------------------------------------------------------


def _toml_value(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("[") and text.endswith("]"):
        return [a or b for a, b in re.findall(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'", text)]
    if len(text) >= 2 and text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1]
    number = _int(text)
    return text if number is None else number


def parse_toml(text: str) -> Record:
    """What ``containerd config dump`` writes: tables and one-line values, which is all that is needed of TOML."""
    try:
        import tomllib  # Python 3.11

        return tomllib.loads(text)
    except ImportError:
        pass
    except ValueError:
        return {}
    root: Record = {}
    table = root
    for line in map(str.strip, text.splitlines()):
        if line.startswith("[") and line.endswith("]") and "=" not in line:
            table = root
            for part in re.findall(r"\"([^\"]*)\"|'([^']*)'|([^.\s\[\]]+)", line.strip("[]")):
                name = part[0] or part[1] or part[2]
                inner = table.setdefault(name, {})
                table = inner if isinstance(inner, dict) else {}
        elif "=" in line and not line.startswith("#"):
            key, _separator, value = line.partition("=")
            table[key.strip().strip("\"'")] = _toml_value(value)
    return root


def _dig(tree: Any, *keys: str) -> Any:
    for key in keys:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


EFFECTIVE_KEYS = (
    "runtime_nvidia", "runtime_binary", "systemd_cgroup", "cdi", "cri_disabled", "default_runtime", "default_binary", "cdi_spec_dirs",
)  # fmt: skip


def read_containerd_dump(text: str) -> Record:
    """The settings that matter, from an effective configuration of schema version 2, 3 or 4."""
    tree = parse_toml(text)
    plugins = tree.get("plugins") or {}
    cri = plugins.get("io.containerd.cri.v1.runtime") or plugins.get("io.containerd.grpc.v1.cri") or {}
    runtimes = _dig(cri, "containerd", "runtimes") or {}
    nvidia = runtimes.get("nvidia") if isinstance(runtimes, dict) else None
    default = _dig(cri, "containerd", "default_runtime_name") or "runc"
    groups = [
        bool(_dig(runtimes, name, "options", "SystemdCgroup"))
        for name in ("nvidia", default)
        if isinstance(runtimes, dict) and name in runtimes
    ]
    disabled = tree.get("disabled_plugins") or []
    return {
        "runtime_nvidia": nvidia is not None,
        "runtime_binary": _dig(nvidia, "options", "BinaryName"),
        "systemd_cgroup": bool(groups) and all(groups),
        "cdi": bool(cri.get("enable_cdi")),
        "default_runtime": str(default),
        "default_binary": _dig(runtimes, default, "options", "BinaryName") or None,
        "cdi_spec_dirs": cri.get("cdi_spec_dirs") or None,
        "cri_disabled": any(str(name) == "cri" or "cri" in str(name).split(".") for name in disabled),
    }


def _containerd(dump: _Command, version: _Command, errors: list[str]) -> Record:
    text = dump.output(errors)
    words = (version.output(errors) or "").split()
    numbers = [word.lstrip("v") for word in words if re.match(r"^v?\d+\.\d+", word)]
    newest = None
    for path in ["/etc/containerd/config.toml", *glob.glob("/etc/containerd/conf.d/*.toml")]:
        try:
            newest = max(newest or 0.0, os.stat(path).st_mtime)
        except OSError:
            continue
    effective = read_containerd_dump(text) if text else dict.fromkeys(EFFECTIVE_KEYS)
    binary = effective["runtime_binary"]
    return {
        "version": numbers[0] if numbers else None,
        "effective": effective,
        "runtime_binary_found": _find_program(str(binary)) is not None if binary else None,
        "digest": hashlib.sha256(text.encode()).hexdigest() if text else None,
        "config_changed_unix": newest,
        "noted_digest": _read(CONTAINERD_NOTE),
        "noted_unix": os.stat(CONTAINERD_NOTE).st_mtime if os.path.exists(CONTAINERD_NOTE) else None,
    }


CDI_KIND = "nvidia.com/gpu"
# What the device plugin gives pods: its own specification, with GPUs by UUID.
PLUGIN_CDI_KIND = "k8s.device-plugin.nvidia.com/gpu"
# containerd's own and the toolkit's; what a later folder has wins.
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
_YAML_KEY = re.compile(r"^(\"[^\"]*\"|'[^']*'|[^\s:'\"\[\]{}&*!|>-][^:]*?|-[^\s:][^:]*?):(?:\s+(.*))?$")


class _Yaml:
    """The YAML that nvidia-ctk writes: blocks of mappings, lists and plain or quoted scalars. Anything else is a ValueError."""

    def __init__(self, text: str) -> None:
        # Number, indentation and content of each line that has some.
        self._lines = [
            (number, len(line) - len(line.lstrip()), line.strip())
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        self._at = 0

    def tree(self) -> Any:
        """All of it."""
        found = self._block(self._lines[0][1]) if self._lines else None
        if self._at < len(self._lines):
            raise self._wrong()
        return found

    def _wrong(self) -> ValueError:
        number, _indent, content = self._lines[min(self._at, len(self._lines) - 1)]
        return ValueError(f"line {number} is not understood: {content[:60]!r}")

    def _indent(self) -> int:
        return self._lines[self._at][1] if self._at < len(self._lines) else -1

    def _is_entry(self) -> bool:
        content = self._lines[self._at][2] if self._at < len(self._lines) else ""
        return content == "-" or content.startswith("- ")

    def _block(self, indent: int) -> Any:
        if self._is_entry():
            entries = []
            while self._indent() == indent and self._is_entry():
                number, _indent, content = self._lines[self._at]
                rest = content[1:].lstrip()
                if not rest:
                    self._at += 1
                    entries.append(self._block(self._indent()) if self._indent() > indent else None)
                elif rest == "-" or rest.startswith("- ") or _YAML_KEY.match(rest):
                    # The entry's first line stands where its others stand.
                    inner = indent + len(content) - len(rest)
                    self._lines[self._at] = (number, inner, rest)
                    entries.append(self._block(inner))
                else:
                    entries.append(self._scalar(rest, indent))
            return entries
        found: Record = {}
        while self._indent() == indent and not self._is_entry():
            matched = _YAML_KEY.match(self._lines[self._at][2])
            if not matched:
                raise self._wrong()
            key, value = matched.group(1).strip("\"'"), matched.group(2)
            if value:
                found[key] = self._scalar(value, indent)
                continue
            self._at += 1
            deeper = self._indent() > indent or (self._indent() == indent and self._is_entry())
            found[key] = self._block(self._indent()) if deeper else None
        return found

    def _scalar(self, text: str, indent: int) -> Any:
        """A value, with the lines that a long one goes on in."""
        if text in ("{}", "[]"):
            self._at += 1
            return {} if text == "{}" else []
        if text[0] in "&*!|>{[%@`":
            raise self._wrong()
        self._at += 1
        while self._indent() > indent:
            text += " " + self._lines[self._at][2]
            self._at += 1
        if text[0] in "\"'":
            return text[1:].partition(text[0])[0]
        return re.sub(r"\s+#.*$", "", text)


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
    return _Yaml("\n".join(kept)).tree()


def _cdi_device(device: Mapping[str, Any]) -> Record:
    """Name and GPU nodes of a device."""
    nodes = []
    for node in (device.get("containerEdits") or {}).get("deviceNodes") or []:
        paths = [str(node.get(key) or "") for key in ("path", "hostPath")]
        if any(re.search(r"/dev/nvidia\d+$", path) for path in paths):
            given = node.get("major") or node.get("minor")
            numbers = f"{node.get('major')}:{node.get('minor') or 0}" if given else None
            nodes.append({"path": paths[0], "host_path": paths[1] or None, "numbers": numbers})
    return {"name": str(device["name"]), "nodes": nodes}


def read_cdi(path: str, priority: int, text: str, kind: str = CDI_KIND) -> Record | None:
    """A CDI specification of NVIDIA's GPUs, with the reason if it cannot be read; None for one of something else."""
    if not re.search(r"kind[\"']?\s*:\s*[\"']?{}[\"'\s,}}]".format(re.escape(kind)), text + "\n"):
        return None
    version = re.search(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)", text)
    spec: Record = {
        "path": path,
        "priority": priority,
        "driver_version": version.group(1) if version else None,
        "problem": None,
        "devices": [],
    }
    try:
        tree = _cdi_tree(text)
        if tree.get("kind") != kind:
            return None
        spec["devices"] = [_cdi_device(device) for device in tree.get("devices") or []]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        spec["problem"] = (
            str(error) if isinstance(error, ValueError) else "its devices are no list of devices with names"
        )
    return spec


def _cdi(folders: Sequence[str] = CDI_FOLDERS) -> Record:
    """Specifications in the order of their folders, whose later ones win. CDI reads these two endings only."""
    texts = [
        (path, priority, _read(path) or "")
        for priority, folder in enumerate(folders)
        for path in sorted(glob.glob(folder + "/*.yaml") + glob.glob(folder + "/*.json"))
    ]
    specs = [spec for row in texts if (spec := read_cdi(*row)) is not None]
    names = dict.fromkeys(device["name"] for spec in specs for device in spec["devices"])
    versions = [spec["driver_version"] for spec in specs if spec["driver_version"]]
    return {
        "specs": specs,
        "plugin_specs": [spec for row in texts if (spec := read_cdi(*row, PLUGIN_CDI_KIND)) is not None],
        "devices": [f"{CDI_KIND}={name}" for name in names],
        "driver_version": versions[-1] if versions else None,
    }


def _kubernetes(kubelet: _Command, errors: list[str]) -> Record:
    words = (kubelet.output(errors) or "").split()
    override = re.search(
        r"--hostname-override[= ]([^\s\"']+)", _read("/var/lib/kubelet/kubeadm-flags.env") or ""
    )
    joined = os.path.exists("/etc/kubernetes/kubelet.conf")
    name = override.group(1) if override else socket.gethostname().lower()
    return {
        "kubelet_version": words[-1].lstrip("v") if words else None,
        "joined": joined,
        "node_name": name if joined else None,
    }


def boot_files(kind: str) -> list[str]:
    """Files of modules-load.d, sysctl.d or modprobe.d in the order in which boots read them."""
    found: dict[str, str] = {}
    for folder in reversed(BOOT_FOLDERS):
        for path in glob.glob(os.path.join(folder, kind, "*.conf")):
            found[os.path.basename(path)] = path
    # What is no file, such as a link to /dev/null, only takes those of the same name out.
    return [found[name] for name in sorted(found) if os.path.isfile(found[name])]


def boot_lines(kind: str) -> list[tuple[str, str]]:
    """Their lines without comments, each with its file."""
    rows = [(line.strip(), path) for path in boot_files(kind) for line in (_read(path) or "").splitlines()]
    return [(line, path) for line, path in rows if line and line[0] not in "#;"]


def plain_module(name: str) -> str:
    """A module's name as the kernel shows it."""
    return name.replace("-", "_")


def forbidden_module(line: str) -> str | None:
    """The module that a line of modprobe.d keeps boots from loading."""
    matched = re.match(r"(?:blacklist\s+(\S+)|install\s+(\S+)\s+(?:/usr)?/bin/(?:true|false))\s*$", line)
    return plain_module(matched.group(1) or matched.group(2)) if matched else None


def boot_modules(builtin: str, builtin_file: str) -> Record:
    """Who has boots load a module, and who keeps them from it; what is part of the kernel (modules.builtin) needs nobody."""
    lines = boot_lines("modules-load.d")
    loads = {plain_module(name): path for name, path in reversed(lines)}
    forbids = {forbidden_module(line): path for line, path in boot_lines("modprobe.d")}
    found = {}
    for name in (*MODULES, *(name for name, _path in lines)):
        plain = plain_module(name)
        if part_of_kernel(name, builtin):
            found[name] = {"file": builtin_file, "forbidden_by": None}
        else:
            found[name] = {"file": loads.get(plain), "forbidden_by": forbids.get(plain)}
    return found


def sysctl_key(name: str) -> str:
    """A parameter's path below /proc/sys."""
    first = re.search(r"[./]", name)
    if first is not None and first.group() == ".":
        # Then a slash is a dot within a name, as in that of a network interface.
        return name.translate(str.maketrans("./", "/."))
    return name


def sysctl_settings(lines: Iterable[tuple[str, str]]) -> Record:
    """What systemd-sysctl keeps of lines in their order: value and file by key; '-NAME' alone has no value."""
    kept: Record = {}
    for line, path in lines:
        name, assigned, text = line.partition("=")
        if not assigned and line[0] != "-":
            continue  # systemd-sysctl ignores it as well
        key = sysctl_key(name.lstrip("-").strip())
        value = " ".join(text.split()) if assigned else None
        if key in kept and kept[key]["value"] == value:
            continue
        # The order counts for patterns: the last one that matches is written last.
        kept.pop(key, None)
        kept[key] = {"value": value, "file": path}
    return kept


def _is_pattern(key: str) -> bool:
    return any(sign in key for sign in "*?[")


def _matches(key: str, pattern: str) -> bool:
    parts, patterns = key.split("/"), pattern.split("/")
    return len(parts) == len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))


def boot_sysctl(name: str, settings: Mapping[str, Any], root: str = "/proc/sys") -> Record:
    """What boots set a parameter to, and the files that say so.

    A pattern gives all values that its parameters get, each once; those that '-NAME' takes out keep the kernel's own.
    """
    key = sysctl_key(name)
    keys = [os.path.relpath(path, root) for path in glob.glob(os.path.join(root, key))]
    rows = []
    for one in keys if keys and _is_pattern(key) else [key]:
        # A line with the name itself wins over every pattern, wherever it stands.
        said = [settings[one]] if one in settings else []
        said += [
            row
            for pattern, row in reversed(list(settings.items()))
            if _is_pattern(pattern) and row["value"] is not None and _matches(one, pattern)
        ]
        rows += said[:1]
    values = sorted({row["value"] for row in rows if row["value"] is not None})
    return {
        "value": ", ".join(values) if values else None,
        "files": sorted({row["file"] for row in rows}),
    }


def _boot() -> Record:
    """What boots load and set, by the files that systemd reads."""
    builtin = f"/lib/modules/{platform.release()}/modules.builtin"
    lines = boot_lines("sysctl.d")
    ours = (line.partition("=")[0].strip() for line, path in lines if fnmatch.fnmatch(path, SYSCTL_FILES))
    settings = sysctl_settings(lines)
    return {
        "modules": boot_modules(_read(builtin) or "", builtin),
        "sysctl": {name: boot_sysctl(name, settings) for name in (*SYSCTLS, *ours)},
        "swap_units": swap_units(),
    }


def read_sysctl(name: str, root: str = "/proc/sys") -> str | None:
    """What the kernel shows for a parameter, one space between its numbers; None if it has no such parameter.

    A pattern such as net.ipv4.conf.*.rp_filter gives all values that there are, each once.
    """
    texts = (_read(path) for path in glob.glob(os.path.join(root, sysctl_key(name))))
    values = sorted({" ".join(text.split()) for text in texts if text is not None})
    return ", ".join(values) if values else None


def part_of_kernel(name: str, builtin: str) -> bool:
    """Whether the text of modules.builtin has a module."""
    pattern = r"/{}\.ko".format(re.escape(plain_module(name)).replace("_", "[_-]"))
    return re.search(pattern, builtin) is not None


def module_present(name: str, builtin: str, root: str = "/sys/module") -> bool:
    """Whether a module is loaded or, by the text of modules.builtin, part of the kernel."""
    return os.path.isdir(os.path.join(root, plain_module(name))) or part_of_kernel(name, builtin)


def swap_areas(text: str) -> list[str]:
    """Names of the active swap areas in the text of /proc/swaps."""
    return [line.split()[0] for line in text.splitlines()[1:] if line.strip()]


def is_swap_line(line: str) -> bool:
    """Whether a line of /etc/fstab turns swap on at boot."""
    fields = line.split()
    return (
        len(fields) >= 3
        and not fields[0].startswith("#")
        and fields[2] == "swap"
        and not (len(fields) >= 4 and "noauto" in fields[3].split(","))
    )


def swap_lines(text: str) -> list[str]:
    """What the text of /etc/fstab turns swap on with at boot."""
    return [line.split()[0] for line in text.splitlines() if is_swap_line(line)]


def swap_units(folder: str | None = None) -> list[str]:
    """Links by which boots start a swap unit although swap.target is masked."""
    found = []
    for kind in ("wants", "requires"):
        found += glob.glob(os.path.join(folder or UNIT_FOLDER, f"*.{kind}", "*.swap"))
    return sorted(path for path in found if os.path.islink(path) and "/swap.target." not in path)


def _system(boot: Mapping[str, Any]) -> Record:
    swaps = _read("/proc/swaps")
    builtin = _read(f"/lib/modules/{platform.release()}/modules.builtin") or ""
    # A built-in module need not show in /sys/module: what it brings into /proc tells as well.
    brings = {
        "overlay": "overlay" in (_read("/proc/filesystems") or "").split(),
        "br_netfilter": os.path.exists("/proc/sys/net/bridge/bridge-nf-call-iptables"),
    }
    modules = {
        name: module_present(name, builtin) or brings.get(name.replace("-", "_"), False)
        for name in (*MODULES, *(boot.get("modules") or ()))
    }
    systemd = os.path.isdir("/run/systemd/system")
    secure: bool | None = False
    if os.path.isdir("/sys/firmware/efi"):
        secure = None
        for path in glob.glob("/sys/firmware/efi/efivars/SecureBoot-*"):
            try:
                with open(path, "rb") as file:
                    secure = file.read()[-1:] == b"\x01"
            except OSError:
                continue
    return {
        "swap_active": bool(swap_areas(swaps)) if swaps is not None else None,
        "swap_areas": swap_areas(swaps) if swaps is not None else None,
        "swap_fstab": swap_lines(_read("/etc/fstab") or ""),
        # Null without systemd, which alone finds swap partitions by itself.
        "swap_target_masked": os.path.realpath(UNIT_FOLDER + "/swap.target") == "/dev/null"
        if systemd
        else None,
        "modules": modules,
        "sysctl": {name: read_sysctl(name) for name in (*SYSCTLS, *(boot.get("sysctl") or ()))},
        "secure_boot": secure,
    }


def _managed_files() -> dict[str, str]:
    found = {}
    for pattern in MANAGED_FILES:
        for path in glob.glob(pattern):
            try:
                with open(path, "rb") as file:
                    found[path] = hashlib.sha256(file.read()).hexdigest()
            except OSError:
                continue
    return found


# --- NVML ----------------------------------------------------------------------------------------------------------

NVML_OK = 0
NVML_NOT_SUPPORTED = 3
NVML_INSUFFICIENT_SIZE = 7
THROTTLE_REASONS = {
    0x2: "applications_clocks_setting",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal_slowdown",
    0x40: "hw_thermal_slowdown",
    0x80: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
FABRIC_STATES = {0: "not_supported", 1: "not_started", 2: "in_progress", 3: "completed"}
# From NVML's header, for the case that nvmlErrorString is missing.
NVML_ERRORS = {
    1: "uninitialized", 2: "invalid argument", 3: "not supported", 4: "no permission", 6: "not found", 9: "driver not loaded",
    10: "timeout", 12: "library not found", 13: "function not found", 15: "GPU is lost", 17: "operating system",
    18: "driver/library version mismatch", 999: "unknown",
}  # fmt: skip


class _PciInfo(ctypes.Structure):
    _fields_ = [
        ("busIdLegacy", ctypes.c_char * 16),
        ("domain", ctypes.c_uint),
        ("bus", ctypes.c_uint),
        ("device", ctypes.c_uint),
        ("pciDeviceId", ctypes.c_uint),
        ("pciSubSystemId", ctypes.c_uint),
        ("busId", ctypes.c_char * 32),
    ]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class _FabricInfo(ctypes.Structure):
    _fields_ = [
        ("clusterUuid", ctypes.c_ubyte * 16),
        ("status", ctypes.c_uint),
        ("cliqueId", ctypes.c_uint),
        ("state", ctypes.c_ubyte),
    ]


class _ProcessInfo(ctypes.Structure):
    _fields_ = [
        ("pid", ctypes.c_uint),
        ("usedGpuMemory", ctypes.c_ulonglong),
        ("gpuInstanceId", ctypes.c_uint),
        ("computeInstanceId", ctypes.c_uint),
    ]


class _Nvml:
    """The few calls that the record needs; every one may be missing in the library or fail."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def call(self, name: str, *arguments: Any) -> int | None:
        """NVML's return code, or None if the library has no such function."""
        try:
            function = getattr(self._library, name)
        except AttributeError:
            return None
        function.restype = ctypes.c_int
        return int(function(*arguments))

    def error(self, code: int) -> str:
        """NVML's own words for a code."""
        try:
            function = self._library.nvmlErrorString
            function.restype = ctypes.c_char_p
            text = function(ctypes.c_int(code))
            if text:
                return str(text.decode(errors="replace"))
        except AttributeError:
            pass
        return NVML_ERRORS.get(code, f"code {code}")

    def text(self, name: str, *arguments: Any) -> tuple[int | None, str | None]:
        """Code, and a string result."""
        buffer = ctypes.create_string_buffer(96)
        code = self.call(name, *arguments, buffer, ctypes.c_uint(96))
        return code, buffer.value.decode(errors="replace") if code == NVML_OK else None

    def number(self, name: str, *arguments: Any) -> tuple[int | None, int | None]:
        """Code, and a result that is one unsigned int."""
        value = ctypes.c_uint()
        code = self.call(name, *arguments, ctypes.byref(value))
        return code, value.value if code == NVML_OK else None


def note_unknown(row: Record, value: str, code: int | None, words: str) -> None:
    """Say in a GPU's row why a value is null: the GPU has no such thing, or it could not be asked.

    Args:
        row: of the GPU.
        value: its key.
        code: NVML's; None if the library has no such function.
        words: NVML's own for the code.
    """
    if code == NVML_NOT_SUPPORTED:
        row["unsupported"].append(value)
    else:
        row["unreadable"][value] = words if code is not None else "the NVIDIA library has no such function"


def _nvml_health(
    nvml: _Nvml, handle: ctypes.c_void_p, row: Record, take: Callable[[str, int | None], bool]
) -> None:
    """Memory errors, row remapping, slowdowns and partitioning of one GPU."""
    now, later = ctypes.c_uint(), ctypes.c_uint()
    modes = (ctypes.byref(now), ctypes.byref(later))
    if take("ecc_mode", nvml.call("nvmlDeviceGetEccMode", handle, *modes)):
        row["ecc_mode"] = "enabled" if now.value else "disabled"
    errors = ctypes.c_ulonglong()
    # Uncorrected errors (1) since the driver was loaded (0).
    if take("ecc_uncorrected", nvml.call("nvmlDeviceGetTotalEccErrors", handle, 1, 0, ctypes.byref(errors))):
        row["ecc_uncorrected"] = int(errors.value)
    fixed, unfixed, pending, failed = (ctypes.c_uint() for _ in range(4))
    rows = [ctypes.byref(value) for value in (fixed, unfixed, pending, failed)]
    if take("row_remap", nvml.call("nvmlDeviceGetRemappedRows", handle, *rows)):
        row["remap_pending"], row["remap_failed"] = bool(pending.value), bool(failed.value)
    reasons = ctypes.c_ulonglong()
    code = nvml.call("nvmlDeviceGetCurrentClocksEventReasons", handle, ctypes.byref(reasons))
    if code is None:  # its name in drivers before 535
        code = nvml.call("nvmlDeviceGetCurrentClocksThrottleReasons", handle, ctypes.byref(reasons))
    if take("throttle_reasons", code):
        row["throttle_reasons"] = [text for bit, text in THROTTLE_REASONS.items() if reasons.value & bit]
    if take("mig_mode", nvml.call("nvmlDeviceGetMigMode", handle, *modes)):
        row["mig_mode"] = "enabled" if now.value else "disabled"
        row["mig_mode_pending"] = "enabled" if later.value else "disabled"


def in_pod(cgroup: str | None) -> bool:
    """Whether the content of /proc/PID/cgroup is that of a pod's process."""
    return "kubepods" in (cgroup or "")


def _nvml_processes(nvml: _Nvml, handle: ctypes.c_void_p) -> tuple[int | None, list[Record]]:
    """Code, and the processes that compute on a GPU, with whether they belong to a pod."""
    count, rows = ctypes.c_uint(0), (_ProcessInfo * 0)()
    code = None
    for _attempt in range(3):
        code = nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", handle, ctypes.byref(count), rows)
        if code != NVML_INSUFFICIENT_SIZE:
            break
        # More than fit; it says how many. Some more may come until the next call.
        count = ctypes.c_uint(count.value + 8)
        rows = (_ProcessInfo * count.value)()
    if code != NVML_OK:
        return code, []
    found = []
    for index in range(count.value):
        pid = int(rows[index].pid)
        if os.path.exists(f"/proc/{pid}"):  # else it has ended since, or is another PID namespace's
            found.append(
                {"pid": pid, "name": _read(f"/proc/{pid}/comm"), "pod": in_pod(_read(f"/proc/{pid}/cgroup"))}
            )
    return code, found


def _nvml_gpu(nvml: _Nvml, index: int) -> Record:
    row: Record = {
        "index": index, "uuid": None, "name": None, "minor": None, "pci": None, "memory_mib": None,
        "ecc_mode": None, "ecc_uncorrected": None, "remap_pending": None, "remap_failed": None, "throttle_reasons": None,
        "mig_mode": None, "mig_mode_pending": None,
        "pcie_gen": None, "pcie_width": None, "pcie_gen_max": None, "pcie_width_max": None,
        "fabric_state": None, "fabric_status": None, "processes": None, "error": None,
        "unsupported": [], "unreadable": {},
    }  # fmt: skip
    handle = ctypes.c_void_p()
    code = nvml.call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    if code != NVML_OK:
        row["error"] = nvml.error(code) if code is not None else "nvmlDeviceGetHandleByIndex_v2 is missing"
        return row

    def take(value: str, code: int | None) -> bool:
        if code != NVML_OK:
            note_unknown(row, value, code, "" if code is None else nvml.error(code))
        return code == NVML_OK

    for value, function in (("uuid", "nvmlDeviceGetUUID"), ("name", "nvmlDeviceGetName")):
        code, row[value] = nvml.text(function, handle)
        take(value, code)
    for value, function in (
        ("minor", "nvmlDeviceGetMinorNumber"),
        ("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration"), ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth"),
        ("pcie_gen_max", "nvmlDeviceGetMaxPcieLinkGeneration"), ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth"),
    ):  # fmt: skip
        code, row[value] = nvml.number(function, handle)
        take(value, code)
    pci = _PciInfo()
    if take("pci", nvml.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))):
        row["pci"] = normal_pci(pci.busId.decode(errors="replace"))
    memory = _Memory()
    code = nvml.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
    if take("memory_mib", code):
        row["memory_mib"] = int(memory.total) // (1024 * 1024)
    elif code is not None:
        # A lost GPU still tells its name; its memory it cannot tell.
        row["error"] = nvml.error(code)
    _nvml_health(nvml, handle, row, take)
    code, processes = _nvml_processes(nvml, handle)
    if take("processes", code):
        row["processes"] = processes
    fabric = _FabricInfo()
    if take("fabric_state", nvml.call("nvmlDeviceGetGpuFabricInfo", handle, ctypes.byref(fabric))):
        row["fabric_state"] = FABRIC_STATES.get(fabric.state, f"state {fabric.state}")
        if fabric.state == 3:
            row["fabric_status"] = "success" if fabric.status == NVML_OK else nvml.error(fabric.status)
    return row


def _nvml_record(path: str) -> Record:
    """Everything that NVML says; runs in a child process."""
    answer: Record = {"init_code": None, "error": None, "driver_version": None, "gpus": []}
    answer["marker"] = answer["loaded"] = None
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        answer["error"] = str(error)
        return answer
    answer["loaded"] = True
    try:
        first = ctypes.c_char.in_dll(library, "gpusmith_simulated")
        answer["marker"] = ctypes.string_at(ctypes.addressof(first)).decode(errors="replace")
    except ValueError:
        pass
    nvml = _Nvml(library)
    code = nvml.call("nvmlInit_v2")
    answer["init_code"] = code
    if code != NVML_OK:
        answer["error"] = nvml.error(code) if code is not None else "nvmlInit_v2 is missing"
        return answer
    _code, answer["driver_version"] = nvml.text("nvmlSystemGetDriverVersion")
    _code, count = nvml.number("nvmlDeviceGetCount_v2")
    answer["gpus"] = [_nvml_gpu(nvml, index) for index in range(count or 0)]
    nvml.call("nvmlShutdown")
    return answer


class _Child:
    """A function in a forked child, so that a library that hangs or crashes harms only the child."""

    def __init__(self, work: Callable[[], Record]) -> None:
        self._reader, writer = os.pipe()
        self._process = os.fork()
        if self._process == 0:
            status = 1
            try:
                os.close(self._reader)
                silent = os.open(os.devnull, os.O_RDWR)
                for stream in (0, 1, 2):
                    os.dup2(silent, stream)
                data = json.dumps(work()).encode()
                while data:
                    data = data[os.write(writer, data) :]
                status = 0
            finally:
                os._exit(status)
        os.close(writer)

    def result(self, timeout_s: float) -> tuple[Record | None, str | None]:
        """The function's answer, or why there is none."""
        end = time.monotonic() + timeout_s
        data = b""
        problem = None
        while True:
            ready, _unused, _none = select.select([self._reader], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                problem = f"no answer within {timeout_s:.0f} s"
                break
            chunk = os.read(self._reader, 65536)
            if not chunk:
                break
            data += chunk
        os.close(self._reader)
        if problem is not None:
            # Not waited for: a process inside a hanging driver call cannot be killed.
            os.kill(self._process, signal.SIGKILL)
            os.waitpid(self._process, os.WNOHANG)
            return None, problem
        _pid, status = os.waitpid(self._process, 0)
        if status != 0:
            how = (
                f"was killed by signal {status & 0x7F}"
                if status & 0x7F
                else f"ended with status {status >> 8}"
            )
            return None, f"the process that called the library {how}"
        try:
            answer: Record = json.loads(data.decode())
            return answer, None
        except ValueError as error:
            return None, str(error)


LIBRARY_FOLDERS = ("/usr/lib/%s-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/usr/local/nvidia/lib64")


def find_libraries(soname: str, cache: str, machine: str) -> list[str]:
    """The files that a SONAME stands for, by the output of ``ldconfig -p`` and the usual folders; the loader takes the first."""
    paths = []
    for line in cache.splitlines():
        left, separator, path = line.partition(" => ")
        if separator and left.split()[:1] == [soname] and ("64" in left or "64" not in machine):
            paths.append(path.strip())
    paths += [
        os.path.join(folder % machine if "%" in folder else folder, soname) for folder in LIBRARY_FOLDERS
    ]
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def resolve_library(soname: str, cache: str, machine: str) -> str | None:
    """The file that the dynamic loader takes for a SONAME."""
    found = find_libraries(soname, cache, machine)
    return found[0] if found else None


def library_fault(path: str) -> str | None:
    """Why the loader cannot take a file as library, by its first bytes and its size; None if nothing speaks against it."""
    try:
        with open(path, "rb") as file:
            head = file.read(64)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if not size:
        return "is empty"
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return "is no ELF file"
    if head[4] == 2:
        # The table of sections is the last thing in a file: what is shorter lacks some of it.
        order = "<" if head[5] == 1 else ">"
        (table,) = struct.unpack_from(order + "Q", head, 40)
        entry, entries = struct.unpack_from(order + "HH", head, 58)
        if table + entry * entries > size:
            return f"is cut off after {size} bytes"
    return None


def _library_file(paths: Sequence[str]) -> Record:
    return {
        "path": paths[0] if paths else None,
        "fault": library_fault(paths[0]) if paths else None,
        "shadows": list(paths[1:]),
    }


def _version_of_file(path: str | None) -> str | None:
    matched = re.search(r"\.so\.(\d+\.\d+(?:\.\d+)*)$", path or "")
    return matched.group(1) if matched else None


# --- the record ----------------------------------------------------------------------------------------------------


def _guarded(name: str, errors: list[str], work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - a probe that dies tells less than one that has a hole
        errors.append(f"{name}: {type(error).__name__}: {error}")
        return None


def _start_commands() -> dict[str, _Command]:
    properties = "--property=Id,ActiveState,UnitFileState,ActiveEnterTimestamp,NeedDaemonReload"
    return {
        "dpkg": _Command("dpkg-query", "-W", "-f", "${Package}\t${Version}\t${db:Status-Abbrev}\n", *PACKAGE_PATTERNS),
        "modinfo": _Command("modinfo", "nvidia", "nvidia-current", "nvidia-current-open"),
        "dump": _Command("containerd", "config", "dump"),
        "containerd": _Command("containerd", "--version"),
        "kubelet": _Command("kubelet", "--version"),
        "systemctl": _Command("systemctl", "show", properties, *(name + ".service" for name in SERVICES)),
    }  # fmt: skip


EMPTY_NVML: Mapping[str, Any] = {"init_code": None, "error": None, "driver_version": None, "gpus": []}


def collect(nvml_timeout_s: float = NVML_TIMEOUT_S) -> Record:
    """Gather the record of this machine.

    Args:
        nvml_timeout_s: seconds that the NVIDIA management library may take in all.
    """
    errors: list[str] = []
    machine = platform.machine()
    ldconfig = _Command("ldconfig", "-p")
    dev = _guarded("dev", errors, _dev)
    cache = ldconfig.output(errors, accept=None) or ""
    nvml_paths = find_libraries("libnvidia-ml.so.1", cache, machine)
    cuda_paths = find_libraries("libcuda.so.1", cache, machine)
    nvml_path, cuda_path = (paths[0] if paths else None for paths in (nvml_paths, cuda_paths))
    # The library is asked while the programs below run.
    child = _guarded("nvml", errors, lambda: _Child(lambda: _nvml_record(nvml_path))) if nvml_path else None
    commands = _start_commands()
    log = _ask_log("kernel")
    rpm = (
        _Command("rpm", "-qa", "--qf", "%{NAME}\t%{VERSION}-%{RELEASE}\n", *PACKAGE_PATTERNS)
        if commands["dpkg"].missing
        else commands["dpkg"]
    )

    containerd = _guarded(
        "containerd", errors, lambda: _containerd(commands["dump"], commands["containerd"], errors)
    )
    folders = _dig(containerd, "effective", "cdi_spec_dirs")
    boot = _guarded("boot", errors, _boot)

    record: Record = {
        "schema": SCHEMA,
        "host": _guarded("host", errors, _host),
        "packages": _guarded("packages", errors, lambda: _packages(commands["dpkg"], rpm, errors)),
        "pci": _guarded("pci", errors, _pci),
        "module": _guarded("module", errors, lambda: _module(commands["modinfo"], errors)),
        "dev": dev,
        "services": _guarded(
            "services", errors, lambda: parse_services(commands["systemctl"].output(errors) or "")
        ),
        "containerd": containerd,
        "cdi": _guarded("cdi", errors, lambda: _cdi(folders or CDI_FOLDERS)),
        "kubernetes": _guarded("kubernetes", errors, lambda: _kubernetes(commands["kubelet"], errors)),
        "system": _guarded("system", errors, lambda: _system(boot or {})),
        "boot": boot,
        "managed_files": _guarded("managed files", errors, _managed_files),
        "xids": None,
        "sxids": None,
        "xids_truncated": None,
        "log": None,
    }
    answer, problem = (
        child.result(nvml_timeout_s)
        if child is not None
        else (None, None if nvml_path else "library not found")
    )
    nvml = dict(EMPTY_NVML)
    if answer is not None:
        nvml.update({key: answer[key] for key in EMPTY_NVML})
    elif problem:
        nvml["error"] = problem
    record["nvml"] = nvml
    loaded = bool(answer and answer.get("loaded"))
    record["library"] = {
        "nvml_version": _version_of_file(nvml_path),
        "cuda_version": _version_of_file(cuda_path),
        "files": {"nvidia-ml": _library_file(nvml_paths), "cuda": _library_file(cuda_paths)},
        "nvidia_smi": _find_program("nvidia-smi"),
        "simulated": bool(answer and answer.get("marker") is not None) if loaded else None,
        "simulated_marker": answer.get("marker") if answer else None,
    }
    _guarded("kernel log", errors, lambda: record.update(_kernel_log(record, log, _ask_log, errors)))
    record["errors"] = errors
    return record


# --- what a validation stamp depends on ----------------------------------------------------------------------------


def stamp_facts(record: Mapping[str, Any]) -> Record:
    """The facts after whose change a node must be validated again, with a digest over them.

    Returns:
        driver (loaded version), kernel, runtime (containerd and toolkit with the digest of the effective
        configuration), simulated, digest.
    """

    def part(section: str, key: str) -> Any:
        return (record.get(section) or {}).get(key)

    toolkit = ((record.get("packages") or {}).get("nvidia-container-toolkit") or {}).get("version")
    configuration = part("containerd", "digest")
    facts: Record = {
        "driver": part("module", "loaded_version"),
        "kernel": part("host", "kernel"),
        "runtime": "containerd {}, toolkit {}, configuration {}".format(
            part("containerd", "version"), toolkit, configuration[:16] if configuration else None
        ),
        "simulated": part("library", "simulated"),
    }
    facts["digest"] = "sha256:" + hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return facts


def stamp_matches(stamp: Any, facts: Mapping[str, Any]) -> bool:
    """Whether a stamp (as read from the annotation) was made for these facts."""
    return isinstance(stamp, dict) and stamp.get("digest") == facts.get("digest")


def missing_facts(facts: Mapping[str, Any]) -> Iterable[str]:
    """The facts that are unknown: a node that lacks one cannot be stamped."""
    return [name for name in ("driver", "kernel") if facts.get(name) is None]


def main() -> None:
    """Print the record as one line of JSON."""
    print(json.dumps(collect(), sort_keys=True))


if __name__ == "__main__":
    main()
