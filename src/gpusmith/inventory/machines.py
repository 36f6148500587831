"""What hosts say of their machines: a model that there is, and an address that no other host has."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from gpusmith.data import models
from gpusmith.errors import Refusal
from gpusmith.inventory import gpu_models
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import has_open, is_open
from gpusmith.wording import quoted

MODEL = "gpusmith_gpu_model"
ALIKE = 0.87
BY_ADDRESS = ("ssh", "smart", "paramiko", "paramiko_ssh", "")
"""Connections to an address. With others, such as to containers, 'ansible_host' may mean anything."""
WAY = (
    "ansible_ssh_args",
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_user",
    "ansible_ssh_user",
)
"""What may lead to another machine although the address is the same."""

Values = Mapping[str, Any]


def check_models(hosts: Mapping[str, Values]) -> list[Refusal]:
    """Names that mean a row of data/gpus.yml and are none. Others are a site's own, with a row or without."""
    rows = models.load()
    found: dict[str, list[str]] = {}
    for host, values in hosts.items():
        name, own = values.get(MODEL), values.get(gpu_models.VARIABLE)
        # Rows of the inventory are as good; with a template in their place nobody knows their names yet.
        known = is_open(own) or (isinstance(own, Mapping) and name in own)
        if (
            isinstance(name, str)
            and not known
            and not has_open(name)
            and name not in rows
            and meant(name, rows)
        ):
            found.setdefault(name, []).append(host)
    return [
        on_hosts(
            Refusal(
                f"'{MODEL}' is '{name}', which is no row of data/gpus.yml.",
                f"Did you mean {quoted(meant(name, rows))}?",
            ),
            there,
        )
        for name, there in found.items()
    ]


def meant(name: str, rows: Mapping[str, Any]) -> list[str]:
    """Rows that a name may mean: it is the beginning of theirs ('H100'), or a typing error.

    Another first word or another number is another product: A800 and H20 are none of ours, nor is an A100 with 64 GB.
    """
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").removeprefix("nvidia-")
    begin = [key for key in rows if key == words or key.startswith(f"{words}-")]
    same = [key for key in rows if _product(key) == _product(words)]
    return begin or difflib.get_close_matches(words, same, n=1, cutoff=ALIKE)


def _product(words: str) -> tuple[str, list[str]]:
    return words.partition("-")[0], re.findall(r"\d+", words)


def check_addresses(hosts: Mapping[str, Values]) -> list[Refusal]:
    """Hosts that are one machine: each would be changed and tested as the other."""
    found: dict[tuple[str, ...], list[str]] = {}
    for host, values in hosts.items():
        address = values.get("ansible_ssh_host") or values.get("ansible_host") or host
        port = values.get("ansible_ssh_port") or values.get("ansible_port") or 22
        # Behind several jump hosts, one address is several machines; gateways go by the user's name as well.
        way = [values.get(name) or "" for name in WAY]
        if str(values.get("ansible_connection") or "") in BY_ADDRESS and not has_open([address, port, *way]):
            found.setdefault((str(address), str(port), *map(str, way)), []).append(host)
    return [
        on_hosts(
            Refusal(
                f"'ansible_host' is '{address}' for all of them, and they would be one machine.",
                "Give each its own address, or take the others out.",
            ),
            there,
        )
        for (address, *_way), there in found.items()
        if len(there) > 1
    ]
