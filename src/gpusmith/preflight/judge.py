"""What preflight decides: from what a machine tells and what the inventory wants to reasons to refuse it.

Pure functions on the controller; nothing here fails a host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gpusmith.errors import Refusal
from gpusmith.preflight.fabric import check_fabric
from gpusmith.preflight.join import check_endpoint
from gpusmith.preflight.kernel_modules import check_kernel_modules
from gpusmith.preflight.machine import (
    check_architecture,
    check_certificate,
    check_cgroups,
    check_clock,
    check_disk,
    check_foreign_driver,
    check_gpus,
    check_headers,
    check_huge_pages,
    check_mig,
    check_nouveau,
    check_os,
    check_package_manager,
    check_parameters,
    check_pci_drivers,
    check_processes,
    check_trust,
    check_vgpu,
    check_witness,
)
from gpusmith.preflight.owners import check_owners, check_runtime_of_others
from gpusmith.preflight.programs import check_programs
from gpusmith.preflight.proxy import check_proxies
from gpusmith.preflight.repositories import check_drift, check_keys, check_removal, check_repositories
from gpusmith.preflight.secure_boot import check_secure_boot
from gpusmith.preflight.simulation import check_cni, check_simulation
from gpusmith.preflight.versions import (
    check_container_toolkit,
    check_containerd,
    check_cuda,
    check_driver,
    check_module,
)
from gpusmith.preflight.words import Facts, Tables, Wanted, refusal

CHECKS: Sequence[Callable[[Facts, Wanted, Tables], Iterator[Refusal]]] = [
    check_os,
    check_package_manager,
    check_architecture,
    check_gpus,
    check_pci_drivers,
    check_vgpu,
    check_cgroups,
    check_witness,
    check_nouveau,
    check_secure_boot,
    check_headers,
    check_disk,
    check_clock,
    check_certificate,
    check_endpoint,
    check_kernel_modules,
    check_parameters,
    check_huge_pages,
    check_trust,
    check_foreign_driver,
    check_processes,
    check_mig,
    check_fabric,
    check_driver,
    check_module,
    check_cuda,
    check_owners,
    check_runtime_of_others,
    check_programs,
    check_containerd,
    check_container_toolkit,
    check_drift,
    check_removal,
    check_proxies,
    check_keys,
    check_repositories,
    check_cni,
    check_simulation,
]


NOT_OF_A_DRIVER = frozenset(
    {
        check_parameters,
        check_huge_pages,
        check_trust,
        check_cgroups,
        check_owners,
        check_runtime_of_others,
        check_programs,
        check_containerd,
        check_container_toolkit,
        check_drift,
        check_cni,
    }
)
"""What another driver on a node that serves has nothing to do with."""


OF_A_DRIVER = frozenset(
    {
        check_witness,
        check_pci_drivers,
        check_vgpu,
        check_nouveau,
        check_secure_boot,
        check_headers,
        check_processes,
        check_mig,
        check_fabric,
        check_driver,
        check_module,
        check_cuda,
        check_drift,
    }
)
"""What a machine has nothing to do with that is to have no driver."""


OF_OUR_DRIVER = (OF_A_DRIVER | {check_foreign_driver}) - {
    check_witness,
    check_mig,
    check_fabric,
    check_driver,
    check_cuda,
    check_drift,
}
"""What a machine has nothing to do with whose driver is somebody else's."""


def judge(facts: Facts, wanted: Wanted, tables: Tables) -> list[Refusal]:
    """All reasons to refuse one host.

    Args:
        facts: what module `preflight` gathered on it.
        wanted: what the inventory says.
        tables: what is known of GPU models and of versions.
    """
    found: list[Refusal] = []
    left_out = NOT_OF_A_DRIVER if wanted.driver_only else frozenset()
    left_out |= OF_A_DRIVER if wanted.no_driver else frozenset()
    left_out |= frozenset() if wanted.node.manages("nvidia_driver") else OF_OUR_DRIVER
    for check in CHECKS:
        if check in left_out:
            continue
        try:
            found.extend(check(facts, wanted, tables))
        except (KeyError, TypeError) as error:
            # A hole in the record: the probe could not find out, which is no reason to go on.
            name = check.__name__.replace("check_", "").replace("_", " ")
            told = (
                "; ".join(facts.get("record", {}).get("errors") or []) or f"{type(error).__name__}: {error}"
            )
            found.append(
                refusal(
                    name,
                    f"could not be found out ({told})",
                    "an answer",
                    "Look at the machine, then run again.",
                )
            )
    return found
