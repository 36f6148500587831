"""Who compiles and signs the driver's modules: variables that only mean something together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusmith.errors import Refusal
from gpusmith.inventory.target import on_hosts
from gpusmith.inventory.templates import has_open

BUILD = "nvidia_driver_build"
MODULE_BUILD = "nvidia_driver_module_build"
SIGNING = "nvidia_driver_build_signing"
VARIABLES = (BUILD, MODULE_BUILD, SIGNING)
ONCE = "once_per_kernel"
"""The value of `BUILD` with which modules come from the controller, where the key is."""
DKMS, PREBUILT = "dkms", "prebuilt"
"""Values of `MODULE_BUILD`: built on the node, or by the distribution, which signs them, for one kernel and with its version."""


def builds_once(build: object, module_build: object) -> bool:
    """Whether one node of several builds, by the values of `BUILD` and `MODULE_BUILD`: only then the controller can sign."""
    return build == ONCE and module_build != PREBUILT


def certificate_of(build: object, module_build: object, files: Mapping[str, Any]) -> str:
    """File with the certificate of the key that signs modules, by the values of the three variables; empty where nobody signs."""
    return str(files.get("certificate") or "") if builds_once(build, module_build) else ""


def check_signing(nodes: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    """Refuse a key that would sign nothing: whoever names one relies on it.

    It may be named for nodes whose modules the distribution signs: other groups use it.

    Args:
        nodes: variables by name, by node of the run.
    """
    unused = [node for node, values in nodes.items() if _is_unused(values)]
    if not unused:
        return []
    refusal = Refusal(
        f"'{SIGNING}' is set, but '{BUILD}' is not '{ONCE}': DKMS of each node would sign with a key of its own, and nobody"
        " with this one.",
        f"Set '{BUILD}: {ONCE}', or take '{SIGNING}' out.",
    )
    return [on_hosts(refusal, unused)]


def _is_unused(values: Mapping[str, Any]) -> bool:
    files, build, module_build = values.get(SIGNING), values.get(BUILD), values.get(MODULE_BUILD)
    if not (isinstance(files, Mapping) and any(files.values())) or has_open([build, module_build]):
        return False
    return not builds_once(build, module_build) and module_build != PREBUILT
