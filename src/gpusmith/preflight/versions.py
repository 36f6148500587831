"""Versions against each other, and against the GPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpusmith.data.operands import DEVICE_PLUGIN, EXISTING
from gpusmith.errors import Refusal
from gpusmith.expect import compatible
from gpusmith.expect.compatible import Misfit, Subject
from gpusmith.expect.driver_needs import kind_of
from gpusmith.expect.kernels import to_build
from gpusmith.expect.layouts import PREBUILT, Unmet, branch_of
from gpusmith.expect.versions import FULL_DRIVER, is_open, upstream
from gpusmith.node.records import load
from gpusmith.preflight.words import Facts, Tables, Wanted, models_of, nearest, offered_by, refusal
from gpusmith.probe.host import Host
from gpusmith.probe.kernels import Kernel
from gpusmith.probe.module import DriverModule
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.wanted.node import TOOLKIT
from gpusmith.wording import quoted

STEPS = {
    Subject.KUBERNETES: "Correct 'kubernetes_node_version'.",
    Subject.CONTAINERD: "Correct 'containerd_version'.",
    Subject.TOOLKIT: "Correct 'nvidia_container_toolkit_version'.",
    Subject.TOOLKIT_AND_PLUGIN: "Correct 'nvidia_container_toolkit_version'.",
    Subject.DRIVER: "Correct 'nvidia_driver_version'.",
    Subject.CUDA: "Correct 'cuda_toolkit_versions'.",
    Subject.CUDA_AND_DRIVER: "Choose a newer 'nvidia_driver_version' or an older CUDA.",
    Subject.CUDA_ON_GPU: "Correct 'cuda_toolkit_versions'.",
}


def _refused(unfit: Misfit | None, step: str = "") -> Iterator[Refusal]:
    """What does not go together, as a reason to refuse the host."""
    if unfit is not None:
        yield refusal(unfit.subject, unfit.found, unfit.allowed, step or STEPS[unfit.subject])


def _of_owner(role: str) -> str:
    """What to do about a release that somebody else has installed: no variable of ours is read for it."""
    return f"Have whoever installs it bring such a release ('{role}_owner' is '{EXISTING}'), or leave the machine out with -l."


def check_driver(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """A full version, and a branch and module that support the GPU."""
    version = wanted.node.driver.version
    if is_open(version):
        # No version of it was chosen: why, is known, or a node that serves has a driver that is none of these, which is drift.
        if facts.get("choice"):
            yield facts["choice"]
        elif not ((facts.get("record") or {}).get("kubernetes") or {}).get("joined"):
            yield refusal(
                "driver version",
                f"'{version}', and no exact version of it was chosen",
                "one for all nodes that get it",
                "Run preflight first, or give an exact one, such as '580.178.04'.",
            )
        return
    if not FULL_DRIVER.match(version):
        offered = offered_by(facts, "nvidia_driver")
        alike = [name for name in offered if str(branch_of(name)) == version] or offered
        step = (
            f"The repository has {quoted(nearest(alike, version))}."
            if alike
            else "Name a full version, for example '580.95.05'."
        )
        yield refusal(
            "driver version",
            f"'{version}', which is no version",
            "a full version, a branch or 'latest'",
            step,
        )
        return
    if facts.get("unmet"):
        yield facts["unmet"]
    models = models_of(facts, wanted, tables)
    ours = wanted.node.manages("nvidia_driver")
    step = f"Correct '{wanted.driver_variable}'." if ours else _of_owner("nvidia_driver")
    if ours and len(models) > 1:
        step += " If no branch drives all of the machine's GPUs, put them into different machines."
    for model in models:
        yield from _refused(compatible.driver(version, model, tables.versions), step)
    try:
        kind_of(wanted.node.driver.module_flavour, models)
    except Unmet as unmet:
        yield Refusal(f"module flavour: {unmet.message}", unmet.hint)


def check_module(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """The driver has that kind of module, and it compiles for the kernels that lack it."""
    version = wanted.node.driver.version
    if not FULL_DRIVER.match(version):
        return
    try:
        kind = kind_of(wanted.node.driver.module_flavour, models_of(facts, wanted, tables))
    except Unmet:
        # check_driver says so.
        return
    branches = tables.versions.module_kinds.get(kind)
    if branches is not None and not branches.has(branch_of(version)):
        yield refusal(
            "kernel module",
            f"driver '{version}' has no {kind} module",
            f"{branches.words} for the {kind} one",
            f"Correct '{wanted.driver_variable}' or 'nvidia_driver_module_flavour'.",
        )
    for release in _to_build(facts["record"], upstream(version)):
        known = tables.versions.no_build(kind, upstream(version), release)
        if known is not None and wanted.node.driver.module_build != PREBUILT:
            yield refusal(
                "kernel module",
                f"the {kind} one of driver '{version}' does not compile for kernel '{release}' ({known.why})",
                "a driver and a kernel that go together",
                f"Choose {known.instead}.",
            )


def _to_build(raw: Mapping[str, Any], version: str) -> list[str]:
    record = Record(
        SCHEMA,
        host=load(Host, raw["host"]),
        module=load(DriverModule, raw["module"]),
        kernels=tuple(load(Kernel, row) for row in raw.get("kernels") or ()),
    )
    return to_build(record, version)


def check_cuda(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """CUDA versions as role cuda_toolkit takes them, and that driver and GPUs support."""
    cuda = wanted.node.cuda
    strange = [version for version in cuda.versions if not re.fullmatch(r"\d+\.\d+", version)]
    strange += {cuda.default} - {"", *cuda.versions}
    if strange and not wanted.driver_only:
        yield refusal(
            "CUDA toolkits",
            quoted(strange),
            "versions as MAJOR.MINOR, and 'cuda_toolkit_default' is one of them",
            "Correct 'cuda_toolkit_versions' or 'cuda_toolkit_default'.",
        )
    driver, models = wanted.node.driver.version, models_of(facts, wanted, tables)
    step = "" if wanted.node.manages("nvidia_driver") else STEPS[Subject.CUDA]
    for version in cuda.versions:
        yield from _refused(compatible.cuda_with_driver(version, driver, tables.versions), step)
        for model in models:
            yield from _refused(compatible.cuda_on_gpu(version, model, tables.versions))


def check_containerd(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """A containerd that the operating system has packages of, and that the Kubernetes version supports."""
    if facts.get("other_containerd"):
        yield facts["other_containerd"]
    node, record = wanted.node, facts["record"]
    version = node.containerd.version if node.manages("containerd") else record["containerd"].get("version")
    of_node = record["kubernetes"]["kubelet_version"]
    kubernetes = node.kubernetes.version if node.manages("kubernetes_node") else of_node
    # What somebody else has set up and does not tell its version, the suite names.
    if version is None or kubernetes is None:
        return
    unfit = compatible.containerd(version, kubernetes, tables.versions)
    role = "kubernetes_node" if unfit and unfit.subject is Subject.KUBERNETES else "containerd"
    if node.manages(role):
        yield from _refused(unfit)
    # And what no row knows of two that others run together already.
    elif unfit and (unfit.known or node.manages("containerd") or node.manages("kubernetes_node")):
        yield from _refused(unfit, _of_owner(role))


def check_container_toolkit(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """The container toolkit is not a release that harms nodes, and uses CDI if our device plugin does."""
    node, ours = wanted.node, DEVICE_PLUGIN in wanted.node.operands.ours
    step, version = "", node.toolkit.version
    if not node.manages("nvidia_container_toolkit"):
        there = facts["record"]["packages"]
        # Of one that no package brought, nothing tells its release.
        version = next((str(there[name]["version"]) for name in TOOLKIT if name in there), "")
        step = "Have its owner bring such a release, or keep a plugin of the cluster's: 'gpu_operands_device_plugin: existing'."
    elif version:
        yield from _refused(compatible.container_toolkit(version, tables.versions))
    if version and ours:
        yield from _refused(compatible.container_toolkit_with_our_plugin(version, tables.versions), step)
    if (version or step) and ours and node.toolkit.mode == "legacy":
        yield refusal(
            Subject.TOOLKIT_AND_PLUGIN,
            "'nvidia_container_toolkit_mode: legacy'",
            "'auto' or 'cdi' with our device plugin, which hands out GPUs by CDI",
            "Correct 'nvidia_container_toolkit_mode', or keep a plugin of the cluster's: 'gpu_operands_device_plugin: existing'.",
        )
