"""What values of the inventory must be where their type does not say it. The playbooks' guard and the suite go by the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from gpusmith.data.baselines import VALUES
from gpusmith.errors import Refusal
from gpusmith.inventory import authorities, gpu_models, kubelet, proxy, registries, tenants
from gpusmith.inventory.labels import (
    DNS_NAME,
    is_amount,
    label,
    labels,
    limits,
    must_be,
    object_name,
    object_names,
    taints,
    texts,
)
from gpusmith.inventory.places import path
from gpusmith.inventory.values import truth, whole
from gpusmith.wanted import layouts
from gpusmith.wording import quoted

# systemd.unit(5), without templates that no instance is named of.
UNIT_NAME = re.compile(r"[A-Za-z0-9:_.\\@-]+")
NEVER_STOPPED = frozenset(
    {"kubelet", "containerd", "crio", "docker", "ssh", "sshd", "dbus", "systemd-networkd", "NetworkManager"}
)
MODULE_PARAMETER = re.compile(r"NVreg_[A-Za-z0-9]+")
MODULE_VALUE = re.compile(r"[^\s\"'\\#]+")
COMPONENTS = ("auto", "nscq", "nvsdm")
EXTRA_MODULES = ("nvidia_peermem", "gdrdrv", "nvidia_fs")
MOST_DAYS = 366
DURATION = re.compile(r"(?=.)(\d+y)?(\d+w)?(\d+d)?(\d+h)?(\d+m)?(\d+s)?")
# As sysfs and 'lspci -Dnn' write them.
GPU_PLACE = re.compile(r"10de:[0-9a-f]{4}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
SYSCTL_NAME = re.compile(r"[^\s=]+")
# Sizes of huge pages of x86-64, and of arm64 by its page size (Documentation/arch/arm64/hugetlbpage.rst of Linux).
LONGEST_WORKLOAD = 40
HUGE_PAGES = ("64Ki", "2Mi", "32Mi", "512Mi", "1Gi", "16Gi")

Rule = Callable[[str, Any], Iterator[Refusal]]


def sysctl(name: str, value: Any) -> Iterator[Refusal]:
    """Kernel parameters: each becomes a line of a file."""
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of kernel parameters to values", value)
        return
    for key, setting in value.items():
        if not isinstance(key, str) or not SYSCTL_NAME.fullmatch(key):
            yield must_be(name, "a mapping whose keys are names of kernel parameters", key)
        elif key.replace("/", ".").lstrip("-").startswith("vm.nr_hugepages"):
            # It would take memory from pods that run.
            yield must_be(name, "a mapping without huge pages, which 'host_baseline_huge_pages' sets", key)
        if isinstance(setting, bool) or not isinstance(setting, str | int | float) or "\n" in str(setting):
            yield must_be(f"{name}.{key}", "a string of one line or a number", setting)


def rates(name: str, value: Any) -> Iterator[Refusal]:
    """Rates of GPUs by their product names, as '--record-baseline' writes them."""
    for key, row in value.items():
        place = f"{name}.{key}"
        if not isinstance(row, Mapping) or not row:
            yield must_be(place, f"a mapping with some of {quoted(VALUES)}", row)
            continue
        for field, rate in row.items():
            if field not in VALUES:
                yield Refusal(f"'{place}' has no key '{field}'.", f"It has {quoted(VALUES)}.")
            elif isinstance(rate, bool) or not isinstance(rate, int | float) or rate <= 0:
                yield must_be(f"{place}.{field}", "a number above 0", rate)


def module_parameters(name: str, value: Any) -> Iterator[Refusal]:
    """Parameters of the driver's module: each becomes a word of a line of modprobe's."""
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of parameters to values", value)
        return
    for key, setting in value.items():
        if not isinstance(key, str) or not MODULE_PARAMETER.fullmatch(key):
            yield must_be(name, "a mapping whose keys are names such as 'NVreg_EnableStreamMemOPs'", key)
        plain = not isinstance(setting, bool) and isinstance(setting, str | int)
        if not plain or not MODULE_VALUE.fullmatch(str(setting)):
            yield must_be(
                f"{name}.{key}", "a number, or a text without blanks, quotes and backslashes", setting
            )


def each_of(*known: str) -> Rule:
    """A rule: every item of a list is one of these."""

    def rule(name: str, value: Any) -> Iterator[Refusal]:
        for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
            if item not in known:
                yield must_be(f"{name}[{index}]", f"one of {', '.join(known)}", item)

    return rule


def gpu_places(name: str, value: Any) -> Iterator[Refusal]:
    """GPUs by PCI device id or PCI address. YAML takes an address of digits for a number, unless it is quoted."""
    for index, item in enumerate(value if isinstance(value, list | tuple) else ()):
        if not isinstance(item, str) or not GPU_PLACE.fullmatch(item):
            wants = "a PCI device id such as '10de:1fb0', or a PCI address such as '0000:18:00.0', in quotes"
            yield must_be(f"{name}[{index}]", wants, item)


def sysctl_minimum(name: str, value: Any) -> Iterator[Refusal]:
    """Kernel parameters with a least value: one number each, so that more can be told from less."""
    found = list(sysctl(name, value))
    yield from found
    for key, setting in value.items() if not found else ():
        if any(sign in key for sign in "*?["):
            yield must_be(name, "a mapping whose keys are no patterns", key)
        least = whole(setting)
        if least is None or least < 0:
            yield must_be(f"{name}.{key}", "a whole number from 0", setting)


def huge_pages(name: str, value: Any) -> Iterator[Refusal]:
    """Numbers of huge pages by size. Which sizes a machine has, it tells itself."""
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping of sizes to numbers, such as {2Mi: 1024}", value)
        return
    for size, count in value.items():
        if size not in HUGE_PAGES:
            yield must_be(
                name, f"a mapping whose keys are sizes of huge pages ({', '.join(HUGE_PAGES)})", size
            )
        elif (found := whole(count)) is None or found < 0:
            yield must_be(f"{name}.{size}", "a whole number from 0", count)


def kubeconfig(name: str, value: Any) -> Iterator[Refusal]:
    """Path of a kubeconfig; whether there has to be one is known to who needs it."""
    if value is not None and not isinstance(value, str):
        yield must_be(name, "the path of a file", value)
        return
    try:
        if value and Path(value).expanduser().is_dir():
            yield Refusal(
                f"'{name}' must be the path of a file, not the folder {value!r}.",
                "Name a file in the inventory.",
            )
    except RuntimeError:
        yield Refusal(
            f"'{name}' must be the path of a file, not {value!r}, whose user has no home folder.",
            "Name a file in the inventory.",
        )


def file(name: str, value: Any) -> Iterator[Refusal]:
    """Path of a file of this machine, or nothing."""
    if not isinstance(value, str | None):
        yield must_be(name, "the path of a file", value)
    elif value and not path(value).is_file():
        yield Refusal(
            f"'{name}' names the file '{value}', which does not exist on this machine.", "Correct the path."
        )


def text(name: str, value: Any) -> Iterator[Refusal]:
    """A string, or nothing."""
    if value is not None and not isinstance(value, str):
        yield must_be(name, "a string", value)


def image(name: str, value: Any) -> Iterator[Refusal]:
    """Name of a container image."""
    if not isinstance(value, str) or not re.fullmatch(r"[^\s:][^\s]*", value):
        yield must_be(name, "the name of an image", value)


def port(name: str, value: Any) -> Iterator[Refusal]:
    """A TCP port, or nothing."""
    number = not isinstance(value, bool) and isinstance(value, int | str)
    if value is not None and not (
        number and re.fullmatch(r"[0-9]{1,5}", str(value)) and 0 < int(value) < 65536
    ):
        yield must_be(name, "a port from 1 to 65535", value)


def node_port(name: str, value: Any) -> Iterator[Refusal]:
    """A port of all nodes, by the range that an API server has if nobody gave it another one."""
    found = whole(value)
    if found is None or not 30000 <= found <= 32767:
        yield must_be(name, "a port from 30000 to 32767, as Services get them", value)


def flag(name: str, value: Any) -> Iterator[Refusal]:
    """A truth value, or nothing; Ansible takes words for it, too."""
    if value is not None and truth(value) is None:
        yield must_be(name, "true or false", value)


def own_workloads(name: str, value: Any) -> Iterator[Refusal]:
    """Workloads of the site's own: their names become those of pods."""
    rows = [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []
    names = [row.get("name") for row in rows]
    for index, row in enumerate(rows):
        place, own = f"{name}[{index}]", row.get("name")
        if isinstance(own, str) and not (
            DNS_NAME.fullmatch(own) and len(own) <= LONGEST_WORKLOAD and "." not in own
        ):
            wants = f"at most {LONGEST_WORKLOAD} small letters, digits and '-'"
            yield must_be(f"{place}.name", wants, own)
        if names.index(own) < index:
            yield must_be(f"{place}.name", "a name that no other workload has", own)
        gpus = row.get("gpus", "1")
        if isinstance(gpus, str) and gpus != "all" and not gpus.isdecimal():
            yield must_be(f"{place}.gpus", "'all' or a whole number from 0, in quotes", gpus)


def from_one(name: str, value: Any) -> Iterator[Refusal]:
    """A whole number of at least 1, or nothing."""
    found = whole(value)
    if value is not None and (found is None or found < 1):
        yield must_be(name, "a whole number from 1", value)


def shares(name: str, value: Any) -> Iterator[Refusal]:
    """How many pods get one GPU at the same time, or nothing."""
    found = whole(value)
    if value is not None and (found is None or not layouts.FEWEST <= found <= layouts.MOST):
        yield must_be(name, f"a whole number from {layouts.FEWEST} to {layouts.MOST}", value)


def from_zero(name: str, value: Any) -> Iterator[Refusal]:
    """A whole number that is not negative, or nothing."""
    found = whole(value)
    if value is not None and (found is None or found < 0):
        yield must_be(name, "a whole number from 0", value)


def interval(name: str, value: Any) -> Iterator[Refusal]:
    """Seconds between two values: Prometheus forgets a value, and the exporter an Xid, after five minutes."""
    found = whole(value)
    if value is not None and (found is None or not 5 <= found <= 120):
        yield must_be(name, "a whole number from 5 to 120", value)


def days(name: str, value: Any) -> Iterator[Refusal]:
    """Two queries for each half day; nobody keeps values for years."""
    found = whole(value)
    if value is not None and (found is None or not 1 <= found <= MOST_DAYS):
        yield must_be(name, f"a whole number from 1 to {MOST_DAYS}", value)


def duration(name: str, value: Any) -> Iterator[Refusal]:
    """As Prometheus takes it; with another one it keeps its old configuration, and does not start again."""
    if value is not None and not (isinstance(value, str) and DURATION.fullmatch(value)):
        yield must_be(name, "a duration such as '15d' or '1y'", value)


def volume(name: str, value: Any) -> Iterator[Refusal]:
    """A size that Kubernetes takes, without which there is no volume."""
    if not value or not isinstance(value, Mapping):
        return
    if value.get("size") is None:
        yield must_be(name, "a mapping with 'size'", value)
    elif not is_amount(value["size"]):
        yield must_be(f"{name}.size", "an amount such as '50Gi'", value["size"])


def alertmanager(name: str, value: Any) -> Iterator[Refusal]:
    """Alertmanager's configuration, as far as it is often wrong: it does not start then, and the one before is gone."""
    if not value or not isinstance(value, Mapping):
        return
    step = "docs/monitoring.md has an example."
    route, rows = value.get("route"), value.get("receivers")
    if not isinstance(route, Mapping) or not route.get("receiver") or not isinstance(rows, list | tuple):
        yield Refusal(f"'{name}' must be a mapping with 'receivers' and a 'route' with a 'receiver'.", step)
        return
    there = [str(row.get("name")) for row in rows if isinstance(row, Mapping)]
    for used in dict.fromkeys(map(str, _receivers(route))):
        if used not in there and "{{" not in used:
            yield Refusal(
                f"'{name}' must be a mapping whose 'receivers' have '{used}', which a route names.", step
            )


def _receivers(route: Mapping[str, Any]) -> Iterator[Any]:
    """Of a route, and of those below it that have their own."""
    if route.get("receiver"):
        yield route["receiver"]
    for row in route.get("routes") or []:
        if isinstance(row, Mapping):
            yield from _receivers(row)


def units(name: str, value: Any) -> Iterator[Refusal]:
    """Units of systemd that may be stopped: without those that the node, or the way to it, needs."""
    for index, unit in enumerate(value if isinstance(value, list | tuple) else ()):
        place = f"{name}[{index}]"
        if not isinstance(unit, str) or not UNIT_NAME.fullmatch(unit):
            yield must_be(place, "the name of a systemd unit, such as 'nvidia-dcgm.service'", unit)
        elif unit.partition(".")[0] in NEVER_STOPPED:
            yield must_be(place, "a unit whose processes use the GPUs", unit)


CONNECTION: Mapping[str, Rule] = {
    "ansible_host": text,
    "ansible_port": port,
    "ansible_user": text,
    "ansible_connection": text,
    "ansible_ssh_host": text,
    "ansible_ssh_port": port,
    "ansible_ssh_user": text,
    "ansible_ssh_args": text,
    "ansible_ssh_common_args": text,
    "ansible_ssh_extra_args": text,
    "ansible_ssh_private_key_file": file,
    "ansible_private_key_file": file,
    "ansible_become": flag,
    "ansible_become_user": text,
}
"""Ansible's own variables for the way to a host. One that cannot be used would break the connections of all hosts."""

OLD_NAMES = {f"ansible_ssh_{name}": f"ansible_{name}" for name in ("host", "port", "user")}
"""Old names of some of them, which Ansible still takes, before the new ones."""

RULES: Mapping[str, Rule] = {
    **CONNECTION,
    "gpusmith_kubeconfig": kubeconfig,
    "validation_kubeconfig": kubeconfig,
    "gpusmith_gpu_count": from_one,
    "gpusmith_gpu_model": label,
    "gpusmith_gpu_shares": shares,
    "gpusmith_gpus_ignored": gpu_places,
    gpu_models.VARIABLE: gpu_models.rules,
    "gpusmith_reboot_timeout_s": from_one,
    "nvidia_driver_nvml_timeout_s": from_one,
    "nvidia_driver_module_parameters": module_parameters,
    "nvidia_driver_extra_modules": each_of(*EXTRA_MODULES),
    "nvidia_driver_components": each_of(*COMPONENTS),
    "validation_timeout_pod_s": from_one,
    "validation_timeout_pull_s": from_one,
    "validation_timeout_s": from_one,
    "validation_load_s": from_one,
    "gpu_operands_labels": labels,
    "gpu_operands_namespace": object_name,
    "gpusmith_image_pull_secrets": object_names,
    "gpu_operands_runtime_class": object_name,
    "gpu_upgrade_canary": from_zero,
    "gpu_upgrade_soak_s": from_zero,
    "gpu_upgrade_max_failures": from_one,
    "gpu_upgrade_drain_timeout_s": from_zero,
    "gpu_upgrade_requires_hours": from_zero,
    "gpu_upgrade_evict": labels,
    "gpu_upgrade_stop_units": units,
    "gpu_pipeline_image": image,
    "gpu_pipeline_namespace": object_name,
    "gpu_pipeline_node_port": node_port,
    "gpu_pipeline_step_timeout_s": from_one,
    "gpu_pipeline_train_s": from_one,
    "gpu_monitoring_alertmanager_config": alertmanager,
    "gpu_monitoring_interval_s": interval,
    "gpu_monitoring_namespace": object_name,
    "gpu_monitoring_operator_labels": labels,
    "gpu_monitoring_report_days": days,
    "gpu_monitoring_retention": duration,
    "gpu_monitoring_storage": volume,
    "gpu_reclaim_idle_min": from_one,
    "gpu_reclaim_grace_min": from_zero,
    "gpu_reclaim_max_pods": from_one,
    "kubernetes_node_labels": labels,
    "validation_baselines": rates,
    "validation_labels": labels,
    "validation_annotations": texts,
    "validation_pod_limits": limits,
    "kubernetes_node_taints": taints,
    "validation_workloads": own_workloads,
    tenants.TEAMS: tenants.teams,
    tenants.CLASSES: tenants.classes,
    tenants.EXEMPT: object_names,
    "host_baseline_sysctl": sysctl,
    kubelet.VARIABLE: kubelet.settings,
    authorities.VARIABLE: authorities.rules,
    registries.VARIABLE: registries.rules,
    **dict.fromkeys(proxy.VARIABLES, proxy.rules),
    "host_baseline_sysctl_minimum": sysctl_minimum,
    "host_baseline_huge_pages": huge_pages,
}
"""By the name of the variable."""
