from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gpusmith.probe import log


def _log(message: object, seconds: int, since_boot: int | None = None) -> str:
    """A line of journalctl; the boot's own clock says the same, if nothing else is said."""
    own = str((seconds if since_boot is None else since_boot) * 1_000_000)
    stamps = {"__REALTIME_TIMESTAMP": str(seconds * 1_000_000), "__MONOTONIC_TIMESTAMP": own}
    return json.dumps({"MESSAGE": message, **stamps}) + "\n"


LOST = "NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."


LOADING = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.178.04  Release Build"


def test_xids_are_read_with_their_gpu() -> None:
    xids, loaded = log.parse_kernel_log(_log(LOST, 5) + "no json\n" + _log([1, 2], 6))
    assert [(xid.code, xid.pci, xid.time_unix) for xid in xids] == [(79, "0000:18:00.0", 5.0)]
    assert loaded is None


def test_xids_from_before_the_driver_was_loaded_are_history() -> None:
    xids, loaded = log.parse_kernel_log(_log(LOADING, 3) + _log(LOST, 5) + _log(LOADING, 7) + _log(LOST, 9))
    assert [xid.time_unix for xid in xids] == [9.0]
    assert loaded == 7.0


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    """systemd#41267: the driver was loaded with the hardware clock in local time, nine hours ahead."""
    before, load, after = _log(LOST, 1, 1), _log(LOADING, 32400, 15), _log(LOST, 3600, 3600)
    # The youngest comes first with '-g' and '-n', and did not in older releases.
    assert log.parse_kernel_log(after + load + before) == log.parse_kernel_log(before + load + after)
    xids, loaded = log.parse_kernel_log(after + load + before)
    assert [(xid.code, xid.time_unix) for xid in xids] == [(79, 3600.0)]
    assert loaded == 32400.0
    fatal = "nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 24 LTSSM Fault Up"
    assert [row.code for row in log.parse_switch_log(_log(fatal, 3600, 3600) + _log(LOADING, 32400, 15))] == [
        20034
    ]


def test_what_is_not_utf8_is_read_and_what_cannot_be_read_is_said() -> None:
    """A process name of 15 bytes may end in the middle of a character: journalctl writes the message as bytes."""
    cut = list(b"NVRM: Xid (PCI:0000:18:00): 48, pid=7, name=\xe5\xad, DBE")
    xids, _ = log.parse_kernel_log(_log(cut, 5))
    assert [xid.code for xid in xids] == [48]
    assert log.log_entries(_log(cut, 5) + "\n").unread == 0
    for line in (_log(None, 6), _log([300], 6), "no json\n", _log({"a": 1}, 6)):
        assert log.log_entries(_log(LOST, 5) + line).unread == 1
    assert "-a" in log.log_words("kernel")[0], "a long message comes as null without it"


@pytest.mark.parametrize(
    ("place", "pci"),
    [
        ("PCI:0000:01:00 GPU-I:05 GPU-CI:00", "0000:01:00.0"),
        ("PCI:0000:01:00 GPU-I:05", "0000:01:00.0"),
        ("PCI:0008:81:00", "0008:81:00.0"),
        ("0000:01:00", "0000:01:00.0"),
    ],
)
def test_xids_of_mig_instances_and_of_older_drivers_are_read(place: str, pci: str) -> None:
    line = f"NVRM: Xid ({place}): 94, pid=7, name=python3, Contained: SM (0x1). RST: No, D-RST: No"
    xids, _ = log.parse_kernel_log(_log(line, 5))
    assert [(xid.code, xid.pci) for xid in xids] == [(94, pci)]


def test_fatal_errors_of_nvswitches_are_read() -> None:
    fatal = "nvidia-nvswitch3: SXid (PCI:0000:c5:00.0): 20034, Fatal, Link 24 LTSSM Fault Up"
    mild = "nvidia-nvswitch4: SXid (PCI:0000:c6:00.0): 19084, Non-fatal, Link 29 AN1 Heartbeat Timeout Error (First)"
    found = log.parse_switch_log(
        _log(fatal, 3) + _log(LOADING, 5) + _log(fatal, 7) + _log(mild, 8) + "no json\n"
    )
    assert [(row.pci, row.code, row.fatal, row.time_unix) for row in found] == [
        ("0000:c5:00.0", 20034, True, 7.0), ("0000:c6:00.0", 19084, False, 8.0),
    ]  # fmt: skip


