"""Which operand a container is, whoever runs it."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.cluster.operands import component

PLUGIN = "registry.example/nvidia/k8s-device-plugin:v0.19.0"


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": PLUGIN}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "args": ["--mig-strategy=none"]}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "command": ["nvidia-device-plugin"]}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "command": ["sh", "-c"], "args": ["/entrypoint.sh"]}, "nvidia-device-plugin"),
        ({"image": PLUGIN, "command": ["gpu-feature-discovery"]}, "gpu-feature-discovery"),
        (
            {
                "image": PLUGIN,
                "command": ["/usr/bin/gpu-feature-discovery"],
                "args": ["-c", "nvidia-device-plugin.yml"],
            },
            "gpu-feature-discovery",
        ),
        ({"image": PLUGIN, "command": ["sh", "-c", "exec gpu-feature-discovery"]}, "gpu-feature-discovery"),
        (
            {"image": PLUGIN, "command": ["sh", "-c", "gpu-feature-discovery & exec nvidia-device-plugin"]},
            "nvidia-device-plugin",
        ),
        ({"image": PLUGIN, "command": ["config-manager"]}, ""),
        ({"image": PLUGIN, "command": ["mps-control-daemon"]}, ""),
        ({"image": "nvcr.io/nvidia/gpu-feature-discovery:v0.8.2"}, "gpu-feature-discovery"),
        ({"image": "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"}, "node-feature-discovery"),
        ({"image": "nvcr.io/nvidia/gpu-operator:v25.3.0"}, "gpu-operator"),
        ({"image": "nginx:1"}, ""),
        ({}, ""),
    ],
)
def test_component(container: dict[str, Any], expected: str) -> None:
    assert component(container) == expected
