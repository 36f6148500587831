"""What installing several sets at once would do, before anything of the node is changed."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.files import read
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, matching
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.others import held
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

# Arguments of module packages.
Ask = Mapping[str, Any]


class Needs(NamedTuple):
    """What a node lacks of a set.

    Attributes:
        missing: wanted version by name of what is not there in it.
        loose: packages that any version of will do, and that are not there.
        exact: full version by name of what is there.
        others: what comes for packages of another branch, and is not there.
        optional: packages that come if they are offered, and are not there.
        repository: whether its repository is to be configured, or configured anew.
    """

    missing: Dict[str, str]
    loose: List[str]
    exact: Dict[str, str]
    repository: bool
    others: Sequence[Mapping[str, Any]] = ()
    optional: Sequence[str] = ()


def needs(backend: base.Backend, asked: Ask) -> Needs:
    """What a node lacks of a set; a lost hold or pin needs no repository and is not told."""
    wanted = {name: str(version) for name, version in (asked.get("packages") or {}).items()}
    loose = list(asked.get("unversioned") or [])
    others = list(asked.get("counterparts") or [])
    called = [name for each in others for name in (each["of"], *each["names"])]
    optional = list(asked.get("optional") or [])
    there = backend.installed([*wanted, *loose, *called, *optional])
    exact = {
        name: there[name].version
        for name, version in wanted.items()
        if name in there and matching.satisfies(there[name].version, version)
    }
    return Needs(
        {name: version for name, version in wanted.items() if name not in exact},
        [name for name in loose if name not in there],
        exact,
        _is_new(backend, asked),
        tuple(matching.to_come(others, there)),
        tuple(name for name in optional if name not in there),
    )


def _is_new(backend: base.Backend, asked: Ask) -> bool:
    if not asked.get("repository"):
        return False
    try:
        files = backend.repository_files(asked["name"], repository_of(asked["repository"], asked["name"]))
    except base.PackageError:
        return True  # who asks it tells why
    return any(read(file.path) != file.text for file in files)


def simulate(beside: base.Backend, asks: Mapping[str, Ask], lacks: Mapping[str, Needs]) -> Dict[str, Any]:
    """One simulation of everything that is missing.

    Args:
        beside: what `aside` gives, with the repositories of all sets.
        asks: arguments of module packages by role.
        lacks: of the same roles.

    Returns:
        'plan', 'held' (what it changes although somebody holds it), 'error', 'trouble' and 'lacking' (why there is nothing for packages
        of another branch). A set of which a version is not offered is left out: who asks its repository tells that, with the versions that
        there are.
    """
    coming: Dict[str, str] = {}
    others: Dict[str, List[str]] = {}
    pins: Dict[str, List[str]] = {}
    released: List[str] = []
    companions: List[str] = []
    lacking: List[str] = []
    left_out = False
    for role, asked in asks.items():
        needed = lacks[role]
        offers = beside.offered([*needed.missing, *needed.loose])
        known = {name: [version] for name, version in needed.exact.items()}
        exact = matching.exact(
            {**offers, **known}, {**needed.missing, **{name: each[0] for name, each in known.items()}}
        )
        if any(name not in exact for name in needed.missing) or any(
            not offers.get(name) for name in needed.loose
        ):
            left_out = True
            continue
        called = beside.offered([name for each in needed.others for name in each["names"]])
        for each in needed.others:
            one = matching.counterpart(each, called, exact.values())
            coming.update(one)
            lacking += [] if one else [matching.no_counterpart(each)]
        coming.update(dict.fromkeys(beside.offered(needed.optional), ""))
        coming.update({name: exact[name] for name in needed.missing})
        others.update({name: list(offers[name]) for name in needed.loose})
        pins.update(base.pins(exact, asked.get("patterns") or []))
        released += asked.get("release") or []
        companions += (asked.get("companions") or []) if needed.loose else []
    answer: Dict[str, Any] = {
        "plan": base.Plan({}, {}, {})._asdict(),
        "held": [],
        "error": "",
        "trouble": beside.trouble,
        "lacking": lacking,
    }
    # Two sources that contradict each other leave apt without any list.
    if left_out and beside.trouble:
        return {**answer, "error": beside.trouble}
    if not coming and not others:
        return answer
    error = ""
    for versions in choices(others):
        found = _tried(beside, {**coming, **versions}, _also(pins, companions, versions), released)
        if not found["error"]:
            return {**answer, **found}
        error = error or found["error"]
    return {**answer, "error": error}


def fitting(
    backend: base.Backend,
    coming: Dict[str, str],
    loose: Sequence[str],
    pins: Mapping[str, Sequence[str]],
    released: Sequence[str],
    companions: Sequence[str] = (),
) -> Dict[str, str]:
    """What is to come, with versions of the loose ones that go together with the rest; as it was if none do.

    Companions that come along with these do so in the same version if they have it.

    Args:
        backend: that offers them.
        coming: versions by name; empty where any will do.
        loose: the names of those.
        pins: as they will be.
        released: packages whose holds will be let go.
        companions: names and patterns.
    """
    offers = {name: versions for name, versions in backend.offered(loose).items() if len(versions) > 1}
    if not offers:
        return coming
    for versions in choices(offers):
        try:
            plan = backend.simulate({**coming, **versions}, _also(pins, companions, versions), released)
        except base.PackageError:
            continue
        after = {**plan.installed, **{name: version for name, (_, version) in plan.changed.items()}}
        along = {name: version for name, version in after.items() if base.alike(name, "", companions)}
        return {**coming, **along, **versions}
    return coming


def _also(
    pins: Mapping[str, Sequence[str]], companions: Iterable[str], versions: Mapping[str, str]
) -> Dict[str, Sequence[str]]:
    """Pins, with those of companions at the versions that are tried."""
    tried = sorted(set(versions.values()) - {""})
    return {**(dict.fromkeys(companions, tried) if tried else {}), **pins}


def _tried(
    beside: base.Backend, coming: Dict[str, str], pins: Mapping[str, Sequence[str]], released: List[str]
) -> Dict[str, Any]:
    try:
        plan = beside.simulate(coming, pins, released)
        stays = held(plan, beside.installed(plan.changed))
        return {"plan": plan._asdict(), "held": stays, "error": ""}
    except base.PackageError as error:
        return {"error": str(error)}


def choices(offers: Mapping[str, List[str]]) -> List[Dict[str, str]]:
    """Versions of packages that any version of will do: the package manager's choice, then each offer.

    The newest may be of another set, whose repository is configured after the package was installed; or need another version of this
    set, as a module that comes built for a kernel needs its own driver.
    """
    depth = max([len(versions) for versions in offers.values()], default=0)
    return [
        dict.fromkeys(offers, ""),
        *(
            {name: versions[min(place, len(versions) - 1)] for name, versions in offers.items()}
            for place in range(depth)
        ),
    ]
