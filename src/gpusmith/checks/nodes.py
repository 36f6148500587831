"""The checks of the nodes tier by id, each over one probe record."""

from __future__ import annotations

from collections.abc import Mapping

from gpusmith.checks import devices, driver, gpus, health, host, runtime, services
from gpusmith.node.facts import NodeCheck

CHECKS: Mapping[str, NodeCheck] = {
    "nodes.identity": host.identity,
    "nodes.simulation-witnesses": driver.simulation_witnesses,
    "nodes.driver-versions": driver.driver_versions,
    "nodes.nvml": driver.nvml,
    "nodes.gpu-count": gpus.gpu_count,
    "nodes.gpu-model": gpus.gpu_model,
    "nodes.services": services.services,
    "nodes.fabric": services.fabric,
    "nodes.ecc": health.ecc,
    "nodes.row-remap": health.row_remap,
    "nodes.xid": health.xid,
    "nodes.throttle": health.throttle,
    "nodes.pcie-width": health.pcie_width,
    "nodes.processes": health.processes,
    "nodes.containerd": runtime.containerd,
    "nodes.cdi": devices.cdi,
    "nodes.char-links": devices.char_links,
    "nodes.host-baseline": host.host_baseline,
    "nodes.holds": driver.holds,
    "nodes.uniformity": gpus.uniformity,
}
