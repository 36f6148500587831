"""What preflight says of the simulated installation."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from gpusmith.errors import Refusal
from gpusmith.preflight.simulation import check_cni, check_simulation
from tests.unit.hosts import run
from tests.unit.preflight.test_judge import TABLES, WANTED, facts

NOTHING: dict[str, Any] = {"installed": {}, "changed": {}, "removed": {}}
ASKED: dict[str, Any] = {
    "containerd": {"packages": {"containerd.io": "2.3.7"}},
    "nvidia_driver": {
        "packages": {"nvidia-driver-cuda": "580.178.04"},
        "patterns": ["*nvidia*", "src:nvidia-graphics-drivers"],
    },
}


def judged(
    wanted: dict[str, Any] | None = None,
    joined: bool = False,
    asked: dict[str, Any] = ASKED,
    **changes: Any,
) -> list[Refusal]:
    tree = facts()
    tree["record"]["kubernetes"]["joined"] = joined
    tree["asked"] = asked
    tree["simulation"] = {"plan": copy.deepcopy(NOTHING), "held": [], "error": "", "trouble": "", **changes}
    tree["record"]["packages"]["libnvoptix1"] = {
        "version": "1",
        "held": True,
        "source": "nvidia-graphics-drivers",
    }
    return list(check_simulation(tree, run(**{**WANTED, **(wanted or {})}), TABLES))


def test_nothing_was_due_or_nothing_is_in_the_way() -> None:
    assert list(check_simulation({**facts(), "simulation": None}, run(**WANTED), TABLES)) == []
    assert judged(plan={**NOTHING, "installed": {"containerd.io": "2.3.7-1", "libseccomp2": "2.5"}}) == []


def test_what_containerd_io_would_remove_is_named() -> None:
    gone = {"containerd": "1.6.20~ds1-1", "runc": "1.1.5", "docker.io": "20.10.24"}
    (found,) = judged(plan={**NOTHING, "removed": gone})
    for name, version in gone.items():
        assert f"'{name}' ({version})" in found.message
    allowed = {"preflight_removable_packages": ["containerd", "runc"]}
    (found,) = judged(allowed, plan={**NOTHING, "removed": gone})
    assert "docker.io" in found.message
    assert "'runc'" not in found.message
    assert judged({"preflight_removable_packages": ["*"]}, plan={**NOTHING, "removed": gone}) == []


def test_what_is_there_for_a_foreign_architecture_is_no_part_of_a_set() -> None:
    """As i386 on Ubuntu: a pattern that fits its name does not let it go."""
    name = "libnvidia-compute-580:i386"
    (found,) = judged(plan={**NOTHING, "removed": {name: "580.178.04-1"}})
    assert f"would remove '{name}' (580.178.04-1)" in found.message
    assert judged({"preflight_removable_packages": [name]}, plan={**NOTHING, "removed": {name: "1"}}) == []
    (found,) = judged(joined=True, plan={**NOTHING, "changed": {name: ("580.178.04-1", "595.71.05-1")}})
    assert f"would change '{name}'" in found.message


def test_what_the_repositories_lack_is_named() -> None:
    (found,) = judged(error="Unmet: a : Depends: b")
    assert found.hint.startswith("Add what is missing to the node's repositories")


def test_what_has_no_counterpart_in_another_branch_is_told_beside_the_rest() -> None:
    lacking = ["'libnvidia-gone-580' is installed, and no repository offers 'libnvidia-gone' for it"]
    found = judged(lacking=lacking, error="unmet dependencies")
    assert [lacking[0] in each.message for each in found] == [True, False]


def test_a_pin_that_its_counterpart_replaces_may_go() -> None:
    gone = {**NOTHING, "removed": {"nvidia-driver-pinning-580": "580-1"}}
    assert "'nvidia-driver-pinning-580'" in judged(plan=gone)[0].message
    pin = {"of": "nvidia-driver-pinning-580", "names": ["nvidia-driver-pinning-595"], "version": ""}
    driver = {**ASKED["nvidia_driver"], "counterparts": [pin]}
    assert judged(plan=gone, asked={**ASKED, "nvidia_driver": driver}) == []


@pytest.mark.parametrize("name", ["nvidia-kernel-dkms", "libnvoptix1", "nvidia-driver-cuda"])
def test_parts_of_our_own_sets_may_go(name: str) -> None:
    assert judged(plan={**NOTHING, "removed": {name: "570.195.03-1"}}) == []


@pytest.mark.parametrize(
    ("name", "version"), [("nvidia-docker2", "2.13.0-1"), ("nvidia-container-runtime", "3.14.0-1")]
)
def test_a_name_like_the_drivers_is_not_enough_to_be_ours(name: str, version: str) -> None:
    (found,) = judged(plan={**NOTHING, "removed": {name: version}})
    assert f"'{name}' ({version})" in found.message


def test_what_somebody_holds_is_changed_by_nobody() -> None:
    changed = {"libseccomp2": ("2.5.3-1", "2.5.4-1"), "containerd.io": ("2.3.6-1", "2.3.7-1")}
    plan = {**NOTHING, "changed": changed}
    assert judged(plan=plan, held=["containerd.io"]) == []
    (found,) = judged(plan=plan, held=["containerd.io", "libseccomp2"])
    assert "'libseccomp2' (2.5.3-1 to 2.5.4-1)" in found.message
    assert "containerd.io" not in found.message
    assert "none that is held" in found.message


def test_on_a_node_that_serves_nothing_of_others_changes() -> None:
    plan = {
        **NOTHING,
        "changed": {"libseccomp2": ("2.5.3-1", "2.5.4-1"), "containerd.io": ("2.3.6-1", "2.3.7-1")},
    }
    assert judged(plan=plan) == []
    (found,) = judged(joined=True, plan=plan)
    assert "'libseccomp2' (2.5.3-1 to 2.5.4-1)" in found.message
    assert "on a joined node none" in found.message
    # Toolkits of CUDA stand side by side, and share this.
    shared = {"cuda-toolkit-12-config-common": ("12.8.90-1", "12.9.79-1")}
    assert judged(joined=True, plan={**NOTHING, "changed": shared}) == []


def test_an_unmet_dependency_is_named_with_what_to_do() -> None:
    (found,) = judged(error="Unmet: nvidia-kernel-dkms : Depends: dkms")
    assert "Depends: dkms" in found.message
    assert "contrib" in found.hint
    (found,) = judged(error="Unmet: x", trouble="Could not connect to deb.example.org.")
    assert "deb.example.org" in found.hint


def test_lists_that_cannot_be_read_are_told_once() -> None:
    trouble = "Conflicting values for Signed-By. Remove it in '/etc/apt/sources.list.d/docker.list'."
    (found,) = judged(error=trouble, trouble=trouble)
    assert (found.message + found.hint).count("docker.list") == 1
    assert "installed together" not in found.message


@pytest.mark.parametrize(
    ("folders", "packages", "refused"),
    [
        (None, [], False),
        (["/opt/cni/bin"], [], False),
        (["/usr/lib/cni"], [], True),
        (["/usr/lib/cni", "/opt/cni/bin"], [], False),
        # Somebody's own folder on a node of ours works: its pods have a network.
        (["/usr/lib/cni"], ["kubernetes-cni"], False),
    ],
)
def test_the_folder_of_cni_plugins_that_debians_containerd_leaves(
    folders: list[str] | None, packages: list[str], refused: bool
) -> None:
    tree = facts()
    tree["record"]["containerd"] = {"effective": {"cni_folders": folders}}
    tree["record"]["packages"] = {name: {"version": "1", "held": True} for name in packages}
    found = list(check_cni(tree, run(**WANTED), TABLES))
    assert bool(found) is refused
    if refused:
        assert "/usr/lib/cni" in found[0].message


@pytest.mark.parametrize("joined", [False, True])
def test_a_kernel_that_would_come_alone_is_refused(joined: bool) -> None:
    changed = {"kernel-core": ("5.14.0-570.el9", "5.14.0-611.el9")}
    (found,) = judged(plan={**NOTHING, "changed": changed}, joined=joined)
    assert "5.14.0-611.el9, alone" in found.message
    assert "'kernel-devel-matched-" in found.hint
