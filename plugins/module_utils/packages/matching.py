"""Which offered versions are the wanted ones, also of parts that have another name in another branch."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, Mapping, Optional

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import (
    Installed,
    Offers,
    PackageError,
)

# --- versions ------------------------------------------------------------------------------------------------------

DRIVER = re.compile(r"(?:\d+:)?\d{3}\.\d")


def is_of_driver(version: str) -> bool:
    """Whether a version is a driver's, by its kind: '1:580.178.04-1', and not '1.20.1' as the container toolkit's."""
    return DRIVER.match(version) is not None


def satisfies(version: Optional[str], wanted: str) -> bool:
    """Whether a package's version is the wanted one; '1.36.3' is satisfied by '1.36.3-1.1' and '1:1.36.3-1', '12.8.*' by '12.8.1-1'."""
    if version is None:
        return False
    plain = re.sub(r"^\d+:", "", version)
    if wanted.endswith(".*"):
        return plain.startswith(wanted[:-1])
    behind = (wanted + "-", wanted + "+", wanted + "~")
    return wanted in (version, plain) or plain.startswith(behind) or version.startswith(behind)


def newest_match(versions: Iterable[str], wanted: str) -> Optional[str]:
    """The first version that satisfies; newer ones come first. A full version is preferred to one that only begins like it."""
    found = [version for version in versions if satisfies(version, wanted)]
    return next((version for version in found if version == wanted), found[0] if found else None)


def exact(offers: Offers, wanted: Mapping[str, str]) -> Dict[str, str]:
    """Full versions of wanted ones, as far as they are offered.

    Packages that want one version get one revision, if any is offered for all of them: repositories can differ in revisions only.
    """
    found = {}
    for version in set(wanted.values()):
        names = [name for name, want in wanted.items() if want == version]
        matching = [[each for each in offers.get(name, []) if satisfies(each, version)] for name in names]
        common = [each for each in matching[0] if all(each in others for others in matching)]
        one = newest_match(common, version)
        for name, candidates in zip(names, matching):
            best = one or newest_match(candidates, version)
            if best is not None:
                found[name] = best
    return found


def missing_version(name: str, wanted: str, offers: Offers) -> PackageError:
    """The error for a version that nobody offers."""
    there = ", ".join(f"'{version}'" for version in offers.get(name, []))
    if not there:
        return PackageError(
            f"No repository offers a package '{name}'. Correct the repository or the package layout in the inventory."
        )
    return PackageError(
        f"No repository offers '{name}' in version '{wanted}', only {there}. Correct the version in the inventory."
    )


# --- parts that are called otherwise -------------------------------------------------------------------------------


def has(version: Optional[str], wanted: str) -> bool:
    """Whether a package is there in a version; any will do where none is wanted."""
    return version is not None and (not wanted or satisfies(version, wanted))


def to_come(
    counterparts: Iterable[Mapping[str, Any]], there: Mapping[str, Installed]
) -> List[Mapping[str, Any]]:
    """Those of these counterparts that are not there, of packages that are. Each has 'of', 'names' and 'version'."""

    def is_there(names: Iterable[str], version: str) -> bool:
        return any(name in there and has(there[name].version, version) for name in names)

    return [
        each
        for each in counterparts
        if each["of"] in there and not is_there(each["names"], str(each["version"]))
    ]


def counterpart(each: Mapping[str, Any], offers: Offers, revisions: Iterable[str]) -> Dict[str, str]:
    """Name and full version of one that comes, in one of these revisions if it is offered; nothing if none of its names is."""
    for name in each["names"]:
        fitting = [version for version in offers.get(name, []) if has(version, str(each["version"]))]
        if fitting:
            return {name: next((version for version in fitting if version in revisions), fitting[0])}
    return {}


def no_counterpart(each: Mapping[str, Any]) -> str:
    """What is wrong where a package has none."""
    names = " or ".join(repr(name) for name in each["names"])
    version = f" in version '{each['version']}'" if each["version"] else ""
    return f"'{each['of']}' is installed, and no repository offers {names}{version} for it"
