from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gpusmith.probe import containerd, cri

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


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("version = 3\n", 3),
        ("# version = 2\nroot = '/data'\nversion = 4", 4),
        ("root = '/data'", None),
        (None, None),
    ],
)
def test_the_root_files_schema_is_read(text: str | None, schema: int | None) -> None:
    assert containerd.schema_of_file(text) == schema


def printed(*lines: str) -> str:
    """As ctr prints them: filled with blanks."""
    return "".join(f"{line:<40}\n" for line in lines)


# As containerd 2.3.7 says it, the second one with max_user_instances used up.
RUNTIME = printed(
    "Type:          io.containerd.cri.v1",
    "ID:            runtime",
    "Requires:",
    "               io.containerd.warning.v1",
    "Exports:",
    "               CRIVersion      v1",
    "",
)
SERVICE = printed(
    "Type:          io.containerd.grpc.v1",
    "ID:            cri",
    "Requires:",
    "               io.containerd.cri.v1",
)
UP = RUNTIME + SERVICE
NO_WATCHER = "failed to create CRI service: failed to create fsnotify watcher: too many open files"
DOWN = UP + printed(
    "Error:", "               Code:        Unknown", f"               Message:     {NO_WATCHER}", ""
)


def test_a_cri_plugin_that_is_up_is_seen() -> None:
    assert cri.read_plugins(UP) == cri.Cri(up=True)


def test_a_dead_cri_plugin_is_told_in_its_own_words() -> None:
    assert cri.read_plugins(DOWN) == cri.Cri(up=False, error=NO_WATCHER)
    assert "'fs.inotify.max_user_instances' is '128'" in cri.hint(NO_WATCHER, "128")
    assert cri.hint("no such file", "128") == ""


def test_of_several_plugins_the_first_one_has_the_reason() -> None:
    first = RUNTIME.rstrip() + "\n" + printed("Error:", "               Message:     no runc", "")
    assert cri.read_plugins(first + DOWN.removeprefix(RUNTIME)) == cri.Cri(up=False, error="no runc")


@pytest.mark.parametrize("text", ["", RUNTIME])
def test_a_containerd_without_the_plugin_is_seen(text: str) -> None:
    assert cri.read_plugins(text) == cri.Cri(up=False, error="containerd has no plugin 'cri'")


def test_all_files_are_read_in_the_order_of_containerd(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    for name in ("c", "a", "b"):
        (tmp_path / "more" / f"{name}.toml").write_text(f'root = "{name}"\n')
    (tmp_path / "more/a.toml").write_text('imports = ["nested.last", "../config.toml"]\n')
    (tmp_path / "more/nested.last").write_text("")
    root = tmp_path / "config.toml"
    root.write_text('imports = ["more/*.toml", "/nonexistent/*.toml"]\n')
    names = ["config.toml", "a.toml", "b.toml", "c.toml", "nested.last"]
    assert [Path(path).name for path in containerd.read_files(str(root))] == names
    # As it is to be.
    assert containerd.read_files(str(root), {str(root): "version = 2\n"}) == {str(root): "version = 2\n"}


OLD, NEW = 'plugins."io.containerd.grpc.v1.cri"', 'plugins."io.containerd.cri.v1.images"'


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", containerd.Registries()),
        (f'[{OLD}.registry]\nconfig_path = ""\n[{OLD}.registry.mirrors]\n', containerd.Registries()),
        (f'[{OLD}.registry]\nconfig_path = "/a:/b"\n', containerd.Registries(config_path="/a:/b")),
        (f'[{NEW}.registry]\nconfig_path = "/a"\n', containerd.Registries(config_path="/a")),
        (f'[{NEW}.registry.mirrors."a.b"]\nendpoint = ["c"]\n', containerd.Registries(inline="it")),
        (f'[{OLD}.registry.configs."a.b".tls]\nca_file = "c"\n', containerd.Registries(inline="it")),
        # A password is taken beside folders.
        (f'[{OLD}.registry.configs."a.b".auth]\nusername = "c"\n', containerd.Registries()),
    ],
)
def test_what_the_site_has_set_of_registries_is_known(text: str, found: containerd.Registries) -> None:
    assert containerd.read_registries(containerd.of_others("root", {"it": text})) == found
    assert (
        containerd.read_registries(containerd.of_others("root", {"it": f"# Written by gpusmith.\n{text}"}))
        == containerd.Registries()
    )


def test_a_merged_file_that_is_older_than_the_others_is_known() -> None:
    site = f'[{OLD}]\nsandbox_image = "a"\n'
    ours = f"# Written by gpusmith.\n[{OLD}]\nenable_cdi = true\n"
    merged = f'# Written by gpusmith.\n[{OLD}]\nsandbox_image = "a"\nenable_cdi = true\n'
    files = {"root": site, "50": ours, f"conf.d/{containerd.MERGED_NAME}": merged}

    def outdated(version: str = "1.7.24", **changed: str) -> bool:
        return containerd.merge_outdated("root", version, {**files, **changed})

    assert not outdated()
    assert outdated(root=site.replace('"a"', '"b"'))
    assert outdated(version="2.0.14")
    assert not containerd.merge_outdated("root", "2.0.14", {"root": site, "50": ours})
    assert containerd.merge_outdated("root", "1.7.24", {"root": site, "50": ours})
    # One file with settings is all that 1.x would read.
    assert not containerd.merge_outdated("root", "1.7.24", {"root": "version = 2\n", "50": ours})
    assert not containerd.merge_outdated("root", "1.7.24", {"root": site})


def test_the_order_of_the_files_that_were_read_is_no_difference() -> None:
    first = 'disabled_plugins = []\nimports = ["/b", "/a, c", "/a"]\noom_score = 0\n'
    assert containerd.digest(first) == containerd.digest(
        first.replace('"/b", "/a, c", "/a"', '"/a", "/b", "/a, c"')
    )
    assert containerd.digest(first) != containerd.digest(first.replace('"/b", ', ""))
    assert containerd.digest(first) != containerd.digest(first.replace("score = 0", "score = 1"))
    # 2.x lists them in the order of the files, and quotes otherwise.
    assert containerd.digest("imports = ['/b', '/a']\n") != containerd.digest("imports = ['/a', '/b']\n")
    assert containerd.digest(DUMP) == hashlib.sha256(DUMP.encode()).hexdigest()


def test_a_start_goes_by_the_environment_as_well(tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("file", "drop-in")]
    without = containerd.start_digest("dump", files)
    # A node that was started before there were such files is as it was.
    assert without == containerd.digest("dump")
    (tmp_path / "drop-in").write_text("[Service]\n")
    with_drop_in = containerd.start_digest("dump", files)
    (tmp_path / "file").write_text("HTTP_PROXY=http://p\n")
    assert len({without, with_drop_in, containerd.start_digest("dump", files)}) == 3


def test_of_the_sites_files_1_goes_by_the_last_one() -> None:
    first = f'[{OLD}.registry.mirrors."a.b"]\nendpoint = ["c"]\n'
    others = containerd.of_others(
        "root", {"root": first, "99": f'[{OLD}]\nsandbox_image = "a"\n', "x": "root = 1\n"}
    )
    assert set(containerd.in_force(others, "1.7.24")) == {"99"}
    assert containerd.in_force(others, "2.0.14") == others
