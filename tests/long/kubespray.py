"""A node as kubespray leaves it: binaries in /usr/local/bin, units of its own, kubelet.env, and no package of any of them.

Layout by kubespray's roles 'container-engine/containerd' and 'kubernetes/node' (templates containerd.service.j2, config.toml.j2,
kubelet.service.j2, kubelet.env.v1beta1.j2).
"""

from __future__ import annotations

import yaml

from gpusmith.names import DOMAIN
from tests.e2e.harness import Lab

RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
KUBERNETES = ("kubelet", "kubeadm", "kubectl")
PACKAGES = ("containerd.io", *KUBERNETES, "kubernetes-cni", "cri-tools")
CONTAINERD_UNIT = """[Unit]
Description=containerd container runtime
Documentation=https://containerd.io
After=network.target local-fs.target
[Service]
ExecStartPre=-/sbin/modprobe overlay
ExecStart=/usr/local/bin/containerd
Type=notify
Delegate=yes
KillMode=process
Restart=always
RestartSec=5
LimitNPROC=infinity
LimitCORE=infinity
TasksMax=infinity
[Install]
WantedBy=multi-user.target
"""
KUBELET_UNIT = """[Unit]
Description=Kubernetes Kubelet Server
After=containerd.service
Wants=containerd.service
[Service]
EnvironmentFile=-/etc/kubernetes/kubelet.env
ExecStart=/usr/local/bin/kubelet $KUBELET_ARGS $KUBELET_HOSTNAME
Restart=always
RestartSec=10s
[Install]
WantedBy=multi-user.target
"""
KUBELET_ENV = """KUBELET_ARGS="--config=/etc/kubernetes/kubelet-config.yaml --kubeconfig=/etc/kubernetes/kubelet.conf \
--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --runtime-cgroups=/system.slice/containerd.service"
KUBELET_HOSTNAME="--hostname-override={node}"
"""


KEPT = (
    "/etc/kubernetes/kubelet.env",
    "/etc/kubernetes/kubelet-config.yaml",
    "/etc/systemd/system/containerd.service",
    "/etc/systemd/system/kubelet.service",
)
"""Files that nobody but kubespray changes."""


def build(lab: Lab, *nodes: str) -> None:
    """Make such nodes of bare machines, in the lab's cluster."""
    lab.site_ok("-l", ",".join(nodes), "--tags", "host_baseline,containerd,kubernetes_node")
    for node in nodes:
        _rebuild(lab, node)
        _as_others_left_it(lab, node)


def _rebuild(lab: Lab, node: str) -> None:
    texts = {
        "/etc/kubernetes/kubelet-config.yaml": _kubelet_config(lab, node),
        "/etc/containerd/config.toml": _without_marks(
            lab.on(node, "cat /etc/containerd/conf.d/50-gpusmith.toml")
        ),
        "/etc/systemd/system/containerd.service": CONTAINERD_UNIT,
        "/etc/systemd/system/kubelet.service": KUBELET_UNIT,
        "/etc/kubernetes/kubelet.env": KUBELET_ENV.format(node=node),
    }
    lab.on(
        node,
        "set -e; systemctl stop kubelet containerd\n"
        f"for name in {' '.join((*RUNTIME, *KUBERNETES))}; do install -m 0755 $(command -v $name) /usr/local/bin/; done\n"
        "cp -a /opt/cni/bin /root/cni; cp -a /etc/containerd/certs.d /root/certs.d\n"
        f"dpkg --purge --force-all {' '.join(PACKAGES)}\n"
        "grep -rlE 'Written by gpusmith' /etc | xargs -r rm -f\n"
        "rm -rf /etc/apt/preferences.d/gpusmith* /etc/apt/sources.list.d/gpusmith* /etc/containerd /opt/cni/bin\n"
        "rm -rf /etc/systemd/system/kubelet.service.d /etc/systemd/system/containerd.service.d /etc/kubernetes/kubelet.conf.d\n"
        "mkdir -p /etc/containerd /opt/cni; mv /root/certs.d /etc/containerd/; mv /root/cni /opt/cni/bin\n"
        "sed -i '/gpusmith/d' /etc/containerd/certs.d/*/hosts.toml\n"
        + "".join(f"cat > {path} <<'END'\n{text.rstrip()}\nEND\n" for path, text in texts.items())
        + "systemctl daemon-reload; systemctl enable containerd kubelet; systemctl start containerd kubelet",
        timeout=120,
    )


def _kubelet_config(lab: Lab, node: str) -> str:
    """One file, where kubeadm and gpusmith have two."""
    config = yaml.safe_load(lab.on(node, "cat /var/lib/kubelet/config.yaml"))
    ours = yaml.safe_load(lab.on(node, "cat /etc/kubernetes/kubelet.conf.d/*.conf"))
    return yaml.safe_dump({**config, **ours})


def _without_marks(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))


def _as_others_left_it(lab: Lab, node: str) -> None:
    """The Node without what gpusmith has written on it."""
    metadata = lab.get("node", node)["metadata"]
    for kind in ("label", "annotate"):
        there = metadata["labels" if kind == "label" else "annotations"]
        names = [f"{name}-" for name in there if name.startswith(DOMAIN) or name == "gpu-type"]
        if names:
            lab.kubectl(kind, "node", node, *names)
    lab.kubectl("patch", "node", node, "--type=merge", "-p", '{"spec": {"taints": null}}')
    lab.kubectl("wait", "node", node, "--for=condition=Ready", "--timeout=60s", timeout=90)


def what_runs(lab: Lab, node: str) -> str:
    """Programs of the two services, their units, and whether any of their packages is there."""
    return lab.on(
        node,
        "for unit in containerd kubelet; do readlink /proc/$(systemctl show -P MainPID $unit)/exe; "
        "systemctl show -P FragmentPath -P DropInPaths -P ActiveState $unit; done; "
        f"sha256sum {' '.join(KEPT)}; "
        f"dpkg-query -W -f '${{Package}} ${{db:Status-Status}}\\n' {' '.join(PACKAGES)} 2>/dev/null || true",
    )
