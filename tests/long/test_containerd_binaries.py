"""Module containerd_config over real containerds: what a site has set survives, ours holds, and a removal leaves what was there.

Needs root, and no lab. No GPU is there and no container is started: what is asked is what each binary makes of its files, and
whether it comes up with them, its CRI plugin as well.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from gpusmith.probe import cri
from tests.long import record
from tests.long.containerd_machines import Binary, Machine, binary, machine

ROOT = "/etc/containerd/config.toml"
# By the newest schema that they read.
RELEASES = {2: "1.7", 3: "2.0", 4: "2.3"}
ROLE, TOOLKIT = "50-gpusmith", "60-gpusmith-nvidia"
Settings = dict[str, Any]
# As roles containerd and nvidia_container_toolkit give them.
RUNC = {"runtime_type": "io.containerd.runc.v2", "options": {"SystemdCgroup": True}}
RUNTIME = {"containerd": {"runtimes": {"runc": RUNC}}, "enable_cdi": True}
IMAGES = {"registry": {"config_path": "/etc/containerd/certs.d"}}
PROGRAM = "/usr/bin/nvidia-container-runtime"
NVIDIA = {**RUNC, "options": {**RUNC["options"], "BinaryName": PROGRAM}}  # type: ignore[dict-item]
TOOLKIT_RUNTIME = {"enable_cdi": True, "containerd": {"runtimes": {"nvidia": NVIDIA}}}
CRI2 = 'plugins."io.containerd.grpc.v1.cri"'
RUNTIME3, IMAGES3 = 'plugins."io.containerd.cri.v1.runtime"', 'plugins."io.containerd.cri.v1.images"'


@dataclass(frozen=True)
class Shape:
    """A configuration that people have.

    Attributes:
        files: contents by path; None for what `containerd config default` writes.
        since: the oldest schema that a binary must know.
        kept: what of it must be the same afterwards.
        refused: why it is refused, before anything is changed.
        registries: what the inventory lists.
    """

    files: Mapping[str, str | None]
    since: int = 2
    kept: Mapping[str, Any] = field(default_factory=dict)
    refused: str = ""
    registries: tuple[Mapping[str, str], ...] = ()


KATA = "io.containerd.kata.v2"
TEMPLATED = f"""# Managed by the site's own tool.
version = 2
root = "/var/lib/containerd"

[grpc]
  max_recv_message_size = 16777216

