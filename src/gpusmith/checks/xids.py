"""Checks of the nodes tier on what the kernel's log says of the GPUs: Xids since the driver was loaded."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from gpusmith.checks.findings import NotApplicable
from gpusmith.checks.register import check
from gpusmith.node.facts import NodeFacts
from gpusmith.probe.record import Record
from gpusmith.problems import Problem


def _reports(record: Record) -> dict[tuple[str, int], int]:
    """How often a GPU reported a code, by its address and the code."""
    return dict(sorted(Counter((row.pci, row.code) for row in record.xids or ()).items()))


def xid_evidence(facts: NodeFacts) -> dict[str, Any]:
    """All Xids, also those that an inventory accepts: a pass does not hide them."""
    record, accepted = facts.record, facts.host.validation.accepted_xids
    reports = _reports(record)
    notes = [
        f"{record.gpu_at(address)} reported Xid {code}{_times(count)}: {facts.xids.of(code).words};"
        " 'validation_accepted_xids' accepts it"
        for (address, code), count in reports.items()
        if code in accepted
    ]
    return {
        "xids": [
            {"gpu": record.gpu_at(address), "code": code, "count": count, "accepted": code in accepted}
            for (address, code), count in reports.items()
        ],
        **({"notes": notes} if notes else {}),
        # Without it the log begins later than the driver, and older Xids cannot be known.
        "log_has_driver_load": record.module.loaded_unix is not None,
        "log_begins_unix": record.log.begins_unix,
        "log_source": record.log.source,
    }


def _times(count: int) -> str:
    return "" if count == 1 else f" {count} times"


def _late(record: Record) -> str:
    """When the log begins, if that is after the driver was loaded; empty if it has the load, or no driver is loaded.

    Every load of the module says so ('NVRM: loading NVIDIA UNIX ...'): a log without these words has lost its beginning.
    """
    if record.module.loaded_version is None or record.module.loaded_unix is not None or record.xids_truncated:
        return ""
    if record.log.begins_unix is None:
        return "at an unknown time"
    return f"on {datetime.fromtimestamp(record.log.begins_unix, UTC):%Y-%m-%d at %H:%M:%S} UTC"


def _no_log(facts: NodeFacts) -> list[Problem]:
    """Why there is no log that could be trusted."""
    record, node = facts.record, facts.host.name
    if record.xids is None:
        return [
            Problem(
                f"Node '{node}': the kernel's log could not be read: {'; '.join(record.errors)}.",
                f"Look at 'journalctl -b' on '{node}'.",
            )
        ]
    if record.log.source != "kernel" and not (record.log.source == "identifier" and record.library.simulated):
        return [
            Problem(
                f"Node '{node}': the messages do not come from the kernel itself, any user can write such a log.",
                f"Look at 'journalctl -b _TRANSPORT=kernel' on '{node}'.",
                {"log_source": record.log.source},
            )
        ]
    return []


def _cut_log(facts: NodeFacts) -> list[Problem]:
    """What keeps the log from telling all Xids."""
    record, node = facts.record, facts.host.name
    if record.xids_truncated:
        return [
            Problem(
                f"Node '{node}': the kernel's log has so many Xids, or some in no form that can be read, that only the youngest"
                f" {len(record.xids or ())} were read.",
                f"Look at 'journalctl -b -k -g Xid' on '{node}' for the others.",
                {"xids_read": len(record.xids or ())},
            )
        ]
    begins = _late(record)
    if begins and facts.host.validation.xid_history_required:
        return [
            Problem(
                f"Node '{node}': the kernel's log begins {begins}, after the driver was loaded: older Xids are unknown.",
                f"Let the journal of '{node}' keep more (a folder '/var/log/journal', 'SystemMaxUse' in journald.conf), drain the"
                " node and reboot it; until then, set 'validation_xid_history_required: false'.",
            )
        ]
    return []


@check(
    "nodes.xid",
    place=120,
    proves="the kernel module reported no Xid since it was loaded, except those of applications",
    fails_when=(
        "there is an Xid that 'validation_accepted_xids' does not accept, or the kernel log cannot be trusted or begins"
        " too late"
    ),
    do="the finding says what the code requires: how to find the application, or drain, reset, reboot, replace",
    evidence=xid_evidence,
    explained_by=("nodes.simulation-witnesses",),
)
def xid(facts: NodeFacts) -> list[Problem]:
    """No Xid in the kernel's log since the module was loaded, but for codes that the inventory accepts."""
    record, node = facts.record, facts.host.name
    unknown = _no_log(facts)
    if unknown:
        return unknown
    problems = _cut_log(facts)
    for (address, code), count in _reports(record).items():
        if code in facts.host.validation.accepted_xids:
            continue
        last = [row for row in record.xids or () if (row.pci, row.code) == (address, code)][-1]
        meaning = facts.xids.of(code)
        problems.append(
            Problem(
                f"Node '{node}': {record.gpu_at(address)} reported Xid {code}{_times(count)} since the driver was loaded:"
                f" {meaning.words}.",
                meaning.next_step(node),
                {
                    f"xid_{code}_{address}": {
                        "count": count,
                        "class": meaning.kind.name,
                        "nvidia_action": meaning.action or None,
                        "message": last.message,
                        "time_unix": last.time_unix,
                    }
                },
            )
        )
    begins = _late(record)
    if begins and not problems:
        raise NotApplicable(
            f"Node '{node}': not applicable: the kernel's log begins {begins}, after the driver was loaded, which the inventory"
            " accepts (validation_xid_history_required); it has no Xid."
        )
    return problems
