"""containerd: its effective configuration, all files merged, that the running one has it, and that its CRI plugin is up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpusmith.expect import services
from gpusmith.expect.wanted import Runtime
from gpusmith.probe.containerd import MERGED_NAME
from gpusmith.probe.cri import INSTANCES, LIST, hint
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

KEYS = "SystemdCgroup|enable_cdi|disabled_plugins|BinaryName"
TOOLKIT = ("nvidia-container-toolkit-base", "nvidia-container-toolkit")
"""Packages that bring the program of runtime 'nvidia'."""
SETTINGS = {
    "systemd_cgroup": "does not use systemd's cgroups, as kubelet does",
    "cdi": "has CDI switched off, so the device plugin's devices do not reach containers",
}
NVIDIA = {"runtime_nvidia": "has no runtime 'nvidia', so pods get no GPU"}


def problems(record: Record, wanted: Runtime) -> list[Problem]:
    """Configuration and service: what role containerd answers for, and with runtime 'nvidia' role nvidia_container_toolkit."""
    return configuration(record, wanted) + services.containerd(record, wanted.node) + cri(record, wanted.node)


def cri(record: Record, node: str) -> list[Problem]:
    """The plugin that the kubelet talks to: the service is up and has the right configuration also without it."""
    service, seen = record.services.get("containerd"), record.containerd.cri
    if seen.up or service is None or service.active != "active" or record.containerd.effective.cri_disabled:
        return []  # what is wrong with the service, or with its configuration, is said by those
    instances = record.system.sysctl.get(INSTANCES)
    evidence = {"cri": asdict(seen), INSTANCES: instances}
    if seen.up is None:
        cause = f"Node '{node}': whether containerd's CRI plugin is up cannot be asked ({seen.error})."
        step = f"Run '{' '.join(LIST[:3])}' on '{node}'; it must list plugin 'cri' as 'ok'."
        return [Problem(cause, step, evidence)]
    told = f" {hint(str(seen.error), instances)}".rstrip()
    cause = f"Node '{node}': containerd runs, but its CRI plugin does not, so kubelet cannot start a pod: '{seen.error}'.{told}"
    step = "Run site.yml, which restarts containerd once; if the plugin is not up then, what it says has to be taken away first."
    return [Problem(cause, step, evidence, Cure.CONTAINERD)]


def configuration(record: Record, wanted: Runtime) -> list[Problem]:
    """What containerd would really use."""
    node, effective = wanted.node, record.containerd.effective
    evidence = {"effective": asdict(effective), "containerd": record.containerd.version}
    # What another file sets, site.yml names and cannot take back; files of conf.d are merged in the order of their names.
    step = (
        f"Run site.yml; a file that overrides ours has to go: \"grep -rnE '{KEYS}' /etc/containerd\" on '{node}' names it,"
        " 'containerd config dump' shows the result."
    )
    if effective.runtime_nvidia is None:
        cause = f"Node '{node}': containerd's configuration cannot be read."
        return [Problem(cause, step, evidence, Cure.CONTAINERD)]
    found = [
        Problem(
            f"Node '{node}': containerd's effective configuration {what}.", step, evidence, Cure.CONTAINERD
        )
        for key, what in {**(NVIDIA if wanted.nvidia and not wanted.theirs else {}), **SETTINGS}.items()
        if not getattr(effective, key) and (wanted.cdi or key != "cdi")
    ]
    if effective.cri_disabled:
        cause = f"Node '{node}': containerd's CRI plugin is disabled, kubelet cannot use it."
        found.append(Problem(cause, step, evidence, Cure.CONTAINERD))
    if record.containerd.merge_outdated:
        cause = f"Node '{node}': '{MERGED_NAME}' of containerd's configuration has not what the other files say now."
        again = "Run site.yml: containerd 1.x takes the settings of the CRI plugin from that file alone, newer ones need none."
        found.append(Problem(cause, again, evidence, Cure.CONTAINERD))
    if wanted.nvidia and (effective.runtime_nvidia or not wanted.theirs):
        found += _program(record, node, step, evidence)
    if wanted.nvidia and not wanted.theirs:
        found += _default_runtime(record, wanted, evidence)
    return found + _running(record, node, evidence)


def _program(record: Record, node: str, step: str, evidence: Mapping[str, Any]) -> list[Problem]:
    """The program of runtime 'nvidia'."""
    binary = str(record.containerd.effective.runtime_binary or "")
    if record.containerd.effective.runtime_nvidia and not is_nvidia_runtime(binary):
        cause = f"Node '{node}': containerd's runtime 'nvidia' runs '{binary or 'runc'}'."
        return [Problem(cause, step, evidence, Cure.CONTAINERD)]
    if record.containerd.runtime_binary_found is not False:
        return []
    cause = f"Node '{node}': program '{binary}' of containerd's runtime 'nvidia' is not there, no GPU container starts."
    installed = [name for name in TOOLKIT if name in record.packages]
    if installed:
        again = f"Install package '{installed[0]}' again on '{node}': its file is gone, and package managers do not see that."
        return [Problem(cause, again, evidence)]
    return [Problem(cause, "Run site.yml, which installs the container toolkit.", evidence, Cure.PACKAGES)]


def _default_runtime(record: Record, wanted: Runtime, evidence: Mapping[str, Any]) -> list[Problem]:
    """Role nvidia_container_toolkit leaves the runtime of other pods alone, unless its variable says otherwise."""
    node, effective = wanted.node, record.containerd.effective
    name, binary = effective.default_runtime, str(effective.default_binary or "")
    is_nvidia = name == "nvidia" or is_nvidia_runtime(binary)
    if name is not None and is_nvidia == wanted.default_nvidia:
        return []
    runs = f", which runs '{binary}'" if binary else ""
    variable = "'nvidia_container_toolkit_default_runtime'"
    cure = Cure.CONTAINERD
    if name is None:
        cause = f"Node '{node}': containerd's default runtime cannot be read."
        step, cure = f"Look at 'containerd config dump' on '{node}'.", Cure.PERSON
    elif is_nvidia:
        cause = f"Node '{node}': every pod runs with the NVIDIA runtime: containerd's default runtime is '{name}'{runs}."
        step = (
            f"Find the file that sets it, 'grep -rn nvidia /etc/containerd' on '{node}'; remove that and run site.yml,"
            f" or set {variable} to true in the inventory."
        )
    else:
        cause = f"Node '{node}': containerd's default runtime is '{name}'{runs}, the inventory wants 'nvidia' ({variable})."
        step = f"Compare 'containerd config dump' on '{node}' with /etc/containerd, then run site.yml."
    return [Problem(cause, step, evidence, cure)]


def is_nvidia_runtime(binary: str) -> bool:
    """Whether a program is that of runtime 'nvidia'."""
    return binary.rpartition("/")[2].startswith("nvidia-container-runtime")


def _running(record: Record, node: str, evidence: Mapping[str, Any]) -> list[Problem]:
    """Files are what the next start uses; the running one may have begun with others."""
    service, files = record.services.get("containerd"), record.containerd
    started = service.started_unix if service else None
    if started is None:
        return []  # that it does not run says nodes.services
    cause = ""
    # systemd tells whole seconds.
    if files.noted_digest is not None and files.noted_unix is not None and files.noted_unix + 1 >= started:
        if files.noted_digest != files.start_digest:
            cause = (
                f"Node '{node}': containerd was started with another configuration than its files give now."
            )
    elif files.config_changed_unix is not None and files.config_changed_unix > started + 1:
        cause = f"Node '{node}': containerd was started before its configuration was changed, and does not use it."
    step = f"Run site.yml, or 'systemctl restart containerd' on '{node}'."
    return [Problem(cause, step, evidence, Cure.CONTAINERD)] if cause else []
