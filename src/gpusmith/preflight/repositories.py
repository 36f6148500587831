"""What the repositories have, and what site.yml never changes on a node that serves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.matching import satisfies
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

from gpusmith.errors import Refusal
from gpusmith.expect import components, layouts, removal
from gpusmith.expect.steps import upgrade_driver
from gpusmith.expect.versions import FULL_DRIVER, is_version, upstream
from gpusmith.preflight.words import Facts, Tables, Wanted, nearest, refusal
from gpusmith.wording import quoted

OPTION = {
    "nvidia_driver": "nvidia_driver_version",
    "cuda_toolkit": "cuda_toolkit_versions",
    "containerd": "containerd_version",
    "nvidia_container_toolkit": "nvidia_container_toolkit_version",
    "kubernetes_node": "kubernetes_node_version",
}


# Where a package by that name would be looked for.
NOT_THERE = {
    "nvidia_driver": "Correct 'nvidia_driver_repository' or 'nvidia_driver_package_layout': they do not fit."
}


def check_repositories(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Every version that is not installed yet has to be in its repository."""
    for owner, answer in sorted(facts["repositories"].items()):
        option = OPTION.get(owner, owner)
        if answer["error"]:
            yield refusal(
                "repository",
                answer["error"].rstrip("."),
                f"an answer from '{owner}_repository'",
                f"Correct '{owner}_repository', or bring it up.",
            )
            continue
        if owner == "nvidia_driver" and not FULL_DRIVER.match(wanted.node.driver.version):
            continue  # told already, with the versions of that branch
        lacking = {
            package: (version, answer["versions"].get(package, []))
            for package, version in sorted(answer["asked"].items())
            if not any(satisfies(candidate, version) for candidate in answer["versions"].get(package, []))
        }
        for package, (version, offered) in list(lacking.items()):
            if owner == "nvidia_driver" and (other := layouts.brings_another(package, offered)):
                del lacking[package]
                yield refusal(
                    "transitional package",
                    f"'{package}' in '{owner}_repository' only brings driver '{other}'",
                    f"a branch whose packages are its own, not '{version}'",
                    f"Set 'nvidia_driver_version' to a version of branch {layouts.branch_of(other)}.",
                )
        for version in dict.fromkeys(version for version, _offered in lacking.values()):
            here = {name: offered for name, (wants, offered) in lacking.items() if wants == version}
            known = {name: offered for name, offered in here.items() if offered}
            if known:
                near = nearest(next(iter(known.values())), version)
                yield refusal(
                    "version in the repository",
                    f"no {quoted(known)} of version '{version}' in '{owner}_repository'",
                    f"nearest: {quoted(near)}",
                    f"Correct '{option}'." + _do_without(list(known), wanted),
                )
            if unknown := [name for name in here if name not in known]:
                step = NOT_THERE.get(owner, f"Correct '{owner}_repository'.")
                yield refusal(
                    "package in the repository",
                    f"no {quoted(unknown)} in '{owner}_repository'",
                    "a repository that has it",
                    step + _do_without(unknown, wanted),
                )


def _do_without(names: Sequence[str], wanted: Wanted) -> str:
    """How a site does without a part that only its board asks for; empty if another package is missing as well."""
    if components.AUTO not in wanted.node.driver.components:
        return ""
    if not all(components.PACKAGE.fullmatch(name) for name in names):
        return ""
    return f" Or take '{components.AUTO}' out of 'nvidia_driver_components': DCGM then does not see the NVSwitches."


def check_keys(facts: Facts, _wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """Every repository has an address and a sound key, also where nothing is to be installed."""
    for owner, asked in sorted(facts["asked"].items()):
        if not asked.get("repository") or (facts["repositories"].get(owner) or {}).get("error"):
            continue
        try:
            repository_of(asked["repository"], owner)
        except PackageError as error:
            yield refusal("repository", str(error), "a sound key", f"Correct '{owner}_repository'.")


def check_drift(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """What site.yml never changes on a node that serves."""
    record = facts["record"]
    if not record["kubernetes"]["joined"]:
        return
    package = (record["packages"].get(str(facts.get("driver_package"))) or {}).get("version")
    driver = package or record["library"]["nvml_version"] or record["module"]["installed_version"]
    version = wanted.node.driver.version
    # Only packages know of the packager's revision, which the inventory may name.
    ours = wanted.node.manages("nvidia_driver")
    if ours and driver and not is_version(driver, version if package else upstream(version)):
        yield refusal(
            "driver of a joined node",
            f"'{driver}' is installed",
            f"'{wanted.node.driver.version}', as the inventory says; site.yml never changes it on a joined node",
            f"Put 'nvidia_driver_version: \"{upstream(driver)}\"' into group_vars, as it is installed,"
            f" or {upgrade_driver('NODE', wanted.node.driver.version, driver)}.",
        )
    kubelet, version = record["kubernetes"]["kubelet_version"], wanted.node.kubernetes.version
    # Within a minor version role kubernetes_node changes it, if it may.
    may = wanted.node.change_runtime_on_joined and wanted.node.manages("kubernetes_node")
    if may and kubelet and _minor(kubelet) != _minor(version):
        yield refusal(
            "kubelet of a joined node",
            f"'{kubelet}' is installed",
            f"'{version}', as the inventory says; another minor version needs the cluster's configuration of it first",
            "Upgrade the node with 'kubeadm upgrade node', or put the installed version into the inventory.",
        )


def check_removal(facts: Facts, wanted: Wanted, _tables: Tables) -> Iterator[Refusal]:
    """A node that serves keeps its driver."""
    if wanted.no_driver and facts["record"]["kubernetes"]["joined"]:
        _cause, step = removal.refused("NODE")
        yield refusal(
            "driver of a joined node",
            "'nvidia_driver_state' is 'absent', and the node serves",
            "'present' on nodes of a cluster",
            step,
        )


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]
