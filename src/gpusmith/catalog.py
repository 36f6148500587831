"""Every check has an id, a tier and one line that says what it proves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TIERS = ("nodes", "cluster", "workloads")
CLUSTER = "cluster"
"""Target of checks that concern no single node."""


@dataclass(frozen=True)
class Check:
    """One row of the catalog.

    Attributes:
        id: tier, dot, name.
        proves: one line.
        per_node: its targets are nodes; else it runs once, with the cluster as target.
        critical: a node that fails it is not expected to run workloads.
    """

    id: str
    proves: str
    per_node: bool = True
    critical: bool = False

    @property
    def tier(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]


_ROWS = (
    Check("nodes.reachable", "the node answers over ssh and its record could be read", critical=True),
    Check(
        "nodes.identity",
        "the machine that answers is the cluster's node that the inventory means, and no other host's",
        critical=True,
    ),
    Check(
        "nodes.simulation-witnesses",
        "inventory and loaded library agree on whether the GPUs are simulated",
        critical=True,
    ),
    Check(
        "nodes.driver-versions",
        "driver package = libraries = module file = loaded module = the inventory's version",
        critical=True,
    ),
    Check("nodes.nvml", "NVML starts and every GPU answers", critical=True),
    Check(
        "nodes.gpu-count",
        "GPUs on PCI = in NVML = in /dev = in the inventory, each one its own, and each device node leads to it",
        critical=True,
    ),
    Check(
        "nodes.gpu-model", "PCI id, name and memory of every GPU are the model's, and no GPU is in MIG mode"
    ),
    Check(
        "nodes.services",
        "container runtime, kubelet and the driver's daemons run and are enabled",
        critical=True,
    ),
    Check(
        "nodes.fabric",
        "where there are NVSwitches: fabric manager runs, no switch failed, every GPU has joined the fabric",
        critical=True,
    ),
    Check("nodes.ecc", "ECC is on, no uncorrectable memory error since the driver was loaded"),
    Check("nodes.row-remap", "no memory row waits for or failed remapping"),
    Check("nodes.xid", "the kernel module reported no Xid since it was loaded"),
    Check("nodes.throttle", "no GPU is slowed down by heat, hardware or power"),
    Check("nodes.pcie-width", "every GPU has all PCIe lanes that it and its slot can do"),
    Check("nodes.processes", "nobody outside of Kubernetes' pods computes on a GPU"),
    Check(
        "nodes.containerd",
        "containerd runs with its configuration, which has the nvidia runtime, for those who ask, systemd cgroups and CDI",
        critical=True,
    ),
    Check("nodes.cdi", "the CDI specification is for the loaded driver and leads exactly to the node's GPUs"),
    Check("nodes.char-links", "/dev/char links keep GPUs in containers over a reload of systemd"),
    Check(
        "nodes.host-baseline",
        "swap is off, and kernel modules and parameters are the inventory's, now and at the next boot",
    ),
    Check("nodes.holds", "driver, runtime and Kubernetes packages are held at their version"),
    Check("nodes.uniformity", "the node does not differ from the others of its model"),
    Check("cluster.api", "the API server answers and the lists could be read", per_node=False),
    Check("cluster.runtime-class", "the RuntimeClass of the GPU runtime is there", per_node=False),
    Check("cluster.leftovers", "nothing of an earlier run is left", per_node=False),
    Check("cluster.node-ready", "the Node exists, is Ready and not under pressure"),
    Check(
        "cluster.gpu-capacity", "GPUs in capacity = allocatable = the inventory, under no other name as well"
    ),
    Check("cluster.labels", "the Node carries the labels that schedulers and operands select by"),
    Check("cluster.taints", "the Node carries the inventory's taints"),
    Check(
        "cluster.operands",
        "the device plugin and the other operands of the node are ready, and ours are as site.yml made them",
    ),
    Check("workloads.nvidia-smi", "nvidia-smi in a pod lists exactly the GPUs that the pod was given"),
    Check(
        "workloads.network",
        "a pod on the node resolves a Service by the cluster's DNS, and connects to what is behind it",
    ),
    Check("workloads.cuda", "a CUDA kernel computes the CPU's result on every free GPU"),
    Check(
        "workloads.pytorch", "a PyTorch training step: the loss falls and the weights are the closed form's"
    ),
    Check(
        "workloads.tensorflow",
        "a TensorFlow training step: the loss falls and the weights are the closed form's",
    ),
    Check(
        "workloads.allocation",
        "one pod per free GPU at the same time: all UUIDs distinct and known to the host",
    ),
    Check(
        "workloads.oversubscription",
        "one more pod waits for 'Insufficient nvidia.com/gpu', then gets exactly the freed GPU",
    ),
    Check(
        "workloads.isolation", "pods without a GPU request see no GPU, also with NVIDIA_VISIBLE_DEVICES=all"
    ),
    Check("workloads.cleanup", "everything that the run made is gone", per_node=False),
)

CATALOG: Mapping[str, Check] = {row.id: row for row in _ROWS}


def of_tier(tier: str) -> tuple[Check, ...]:
    """The checks of one tier, in the order of the catalog."""
    return tuple(row for row in _ROWS if row.tier == tier)
