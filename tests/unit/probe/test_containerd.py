from __future__ import annotations

import pytest

from gpusmith.probe import containerd

DUMP = """\
version = 4
disabled_plugins = []
[plugins]
  [plugins.'io.containerd.cri.v1.runtime']
    enable_cdi = true
    cdi_spec_dirs = ['/etc/cdi', '/var/run/cdi']
    [plugins.'io.containerd.cri.v1.runtime'.containerd]
      default_runtime_name = 'runc'
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes]
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
          runtime_type = 'io.containerd.runc.v2'
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
            BinaryName = '/usr/bin/nvidia-container-runtime'
            SystemdCgroup = true
        [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
          [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
            SystemdCgroup = true
"""


def test_containerd_settings_are_read() -> None:
    assert containerd.read_containerd_dump(DUMP) == containerd.Effective(
        runtime_nvidia=True,
        runtime_binary="/usr/bin/nvidia-container-runtime",
        systemd_cgroup=True,
        cdi=True,
        cri_disabled=False,
        default_runtime="runc",
        default_binary=None,
        cdi_spec_dirs=("/etc/cdi", "/var/run/cdi"),
    )


def test_toml_is_read_alike_by_nodes_without_a_parser_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own = containerd.parse_toml(DUMP)
    monkeypatch.setattr("sys.version_info", (3, 8))
    assert containerd.parse_toml(DUMP) == own
    assert containerd.parse_toml("no toml") == {}


@pytest.mark.parametrize(
    ("text", "disabled"),
    [
        ('disabled_plugins = ["cri"]', True),
        ('disabled_plugins = ["io.containerd.grpc.v1.cri"]', True),
        ('disabled_plugins = ["io.containerd.internal.v1.opt"]', False),
        ("", False),
    ],
)
def test_a_disabled_cri_is_seen(text: str, disabled: bool) -> None:
    assert containerd.read_containerd_dump(text).cri_disabled is disabled


def test_a_runtime_without_systemd_cgroup_is_seen() -> None:
    text = DUMP.replace("SystemdCgroup = true", "SystemdCgroup = false", 1)
    assert containerd.read_containerd_dump(text).systemd_cgroup is False


def test_the_runtime_of_every_pod_is_read() -> None:
    found = containerd.read_containerd_dump(DUMP.replace("= 'runc'", "= 'nvidia'"))
    assert (found.default_runtime, found.default_binary) == (
        "nvidia",
        "/usr/bin/nvidia-container-runtime",
    )
