#!/usr/bin/python
"""Ansible module: wait until the scheduler may use all GPUs of all nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: allocatable_wait
short_description: Wait until nodes offer their GPUs to the scheduler
description:
  - Asks the cluster for its list of nodes until each named node is Ready and its allocatable number of a resource equals the
    expected one. One list call answers for all nodes, however many there are.
  - Runs on the controller. Never fails for a node that is not there in time; it says what was seen last, and the caller judges.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  expected:
    description: Number of devices that is expected, by name of the node.
    type: dict
    required: true
  resource:
    description: Extended resource to look at.
    type: str
    default: nvidia.com/gpu
  labels:
    description: Labels that each node must carry as well, such as those of feature discovery.
    type: list
    elements: str
    default: []
  timeout:
    description: Seconds to wait at the most.
    type: float
    default: 300.0
attributes:
  check_mode:
    support: full
    description: Looks once and does not wait.
"""

EXAMPLES = r"""
- name: Wait for the GPUs
  gpusmith.gpu.allocatable_wait:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    expected: {gpu-1: 8}
  delegate_to: localhost
"""

RETURN = r"""
nodes:
  description: What was seen last, by name of the node.
  returned: always
  type: dict
  sample: {"gpu-1": {"ready": true, "allocatable": 8, "reached": true, "seen": "Ready with 8 of 8 nvidia.com/gpu"}}
"""

from collections.abc import Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import ClusterApi, ClusterError

TICK_S = 1.0


def judge(
    nodes: dict[str, dict[str, Any]], expected: dict[str, int], resource: str, labels: Sequence[str] = ()
) -> dict[str, dict[str, Any]]:
    """Compare Node objects with the expected numbers.

    Args:
        nodes: Node objects by name.
        expected: number of devices by name of the node.
        resource: name of the extended resource.
        labels: names of labels that must be there too.

    Returns:
        By name: ready, allocatable, reached, and what was seen in words.
    """
    verdict: dict[str, dict[str, Any]] = {}
    for name, wanted in expected.items():
        node = nodes.get(name)
        if node is None:
            verdict[name] = {
                "ready": False,
                "allocatable": 0,
                "reached": False,
                "seen": "the cluster has no such node",
            }
            continue
        status = node.get("status", {})
        ready = any(
            c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions", [])
        )
        allocatable = int(status.get("allocatable", {}).get(resource, 0))
        missing = [label for label in labels if label not in node.get("metadata", {}).get("labels", {})]
        verdict[name] = {
            "ready": ready,
            "allocatable": allocatable,
            "reached": ready and allocatable == int(wanted) and not missing,
            "seen": f"{'Ready' if ready else 'not Ready'} with {allocatable} of {wanted} {resource}"
            + (f", without {', '.join(missing)}" if missing else ""),
        }
    return verdict


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "expected": {"type": "dict", "required": True},
            "resource": {"type": "str", "default": "nvidia.com/gpu"},
            "labels": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "float", "default": 300.0},
        },
        supports_check_mode=True,
    )
    # The core of gpusmith lives in the controller's environment, where this module runs.
    from gpusmith.wait import Deadline, Done, NotYet, WaitTimeout, wait_until

    expected = module.params["expected"]
    verdict: dict[str, dict[str, Any]] = {}

    def look() -> Done[None] | NotYet:
        verdict.update(
            judge(
                {n["metadata"]["name"]: n for n in api.nodes()},
                expected,
                module.params["resource"],
                module.params["labels"],
            )
        )
        missing = [f"{name}: {entry['seen']}" for name, entry in verdict.items() if not entry["reached"]]
        return NotYet("; ".join(missing)) if missing else Done(None)

    try:
        api = ClusterApi(module.params["kubeconfig"])
        wait_until(
            "the GPUs of all nodes",
            look,
            Deadline(0 if module.check_mode else module.params["timeout"]),
            TICK_S,
        )
    except WaitTimeout:
        pass  # what was seen is returned: the caller names the node that is late
    except ClusterError as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=False, nodes=verdict)


if __name__ == "__main__":
    main()
