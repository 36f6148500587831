"""Packages of runtime, toolkit and Kubernetes, and holds."""

from __future__ import annotations

from collections.abc import Callable

from gpusmith.problems import Cure
from tests.faults.fault import Fault, Record, repairs, sets, version


def loose(name: str) -> Callable[[Record], object]:
    return lambda record: record["packages"][name].update(held=False)


FAULTS = {
    "not-held": Fault(
        sets("packages", "libcuda1", held=False),
        "nodes.holds",
        ("libcuda1", "not held"),
        repairs=repairs(nvidia_driver={Cure.HOLD}),
    ),
    "runtime-not-held": Fault(
        loose("containerd.io"),
        "nodes.holds",
        ("containerd.io", "not held"),
        repairs=repairs(containerd={Cure.HOLD}),
    ),
    "toolkit-not-held": Fault(
        loose("nvidia-container-toolkit"),
        "nodes.holds",
        ("nvidia-container-toolkit", "not held"),
        repairs=repairs(nvidia_container_toolkit={Cure.HOLD}),
    ),
    "kubelet-not-held": Fault(
        loose("kubelet"), "nodes.holds", ("kubelet", "not held"), repairs=repairs(kubernetes_node={Cure.HOLD})
    ),
    "runtime-of-another-version": Fault(
        version("containerd.io", "2.2.1-1"),
        "nodes.holds",
        ("'containerd.io' is 2.2.1, the inventory wants 2.3.7",),
    ),
    "toolkit-that-harms-nodes": Fault(
        version("nvidia-container-toolkit", "1.19.0-1"),
        "nodes.container-toolkit",
        ("version '1.19.0-1'", "nvidia-cdi-refresh.service", "allowed: '1.19.1' or newer"),
        frozenset({"nodes.holds"}),
    ),
    "runtime-that-kubernetes-does-not-support": Fault(
        sets("containerd", version="2.0.14"),
        "nodes.containerd-version",
        (
            "containerd '2.0.14' with Kubernetes '1.36.3', which does not support it",
            "'2.2.0 and later patches'",
        ),
        frozenset({"nodes.uniformity"}),
    ),
    "kubelet-of-another-version": Fault(
        version("kubelet", "1.36.2-1.1"),
        "nodes.holds",
        ("'kubelet' is 1.36.2, the inventory wants 1.36.3",),
    ),
}
