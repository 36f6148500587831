"""Checks of the workloads tier: pods were run and judged when the first of them is asked; each reads its finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpusmith.checks.findings import Finding
from gpusmith.checks.register import check

if TYPE_CHECKING:  # the run of the workloads reads the register
    from gpusmith.workloads.outcome import NodeOutcome


def _of_the_run(name: str, *, place: int, proves: str, fails_when: str, do: str) -> None:
    """Register a check whose finding comes from the run of the workloads on a node."""

    def found(outcome: NodeOutcome) -> Finding:
        return outcome.findings[name]

    check(name, place=place, proves=proves, fails_when=fails_when, do=do)(found)


_of_the_run(
    "workloads.nvidia-smi",
    place=10,
    proves="nvidia-smi in a pod lists exactly the GPUs that the pod was given",
    fails_when="the pod does not start, or lists no GPU, another number, or a GPU that the host does not know",
    do="read the pod's events and log in the evidence; compare with 'nvidia-smi -L' on the node",
)
_of_the_run(
    "workloads.network",
    place=20,
    proves="a pod on the node resolves a Service by the cluster's DNS, and connects to its backend",
    fails_when="the name does not resolve or the connection fails; 'validation_network: false' leaves this check out",
    do="look at routes and kubelet's 'clusterDNS' on the node, at CoreDNS and kube-proxy",
)
_of_the_run(
    "workloads.cuda",
    place=30,
    proves="a CUDA kernel computes the CPU's result on every free GPU",
    fails_when="a result is wrong, the program fails, a GPU is missing or unknown to the host, or the work fell back to the CPU",
    do="look at the checks of the nodes tier first, then run the program by hand in a pod",
)
_of_the_run(
    "workloads.throttle",
    place=35,
    proves="no GPU is slowed down by heat, hardware or power while the CUDA workload loads all free GPUs of the node at once",
    fails_when="NVML in the pod names such a reason for a GPU, or cannot be asked; a power cap does not count",
    do="look at 'nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER' under load, at the cooling and the power supply",
)
_of_the_run(
    "workloads.pytorch",
    place=40,
    proves="a PyTorch training step works: the loss falls and the weights match the closed form",
    fails_when="the loss does not fall, the weights differ, or PyTorch gets no GPU or one that the host does not know",
    do="compare the image's CUDA version with the driver's; then run the program by hand in a pod",
)
_of_the_run(
    "workloads.tensorflow",
    place=50,
    proves="a TensorFlow training step works: the loss falls and the weights match the closed form",
    fails_when="the loss does not fall, the weights differ, or TensorFlow gets no GPU or one that the host does not know",
    do="compare the image's CUDA version with the driver's; then run the program by hand in a pod",
)
_of_the_run(
    "workloads.allocation",
    place=60,
    proves="one pod per free GPU runs at the same time, and all UUIDs are distinct and known to the host",
    fails_when="a pod gets no GPU, two pods hold the same one, or a pod holds one that the host does not know",
    do="look for a second device plugin or for time slicing; restart the device plugin",
)
_of_the_run(
    "workloads.oversubscription",
    place=70,
    proves="one more pod waits for 'Insufficient nvidia.com/gpu', then gets exactly the freed GPU",
    fails_when="the pod is placed while all GPUs are held, waits for another reason, or gets another GPU than the freed one",
    do="look for a second device plugin, for time slicing, or for somebody else's pod that ended meanwhile",
)
_of_the_run(
    "workloads.isolation",
    place=80,
    proves="pods without a GPU request see no GPU, also with NVIDIA_VISIBLE_DEVICES=all",
    fails_when="such a pod sees, opens or creates a GPU's device node, or the RuntimeClass for the test is missing",
    do="set 'accept-nvidia-visible-devices-envvar-when-unprivileged = false' in the runtime's config.toml, or run site.yml",
)


@check(
    "workloads.cleanup",
    place=90,
    proves="everything that the run created is removed",
    fails_when="the run's namespace still exists some time after its removal",
    do="find out what blocks its removal: kubectl get namespace NAME -o yaml",
    per_node=False,
)
def cleanup(left: Finding) -> Finding:
    """The run itself has looked."""
    return left
