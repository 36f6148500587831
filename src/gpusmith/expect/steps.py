"""Next steps that several judges give, each in one place."""

from __future__ import annotations

from gpusmith.names import UPGRADE


def change_driver(node: str) -> str:
    """How a node that serves gets another driver: site.yml installs it only on a machine that has left the cluster."""
    return (
        f"take '{node}' out of the cluster with 'ansible-playbook -i INVENTORY playbooks/remove_nodes.yml -l {node}', then"
        f" bring it back with 'ansible-playbook -i INVENTORY site.yml -l {node} -e gpusmith_reboot=if_needed', which installs the"
        " inventory's driver"
    )


def change_runtime(node: str) -> str:
    """How a node that serves gets other packages of runtime, toolkit or Kubernetes."""
    return (
        "set 'gpusmith_change_runtime_on_joined' to true and run"
        f" 'ansible-playbook -i INVENTORY site.yml -l {node}', which changes such nodes one after another"
    )


def finish_upgrade(node: str, target: str) -> str:
    """What is to be done about a node whose driver upgrade is not finished.

    Args:
        node: name of the Node.
        target: version of the upgrade; empty if it cannot be read.
    """
    finish = (
        f"Go on with the upgrade to {target}, or roll it back" if target else "Use the release that began it"
    )
    return (
        f"{finish}. To take the node out of the cluster, or to repair it by hand: 'kubectl annotate node {node} {UPGRADE}-'"
        " gives the upgrade up, and changes nothing else: the node stays cordoned."
    )
