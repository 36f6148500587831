"""Checks of the nodes tier on the container runtime: its effective configuration, and that the running one has it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from gpusmith.node.facts import NodeFacts
from gpusmith.problems import Problem


def containerd(facts: NodeFacts) -> list[Problem]:
    """What containerd would really use, all its files merged."""
    node, effective = facts.host.name, facts.record.containerd.effective
    evidence = {"effective": asdict(effective), "containerd": facts.record.containerd.version}
    # What another file sets, site.yml cannot take back; files of conf.d are merged in the order of their names.
    keys = "SystemdCgroup|enable_cdi|disabled_plugins|BinaryName"
    step = (
        f"Run site.yml; a file that overrides ours has to go: \"grep -rnE '{keys}' /etc/containerd\" on '{node}' names it,"
        " 'containerd config dump' shows the result."
    )
    if effective.runtime_nvidia is None:
        return [Problem(f"Node '{node}': containerd's configuration cannot be read.", step, evidence)]
    wanted = {
        "runtime_nvidia": "has no runtime 'nvidia', so pods get no GPU",
        "systemd_cgroup": "does not use systemd's cgroups, as kubelet does",
        "cdi": "has CDI switched off, so the device plugin's devices do not reach containers",
    }
    problems = [
        Problem(f"Node '{node}': containerd's effective configuration {what}.", step, evidence)
        for key, what in wanted.items()
        if not getattr(effective, key)
    ]
    if effective.cri_disabled:
        problems.append(
            Problem(
                f"Node '{node}': containerd's CRI plugin is disabled, kubelet cannot use it.", step, evidence
            )
        )
    binary = str(effective.runtime_binary or "")
    if effective.runtime_nvidia and not _is_nvidia_runtime(binary):
        problems.append(
            Problem(
                f"Node '{node}': containerd's runtime 'nvidia' runs '{binary or 'runc'}'.", step, evidence
            )
        )
    elif facts.record.containerd.runtime_binary_found is False:
        problems.append(
            Problem(
                f"Node '{node}': program '{binary}' of containerd's runtime 'nvidia' is not there, no GPU container starts.",
                step,
                evidence,
            )
        )
    return problems + _default_runtime(facts, evidence) + _containerd_running(facts, evidence)


def _default_runtime(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """Role nvidia_container_toolkit leaves the runtime of other pods alone, unless its variable says otherwise."""
    node, effective = facts.host.name, facts.record.containerd.effective
    name, binary = effective.default_runtime, str(effective.default_binary or "")
    wanted = facts.host.default_runtime_nvidia
    is_nvidia = name == "nvidia" or _is_nvidia_runtime(binary)
    if name is not None and is_nvidia == wanted:
        return []
    runs = f", which runs '{binary}'" if binary else ""
    variable = "'nvidia_container_toolkit_default_runtime'"
    if name is None:
        cause = f"Node '{node}': containerd's default runtime cannot be read."
        step = f"Look at 'containerd config dump' on '{node}'."
    elif is_nvidia:
        cause = f"Node '{node}': every pod runs with the NVIDIA runtime: containerd's default runtime is '{name}'{runs}."
        step = (
            f"Find the file that sets it, 'grep -rn nvidia /etc/containerd' on '{node}'; remove that and run site.yml,"
            f" or set {variable} to true in the inventory."
        )
    else:
        cause = f"Node '{node}': containerd's default runtime is '{name}'{runs}, the inventory wants 'nvidia' ({variable})."
        step = f"Compare 'containerd config dump' on '{node}' with /etc/containerd, then run site.yml."
    return [Problem(cause, step, evidence)]


def _is_nvidia_runtime(binary: str) -> bool:
    return binary.rpartition("/")[2].startswith("nvidia-container-runtime")


def _containerd_running(facts: NodeFacts, evidence: Mapping[str, Any]) -> list[Problem]:
    """Files are what the next start uses; the running one may have begun with others."""
    service, files = facts.record.services.get("containerd"), facts.record.containerd
    started = service.started_unix if service else None
    if started is None:
        return []  # that it does not run says nodes.services
    node, cause = facts.host.name, ""
    # systemd tells whole seconds.
    if files.noted_digest is not None and files.noted_unix is not None and files.noted_unix + 1 >= started:
        if files.noted_digest != files.digest:
            cause = (
                f"Node '{node}': containerd was started with another configuration than its files give now."
            )
    elif files.config_changed_unix is not None and files.config_changed_unix > started + 1:
        cause = f"Node '{node}': containerd was started before its configuration was changed, and does not use it."
    return (
        [Problem(cause, f"Run site.yml, or 'systemctl restart containerd' on '{node}'.", evidence)]
        if cause
        else []
    )
