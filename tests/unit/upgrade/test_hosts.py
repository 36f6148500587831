"""What is to become of one host."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace
from typing import Any

import pytest

from gpusmith.change.budget import Fleet
from gpusmith.change.ledger import FINISHED, State
from gpusmith.data import compatibility, models
from gpusmith.errors import Refusal
from gpusmith.names import HOLD, STAMP, UPGRADE
from gpusmith.preflight.words import Tables
from gpusmith.upgrade.hosts import STAMPED, Action, Asked, Look, Staging, Verdict, judge, origin
from gpusmith.wanted.node import Driver, NodeWanted, Operands
from tests.unit.records import divided_record, healthy_record
from tests.unit.upgrade.nodes import NEW, NOW, OLD, entry, node
from tests.unit.upgrade.test_disruption import daemon

TABLES = Tables(models.load(), compatibility.load())
AT = dt.datetime.fromisoformat(NOW)
ASKED = Asked(now=AT)


def look(row: dict[str, Any] | None = None, target: str = NEW, **more: Any) -> Look:
    """One of a healthy machine with OLD."""
    wanted = NodeWanted(name="gpu-1", gpu_model=more.pop("gpu_model", "h100-sxm"))
    given: dict[str, Any] = {"raw": healthy_record(), "wanted": wanted}
    return Look("gpu-1", row or node("gpu-1"), target, **given | more)


def verdict(of: Look, asked: Asked = ASKED) -> Verdict:
    return judge(of, Fleet.of([of.node] if of.node else [], {of.node_name: 0}, STAMPED), asked, TABLES)


def with_driver(version: str) -> dict[str, Any]:
    """A record of a machine that has that version."""
    raw = healthy_record()
    raw["module"] |= {"loaded_version": version, "installed_version": version}
    for name, package in raw["packages"].items():
        if package["version"] == f"{OLD}-1":
            raw["packages"][name] = {"version": f"{version}-1", "held": True}
    return raw


def refused(of: Look, asked: Asked = ASKED) -> Refusal:
    """The only reason."""
    found = verdict(of, asked)
    assert found.action is Action.REFUSE
    assert len(found.refusals) == 1
    assert found.reason == found.refusals[0].message
    return found.refusals[0]


def test_a_healthy_node_is_upgraded() -> None:
    assert verdict(look()) == Verdict(Action.UPGRADE)
    assert origin(look()) == OLD


def test_the_revision_is_told_only_where_it_is_the_difference() -> None:
    there = with_driver(NEW)
    assert origin(look(raw=there)) == NEW
    assert origin(look(target=f"{NEW}-1", raw=there)) == NEW
    assert origin(look(target=f"{NEW}-2", raw=there)) == f"{NEW}-1"


# --- left alone ------------------------------------------------------------------------------------------------------


def test_what_has_the_target_and_is_validated_with_it_is_left() -> None:
    there = look(node("gpu-1", stamp=NEW), raw=with_driver(NEW))
    assert verdict(there).action is Action.NONE
    assert verdict(look(node("gpu-1", stamp=NEW, cordoned=True), raw=with_driver(NEW))).action is Action.NONE
    assert verdict(look(node("gpu-1", stamp=OLD), raw=with_driver(NEW))).action is Action.UPGRADE
    assert verdict(look(node("gpu-1", stamp=NEW))).action is Action.UPGRADE
    half = with_driver(NEW)
    half["module"]["loaded_version"] = OLD
    assert verdict(look(node("gpu-1", stamp=NEW), raw=half)).action is Action.UPGRADE


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_persons_veto_is_respected(place: str) -> None:
    row = node("gpu-1", entry=entry(State.CHANGING))
    row["metadata"][place][HOLD] = ""
    found = verdict(look(row, raw=None))
    assert found.action is Action.SKIP
    assert HOLD in found.reason
    assert "'changing'" in found.reason


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cordoned": True}, "somebody else cordoned it"),
        ({"ready": False}, "out already: not Ready"),
        ({"tainted": True}, "out already: not validated"),
        ({"allocatable": 3}, "out already: 3 of 4 GPUs offered"),
    ],
)
def test_who_is_out_is_left_alone_and_named(changes: dict[str, Any], why: str) -> None:
    """A dead machine does not keep the others from being upgraded."""
    bad = (Refusal("connection: no answer.", "Start it."),)
    assert verdict(look(node("gpu-1", **changes), raw=None, refusals=bad)) == Verdict(Action.SKIP, why)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"cordoned": True}, "somebody else cordoned it"),
        ({"ready": False}, "out already: not Ready"),
        ({"tainted": True}, "out already: not validated"),
        ({"allocatable": 3}, "out already: 3 of 4 GPUs offered"),
    ],
)
def test_a_rollback_takes_who_is_out_and_says_so(changes: dict[str, Any], why: str) -> None:
    """It is for nodes that the driver broke."""
    back = replace(ASKED, rollback=True)
    row = node("gpu-1", stamp=NEW, **changes)
    there = look(row, target=OLD, raw=with_driver(NEW))
    assert verdict(there, back) == Verdict(Action.UPGRADE, why)
    # What was asked of it all the same: a machine that answers, that is the one, and that nobody holds.
    assert verdict(replace(there, raw=None), back) == Verdict(Action.SKIP, why)
    assert verdict(replace(there, strangers=(Refusal("another one."),)), back).action is Action.REFUSE
    row["metadata"]["labels"][HOLD] = ""
    assert verdict(there, back).action is Action.SKIP


# --- unfinished upgrades ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", State)
def test_an_unfinished_upgrade_is_resumed_whatever_else_is_wrong(state: State) -> None:
    row = node("gpu-1", cordoned=True, entry=entry(state, cordoned=True))
    found = verdict(look(row, refusals=(Refusal("repository: gone."),)))
    assert found.action is (Action.SKIP if state in FINISHED else Action.RESUME)
    assert origin(look(row, raw=None)) == ("" if state in FINISHED else OLD)


def test_an_unfinished_upgrade_to_something_else_is_refused_with_what_finishes_it() -> None:
    row = node("gpu-1", entry=entry(State.LOADED, target="590.10.01"))
    found = refused(look(row))
    assert "590.10.01 is 'loaded'" in found.message
    assert "gpu_upgrade_version=590.10.01" in found.hint
    assert "-l gpu-1" in found.hint
    assert verdict(look(row), replace(ASKED, rollback=True)).action is Action.RESUME


def test_a_driver_of_somebody_else_is_not_upgraded() -> None:
    wanted = NodeWanted(name="gpu-1", driver=Driver(owner="existing"))
    assert "'nvidia_driver_owner' is 'existing'" in refused(look(wanted=wanted)).message


@pytest.mark.parametrize("rollback", [False, True])
def test_a_node_in_another_change_is_refused(rollback: bool) -> None:
    row = node("gpu-1", entry=entry(State.LOADED, change="layout change"))
    found = verdict(look(row), replace(ASKED, rollback=rollback))
    assert found.action is Action.REFUSE
    assert "its layout change from" in found.reason


def test_another_machine_than_the_nodes_is_never_touched() -> None:
    """Two addresses that were swapped since the run was killed would have the wrong driver unloaded."""
    swapped = Refusal("Node 'gpu-1': the addresses of 'gpu-1' and 'gpu-2' are swapped.", "Correct it.")
    half = node("gpu-1", cordoned=True, entry=entry(State.CHANGING, cordoned=True))
    for row in (half, node("gpu-1"), node("gpu-1", cordoned=True)):
        assert refused(look(row, strangers=(swapped,))) == swapped


def test_a_machine_that_is_gone_is_not_resumed() -> None:
    assert "does not answer" in refused(look(node("gpu-1", entry=entry(State.LOADED)), raw=None)).message


def test_a_ledger_that_cannot_be_read_is_refused() -> None:
    row = node("gpu-1")
    row["metadata"]["annotations"][UPGRADE] = "[]"
    assert UPGRADE in refused(look(row)).message
    assert origin(look(row)) == OLD


def test_an_earlier_try_is_mentioned() -> None:
    row = node("gpu-1", entry=entry(State.ROLLED_BACK, run="r0", reason="no CUDA"))
    found = verdict(look(row))
    assert found.action is Action.UPGRADE
    assert found.reason == f"an earlier try ended 'rolled_back' at {NOW} (no CUDA)"


# --- refused ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["580", "latest", "", "580.x"])
def test_a_version_that_is_none_is_refused(target: str) -> None:
    assert f"'{target}'" in refused(look(target=target)).message
    assert "version" in refused(look(target=target, raw=None)).message


def test_of_a_branch_that_has_no_common_version_the_reason_is_told() -> None:
    why = Refusal(
        "driver version: none is offered to all nodes; allowed: one.", "Bring the repositories to one state."
    )
    assert refused(look(target="580", refusals=[why])) == why


def test_a_downgrade_is_refused_with_the_playbook_for_it() -> None:
    found = refused(look(target="570.10.01"))
    assert "'570.10.01'" in found.message
    assert f"'{OLD}'" in found.message
    assert "rollback_driver.yml" in found.hint
    assert verdict(look(target="570.10.01"), replace(ASKED, rollback=True)).action is Action.UPGRADE


def test_another_build_of_the_same_version_is_no_downgrade() -> None:
    assert verdict(look(target=OLD)).action is Action.NONE
    assert verdict(look(target=f"{OLD}-2")).action is Action.UPGRADE
    assert "downgrade" in refused(look(target=f"{OLD}-0")).message


def test_a_model_that_the_version_does_not_support_is_refused() -> None:
    raw = with_driver("470.10.01")
    found = verdict(look(target="515.43.04", raw=raw)).refusals
    assert "h100-sxm" in found[0].message
    assert "gpu_upgrade_version" in found[0].hint
    assert "h100-sxm" in refused(look(target="515.43.04", raw=raw, gpu_model="")).message
    # A V100 that the inventory does not name.
    for gpu in raw["pci"]["gpus"]:
        gpu["device_id"] = "10de:1df6"
    assert "'10de:1df6' (volta)" in refused(look(target="590.48.01", raw=raw, gpu_model="")).message


def test_a_module_that_only_a_reboot_unloads_is_refused_unless_reboots_are_allowed() -> None:
    there = look(kept=["nvidia_drm"])
    found = refused(there)
    assert "the kernel itself uses 'nvidia_drm'" in found.message
    assert "gpu_upgrade_reboot: if_needed" in found.hint
    assert verdict(there, replace(ASKED, reboots=True)).action is Action.UPGRADE
    assert verdict(look()).action is Action.UPGRADE


def test_mig_is_refused() -> None:
    raw = healthy_record()
    raw["nvml"]["gpus"][1]["mig_mode"] = "enabled"
    assert "MIG" in refused(look(raw=raw)).message


def test_a_machine_that_gpusmith_divided_is_upgraded() -> None:
    assert verdict(look(raw=divided_record())).action is Action.UPGRADE


def test_a_machine_without_a_driver_is_refused() -> None:
    raw = healthy_record()
    raw["packages"] = {}
    assert "no package" in refused(look(raw=raw)).message


@dataclass(frozen=True)
class Process:
    """A process that uses the driver."""

    pod_uid: str | None
    words: str = "process 1"


def test_daemon_sets_of_others_are_refused_with_what_lets_them_leave() -> None:
    found = refused(look(pods=[daemon(runtimeClassName="nvidia")]))
    assert "'monitoring/agent'" in found.message
    assert "gpusmith.io/operands: enabled" in found.hint
    assert verdict(look(pods=[daemon()])).action is Action.UPGRADE
    theirs = [daemon(runtimeClassName="gpu")]
    assert verdict(look(pods=theirs)).action is Action.UPGRADE
    named = NodeWanted(name="gpu-1", operands=Operands(runtime_class="gpu"))
    assert "'monitoring/agent'" in refused(look(pods=theirs, wanted=named)).message
    assert verdict(look(pods=[daemon()], users=[Process("uid-agent-x")])).action is Action.REFUSE


def test_hosts_that_do_not_answer_or_are_no_nodes_are_refused() -> None:
    assert "does not answer" in refused(look(raw=None)).message
    bad = Refusal("connection: key changed.", "Look.")
    assert refused(look(raw=None, refusals=(bad,))) == bad
    assert "no such node" in refused(replace(look(), node=None)).message


def test_everything_is_told_at_once_and_once() -> None:
    raw = healthy_record()
    raw["nvml"]["gpus"][1]["mig_mode"] = "enabled"
    first = verdict(look(target="570.10.01", raw=raw)).refusals
    other = Refusal("repository: no such version.", "Look.")
    found = verdict(look(target="570.10.01", raw=raw, refusals=(*first, other))).refusals
    assert found == (*first, other)
    assert len(first) == 2


# --- staging first ---------------------------------------------------------------------------------------------------

YESTERDAY, MORNING = "2026-11-21T11:00:00Z", "2026-11-22T10:00:00Z"


def staged(**changes: Any) -> Asked:
    row = node("stage-1", **{"stamp": NEW, "since": YESTERDAY} | changes)
    return replace(ASKED, staging=Staging("staging", {"stage-1": row}, 24))


def test_a_version_that_served_in_staging_may_go_on() -> None:
    assert verdict(look(), staged()).action is Action.UPGRADE


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"since": MORNING}, "has it for 2.0 hours"),
        ({"stamp": OLD}, f"is validated with {OLD}"),
        ({"stamp": ""}, "is not validated"),
        ({"entry": entry(State.VALIDATING)}, "is not finished"),
    ],
)
def test_a_version_that_did_not_is_refused(changes: dict[str, Any], why: str) -> None:
    found = refused(look(), staged(**changes))
    assert f"'stage-1' {why}" in found.message
    assert "24 hours" in found.message


def test_every_node_of_the_group_counts() -> None:
    asked = staged()
    more = {**asked.staging.nodes, "stage-2": None}
    assert (
        "'stage-2' is not in the cluster"
        in refused(look(), replace(asked, staging=replace(asked.staging, nodes=more))).message
    )
    assert "has no GPU nodes" in refused(look(), replace(ASKED, staging=Staging("staging"))).message


def test_the_time_of_the_last_validation_is_not_the_age() -> None:
    row = node("stage-1")
    stamp = f'{{"driver": "{NEW}", "time": "{MORNING}", "since": "{YESTERDAY}"}}'
    row["metadata"]["annotations"][STAMP] = stamp
    assert (
        verdict(look(), replace(ASKED, staging=Staging("staging", {"stage-1": row}))).action is Action.UPGRADE
    )


def test_staging_itself_need_not_wait_and_a_rollback_neither() -> None:
    early = staged(since=MORNING)
    itself = replace(early, staging=replace(early.staging, nodes={"gpu-1": node("gpu-1")}))
    assert verdict(look(), itself).action is Action.UPGRADE
    assert verdict(look(), replace(early, rollback=True)).action is Action.UPGRADE
