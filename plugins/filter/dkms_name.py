"""Filter: what DKMS calls the driver's module."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.plans import filter_module

from gpusmith.expect import kernels

DOCUMENTATION = r"""
name: dkms_name
short_description: What DKMS calls the driver's module
description:
  - Packagers differ in it, for example C(nvidia), C(nvidia-srv) or C(nvidia-current).
version_added: "0.1.0"
author: gpusmith contributors
positional: version
options:
  _input:
    description: Output of C(dkms status).
    type: str
    required: true
  version:
    description: Version of the driver, without the packager's part.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Show the module's name
  ansible.builtin.debug:
    msg: "{{ dkms.stdout | gpusmith.gpu.dkms_name('580.178.04') }}"
"""

RETURN = r"""
_value:
  description: The name; C(nvidia) if DKMS does not have that version.
  type: str
"""


def dkms_name(status: str, version: str) -> str:
    """See DOCUMENTATION."""
    return kernels.dkms_name(str(status), str(version))


FilterModule = filter_module(dkms_name)
