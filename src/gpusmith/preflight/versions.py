"""Versions against each other, and against the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import satisfies

from gpusmith.data.compatibility import Limits
from gpusmith.data.models import Model
from gpusmith.errors import Refusal
from gpusmith.expect.kernels import to_build
from gpusmith.expect.layouts import PREBUILT, branch_of
from gpusmith.expect.versions import FULL_DRIVER, is_open, numbers, upstream
from gpusmith.node.records import load
from gpusmith.preflight.words import Facts, Tables, Wanted, nearest, offered_by, refusal
from gpusmith.probe.host import Host
from gpusmith.probe.kernels import Kernel
from gpusmith.probe.module import DriverModule
from gpusmith.probe.record import SCHEMA, Record
from gpusmith.wording import quoted


def _limits(model: Model | None, tables: Tables) -> Limits:
    """Of a model's architecture; no bounds if it is not known."""
    return tables.versions.architectures.get(model.architecture if model else "", Limits())


def check_driver(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """A full version, and a branch and module that support the GPU."""
    version = str(wanted.get("driver_version") or "")
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
    model = tables.models.get(wanted.get("gpu_model", ""))
    if model is None:
        return
    branches = tables.versions.driver_branches(model.architecture, model.min_driver_branch)
    if not branches.has(branch_of(version)):
        yield refusal(
            "driver for this GPU",
            f"driver '{version}'",
            f"{branches.words} for '{wanted.get('gpu_model')}' ({model.architecture})",
            f"Correct '{wanted.get('driver_variable', 'nvidia_driver_version')}'.",
        )
    flavour, ability = wanted.get("module_flavour"), model.open_module
    if (flavour == "proprietary" and ability == "required") or (
        flavour == "open" and ability == "unsupported"
    ):
        right = "open" if ability == "required" else "proprietary"
        yield refusal(
            "module flavour",
            f"'{flavour}'",
            f"'{right}' for '{wanted.get('gpu_model')}'",
            "Set 'nvidia_driver_module_flavour: auto'.",
        )


def check_module(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """The driver has that kind of module, and it compiles for the kernels that lack it."""
    version, model = str(wanted.get("driver_version") or ""), tables.models.get(wanted.get("gpu_model", ""))
    if not FULL_DRIVER.match(version):
        return
    kind = str(wanted.get("module_flavour") or "auto")
    if kind == "auto":
        kind = "proprietary" if model is not None and model.open_module == "unsupported" else "open"
    branches = tables.versions.module_kinds.get(kind)
    if branches is not None and not branches.has(branch_of(version)):
        yield refusal(
            "kernel module",
            f"driver '{version}' has no {kind} module",
            f"{branches.words} for the {kind} one",
            f"Correct '{wanted.get('driver_variable', 'nvidia_driver_version')}' or 'nvidia_driver_module_flavour'.",
        )
    for release in _to_build(facts["record"], upstream(version)):
        known = tables.versions.no_build(kind, upstream(version), release)
        if known is not None and wanted.get("module_build") != PREBUILT:
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


def check_cuda(_facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """CUDA versions that driver and GPU support."""
    driver = str(wanted.get("driver_version") or "")
    rows = tables.versions.driver_for_cuda
    limits = _limits(tables.models.get(wanted.get("gpu_model", "")), tables)
    for version in wanted.get("cuda_versions") or []:
        least = rows.get(str(version).split(".")[0])
        if least is None:
            yield refusal(
                "CUDA version",
                f"'{version}'",
                quoted(f"{cuda}.x" for cuda in rows),
                "Correct 'cuda_toolkit_versions'.",
            )
        elif not is_open(driver) and branch_of(driver) < least:
            yield refusal(
                "CUDA and driver",
                f"CUDA '{version}' with driver '{driver}'",
                f"driver branch {least} or newer",
                "Choose a newer 'nvidia_driver_version' or an older CUDA.",
            )
        if limits.last_cuda and numbers(version)[0] > int(limits.last_cuda):
            yield refusal(
                "CUDA for this GPU",
                f"CUDA '{version}'",
                f"{limits.last_cuda}.x or older",
                "Correct 'cuda_toolkit_versions'.",
            )
        if limits.first_cuda and numbers(version) < numbers(limits.first_cuda):
            yield refusal(
                "CUDA for this GPU",
                f"CUDA '{version}'",
                f"{limits.first_cuda} or newer",
                "Correct 'cuda_toolkit_versions'.",
            )


def check_containerd(facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """A containerd that the operating system has packages of, and that the Kubernetes version supports."""
    if facts.get("other_containerd"):
        yield facts["other_containerd"]
    kubernetes, version = (
        str(wanted.get("kubernetes_version") or ""),
        str(wanted.get("containerd_version") or ""),
    )
    rows = tables.versions.containerd
    minor = ".".join(kubernetes.split(".")[:2])
    if minor not in rows:
        yield refusal(
            "Kubernetes version",
            f"'{kubernetes}'",
            quoted(f"{row}.x" for row in rows),
            "Correct 'kubernetes_node_version'.",
        )
        return
    first = next((good for good in rows[minor] if numbers(good)[:2] == numbers(version)[:2]), None)
    if first is None or numbers(version) < numbers(first):
        yield refusal(
            "containerd and Kubernetes",
            f"containerd '{version}' with Kubernetes '{kubernetes}'",
            quoted(f"{release} and later patches" for release in rows[minor]),
            "Correct 'containerd_version'.",
        )


def check_container_toolkit(_facts: Facts, wanted: Wanted, tables: Tables) -> Iterator[Refusal]:
    """The container toolkit is not a release that harms nodes, and uses CDI if our device plugin does."""
    version, rows = str(wanted.get("toolkit_version") or ""), tables.versions
    if not version:
        return
    bad = next((row for release, row in rows.toolkit_refused.items() if satisfies(version, release)), None)
    if bad is not None:
        yield refusal(
            "container toolkit",
            f"version '{version}': {bad.why}",
            f"'{bad.instead}' or newer",
            "Correct 'nvidia_container_toolkit_version'.",
        )
    if wanted.get("device_plugin") != "managed":
        return
    if numbers(version) < numbers(rows.toolkit_cdi_minimum):
        yield refusal(
            "container toolkit and device plugin",
            f"version '{version}', whose runtime does not use CDI by itself",
            f"'{rows.toolkit_cdi_minimum}' or newer with our device plugin, which hands out GPUs by CDI",
            "Correct 'nvidia_container_toolkit_version'.",
        )
    if wanted.get("toolkit_mode") == "legacy":
        yield refusal(
            "container toolkit and device plugin",
            "'nvidia_container_toolkit_mode: legacy'",
            "'auto' or 'cdi' with our device plugin, which hands out GPUs by CDI",
            "Correct 'nvidia_container_toolkit_mode', or keep a plugin of the cluster's: 'gpu_operands_device_plugin: existing'.",
        )
