from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpusmith.probe import cdi

CDI = """\
---
cdiVersion: 0.5.0
containerEdits:
  mounts:
  - hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04
    containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.580.178.04
devices:
- containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
  name: "0"
- name: GPU-1
  containerEdits:
    hooks:
      - name: inner
kind: nvidia.com/gpu
"""


def nodes_of(text: str) -> dict[str, list[tuple[object, ...]]]:
    spec = cdi.read_cdi("/etc/cdi/x.yaml", 0, text)
    assert spec is not None
    assert spec.problem is None
    return {
        name: [(node.path, node.host_path, node.numbers) for node in nodes]
        for name, nodes in spec.nodes.items()
    }


def test_device_nodes_of_a_cdi_specification_are_read() -> None:
    assert nodes_of(CDI) == {"0": [("/dev/nvidia0", None, None)], "GPU-1": []}
    written = """\
---
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
    # as yaml.v3 indents
    - name: "0"
      containerEdits:
        deviceNodes:
            - path: /dev/nvidia0
              hostPath: /dev/nvidia1
              type: c
              major: 195
              minor: 1
              permissions: rw
            - {}
            - path: /dev/dri/card1
        additionalGids: []
        env:
            - "A=b: c"
            - NVIDIA_X=void and
              more of it
        hooks:
            - hookName: createContainer
              args:
                - nvidia-cdi-hook
                - --link
                - ../card1::/dev/dri/by-path/pci-0000:1b:00.0-card
containerEdits: {}
"""
    assert nodes_of(written) == {"0": [("/dev/nvidia0", "/dev/nvidia1", "195:1")]}
    device = {
        "name": "0",
        "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0", "major": 195, "minor": 0}]},
    }
    assert nodes_of(json.dumps({"kind": "nvidia.com/gpu", "devices": [device, {"name": "b"}]})) == {
        "0": [("/dev/nvidia0", None, "195:0")],
        "b": [],
    }


@pytest.mark.parametrize(
    "text",
    [
        "kind: nvidia.com/gpu\ndevices: &a\n- *a\n",
        "kind: nvidia.com/gpu\ndevices: [{name: x}\n",
        "kind: nvidia.com/gpu\ndevices:\n\t- name: x\n",
        "kind: nvidia.com/gpu\ndevices:\n- path: x\n",
        "kind: nvidia.com/gpu\ndevices:\n- name: x\n bad\n",
        "kind: nvidia.com/gpu\ndevices: 7\n",
        '{"kind": "nvidia.com/gpu", "devices": [',
    ],
)
def test_a_cdi_specification_that_is_not_understood_says_so(text: str) -> None:
    spec = cdi.read_cdi("/etc/cdi/x.yaml", 0, text)
    assert spec is not None
    assert spec.problem


def test_every_form_that_yaml_has_is_read() -> None:
    assert nodes_of("kind: nvidia.com/gpu\ndevices: [{name: 0}, {name: 1:0}, {'name': null-x}]\n") == {
        "0": [],
        "1:0": [],
        "null-x": [],
    }
    assert nodes_of("kind: nvidia.com/gpu\ndevices: null\n") == {}
    assert nodes_of("kind: nvidia.com/gpu\ndevices: &all\n- name: |-\n    x\n") == {"x": []}


def test_the_line_that_cannot_be_read_is_named() -> None:
    spec = cdi.read_cdi("x", 0, "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: x\n bad\n")
    assert spec is not None
    assert "line 5" in str(spec.problem)
    assert cdi.read_yaml("") is None


def test_a_cdi_specification_of_another_vendor_is_nobodys_matter() -> None:
    assert cdi.read_cdi("/etc/cdi/x.yaml", 0, "kind: vendor.com/net\ndevices: &a\n") is None


def test_cdi_folders_are_read_in_their_order_and_only_what_cdi_reads(tmp_path: Path) -> None:
    for folder, name in (("etc", "a.yaml"), ("etc", "ignored.yml"), ("run", "b.json")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_text(CDI.replace("580.178.04", "1.2.3") if folder == "etc" else CDI)
    plugins = '{"kind":"k8s.device-plugin.nvidia.com/gpu","devices":[{"name":"GPU-1"}]}'
    (tmp_path / "run" / "plugin.json").write_text(plugins)
    found = cdi.gather([str(tmp_path / "etc"), str(tmp_path / "run")])
    assert [spec.devices for spec in found.plugin_specs] == [(cdi.CdiDevice("GPU-1"),)]
    assert [(Path(spec.path).name, spec.priority) for spec in found.specs] == [
        ("a.yaml", 0),
        ("b.json", 1),
    ]
    assert found.driver_version == "580.178.04"
    assert found.devices == ("nvidia.com/gpu=0", "nvidia.com/gpu=GPU-1")
