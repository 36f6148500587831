"""Reading inventories: what is taken, and what is refused by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith import inventory
from gpusmith.errors import InputError
from gpusmith.paths import repo_root

Variables = Callable[..., dict[str, Any]]


def write(
    folder: Path,
    variables: dict[str, Any],
    hosts: tuple[str, ...] = ("gpu-1", "gpu-2"),
    group: str = "gpu_nodes",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    tree = {
        "all": {
            "children": {
                "kube_control_plane": {"hosts": {"cp-1": {}}},
                group: {"children": {"rack": {"hosts": {name: {} for name in hosts}}}, "vars": variables},
            }
        }
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(tree))
    return folder


def test_reads_groups_and_variables(tmp_path: Path, variables: Variables) -> None:
    found = inventory.read(str(write(tmp_path / "lab", variables())), None)
    assert list(found.hosts) == ["gpu-1", "gpu-2"]
    host = found.hosts["gpu-1"]
    assert (host.simulated, host.gpu_count, host.driver_version) == (True, 4, "580.178.04")
    assert host.taints == ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},)
    assert found.kubeconfig == "/nowhere/kubeconfig"


def test_limit(tmp_path: Path, variables: Variables) -> None:
    source = str(write(tmp_path / "lab", variables()))
    assert list(inventory.read(source, "gpu-2").hosts) == ["gpu-2"]
    assert list(inventory.read(source, "gpu-1,gpu-2").hosts) == ["gpu-1", "gpu-2"]
    for pattern in ("cp-1", "nothing"):
        with pytest.raises(InputError, match=f"'{pattern}' matches no host"):
            inventory.read(source, pattern)


def test_templates_are_filled_in(tmp_path: Path, variables: Variables) -> None:
    folder = write(
        tmp_path / "lab",
        variables(gpusmith_kubeconfig="{{ inventory_dir }}/kubeconfig", gpusmith_gpu_count="{{ 2 * 2 }}"),
    )
    (folder / "host_vars").mkdir()
    words = "{% if gpusmith_simulated %}keep{% else %}off{% endif %}"
    (folder / "host_vars" / "gpu-2.yml").write_text(f"host_baseline_swap: '{words}'\n")
    found = inventory.read(str(folder), None)
    assert found.kubeconfig == str(folder / "kubeconfig")
    assert found.hosts["gpu-2"].gpu_count == 4
    assert [host.swap_off for host in found.hosts.values()] == [True, False]


def test_template_that_cannot_be_filled_in_is_refused(tmp_path: Path, variables: Variables) -> None:
    folder = write(tmp_path / "lab", variables(gpusmith_kubeconfig="{{ nobody }}/kubeconfig"))
    with pytest.raises(InputError, match="template of 'gpusmith_kubeconfig'"):
        inventory.read(str(folder), None)


def test_missing_path_and_empty_group_are_refused(tmp_path: Path, variables: Variables) -> None:
    with pytest.raises(InputError, match="does not exist"):
        inventory.read("nowhere", None, tmp_path)
    with pytest.raises(InputError, match="is empty"):
        inventory.read("", None, tmp_path)
    with pytest.raises(InputError, match="no host in group 'gpu_nodes'"):
        inventory.read(str(write(tmp_path / "none", variables(), ())), None)
    with pytest.raises(InputError, match="no host in group 'gpu_nodes'"):
        inventory.read(str(write(tmp_path / "other", variables(), group="gpus")), None)
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError):
        inventory.read(str(tmp_path / "void"), None)


def test_relative_path_starts_where_the_suite_was_started(tmp_path: Path, variables: Variables) -> None:
    write(tmp_path / "lab", variables())
    assert inventory.read("lab", "gpu-1", tmp_path).source == str(tmp_path / "lab")


@pytest.mark.parametrize("text", ["{{ a }}", "{% if a %}b{% endif %}"])
def test_both_forms_of_templates_are_seen(text: str) -> None:
    assert inventory._is_unfilled([{"a": text}])
    assert not inventory._is_unfilled({"a": ["{ b }", None, 1]})


def test_values_are_taken_as_playbooks_take_them(host: Callable[..., Any]) -> None:
    made = host(
        gpusmith_gpu_count="4",
        validation_accepted_xids=["13", 31],
        validation_network="no",
        gpusmith_simulated="Yes",
    )
    assert (made.gpu_count, made.accepted_xids, made.network, made.simulated) == (4, {13, 31}, False, True)
    assert host(gpusmith_gpu_count=4.0).gpu_count == 4


def test_encrypted_values_are_decrypted_before_they_are_judged(
    tmp_path: Path, variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(password))
    program = Path(sys.executable).parent / "ansible-vault"
    made = subprocess.run(
        [str(program), "encrypt_string", "--name", "ansible_user", "admin"],
        capture_output=True,
        text=True,
        check=True,
    )
    folder = write(tmp_path / "lab", variables())
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "gpu-2.yml").write_text(made.stdout)
    assert inventory.read(str(folder), None).hosts["gpu-2"].variables["ansible_user"] == "admin"


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"nvidia_driver_version": 550.12}, "'nvidia_driver_version' must be a quoted string"),
        ({"nvidia_driver_version": None}, "has no 'nvidia_driver_version'"),
        ({"gpusmith_gpu_count": "four"}, "'gpusmith_gpu_count' must be a whole number"),
        ({"gpusmith_gpu_count": 0}, "'gpusmith_gpu_count' must be a whole number"),
        ({"gpusmith_gpu_count": True}, "'gpusmith_gpu_count' must be a whole number"),
        ({"gpusmith_gpu_model": None}, "has no 'gpusmith_gpu_model'"),
        ({"gpusmith_simulated": "maybe"}, "'gpusmith_simulated' must be true or false"),
        ({"kubernetes_node_taints": "x"}, "'kubernetes_node_taints' must be a list"),
        ({"validation_timeout_pod_s": -1}, "'validation_timeout_pod_s' must be a number of seconds"),
        (
            {"validation_timeout_pod_s": float("nan")},
            "'validation_timeout_pod_s' must be a number of seconds",
        ),
        (
            {"validation_timeout_pod_s": float("inf")},
            "'validation_timeout_pod_s' must be a number of seconds",
        ),
        ({"validation_accepted_xids": [True]}, "'validation_accepted_xids' must be a list of numbers"),
        (
            {"gpu_operands_device_plugin": "Managed"},
            "'gpu_operands_device_plugin' must be one of 'managed', 'existing'",
        ),
        ({"gpu_operands_node_feature_discovery": ""}, "'gpu_operands_node_feature_discovery' must be one of"),
        ({"host_baseline_modules": "overlay"}, "'host_baseline_modules' must be a list of names"),
        ({"host_baseline_sysctl": ["x"]}, "'host_baseline_sysctl' must be a mapping"),
        ({"validation_accepted_xids": ["x"]}, "'validation_accepted_xids' must be a list of numbers"),
        ({"ansible_user": ["a"]}, "Host 'gpu-1': 'ansible_user' must be a string, not"),
        ({"host_baseline_swap": "kep"}, "'host_baseline_swap' must be one of 'off', 'keep', not 'kep'"),
        ({"kubernetes_node_labels": {"rack": True}}, "'kubernetes_node_labels.rack' must be a string"),
        (
            {"gpusmith_kubeconfig": "/"},
            "'gpusmith_kubeconfig' must be the path of a file, not the folder '/'",
        ),
        (
            {"validation_kubeconfig": "~"},
            "'validation_kubeconfig' must be the path of a file, not the folder",
        ),
    ],
)
def test_wrong_variable_is_named(host: Callable[..., Any], changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        host(**changes)


def test_host_baseline_has_the_defaults_of_its_role(host: Callable[..., Any]) -> None:
    defaults = yaml.safe_load((repo_root() / "roles/host_baseline/defaults/main.yml").read_text())
    plain = host()
    assert plain.swap_off
    assert list(plain.kernel_modules) == defaults["host_baseline_modules"]
    assert plain.sysctl == defaults["host_baseline_sysctl"]
    # Unquoted, YAML takes 'off' for false.
    assert host(host_baseline_swap=False).swap_off
    assert not host(host_baseline_swap="keep").swap_off


def test_misspelling_is_offered(host: Callable[..., Any]) -> None:
    with pytest.raises(InputError) as caught:
        host(nvidia_driver_version=None, nvidia_driver_verison="1")
    assert "'nvidia_driver_verison'" in caught.value.hint


def test_the_suite_can_have_a_kubeconfig_of_its_own(host: Callable[..., Any]) -> None:
    assert host(gpusmith_kubeconfig="/admin", validation_kubeconfig="/few").kubeconfig == "/few"
    assert host(gpusmith_kubeconfig="/admin", validation_kubeconfig="").kubeconfig == "/admin"


def test_a_host_without_kubeconfig_is_named(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    rows = {"a": variables(), "b": variables(gpusmith_kubeconfig="")}
    with pytest.raises(InputError, match="Host 'b' has no 'gpusmith_kubeconfig'"):
        _ = inventory.build(tree, rows, "x", "").kubeconfig


def test_a_wrong_connection_variable_is_named_before_templates_are_filled_in(
    tmp_path: Path, variables: Variables
) -> None:
    folder = write(tmp_path / "lab", variables(gpusmith_kubeconfig="{{ inventory_dir }}/kubeconfig"))
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "gpu-2.yml").write_text("ansible_user: [a, b]\n")
    with pytest.raises(InputError, match="Host 'gpu-2': 'ansible_user' must be a string"):
        inventory.read(str(folder), None)


def test_several_kubeconfigs_are_refused(variables: Variables) -> None:
    tree = {"gpu_nodes": {"hosts": ["a", "b"]}}
    rows = {"a": variables(gpusmith_kubeconfig="/a"), "b": variables(gpusmith_kubeconfig="/b")}
    with pytest.raises(InputError, match="several kubeconfigs"):
        _ = inventory.build(tree, rows, "x", "").kubeconfig
