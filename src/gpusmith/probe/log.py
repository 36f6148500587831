"""What the kernel log says of GPUs and NVSwitches."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from gpusmith.probe.commands import Command
from gpusmith.probe.pci import normal_pci

# Of the driver's messages in the kernel log, the youngest. More than that, and the record says that some were not read.
KERNEL_LOG_LINES = 5000
# journalctl searches from the newest message back. With millions of other kernel messages, such as a firewall's, that takes
# longer: then only recent ones are read, and the record says since when.
LOG_TIMEOUT_S = 20.0
RECENT_S = 6 * 3600
# Which messages are the kernel's. The journal itself records the transport. Any user can choose the identifier: it is accepted
# only for a simulated driver, which has no kernel, and simulated GPUs prove nothing about real ones.
LOG_SOURCES = {"kernel": "_TRANSPORT=kernel", "identifier": "SYSLOG_IDENTIFIER=kernel"}

# With MIG instances, the place says which of them it was: 'PCI:0000:01:00 GPU-I:05 GPU-CI:00' (kernel_rc.c of NVIDIA's open
# kernel modules). Older drivers leave 'PCI:' out.
XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)[^)]*\): (\d+)")


@dataclass(frozen=True)
class Xid:
    """An error report of the kernel module."""

    code: int
    pci: str
    message: str
    time_unix: float | None = None


@dataclass(frozen=True)
class SwitchXid:
    """An error report of an NVSwitch (SXid)."""

    code: int
    pci: str
    message: str
    fatal: bool
    time_unix: float | None = None


@dataclass(frozen=True)
class Log:
    """Where the reports come from.

    Attributes:
        source: 'kernel', or 'identifier' for a simulated driver, which has no kernel.
        begins_unix: time of the oldest message of this boot; of a log that is too large, from when on it was read.
    """

    source: str | None = None
    begins_unix: float | None = None


@dataclass(frozen=True)
class KernelLog:
    """What the record takes of the log.

    Attributes:
        xids: since the driver was loaded; None if nobody can know them.
        truncated: whether there are more messages than were read, or any that could not be read.
        loaded_unix: when the driver was loaded last.
    """

    log: Log
    xids: tuple[Xid, ...] | None = None
    sxids: tuple[SwitchXid, ...] | None = None
    truncated: bool | None = None
    loaded_unix: float | None = None


@dataclass(frozen=True)
class Asked:
    """The commands that were started.

    Attributes:
        words: the driver's messages.
        first: the oldest message of all.
    """

    words: Command
    first: Command


@dataclass(frozen=True)
class Entries:
    """Messages since the driver was loaded last, as (Unix time, text), by the boot's own clock: the other can be set back.

    Attributes:
        loaded_unix: when that was; None if the log does not have it.
        unread: lines in a form that nobody can read.
    """

    messages: tuple[tuple[float, str], ...]
    loaded_unix: float | None = None
    unread: int = 0


def _text_of(message: object) -> str:
    """A message as journalctl writes it: text that is not UTF-8 comes as a list of bytes."""
    if isinstance(message, str):
        return message
    if isinstance(message, list):
        return bytes(message).decode("utf-8", "replace")
    raise ValueError("no text")


@lru_cache(maxsize=1)
def log_entries(text: str) -> Entries:
    """What ``journalctl -o json`` has."""
    rows: list[tuple[int, float, str]] = []
    unread = 0
    for line in text.splitlines():
        try:
            entry = json.loads(line)
            message = _text_of(entry["MESSAGE"])
            stamp = int(entry.get("__REALTIME_TIMESTAMP", 0)) / 1e6
            rows.append((int(entry.get("__MONOTONIC_TIMESTAMP", 0)), stamp, message))
        except (ValueError, KeyError, TypeError):
            unread += bool(line.strip())
    messages: list[tuple[float, str]] = []
    loaded = None
    # With '-g' and '-n', journalctl begins with the youngest (journalctl(1), --grep).
    for _since_boot, stamp, message in sorted(rows, key=lambda row: row[0]):
        if "NVRM: loading NVIDIA UNIX" in message:
            # Loading the driver initialises every GPU: what was before is history.
            loaded = stamp
            messages.clear()
        messages.append((stamp, message))
    return Entries(tuple(messages), loaded, unread)


def parse_kernel_log(text: str) -> tuple[list[Xid], float | None]:
    """Xid messages since the driver was loaded, and when that was, from ``journalctl -o json``."""
    found: list[Xid] = []
    entries = log_entries(text)
    for stamp, message in entries.messages:
        matched = XID.search(message)
        if matched:
            pci, code = normal_pci(matched.group(1)), int(matched.group(2))
            found.append(Xid(code=code, pci=pci, message=message, time_unix=stamp))
    return found, entries.loaded_unix


def parse_switch_log(text: str) -> list[SwitchXid]:
    """SXid messages, the NVSwitches' own, since the driver was loaded."""
    found: list[SwitchXid] = []
    for stamp, message in log_entries(text).messages:
        matched = re.search(r"SXid \((?:PCI:)?([0-9a-fA-F:.]+)\): (\d+), (Fatal)?", message)
        if matched:
            pci, code = normal_pci(matched.group(1)), int(matched.group(2))
            found.append(SwitchXid(code, pci, message, fatal=matched.group(3) is not None, time_unix=stamp))
    return found


