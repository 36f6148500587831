"""The suite's options of the command line."""

from __future__ import annotations

from collections.abc import Callable

from gpusmith.checks.register import TIERS
from gpusmith.suite import from_cluster, maintenance, replay


def add(option: Callable[..., None]) -> None:
    """All of them.

    Args:
        option: adds one, with the arguments of argparse.
    """
    option(
        "--inventory",
        metavar="X",
        help="Ansible inventory (default: ANSIBLE_INVENTORY, or that of an ansible.cfg of your own)",
    )
    option("--limit", metavar="PATTERN", help="only these hosts or groups")
    option(
        replay.OPTION,
        metavar="DIR",
        help="judge the evidence in this report folder once more; asks neither inventory nor nodes nor cluster",
    )
    option(
        "--from-cluster",
        action="store_true",
        help="no inventory and no ssh: the GPU nodes of a cluster, as it tells of them (docs/any_cluster.md)",
    )
    for name, value, text in from_cluster.OPTIONS:
        option(name, metavar=value, help=f"with --from-cluster: {text}")
    option(
        "--report-dir",
        metavar="DIR",
        help="folder for the reports (default: reports/latest, for a replay reports/replay)",
    )
    option("--summary-md", metavar="FILE", help="also write verdict and causes there, in Markdown")
    option(
        "--min-coverage",
        metavar="PERCENT",
        help="so many percent of all nodes and GPUs must be tested (default: all that nobody uses or keeps back)",
    )
    option(
        "--record-baseline",
        metavar="FILE",
        help="write the medians of the GPUs' rates to a file, for the inventory ('validation_baselines')",
    )
    option("--dry-run", action="store_true", help="only say what would run where, and what would be left out")
    option(
        "--gpu-budget",
        metavar="N|%",
        help="nodes with so many GPUs are tested at the same time (default: 16 nodes)",
    )
    option(
        "--timeout", metavar="SECONDS", type=seconds, help="end the run then, as by Ctrl-C (default: never)"
    )
    option("--tier", metavar="LIST", help=f"only these tiers, divided by commas: {','.join(TIERS)}")
    option(
        maintenance.ID,
        metavar="ID",
        help="also test the nodes that this run of an upgrade or a layout change has cordoned",
    )
    option(
        maintenance.VERSION,
        metavar="X",
        help="the driver that these nodes must have, whatever the inventory says",
    )
    option(
        maintenance.LAYOUT,
        metavar="NAME",
        help="how these nodes must hand out GPUs, whatever the inventory says: 'whole', or one such as 'time-slicing-4'",
    )


def seconds(text: str) -> float:
    """A time that is one; argparse says the rest, with the name of this function."""
    found = float(text)
    if not 0 < found < float("inf"):
        raise ValueError
    return found
