"""Parts that somebody else installs: left alone if they are there, by what runs, and refused by name if they are not."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from gpusmith.errors import Refusal
from gpusmith.preflight.judge import judge
from gpusmith.preflight.words import Wanted
from tests.unit.hosts import run
from tests.unit.preflight.test_judge import TABLES, WANTED, facts, only, refused
from tests.unit.preflight.test_programs import KUBESPRAY, judged

ADOPTED = {"containerd_owner": "existing", "kubernetes_node_owner": "existing"}


def messages(found: list[Refusal]) -> list[str]:
    return [row.message for row in found]


def test_a_node_of_kubespray_is_adopted_with_its_owner() -> None:
    assert judged(True, KUBESPRAY, **ADOPTED) == []
    # One of the two is still ours to install, and is not what runs.
    (found,) = judged(True, KUBESPRAY, containerd_owner="existing")
    assert found.message.startswith("kubelet of a joined node: ")
    assert "'kubernetes_node_owner: existing'" in found.hint


@pytest.mark.parametrize(
    ("owner", "joined", "running", "why"),
    [
        ("containerd_owner", True, [], "unit 'containerd.service' is not there"),
        ("kubernetes_node_owner", True, ["containerd"], "unit 'kubelet.service' is not there"),
        ("kubernetes_node_owner", False, ["containerd", "kubelet"], "the machine has not joined a cluster"),
        ("nvidia_container_toolkit_owner", True, [], "no runtime 'nvidia'"),
        ("nvidia_driver_owner", True, [], "no module 'nvidia' is loaded"),
    ],
)
def test_what_is_existing_is_there(owner: str, joined: bool, running: list[str], why: str) -> None:
    wanted: dict[str, Any] = {
        **dict.fromkeys(ADOPTED, "existing" if running else "managed"),
        owner: "existing",
    }
    found = judged(joined, {name: KUBESPRAY[name] for name in running}, **wanted)
    mine = only([row for row in found if f"'{owner}'" in row.message])
    assert why in mine.message
    assert f"'{owner}: managed'" in mine.hint


def test_a_driver_of_somebody_else_is_not_removed() -> None:
    found = messages(judged(False, {}, nvidia_driver_owner="existing", nvidia_driver_state="absent"))
    assert any(
        "'nvidia_driver_state' is 'absent', and 'nvidia_driver_owner' is 'existing'" in text for text in found
    )


def test_an_upgrade_of_the_driver_has_nothing_to_do_with_runtime_and_kubelet() -> None:
    assert judged(True, {}, driver_only=True, **ADOPTED) == []


def test_versions_of_somebody_else_are_no_drift() -> None:
    wanted = {**ADOPTED, "gpusmith_change_runtime_on_joined": True, "nvidia_driver_owner": "existing"}
    tree = facts()
    tree["record"]["kubernetes"].update(joined=True, kubelet_version="1.34.2")
    tree["record"]["containerd"]["version"] = "2.1.4"
    tree["record"]["programs"] = {name: asdict(row) for name, row in KUBESPRAY.items()}
    tree["record"]["module"]["loaded_version"] = tree["record"]["module"]["installed_version"] = "570.10.01"
    assert refused(tree, **wanted) == []
    # Whether the two go together is judged by what runs.
    tree["record"]["containerd"]["version"] = "1.5.2"
    unfit = only(refused(tree, **wanted))
    assert "1.5.2" in unfit.message
    assert "'containerd_owner' is 'existing'" in unfit.hint
    assert "Correct" not in unfit.hint


def test_what_no_row_knows_of_two_that_others_run_together_is_no_refusal() -> None:
    tree = facts()
    tree["record"]["kubernetes"].update(joined=True, kubelet_version="1.99.2")
    tree["record"]["containerd"]["version"] = "9.1.4"
    tree["record"]["programs"] = {name: asdict(row) for name, row in KUBESPRAY.items()}
    assert refused(tree, **ADOPTED) == []
    ours = refused(tree, kubernetes_node_owner="existing")
    unknown = only([row for row in ours if row.message.startswith("Kubernetes version: '1.99.2'")])
    assert "'kubernetes_node_owner' is 'existing'" in unknown.hint


def test_nobody_is_told_to_set_the_version_of_a_driver_of_others() -> None:
    tree = facts()
    tree["record"]["module"]["loaded_version"] = "470.82.01"
    node = run(**WANTED, nvidia_driver_owner="existing").node.with_driver("470.82.01")
    found = judge(tree, Wanted(node), TABLES)
    assert [row for row in found if "nvidia_driver_version" in row.hint] == []
    unfit, cuda = (row for row in found if row.message.startswith(("driver for this GPU", "CUDA and driver")))
    assert "'nvidia_driver_owner' is 'existing'" in unfit.hint
    assert cuda.hint == "Correct 'cuda_toolkit_versions'."


def test_nobody_is_told_to_join_a_node_of_others_again() -> None:
    tree = facts()
    tree["record"]["host"]["time_unix"] = 1.8e9
    tree["record"]["kubernetes"].update(joined=True, client_expires_unix=1.0)
    expired = [row for row in refused(tree, **ADOPTED) if row.message.startswith("kubelet's certificate")]
    assert "remove_nodes.yml" not in only(expired).hint


SEEN = {"runtime_nvidia": True, "systemd_cgroup": True, "cdi": True, "default_runtime": "runc"}
TOOLKIT = {"containerd_owner": "existing", "nvidia_container_toolkit_owner": "existing"}


@pytest.mark.parametrize(
    ("wanted", "seen", "says"),
    [
        (TOOLKIT, {}, ""),
        (TOOLKIT, {"cdi": False}, "has CDI switched off"),
        ({**TOOLKIT, "gpu_operands_device_plugin": "existing"}, {"cdi": False}, ""),
        # Whichever of the two is ours turns it on.
        ({**TOOLKIT, "containerd_owner": "managed"}, {"cdi": False}, ""),
        (ADOPTED, {"cdi": False}, ""),
        (ADOPTED, {"runtime_nvidia": False, "systemd_cgroup": False}, "does not use systemd's cgroups"),
        (ADOPTED, {"systemd_cgroup": False}, ""),
        (ADOPTED, {"default_runtime": "nvidia"}, "has 'nvidia' for every pod"),
        (ADOPTED, {"default_binary": "/usr/bin/nvidia-container-runtime"}, "has 'runc' for every pod"),
        ({**ADOPTED, "nvidia_container_toolkit_default_runtime": True}, {"default_runtime": "nvidia"}, ""),
    ],
)
def test_what_nobody_of_us_sets_of_containerd_is_as_gpus_need_it(
    wanted: dict[str, Any], seen: dict[str, Any], says: str
) -> None:
    tree = facts()
    tree["record"]["containerd"]["effective"] = {**SEEN, **seen}
    found = [
        row for row in messages(refused(tree, **wanted)) if row.startswith("containerd of somebody else")
    ]
    assert len(found) == bool(says)
    assert all(says in message for message in found)


@pytest.mark.parametrize(
    ("version", "wanted", "says"),
    [
        ("1.18.0-1", {}, ""),
        ("1.17.8-1", {}, "'1.17.8-1', whose runtime does not use CDI by itself"),
        ("1.17.8-1", {"gpu_operands_device_plugin": "existing"}, ""),
        ("1.18.0-1", {"nvidia_container_toolkit_mode": "legacy"}, "nvidia_container_toolkit_mode: legacy"),
        (None, {}, ""),
        (None, {"nvidia_container_toolkit_mode": "legacy"}, "nvidia_container_toolkit_mode: legacy"),
    ],
)
def test_a_toolkit_of_somebody_else_goes_with_our_device_plugin(
    version: str | None, wanted: dict[str, Any], says: str
) -> None:
    tree = facts()
    tree["record"]["containerd"]["effective"] = SEEN
    if version:
        tree["record"]["packages"]["nvidia-container-toolkit-base"] = {"version": version, "held": False}
    found = refused(tree, nvidia_container_toolkit_owner="existing", **wanted)
    assert len(found) == bool(says)
    assert all(says in row.message and "'gpu_operands_device_plugin: existing'" in row.hint for row in found)
