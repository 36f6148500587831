"""The kubelet: its packages, its settings, its service, and whether the machine has joined a cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from posixpath import dirname

from gpusmith.expect import files, packages, services, steps
from gpusmith.expect.wanted import Kubelet
from gpusmith.probe.record import Record
from gpusmith.problems import Cure, Problem

WHY = "the node leaves the cluster"


def identity_lost(record: Record, node: str) -> list[Problem]:
    """A kubelet that runs with a file that is gone: a join is refused, since the kubelet is there."""
    kubelet = record.services.get("kubelet")
    if record.kubernetes.joined or kubelet is None or kubelet.active != "active":
        return []
    return [
        Problem(
            f"Node '{node}': kubelet runs, but '/etc/kubernetes/kubelet.conf' is gone: it cannot start once more.",
            f"Restore the file on '{node}', or take the node out of the cluster and join it again.",
        )
    ]


def service(record: Record, node: str) -> list[Problem]:
    """The kubelet's service; a machine that has not joined has none that could run."""
    return services.service(
        record, node, "kubelet", WHY, Cure.SERVICES if record.kubernetes.joined else Cure.JOIN
    )


def joined(record: Record, node: str) -> list[Problem]:
    """The machine is part of a cluster."""
    if record.kubernetes.joined or identity_lost(record, node):
        return []
    return [
        Problem(
            f"Node '{node}': it has not joined a cluster.", "Run site.yml, which joins it.", cure=Cure.JOIN
        )
    ]


def day(unix: float) -> str:
    """Of a certificate's end."""
    return datetime.fromtimestamp(unix, UTC).strftime("%Y-%m-%d")


def expired(record: Record, node: str) -> list[Problem]:
    """A certificate that has expired: the cluster takes the kubelet for a stranger, and it cannot renew it by itself any more."""
    until, now = record.kubernetes.client_expires_unix, record.host.time_unix
    if not record.kubernetes.joined or until is None or now is None or now < until:
        return []
    return [
        Problem(
            f"Node '{node}': the certificate with which its kubelet speaks to the cluster expired on {day(until)}, so the"
            " cluster does not hear of it.",
            f"If the node is to come back, {steps.rejoin(node)}.",
            {"client_expires_unix": until},
        )
    ]


def unread(record: Record, wanted: Kubelet) -> list[Problem]:
    """Settings that would be written for nobody: who joined the node started its kubelet without their folder."""
    folder, node = record.kubernetes.config_dir, wanted.node
    if not record.kubernetes.joined or folder is None:
        return []
    started = f"with '--config-dir={folder}'" if folder else "without '--config-dir'"
    return [
        Problem(
            f"Node '{node}': its kubelet runs {started}, so it does not read '{path}',"
            " which the inventory's 'kubernetes_node_kubelet_config' is for.",
            f"Make the folder '{dirname(path)}' on '{node}', add '--config-dir={dirname(path)}' to the arguments of its kubelet"
            " ('KUBELET_EXTRA_ARGS' of kubeadm's unit) and restart that, then run site.yml; or empty the variable for the node.",
            {"config_dir": folder},
        )
        for path in wanted.settings
        if dirname(path) != folder
    ]


def other_policies(record: Record, wanted: Kubelet) -> list[Problem]:
    """Managers that keep state of another policy: the kubelet of a node that serves would not start with the wanted one.

    Fact: "configured policy differs from state checkpoint policy", pkg/kubelet/cm/cpumanager/state/state_checkpoint.go and
    pkg/kubelet/cm/memorymanager/state/state_checkpoint.go of k8s.io/kubernetes v1.36.3.
    """
    if not record.kubernetes.joined:
        return []
    kept = {"cpu": record.kubernetes.cpu_policy, "memory": record.kubernetes.memory_policy}
    return [
        Problem(
            f"Node '{wanted.node}': its kubelet keeps state of {manager} manager policy '{kept[manager]}', and would not start"
            f" with '{policy}', which the inventory wants.",
            f"To change it, {steps.rejoin(wanted.node)}.",
            {f"{manager}_policy": kept[manager]},
        )
        for manager, policy in sorted(wanted.policies.items())
        if kept[manager] not in (None, policy)
    ]


def problems(record: Record, wanted: Kubelet) -> list[Problem]:
    """What role kubernetes_node answers for on the machine."""
    node = wanted.node
    return [
        *packages.problems(record, wanted.packages),
        *files.problems(record, node, wanted.settings, Cure.KUBELET),
        *identity_lost(record, node),
        *joined(record, node),
        *service(record, node),
    ]
