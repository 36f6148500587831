#!/usr/bin/python
"""Ansible module: refuse a cluster whose GPU operands belong to somebody else."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: foreign_operands
short_description: Refuse a second owner of the device plugin and its companions
description:
  - Lists the DaemonSets and Deployments of the cluster once, and fails if one outside of our namespace runs a component that is to
    be ours. Device plugin and feature discovery share an image; the command of the container tells them apart.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  namespace:
    description: Our own namespace.
    type: str
    required: true
  components:
    description: >-
      Components that are to be ours, each with C(component) (nvidia-device-plugin, gpu-feature-discovery, node-feature-discovery or
      gpu-operator), C(name) and C(advice).
    type: list
    elements: dict
    required: true
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Refuse a second owner
  gpusmith.gpu.foreign_operands:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    namespace: gpusmith-system
    components:
      - component: nvidia-device-plugin
        name: device plugin
        advice: "Say that it stays with 'gpu_operands_device_plugin: existing'."
  delegate_to: localhost
"""

RETURN = r"""
foreign:
  description: What was found, one sentence each.
  returned: always
  type: list
  elements: str
namespace_exists:
  description: Whether our namespace is there already.
  returned: success
  type: bool
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import ClusterApi, ClusterError


def foreign(
    workloads: Iterable[Mapping[str, Any]], namespace: str, components: Sequence[Mapping[str, str]]
) -> list[str]:
    """What somebody else runs, one sentence each.

    Args:
        workloads: DaemonSets and Deployments.
        namespace: ours.
        components: component, name and advice of each.
    """
    # The core of gpusmith lives in the controller's environment, where this module runs.
    from gpusmith.operands import component

    found = []
    for workload in workloads:
        metadata = workload["metadata"]
        if metadata["namespace"] == namespace:
            continue
        containers = workload["spec"]["template"]["spec"].get("containers", [])
        theirs = {component(container) for container in containers}
        found += [
            f"'{metadata['namespace']}/{metadata['name']}' is a {ours['name']} of somebody else. {ours['advice']}"
            for ours in components
            if ours["component"] in theirs
        ]
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "namespace": {"type": "str", "required": True},
            "components": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        api = ClusterApi(module.params["kubeconfig"])
        found = foreign(api.workloads(), module.params["namespace"], module.params["components"])
        there = api.has_namespace(module.params["namespace"])
    except ClusterError as error:
        module.fail_json(msg=str(error), foreign=[])
    if found:
        module.fail_json(
            msg=f"Two owners of one operand would fight over the GPUs: {' '.join(found)}", foreign=found
        )
    module.exit_json(changed=False, foreign=[], namespace_exists=there)


if __name__ == "__main__":
    main()
