"""containerd's configuration: root file, drop-in, restart."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpusmith.gpu.plugins.module_utils import containerd
from ansible_collections.gpusmith.gpu.plugins.modules import containerd_config

from gpusmith.checks import runtime
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.paths import repo_root
from tests.unit.hosts import make_host
from tests.unit.records import healthy_record

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


# --- who else sets what is ours ----------------------------------------------------------------------------------------

NVIDIA = {"containerd": {"runtimes": {"nvidia": {"options": {"SystemdCgroup": True}}}}}
OURS = {
    "/etc/containerd/conf.d/50-gpusmith.toml": containerd.drop_in(
        4, "containerd", {**RUNTIME, "enable_cdi": True}, IMAGES
    ),
    "/etc/containerd/conf.d/60-gpusmith-nvidia.toml": containerd.drop_in(
        4, "nvidia_container_toolkit", NVIDIA, {}
    ),
}
CDI_OFF = 'version = 4\n[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = false\n'
# A file in the words of an older schema.
GROUPS_OFF = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
enable_cdi = true
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
SystemdCgroup = false
"""


def effective(*files: str) -> dict[str, Any]:
    """What containerd makes of files: later ones win, setting by setting."""

    def merge(into: dict[str, Any], tree: dict[str, Any]) -> None:
        for key, value in tree.items():
            if isinstance(value, dict):
                merge(into.setdefault(key, {}), value)
            else:
                into[key] = value

    made: dict[str, Any] = {}
    for text in files:
        merge(made, tomllib.loads(text.replace("io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime")))
    return made


def overridden(**others: str) -> list[str]:
    ours = {path: tomllib.loads(text) for path, text in OURS.items()}
    theirs = {name: tomllib.loads(text) for name, text in others.items()}
    return list(containerd.overrides(ours, theirs, effective(*OURS.values(), *others.values())))


def test_the_file_that_overrides_ours_is_named() -> None:
    assert overridden(cdi=CDI_OFF, other='version = 4\n[debug]\nlevel = "info"\n') == [
        "'cdi' sets 'enable_cdi' to false, ours is true"
    ]
    assert overridden(groups=GROUPS_OFF) == [
        "'groups' sets 'containerd.runtimes.nvidia.options.SystemdCgroup' to false, ours is true"
    ]
    assert overridden(off='version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n') == [
        "'off' turns the CRI plugin off with 'disabled_plugins'"
    ]


def test_a_file_that_loses_against_ours_is_not_named() -> None:
    ours = {path: tomllib.loads(text) for path, text in OURS.items()}
    assert (
        containerd.overrides(ours, {"first": tomllib.loads(CDI_OFF)}, effective(CDI_OFF, *OURS.values()))
        == []
    )
    assert overridden() == []


def test_all_files_that_containerd_reads_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, folder = tmp_path / "config.toml", tmp_path / "conf.d"
    folder.mkdir()
    for path, text in OURS.items():
        (folder / Path(path).name).write_text(text)
    (folder / "99-site.toml").write_text(f'imports = ["{tmp_path}/more.toml"]\n{CDI_OFF}')
    (tmp_path / "more.toml").write_text(f'imports = ["{root}"]\n{GROUPS_OFF}')
    # Somebody added to our own root file.
    root.write_text(
        f'{containerd.OURS}.\nversion = 4\nimports = ["conf.d/*.toml"]\n{CDI_OFF.partition(chr(10))[2]}'
    )
    monkeypatch.setattr(containerd_config, "ROOT", root)
    dump = containerd.to_toml(effective(*OURS.values(), CDI_OFF, GROUPS_OFF, CDI_OFF))
    assert containerd_config.overrides(dump) == [
        f"'{folder}/99-site.toml' sets 'enable_cdi' to false, ours is true",
        f"'{root}' sets 'enable_cdi' to false, ours is true",
        f"'{tmp_path}/more.toml' sets 'containerd.runtimes.nvidia.options.SystemdCgroup' to false, ours is true",
    ]


@pytest.fixture
def next_step() -> Callable[[list[str]], str]:
    """The end of the role's message."""
    values = yaml.safe_load((repo_root() / "roles/containerd/vars/main.yml").read_text())

    def make(overrides: list[str]) -> str:
        known = {
            name: trust_as_template(values[name])
            for name in ("__containerd_next_step", "__containerd_search")
        }
        known["__containerd_configuration"] = {"overrides": overrides}
        templar = Templar(DataLoader(), variables=known)
        return str(templar.template(trust_as_template("{{ __containerd_next_step }}")))

    return make


def test_the_message_names_the_files_or_how_to_find_them(next_step: Callable[[list[str]], str]) -> None:
    assert next_step(["'a' sets b", "'c' sets d"]).startswith("'a' sets b; 'c' sets d. Take that out")
    record = healthy_record()
    record["containerd"]["effective"]["cdi"] = False
    (problem,) = runtime.containerd(NodeFacts(make_host(), parse(record), None, {}))
    command = re.search(r'"(grep -rnE [^"]*)"', problem.next_step)
    assert command
    assert command.group() in next_step([])


class Module:
    """As much of AnsibleModule as is needed to end one."""

    def __init__(self, state: str, check: bool) -> None:
        self.params, self.check_mode, self.ended = {"state": state}, check, dict[str, Any]()

    def exit_json(self, **result: Any) -> None:
        self.ended = self.ended or result

    def fail_json(self, **result: Any) -> None:
        self.ended = {"failed": True, **result}

    def get_bin_path(self, name: str) -> None:
        return None


@pytest.mark.parametrize("check", [False, True])
def test_a_drop_in_goes_from_a_machine_without_containerd(tmp_path: Path, check: bool) -> None:
    path = tmp_path / "50-gpusmith.toml"
    path.touch()
    for changed in (True, check):
        module = Module("absent", check)
        containerd_config.without_containerd(module, path)
        assert module.ended == {"changed": changed}
    assert path.exists() is check


def test_a_missing_containerd_is_named(tmp_path: Path) -> None:
    module = Module("present", False)
    assert containerd_config.version_of(module) is None
    containerd_config.without_containerd(module, tmp_path / "50-gpusmith.toml")
    assert module.ended["failed"]
    assert "not installed" in module.ended["msg"]
