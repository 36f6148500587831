"""Next steps that several judges give, each in one place."""

from __future__ import annotations

from gpusmith.expect.versions import is_older
from gpusmith.names import UPGRADE
from gpusmith.probe.module import UPGRADE_BLOCK


def upgrade_driver(node: str, version: str, installed: str = "") -> str:
    """How a node that serves gets another version of the driver: an upgrade goes forward only.

    Args:
        node: its name.
        version: that it is to have.
        installed: that it has, if that is known.
    """
    if installed and is_older(version, installed):
        return (
            f"go back with 'ansible-playbook -i INVENTORY playbooks/rollback_driver.yml -l {node}', if that is the version from"
            " before its last upgrade"
        )
    return f"upgrade it: 'ansible-playbook -i INVENTORY playbooks/upgrade_driver.yml -l {node} -e gpu_upgrade_version={version}'"


def leave(node: str) -> str:
    """How a node is taken out of its cluster."""
    return f"take '{node}' out of the cluster with 'ansible-playbook -i INVENTORY playbooks/remove_nodes.yml -l {node}'"


def rejoin(node: str) -> str:
    """How a node that serves gets what a kubelet only takes when it joins."""
    return f"{leave(node)}, then bring it back with 'ansible-playbook -i INVENTORY site.yml -l {node}'"


def change_driver(node: str) -> str:
    """How a node that serves gets the other kind of module: site.yml installs it only on a machine that has left the cluster."""
    return (
        f"{leave(node)}, then"
        f" bring it back with 'ansible-playbook -i INVENTORY site.yml -l {node} -e gpusmith_reboot=if_needed', which installs the"
        " inventory's driver"
    )


def change_runtime(node: str) -> str:
    """How a node that serves gets other packages of runtime, toolkit or Kubernetes."""
    return (
        "set 'gpusmith_change_runtime_on_joined' to true and run"
        f" 'ansible-playbook -i INVENTORY site.yml -l {node}', which changes such nodes one after another"
    )


def repair_layout(host: str) -> str:
    """How GPUs of a node become as its layout says."""
    return (
        "Have them divided anew, which waits for pods that hold them:"
        f" 'ansible-playbook -i INVENTORY playbooks/change_layout.yml -l {host}'"
    )


def finish_layout(host: str, node: str) -> str:
    """What is to be done about a node whose layout change is not finished; arguments as of `finish_upgrade`."""
    return (
        f"Go on with 'ansible-playbook -i INVENTORY playbooks/change_layout.yml -l {host}'. To take the node out of the cluster,"
        f" or to repair it by hand: 'kubectl annotate node {node} {UPGRADE}-' gives the change up, and changes nothing else:"
        " the node stays cordoned."
    )


def finish_upgrade(host: str, node: str, target: str, rollback: bool = False) -> str:
    """What is to be done about a node whose driver upgrade is not finished.

    Args:
        host: its name in the inventory.
        node: name of the Node.
        target: version of the upgrade; empty if it cannot be read.
        rollback: it goes back to the version from before an earlier upgrade.
    """
    forward = f"Go on with 'ansible-playbook -i INVENTORY playbooks/upgrade_driver.yml -l {host} -e gpu_upgrade_version={target}'"
    back = f"'ansible-playbook -i INVENTORY playbooks/rollback_driver.yml -l {host}'"
    finish = f"Go on with {back}" if rollback else f"{forward}, or go back with {back}"
    finish = finish if target else "Use the release that began it"
    return (
        f"{finish}. To take the node out of the cluster, or to repair it by hand: 'kubectl annotate node {node} {UPGRADE}-'"
        " gives the upgrade up, and changes nothing else: the node stays cordoned, and until it is rebooted file"
        f" '{UPGRADE_BLOCK}' may keep its driver from being loaded."
    )
