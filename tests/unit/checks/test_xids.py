"""Xids: what they mean, which of them fail a node, and a log that cannot tell."""

from __future__ import annotations

import pytest

from gpusmith.checks import xids as check
from gpusmith.checks.findings import NotApplicable
from gpusmith.data import xids
from tests.faults.fault import ADDRESS, UUID, Record
from tests.faults.health import xid
from tests.unit.checks.judged import RECORD_CHECKS, Facts, failing

APPLICATIONS = (13, 31, 43, 45, 68, 109)
XIDS = (48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120, 140, 154)


@pytest.mark.parametrize("code", [*XIDS, 1, 8, 999])
def test_no_xid_of_a_gpu_passes_by_itself(code: int, facts: Facts, record: Record) -> None:
    xid(code)(record)
    assert f"GPU 1 ({UUID}, {ADDRESS}) reported Xid {code} " in failing(facts(record))["nodes.xid"]


@pytest.mark.parametrize(
    ("code", "says", "next_step"),
    [
        (8, "application level", "'validation_accepted_xids'"),
        (48, "GPU memory", "nodes.row-remap"),
        (64, "could not be remapped", "board replaced"),
        (74, "NVLink", "nvlink --status"),
        (79, "fallen off the bus", "reboot it, a reset of the GPU is not enough"),
        (119, "GSP", "nvidia-bug-report.sh"),
        (999, "unknown to data/xid.yml", "NVIDIA's Xid catalog"),
    ],
)
def test_xid_says_what_it_is_and_what_to_do(
    code: int, says: str, next_step: str, facts: Facts, record: Record
) -> None:
    xid(code)(record)
    (problem,) = RECORD_CHECKS["nodes.xid"](facts(record))
    assert says in problem.cause
    assert next_step in problem.next_step
    assert "'gpu-1'" in problem.next_step or code == 999
    assert "{" not in problem.next_step


def test_every_xid_that_is_likely_has_a_meaning() -> None:
    assert all(xids.load().of(code).meaning for code in (*APPLICATIONS, *XIDS))


@pytest.mark.parametrize("code", APPLICATIONS)
def test_what_applications_do_is_shown_and_fails_no_node(code: int, facts: Facts, record: Record) -> None:
    xid(code)(record)
    assert failing(facts(record)) == {}
    (note,) = check.xid_evidence(facts(record))["notes"]
    assert f"GPU 1 ({UUID}, {ADDRESS}) reported Xid {code}: " in note
    # Who wants to know of each says so.
    assert f"Xid {code} " in failing(facts(record, validation_accepted_xids=[]))["nodes.xid"]


def test_accepted_xids_stay_in_the_evidence(facts: Facts, record: Record) -> None:
    for code in (31, 31, 13):
        xid(code)(record)
    of = facts(record, validation_accepted_xids=[13, 31])
    assert check.xid(of) == []
    assert [
        (row["code"], row["count"], row["accepted"], UUID in row["gpu"])
        for row in check.xid_evidence(of)["xids"]
    ] == [(13, 1, True, True), (31, 2, True, True)]


def test_a_pass_says_since_when_and_from_where_the_log_is(facts: Facts, record: Record) -> None:
    record["log"]["begins_unix"] = 50.0
    of = facts(record)
    assert check.xid(of) == []
    evidence = check.xid_evidence(of)
    assert (evidence["log_has_driver_load"], evidence["log_begins_unix"], evidence["log_source"]) == (
        True,
        50.0,
        "identifier",
    )
    assert "notes" not in evidence


@pytest.mark.parametrize(
    ("begins", "says"),
    [(50.0, "begins on 1970-01-01 at 00:00:50 UTC, after the driver"), (None, "begins at an unknown time,")],
)
def test_a_log_that_is_younger_than_the_driver_is_no_pass(
    begins: float | None, says: str, facts: Facts, record: Record
) -> None:
    record["log"]["begins_unix"] = begins
    record["module"]["loaded_unix"] = None
    assert says in failing(facts(record))["nodes.xid"]
    with pytest.raises(NotApplicable, match="validation_xid_history_required"):
        check.xid(facts(record, validation_xid_history_required=False))
    # What it accepts is the gap, and no Xid.
    xid(79)(record)
    assert "Xid 79" in failing(facts(record, validation_xid_history_required=False))["nodes.xid"]
    assert "Xid 79" in failing(facts(record))["nodes.xid"]


def test_where_no_driver_is_loaded_the_log_need_not_tell_of_a_load(facts: Facts, record: Record) -> None:
    record["module"].update(loaded_unix=None, loaded_version=None)
    assert check.xid(facts(record)) == []


def test_a_log_that_was_cut_off_is_said_once(facts: Facts, record: Record) -> None:
    record["xids_truncated"] = True
    record["module"]["loaded_unix"] = None
    (problem,) = check.xid(facts(record))
    assert "youngest" in problem.cause


def test_a_log_that_any_user_can_write_proves_nothing_about_a_real_node(facts: Facts, record: Record) -> None:
    record["library"]["simulated"] = False
    found = failing(facts(record, gpusmith_simulated=False))
    assert list(found) == ["nodes.xid"]
    assert "any user can write" in found["nodes.xid"]
    record["log"]["source"] = "kernel"
    assert failing(facts(record, gpusmith_simulated=False)) == {}


def test_an_accepted_flood_hides_no_other_xid(facts: Facts, record: Record) -> None:
    xid(31)(record)
    record["xids_truncated"] = True
    assert (
        "only the youngest 1 were read" in failing(facts(record, validation_accepted_xids=[31]))["nodes.xid"]
    )


def test_accepted_xid_passes(facts: Facts, record: Record) -> None:
    xid(31)(record)
    assert failing(facts(record, validation_accepted_xids=[31])) == {}


def test_unreadable_log_is_no_pass(facts: Facts, record: Record) -> None:
    record["xids"] = None
    record["errors"] = ["xids: journalctl ended with status 1"]
    assert "could not be read" in failing(facts(record))["nodes.xid"]
