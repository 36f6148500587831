"""Reading inventories: what is taken, and what is refused by name."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpusmith.errors import InputError
from gpusmith.wanted.inventory import read

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
                group: {
                    "children": {"rack": {"hosts": {name: {"ansible_host": name} for name in hosts}}},
                    "vars": variables,
                },
            }
        }
    }
    (folder / "hosts.yml").write_text(yaml.safe_dump(tree))
    return folder


def test_reads_groups_and_variables(tmp_path: Path, variables: Variables) -> None:
    found = read(str(write(tmp_path / "lab", variables())), None)
    assert list(found.hosts) == ["gpu-1", "gpu-2"]
    host = found.hosts["gpu-1"]
    assert (host.simulated, host.gpu_count, host.driver.version) == (True, 4, "580.178.04")
    assert host.kubernetes.taints == ({"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},)
    assert found.kubeconfig == "/nowhere/kubeconfig"


@pytest.mark.parametrize("setting", ["ANSIBLE_FORCE_COLOR", "ANSIBLE_NO_LOG", "ANSIBLE_VERBOSITY"])
def test_what_a_user_sets_of_the_output_is_no_hindrance(
    tmp_path: Path, variables: Variables, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    """AWX sets the first one for all jobs."""
    monkeypatch.setenv(setting, "1")
    assert list(read(str(write(tmp_path / "lab", variables())), "gpu-1").hosts) == ["gpu-1"]


def test_programs_of_ansible_may_be_in_another_folder_than_python(
    tmp_path: Path, variables: Variables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after 'pip install --user', and in execution environments."""
    python = tmp_path / "bin" / "python3"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    assert list(read(str(write(tmp_path / "lab", variables())), "gpu-1").hosts) == ["gpu-1"]


def test_limit(tmp_path: Path, variables: Variables) -> None:
    source = str(write(tmp_path / "lab", variables()))
    assert list(read(source, "gpu-2").hosts) == ["gpu-2"]
    assert list(read(source, "gpu-1,gpu-2").hosts) == ["gpu-1", "gpu-2"]
    for pattern in ("cp-1", "nothing"):
        with pytest.raises(InputError, match=f"'{pattern}' matches no host"):
            read(source, pattern)


def test_templates_are_filled_in(tmp_path: Path, variables: Variables) -> None:
    folder = write(
        tmp_path / "lab",
        variables(gpusmith_kubeconfig="{{ inventory_dir }}/kubeconfig", gpusmith_gpu_count="{{ 2 * 2 }}"),
    )
    (folder / "host_vars").mkdir()
    words = "{% if gpusmith_simulated %}keep{% else %}off{% endif %}"
    (folder / "host_vars" / "gpu-2.yml").write_text(f"host_baseline_swap: '{words}'\n")
    found = read(str(folder), None)
    assert found.kubeconfig == str(folder / "kubeconfig")
    assert found.hosts["gpu-2"].gpu_count == 4
    assert [host.baseline.swap_off for host in found.hosts.values()] == [True, False]


def test_template_that_cannot_be_filled_in_is_refused(tmp_path: Path, variables: Variables) -> None:
    folder = write(tmp_path / "lab", variables(gpusmith_kubeconfig="{{ nobody }}/kubeconfig"))
    with pytest.raises(InputError, match="template of 'gpusmith_kubeconfig'"):
        read(str(folder), None)


def test_missing_path_and_empty_group_are_refused(tmp_path: Path, variables: Variables) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read("nowhere", None, tmp_path)
    with pytest.raises(InputError, match="is empty"):
        read("", None, tmp_path)
    with pytest.raises(InputError, match="no host in group 'gpu_nodes'"):
        read(str(write(tmp_path / "none", variables(), ())), None)
    with pytest.raises(InputError, match="no host in group 'gpu_nodes'"):
        read(str(write(tmp_path / "other", variables(), group="gpus")), None)
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError):
        read(str(tmp_path / "void"), None)