[{CRI2}]
  sandbox_image = "registry.site/pause:3.9"
  max_concurrent_downloads = 7
  [{CRI2}.containerd]
    snapshotter = "native"
    [{CRI2}.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [{CRI2}.containerd.runtimes.runc.options]
        SystemdCgroup = true
    [{CRI2}.containerd.runtimes.kata]
      runtime_type = "{KATA}"
"""
OF_TEMPLATED = {"sandbox": "registry.site/pause:3.9", "downloads": 7, "snapshotter": "native", "kata": KATA}
SITE_HOSTS = {"/etc/containerd/site.d/registry.site/hosts.toml": 'server = "https://mirror.site"\n'}
SITE_PATH = f'{TEMPLATED}  [{CRI2}.registry]\n    config_path = "/etc/containerd/site.d"\n'
MIRRORS = {"registry.site": {"endpoint": ["https://mirror.site"]}}
INLINE = f"""{TEMPLATED}  [{CRI2}.registry.mirrors."registry.site"]
    endpoint = ["https://mirror.site"]
"""
THREE = f"""version = 3
[{IMAGES3}]
  max_concurrent_downloads = 7
  snapshotter = "native"
[{IMAGES3}.pinned_images]
  sandbox = "registry.site/pause:3.9"
[{RUNTIME3}.containerd.runtimes.kata]
  runtime_type = "{KATA}"
"""
DOCKER = """#   Copyright 2018-2022 Docker Inc.

disabled_plugins = ["cri"]

#root = "/var/lib/containerd"
#state = "/run/containerd"

#[grpc]
#  address = "/run/containerd/containerd.sock"
"""
DEBIAN = f"""version = 2

[plugins]
  [{CRI2}]
    [{CRI2}.cni]
      bin_dir = "/usr/lib/cni"
      conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.internal.v1.opt"]
    path = "/var/lib/containerd/opt"
"""
IMPORTING = """version = 2
imports = [
  "/etc/containerd/site.d/*.toml", # of the site
]
"""
PROXY = 'version = 2\n[proxy_plugins.site]\ntype = "snapshot"\naddress = "/run/site.sock"\n'
OFF = ["io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.btrfs"]
LISTED = ({"host": "registry.gpusmith.invalid", "endpoint": "https://mirror.gpusmith.invalid"},)

SHAPES = {
    "no file": Shape({}),
    "default": Shape({ROOT: None}, kept={"sandbox": ..., "downloads": ..., "snapshotter": ...}),
    "Docker's package": Shape({ROOT: DOCKER}),
    "Debian's package": Shape({ROOT: DEBIAN}, kept={"cni": "/usr/lib/cni", "opt": "/var/lib/containerd/opt"}),
    "templated": Shape({ROOT: TEMPLATED}, kept=OF_TEMPLATED),
    "mirrors by folder": Shape(
        {ROOT: SITE_PATH, **SITE_HOSTS}, kept={**OF_TEMPLATED, "folder": "/etc/containerd/site.d"}
    ),
    "mirrors by folder, and ours": Shape(
        {ROOT: SITE_PATH, **SITE_HOSTS},
        kept={**OF_TEMPLATED, "folder": "/etc/containerd/site.d"},
        registries=LISTED,
    ),
    "mirrors inline": Shape({ROOT: INLINE}, kept={**OF_TEMPLATED, "mirrors": MIRRORS}),
    "mirrors inline, and ours": Shape({ROOT: INLINE}, registries=LISTED, refused="registry.mirrors"),
    "schema 3": Shape({ROOT: THREE}, since=3, kept=OF_TEMPLATED),
    "schema 4": Shape(
        {
            ROOT: THREE.replace("version = 3", "version = 4")
            + "[plugins.'io.containerd.server.v1.grpc']\n  max_recv_message_size = 33554432\n"
        },
        since=4,
        kept={**OF_TEMPLATED, "message": 33554432},
    ),
    "imports": Shape(
        {
            ROOT: IMPORTING,
            "/etc/containerd/site.d/a.toml": TEMPLATED.replace(
                "version = 2", 'version = 2\nimports = ["more/*"]'
            ),
            "/etc/containerd/site.d/more/b.toml": PROXY,
        },
        kept={**OF_TEMPLATED, "proxy": {"site": {"type": "snapshot", "address": "/run/site.sock"}}},
    ),
    "import in a comment": Shape(
        {ROOT: TEMPLATED.replace("version = 2", 'version = 2\n#imports = ["/etc/containerd/conf.d/*.toml"]')},
        kept=OF_TEMPLATED,
    ),
    "drop-in of others": Shape(
        {
            ROOT: 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n',
            "/etc/containerd/conf.d/10-site.toml": TEMPLATED,
        },
        kept=OF_TEMPLATED,
    ),
    "drop-in of others behind ours": Shape(
        {
            ROOT: 'version = 2\nimports = ["/etc/containerd/conf.d/*.toml"]\n',
            "/etc/containerd/conf.d/99-site.toml": TEMPLATED,
        },
        kept=OF_TEMPLATED,
    ),
    "other plugins off": Shape(
        {ROOT: TEMPLATED.replace("root =", f"disabled_plugins = {OFF}\nroot =")},
        kept={**OF_TEMPLATED, "disabled": sorted(OFF)},
    ),
    "CRI off": Shape(
        {
            ROOT: TEMPLATED.replace(
                "root =", 'disabled_plugins = [\n  "io.containerd.grpc.v1.cri",\n]\nroot ='
            )
        },
        refused="turns the CRI plugin off",
    ),
    "no version": Shape({ROOT: TEMPLATED.replace("version = 2", "")}, refused="states no 'version'"),
    "broken": Shape({ROOT: TEMPLATED + "[plugins\n"}, refused="is no TOML"),
    "too new": Shape({ROOT: "version = 5\n[debug]\n  level = 'info'\n"}, refused="'version' 5"),
}


def find(tree: Mapping[str, Any], *keys: str) -> Any:
    """A setting of a plugin by its name in any schema."""
    for name in ("io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"):
        found: Any = tree.get("plugins", {}).get(name)
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        if found is not None:
            return found
    return None


def settings(tree: Mapping[str, Any]) -> Settings:
    """What matters here of an effective configuration."""
    plugins = tree["plugins"]
    bins = find(tree, "cni", "bin_dirs") or find(tree, "cni", "bin_dir")
    return {
        "sandbox": find(tree, "pinned_images", "sandbox") or find(tree, "sandbox_image"),
        "downloads": find(tree, "max_concurrent_downloads"),
        "snapshotter": plugins.get("io.containerd.cri.v1.images", {}).get("snapshotter")
        or find(tree, "containerd", "snapshotter"),
        "kata": find(tree, "containerd", "runtimes", "kata", "runtime_type"),
        "mirrors": {
            host: {"endpoint": row["endpoint"]}
            for host, row in (find(tree, "registry", "mirrors") or {}).items()
        },
        "folder": find(tree, "registry", "config_path"),
        "cni": bins[0] if isinstance(bins, list) else bins,
        "opt": plugins.get("io.containerd.internal.v1.opt", {}).get("path"),
        "message": plugins.get("io.containerd.server.v1.grpc", {}).get("max_recv_message_size"),
        "proxy": {
            name: {key: row[key] for key in ("type", "address")}
            for name, row in (tree.get("proxy_plugins") or {}).items()
        },
        "disabled": sorted(tree.get("disabled_plugins") or []),
        "groups": find(tree, "containerd", "runtimes", "runc", "options", "SystemdCgroup"),
        "nvidia": find(tree, "containerd", "runtimes", "nvidia", "options"),
        "cdi": find(tree, "enable_cdi"),
    }


# --- machines ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def binaries(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Binary]:
    if os.geteuid() != 0:
        pytest.skip("namespaces with mounts of their own need root")
    return {schema: binary(schema, tmp_path_factory.mktemp("binary")) for schema in RELEASES}


@pytest.fixture
def containerd(
    binaries: dict[int, Binary],
    request: pytest.FixtureRequest,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Iterator[Machine]:
    """A machine by the newest schema that its containerd reads."""
    with machine(binaries[request.param], tmp_path) as made:
        record_property(record.ROW, f"containerd {RELEASES[request.param]}")
        record_property("release", made.run("containerd", "--version").stdout.split()[2].lstrip("v"))
        yield made


def site(on: Machine, shape: Shape) -> None:
    """A machine as its people left it."""
    default = on.run("containerd", "config", "default").stdout
    on.put({path: default if text is None else text for path, text in shape.files.items()})


def apply(on: Machine, shape: Shape, **options: Any) -> dict[str, Any]:
    """What role containerd does."""
    return on.module(ROLE, runtime=RUNTIME, images=IMAGES, registries=list(shape.registries), **options)


def configure(on: Machine, shape: Shape) -> list[dict[str, Any]]:
    """What the two roles do."""
    return [apply(on, shape), on.module(TOOLKIT, runtime=TOOLKIT_RUNTIME)]


def remove(on: Machine) -> list[dict[str, Any]]:
    """What the two roles do when they are taken from a machine."""
    return [
        on.module(TOOLKIT, state="absent", restart=True),
        on.module(ROLE, state="absent", registries=[]),
    ]


def cri_of(on: Machine) -> cri.Cri:
    """The CRI plugin of the containerd that runs."""
    return cri.read_plugins(on.run(*cri.LIST).stdout)


def effective(on: Machine, shape: Shape, before: Settings) -> None:
    """Ours holds, and so does what the site has set."""
    now = settings(on.dump())
    assert now["nvidia"]["BinaryName"] == PROGRAM
    assert (now["cdi"], now["groups"], now["nvidia"]["SystemdCgroup"]) == (True, True, True)
    folders = now["folder"].split(":") if now["folder"] else []
    assert shape.kept.get("mirrors") or "/etc/containerd/certs.d" in folders
    for name, value in shape.kept.items():
        if name == "folder":
            assert value in folders
        else:
            assert now[name] == (before[name] if value is ... else value), name


def cases(refused: bool) -> list[Any]:
    """Each containerd with each shape that it knows the schema of."""
    return [
        pytest.param(schema, shape, id=f"{release}-{name}")
        for schema, release in RELEASES.items()
        for name, shape in SHAPES.items()
        if bool(shape.refused) is refused and shape.since <= schema
    ]


# --- tests ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("containerd", "shape"), cases(refused=False), indirect=["containerd"])
def test_what_the_site_has_set_survives(containerd: Machine, shape: Shape) -> None:
    site(containerd, shape)
    assert containerd.restart()
    before, files = settings(containerd.dump()), containerd.files()
    first = configure(containerd, shape)
    assert [(row.get("msg"), row["changed"]) for row in first] == [(None, True), (None, True)]
    effective(containerd, shape, before)
    assert cri_of(containerd) == cri.Cri(up=True)
    # Nothing is left to do.
    after, starts = containerd.files(), containerd.starts()
    again = configure(containerd, shape)
    assert [(row.get("msg"), row["changed"], row["restarted"]) for row in again] == [(None, False, False)] * 2
    assert (containerd.files(), containerd.starts()) == (after, starts)
    # Whoever could not read the site's passwords cannot now.
    assert {mode for name, (mode, _) in after.items() if "merged" in name or "before" in name} <= {
        "-rw-------",
        "-rw-r-----",
    }
    # Nothing of ours stays.
    assert [row.get("msg") for row in remove(containerd)] == [None, None]
    assert containerd.files() == files
    assert settings(containerd.dump()) == before
    assert [row["changed"] for row in remove(containerd)] == [False, False]


@pytest.mark.parametrize(("containerd", "shape"), cases(refused=True), indirect=["containerd"])
def test_what_cannot_be_completed_is_refused_and_left_alone(containerd: Machine, shape: Shape) -> None:
    site(containerd, shape)
    containerd.restart()
    before, starts = containerd.files(), containerd.starts()
    for check in (True, False):
        answer = apply(containerd, shape, check=check)
        assert answer.get("failed"), answer
        assert shape.refused in answer["msg"]
        assert ROOT in answer["msg"]
    assert (containerd.files(), containerd.starts()) == (before, starts)


EVERY = pytest.mark.parametrize("containerd", RELEASES, ids=RELEASES.values(), indirect=True)
MISSING = {"containerd": {"default_runtime_name": "missing"}}
# With it containerd does not run on without its CRI plugin.
REQUIRED = 'required_plugins = ["io.containerd.grpc.v1.cri"]\n'


@EVERY
@pytest.mark.parametrize("required", [False, True], ids=["its CRI plugin", "containerd"])
def test_a_containerd_that_does_not_come_up_is_taken_back(containerd: Machine, required: bool) -> None:
    text = TEMPLATED.replace("root =", f"{REQUIRED}root =") if required else TEMPLATED
    containerd.put({ROOT: text})
    assert containerd.restart()
    before, files = containerd.dump(), containerd.files()
    answer = containerd.module(ROLE, runtime=MISSING)
    assert answer.get("failed"), answer
    assert "its old configuration was put back; it runs with it" in answer["msg"]
    assert '"missing"' in answer["msg"].replace("\\", "")
    assert ("its CRI plugin is down" in answer["msg"]) is not required
    assert (containerd.dump(), containerd.files()) == (before, files)
    assert cri_of(containerd) == cri.Cri(up=True)
    # Nothing of it is left in the way of what is right.
    assert [row.get("msg") for row in configure(containerd, Shape({}))] == [None, None]
    effective(containerd, Shape({}, kept=OF_TEMPLATED), {})


@EVERY
def test_a_containerd_that_was_broken_before_is_told_as_that(containerd: Machine) -> None:
    broken = f'{REQUIRED}[{CRI2}.containerd]\ndefault_runtime_name = "missing"\n'
    containerd.put({ROOT: f"version = 2\n{broken}"})
    assert not containerd.restart()
    files = containerd.files()
    answer = apply(containerd, Shape({}))
    assert answer.get("failed"), answer
    assert "it does not come up with that either" in answer["msg"]
    assert containerd.files() == files


@EVERY
def test_a_configuration_that_the_binary_does_not_take_never_reaches_it(containerd: Machine) -> None:
    containerd.put({ROOT: TEMPLATED})
    assert containerd.restart()
    files, starts = containerd.files(), containerd.starts()
    answer = containerd.module(ROLE, runtime={"enable_cdi": "often"})
    assert answer.get("failed"), answer
    assert "the files are back to what they were" in answer["msg"]
    assert (containerd.files(), containerd.starts()) == (files, starts)
    assert cri_of(containerd) == cri.Cri(up=True)


OUTDATED = (
    "import sys; from gpusmith.probe import containerd as it;"
    f" print(it.merge_outdated('{ROOT}', sys.argv[1], it.read_files('{ROOT}')))"
)


def is_outdated(on: Machine) -> bool:
    """What the probe says of the merged file."""
    release = on.run("containerd", "--version").stdout.split()[2].lstrip("v")
    return on.run(sys.executable, "-c", OUTDATED, release).stdout == "True\n"


@EVERY
def test_what_the_site_changes_later_arrives(containerd: Machine) -> None:
    containerd.put({ROOT: TEMPLATED})
    assert containerd.restart()
    configure(containerd, Shape({}))
    assert not is_outdated(containerd)
    containerd.put({ROOT: containerd.path(ROOT).read_text().replace("pause:3.9", "pause:3.10")})
    assert is_outdated(containerd) is (containerd.binary.schema == 2)
    assert apply(containerd, Shape({}))["restarted"]
    assert not is_outdated(containerd)
    effective(containerd, Shape({}, kept={**OF_TEMPLATED, "sandbox": "registry.site/pause:3.10"}), {})
    assert not apply(containerd, Shape({}))["changed"]


@pytest.mark.parametrize("containerd", [2], ids=["1.7"], indirect=True)
@pytest.mark.parametrize("newer", [3, 4], ids=["to 2.0", "to 2.3"])
def test_a_newer_containerd_needs_no_merged_file(
    containerd: Machine, binaries: dict[int, Binary], newer: int
) -> None:
    containerd.put({ROOT: TEMPLATED})
    assert containerd.restart()
    configure(containerd, Shape({}))
    merged = "conf.d/zz-gpusmith-merged.toml"
    assert merged in containerd.files()
    containerd.install(binaries[newer])
    assert is_outdated(containerd)
    assert [row.get("msg") for row in configure(containerd, Shape({}))] == [None, None]
    assert merged not in containerd.files()
    effective(containerd, Shape({}, kept=OF_TEMPLATED), {})
    assert cri_of(containerd) == cri.Cri(up=True)
    assert [row["changed"] for row in configure(containerd, Shape({}))] == [False, False]


@pytest.mark.parametrize("containerd", [4], ids=["2.3"], indirect=True)
@pytest.mark.parametrize("older", [2, 3], ids=["to 1.7", "to 2.0"])
def test_an_older_containerd_reads_what_was_written_for_a_newer_one(
    containerd: Machine, binaries: dict[int, Binary], older: int
) -> None:
    assert containerd.restart()
    configure(containerd, Shape({}))
    containerd.install(binaries[older])
    assert not containerd.restart()
    assert [row.get("msg") for row in configure(containerd, Shape({}))] == [None, None]
    effective(containerd, Shape({}), {})
    assert cri_of(containerd) == cri.Cri(up=True)
    assert [row["changed"] for row in configure(containerd, Shape({}))] == [False, False]
