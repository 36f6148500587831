"""What entries 'remove' take away."""

from __future__ import annotations

from typing import Any

import yaml

from gpusmith.paths import repo_root

from .test_reloads import flat


def variables(role: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((repo_root() / "roles" / role / "vars/main.yml").read_text())
    return found


def test_with_containerd_go_all_drop_ins_that_roles_write() -> None:
    """While one is left, the root file is ours."""
    (module,) = [
        task
        for task in flat(yaml.safe_load((repo_root() / "roles/containerd/tasks/remove.yml").read_text()))
        if "gpusmith.gpu.containerd_config" in task
    ]
    names = {
        variables("containerd")["__containerd_own"]["name"],
        variables("nvidia_container_toolkit")["__nvidia_container_toolkit_own"]["name"],
    }
    assert set(module["loop"]) == names
