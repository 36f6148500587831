"""Names of variables: which exist, and what became of those that exist no longer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from gpusmith.errors import Refusal
from gpusmith.inventory.specs import Specs, did_you_mean
from gpusmith.names import STARTUP_TAINT

ALIKE = 0.9
"""What a typing error does to a name: alike enough that nobody means both."""

REMOVED: Mapping[str, str] = {
    "kubernetes_node_startup_taint": (
        f"The key of the startup taint is always '{STARTUP_TAINT}', since another one was never taken off again: "
        "take the variable out."
    ),
    "node_stamp_nvml_timeout_s": "Every look at a node has one deadline: use 'node_record_nvml_timeout_s'.",
    "cuda_toolkit_apt_lock_timeout_s": (
        "All roles wait for the package manager's lock as long as 'gpusmith_package_lock_timeout_s' says."
    ),
}
"""Variables of earlier releases, and why they are gone and what to do."""


def _advice(name: str, specs: Specs) -> str:
    return REMOVED.get(name) or did_you_mean(name, specs.variables)


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
