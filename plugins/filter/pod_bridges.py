"""Filter: the bridges that the configuration of a pod network names."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module

from gpusmith.expect import pod_network

DOCUMENTATION = r"""
name: pod_bridges
short_description: The bridges that the configuration of a pod network names
description:
  - Reads files of C(/etc/cni/net.d) for the CNI plugins C(bridge) and C(flannel). What is no such file names none.
  - Only the first file by name counts, as for containerd. Others are those of other programs, such as podman.
author: gpusmith contributors
options:
  _input: {type: list, elements: dict, required: true, description: Results of M(ansible.builtin.slurp) in a loop.}
"""

RETURN = r"""
_value: {type: list, elements: str, description: "Names, each once."}
"""


def pod_bridges(slurped: Sequence[Mapping[str, Any]]) -> list[str]:
    """Bridges that the files name."""
    first = sorted(slurped, key=lambda row: str(row.get("source", "")))[:1]
    texts = (base64.b64decode(row.get("content", "")).decode(errors="replace") for row in first)
    return pod_network.bridges(texts)


FilterModule = filter_module(pod_bridges)
