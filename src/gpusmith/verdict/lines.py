"""The verdict in lines for a person."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gpusmith.verdict.changes import KINDS, UNKNOWN_DEPENDENCIES
from gpusmith.verdict.run import CLUSTER, Host, Run

MOST_NAMES = 10
NOTHING = "nothing to do"
ALONG = "dependencies"
Said = TypeVar("Said")


@dataclass(frozen=True)
class End:
    """How a run ended, as Ansible counts.

    Attributes:
        seconds: how long it took.
        failed: hosts with a failure that nothing rescued.
        unreachable: hosts that did not answer.
        tags: those that were given with --tags; empty if all tasks were to run.
    """

    seconds: float = 0.0
    failed: frozenset[str] = frozenset()
    unreachable: frozenset[str] = frozenset()
    tags: Sequence[str] = field(default_factory=tuple)

    @property
    def bad(self) -> frozenset[str]:
        """Hosts that did not come through."""
        return self.failed | self.unreachable


def of_run(run: Run, end: End) -> list[str]:
    """What was done; the last line is the verdict."""
    names = sorted((set(run.hosts) | end.bad) - {CLUSTER})
    lines = [*_by_host(run, end, names), *_notes(run)]
    return [*lines, _last(run, end, names, "changed", "Nothing to do")]


def of_check(run: Run, end: End) -> list[str]:
    """What would be done, equal hosts once; the last line is the verdict."""
    names = sorted((set(run.hosts) | end.bad) - {CLUSTER})
    lines = []
    for told, hosts in _alike((name, _forecast(run.hosts.get(name))) for name in names):
        if told:
            lines += [f"{join(hosts)}:", *told]
    cluster = _forecast(run.hosts.get(CLUSTER))
    lines += [f"{CLUSTER}:", *cluster] if cluster else []
    bad = [
        (name, _became(name, run.hosts.get(name) or Host(), run, end)) for name in names if name in end.bad
    ]
    lines += [f"{join(hosts)}: {said}" for said, hosts in _alike(bad)]
    return [
        *lines,
        *_notes(run),
        _last(run, end, names, "would change", "Nothing would change"),
    ]


def join(names: Sequence[str]) -> str:
    """Names, or some of many."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMES - 2])} and {len(names) - MOST_NAMES + 2} more"


def _alike(rows: Iterable[tuple[str, Said]]) -> list[tuple[Said, list[str]]]:
    """What is said, with all of whom it is said, in the order in which it is said first."""
    found: list[tuple[Said, list[str]]] = []
    for name, said in rows:
        for other, names in found:
            if other == said:
                names.append(name)
                break
        else:
            found.append((said, [name]))
    return found


def _by_host(run: Run, end: End, names: Sequence[str]) -> list[str]:
    """What became of hosts, unless nothing had to be done on any."""
    rows = [(name, _became(name, run.hosts.get(name) or Host(), run, end)) for name in names]
    if CLUSTER in run.hosts and run.hosts[CLUSTER].changed:
        rows.append((CLUSTER, f"changed by {', '.join(run.hosts[CLUSTER].changed)}"))
    if all(said == NOTHING for _name, said in rows):
        return []
    return [f"{join(hosts)}: {said}" for said, hosts in _alike(rows)]


def _became(name: str, host: Host, run: Run, end: End) -> str:
    changed = ", ".join(host.changed)
    after = f", after changes by {changed}" if changed else ""
    if name in end.unreachable:
        return f"unreachable{after}"
    if name in end.failed and host.failed:
        return f"failed at {host.failed}{after}"
    if run.stopped:
        return f"not finished{after}"
    return f"changed by {changed}" if changed else NOTHING


def _forecast(host: Host | None) -> list[str]:
    """What would change on a host, by role."""
    if host is None:
        return []
    lines = []
    full = {item.split()[0]: item for told in host.parts.values() for item in told.changes.get(ALONG, ())}
    units: set[str] = set()
    for part, told in host.parts.items():
        its = {kind: set(items) for kind, items in told.changes.items() if items}
        if its.keys() == {"units"} and its["units"] <= units:
            # Check mode has not done what comes before: after that restart, this part finds everything as it wants it.
            continue
        units |= its.get("units", set())
        rows = [(kind, told.changes[kind]) for kind in KINDS if kind != ALONG and told.changes.get(kind)]
        # What preflight simulated has the full version, which the inventory need not name.
        told_in_full = [
            (kind, [full.get(item.split()[0], item) if kind == "packages" else item for item in items])
            for kind, items in rows
        ]
        known = [f"    {kind}: {', '.join(items)}" for kind, items in told_in_full]
        if known or part in host.changed:
            lines += [f"  {part}", *known]
    along = _come_along(host)
    lines += [f"  packages that come along: {', '.join(along)}"] if along else []
    open_ones = [text for text in host.unpredictable if not (along and text == UNKNOWN_DEPENDENCIES)]
    return lines + [f"  only a run can tell: {text}" for text in open_ones]


def _come_along(host: Host) -> list[str]:
    """Packages that no role names; preflight and roles may each have seen them."""
    named = {item.split()[0] for told in host.parts.values() for item in told.changes.get("packages", ())}
    found = (item for told in host.parts.values() for item in told.changes.get(ALONG, ()))
    return [item for item in dict.fromkeys(found) if item.split()[0] not in named]


def _notes(run: Run) -> list[str]:
    rows = [(name, note) for name in sorted(run.hosts) for note in run.hosts[name].notes]
    return [f"{join(hosts)}: {note}" for note, hosts in _alike(rows)]


def _last(run: Run, end: End, names: Sequence[str], changed: str, nothing: str) -> str:
    anything = any(host.changed for host in run.hosts.values())
    took = f" ({end.seconds:.0f} s)"
    part = f" Only tasks with these tags were looked at: {', '.join(end.tags)}." if end.tags else ""
    if run.stopped:
        # What a task had done on a host when it failed is not known.
        known = "" if anything or end.failed else " Nothing was changed."
        return f"Stopped at {run.stopped}, as told above{took}.{known}"
    good = [name for name in names if name not in end.bad]
    altered = [name for name in good if run.hosts.get(name, Host()).changed]
    if not anything and not end.bad:
        where = f" on {count(len(names), 'host')}: {join(names)}" if names else ""
        return f"{nothing}{where}{took}.{part}"
    counts = [
        f"{count(len(altered), 'host')} {changed}" if altered else "",
        f"nothing to do on {len(good) - len(altered)}" if len(good) > len(altered) else "",
        f"{len(end.failed)} failed, as told above" if end.failed else "",
        f"{len(end.unreachable)} unreachable" if end.unreachable else "",
    ]
    word = "Not done" if end.bad else "Checked" if changed != "changed" else "Done"
    return f"{word}{took}: {'; '.join(filter(None, counts)) or f'{CLUSTER} {changed}'}.{part}"


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