def log_words(source: str, since_unix: float | None = None) -> tuple[Sequence[str], Sequence[str]]:
    """The commands that read the driver's messages of this boot, and the oldest message of all.

    Args:
        source: one of LOG_SOURCES.
        since_unix: from when on; None for all of this boot.
    """
    words: tuple[str, ...] = (
        "journalctl",
        "-b",
        "-q",
        "-a",
        "-o",
        "json",
        "--output-fields=MESSAGE",
        "--no-pager",
    )
    if since_unix is not None:
        words = (*words, f"--since=@{since_unix:.0f}")
    pattern = "NVRM: (Xid|loading NVIDIA UNIX)|SXid"
    return (
        (*words, "-n", str(KERNEL_LOG_LINES), "-g", pattern, LOG_SOURCES[source]),
        (*words, LOG_SOURCES[source]),
    )


def ask(source: str = "kernel", since_unix: float | None = None) -> Asked:
    """Start the commands for a source."""
    words, first = log_words(source, since_unix)
    return Asked(Command(*words), Command(*first))


def _time_of(line: str) -> float | None:
    stamp = re.search(r'"__REALTIME_TIMESTAMP"\s*:\s*"(\d+)"', line)
    return int(stamp.group(1)) / 1e6 if stamp else None


def gather(
    trusted: Asked,
    loaded_version: str | None,
    simulated: bool | None,
    errors: list[str],
    ask: Callable[[str, float | None], Asked] = ask,
) -> KernelLog:
    """The Xids, None if nobody can know them, and when the driver was loaded.

    Args:
        trusted: commands that ask for what the kernel itself said.
        loaded_version: of the driver's module; None if it is not loaded.
        simulated: whether the driver is.
        errors: gets what went wrong.
        ask: starts the commands for another source.
    """
    source, asked = "kernel", trusted
    if simulated is True:
        for command in (trusted.words, trusted.first):
            command.first_line()  # ends it
        source, asked = "identifier", ask("identifier", None)
    # Status 1: no such message.
    late: list[str] = []
    text = asked.words.output(late, accept=(0, 1), timeout_s=LOG_TIMEOUT_S)
    oldest = asked.first.first_line()
    since = _time_of(oldest)
    if text is None and asked.words.late:
        since = time.time() - RECENT_S
        recent = ask(source, since)
        recent.first.first_line()  # ends it
        late.append(
            f"of the kernel's log, which is too large, only the last {RECENT_S // 3600} hours were looked at"
        )
        text = recent.words.output(late, accept=(0, 1))
    errors += late
    log = Log(source, since)
    if text is None:
        return KernelLog(log)
    xids, loaded_unix = parse_kernel_log(text)
    if not text.strip() and not oldest and loaded_version is not None:
        # The driver is loaded, but its messages are missing: the journal does not receive the kernel's.
        errors.append("the journal has no message of the kernel of this boot")
        return KernelLog(log, loaded_unix=loaded_unix)
    return KernelLog(
        log,
        xids=tuple(xids),
        sxids=tuple(parse_switch_log(text)),
        truncated=log_entries(text).unread > 0 or len(text.splitlines()) >= KERNEL_LOG_LINES,
        loaded_unix=loaded_unix,
    )