def test_relative_path_starts_where_the_suite_was_started(tmp_path: Path, variables: Variables) -> None:
    write(tmp_path / "lab", variables())
    assert read("lab", "gpu-1", tmp_path).source == str(tmp_path / "lab")


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
    assert read(str(folder), None).variables("gpu-2")["ansible_user"] == "admin"


def test_a_wrong_connection_variable_is_named_before_templates_are_filled_in(
    tmp_path: Path, variables: Variables
) -> None:
    folder = write(tmp_path / "lab", variables(gpusmith_kubeconfig="{{ inventory_dir }}/kubeconfig"))
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "gpu-2.yml").write_text("ansible_user: [a, b]\n")
    with pytest.raises(InputError, match="Host 'gpu-2': 'ansible_user' must be a string"):
        read(str(folder), None)


def test_all_that_is_wrong_is_named_at_once(tmp_path: Path, variables: Variables) -> None:
    """By the guard's words, and the kubeconfig where the cluster would be asked."""
    wrong = variables(gpusmith_gpu_model="H100", gpusmith_simulated="perhaps", nvidia_driver_version=None)
    folder = write(tmp_path / "lab", wrong)
    (folder / "host_vars").mkdir()
    (folder / "host_vars" / "gpu-2.yml").write_text("ansible_host: gpu-1\n")
    sentences = [
        "variable 'gpusmith_simulated' is the text 'perhaps'.",
        "'gpusmith_gpu_model' is 'H100', which is no row of data/gpus.yml.",
        "'ansible_host' is 'gpu-1' for all of them",
        "'nvidia_driver_version' is not set.",
        "kubeconfig '/nowhere/kubeconfig' does not exist.",
    ]
    for cluster in (True, False):
        with pytest.raises(InputError) as told:
            read(str(folder), None, cluster=cluster)
        lines = str(told.value).splitlines()
        for line, sentence in zip(lines, sentences[: None if cluster else -1], strict=True):
            assert line.startswith(f"Hosts 'gpu-1', 'gpu-2': {sentence}")


def test_all_templates_are_judged_at_once(tmp_path: Path, variables: Variables) -> None:
    wrong = {
        "gpusmith_simulated": "{{ 'perhaps' }}",
        "containerd_repository": {"key": "{{ lookup('ansible.builtin.file', '/nowhere') }}"},
        "gpusmith_kubeconfig": "{{ nobody }}",
    }
    with pytest.raises(InputError) as told:
        read(str(write(tmp_path / "lab", variables(**wrong))), None)
    lines = sorted(str(told.value).splitlines())
    assert [line.partition(":")[0] for line in lines] == ["Hosts 'gpu-1', 'gpu-2'"] * 3
    assert "'containerd_repository' cannot be filled in: The lookup plugin" in lines[0]
    assert "'/nowhere': File not found. Correct the template" in lines[0]
    assert "'gpusmith_kubeconfig' cannot be filled in: 'nobody' is undefined." in lines[1]
    assert "'gpusmith_simulated' is the text 'perhaps'." in lines[2]


def test_the_advised_quotes_are_right_in_ini(tmp_path: Path) -> None:
    """Ansible takes those of a host's line off before it reads what is left as Python."""
    lines = """[gpu_nodes]
        a nvidia_driver_version='"580"'
        b nvidia_driver_version="580"
        [gpu_nodes:vars]
        gpusmith_gpu_count=8
        nvidia_driver_version="570"
        nvidia_driver_repository={"uris": ["http://a"], "key": "k"}
        """
    source = tmp_path / "hosts.ini"
    source.write_text("".join(line.strip() + "\n" for line in lines.splitlines()))
    with pytest.raises(
        InputError, match="Host 'b': variable 'nvidia_driver_version' is the number 580"
    ) as told:
        read(str(source), None, cluster=False)
    advised = told.value.hint.partition(" (")[0].removeprefix("Write it in quotes, ")
    source.write_text(
        source.read_text().replace('b nvidia_driver_version="580"', "b").replace('"570"', advised)
    )
    found = read(str(source), None).hosts
    assert [found[name].driver.version for name in "ab"] == ["580", "580"]
    assert found["b"].driver.repository["uris"] == ["http://a"]
