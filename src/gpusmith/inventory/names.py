"""Names of variables: which exist, and what those that do not exist may mean."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from gpusmith.data import other_names
from gpusmith.errors import Refusal
from gpusmith.inventory.specs import Specs, did_you_mean

ALIKE = 0.9
"""What a typing error does to a name: alike enough that nobody means both."""


def _advice(name: str, specs: Specs) -> str:
    return other_names.load().get(name) or did_you_mean(name, specs.variables)


def check_extra_names(extra: Iterable[str], specs: Specs) -> list[Refusal]:
    """Names given with -e: every one must be declared, or be Ansible's own."""
    return [
        Refusal(f"Variable '{name}', given with -e, does not exist.", _advice(name, specs))
        for name in sorted(extra)
        if name not in specs.variables and not name.startswith("ansible_")
    ]


def check_inventory_names(names: Iterable[str], specs: Specs) -> list[Refusal]:
    """Names in the inventory: those with our prefixes must be declared, and none may nearly be a declared one."""
    found = []
    for name in sorted(names):
        if name in specs.variables or name.startswith(("ansible_", "_")):
            continue
        ours = name.startswith(specs.prefixes)
        if ours or difflib.get_close_matches(name, list(specs.variables), n=1, cutoff=ALIKE):
            found.append(Refusal(f"Variable '{name}' in the inventory does not exist.", _advice(name, specs)))
    return found
