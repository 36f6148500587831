"""Which versions of the driver a node can have: all packages are offered, GPUs and kernels take it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpusmith.data import compatibility
from gpusmith.errors import Refusal
from gpusmith.expect import driver_needs, fabric, kernels, layouts, versions
from gpusmith.expect.choice import SHOWN, Offer
from gpusmith.expect.layouts import Unmet
from gpusmith.expect.wanted import Driver
from gpusmith.probe.record import Record
from gpusmith.wanted.node import NodeWanted
from gpusmith.wording import quoted

BRANCHES = range(450, 1000, 5)
"""Numbers that branches may have: all that our tables know end with 0 or 5. Where names carry the branch, all of these are asked
for at once, since not every package manager lists what is offered by pattern."""

Names = Mapping[int, tuple[Driver, Sequence[str]]]
"""By branch, the driver for judges and the packages that must all have one version."""


def names(record: Record, wanted: NodeWanted, own: Mapping[str, Any]) -> Names:
    """Branches that may be what is asked for, with the packages that this machine needs.

    Args:
        record: of the node.
        wanted: of the node, with a branch or the latest one as the driver's version.
        own: of role nvidia_driver, see `driver_needs.asked_for`.

    Raises:
        Unmet: the branch that is asked for cannot be had here, or no layout of that name is known.
    """
    asked = wanted.driver.version
    layouts.rows_of(own["layouts"], wanted.driver.package_layout)
    if asked != versions.LATEST:
        return {int(asked): _of_branch(int(asked), record, wanted, own)}
    found = {}
    for branch in BRANCHES:
        try:
            found[branch] = _of_branch(branch, record, wanted, own)
        except Unmet:
            continue
    return found


def _of_branch(
    branch: int, record: Record, wanted: NodeWanted, own: Mapping[str, Any]
) -> tuple[Driver, Sequence[str]]:
    want = driver_needs.asked_for(record, wanted.with_driver(f"{branch}.0"), own)
    return want, driver_needs.must_have(record, want)


def offer(record: Record, asked: str, branches: Names, offered: Mapping[str, Sequence[str]]) -> Offer:
    """What a node can have of what its repositories offer.

    Args:
        record: of the node.
        asked: a branch, or the latest one.
        branches: from `names`.
        offered: full versions by package.
    """
    whole = {
        version: want
        for branch, (want, packages) in branches.items()
        for version in _in_all(branch, packages, offered)
    }
    barred = {version: why for version, want in whole.items() if (why := _barred(record, want, version))}
    good = [version for version in whole if version not in barred]
    if good:
        return Offer(asked, tuple(versions.newest_first(good)))
    return Offer(asked, refusal=_none(asked, branches, offered, barred))


def _in_all(branch: int, packages: Sequence[str], offered: Mapping[str, Sequence[str]]) -> set[str]:
    """Versions of a branch that all packages have."""
    each = [
        {
            versions.upstream(version)
            for version in offered.get(name, ())
            if versions.answers(version, str(branch))
        }
        for name in packages
    ]
    return set.intersection(*each) if each else set()


def _barred(record: Record, want: Driver, version: str) -> str:
    """Why GPUs or kernels do not take a version; empty if they do."""
    known = compatibility.load()
    for model in fabric.models_of(record, want):
        branches = known.driver_branches(model.architecture, model.min_driver_branch)
        if not branches.has(layouts.branch_of(version)):
            return f"'{model.key}' needs {branches.words}"
    if want.layout.ready:
        return ""
    kind = driver_needs.flavour(record, want)
    for release in kernels.to_build(record, version):
        row = known.no_build(kind, version, release)
        if row is not None:
            return f"its {kind} module does not compile for kernel '{release}'"
    return ""


def _none(
    asked: str, branches: Names, offered: Mapping[str, Sequence[str]], barred: Mapping[str, str]
) -> Refusal:
    if barred:
        rows = "; ".join(
            f"'{version}': {barred[version]}" for version in versions.newest_first(barred)[:SHOWN]
        )
        return Refusal(
            f"driver version: no version of '{asked}' will do here: {rows}; allowed: one that GPUs and kernels take.",
            "Correct 'nvidia_driver_version' or 'nvidia_driver_module_flavour'.",
        )
    there = versions.newest_first(_offered(offered))
    said = f"it has {quoted(there[:SHOWN])}" if there else "it has no package of a driver by these names"
    lacking = sorted(
        {name for _want, packages in branches.values() for name in packages if not offered.get(name)}
    )
    if asked != versions.LATEST and lacking:
        said += f", and no {quoted(lacking)}"
    return Refusal(
        f"driver version: the repository offers no version of '{asked}' whole; {said}; allowed: all packages in one version.",
        "Correct 'nvidia_driver_version', 'nvidia_driver_repository' or 'nvidia_driver_package_layout'.",
    )


def _offered(offered: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for each in offered.values():
        for version in each:
            if (found := versions.of_driver(version)) is not None:
                yield found
