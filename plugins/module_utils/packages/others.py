"""What an installation would do to packages that are not of its set: the one rule by which preflight judges, and the installation itself."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import fnmatch
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, matching, rpm

# Arguments of module packages.
Ask = Mapping[str, Any]
# CUDA's toolkits stand side by side, and share a few packages that a newer one brings anew.
CUDA = "cuda-*"
# EPEL's dkms requires kernel-devel-matched beside it, in any version: the newest one brings its own kernel-core.
KERNEL_OF_RPM = "kernel-core"
# Of a machine that has joined a cluster, as the probe looks for it.
KUBECONFIG = "/etc/kubernetes/kubelet.conf"


class Others(NamedTuple):
    """What would become of packages of others.

    Attributes:
        removed: version by name of what nobody permits to go.
        changed: 'before to after' by name of what has to stay as it is.
        kernel: version of a kernel that would come without its other packages; empty if none would.
    """

    removed: Dict[str, str]
    changed: Dict[str, str]
    kernel: str


def is_of_set(asked: Ask, name: str, version: str, source: str) -> bool:
    """Whether an installed package is one that an installation of this set may change, and remove."""
    # None of a foreign architecture is, whatever its pattern.
    return ":" not in name and (
        name in (asked.get("packages") or {})
        or any(
            name in (asked.get(option) or ())
            for option in ("unversioned", "optional", "replaced", "displaced")
        )
        or name in rpm.names_of_builds(asked.get("optional") or ())
        or any(base.alike(name, source, asked.get(option) or ()) for option in ("companions", "release"))
        or any(name in (each["of"], *each["names"]) for each in asked.get("counterparts") or ())
        or _by_pattern(asked, name, version, source)
    )


def _by_pattern(asked: Ask, name: str, version: str, source: str) -> bool:
    # Many names have 'nvidia' in them, 'nvidia-docker2' for one: the driver's have its kind of version as well, or its source.
    patterns = asked.get("patterns") or ()
    has_kind = any(matching.is_of_driver(str(want)) for want in (asked.get("packages") or {}).values())
    return base.alike(name, source, patterns) and (
        not has_kind or matching.is_of_driver(version) or base.alike("", source, patterns)
    )


def held(plan: base.Plan, there: Mapping[str, base.Installed]) -> List[str]:
    """What a plan changes although somebody holds it."""
    return sorted(name for name in plan.changed if name in there and there[name].held)


def of_plan(
    plan: base.Plan,
    asks: Iterable[Ask],
    sources: Mapping[str, str],
    stays: Iterable[str],
    permitted: Sequence[str],
    serves: bool,
) -> Others:
    """What a plan would do to packages of others, and must not.

    Others that nobody holds may come in a newer version, but not on a node that serves, since that could not be taken back.

    Args:
        plan: of the package manager.
        asks: the sets that are installed, as arguments of module packages.
        sources: names of source packages by name of what is installed.
        stays: what somebody holds of it, see `held`.
        permitted: names and shell patterns of packages that may go.
        serves: whether the node has joined a cluster.
    """
    sets, kept = list(asks), set(stays)

    def is_ours(name: str, version: str) -> bool:
        return any(is_of_set(asked, name, version, sources.get(name) or "") for asked in sets)

    removed = {
        name: version
        for name, version in plan.removed.items()
        if not any(fnmatch.fnmatchcase(name, pattern) for pattern in permitted) and not is_ours(name, version)
    }
    changed = {
        name: f"{before} to {after}"
        for name, (before, after) in plan.changed.items()
        if name != KERNEL_OF_RPM
        and (name in kept or (serves and not fnmatch.fnmatchcase(name, CUDA)))
        and not is_ours(name, before)
    }
    return Others(removed, changed, plan.changed[KERNEL_OF_RPM][1] if KERNEL_OF_RPM in plan.changed else "")


def listed(packages: Mapping[str, str]) -> str:
    """Names with versions, in words."""
    return ", ".join(f"'{name}' ({version})" for name, version in sorted(packages.items()))


def refuse(found: Others, of_set: str, kernel: str) -> None:
    """An installation leaves others alone.

    Args:
        found: what it would do to them.
        of_set: name of the set.
        kernel: release of the running kernel.

    Raises:
        PackageError: it would not; they are named.
    """
    what, steps = [], []
    if found.removed:
        what.append(f"remove {listed(found.removed)}")
        steps.append(
            "Look at what uses them on the node; if nothing does, name them in 'preflight_removable_packages'."
        )
    if found.changed:
        what.append(f"change {listed(found.changed)}")
        steps.append(
            "gpusmith changes no held packages, and on a joined node no packages of others, since it could not take that back. Bring them"
            " to these versions yourself; drain a joined node first."
        )
    if found.kernel:
        what.append(f"bring kernel {found.kernel} alone")
        steps.append(
            "A kernel without its other packages does not boot: bring it up to date as a whole and reboot, or install"
            f" 'kernel-devel-matched-{kernel}'."
        )
    if what:
        raise base.PackageError(
            f"Installing '{of_set}' would {', and '.join(what)}. Nothing was changed. {' '.join(steps)} Then run again."
        )
