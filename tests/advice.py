"""Commands that messages tell a person to run, as they stand there; 'X' is what is filled in. Each is known to work, and how.

The unit test reads all messages: a command that is not here is red. The end-to-end test runs what can be run on the lab.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Where(StrEnum):
    """Where a command is run."""

    NODE = "node"
    CLUSTER = "cluster"
    CONTROLLER = "controller"
    WALKED = "walked"
    """Another test of the lab runs it, since it changes something."""
    ELSEWHERE = "elsewhere"
    """Hardware, systems or programs that the lab does not have; it is as the documentation of the program has it."""


@dataclass(frozen=True)
class Command:
    """How a command is tried.

    Attributes:
        where: on which machine.
        example: a shell command, what is filled in filled in and nothing that waits for a person.
        status: with which it may end.
    """

    where: Where
    example: str = ""
    status: tuple[int, ...] = (0,)


def _node(example: str, *status: int) -> Command:
    return Command(Where.NODE, example, (0, *status))


def _kubectl(example: str, *status: int) -> Command:
    return Command(Where.CLUSTER, example, (0, *status))


WALKED, ELSEWHERE = Command(Where.WALKED), Command(Where.ELSEWHERE)
NO_MATCH = 1
"""Status of journalctl and grep that find nothing."""

COMMANDS: Mapping[str, Command] = {
    # --- on a node: to look ------------------------------------------------------------------------------------
    # SELinux and ufw are on no machine of the lab.
    "ausearch -m AVC": ELSEWHERE,
    "containerd config dump": _node("containerd config dump"),
    # firewalld is on no machine of the lab; tests/long/test_firewalld.py runs them.
    "firewall-cmd --permanent --zone=trusted --add-source=NETWORK": ELSEWHERE,
    "firewall-cmd --permanent --zone=ZONE X": ELSEWHERE,
    # Machines of the lab have their host's swap.
    "swapoff -a": ELSEWHERE,
    # Role nvidia_driver runs it for a kernel that has no module: tests/e2e/test_6_faults.py.
    "dkms autoinstall -k X": WALKED,
    # Module built_modules runs it: tests/long/test_build_once.py.
    "dkms install": WALKED,
    "dkms ldtarball": WALKED,
    "dkms status": _node("dkms status"),
    "apt-get --fix-broken install": _node("apt-get --fix-broken install --simulate"),
    "dpkg --configure -a": _node("dpkg --configure -a"),
    "dpkg -S": _node("dpkg -S /usr/bin/nvidia-smi"),
    "dpkg -V": _node("dpkg -V nvidia-smi", 1, 2),
    "grep -rn cdi_spec_dirs /etc/containerd": _node("grep -rn cdi_spec_dirs /etc/containerd", NO_MATCH),
    "grep -rn nvidia /etc/containerd": _node("grep -rn nvidia /etc/containerd"),
    "journalctl -b": _node("journalctl -b -n 1"),
    "journalctl -b -k": _node("journalctl -b -k -n 1", NO_MATCH),
    "journalctl -b -k -g Xid": _node("journalctl -b -k -g Xid", NO_MATCH),
    "journalctl -b -u X -u nvidia-persistenced -u nvidia-fabricmanager": _node(
        "journalctl -b -u gpusmith-nvidia-load -u nvidia-persistenced -u nvidia-fabricmanager -n 1"
    ),
    "journalctl -b _TRANSPORT=kernel": _node("journalctl -b _TRANSPORT=kernel -n 1", NO_MATCH),
    "journalctl -k": _node("journalctl -k -n 1", NO_MATCH),
    "journalctl -k -g NVRM": _node("journalctl -k -g NVRM", NO_MATCH),
    "journalctl -k -g Xid": _node("journalctl -k -g Xid", NO_MATCH),
    "journalctl -u NAME": _node("journalctl -u kubelet -n 1"),
    "journalctl -u X": _node("journalctl -u kubelet -n 1"),
    "journalctl -u containerd -u kubelet": _node("journalctl -u containerd -u kubelet -n 1"),
    "journalctl -u kubelet": _node("journalctl -u kubelet -n 1"),
    "journalctl -u nvidia-fabricmanager": _node("journalctl -u nvidia-fabricmanager -n 1"),
    "ldconfig -p": _node("ldconfig -p"),
    "ls -l /dev/nvidia*": _node("ls -l /dev/nvidia*"),
    "lspci -d 10de:": _node("lspci -d 10de:"),
    "lspci -vv -d 15b3:": _node("lspci -vv -d 15b3:"),
    "lspci -nn": _node("lspci -nn"),
    "nvidia-smi -L": _node("nvidia-smi -L"),
    "nvidia-smi -q": _node("nvidia-smi -q"),
    "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER": _node("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER"),
    "nvidia-smi -q -i X": _node("nvidia-smi -q -i 0"),
    "ps -fp X": _node("ps -fp 1"),
    "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub": _node(
        "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub"
    ),
    "swapon --show": _node("swapon --show"),
    "sysctl NAME": _node("sysctl net.ipv4.ip_forward"),
    "systemctl cat X": _node("systemctl cat kubelet"),
    "systemctl list-units --type swap": _node("systemctl list-units --type swap"),
    "systemd-analyze cat-config X": _node("systemd-analyze cat-config modules-load.d"),
    "systemd-analyze cat-config sysctl.d": _node("systemd-analyze cat-config sysctl.d"),
    # --- on a node: to repair ----------------------------------------------------------------------------------
    "ufw allow PORT": ELSEWHERE,
    "apt-mark hold": _node("apt-mark hold kubelet"),
    "modinfo -p nvidia": _node("modinfo -p nvidia"),
    "modprobe NAME": _node("modprobe nvidia_uvm"),
    "modprobe X": _node("modprobe nvidia_uvm"),
    "modprobe nvidia": _node("modprobe nvidia"),
    "nvidia-ctk cdi generate": _node("nvidia-ctk cdi generate --output=/tmp/cdi.yaml && rm /tmp/cdi.yaml"),
    "nvidia-ctk cdi generate --output=FILE": _node(
        "nvidia-ctk cdi generate --output=/tmp/cdi.yaml && rm /tmp/cdi.yaml"
    ),
    "nvidia-ctk cdi generate --output=X": _node(
        "nvidia-ctk cdi generate --output=/tmp/cdi.yaml && rm /tmp/cdi.yaml"
    ),
    "nvidia-ctk system create-dev-char-symlinks --create-all": _node(
        "nvidia-ctk system create-dev-char-symlinks --create-all"
    ),
    "nvidia-modprobe -c MINOR": _node("nvidia-modprobe -c 0"),
    "nvidia-modprobe X": _node("nvidia-modprobe -c 255 && nvidia-modprobe -u"),
    "sysctl -w X=X": _node("sysctl -w net.ipv4.ip_forward=1"),
    "systemctl enable X": _node("systemctl enable nvidia-persistenced"),
    "systemctl restart kubelet": _node("systemctl restart kubelet"),
    "systemctl start X": _node("systemctl start nvidia-persistenced"),
    # tests/e2e/test_2_site.py and test_6_faults.py: the runtime's configuration, units that changed.
    "systemctl daemon-reload": WALKED,
    "systemctl restart containerd": WALKED,
    # --- in the cluster ----------------------------------------------------------------------------------------
    "kubectl --kubeconfig X get nodes": _kubectl("get nodes"),
    "kubectl describe nodes": _kubectl("describe nodes"),
    "kubectl -n X get jobs,pods -l X=X": _kubectl("-n kube-system get jobs,pods -l gpusmith.io/run=a1"),
    "kubectl -n X get daemonsets,pods -o wide": _kubectl("-n gpusmith-system get daemonsets,pods -o wide"),
    "kubectl -n X get deployments,pods -o wide": _kubectl("-n gpusmith-system get deployments,pods -o wide"),
    "kubectl -n X get pods -o wide": _kubectl("-n gpusmith-system get pods -o wide"),
    "kubectl -n X logs deployment/prometheus": _kubectl(
        "-n gpusmith-monitoring logs deployment/prometheus --tail=1", 1
    ),
    "kubectl -n X logs X": _kubectl("-n gpusmith-system logs ds/nvidia-device-plugin --tail=1"),
    "kubectl -n X delete pod -l app.kubernetes.io/name=X --field-selector spec.nodeName=X": _kubectl(
        "-n gpusmith-system delete pod -l app.kubernetes.io/name=nvidia-device-plugin"
        " --field-selector spec.nodeName=gpu-1 --dry-run=server"
    ),
    # It runs until somebody ends it.
    "kubectl -n X port-forward service/prometheus 9090": ELSEWHERE,
    "kubectl create namespace X": _kubectl("create namespace some --dry-run=server"),
    "kubectl -n X create secret docker-registry X --docker-server=REGISTRY --docker-username=NAME"
    " --docker-password=PASSWORD": _kubectl(
        "-n gpusmith-system create secret docker-registry r --docker-server=r --docker-username=n"
        " --docker-password=p --dry-run=server"
    ),
    "kubectl -n X get pod X -o yaml": _kubectl("-n kube-system get pod etcd-cp-1 -o yaml"),
    "kubectl -n X delete pod X": _kubectl("-n kube-system delete pod etcd-cp-1 --dry-run=server"),
    "kubectl annotate node X X-": _kubectl("annotate node gpu-1 gpusmith.io/driver-upgrade-"),
    "kubectl -n X describe pod X": _kubectl("-n kube-system describe pod etcd-cp-1"),
    "kubectl -n X describe resourcequota": _kubectl("-n kube-system describe resourcequota"),
    "kubectl describe node X": _kubectl("describe node gpu-1"),
    "kubectl delete node X": _kubectl("delete node gpu-1 --dry-run=server"),
    "kubectl delete namespace X": _kubectl("delete namespace gpusmith-system --dry-run=server"),
    "kubectl delete runtimeclass X": _kubectl("delete runtimeclass nvidia --dry-run=server"),
    "kubectl get KIND NAME -o yaml": _kubectl("get namespace gpusmith-system -o yaml"),
    "kubectl get namespace NAME -o yaml": _kubectl("get namespace gpusmith-system -o yaml"),
    "kubectl get namespace X -o yaml": _kubectl("get namespace gpusmith-system -o yaml"),
    "kubectl get resourceslices": _kubectl("get resourceslices"),
    "kubectl get resourceslices --field-selector spec.nodeName=X": _kubectl(
        "get resourceslices --field-selector spec.nodeName=gpu-1"
    ),
    "kubectl get nodes": _kubectl("get nodes"),
    "kubectl get pods -A --field-selector spec.nodeName=X -o custom-columns=UID:.metadata.uid,NAME:.metadata.name": _kubectl(
        "get pods -A --field-selector spec.nodeName=gpu-1 -o custom-columns=UID:.metadata.uid,NAME:.metadata.name"
    ),
    "kubectl get pods -A -o wide": _kubectl("get pods -A -o wide"),
    "kubectl get pods -A | grep device-plugin": _kubectl("get pods -A"),
    "kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies": _kubectl(
        "get validatingwebhookconfigurations,mutatingwebhookconfigurations,validatingadmissionpolicies"
    ),
    # On a node that has no such label.
    "kubectl label node X X-": _kubectl("label node gpu-1 gpusmith.io/gpu-layout- --dry-run=server"),
    "kubectl label node X X": _kubectl(
        "label node gpu-1 gpusmith.io/gpu-layout=time-slicing-4 --overwrite --dry-run=server"
    ),
    "kubectl taint node X X": _kubectl("taint node gpu-1 gpusmith.io/unvalidated-", 1),
    # The tests of the suite's rights apply it.
    "kubectl apply -f validation/rbac.yml": WALKED,
    "kubectl apply -f validation/rbac-monitoring.yml": WALKED,
    "kubectl -n X apply -f docs/rbac-any-cluster.yml": WALKED,
    "kubectl label namespace X pod-security.kubernetes.io/enforce=privileged": WALKED,
    # tests/e2e/test_6_monitoring.py goes these ways.
    "kubectl label namespace NAME X=X": WALKED,
    "kubectl -n X annotate X/X X=true": WALKED,
    "kubectl -n X scale X --replicas=X": WALKED,
    """kubectl -n X patch X --type=merge -p '{"spec":{"suspend":false}}'""": WALKED,
    "kubectl delete priorityclass X": _kubectl(
        "delete priorityclass gpusmith-validation --dry-run=server", 1
    ),
    "kubectl uncordon X": _kubectl("uncordon gpu-1"),
    # --- where the inventory is --------------------------------------------------------------------------------
    # Of a folder and a key file of the user's own: tests/unit/built.
    "chmod 0600 X": WALKED,
    "chmod 0700 X": WALKED,
    "ansible -i INVENTORY X -m ansible.builtin.ping": Command(
        Where.CONTROLLER, "ansible -i INVENTORY gpu-1 -m ansible.builtin.ping"
    ),
    "ansible-inventory --list": Command(Where.CONTROLLER, "ansible-inventory -i INVENTORY --list"),
    # tests/e2e/test_7_upgrade.py runs both.
    "ansible-playbook -i INVENTORY playbooks/rollback_driver.yml -l X": WALKED,
    "ansible-playbook -i INVENTORY playbooks/change_layout.yml -l X": WALKED,
    "ansible-playbook -i INVENTORY playbooks/upgrade_driver.yml -l X -e gpu_upgrade_version=X": WALKED,
    # tests/integration/roles/test_monitoring.py goes this way.
    "ansible-playbook -i INVENTORY playbooks/remove_monitoring.yml -e gpu_monitoring_namespace=X": WALKED,
    # tests/e2e/test_5_tenants.py goes this way.
    "ansible-playbook -i INVENTORY playbooks/remove_tenants.yml": WALKED,
    # tests/long/test_serving_driver.py goes this way.
    "ansible-playbook -i INVENTORY playbooks/remove_nodes.yml -l X": WALKED,
    "ansible-playbook -i INVENTORY site.yml -l X": WALKED,
    "ansible-playbook -i INVENTORY site.yml -l X -e gpusmith_reboot=if_needed": WALKED,
    "make docs": WALKED,
    "make setup": WALKED,
    "pytest validation": WALKED,
    # tests/unit/node/test_hostkey.py has ssh's own words for it.
    "ssh-keygen -f X -R X": ELSEWHERE,
    # tests/unit/report/test_diff.py
    "gpusmith report diff --help": WALKED,
    # tests/long/test_installed.py runs them.
    "gpusmith validate": WALKED,
    "gpusmith validate --help": WALKED,
    # tests/long/test_packages.py runs them.
    "dnf upgrade": WALKED,
    "dnf upgrade --nobest": WALKED,
    "dnf remove --duplicates": WALKED,
    "dnf versionlock add": WALKED,
    "dnf versionlock delete X": WALKED,
    # --- what the lab does not have ----------------------------------------------------------------------------
    # No machine of the lab has firmware with Secure Boot.
    "mokutil --import FILE": ELSEWHERE,
    "mokutil --list-enrolled": ELSEWHERE,
    "mokutil --sb-state": ELSEWHERE,
    "rpm -V": ELSEWHERE,
    "rpm -qf": ELSEWHERE,
    "kubeadm upgrade node": ELSEWHERE,
    "nvidia-smi --gpu-reset": ELSEWHERE,
    "nvidia-smi --gpu-reset -i INDEX": ELSEWHERE,
    "nvidia-smi -i X --gpu-reset": ELSEWHERE,
    "nvidia-smi -i X -e 1": ELSEWHERE,
    "nvidia-smi -i X -mig 0": ELSEWHERE,
    "nvidia-smi nvlink --status": ELSEWHERE,
}

NO_COMMANDS = frozenset(
    {
        "Insufficient nvidia.com/gpu",
        "accept-nvidia-visible-devices-envvar-when-unprivileged = false",
        "cdi.enabled: true",
        "failSwapOn: false",
        "gather_subset: min",
        "containerd config migrate",
        "Written by gpusmith",
    }
)
"""Quoted words of several that nobody is to run: settings of others, and what programs say."""
