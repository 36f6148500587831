"""What each role would ask module packages for, before any role runs: what is due on a node, and from which repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.packages_due import is_due

from gpusmith.errors import Refusal
from gpusmith.expect import components, driver_needs, kernels, layouts, plans, versions
from gpusmith.expect import wanted as wants
from gpusmith.node.records import parse
from gpusmith.preflight.words import Wanted, refusal
from gpusmith.wording import quoted

Ask = dict[str, Any]
Names = Mapping[str, Any]
"""By role, what its file of the operating system calls things."""

DRIVER = "nvidia_driver"
VARIABLES = {
    DRIVER: "__nvidia_driver_layouts",
    "cuda_toolkit": "__cuda_toolkit_names",
    "containerd": "__containerd_names",
    "nvidia_container_toolkit": "__nvidia_container_toolkit_names",
    "kubernetes_node": "__kubernetes_node_names",
}
"""By role, the variable of its file of the operating system that has the packages' names."""
KERNEL = "__nvidia_driver_kernel"


def all_of(record: Mapping[str, Any], wanted: Wanted, names: Names) -> dict[str, Ask]:
    """Arguments of module packages by role, as the roles give them.

    Args:
        record: of the node.
        wanted: what the inventory says.
        names: by role; of a system that nobody knows there are none, which another check says.
    """
    if not names:
        return {}
    driver = _driver(record, wanted, names)
    if wanted.driver_only:
        return driver
    node = parse(record)
    found = {
        **driver,
        **{
            role: plans.set_to_ask_for(node, wanted.node, role, _in_layout(role, wanted, names[role]))
            for role in plans.SETS
            if wanted.node.manages(role)
        },
    }
    if wanted.node.cuda.versions:
        found["cuda_toolkit"] = _cuda(record, wanted, names["cuda_toolkit"])
    return found


def driver_package(wanted: Wanted, names: Names) -> str:
    """The package whose version is the driver's; empty on a system that nobody knows."""
    if not names:
        return ""
    try:
        return _row(wanted, names["nvidia_driver"]).stands_for_all
    except layouts.Unmet:
        return ""


def unmet(record: Mapping[str, Any], wanted: Wanted, names: Names) -> Refusal | None:
    """Why there are no packages of the wanted driver here; of an operating system that nobody knows, another check says so."""
    if not names or not wanted.node.driver.version or not wanted.node.manages(DRIVER):
        return None
    try:
        row = _row(wanted, names["nvidia_driver"])
        driver_needs.parts_known(parse(record), wants.driver_of(wanted.node, layout=row))
    except layouts.Unmet as error:
        return Refusal(f"driver packages: {error.message}", error.hint)
    return None


def unseen(record: Mapping[str, Any], wanted: Wanted, names: Names) -> list[str]:
    """What a person should know of a node that serves without a part of the driver that its board needs."""
    if not names or wanted.no_driver or wanted.driver_only or not wanted.node.manages(DRIVER):
        return []
    try:
        row = _row(wanted, names["nvidia_driver"])
    except layouts.Unmet:
        return []
    return components.unseen(parse(record), wants.driver_of(wanted.node, layout=row))


def other_containerd(record: Mapping[str, Any], wanted: Wanted, names: Names) -> Refusal | None:
    """Why containerd cannot come in the wanted layout; of an operating system that nobody knows, another check says so."""
    if not names or not wanted.node.manages("containerd"):
        return None
    known, asked = names["containerd"], wanted.node.containerd.package_layout
    if asked not in known:
        return refusal(
            "containerd packages",
            f"'containerd_package_layout' is '{asked}'",
            f"on this operating system {quoted(known)}",
            "Correct 'containerd_package_layout'.",
        )
    for layout, packages_of_it in known.items():
        for name in packages_of_it if layout != asked else ():
            there = record["packages"].get(name) or {}
            # One that is not held came with the system, and may be let go by 'preflight_removable_packages'.
            if there.get("held"):
                return refusal(
                    "containerd packages",
                    f"'{name}' ({there['version']}) is installed and held",
                    f"packages of 'containerd_package_layout: {asked}'",
                    f"Set 'containerd_package_layout: {layout}', or take the node out with playbooks/remove_nodes.yml"
                    " and set it up anew.",
                )
    return None


