"""containerd's configuration: root file, drop-in, restart."""

from __future__ import annotations

import tomllib

import pytest
from ansible_collections.gpusmith.gpu.plugins.module_utils import containerd

DOCKER_DEFAULT = '#   Copyright\n\ndisabled_plugins = ["cri"]\n\n#root = "/var/lib/containerd"\n'
RUNTIME = {
    "containerd": {
        "runtimes": {"runc": {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}}}
    }
}
IMAGES = {
    "pinned_images": {"sandbox": "depot/pause:3.10"},
    "registry": {"config_path": "/etc/containerd/certs.d"},
}


@pytest.mark.parametrize("text", [None, "", DOCKER_DEFAULT])
@pytest.mark.parametrize(("release", "schema"), [("2.3.7", 4), ("2.2.1", 3), ("1.7.28", 2)])
def test_missing_or_default_root_file_is_replaced(text: str | None, release: str, schema: int) -> None:
    written, stated = containerd.root_file(text, release)
    assert stated == schema
    assert tomllib.loads(written) == {"version": schema, "imports": [containerd.IMPORTS]}


def test_own_root_file_is_kept_and_gets_the_import() -> None:
    own = 'version = 3\nroot = "/data"\n\n[debug]\nlevel = "info"\n'
    written, stated = containerd.root_file(own, "2.3.7")
    assert stated == 3
    assert tomllib.loads(written) == {
        "version": 3,
        "root": "/data",
        "debug": {"level": "info"},
        "imports": [containerd.IMPORTS],
    }
    assert containerd.root_file(written, "2.3.7") == (written, 3)


def test_import_joins_the_existing_ones() -> None:
    own = 'version = 3\nimports = ["/etc/other/*.toml"]\nroot = "/data"\n'
    assert tomllib.loads(containerd.with_import(own))["imports"] == ["/etc/other/*.toml", containerd.IMPORTS]


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ('root = "/data"\n', "version"),
        ('version = 2\nroot = "/data"\ndisabled_plugins = ["cri"]\n', "disabled_plugins"),
    ],
)
def test_unusable_own_root_file_is_refused(own: str, named: str) -> None:
    with pytest.raises(containerd.ConfigError, match=named):
        containerd.root_file(own, "2.3.7")


def test_drop_in_has_the_schema_of_the_root_file() -> None:
    four = tomllib.loads(containerd.drop_in(4, "containerd", RUNTIME, IMAGES))
    assert four["version"] == 4
    assert four["plugins"] == {"io.containerd.cri.v1.runtime": RUNTIME, "io.containerd.cri.v1.images": IMAGES}
    two = tomllib.loads(containerd.drop_in(2, "containerd", RUNTIME, IMAGES))
    assert two["plugins"]["io.containerd.grpc.v1.cri"] == {
        **RUNTIME, "sandbox_image": "depot/pause:3.10", "registry": {"config_path": "/etc/containerd/certs.d"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("running", "changed", "started", "due"),
    [
        ("a", 200.0, 100.0, False),  # a file is younger, but says the same
        ("b", 50.0, 100.0, True),
        (None, 50.0, 100.0, False),  # rebooted since
        (None, 200.0, 100.0, True),  # killed between writing and restarting
        ("a", 50.0, None, True),  # not running
    ],
)
def test_restart_due(running: str | None, changed: float, started: float | None, due: bool) -> None:
    assert containerd.restart_due("a", running, changed, started) is due


def test_hosts_toml() -> None:
    assert tomllib.loads(containerd.hosts_toml("http://10.0.0.1:5000")) == {
        "server": "http://10.0.0.1:5000", "host": {"http://10.0.0.1:5000": {"capabilities": ["pull", "resolve"]}},
    }  # fmt: skip
