"""A GPU that a pod holds by a ResourceClaim.

The scheduler allocates it from a ResourceSlice and reserves it for the pod. No driver runs that would prepare it, so the pod
stays in ContainerCreating: to the API, and so to everybody who asks who holds GPUs, it is held all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import NAMESPACE, Lab, PodSpec

DRIVER, CLASS = "gpu.example.com", "gpusmith-e2e"
CLAIM, POD, DEVICE = "a-gpu", "claims-a-gpu", "gpu-0"
SAYS = f"'{NAMESPACE}/{POD}' (by ResourceClaim '{CLAIM}', device '{DEVICE}' of driver '{DRIVER}'"
"""How messages name the pod and what it holds."""
GROUP = "resource.k8s.io/v1"


def _manifests(node: str, image: str) -> list[dict[str, Any]]:
    pod = PodSpec(POD, node).manifest(image)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": CLAIM}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    # As those who tolerate everything: it comes to a cordoned node too.
    pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    uuid = "GPU-00000000-0000-0000-0000-000000000000"
    device = {"name": DEVICE, "attributes": {"type": {"string": "gpu"}, "uuid": {"string": uuid}}}
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return [
        {
            "apiVersion": GROUP,
            "kind": "DeviceClass",
            "metadata": {"name": CLASS},
            "spec": {"selectors": [selector]},
        },
        {
            "apiVersion": GROUP,
            "kind": "ResourceSlice",
            "metadata": {"name": CLASS},
            "spec": {
                "driver": DRIVER,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [device],
            },
        },
        {
            "apiVersion": GROUP,
            "kind": "ResourceClaim",
            "metadata": {"name": CLAIM, "namespace": NAMESPACE},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": CLASS}}]}},
        },
        pod,
    ]


@contextmanager
def claimed_gpu(lab: Lab, node: str, image: str) -> Iterator[None]:
    """A pod in the tests' namespace holds a GPU of a node until the end of the block; then the GPU is offered no more."""
    lab.apply(*_manifests(node, image))
    try:

        def look() -> Done[None] | NotYet:
            pod = lab.get("pod", POD, f"--namespace={NAMESPACE}")
            claim = lab.get("resourceclaim", CLAIM, f"--namespace={NAMESPACE}")
            placed, reserved = pod["spec"].get("nodeName"), claim.get("status", {}).get("reservedFor")
            return Done(None) if placed == node and reserved else NotYet(str(pod.get("status")))

        wait_until(f"pod '{POD}' to get its claim", look, Deadline(60), tick=0.5)
        yield
    finally:
        # By force: kubelet has no driver that it could ask to take the device back.
        lab.kubectl("delete", "pod", POD, f"--namespace={NAMESPACE}", "--force", "--grace-period=0")
        lab.kubectl("delete", "resourceslice,deviceclass", CLASS)
        lab.kubectl("delete", "resourceclaim", CLAIM, f"--namespace={NAMESPACE}", timeout=120)
