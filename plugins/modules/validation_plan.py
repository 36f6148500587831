"""Ansible module: which nodes must be validated, by one list of Nodes."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: validation_plan
short_description: Tell which nodes must be validated
description:
  - Compares the stamp on each Node object with the facts of the node. Asks the cluster once, however many nodes there are.
  - Runs on the controller and changes nothing.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  nodes:
    description: Per host of the inventory its name in the cluster (C(node)) and its facts (C(facts)), as M(gpusmith.gpu.node_state) says.
    type: dict
    required: true
  policy:
    description: When to validate.
    type: str
    choices: [if_needed, always, never]
    default: if_needed
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Decide
  gpusmith.gpu.validation_plan:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    nodes: {gpu-1: {node: gpu-1, facts: "{{ state.stamp }}"}}
  delegate_to: localhost
"""

RETURN = r"""
hosts:
  description: Hosts to validate.
  returned: always
  type: list
  elements: str
reasons:
  description: Why, by host.
  returned: always
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import stamp
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import ClusterApi, ClusterError


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "nodes": {"type": "dict", "required": True},
            "policy": {"type": "str", "choices": list(stamp.POLICIES), "default": "if_needed"},
        },
        supports_check_mode=True,
    )
    asked = module.params["nodes"]
    try:
        there = {node["metadata"]["name"]: node for node in ClusterApi(module.params["kubeconfig"]).nodes()}
    except ClusterError as error:
        module.fail_json(msg=str(error))
    reasons = {
        host: stamp.reason(there.get(entry["node"]), entry["facts"], module.params["policy"])
        for host, entry in asked.items()
    }
    reasons = {host: text for host, text in reasons.items() if text}
    module.exit_json(changed=False, hosts=sorted(reasons), reasons=reasons)


if __name__ == "__main__":
    main()
