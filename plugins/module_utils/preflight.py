"""What preflight decides: from what a machine tells and what the inventory wants to a list of findings.

Pure functions on the controller; nothing here fails a host. A finding is {check, found, allowed, next_step}.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import satisfies

Finding = Dict[str, str]
Facts = Mapping[str, Any]
Wanted = Mapping[str, Any]
Data = Mapping[str, Any]

NEAREST = 3
FULL_DRIVER_VERSION = re.compile(r"^\d+\.\d+(\.\d+)?$")


def finding(check: str, found: str, allowed: str, next_step: str) -> Finding:
    """One reason to refuse a host."""
    return {"check": check, "found": found, "allowed": allowed, "next_step": next_step}


def numbers(version: str) -> Tuple[int, ...]:
    """The numeric parts of a version, without epoch and Debian revision."""
    plain = re.sub(r"^\d+:", "", str(version)).split("-")[0]
    return tuple(int(part) for part in re.findall(r"\d+", plain))


def branch(driver: str) -> int:
    """Branch of a driver version, 0 if it has none."""
    parts = numbers(driver)
    return parts[0] if parts else 0


def quoted(names: Iterable[object]) -> str:
    """Names for a sentence."""
    return ", ".join(f"'{name}'" for name in names)


def nearest(versions: Iterable[str], wanted: str) -> List[str]:
    """The versions with the smallest distance to the wanted one, the best first."""
    goal = numbers(wanted)

    def distance(version: str) -> List[int]:
        parts = numbers(version)
        width = max(len(parts), len(goal))
        return [
            abs(a - b) for a, b in zip(parts + (0,) * (width - len(parts)), goal + (0,) * (width - len(goal)))
        ]

    return sorted(versions, key=distance)[:NEAREST]


# --- the machine ---------------------------------------------------------------------------------------------------


def check_os(facts: Facts, _wanted: Wanted, data: Data) -> Iterable[Finding]:
    host = facts["record"]["host"]
    rows = data["compatibility"]["operating_systems"]["rows"]
    major = str(host.get("os_version") or "").split(".")[0]
    if not any(row["id"] == host.get("os_id") and row["version"] == major for row in rows):
        yield finding(
            "operating system",
            f"'{host.get('os_id')} {host.get('os_version')}'",
            quoted(f"{row['id']} {row['version']}" for row in rows),
            "It is not supported yet; install a supported one.",
        )


def check_package_manager(facts: Facts, _wanted: Wanted, _data: Data) -> Iterable[Finding]:
    """Without a backend for it, no repository was asked and no package can be managed."""
    name = facts["package_manager"]
    if name != "apt":
        yield finding(
            "package manager",
            f"'{name}'" if name else "none that this release knows",
            "'apt'",
            "This release manages systems with apt only; install one of those, or leave the machine out with -l.",
        )


def check_gpus(facts: Facts, wanted: Wanted, data: Data) -> Iterable[Finding]:
    """GPUs on PCI; NVSwitches are bridges and were never among them."""
    gpus = facts["record"]["pci"]["gpus"]
    models = data["gpus"]["models"]
    name, count = wanted.get("gpu_model"), wanted.get("gpu_count")
    if name not in models:
        yield finding(
            "GPU model", f"'{name or ''}'", quoted(models), "Set 'gpusmith_gpu_model' to one of them."
        )
        return
    expected = "10de:" + models[name]["pci_device_id"].replace("0x", "")
    others = sorted({gpu["device_id"] for gpu in gpus} - {expected})
    if others:
        known = {"10de:" + model["pci_device_id"].replace("0x", ""): key for key, model in models.items()}
        told = ", ".join(f"'{device}' ({known.get(device, 'unknown to data/gpus.yml')})" for device in others)
        yield finding(
            "GPU model",
            told,
            f"'{expected}' ({name})",
            "Correct 'gpusmith_gpu_model', or look at what was built in ('lspci -nn').",
        )
    if len(gpus) != count:
        yield finding(
            "GPU count",
            f"{len(gpus)} on PCI",
            f"{count}",
            "Look for a GPU that fell off ('lspci -nn', 'dmesg'), or correct 'gpusmith_gpu_count'.",
        )


def check_nouveau(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    if facts["record"]["module"]["nouveau_loaded"] and wanted.get("reboot") == "never":
        yield finding(
            "nouveau",
            "loaded, so it holds the GPUs until a reboot",
            "not loaded, or a reboot is allowed",
            "Set 'gpusmith_reboot: if_needed', or blacklist nouveau and reboot the machine yourself.",
        )


def check_secure_boot(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    if facts["record"]["system"]["secure_boot"] and not wanted.get("secure_boot_allowed"):
        yield finding(
            "secure boot",
            "on",
            "off, since DKMS signs modules with a key that the firmware does not know",
            "Turn it off in the firmware, or enrol the key and set 'preflight_secure_boot_allowed: true'.",
        )


def check_headers(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    record = facts["record"]
    if (
        wanted.get("kernel_headers_required")
        and not facts["kernel_headers"]
        and not record["module"]["installed_version"]
    ):
        kernel = record["host"]["kernel"]
        yield finding(
            "kernel headers",
            f"none for kernel '{kernel}', and no package that brings them",
            f"'/lib/modules/{kernel}/build', or package 'linux-headers-{kernel}' in a repository",
            "Boot the distribution's current kernel, or add a repository with the headers.",
        )


def check_disk(facts: Facts, _wanted: Wanted, _data: Data) -> Iterable[Finding]:
    for path, space in sorted(facts["disk"].items()):
        if space["free_mib"] < space["needed_mib"]:
            yield finding(
                "disk space",
                f"{space['free_mib']} MiB free for '{path}'",
                f"at least {space['needed_mib']} MiB",
                "Free some, or lower 'preflight_free_space_mib' if you know that it is enough.",
            )


def check_clock(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    offset, limit = facts["clock_offset_s"], wanted.get("clock_offset_limit_s")
    if limit and abs(offset) > limit:
        yield finding(
            "clock",
            f"{abs(offset):.0f} s {'ahead of' if offset > 0 else 'behind'} the controller",
            f"at most {limit} s apart, or certificates are not valid yet",
            "Let both machines follow a time server.",
        )


def check_foreign_driver(facts: Facts, _wanted: Wanted, _data: Data) -> Iterable[Finding]:
    if facts["foreign_driver"]:
        yield finding(
            "foreign driver",
            quoted(facts["foreign_driver"]) + ", which no package owns",
            "a driver from packages, or none",
            "Remove it with the installer that brought it ('nvidia-uninstall'), then run again.",
        )


def check_witness(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    library = facts["record"]["library"]["simulated"]
    inventory = bool(wanted.get("simulated"))
    if library is not None and library != inventory:
        words = {True: "simulated", False: "real"}
        yield finding(
            "simulation",
            f"the installed NVIDIA library is {words[library]}",
            f"{words[inventory]}, as the inventory says",
            "Correct 'gpusmith_simulated', or the machine that this host name leads to.",
        )


# --- versions against each other -----------------------------------------------------------------------------------


def check_driver(facts: Facts, wanted: Wanted, data: Data) -> Iterable[Finding]:
    version = str(wanted.get("driver_version") or "")
    if not FULL_DRIVER_VERSION.match(version):
        offered = _offered(facts, "nvidia_driver")
        alike = [name for name in offered if str(branch(name)) == version] or offered
        step = (
            f"The repository has {quoted(nearest(alike, version))}."
            if alike
            else "Name a full version, for example '580.95.05'."
        )
        yield finding(
            "driver version", f"'{version}', which is a branch or no version", "a full version", step
        )
        return
    model = data["gpus"]["models"].get(wanted.get("gpu_model")) or {}
    rows = data["compatibility"]["architectures"]["rows"]
    row: Dict[str, Any] = next((row for row in rows if row["architecture"] == model.get("architecture")), {})
    first, last = int(model.get("min_driver_branch", 0)), int(row.get("last_branch", 10**6))
    if not first <= branch(version) <= last:
        allowed = f"branch {first} or newer" if branch(version) < first else f"branch {last} or older"
        yield finding(
            "driver for this GPU",
            f"driver '{version}'",
            f"{allowed} for '{wanted.get('gpu_model')}' ({model.get('architecture')})",
            "Correct 'nvidia_driver_version'.",
        )
    flavour, ability = wanted.get("module_flavour"), model.get("open_module")
    if (flavour == "proprietary" and ability == "required") or (
        flavour == "open" and ability == "unsupported"
    ):
        right = "open" if ability == "required" else "proprietary"
        yield finding(
            "module flavour",
            f"'{flavour}'",
            f"'{right}' for '{wanted.get('gpu_model')}'",
            "Set 'nvidia_driver_module_flavour: auto'.",
        )


def check_cuda(_facts: Facts, wanted: Wanted, data: Data) -> Iterable[Finding]:
    driver = str(wanted.get("driver_version") or "")
    rows = {row["cuda"]: row for row in data["compatibility"]["cuda_driver"]["rows"]}
    model = data["gpus"]["models"].get(wanted.get("gpu_model")) or {}
    known = data["compatibility"]["architectures"]["rows"]
    limits: Dict[str, Any] = next(
        (row for row in known if row["architecture"] == model.get("architecture")), {}
    )
    for version in wanted.get("cuda_versions") or []:
        row = rows.get(str(version).split(".")[0])
        if row is None:
            yield finding(
                "CUDA version",
                f"'{version}'",
                quoted(f"{cuda}.x" for cuda in rows),
                "Correct 'cuda_toolkit_versions'.",
            )
        elif branch(driver) < row["minimum_branch"]:
            yield finding(
                "CUDA and driver",
                f"CUDA '{version}' with driver '{driver}'",
                f"driver branch {row['minimum_branch']} or newer",
                "Choose a newer 'nvidia_driver_version' or an older CUDA.",
            )
        if "last_cuda" in limits and numbers(version)[0] > int(limits["last_cuda"]):
            yield finding(
                "CUDA for this GPU",
                f"CUDA '{version}'",
                f"{limits['last_cuda']}.x or older",
                "Correct 'cuda_toolkit_versions'.",
            )
        if "first_cuda" in limits and numbers(version) < numbers(limits["first_cuda"]):
            yield finding(
                "CUDA for this GPU",
                f"CUDA '{version}'",
                f"{limits['first_cuda']} or newer",
                "Correct 'cuda_toolkit_versions'.",
            )


def check_containerd(_facts: Facts, wanted: Wanted, data: Data) -> Iterable[Finding]:
    kubernetes, version = (
        str(wanted.get("kubernetes_version") or ""),
        str(wanted.get("containerd_version") or ""),
    )
    rows = {
        row["kubernetes"]: row["containerd"] for row in data["compatibility"]["kubernetes_containerd"]["rows"]
    }
    minor = ".".join(kubernetes.split(".")[:2])
    if minor not in rows:
        yield finding(
            "Kubernetes version",
            f"'{kubernetes}'",
            quoted(f"{row}.x" for row in rows),
            "Correct 'kubernetes_node_version'.",
        )
        return
    first = next((good for good in rows[minor] if numbers(good)[:2] == numbers(version)[:2]), None)
    least = data["compatibility"]["containerd_minimum"]["version"]
    if first is None or numbers(version) < max(numbers(first), numbers(least)):
        good = [release for release in rows[minor] if numbers(release) >= numbers(least)]
        yield finding(
            "containerd and Kubernetes",
            f"containerd '{version}' with Kubernetes '{kubernetes}'",
            quoted(f"{release} and later patches" for release in good),
            "Correct 'containerd_version'.",
        )


# --- repositories and drift ----------------------------------------------------------------------------------------

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


def _offered(facts: Facts, owner: str) -> List[str]:
    answer = facts["repositories"].get(owner) or {}
    return [version for versions in (answer.get("versions") or {}).values() for version in versions]


def check_repositories(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    """Every version that is not installed yet has to be in its repository."""
    for owner, answer in sorted(facts["repositories"].items()):
        option = OPTION.get(owner, owner)
        if answer["error"]:
            yield finding(
                "repository",
                answer["error"],
                f"an answer from '{owner}_repository'",
                f"Correct '{owner}_repository', or bring it up.",
            )
            continue
        for package, version in sorted(answer["asked"].items()):
            offered = answer["versions"].get(package, [])
            if any(satisfies(candidate, version) for candidate in offered):
                continue
            if owner == "nvidia_driver" and not FULL_DRIVER_VERSION.match(
                str(wanted.get("driver_version") or "")
            ):
                continue  # told already, with the versions of that branch
            near = nearest(offered, version)
            yield finding(
                "version in the repository",
                f"no '{package}' of version '{version}' in '{owner}_repository'",
                f"nearest: {quoted(near)}" if near else "nothing of that name is there",
                f"Correct '{option}'." if near else NOT_THERE.get(owner, f"Correct '{owner}_repository'."),
            )


def check_drift(facts: Facts, wanted: Wanted, _data: Data) -> Iterable[Finding]:
    """What site.yml never changes on a node that serves."""
    record = facts["record"]
    if not record["kubernetes"]["joined"]:
        return
    package = (record["packages"].get(str(wanted.get("driver_package"))) or {}).get("version")
    driver = package or record["library"]["nvml_version"] or record["module"]["installed_version"]
    if driver and not satisfies(driver, str(wanted.get("driver_version"))):
        yield finding(
            "driver of a joined node",
            f"'{driver}' is installed",
            f"'{wanted.get('driver_version')}', as the inventory says; site.yml never changes it on a joined node",
            "That is the job of 'playbooks/upgrade_driver.yml', which is not available yet. Put the installed version into the inventory.",
        )
    kubelet = record["kubernetes"]["kubelet_version"]
    # The inventory may give the package's version, revision and all; the program tells its own.
    if kubelet and not satisfies(str(wanted.get("kubernetes_version")), kubelet):
        yield finding(
            "kubelet of a joined node",
            f"'{kubelet}' is installed",
            f"'{wanted.get('kubernetes_version')}', as the inventory says; site.yml never changes it on a joined node",
            "Upgrade the node with 'kubeadm upgrade node', or put the installed version into the inventory.",
        )


CHECKS: List[Callable[[Facts, Wanted, Data], Iterable[Finding]]] = [
    check_os,
    check_package_manager,
    check_gpus,
    check_witness,
    check_nouveau,
    check_secure_boot,
    check_headers,
    check_disk,
    check_clock,
    check_foreign_driver,
    check_driver,
    check_cuda,
    check_containerd,
    check_drift,
    check_repositories,
]


def judge(facts: Facts, wanted: Wanted, data: Data) -> List[Finding]:
    """All findings about one host.

    Args:
        facts: what module `preflight` gathered on it.
        wanted: what the inventory says.
        data: the content of data/gpus.yml and data/compatibility.yml, under `gpus` and `compatibility`.
    """
    found: List[Finding] = []
    for check in CHECKS:
        try:
            found.extend(check(facts, wanted, data))
        except (KeyError, TypeError) as error:  # noqa: PERF203 - one check's hole must not hide the others
            # A hole in the record: the probe could not find out, which is no reason to go on.
            name = check.__name__.replace("check_", "").replace("_", " ")
            told = (
                "; ".join(facts.get("record", {}).get("errors") or []) or f"{type(error).__name__}: {error}"
            )
            found.append(
                finding(
                    name,
                    f"could not be found out ({told})",
                    "an answer",
                    "Look at the machine, then run again.",
                )
            )
    return found


# --- the report ----------------------------------------------------------------------------------------------------


def of_host(result: Optional[Mapping[str, Any]]) -> List[Finding]:
    """Findings of a host by the result of its preflight task; a host without one could not be reached."""
    if result is None or result.get("unreachable") or "findings" not in result:
        why = str((result or {}).get("msg") or "no answer").strip().replace("\n", " ")
        return [finding("connection", why, "an answer by ssh", "Start the machine, or leave it out with -l.")]
    return list(result["findings"])


def table(by_host: Mapping[str, List[Finding]]) -> List[str]:
    """Lines for a person: every host with findings, each with what to do next."""
    bad = {host: findings for host, findings in by_host.items() if findings}
    lines = [f"{len(bad)} of {len(by_host)} hosts cannot be worked on:"] if bad else []
    for host, findings in bad.items():
        lines += [
            f"{host} | {row['check']} | found: {row['found']} | allowed: {row['allowed']} | {row['next_step']}"
            for row in findings
        ]
    return lines
