"""Action plugin of module gpu_partitions: sends the program that it installs on the node."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.partitioning import PartitioningAction


class ActionModule(PartitioningAction):
    """All of it is the module's work."""
