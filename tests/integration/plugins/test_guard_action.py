"""Playbooks with inventories that cannot be used: refused by name, before any host is connected to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.paths import repo_root
from tests.unit.inventory.test_needs import FULL

FINE = {
    **FULL,
    "gpusmith_kubeconfig": "{{ inventory_dir }}/hosts.yml",
    "kubernetes_node_labels": {"rack": "r1"},
    "kubernetes_node_token_host": "{{ groups['gpu_nodes'] | first }}",
}


def site(
    folder: Path, hosts: dict[str, dict[str, Any]], *words: str, playbook: str = "", start: Path | None = None
) -> str:
    """What site.yml says; its guard play refuses, or finds that the kubeconfig, this inventory, is none."""
    tree = {"gpu_nodes": {"hosts": hosts, "vars": FINE}}
    (folder / "hosts.yml").write_text(yaml.safe_dump(tree))
    root = repo_root()
    environment = {**os.environ, "NO_COLOR": "1", "ANSIBLE_CONFIG": str(root / "ansible.cfg")}
    command = [
        str(Path(sys.executable).parent / "ansible-playbook"),
        "-i",
        str(folder),
        playbook or str(root / "site.yml"),
    ]
    done = subprocess.run(
        [*command, *words],
        cwd=start or root,
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
    assert "Remove the nodes" not in output
    return output


@pytest.mark.parametrize("words", [[], ["-l", "gpu-1"]])
def test_a_run_without_an_inventory_is_no_success(tmp_path: Path, words: list[str]) -> None:
    """With a limit and no host, Ansible skips every play and ends with 0."""
    program = str(Path(sys.executable).parent / "ansible-playbook")
    settings = {
        "ANSIBLE_CONFIG": str(repo_root() / "ansible.cfg"),
        "ANSIBLE_INVENTORY": str(tmp_path / "none"),
    }
    for playbook in ("site.yml", "playbooks/upgrade_driver.yml"):
        done = subprocess.run(
            [program, str(repo_root() / playbook), *words],
            env={**os.environ, "NO_COLOR": "1", "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "0", **settings},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode != 0, done.stdout
        assert "-i" in done.stdout + done.stderr


def test_good_values_are_not_in_the_way(tmp_path: Path) -> None:
    mine = {"kubernetes_node_labels": {"rack": "{{ rack }}"}, "rack": "r2", "ansible_port": "22"}
    output = site(tmp_path, {"gpu-1": {}, "gpu-2": mine})
    assert f"Hosts 'gpu-1', 'gpu-2': file '{tmp_path}/hosts.yml' is no kubeconfig" in output
    assert output.count("gpu-2'") == 1


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
            "gpu-5": {
                "containerd_repository": {"key": "{{ lookup('ansible.builtin.file', '/nowhere') }}"},
                "nvidia_driver_version": "{{ ansible_facts.driver }}",
                "gpusmith_gpu_model": "H100",
                "gpusmith_kubeconfig": str(tmp_path),
                "validation_kubeconfig": "{{ inventory_dir }}",
                "kubernetes_node_token_host": "{{ 'cp' }}-9",
                "ansible_ssh_private_key_file": "/nowhere/key",
            },
        },
        "-e",
        '{"validation_timeout_pod_s": 0, "kubernetes_node_startup_taint": "mine"}',
    )
    for sentence in (
        "Variable 'kubernetes_node_startup_taint', given with -e, does not exist. The key of the startup taint is always",
        "'validation_timeout_pod_s' must be a whole number from 1, not 0.",
        "Host 'gpu-1': 'ansible_user' must be a string, not ['a'].",
        "Host 'gpu-1': 'ansible_become' must be true or false, not ['a'].",
        "Host 'gpu-1': 'host_baseline_sysctl.a' must be a string of one line or a number, not ['1'].",
        "Host 'gpu-2': 'kubernetes_node_labels.rack' must be a string (quote it), not True.",
        "Host 'gpu-2': variable 'kubernetes_node_taints[0].effect' is 'NoSchedul'.",
        "Host 'gpu-3': 'kubernetes_node_labels.rack' must be empty or at most 63 letters",
        "Host 'gpu-3': variable 'host_baseline_swap' is 'kep'.",
        "Host 'gpu-4': 'ansible_port' must be a port from 1 to 65535, not {'a': 1}.",
        "Host 'gpu-5': 'kubernetes_node_token_host' names 'cp-9', which is no host of the inventory.",
        "Host 'gpu-5': 'ansible_ssh_private_key_file' names the file '/nowhere/key', which does not exist",
        f"Host 'gpu-5': 'gpusmith_kubeconfig' must be the path of a file, not the folder '{tmp_path}'.",
        f"Host 'gpu-5': 'validation_kubeconfig' must be the path of a file, not the folder '{tmp_path}'.",
        "Host 'gpu-5': the template of 'containerd_repository' cannot be filled in: The lookup plugin",
        "Host 'gpu-5': 'gpusmith_gpu_model' is 'H100', which is no row of data/gpus.yml.",
    ):
        assert sentence in output, output
    # It may be known once the host was asked.
    assert "'nvidia_driver_version'" not in output


@pytest.mark.parametrize("words", [(), ("-l", "gpu-1", "--check")])
def test_by_name_of_the_collection_and_from_another_folder(tmp_path: Path, words: tuple[str, ...]) -> None:
    hosts = {"gpu-1": {"gpusmith_simulated": "perhaps"}, "gpu-2": {}}
    output = site(tmp_path, hosts, *words, playbook="gpusmith.gpu.validate", start=tmp_path)
    assert "Host 'gpu-1': variable 'gpusmith_simulated' is the text 'perhaps'." in output


def test_a_part_of_the_cluster_decides_nothing_for_the_whole(tmp_path: Path) -> None:
    mixed = {"gpu-1": {}, "gpu-2": {"gpu_operands_device_plugin": "{{ theirs }}", "theirs": "existing"}}
    output = site(tmp_path, mixed, "-l", "gpu-1")
    assert "GPU hosts disagree: 'managed' for 'gpu-1'; 'existing' for 'gpu-2'." in output
    extra = ("-l", "gpu-2", "-e", "gpu_operands_device_plugin=existing")
    output = site(tmp_path, {"gpu-1": {}, "gpu-2": {}}, *extra)
    assert "cannot be given with -e for a part of it: the limit leaves 'gpu-1' out." in output


def test_nodes_are_removed_only_by_name(tmp_path: Path) -> None:
    playbook = str(repo_root() / "playbooks" / "remove_nodes.yml")
    output = site(tmp_path, {"gpu-1": {}}, playbook=playbook, start=tmp_path)
    assert "This takes nodes out of the cluster: name them with -l. Nothing was changed." in output
    output = site(tmp_path, {"gpu-1": {}}, "-l", "gpu-1", playbook=playbook, start=tmp_path)
    assert "name them with -l" not in output
    assert "is no kubeconfig" in output


def test_tags_that_would_run_nothing(tmp_path: Path) -> None:
    output = site(tmp_path, {"gpu-1": {}}, "--tags", "containerd,containrd", "--skip-tags", "preflight,guard")
    assert "The playbook has no tag 'containrd'. It knows preflight, host_baseline, nvidia_driver" in output
    assert "The playbook has no tag 'guard'." in output
    assert "The playbook has no tag 'containerd'." not in output
    assert "Preflight cannot be skipped" in output
    output = site(tmp_path, {"gpu-1": {}}, "--tags", "containerd", playbook="gpusmith.gpu.validate")
    assert "The playbook has no tag 'containerd'. It has no parts to choose from" in output


def test_what_only_a_join_needs_is_asked_for_only_if_nodes_may_join(tmp_path: Path) -> None:
    without = {"gpu-1": {"kubernetes_node_version": ""}}
    refusal = "Host 'gpu-1': 'kubernetes_node_version' is not set."
    for words in (
        (),
        ("--tags", "containerd,kubernetes_node"),
        ("--tags", "all"),
        ("--skip-tags", "containerd"),
    ):
        assert refusal in site(tmp_path, without, *words)
    for words in (("--tags", "containerd"), ("--skip-tags", "kubernetes_node")):
        assert refusal not in site(tmp_path, without, *words)


def test_a_tag_runs_its_role_with_guard_and_preflight() -> None:
    root = repo_root()
    program = str(Path(sys.executable).parent / "ansible-playbook")

    def listed(*words: str) -> list[str]:
        known = ["-i", str(root / "inventory/example"), str(root / "site.yml"), "--list-tasks"]
        done = subprocess.run([program, *known, *words], capture_output=True, text=True, cwd=root)
        return re.findall(r"^ {6}(?:gpusmith\.gpu\.)?(.+?)\tTAGS: ", done.stdout, re.MULTILINE)

    tasks = listed("--tags", "containerd")
    assert tasks[0] == "Check target, variables and cluster"
    # The arguments of all roles are compared with their specs, whatever the tags.
    work = [name for name in tasks[1:] if " : " in name and "Validating arguments" not in name]
    assert {name.partition(" : ")[0] for name in work} == {
        "preflight",
        "gpu_operands",  # of which preflight refuses a second owner
    }
    # Who watches the GPUs is no matter of other roles.
    refusal = "gpu_monitoring : Validate | Refuse a second exporter"
    for words in ((), ("--tags", "gpu_monitoring"), ("--tags", "preflight")):
        assert any(name.startswith(refusal) for name in listed(*words)), words
    # The role's own tasks include others, which Ansible lists without the role's name.
    assert [name for name in tasks if name.startswith("Make ")] == [
        "Make containerd what the inventory says, on nodes that serve one after another"
    ]
    token = "kubernetes_node : Token | The host that makes join tokens answers, and so does the cluster on it"
    assert token in listed()
    assert token in listed("--tags", "kubernetes_node")
    assert token not in tasks
