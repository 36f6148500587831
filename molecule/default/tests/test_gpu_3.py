"""The machine as the roles leave it, after a reboot, seen by testinfra's modules and not by the roles' own means."""

from __future__ import annotations

from typing import Any

import pytest

HELD = (
    "containerd.io",
    "kubeadm",
    "kubelet",
    "nvidia-container-toolkit",
    "nvidia-kernel-open-dkms",
)
RUNNING = ("containerd", "gpusmith-nvidia-load", "nvidia-persistenced")
PARAMETERS = {
    "net.bridge.bridge-nf-call-iptables": 1,
    "net.ipv4.ip_forward": 1,
    # One more than the role's own: converge.yml asks for it.
    "net.ipv4.tcp_keepalive_time": 300,
}


@pytest.fixture(scope="module")
def wanted(host: Any) -> dict[str, Any]:
    """The inventory's variables of the machine."""
    return dict(host.ansible.get_variables())


def test_packages_have_the_versions_of_the_inventory(host: Any, wanted: dict[str, Any]) -> None:
    for name, version in (
        ("containerd.io", wanted["containerd_version"]),
        ("kubelet", wanted["kubernetes_node_version"]),
        ("nvidia-container-toolkit", wanted["nvidia_container_toolkit_version"]),
        ("nvidia-kernel-open-dkms", wanted["nvidia_driver_version"]),
    ):
        package = host.package(name)
        assert package.is_installed, name
        assert package.version.startswith(f"{version}-"), (name, package.version)


@pytest.mark.parametrize("name", HELD)
def test_no_upgrade_moves_them(host: Any, name: str) -> None:
    assert host.check_output("apt-mark showhold %s", name) == name


@pytest.mark.parametrize("name", RUNNING)
def test_services_run_and_start_at_boot(host: Any, name: str) -> None:
    service = host.service(name)
    assert service.is_running
    assert service.is_enabled


def test_the_kubelet_waits_for_a_join(host: Any) -> None:
    assert not host.file("/etc/kubernetes/kubelet.conf").exists


@pytest.mark.parametrize(("name", "value"), PARAMETERS.items())
def test_parameters_of_the_kernel(host: Any, name: str, value: int) -> None:
    assert host.sysctl(name) == value


@pytest.mark.parametrize("name", ["overlay", "br_netfilter"])
def test_modules_are_loaded_at_boot(host: Any, name: str) -> None:
    assert name in host.file("/etc/modules-load.d/gpusmith-host-baseline.conf").content_string.split()


def test_the_module_of_the_driver(host: Any, wanted: dict[str, Any]) -> None:
    assert host.file("/sys/module/nvidia/version").content_string.strip() == wanted["nvidia_driver_version"]
    device = host.file("/dev/nvidia0")
    assert device.exists
    assert device.user == "root"


def test_containerd_has_the_runtime_and_the_cgroups_of_systemd(host: Any) -> None:
    for name in ("50-gpusmith.toml", "60-gpusmith-nvidia.toml"):
        file = host.file(f"/etc/containerd/conf.d/{name}")
        assert file.is_file
        assert file.mode == 0o644
    assert "SystemdCgroup = true" in host.check_output("containerd config dump")
    assert host.socket("unix:///run/containerd/containerd.sock").is_listening


def test_cuda_is_where_programs_look_for_it(host: Any, wanted: dict[str, Any]) -> None:
    link = host.file("/usr/local/cuda")
    assert link.is_symlink
    assert host.file(f"/usr/local/cuda-{wanted['cuda_toolkit_default']}/bin/nvcc").is_file


def test_what_the_kubelet_needs(host: Any) -> None:
    assert host.mount_point("/sys/fs/cgroup").exists
    assert len(host.file("/proc/swaps").content_string.splitlines()) == 1, "swap is on"