class Said:
    """A command that has ended."""

    def __init__(self, text: str | None, late: bool = False) -> None:
        self.text, self.late = text, late
        self.timeout_s = 0.0

    def output(self, errors: list[str], accept: object = None, timeout_s: float = 10.0) -> str | None:
        self.timeout_s = timeout_s
        if self.text is None:
            errors.append("'journalctl -b' ended with status 2")
        return self.text

    def first_line(self) -> str:
        return (self.text or "").partition("\n")[0]


def kernel_log(
    words: str | None,
    kernel: str,
    loaded: str | None = "580.178.04",
    forgeable: str | None = None,
    simulated: bool | None = False,
) -> tuple[log.KernelLog, list[str]]:
    errors: list[str] = []

    def ask(source: str, since_unix: float | None) -> Any:
        trusted = source == "kernel"
        return log.Asked(
            Said(words if trusted else forgeable),  # type: ignore[arg-type]
            Said(kernel if trusted else forgeable),  # type: ignore[arg-type]
        )

    return log.gather(ask("kernel", None), loaded, simulated, errors, ask), errors


def test_a_kernel_log_that_nobody_keeps_is_no_log_without_xids() -> None:
    assert kernel_log("", "")[0].xids is None
    assert "no message of the kernel" in kernel_log("", "")[1][0]
    assert kernel_log(None, "x")[0].xids is None
    kept = kernel_log("", _log("EXT4-fs mounted", 3))[0]
    assert kept == log.KernelLog(log.Log("kernel", 3.0), xids=(), sxids=(), truncated=False)
    assert kernel_log("", "", loaded=None)[0].xids == ()


def test_a_flood_of_xids_says_that_some_were_not_read() -> None:
    assert kernel_log(_log(LOST, 5) * log.KERNEL_LOG_LINES, "x")[0].truncated is True


def test_only_a_simulated_node_may_have_its_log_from_who_calls_himself_kernel() -> None:
    booted, forged = _log("EXT4-fs mounted", 1), _log(LOADING, 9)
    real = kernel_log(_log(LOST, 5), booted, forgeable=forged)[0]
    assert [xid.code for xid in real.xids or ()] == [79]
    assert real.log.source == "kernel"
    said = kernel_log("", "", forgeable=_log(LOST, 9), simulated=True)[0]
    assert [xid.code for xid in said.xids or ()] == [79]
    assert said.log == log.Log("identifier", 9.0)
    # Nobody knows whether they are simulated: what anyone can write does not count.
    assert kernel_log("", "", forgeable=forged, simulated=None)[0].xids is None


def test_the_journal_is_asked_for_what_the_kernel_itself_said() -> None:
    words = [log.log_words(source) for source in ("kernel", "identifier")]
    assert all("_TRANSPORT=kernel" in part for part in words[0])
    assert all("SYSLOG_IDENTIFIER=kernel" in part for part in words[1])
    assert not any("SYSLOG_IDENTIFIER=kernel" in part for part in words[0])


@pytest.mark.parametrize("readable", [True, False])
def test_of_a_log_that_is_too_large_what_is_recent_is_read(readable: bool) -> None:
    asked: list[tuple[str, float | None]] = []
    recent = Said(_log(LOST, 9) if readable else None)

    def again(source: str, since_unix: float | None) -> Any:
        asked.append((source, since_unix))
        return log.Asked(recent, Said(""))  # type: ignore[arg-type]

    errors: list[str] = []
    whole = Said(None, late=True)
    trusted = log.Asked(whole, Said(_log("booted", 1)))  # type: ignore[arg-type]
    found = log.gather(trusted, "580.178.04", False, errors, again)
    ((source, since),) = asked
    assert source == "kernel"
    assert since is not None
    assert abs(time.time() - log.RECENT_S - since) < 60
    assert whole.timeout_s == log.LOG_TIMEOUT_S
    assert found.log == log.Log("kernel", since)
    assert "only the last 6 hours" in errors[1]
    assert [xid.code for xid in found.xids or ()] == ([79] if readable else [])
    assert (found.xids is None) is not readable


def test_a_log_that_cannot_be_read_is_not_asked_again() -> None:
    found, errors = kernel_log(None, _log("booted", 1))
    assert (found.xids, found.log, errors) == (
        None, log.Log("kernel", 1.0), ["'journalctl -b' ended with status 2"],
    )  # fmt: skip


def test_a_part_of_the_log_is_asked_for_by_time() -> None:
    assert all("--since=@1700000000" in part for part in log.log_words("kernel", 1700000000.4))
    assert not any("--since" in word for part in log.log_words("kernel") for word in part)
