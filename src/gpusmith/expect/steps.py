"""Next steps that several judges give, each in one place."""

from __future__ import annotations


def change_driver(node: str) -> str:
    """How a node that serves gets another driver: site.yml installs it only on a machine that has left the cluster."""
    play = "ansible-playbook -i INVENTORY"
    return (
        f"take '{node}' out of the cluster with '{play} playbooks/remove_nodes.yml -l {node}', then bring it back with"
        f" '{play} site.yml -l {node} -e gpusmith_reboot=if_needed', which installs the inventory's driver"
    )
