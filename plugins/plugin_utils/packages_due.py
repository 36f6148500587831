"""Whether a node lacks anything of what module packages would do, by its record alone: the module's own work, without the node."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    MANAGERS,
    base,
    rpm,
    versionlock,
)
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt import Apt
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf import Dnf
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf_machine import Machine
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.work import Work

DEFAULTS: Mapping[str, Any] = {
    "repository": None,
    "packages": {},
    "patterns": [],
    "unversioned": [],
    "optional": [],
    "companions": [],
    "counterparts": [],
    "release": [],
    "replaced": [],
    "displaced": [],
    "hold_unversioned": False,
    "removable": [],
}


class OfRecord:
    """What a record shows of packages: what is installed and held; nothing is offered, and nothing can be changed."""

    _record: Mapping[str, Any]

    def _packages(self) -> Mapping[str, Any]:
        return self._record.get("packages") or {}

    def installed(self, names: Iterable[str]) -> dict[str, base.Installed]:
        """Installed packages of these names and patterns."""
        patterns = list(names)
        return {
            name: base.Installed(row["version"], row["held"], row.get("source") or "")
            for name, row in self._packages().items()
            if base.alike(name, row.get("source") or "", patterns)
        }

    @contextmanager
    def aside(
        self,
        repositories: Mapping[str, base.Repository],  # noqa: ARG002 - of the protocol
        beside_node: bool = False,  # noqa: ARG002
    ) -> Iterator[base.Backend]:
        """The same: it knows of no repository."""
        yield cast("base.Backend", self)

    def offered(self, names: Iterable[str]) -> base.Offers:  # noqa: ARG002 - of the protocol
        """A record does not know what repositories have."""
        return {}

    def simulate(self, *_given: Any, **_options: Any) -> base.Plan:
        """Nor what would come along."""
        return base.Plan({}, {}, {})


class AptOfRecord(OfRecord, Apt):
    """Apt as a record shows it."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__()
        self._record = record


class MachineOfRecord(Machine):
    """A machine with dnf, as a record shows it."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__()
        self._record = record

    def locks_text(self) -> str | None:
        """The list of locks."""
        return self._record.get("package_locks")

    def installed(self, patterns: Sequence[str] = ()) -> list[rpm.Row]:
        """Installed packages."""
        rows = [
            rpm.Row(name, row["version"], "", row.get("source") or name, "")
            for name, row in (self._record.get("packages") or {}).items()
        ]
        return [row for row in rows if not patterns or base.alike(row.name, row.source, patterns)]

    def candidates(self, patterns: Sequence[str]) -> list[rpm.Row]:  # noqa: ARG002 - as `offered`
        """What repositories have."""
        return []


class DnfOfRecord(OfRecord, Dnf):
    """Dnf as a record shows it."""

    def __init__(self, record: Mapping[str, Any]) -> None:
        super().__init__(machine=MachineOfRecord(record))
        self._record = record


OF_RECORD = {"apt": AptOfRecord, "dnf": DnfOfRecord}


def backend(record: Mapping[str, Any]) -> base.Backend:
    """The backend of a node's package manager, as its record shows it."""
    found: base.Backend = OF_RECORD[MANAGERS.get(record.get("package_database") or "", "apt")](record)
    return found


def is_due(record: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
    """Whether module packages, called with these arguments, would change the node.

    Args:
        record: of the node, plain JSON.
        asked: arguments of the module, with `name`.

    Raises:
        base.PackageError: the repository is incomplete, or the key is not the one that is wanted.
    """
    digests = record.get("managed_files") or {}

    def is_there(file: base.File) -> bool:
        if str(file.path) == f"/{versionlock.PATH}":
            # Lines of others may be in any encoding, and are not told byte for byte.
            return bool(file.text == record.get("package_locks"))
        found = digests.get(str(file.path))
        return found == (None if file.text is None else hashlib.sha256(file.text.encode()).hexdigest())

    params = {**DEFAULTS, **asked}
    work = Work(params, check=True, backend=backend(record), is_there=is_there)
    work.present()
    lacking = [name for name in asked.get("unversioned") or () if name not in (record.get("packages") or {})]
    return work.changed or bool(lacking)
