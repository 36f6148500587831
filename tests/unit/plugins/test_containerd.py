"""containerd's configuration: root file, drop-in, restart."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.gpusmith.gpu.plugins.filter import plan
from ansible_collections.gpusmith.gpu.plugins.module_utils import containerd, containerd_files
from ansible_collections.gpusmith.gpu.plugins.modules import containerd_config

from gpusmith.checks import runtime
from gpusmith.node.facts import NodeFacts
from gpusmith.node.records import parse
from gpusmith.paths import repo_root
from tests.unit.hosts import make_host
from tests.unit.records import healthy_record

DOCKER_DEFAULT = '#   Copyright\n\ndisabled_plugins = ["cri"]\n\n#root = "/var/lib/containerd"\n'
ROLE = "50-gpusmith"
CONFIG = "gpusmith.gpu.containerd_config"
RUNTIME = {
    "containerd": {
        "runtimes": {"runc": {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}}}
    }
}
IMAGES = {
    "pinned_images": {"sandbox": "depot/pause:3.10"},
    "registry": {"config_path": "/etc/containerd/certs.d"},
}


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        DOCKER_DEFAULT,
        'disabled_plugins = ["cri"]  # set by provisioning\n',
        'version = 2  # of Docker\ndisabled_plugins = [\n  "cri", # off\n]\n',
    ],
)
@pytest.mark.parametrize(("release", "schema"), [("2.3.7", 4), ("2.2.1", 3), ("1.7.28", 2)])
def test_missing_or_default_root_file_is_replaced(text: str | None, release: str, schema: int) -> None:
    written, stated = containerd.root_file(text, release)
    assert stated == schema
    assert tomllib.loads(written) == {"version": schema, "imports": [containerd.IMPORTS]}


def test_an_older_containerd_gets_a_root_file_of_ours_that_it_reads() -> None:
    newer, _ = containerd.root_file(None, "2.3.7")
    assert containerd.root_file(newer, "2.0.14") == containerd.root_file(None, "2.0.14")
    # A newer containerd reads the older one.
    older, _ = containerd.root_file(None, "1.7.24")
    assert containerd.root_file(older, "2.3.7") == (older, 2)


def test_the_other_drop_in_of_ours_does_not_stand_in_the_way_of_an_older_containerd() -> None:
    newer = containerd.drop_in(4, ROLE, RUNTIME, IMAGES)
    for schema in (2, 3, 4):
        assert containerd.in_schema(schema, ROLE, newer) == containerd.drop_in(schema, ROLE, RUNTIME, IMAGES)
    older = containerd.drop_in(2, ROLE, RUNTIME, IMAGES)
    assert containerd.in_schema(4, ROLE, older) == older


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
    "own",
    [
        'version = 2\n#imports = ["/etc/containerd/conf.d/*.toml"]\n[debug]\nlevel = "info"\n',
        'version = 2\nimports = ["/etc/other/*.toml", ]\n',
        'version = 2\nimports = [\n  "/etc/other/*.toml", # of the site\n]\n',
        'version = 2\nimports = [\n  "/etc/other/*.toml" # of the site\n]\n',
        "version = 2 # the one of 1.x\nimports = [] # none\n",
        "version = 2",
    ],
)
def test_comments_hide_no_import(own: str) -> None:
    before, after = tomllib.loads(own), tomllib.loads(containerd.with_import(own))
    assert after == {**before, "imports": [*before.get("imports", []), containerd.IMPORTS]}
    assert containerd.with_import(containerd.with_import(own)) == containerd.with_import(own)


def test_a_root_file_that_hides_its_imports_is_refused() -> None:
    # Somebody has to say where the list ends.
    with pytest.raises(containerd.ConfigError, match="by hand"):
        containerd.with_import('version = 2\nimports = ["/etc/with]/*.toml"]\n')


@pytest.mark.parametrize(
    "own",
    [
        None,
        DOCKER_DEFAULT,
        'version = 3\nroot = "/data"\n',
        'version = 2\nimports = [\n  "/etc/other/*.toml", # of the site\n]\n',
        'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n',
    ],
)
def test_the_root_file_goes_back_to_what_it_was(own: str | None) -> None:
    written, _ = containerd.root_file(own, "2.3.7")
    kept = None if written == own else own
    assert containerd.restored(written, kept) == own
    assert containerd.restored(own, kept) == own


@pytest.mark.parametrize(
    "own", ['version = 3\n[debug]\nlevel = "info"\n', 'version = 3\nimports = ["/etc/other/*.toml"]\n']
)
def test_what_somebody_changed_since_stays_changed(own: str) -> None:
    now = containerd.with_import(own) + "[timeouts]\n"
    assert containerd.restored(now, own) == own + "[timeouts]\n"
    # What somebody added to our minimal file is theirs.
    ours = containerd.root_file(None, "2.3.7")[0] + "[timeouts]\n"
    assert containerd.restored(ours, None) == ours
    imported = containerd.root_file(None, "2.3.7")[0].replace('"]', '", "/etc/site/*.toml"]')
    assert containerd.restored(imported, None) == imported
    with pytest.raises(containerd.ConfigError, match="'version' 4"):
        containerd.root_file(imported, "2.0.14")


def test_with_the_last_drop_in_the_root_file_is_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, kept = tmp_path / "config.toml", tmp_path / "config.toml.before-gpusmith"
    monkeypatch.setattr(containerd_files, "ROOT", root)
    monkeypatch.setattr(containerd_files, "KEPT", kept)
    monkeypatch.setattr(containerd_files, "MERGED", tmp_path / "conf.d/merged.toml")
    own = 'version = 3\nroot = "/data"\n'
    kept.write_text(own)
    root.write_text(containerd.with_import(own))
    first, last = (tmp_path / "conf.d" / name for name in ("50-gpusmith.toml", "60-gpusmith-nvidia.toml"))
    first.parent.mkdir()
    (first.parent / "99-site.toml").write_text("version = 3\n")
    for path in (first, last):
        path.write_text(containerd.drop_in(3, path.stem, {}, {}))
    assert containerd_files.without(last) == {last: None}
    last.unlink()
    assert containerd_files.without(first) == {
        first: None,
        root: own,
        kept: None,
        tmp_path / "conf.d/merged.toml": None,
    }


@pytest.mark.parametrize(
    ("own", "named"),
    [
        ('root = "/data"\n', "version"),
        ("version = 2\n[debug\n", "'/etc/containerd/config.toml' is no TOML: .* line 2"),
        ("version = 5\n[debug]\n", "'version' 5, and containerd 2.3.7 reads 4 and older"),
        ('version = 3\ndisabled_plugins = [\n  "io.containerd.cri.v1.images",\n]\n', "disabled_plugins"),
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


def test_a_registry_that_leaves_the_list_leaves_the_node_and_those_of_others_stay(tmp_path: Path) -> None:
    texts = {
        "kept": containerd.hosts_toml("http://kept"),
        "left": containerd.hosts_toml("http://left"),
        "theirs": 'server = "https://theirs"\n',
    }
    for host, text in texts.items():
        (tmp_path / host).mkdir()
        (tmp_path / host / "hosts.toml").write_text(text)
    (tmp_path / "left" / "ca.crt").write_text("of somebody else")
    rows = [{"host": "kept", "endpoint": "http://kept"}, {"host": "new", "endpoint": "http://new"}]
    files = containerd_files.registries(rows, "present", tmp_path)
    for path, content in files.items():
        if path.parent.name != "kept":
            containerd_config.Configuration.put(path, content)
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")) == [
        "kept/hosts.toml", "left/ca.crt", "new/hosts.toml", "theirs/hosts.toml",
    ]  # fmt: skip
    assert (tmp_path / "new" / "hosts.toml").read_text() == containerd.hosts_toml("http://new")
    assert set(containerd_files.registries([], "absent", tmp_path).values()) == {None}
    with pytest.raises(containerd.ConfigError, match=r"theirs/hosts.toml' is not of gpusmith"):
        containerd_files.registries([{"host": "theirs", "endpoint": "http://a"}], "present", tmp_path)
    # Who has nothing to say about registries, as role nvidia_container_toolkit, leaves them alone.
    assert containerd_files.registries(None, "present", tmp_path) == {}


def test_the_folder_of_a_registry_goes_with_its_last_file(tmp_path: Path) -> None:
    path = tmp_path / "left" / "hosts.toml"
    containerd_config.Configuration.put(path, containerd.hosts_toml("http://left"))
    containerd_config.Configuration.put(path, None)
    assert list(tmp_path.iterdir()) == []


# --- containerd 1.x ------------------------------------------------------------------------------------------------------

SITE = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "site/pause:1"
[plugins."io.containerd.grpc.v1.cri".registry.configs."registry.site".auth]
password = "a\\nb \\"c\\""
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.kata]
runtime_type = "io.containerd.kata.v2"
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, str | None]]:
    """What the module would have the files be, by their names."""
    folder = tmp_path / "containerd"
    (folder / "conf.d").mkdir(parents=True)
    for name, place in {
        "FOLDER": "", "ROOT": "config.toml", "KEPT": "kept", "MERGED": "conf.d/zz-gpusmith-merged.toml"
    }.items():  # fmt: skip
        monkeypatch.setattr(containerd_files, name, folder / place)
    monkeypatch.setattr(containerd, "IMPORTS", f"{folder}/conf.d/*.toml")

    def run(
        name: str, runtime: dict[str, Any], version: str = "1.7.24", write: bool = True, **options: Any
    ) -> dict[str, str | None]:
        params = {
            "name": name,
            "runtime": runtime,
            "images": {},
            "registries": None,
            "state": "present",
            **options,
        }
        files = containerd_files.wanted(params, folder / "conf.d" / f"{name}.toml", version)
        for path, text in files.items() if write else ():
            containerd_config.Configuration.put(path, text)
        return {path.name: text for path, text in files.items()}

    return run


def plugin(text: str | None) -> dict[str, Any]:
    """Settings of the CRI plugin."""
    return dict(tomllib.loads(text or "")["plugins"]["io.containerd.grpc.v1.cri"])


def test_of_containerd_1_one_file_has_all_settings(
    asked: Callable[..., dict[str, str | None]], tmp_path: Path
) -> None:
    root, name = tmp_path / "containerd/config.toml", "zz-gpusmith-merged.toml"
    root.write_text(SITE)
    # Also before anything is written, as in check mode.
    assert plugin(asked(ROLE, RUNTIME, write=False)[name])["sandbox_image"] == "site/pause:1"
    asked(ROLE, RUNTIME)
    merged = asked("60-gpusmith-nvidia", NVIDIA)[name]
    assert plugin(merged) == {
        **plugin(SITE),
        "containerd": {
            "runtimes": {
                **plugin(SITE)["containerd"]["runtimes"],
                **RUNTIME["containerd"]["runtimes"],
                **NVIDIA["containerd"]["runtimes"],
            }
        },
    }
    assert asked("60-gpusmith-nvidia", NVIDIA)[name] == merged
    # What changes in another file arrives.
    root.write_text(root.read_text().replace("pause:1", "pause:2"))
    assert plugin(asked("60-gpusmith-nvidia", NVIDIA)[name])["sandbox_image"] == "site/pause:2"
    # Each removal takes its part, the last one all, and newer releases need none.
    left = plugin(asked("60-gpusmith-nvidia", {}, state="absent")[name])
    assert set(left["containerd"]["runtimes"]) == {"kata", "runc"}
    assert asked(ROLE, RUNTIME, version="2.0.14", write=False)[name] is None
    assert asked(ROLE, {}, state="absent")[name] is None
    assert not list((tmp_path / "containerd/conf.d").iterdir())


def test_one_file_with_settings_needs_no_other(asked: Callable[..., dict[str, str | None]]) -> None:
    assert asked(ROLE, RUNTIME)["zz-gpusmith-merged.toml"] is None
    assert asked("60-gpusmith-nvidia", NVIDIA)["zz-gpusmith-merged.toml"] is not None


def test_what_may_have_passwords_is_made_private_and_shows_up_in_no_diff(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, kept, merged = (tmp_path / name for name in ("config.toml", "kept", "merged"))
    for name, path in (("ROOT", root), ("KEPT", kept), ("MERGED", merged), ("PRIVATE", (kept, merged))):
        monkeypatch.setattr(containerd_files, name, path)
    kept.write_text("secret")
    kept.chmod(0o600)
    root.write_text("secret")
    root.chmod(0o640)
    work = containerd_config.Configuration(Module("present", check=False))
    for path in (root, merged, kept):
        work.write(path, "secret too", containerd_files.mode_to_make(path))
    assert "secret" not in repr(work.diff)
    assert [path.stat().st_mode & 0o777 for path in (root, merged, kept)] == [0o640, 0o600, 0o600]
    # A root file comes back as it was kept, also over one that everybody may read.
    root.write_text("ours")
    root.chmod(0o644)
    work.write(root, "secret too", containerd_files.mode_to_make(root))
    assert root.stat().st_mode & 0o777 == 0o600
    assert "secret" not in repr(work.diff)


def test_every_text_is_toml() -> None:
    tree = {"plugins": {"a": {"b\x7f": 'c\x7f"\n'}}}
    assert tomllib.loads(containerd.to_toml(tree)) == tree


def test_a_file_that_would_hide_all_of_ours_is_refused(
    asked: Callable[..., dict[str, str | None]], tmp_path: Path
) -> None:
    (tmp_path / "containerd/conf.d/zz-site.toml").write_text(SITE)
    with pytest.raises(containerd.ConfigError, match=r"zz-site.toml' sets the CRI plugin"):
        asked(ROLE, RUNTIME)
    assert asked(ROLE, RUNTIME, version="2.0.14")["zz-gpusmith-merged.toml"] is None


def test_the_judge_names_a_merged_file_that_is_outdated() -> None:
    record = healthy_record()
    record["containerd"]["merge_outdated"] = True
    (problem,) = runtime.containerd(NodeFacts(make_host(), parse(record), None, {}))
    assert (
        "'zz-gpusmith-merged.toml' of containerd's configuration has not what the other files say"
        in problem.cause
    )


# --- registries of the site -----------------------------------------------------------------------------------------------


def test_folders_of_the_site_are_asked_after_ours() -> None:
    theirs = "/etc/site:/etc/containerd/certs.d"
    beside = containerd.beside(IMAGES, theirs, None)
    assert beside["registry"]["config_path"] == "/etc/containerd/certs.d:/etc/site"
    assert beside["pinned_images"] == IMAGES["pinned_images"]
    assert containerd.beside(IMAGES, None, None) == IMAGES
    assert containerd.beside({}, theirs, "file") == {}


def test_beside_mirrors_in_the_configuration_there_are_no_folders() -> None:
    assert containerd.beside(IMAGES, None, "file") == {"pinned_images": IMAGES["pinned_images"]}


def test_listed_registries_are_refused_beside_mirrors_in_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containerd_files, "ROOT", tmp_path / "config.toml")
    root = 'version = 2\n[plugins."io.containerd.grpc.v1.cri".registry.mirrors.a]\nendpoint = ["b"]\n'
    assert "registry" not in containerd_files.beside_the_site(IMAGES, [], root, "2.3.7")
    with pytest.raises(containerd.ConfigError, match="'containerd_registries'"):
        containerd_files.beside_the_site(IMAGES, [{"host": "a", "endpoint": "b"}], root, "2.3.7")


def test_the_judge_wants_the_drop_in_that_the_module_writes() -> None:
    record = {"containerd": {"root_schema": 3, "registries": {"config_path": "/etc/site", "inline": None}}}
    (text,) = plan.drop_in(record, ROLE, RUNTIME, IMAGES).values()
    assert text == containerd.drop_in(3, ROLE, RUNTIME, containerd.beside(IMAGES, "/etc/site", None))


def test_a_drop_in_names_the_role_that_writes_it() -> None:
    """Whoever finds it on a node finds its owner, too."""
    writes = {
        task[CONFIG]["name"]: path.parts[-3]
        for path in (repo_root() / "roles").glob("*/tasks/configure.yml")
        for task in yaml.safe_load(path.read_text())
        if CONFIG in task
    }
    assert writes == containerd.ROLES
    for name, role in writes.items():
        assert containerd.drop_in(3, name, RUNTIME, {}).startswith(
            f"# Written by gpusmith (role {role}); changes"
        )


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
    monkeypatch.setattr(containerd_files, "ROOT", root)
    dump = containerd.to_toml(effective(*OURS.values(), CDI_OFF, GROUPS_OFF, CDI_OFF))
    assert containerd_files.overrides(dump) == [
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
        containerd_config.without_containerd(module, {path: None})
        assert module.ended["changed"] is changed
    assert path.exists() is check


def test_a_missing_containerd_is_named(tmp_path: Path) -> None:
    module = Module("present", False)
    assert containerd_config.version_of(module) is None
    containerd_config.without_containerd(module, {tmp_path / "50-gpusmith.toml": None})
    assert module.ended["failed"]
    assert "not installed" in module.ended["msg"]


# --- containerd runs, and its CRI plugin does not --------------------------------------------------------------------

NO_WATCHER = "failed to create CRI service: failed to create fsnotify watcher: too many open files"
UP = "Type:   io.containerd.grpc.v1\nID:   cri\n"
DOWN = f"{UP}Error:\n        Message:   {NO_WATCHER}\n"
DUMP = 'version = 4\n[plugins."io.containerd.cri.v1.runtime"]\nenable_cdi = true\n'


class EndedError(Exception):
    """The module has ended."""


class Running(Module):
    """A machine with containerd: what `ctr plugins` says before and after each restart."""

    def __init__(self, *states: str, check: bool = False) -> None:
        super().__init__("present", check)
        self.params["restart"] = True  # type: ignore[assignment]
        self.states, self.warnings, self.restarts = list(states), list[str](), 0

    def run_command(self, words: list[str], environ_update: Any = None) -> tuple[int, str, str]:
        if words[:2] == ["systemctl", "restart"]:
            self.restarts += 1
            self.states.pop(0)
        if words[:2] == ["systemctl", "show"]:
            return (
                0,
                "Id=containerd.service\nActiveState=active\nActiveEnterTimestamp=Sat 2026-11-21 10:11:57 UTC\n",
                "",
            )
        return 0, self.states[0] if words[:2] == ["ctr", "plugins"] else "", ""

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def exit_json(self, **result: Any) -> None:
        super().exit_json(**result)
        raise EndedError

    def fail_json(self, **result: Any) -> None:
        super().fail_json(**result)
        raise EndedError


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Running]:
    """Run the end of the module."""
    for name in ("NOTE", "INSTANCES"):
        monkeypatch.setattr(containerd_config, name, tmp_path / name)
    monkeypatch.setattr(containerd_files, "ROOT", tmp_path / "ROOT")
    monkeypatch.setattr(containerd_files, "FOLDER", tmp_path)
    monkeypatch.setattr(containerd_files, "MERGED", tmp_path / "conf.d" / "zz-gpusmith-merged.toml")
    (tmp_path / "INSTANCES").write_text("128\n")
    (tmp_path / "NOTE").write_text(hashlib.sha256(DUMP.encode()).hexdigest())

    def run(
        *states: str, drop_in: str = "", gone: str = "", check: bool = False, dump: str = DUMP
    ) -> Running:
        module = Running(*states, check=check)
        work = containerd_config.Configuration(module)
        if gone:
            (tmp_path / gone).parent.mkdir(exist_ok=True)
            (tmp_path / gone).write_text("version = 2\n")
            work.write(tmp_path / gone, None)
        if drop_in:
            work.write(tmp_path / "conf.d" / "50-gpusmith.toml", drop_in)
        with pytest.raises(EndedError):
            containerd_config.finish(work, dump)
        return module

    return run


def test_a_plugin_that_is_up_costs_no_restart(machine: Callable[..., Running]) -> None:
    module = machine(UP)
    assert (module.ended["changed"], module.ended["cri_error"], module.restarts) == (False, "", 0)


def test_a_dead_plugin_is_named_and_costs_one_restart(machine: Callable[..., Running]) -> None:
    # The configuration is the one that containerd was started with: nothing else would ever repair it.
    module = machine(DOWN, UP)
    assert (module.ended["changed"], module.ended["restarted"], module.restarts) == (True, True, 1)
    assert NO_WATCHER in module.warnings[0]
    assert NO_WATCHER in module.ended["cri_error"]


def test_a_plugin_that_stays_dead_fails_in_its_own_words(machine: Callable[..., Running]) -> None:
    module = machine(DOWN, DOWN)
    assert (module.ended["failed"], module.restarts) == (True, 1)
    assert NO_WATCHER in module.ended["msg"]
    assert "'fs.inotify.max_user_instances' is '128'" in module.ended["msg"]


def test_a_change_that_kills_the_plugin_is_taken_back(
    machine: Callable[..., Running], tmp_path: Path
) -> None:
    module = machine(UP, DOWN, UP, drop_in="version = 4\n", dump=DUMP.replace("true", "false"))
    assert module.ended["failed"]
    assert "it runs with it" in module.ended["msg"]
    assert NO_WATCHER in module.ended["msg"]
    assert list((tmp_path / "conf.d").iterdir()) == []


def test_what_is_gone_is_no_part_of_the_running_configuration(
    machine: Callable[..., Running], tmp_path: Path
) -> None:
    # Who was started since it was noted, as by the scripts of its package, may have read the file.
    (tmp_path / "NOTE").unlink()
    assert machine(UP, UP).restarts == 0
    (tmp_path / "NOTE").unlink()
    assert machine(UP, UP, gone="conf.d/zz-gpusmith-merged.toml").restarts == 1
    (tmp_path / "NOTE").unlink()
    # containerd reads these at each pull.
    assert machine(UP, UP, gone="certs.d/hosts.toml").restarts == 0


def test_check_mode_says_that_it_would_restart(machine: Callable[..., Running]) -> None:
    module = machine(DOWN, check=True)
    assert (module.ended["changed"], module.restarts) == (True, 0)


def test_the_configuration_without_a_root_file_is_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(containerd_files, "ROOT", tmp_path / "config.toml")

    class Old(Running):
        def run_command(self, words: list[str], environ_update: Any = None) -> tuple[int, str, str]:
            return (0, DUMP, "") if words[-1] == "default" else (1, "", "no such file or directory")

    assert containerd_config.Configuration(Old()).dump() == (DUMP, "")
    (tmp_path / "config.toml").touch()
    assert containerd_config.Configuration(Old()).dump() == (None, "no such file or directory")


def test_a_plugin_that_is_turned_off_is_not_asked_for(
    machine: Callable[..., Running], tmp_path: Path
) -> None:
    # A removal brings the package's root file back, which turns it off.
    removal = machine("", "", dump=f'disabled_plugins = ["cri"]\n{DUMP}')
    assert (removal.ended.get("msg"), removal.restarts) == (None, 1)
    off = f'disabled_plugins = ["cri"]\n{DUMP}'
    (tmp_path / "NOTE").write_text(hashlib.sha256(off.encode()).hexdigest())
    assert machine("", dump=off).restarts == 0


class Failed(Exception):  # noqa: N818 - as Ansible calls it
    """As `fail_json` ends a module."""


class Machine:
    """A module on a machine whose containerd answers so."""

    def __init__(self, path: str | None, answer: tuple[int, str, str], state: str) -> None:
        self._path, self._answer, self.params = path, answer, {"state": state}

    def get_bin_path(self, _name: str) -> str | None:
        """Where it is."""
        return self._path

    def run_command(self, _words: list[str]) -> tuple[int, str, str]:
        """What it says."""
        return self._answer

    def fail_json(self, msg: str) -> None:
        """End."""
        raise Failed(msg)


@pytest.mark.parametrize("state", ["present", "absent"])
def test_a_containerd_that_says_no_version_is_not_called_missing(state: str) -> None:
    says = (0, "containerd containerd.io v2.3.7 abcdef", "")
    assert containerd_config.version_of(Machine("/usr/bin/containerd", says, state)) == "2.3.7"
    assert containerd_config.version_of(Machine(None, says, state)) is None
    broken = Machine("/usr/bin/containerd", (127, "", "libseccomp.so.2: cannot open"), state)
    if state == "absent":
        assert containerd_config.version_of(broken) is None
        return
    with pytest.raises(Failed, match="cannot be run: libseccomp"):
        containerd_config.version_of(broken)
