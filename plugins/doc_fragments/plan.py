"""What the documentation of all filters has that plan from a node's record."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations


class ModuleDocFragment:
    """See DOCUMENTATION."""

    DOCUMENTATION = r"""
options:
  _input:
    description: Record of M(gpusmith.gpu.node_state).
    type: dict
    required: true
"""
