"""Filters and tests, loaded where they are loaded once.

To find one filter of a collection Ansible loads all files that have some. Where that is first done by the workers that it forks for
each host and task, each of them does it again, with all that the judge needs.
"""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from ansible.plugins.loader import filter_loader, test_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig

from gpusmith.inventory import specs


def load() -> None:
    """Load them: to be called when ansible-playbook loads an action plugin, before it forks."""
    # None where a plugin is imported by something else than Ansible.
    if AnsibleCollectionConfig.collection_finder is not None:
        filter_loader.get("gpusmith.gpu.truth")
        test_loader.get("ansible.builtin.defined")
        specs.load()
