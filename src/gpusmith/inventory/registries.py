"""Registries that are reached by another address: what containerd takes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.labels import must_be
from gpusmith.inventory.proxy import is_reachable
from gpusmith.inventory.templates import has_open

VARIABLE = "containerd_registries"
# As images carry it; '_default' stands for all others (https://github.com/containerd/containerd/blob/main/docs/hosts.md).
NAME = r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?"
HOST = re.compile(rf"_default|{NAME}")
# Without a scheme it is https.
ENDPOINT = re.compile(rf"(https?://)?{NAME}(/[^\s\"'\\#]*)?")


def rules(name: str, value: Any) -> Iterator[Refusal]:
    """A list of mappings with host and endpoint. With a wrong one containerd ignores the file, and asks the registry itself."""
    if not isinstance(value, list | tuple):
        # Its type is judged by the spec.
        return
    rows = [row for row in value if isinstance(row, Mapping)]
    for index, row in enumerate(rows):
        host, endpoint = row.get("host"), row.get("endpoint")
        if (
            isinstance(host, str)
            and not has_open(host)
            and not (HOST.fullmatch(host) and is_reachable(f"//{host}"))
        ):
            yield must_be(f"{name}[{index}].host", "a registry such as 'registry.example.com:5000'", host)
        if (
            isinstance(endpoint, str)
            and not has_open(endpoint)
            and not (ENDPOINT.fullmatch(endpoint) and is_reachable(_with_slashes(endpoint)))
        ):
            # It may have a password, which nobody should read.
            seen = "an address with a user" if "@" in endpoint else endpoint
            yield must_be(
                f"{name}[{index}].endpoint", "an address such as 'https://mirror.example.com:5000'", seen
            )
    for host, times in Counter(row.get("host") for row in rows).items():
        if host is not None and times > 1:
            yield must_be(name, "a list with each host once", f"{times} times {host!r}")


def _with_slashes(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"//{endpoint}"
