"""site.yml with inventories that cannot be used: refused by name, before any host is connected to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.gpusmith.gpu.plugins.action.guard import check_kubeconfigs

from gpusmith.paths import repo_root

FINE = {"gpusmith_kubeconfig": "{{ inventory_dir }}/hosts.yml", "kubernetes_node_labels": {"rack": "r1"}}


def site(folder: Path, hosts: dict[str, dict[str, Any]], *words: str) -> str:
    """What site.yml says; its guard play refuses, or finds that the kubeconfig, this inventory, is none."""
    tree = {"gpu_nodes": {"hosts": hosts, "vars": FINE}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(tree))
    root = repo_root()
    environment = {**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(root / "ansible.cfg")}
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        str(folder),
        str(root / "site.yml"),
    ]
    done = subprocess.run(
        [*command, *words],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert done.returncode != 0, output
    assert "Traceback" not in output
    assert "Look at all nodes" not in output
    return output


def test_good_values_are_not_in_the_way(tmp_path: Path) -> None:
    mine = {"kubernetes_node_labels": {"rack": "{{ rack }}"}, "rack": "r2", "ansible_port": "22"}
    output = site(tmp_path, {"gpu-1": {}, "gpu-2": mine})
    assert f"Kubeconfig '{tmp_path}/hosts.yml' cannot be read" in output
    assert "gpu-2'" not in output


def test_wrong_values_are_named_with_their_hosts(tmp_path: Path) -> None:
    taint = {"key": "nvidia.com/gpu", "effect": "{{ 'No' }}Schedul"}
    output = site(
        tmp_path,
        {
            # The first host's connection would be the guard's own, if it were not delegated.
            "gpu-1": {
                "ansible_user": ["a"],
                "ansible_connection": "ssh",
                "ansible_become": ["a"],
                "host_baseline_sysctl": {"a": ["1"]},
            },
            "gpu-2": {"kubernetes_node_labels": {"rack": True}, "kubernetes_node_taints": [taint]},
            "gpu-3": {
                "kubernetes_node_labels": {"rack": "{{ rack }}"},
                "rack": "r 2",
                "host_baseline_swap": "kep",
            },
            "gpu-4": {"ansible_port": {"a": 1}, "kubernetes_node_labels": {"rack": "{{ nobody }}"}},
            "gpu-5": {"gpusmith_kubeconfig": str(tmp_path), "validation_kubeconfig": "{{ inventory_dir }}"},
        },
        "-e",
        '{"kubernetes_node_startup_taint": "a b"}',
    )
    for sentence in (
        "'kubernetes_node_startup_taint' must be empty or at most 63 letters",
        "Host 'gpu-1': 'ansible_user' must be a string, not ['a'].",
        "Host 'gpu-1': 'ansible_become' must be true or false, not ['a'].",
        "Host 'gpu-1': 'host_baseline_sysctl.a' must be a string of one line or a number, not ['1'].",
        "Host 'gpu-2': 'kubernetes_node_labels.rack' must be a string (quote it), not True.",
        "Host 'gpu-2': variable 'kubernetes_node_taints[0].effect' is 'NoSchedul'.",
        "Host 'gpu-3': 'kubernetes_node_labels.rack' must be empty or at most 63 letters",
        "Host 'gpu-3': variable 'host_baseline_swap' is 'kep'.",
        "Host 'gpu-4': 'ansible_port' must be a port from 1 to 65535, not {'a': 1}.",
        f"Host 'gpu-5': 'gpusmith_kubeconfig' must be the path of a file, not the folder '{tmp_path}'.",
        f"Host 'gpu-5': 'validation_kubeconfig' must be the path of a file, not the folder '{tmp_path}'.",
    ):
        assert sentence in output, output


def test_every_host_needs_a_kubeconfig_that_exists(tmp_path: Path) -> None:
    there = {"gpusmith_kubeconfig": str(tmp_path / "config")}
    (tmp_path / "config").touch()
    assert check_kubeconfigs({"a": there, "b": {**there, "validation_kubeconfig": ""}}, ["a", "b"]) == []
    hosts = {"a": there, "b": {}, "c": {"gpusmith_kubeconfig": ""}}
    (finding,) = check_kubeconfigs(hosts, list(hosts))
    assert finding.message == "Hosts 'b', 'c': 'gpusmith_kubeconfig' is not set."
    hosts = {"a": there, "b": {**there, "validation_kubeconfig": "/nowhere/few"}}
    (finding,) = check_kubeconfigs(hosts, list(hosts))
    assert finding.message == "Host 'b': kubeconfig '/nowhere/few' does not exist."
    assert "'validation_kubeconfig'" in finding.hint


def test_every_guard_is_delegated() -> None:
    for path in sorted((repo_root() / "playbooks").glob("*.yml")):
        task = yaml.safe_load(path.read_text())[0]["tasks"][0]
        assert (task["gpusmith.gpu.guard"], task["run_once"], task["delegate_to"]) == (
            None,
            True,
            "localhost",
        ), path
