"""What is to become of one host: whether it goes, stays, or is refused, and why."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from gpusmith.built import key as keys
from gpusmith.built.key import Key
from gpusmith.change import ledger as ledgers
from gpusmith.change.budget import Fleet, Member
from gpusmith.change.ledger import State, Unreadable
from gpusmith.cluster.api import Object
from gpusmith.cluster.dra import NO_CLAIMS, Claims
from gpusmith.cluster.stamps import read_stamp, validated_since
from gpusmith.data.operands import EXISTING
from gpusmith.errors import GpusmithError, Refusal
from gpusmith.expect import driver_needs, packages
from gpusmith.expect import wanted as wants
from gpusmith.expect.versions import FULL_DRIVER, is_older, is_open, is_version, numbers, upstream
from gpusmith.names import FIRST_CHANGE, HOLD, OPERANDS_LABEL, OPERANDS_NAMESPACE, OPERANDS_ON
from gpusmith.node.records import parse
from gpusmith.preflight.machine import check_mig
from gpusmith.preflight.versions import check_driver
from gpusmith.preflight.words import Tables, Wanted, refusal
from gpusmith.probe.record import Record
from gpusmith.upgrade.disruption import daemon_sets
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted

VARIABLE = "gpu_upgrade_version"
STAMPED = "driver"
"""Where a stamp has the driver with which a node was validated."""


class User(Protocol):
    """A process that uses the driver."""

    @property
    def pod_uid(self) -> str | None:
        """Of its pod."""

    @property
    def words(self) -> str:
        """How messages name it."""


@dataclass(frozen=True)
class Look:
    """What was found out about one host of `-l`.

    Attributes:
        name: in the inventory.
        node: its Node object, None if the cluster has none.
        target: version that it is to get.
        raw: the probe's record, None if the machine did not answer.
        wanted: what the inventory wants of it.
        pods: on the node, all of them.
        claims: of pods.
        users: processes that use the driver, without services that the upgrade stops itself.
        kept: modules of the driver that the kernel itself uses, so that only a reboot unloads them.
        refusals: of others who looked, such as preflight; an upgrade that was begun is finished in spite of them.
        strangers: why it is not the machine of that Node, or may not be.
    """

    name: str
    node: Object | None
    target: str
    raw: Mapping[str, Any] | None = None
    wanted: NodeWanted = field(default_factory=lambda: NodeWanted(name=""))
    pods: Sequence[Object] = ()
    claims: Claims = NO_CLAIMS
    users: Sequence[User] = ()
    kept: Sequence[str] = ()
    refusals: Sequence[Refusal] = ()
    strangers: Sequence[Refusal] = ()

    @property
    def node_name(self) -> str:
        """Of its Node object."""
        return str(self.node["metadata"]["name"]) if self.node else self.name

    @property
    def reboot(self) -> str:
        """Why it has to be rebooted; empty if it need not, as far as can be told."""
        return f"the kernel itself uses {quoted(self.kept)}" if self.kept else ""

    @property
    def pod_uids(self) -> frozenset[str]:
        """Pods whose processes use the driver."""
        return frozenset(user.pod_uid for user in self.users if user.pod_uid)

    @property
    def builds(self) -> Key | None:
        """Of the modules for the running kernel, where one node builds them for several; None elsewhere."""
        if self.raw is None or not self.wanted.driver.builds_once:
            return None
        record = parse(self.raw)
        try:
            kind = driver_needs.flavour(record, self.driver)
            layout = self.wanted.driver.package_layout
            return keys.of(record, record.host.kernel or "", upstream(self.target), kind, layout)
        except GpusmithError:
            # Others say what is wrong with it.
            return None

    @property
    def run(self) -> Wanted:
        """What the upgrade is to make of it, for the checks of preflight."""
        return Wanted(self.wanted.with_driver(self.target), driver_only=True, driver_variable=VARIABLE)

    @property
    def driver(self) -> wants.Driver:
        """The target, for judges."""
        model = wants.all_models(self.wanted).get(self.wanted.gpu_model)
        return wants.driver_of(self.wanted, model, node=self.name, version=self.target)


@dataclass(frozen=True)
class Staging:
    """Nodes on which the version has to serve first.

    Attributes:
        group: of the inventory; empty if none is asked for.
        nodes: its hosts with their Node objects, None for one that the cluster does not have.
        hours: how long the version must have been validated on all of them.
    """

    group: str = ""
    nodes: Mapping[str, Object | None] = field(default_factory=dict)
    hours: float = 24.0


@dataclass(frozen=True)
class Asked:
    """What was asked for.

    Attributes:
        now: the time.
        namespace: of our operands.
        rollback: older versions are what is wanted, and an unfinished upgrade is brought back.
        reboots: nodes may be rebooted.
        staging: where the version has to serve first.
    """

    now: dt.datetime
    namespace: str = OPERANDS_NAMESPACE
    rollback: bool = False
    reboots: bool = False
    staging: Staging = field(default_factory=Staging)


class Action(StrEnum):
    """What becomes of a host."""

    UPGRADE = "upgrade"
    CHANGE = "change"
    RESUME = "resume"
    SKIP = "skip"
    NONE = "none"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a host, why, and what it is refused for."""

    action: Action
    reason: str = ""
    refusals: tuple[Refusal, ...] = ()


