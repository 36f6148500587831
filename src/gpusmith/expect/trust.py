"""Certificates of the site's authorities in the machine's trust store."""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem


def problems(record: Record, node: str, wanted: Mapping[str, str]) -> list[Problem]:
    """What role host_baseline makes of the trust store.

    Args:
        record: of the node.
        node: how messages name it.
        wanted: digests by name (see `gpusmith.inventory.authorities`).
    """
    there = record.trust.authorities
    missing = [name for name, digest in wanted.items() if there.get(name) != digest]
    causes = {
        **{
            name: f"the trust store has not the certificate of authority '{name}' that the inventory has"
            for name in missing
        },
        **{
            name: f"the trust store has authority '{name}', which the inventory does not list any more"
            for name in there
            if name not in wanted
        },
    }
    if record.trust.pending:
        causes[""] = "a change of the trust store was begun and did not end"
    return [
        Problem(
            f"Node '{node}': {cause}.",
            "Run site.yml for the node.",
            {f"authority_{name}": there.get(name)},
            Cure.HOST,
        )
        for name, cause in causes.items()
    ]
