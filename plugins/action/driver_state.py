"""Action plugin of module driver_state: sends the probe's code with it, whose readers it uses."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.bundled import BundledAction


class ActionModule(BundledAction):
    """All of it is the module's work."""
