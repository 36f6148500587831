"""Commands in advice can be pasted where the run was started."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gpusmith import advice
from gpusmith.advice import Started
from gpusmith.paths import repo_root
from tests.advice import COMMANDS

BIN = Path(sys.executable).parent
UPGRADE = "ansible-playbook -i INVENTORY playbooks/upgrade_driver.yml -l gpu-1 -e gpu_upgrade_version=580.1"


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(BIN))


def here(inventory: str | None = "/site/inventory", folder: Path | None = None) -> Started:
    return Started(inventory, "/site/admin.conf", folder or repo_root())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"Run '{UPGRADE}'.", f"Run '{UPGRADE.replace('INVENTORY', '/site/inventory')}'."),
        ("'ansible-playbook -i INVENTORY site.yml -l a', then", "'ansible-playbook -i /site/inventory site.yml -l a', then"),
        ("Try: ansible -i INVENTORY a -m ping", "Try: ansible -i /site/inventory a -m ping"),
        ("Read: kubectl -n a logs b.", "Read: kubectl --kubeconfig /site/admin.conf -n a logs b."),
        ("kubectl get a | b", "kubectl --kubeconfig /site/admin.conf get a | b"),
        # No commands, and one that is whole.
        ("packages kubeadm, kubectl and kubelet", "packages kubeadm, kubectl and kubelet"),
        ("kubectl --kubeconfig /other get nodes", "kubectl --kubeconfig /other get nodes"),
    ],
)  # fmt: skip
def test_a_command_names_what_the_run_was_started_with(text: str, said: str) -> None:
    assert here().said(text) == said
    assert here().said(said) == said
    assert Started().said(text) == text


@pytest.mark.parametrize(
    ("inventory", "words"),
    [
        (str(repo_root() / "inventory" / "lab"), "-i inventory/lab "),
        ("/my site/hosts.ini", "-i '/my site/hosts.ini' "),
        ("a,b,", "-i a,b, "),
        # That of the environment or of ansible.cfg.
        (None, ""),
    ],
)
def test_inventories_of_every_kind(inventory: str | None, words: str) -> None:
    said = here(inventory).said("ansible-playbook -i INVENTORY site.yml -l gpu-1")
    assert said == f"ansible-playbook {words}site.yml -l gpu-1"


def test_programs_that_the_shell_does_not_find_have_their_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    folder = repo_root()
    program = BIN / "ansible-playbook"
    shown = program.relative_to(folder) if program.is_relative_to(folder) else program
    assert here().said(UPGRADE).startswith(f"{shown} -i /site/inventory playbooks/upgrade_driver.yml ")


def test_outside_of_the_checkout_playbooks_have_the_names_of_the_collection(tmp_path: Path) -> None:
    said = here(folder=tmp_path).said
    assert " gpusmith.gpu.upgrade_driver -l gpu-1" in said(UPGRADE)
    assert said("ansible-playbook -i INVENTORY site.yml").endswith(" gpusmith.gpu.provision_nodes")
    (tmp_path / "site.yml").touch()
    assert " gpusmith.gpu.upgrade_driver -l gpu-1" in said(UPGRADE)


def test_all_commands_of_messages_are_known_by_their_verbs() -> None:
    for command in COMMANDS:
        if command.startswith("kubectl ") and "--kubeconfig" not in command:
            assert here().said(command).startswith("kubectl --kubeconfig /site/admin.conf "), command
        if command.startswith(("ansible ", "ansible-playbook ")):
            assert "INVENTORY" in command, command
            assert "INVENTORY" not in here().said(command), command


def test_the_guard_tells_what_a_run_was_started_with() -> None:
    told = {"inventory": "/i", "kubeconfig": "/k"}
    assert advice.of_guard({advice.TELLS: told}) == Started("/i", "/k")
    assert advice.of_guard({"started": "0:00:01"}) is None