def refuse(*found: Refusal) -> Verdict:
    """With all reasons."""
    return Verdict(Action.REFUSE, "; ".join(row.message for row in found), found)


SILENT = refusal(
    "connection", "the machine does not answer", "an answer by ssh", "Start it, or leave it out with -l."
)
ABSENT = refusal(
    "node",
    "the cluster has no such node",
    "nodes of the cluster",
    "Bring it in with site.yml, or leave it out with -l.",
)

OF_OTHERS = refusal(
    "owner of the driver",
    f"'nvidia_driver_owner' is '{EXISTING}'",
    "a driver that site.yml installed",
    "Upgrade it with the tool that brought it, or leave the node out with -l.",
)


def judge(look: Look, fleet: Fleet, asked: Asked, tables: Tables) -> Verdict:
    """What becomes of a host. One that is left alone need not be fit for an upgrade.

    Args:
        look: what was found out.
        fleet: all GPU nodes of the inventory.
        asked: what was asked for.
        tables: what is known of GPU models and of versions.
    """
    if asked.rollback and not look.target:
        return Verdict(Action.NONE, "it remembers no driver from before an upgrade")
    if not FULL_DRIVER.match(look.target):
        # Of a branch that nobody could choose a version of, preflight says why.
        return refuse(*(look.refusals if is_open(look.target) else ()) or _of_version(look, None, tables))
    if look.node is None or look.node_name not in fleet.members:
        return refuse(ABSENT)
    if look.strangers:
        return refuse(*look.strangers)
    if look.wanted.driver.owner == EXISTING:
        return refuse(OF_OTHERS)
    record = parse(look.raw) if look.raw is not None else None
    half_done = ledgers.unfinished(look.node)
    if ledgers.is_held(look.node):
        return Verdict(Action.SKIP, f"'{HOLD}' is on it" + (f"; {half_done}" if half_done else ""))
    if half_done:
        return _half_done(look, half_done, asked.rollback)
    member = fleet[look.node_name]
    if record and _has(record, look) and member.validated(look.target) and member.out in ("", "cordoned"):
        return Verdict(Action.NONE, "it has that version, validated")
    out = _out(member)
    # A rollback is for nodes that do not work.
    if out and (record is None or not asked.rollback):
        return Verdict(Action.SKIP, out)
    if record is None:
        return refuse(*(look.refusals or [SILENT]))
    found = [*_of_machine(look, record, asked, tables), *_of_staging(look, asked)]
    known = {row.message for row in found}
    found += [row for row in look.refusals if row.message not in known]
    if found:
        return refuse(*found)
    return Verdict(Action.UPGRADE, "; ".join(filter(None, (out, _history(member, look.target)))))


def origin(look: Look) -> str:
    """The version that a host has, or had before an upgrade that is not finished; empty if nobody knows."""
    entry = _entry(look)
    if entry is not None and not entry.finished:
        return entry.origin
    installed = _installed(look)
    return installed[-1] if installed else ""


def _entry(look: Look) -> ledgers.Ledger | None:
    try:
        return ledgers.read(look.node or {})
    except Unreadable:
        return None


def _half_done(look: Look, words: str, rollback: bool) -> Verdict:
    entry = _entry(look)
    if entry is None:
        return refuse(
            refusal("upgrade", words, "a ledger that this release reads", "Use the release that wrote it.")
        )
    if entry.change != FIRST_CHANGE:
        return refuse(
            refusal("unfinished change", words, "no other change", f"Finish its {entry.change} first.")
        )
    if entry.target != look.target and not rollback:
        forward = (
            f"upgrade_driver.yml and '-e {VARIABLE}={entry.target}', or take it back with rollback_driver.yml"
        )
        finish = "rollback_driver.yml" if entry.rollback else forward
        step = f"Finish it with {finish}, with '-l {look.name}'; or leave the node out."
        return refuse(refusal("unfinished upgrade", words, f"one to '{look.target}'", step))
    return refuse(*(look.refusals or [SILENT])) if look.raw is None else Verdict(Action.RESUME, words)


