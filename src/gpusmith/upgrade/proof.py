"""What the suite says of a node whose driver is replaced."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusmith.cluster import stamps
from gpusmith.errors import ToolError
from gpusmith.suite import start
from gpusmith.suite.maintenance import Maintenance

PRECHECK_TIERS = ("nodes", "cluster")
"""They allocate nothing."""
PARAMETERS = "nodes.module-parameters"
NOT_OF_DRIVER = frozenset({"workloads.network", "cluster.labels", PARAMETERS})
"""Checks of a node that no driver can be blamed for: it is not rolled back over them."""
CURED_BY_A_LOAD = frozenset({PARAMETERS})
"""Checks that a node fails until its driver is loaded anew, as an upgrade does."""


@dataclass(frozen=True)
class Validation:
    """How the suite is run.

    Attributes:
        suite: its folder.
        inventory: the run's.
        report_dir: folder for this node's reports in this run.
        timeout_s: that one run may take.
    """

    suite: str
    inventory: str
    report_dir: Path
    timeout_s: float = 7200.0

    def run(
        self, name: str, host: str, maintenance: Maintenance, tiers: Sequence[str] = ()
    ) -> Mapping[str, Any]:
        """Results of the suite on one host, of which the reports lie in the folder of that name.

        Raises:
            ToolError: it could not do its work.
        """
        folder = self.report_dir / name
        done = start.run(
            self.suite,
            self.inventory,
            [host],
            str(folder),
            str(folder / "suite.log"),
            self.timeout_s,
            maintenance=maintenance,
            tiers=tiers,
        )
        if done.trouble:
            raise ToolError(done.trouble)
        return stamps.read_results(Path(done.results_file), done.started)


def failed(results: Mapping[str, Any], host: str = "", without: Collection[str] = ()) -> str:
    """Checks that failed, in words; those that could not be made, or are not of the host, tell nothing about its driver."""
    rows = [
        row
        for row in results.get("checks") or []
        if row.get("outcome") == "failed" and host in ("", row.get("target")) and row.get("id") not in without
    ]
    return "; ".join(f"{row.get('id')}: {row.get('cause') or 'no cause given'}" for row in rows)
