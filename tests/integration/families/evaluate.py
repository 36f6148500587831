"""Program: the variables of every role with the facts of every operating system, as JSON by role, system and name.

It is a process of its own: Ansible's loader of collections has to be there before anything of a collection is imported.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from ansible.plugins.loader import init_plugin_loader

init_plugin_loader([])

from ansible.errors import AnsibleError  # noqa: E402
from ansible.parsing.dataloader import DataLoader  # noqa: E402
from ansible.template import Templar, trust_as_template  # noqa: E402

from gpusmith.paths import repo_root  # noqa: E402
from tests.unit.expect.converged import converged_record  # noqa: E402
from tests.unit.families.systems import DIFFERENT, SYSTEMS  # noqa: E402
from tests.unit.keys import KEY  # noqa: E402

REPOSITORY = {"uris": ["http://depot/"], "suites": ["./"], "components": [], "key": KEY}
VERSIONS = {
    "nvidia_driver_version": "580.178.04",
    "containerd_version": "2.3.7",
    "nvidia_container_toolkit_version": "1.20.1",
    "kubernetes_node_version": "1.36.3",
    "cuda_toolkit_versions": ["12.8"],
}
INVENTORY = {
    **VERSIONS,
    **{f"{name.rpartition('_')[0]}_repository": REPOSITORY for name in VERSIONS},
    "inventory_hostname": "gpu-1",
    "kubernetes_node_control_plane_endpoint": "cp-1:6443",
    "kubernetes_node_token_host": "cp-1",
    "gpusmith_kubeconfig": "/root/.kube/config",
}


def trusted(value: Any) -> Any:
    """With templates that Ansible fills in."""
    if isinstance(value, str):
        return trust_as_template(value)
    if isinstance(value, dict):
        return {key: trusted(each) for key, each in value.items()}
    return [trusted(each) for each in value] if isinstance(value, list) else value


def of_file(path: Path) -> dict[str, Any]:
    """Variables of a file, if it is there."""
    found: dict[str, Any] = (yaml.safe_load(path.read_text()) if path.exists() else None) or {}
    return found


def worked_out(role: Path, system: str) -> dict[str, Any]:
    """Each variable of a role as the role would see it; None where it needs more than facts, record and inventory."""
    own = of_file(role / "vars/main.yml")
    variables = {
        **trusted({**of_file(role / "defaults/main.yml"), **own}),
        **INVENTORY,
        "node_record_now": {"record": converged_record()},
        "role_path": str(role),
        "ansible_facts": dict(SYSTEMS[system]),
        "ansible_check_mode": False,
    }
    templar = Templar(DataLoader(), variables=variables)
    found: dict[str, Any] = {}
    for name in own:
        try:
            found[name] = templar.template(variables[name])
        except AnsibleError:
            found[name] = None
    return found


def main() -> None:
    """All roles that have variables of their own, on all systems."""
    roles = sorted(path.parents[1] for path in (repo_root() / "roles").glob("*/vars/main.yml"))
    found = {role.name: {system: worked_out(role, system) for system in DIFFERENT} for role in roles}
    json.dump(found, sys.stdout, default=str)


if __name__ == "__main__":
    main()