def _out(member: Member) -> str:
    if member.out == "cordoned":
        return "somebody else cordoned it"
    return f"out already: {member.out}" if member.out else ""


def _history(member: Member, target: str) -> str:
    """What became of earlier tries."""
    entry = member.ledger
    if entry is None or entry.target != target or entry.state is State.DONE:
        return ""
    return f"an earlier try ended '{entry.state}' at {entry.since}" + (
        f" ({entry.reason})" if entry.reason else ""
    )


# --- versions ------------------------------------------------------------------------------------------------------


def _installed(look: Look) -> list[str]:
    """Versions of the driver on the machine, the newest last."""
    if look.raw is None:
        return []
    record = parse(look.raw)
    there = {*packages.of_driver(record, look.driver).values()}
    there = {packages.plain(version, look.target) for version in there}
    return sorted(there or {record.module.loaded_version or ""} - {""}, key=numbers)


def _has(record: Record, look: Look) -> bool:
    """Whether packages and loaded module are of the target."""
    there = packages.of_driver(record, look.driver)
    return (
        bool(there)
        and not packages.outdated(record, look.driver)
        and is_version(record.module.loaded_version, upstream(look.target))
    )


def _of_version(look: Look, record: Record | None, tables: Tables) -> Iterator[Refusal]:
    """The version is one, and every GPU model of the machine can have it."""
    facts = {
        "repositories": {},
        "record": {key: (look.raw or {}).get(key) for key in ("pci", "nvml")} if record else None,
    }
    yield from check_driver(facts, look.run, tables)


def _of_machine(look: Look, record: Record, asked: Asked, tables: Tables) -> Iterator[Refusal]:
    yield from _of_version(look, record, tables)
    installed = _installed(look)
    if not packages.of_driver(record, look.driver):
        yield refusal(
            "driver", "no package of it is installed", "a driver that site.yml installed", "Run site.yml."
        )
    if not asked.rollback and any(is_older(look.target, version) for version in installed):
        yield refusal(
            "downgrade",
            f"'{look.target}' on a machine that has '{installed[-1]}'",
            "the same version or a newer one",
            "rollback_driver.yml goes back to the version before the last upgrade.",
        )
    if look.reboot and not asked.reboots:
        yield refusal(
            "reboot",
            f"{look.reboot}, so only a reboot unloads the driver",
            "modules that can be unloaded",
            "Allow reboots with 'gpu_upgrade_reboot: if_needed', or take the console off the GPU.",
        )
    yield from check_mig({"record": look.raw}, look.run, tables)
    of_class = look.wanted.operands.runtime_class
    for title in daemon_sets(look.pods, look.claims, asked.namespace, look.pod_uids, of_class):
        yield refusal(
            "GPU DaemonSet of others",
            f"'{title}' keeps the driver in use",
            "those that leave the node together with our operands",
            f"Give its pods the nodeSelector '{OPERANDS_LABEL}: {OPERANDS_ON}', which an upgrade takes off for a while.",
        )


# --- staging first -------------------------------------------------------------------------------------------------


def _of_staging(look: Look, asked: Asked) -> Iterator[Refusal]:
    """The version has served on all nodes of a group for long enough; those nodes themselves need not wait."""
    staging, target = asked.staging, look.target
    if asked.rollback or not staging.group or look.name in staging.nodes:
        return
    late = [
        f"'{name}' {why}"
        for name, node in sorted(staging.nodes.items())
        if (why := _unproved(node, target, staging.hours, asked.now))
    ]
    if late or not staging.nodes:
        yield refusal(
            "staging",
            "; ".join(late) or f"group '{staging.group}' has no GPU nodes",
            f"'{target}' validated for {staging.hours:g} hours on all nodes of '{staging.group}'",
            f"Upgrade '{staging.group}' first and wait, or change 'gpu_upgrade_requires_group' or 'gpu_upgrade_requires_hours'.",
        )


def _unproved(node: Object | None, target: str, hours: float, now: dt.datetime) -> str:
    if node is None:
        return "is not in the cluster"
    driver, since = str((read_stamp(node) or {}).get(STAMPED) or ""), validated_since(node)
    if not driver or since is None:
        return "is not validated"
    if not is_version(driver, upstream(target)):
        return f"is validated with {driver}"
    if half_done := ledgers.unfinished(node):
        return f"is not finished: {half_done}"
    served = (now - since).total_seconds() / 3600
    return "" if served >= hours else f"has it for {served:.1f} hours"
