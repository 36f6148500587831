"""Names of variables: which exist, and what became of those that exist no longer."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from gpusmith.errors import Refusal
from gpusmith.inventory.specs import Specs, did_you_mean
from gpusmith.names import STARTUP_TAINT

ALIKE = 0.9
"""What a typing error does to a name: alike enough that nobody means both."""

GONE: Mapping[str, tuple[str, ...]] = {
    f"The key of the startup taint is always '{STARTUP_TAINT}', since another one was never taken off again: "
    "take the variable out.": ("kubernetes_node_startup_taint",),
    "Every look at a node has one deadline: use 'nvidia_driver_nvml_timeout_s'.": (
        "node_record_nvml_timeout_s",
        "node_stamp_nvml_timeout_s",
    ),
    "All roles wait for the package manager's lock as long as 'gpusmith_package_lock_timeout_s' says.": (
        "cuda_toolkit_apt_lock_timeout_s",
    ),
    "A person opens the firewall, by the commands that preflight prints: take the variable out.": (
        "host_baseline_firewall",
        "host_baseline_firewall_networks",
        "host_baseline_firewall_ports",
        "host_baseline_firewall_zone",
    ),
    "A node whose certificate has expired joins anew, by playbooks/remove_nodes.yml and site.yml: take the variable out.": (
        "kubernetes_node_rejoin_expired",
    ),
    "IMEX domains are left to NVIDIA's DRA driver: take the variable out.": ("nvidia_driver_imex_nodes",),
    "Roles decide it for each other: take the variable out.": (
        "serving_change_asks",
        "serving_change_files",
        "serving_change_kept",
        "serving_change_packages",
        "serving_change_restart_with",
        "serving_change_role",
        "serving_change_start",
        "serving_change_stay_s",
        "serving_change_timeout_s",
        "serving_change_unit",
    ),
    "It is a constant: take the variable out.": (
        "kubernetes_node_no_log",
        "kubernetes_node_token_ttl",
        "gpu_operands_image_pull_policy",
        "preflight_clock_offset_limit_s",
    ),
    "A node has the name of its host in the inventory: take the variable out.": ("kubernetes_node_name",),
    "Use 'gpusmith_gpu_model'.": ("kubernetes_node_gpu_type",),
    "Use 'gpusmith_simulated'.": ("kubernetes_node_simulated",),
    "Nodes that serve are changed one after another, and others need no throttle: take the variable out.": (
        "containerd_restart_throttle",
        "nvidia_container_toolkit_restart_throttle",
    ),
    "The machine's file '/etc/gpusmith-user-land' says it: take the variable out.": ("gpusmith_user_land",),
    "It is worked out: take the variable out.": (
        "gpu_upgrade_inventory",
        "gpu_upgrade_suite",
        "node_stamp_inventory",
        "node_stamp_suite",
        "preflight_kernel_headers_required",
        "preflight_scope",
    ),
    "Use 'gpusmith_bad_host'.": ("preflight_bad_host",),
    "Use 'gpusmith_image_registry'.": ("gpu_operands_image_registry",),
    "Use 'gpusmith_reboot_timeout_s'.": ("gpu_upgrade_reboot_timeout_s",),
    "Use 'gpusmith_report_dir'.": ("node_stamp_report_dir",),
    "Use 'gpusmith_validate'.": ("node_stamp_policy",),
    "Use 'validation_images', with the keys cuda, pytorch and tensorflow.": (
        "validation_image_cuda",
        "validation_image_pytorch",
        "validation_image_tensorflow",
    ),
    "Use 'validation_timeout_s'.": ("gpu_upgrade_validation_timeout_s", "node_stamp_timeout_s"),
    "One kubeconfig is for everything but the suite: use 'gpusmith_kubeconfig'.": (
        "gpu_operands_kubeconfig",
        "gpu_upgrade_kubeconfig",
        "kubernetes_node_kubeconfig",
        "node_stamp_kubeconfig",
        "preflight_kubeconfig",
        "serving_change_kubeconfig",
    ),
}
"""Variables that are gone, by the reason and what to do."""

REMOVED: Mapping[str, str] = {name: why for why, names in GONE.items() for name in names}
"""The same by variable."""


def _advice(name: str, specs: Specs) -> str:
    return REMOVED.get(name) or did_you_mean(name, specs.variables)


def check_extra_names(extra: Iterable[str], specs: Specs) -> list[Refusal]:
    """Names given with -e: every one must be declared, or be Ansible's own."""
    return [
        Refusal(f"Variable '{name}', given with -e, does not exist.", _advice(name, specs))
        for name in sorted(extra)
        if name not in specs.variables and not name.startswith("ansible_")
    ]


def check_inventory_names(names: Iterable[str], specs: Specs) -> list[Refusal]:
    """Names in the inventory: those with our prefixes must be declared, and none may nearly be a declared one."""
    found = []
    for name in sorted(names):
        if name in specs.variables or name.startswith(("ansible_", "_")):
            continue
        ours = name.startswith(specs.prefixes)
        if ours or difflib.get_close_matches(name, list(specs.variables), n=1, cutoff=ALIKE):
            found.append(Refusal(f"Variable '{name}' in the inventory does not exist.", _advice(name, specs)))
    return found
