"""The program that divides a node's GPUs, for whoever runs module gpu_partitions."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.bundled import BundledAction

from gpusmith.node.bundle import partition

# Made when ansible-playbook loads the plugin, before it forks a worker for each host.
PACKED = base64.b64encode(partition()).decode()


class PartitioningAction(BundledAction):
    """Runs modules with that program."""

    packed = PACKED
