"""Removals: what is asked for and nothing else, the same for every package manager."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from contextlib import contextmanager
from typing import Dict, Iterable, Iterator, Sequence, Set, cast

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import Backend, PackageError, Plan


class Removals:
    """Of a backend that says what a removal would do, and does it; see `base.Backend`."""

    def removal(self, names: Iterable[str], unused: bool = False) -> Dict[str, str]:
        """See `base.Backend`."""
        listed = sorted(set(names))
        if not listed:
            return {}
        plan = self._would_remove(listed)
        refuse_others(plan, listed)
        more = self._unused_after(listed) - plan.removed.keys() if unused else set()
        return self.removal([*listed, *more]) if more else plan.removed

    def remove(self, names: Iterable[str], unused: bool = False) -> Dict[str, str]:
        """See `base.Backend`."""
        gone = self.removal(names, unused)
        if gone:
            with released(cast("Backend", self), gone):
                self._take_away(sorted(gone))
        return gone

    def _would_remove(self, names: Sequence[str]) -> Plan:
        raise NotImplementedError

    def _unused_after(self, names: Sequence[str]) -> Set[str]:
        """What nothing needs any more after a removal, and something needed before."""
        raise NotImplementedError

    def _take_away(self, names: Sequence[str]) -> None:
        raise NotImplementedError


def refuse_others(plan: Plan, names: Iterable[str]) -> None:
    """A removal takes what is asked for, and nothing else.

    Raises:
        PackageError: something else would go, come or change with it; it is named.
    """
    asked = sorted(set(names))
    others = {
        "remove": {name: version for name, version in plan.removed.items() if name not in asked},
        "install": plan.installed,
        "change": {name: after for name, (_, after) in plan.changed.items()},
    }
    told = [
        f"{verb} {', '.join(f'{name!r} ({version})' for name, version in sorted(found.items()))}"
        for verb, found in others.items()
        if found
    ]
    if told:
        raise PackageError(
            f"Removing {', '.join(map(repr, asked))} would also {' and '.join(told)}. Nothing was removed. "
            "Find out who uses that on the node, and let them decide, then run again."
        )


@contextmanager
def released(backend: Backend, names: Iterable[str]) -> Iterator[None]:
    """Holds of packages are let go. Those of what is still there are put back if what is done meanwhile fails."""
    listed = list(names)
    held = [name for name, package in backend.installed(listed).items() if package.held]
    backend.release(listed)
    try:
        yield
    except (PackageError, OSError) as error:
        left = backend.installed(held)
        try:
            backend.hold({name: package.version for name, package in left.items()})
        except PackageError as second:
            kind = type(error) if isinstance(error, PackageError) else PackageError
            raise kind(
                f"{error} Nor can {', '.join(map(repr, sorted(left)))} be held again, so that upgrades could change it: {second}"
            ) from error
        raise
