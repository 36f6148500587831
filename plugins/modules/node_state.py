"""Documentation of the action plugin with the same name (plugins/action/node_state.py)."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_state
short_description: Report the state of a GPU node
description:
  - Gathers packages, PCI devices, kernel module, NVIDIA libraries, NVML's answers, device nodes, services, Xid messages, the
    effective configuration of containerd, CDI specifications and the kubelet's state in one round trip.
  - Changes nothing, and needs only Python 3.8 on the node; the probe is sent there, and leaves no file. Unknown values are null.
version_added: "0.1.0"
author: gpusmith contributors
options:
  nvml_timeout:
    description: Seconds that the NVIDIA management library may take to answer.
    type: float
    default: 30.0
attributes:
  check_mode:
    support: full
    description: Changes nothing in either mode.
"""

EXAMPLES = r"""
- name: Read the state of the node
  gpusmith.gpu.node_state:
  register: __role_state
"""

RETURN = r"""
ansible_facts:
  description: C(distribution), C(distribution_version), C(distribution_major_version) and C(os_family), as M(ansible.builtin.setup) has them.
  returned: always
  type: dict
record:
  description: The record, schema C(gpusmith.probe/1).
  returned: always
  type: dict
stamp:
  description: The facts whose change requires a new validation of the node, with a digest of them.
  returned: always
  type: dict
"""