def _row(wanted: Wanted, known: layouts.Layouts) -> layouts.Layout:
    driver = wanted.node.driver
    return layouts.layout(
        layouts.rows_of(known, driver.package_layout), driver.version, build=driver.module_build
    )


def headers(record: Mapping[str, Any], wanted: Wanted, names: Names) -> dict[str, str]:
    """By release of a kernel that has no module, the package of its headers."""
    if wanted.node.simulated or KERNEL not in names or not wanted.node.manages(DRIVER):
        return {}
    if wanted.node.driver.module_build == layouts.PREBUILT:
        return {}
    node = parse(record)
    releases = kernels.without_module(node)
    if node.module.installed_version is None and node.host.kernel:
        releases.insert(0, node.host.kernel)
    return {release: kernels.header_packages(names[KERNEL], release)[-1] for release in releases}


def due(record: Mapping[str, Any], asks: Mapping[str, Ask]) -> dict[str, Ask]:
    """Those of which a node lacks anything."""
    found = {}
    for role, asked in asks.items():
        try:
            if is_due(record, {key: value for key, value in asked.items() if key not in OURS}):
                found[role] = asked
        except PackageError:
            found[role] = asked
    return found


OURS = ("expected", "offered_by")
"""Keys that module packages does not know: versions of what a role asks for without one, and the repository that offers it."""


def _repository(wanted: Wanted, role: str) -> dict[str, Any]:
    return dict(wanted.node.of_role(role).repository)


def _in_layout(role: str, wanted: Wanted, names: Names) -> Names:
    """Names of a role's packages; none in a layout that the operating system has not, which another check says."""
    return (
        {"packages": names.get(wanted.node.containerd.package_layout, [])} if role == "containerd" else names
    )


def _driver(record: Mapping[str, Any], wanted: Wanted, names: Names) -> dict[str, Ask]:
    """What is asked for the driver; nothing if it has no names, which another check says."""
    own: dict[str, Any] = {"layouts": names["nvidia_driver"]}
    # An upgrade brings no headers, and simulated modules are not compiled.
    if not wanted.node.simulated and not wanted.driver_only:
        own["kernel"] = names.get(KERNEL)
    # None was chosen, which another check says.
    if versions.is_open(wanted.node.driver.version) or wanted.no_driver or not wanted.node.manages(DRIVER):
        return {}
    try:
        row = _row(wanted, own["layouts"])
    except layouts.Unmet:
        return {}
    plan = plans.driver(record, wanted.node, own)
    asked = plan["asked"]
    if plan["refused"]:
        # Another check refuses; the repository is still asked for its versions.
        alone = {row.stands_for_all: wanted.node.driver.version}
        asked |= {"packages": alone, "patterns": list(row.patterns), "unversioned": list(row.others)}
    # Tools and headers are installed before; tools are not held.
    asked |= {"unversioned": [*asked["unversioned"], *plan["tools"]], "optional": plan.get("headers") or []}
    return {"nvidia_driver": asked}


def _cuda(record: Mapping[str, Any], wanted: Wanted, names: Names) -> Ask:
    lacking = plans.cuda_toolkit(record, wanted.node, {})["missing"]
    packages = {str(names["prefix"]) + version.replace(".", "-"): version for version in lacking}
    own = _repository(wanted, "cuda_toolkit")
    driver = _repository(wanted, "nvidia_driver")
    asked: Ask = {"name": "cuda-toolkit", "unversioned": list(packages)}
    if own.get("uris") and own["uris"] != driver.get("uris"):
        asked["repository"] = own
    asked["offered_by"] = own if "repository" in asked else driver
    return {**asked, "expected": {name: f"{version}.*" for name, version in packages.items()}}
