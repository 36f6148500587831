"""Systems with real package managers, each test in one of its own, and signed repositories of small packages for them.

A system is a root file system of Debian that has the programs of both families: apt with dpkg, and dnf with rpm. A test has
a process of its own inside of it, over a layer in memory that vanishes with the process.
"""

from __future__ import annotations

import ctypes
import functools
import http.server
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import threading
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.apt import Apt
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.dnf import Dnf
from gpulab.artifacts import debian
from gpulab.artifacts.store import Store

from gpusmith.paths import cache_dir

PACKAGES = (
    "apt",
    "apt-utils",
    "createrepo-c",
    "dnf",
    "dnf-plugins-core",
    "gnupg",
    "python3",
    "rpm",
)
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
REPOSITORIES = Path("/repositories")
"""Where the repositories are inside of a system."""
NEW_MOUNTS = 0x00020000
OTHER = "other@gpusmith.invalid"


# --- what the repositories have ------------------------------------------------------------------------------------

OLD, NEW = "580.178.04", "595.71.05"
LONG = "kmod-a-name-that-is-longer-than-what-a-column-of-a-table-has-place-for-1.2.3-4.5.6"
"""As of modules that carry the versions of driver and kernel in their name."""
REVISIONS = {"fabric": "-2"}
"""Of packages that are built for themselves, by name."""
EPOCHS = {"drv": "3:", "epoch": "1:"}
"""Of rpms, by the beginning of the name; NVIDIA's have one."""


@dataclass(frozen=True)
class Item:
    """A package as both families have it.

    Attributes:
        requires: a name, or a name, a sign and the upstream version of a package of the same repository.
        conflicts: names.
        provides: names.
        source: the source's name, if it is not the package's own.
        configuration: names of its configuration files, in a folder of /etc with its name.
    """

    name: str
    version: str
    requires: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()
    provides: tuple[str, ...] = ()
    source: str = ""
    configuration: tuple[str, ...] = ()


def _driver(version: str) -> list[Item]:
    return [
        # The tool is needed without a version, as nvidia-modprobe is: without a pin the newest one comes.
        Item("drv-cuda", version, (f"drv-libs = {version}", "drv-tool")),
        Item("drv-libs", version),
        Item("drv-tool", version),
        Item("drv-open", version, (f"drv-libs = {version}",), ("drv-closed",)),
        Item("drv-closed", version, (f"drv-libs = {version}",), ("drv-open",)),
        # A part that nothing else needs, with an epoch and a revision of its own, as libnvidia-nscq.
        Item("fabric", version),
        # What a distribution's own repository has it needs as well, as the driver's modules need dkms of EPEL.
        Item("drv-module", version, ("nobody-here-has-it",)),
        # The name tells nothing, the source does, as of libnvcuvid1 and libnvoptix1.
        Item("codec", version, source="drv-source"),
    ]


def _kit(version: str) -> list[Item]:
    """As the container toolkit: everything wants everything else in its own version, the library at least in that."""
    return [
        Item("kit", version, (f"kit-base = {version}", f"kit-tools = {version}")),
        Item("kit-base", version),
        Item("kit-tools", version, (f"kit-library >= {version}",)),
        Item("kit-library", version),
    ]


ITEMS = [
    *_driver(OLD),
    *_driver(NEW),
    *_kit("1.20.1"),
    *_kit("1.21.0"),
    # A name of the driver's pattern with a version of its own.
    Item("drv-container", "1.20.1"),
    Item("bystander", "1.0"),
    # What is not the set's, and comes to need its newer version.
    Item("bystander", "2.0", (f"drv-libs = {NEW}",)),
    Item("neighbour", "1.0"),
    Item("neighbour", "2.0"),
    Item("other", "1.0", (), ("drv-cuda",)),
    # What a site has besides, which loses its branch, and what has no counterpart.
    Item("extra-580", OLD),
    Item("extra", NEW),
    Item("gone-580", OLD),
    # As EPEL's dkms, kernel-devel-matched and the kernel: what comes by itself is the newest.
    Item("builder", "1.0", ("matched",)),
    *(Item("matched", version, (f"core = {version}",)) for version in ("1.0", "2.0")),
    *(Item("core", version, provides=("kernel",)) for version in ("1.0", "2.0")),
    # A site's own, which needs a part of the driver.
    Item("site-tool", "1.0", ("drv-libs",)),
    # As CUDA's toolkits: a package that has nothing but others, some of which others need as well.
    Item("toolkit", "1.0", ("toolkit-compiler", "toolkit-runtime")),
    Item("toolkit-compiler", "1.0", ("toolkit-headers",)),
    Item("toolkit-headers", "1.0"),
    Item("toolkit-runtime", "1.0"),
    Item("site-job", "1.0", ("toolkit-runtime",)),
    Item("daemon", "1.0", configuration=("edited.conf", "plain.conf", "gone.conf")),
    Item("epoch", "2.0"),
    Item(LONG, "1.0"),
    Item("broken", "1.0", ("nowhere-to-be-found",)),
]


# --- a family ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Family:
    """How one package manager writes what tests speak of.

    Attributes:
        name: of the backend.
        type: of repositories.
        revision: behind each upstream version.
        pattern: of the files of packages.
    """

    name: str
    type: str
    revision: str
    pattern: str

    def backend(self, lock_timeout_s: float = 2.0) -> Any:
        """The backend of the system that this process is in."""
        return (Apt if self.name == "apt" else Dnf)(lock_timeout_s)

    def epoch(self, name: str) -> str:
        """The epoch of a package, with its colon."""
        if self.name == "apt":
            return "1:" if name == "epoch" else ""
        return next((epoch for begin, epoch in EPOCHS.items() if name.startswith((begin, "codec"))), "")

    def full(self, name: str, version: str) -> str:
        """The full version of a package."""
        return f"{self.epoch(name)}{version}{self.revision_of(name)}"

    def revision_of(self, name: str) -> str:
        """What stands behind the upstream version."""
        return self.revision.replace("-1", REVISIONS.get(name, "-1"), 1)

    def build(self, item: Item, folder: Path) -> None:
        """One package into a folder."""
        (_deb if self.name == "apt" else _rpm)(self, item, folder)

    def _relation(self, text: str, form: str) -> str:
        name, *rest = text.split()
        return form.format(name, rest[0], self.full(name, rest[1])) if rest else name

    def relations(self, texts: Iterable[str]) -> str:
        """Relations of a package, as its fields have them."""
        form = "{} ({} {})" if self.name == "apt" else "{} {} {}"
        return ", ".join(self._relation(text, form) for text in texts)


APT = Family("apt", "deb", "-1", "*.deb")
DNF = Family("dnf", "rpm", "-1.el9", "*.rpm")


SLOW = Path("/run/slow")
"""While this file is there, scripts of packages write to it that they have begun, and take long."""
SCRIPT = f"[ ! -e {SLOW} ] || {{ echo begun >> {SLOW}; sleep 12; }}\n"


def _deb(family: Family, item: Item, folder: Path) -> None:
    tree = folder / f".{item.name}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "opt").mkdir()
    (tree / "opt" / item.name).write_text(item.version)
    paths = [f"/etc/{item.name}/{name}" for name in item.configuration]
    if paths:
        (tree / "etc" / item.name).mkdir(parents=True)
        (tree / "DEBIAN/conffiles").write_text("".join(f"{path}\n" for path in paths))
    for path in paths:
        (tree / path[1:]).write_text("as it came\n")
    fields = {
        "Package": item.name,
        "Version": family.full(item.name, item.version),
        "Architecture": "all",
        "Maintainer": "nobody <a@b.invalid>",
        "Source": item.source,
        "Depends": family.relations(item.requires),
        "Conflicts": family.relations(item.conflicts),
        "Provides": family.relations(item.provides),
        "Description": "a test",
    }
    text = "".join(f"{name}: {value}\n" for name, value in fields.items() if value)
    (tree / "DEBIAN/control").write_text(text)
    script = tree / "DEBIAN/postinst"
    script.write_text(f"#!/bin/sh\n{SCRIPT}")
    script.chmod(0o755)
    _run("dpkg-deb", "--build", "--root-owner-group", "-Znone", tree, folder)
    shutil.rmtree(tree)


KILL = Path("/run/kill")
"""While this file is there, a script of an rpm kills who runs it. Scripts of rpm 4.20 have a /tmp of their own."""
SPEC = """Name: {name}
{epoch}Version: {version}
Release: {release}
Summary: a test
License: none
BuildArch: noarch
{relations}
%description
A test.
%install
mkdir -p %{{buildroot}}/opt
echo {version} > %{{buildroot}}/opt/{name}
mkdir -p %{{buildroot}}/etc/{name}
for each in {configuration}; do echo as it came > %{{buildroot}}/etc/{name}/$each; done
%post
echo "{name} {version} $1" >> /tmp/scripts
[ ! -e {kill} ] || kill -KILL $PPID
{script}
%files
/opt/{name}
{listed}
"""


def _rpm(family: Family, item: Item, folder: Path) -> None:
    """One package; what a source has is a package of it."""
    named = {"Requires": item.requires, "Conflicts": item.conflicts, "Provides": item.provides}
    relations = "\n".join(f"{key}: {family.relations(texts)}" for key, texts in named.items() if texts)
    text = SPEC.format(
        name=item.name,
        version=item.version,
        kill=KILL,
        script=SCRIPT,
        release=family.revision_of(item.name)[1:],
        epoch=f"Epoch: {family.epoch(item.name)[:-1]}\n" if family.epoch(item.name) else "",
        relations=relations,
        configuration=" ".join(item.configuration),
        listed="\n".join(f"%config(noreplace) /etc/{item.name}/{name}" for name in item.configuration),
    )
    if item.source:
        head, _, rest = text.partition("%description\nA test.\n")
        own = f"%package -n {item.name}\nSummary: a test\n%description -n {item.name}\nA test.\n"
        text = head.replace(f"Name: {item.name}", f"Name: {item.source}") + "%description\nA test.\n" + own
        text += rest.replace("%post", f"%post -n {item.name}").replace("%files", f"%files -n {item.name}")
    spec = folder / f".{item.name}.spec"
    spec.write_text(text)
    _run("rpmbuild", "--quiet", "-bb", "--define", f"_rpmdir {folder}", "--define", "_topdir /tmp/rpmbuild",
         "--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", spec)  # fmt: skip
    spec.unlink()


def _run(*words: object) -> str:
    done = subprocess.run(
        [str(word) for word in words], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"{words[0]}: {done.stdout}{done.stderr}")
    return done.stdout


# --- repositories --------------------------------------------------------------------------------------------------


class Keys:
    """Keys in a GnuPG folder of their own, inside of a system."""

    def __init__(self, home: Path) -> None:
        self._home = home
        home.mkdir(mode=0o700)

    def make(self, identity: str) -> str:
        """A new key; its armored public part."""
        self.gpg("--quick-generate-key", "--passphrase", "", identity, "rsa3072", "sign", "never")
        return self.gpg("--armor", "--export", identity)

    def gpg(self, *words: str) -> str:
        """GnuPG's answer."""
        return _run("gpg", "--homedir", self._home, "--batch", "--yes", "--pinentry-mode", "loopback", *words)

    def sign_rpms(self, folder: Path, identity: str) -> None:
        """Every rpm of a folder."""
        words = ["--define", "__gpg /usr/bin/gpg", "--define", f"_gpg_path {self._home}"]
        _run("rpmsign", *words, "--define", f"_gpg_name {identity}", "--addsign", *folder.glob("*.rpm"))

    def end(self) -> None:
        """No agent keeps running."""
        _run("gpgconf", "--homedir", self._home, "--kill", "all")


def make_repositories() -> dict[str, str]:
    """All repositories, inside of a system; armored keys by what they are."""
    identity = "tests@gpusmith.invalid"
    keys = Keys(Path("/tmp/keys"))
    public = {"right": keys.make(identity), "wrong": keys.make(OTHER)}
    good = {family.name: REPOSITORIES / family.name / "good" for family in (APT, DNF)}
    for family in (APT, DNF):
        good[family.name].mkdir(parents=True)
        for item in ITEMS:
            family.build(item, good[family.name])
        (REPOSITORIES / family.name / "empty").mkdir()
    bare = shutil.copytree(good["dnf"], REPOSITORIES / "dnf/unsigned-packages")
    keys.sign_rpms(good["dnf"], identity)
    shutil.copytree(good["dnf"], REPOSITORIES / "dnf/unsigned-metadata")
    shutil.copytree(good["apt"], REPOSITORIES / "apt/unsigned-metadata")
    for which in ("good", "empty"):
        _index_apt(REPOSITORIES / "apt" / which, keys, identity)
        _index_dnf(REPOSITORIES / "dnf" / which, keys, identity)
    _index_apt(REPOSITORIES / "apt/unsigned-metadata", keys, "")
    _index_dnf(bare, keys, identity)
    _index_dnf(REPOSITORIES / "dnf/unsigned-metadata", keys, "")
    for family in (APT, DNF):
        # One file is another one than the index says.
        altered = shutil.copytree(good[family.name], REPOSITORIES / family.name / "altered")
        (path,) = altered.glob(f"drv-libs*{OLD}*")
        path.write_bytes(path.read_bytes()[:-16] + b"sixteen bytes...")
    keys.end()
    return public


def _index_apt(folder: Path, keys: Keys, identity: str) -> None:
    (folder / "Packages").write_text(_run("apt-ftparchive", "packages", folder).replace(f"{folder}/", "./"))
    (folder / "Release").write_text(_run("apt-ftparchive", "release", folder))
    if identity:
        words = ("--local-user", identity, "--clearsign", "--output")
        keys.gpg(*words, str(folder / "InRelease"), str(folder / "Release"))


def _index_dnf(folder: Path, keys: Keys, identity: str) -> None:
    _run("createrepo_c", "--quiet", folder)
    if identity:
        keys.gpg("--local-user", identity, "--armor", "--detach-sign", str(folder / "repodata/repomd.xml"))


# --- systems -------------------------------------------------------------------------------------------------------

# What dnf needs to manage a system that another package manager has made.
SETTINGS = {
    "etc/dnf/dnf.conf": "[main]\ngpgcheck=True\ninstallonly_limit=3\nclean_requirements_on_remove=True\nbest=True\n"
    "skip_if_unavailable=False\n",
    "etc/dnf/vars/releasever": "9\n",
    "etc/dnf/plugins/local.conf": "[main]\nenabled=0\n",
    "etc/rpm/macros": "%_dbpath /var/lib/rpm\n%dist .el9\n",
}
OTHERS = {
    "apt": ("/usr/bin/dnf", "/usr/bin/rpm"),
    "dnf": ("/usr/bin/apt-get", "/usr/bin/dpkg-query"),
}
"""Programs of the other family, which a test's system lacks."""
STUB = """Name: base-system
Version: 1
Release: 1
Summary: what Debian's own files stand for
License: none
BuildArch: noarch
Provides: /bin/sh
%description
It has no files.
%files
"""


def _enter(layers: str, changes: Path, repositories: Path, family: str | None) -> None:
    """This process moves into a system; what it changes there goes to `changes`, or away with the process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(NEW_MOUNTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    _run("mount", "--make-rprivate", "/")
    if changes.parent.name == "memory":
        _run("mount", "-t", "tmpfs", "tmpfs", changes.parent)
    for part in ("upper", "work", "root"):
        (changes / part).mkdir(parents=True, exist_ok=True)
    root = changes / "root"
    options = f"lowerdir={layers},upperdir={changes}/upper,workdir={changes}/work"
    _run("mount", "-t", "overlay", "overlay", "-o", options, root)
    for place in ("proc", "dev"):
        _run("mount", "--rbind", f"/{place}", root / place)
    inside = root / REPOSITORIES.relative_to("/")
    inside.mkdir(exist_ok=True)
    _run("mount", "--bind", repositories, inside)
    os.chroot(root)
    for program in () if family is None else OTHERS[family]:
        Path(program).unlink()
    os.chdir("/")
    os.environ.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin", HOME="/root", TMPDIR="/tmp", LC_ALL="C.UTF-8")
    for name in ("XDG_CACHE_HOME", "PYTHONPATH", "VIRTUAL_ENV"):
        os.environ.pop(name, None)


@dataclass(frozen=True)
class Machine:
    """A kind of system that tests run in.

    Attributes:
        family: whose package manager is tried.
        layers: root file systems, the uppermost first, as overlays take them.
        repositories: their folder outside.
        keys: armored public keys.
        memory: a folder that a file system in memory is mounted to.
    """

    family: Family
    layers: str
    repositories: Path
    keys: Mapping[str, str] = field(repr=False)
    memory: Path

    def run(self, work: Callable[[], object], changes: Path | None = None) -> None:
        """Do something inside, in a process of its own."""
        reader, writer = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            told = ""
            try:
                _enter(
                    self.layers,
                    changes or self.memory / "it",
                    self.repositories,
                    None if changes else self.family.name,
                )
                work()
            except BaseException:  # noqa: BLE001 - told by the parent
                told = traceback.format_exc(chain=False)
            finally:
                os.write(writer, told.encode())
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as stream:
            told = stream.read()
        os.waitpid(child, 0)
        if told:
            raise AssertionError(told)


def inside(test: Callable[..., None]) -> Callable[..., None]:
    """A test that runs in a system; its first argument is the machine."""

    @functools.wraps(test)
    def run(machine: Machine, **others: Any) -> None:
        machine.run(lambda: test(machine, **others))

    return run


def root_of(suite: str) -> Path:
    """The root file system of a Debian suite, made once."""
    rootfs = debian.Rootfs(f"packages-{suite}", suite, "minbase", PACKAGES, EXCLUDED, unpacked=True)
    return made(rootfs)


def made(rootfs: debian.Rootfs) -> Path:
    """A root file system, made once. Whoever builds without the lock loses the unfinished folder to the next sweep."""
    store = Store(cache_dir() / "artifacts")
    with store.lock():
        return debian.build(store, rootfs)


def prepare() -> None:
    """Make a system fit for both families, inside of it."""
    for name, text in SETTINGS.items():
        path = Path("/", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    Path("/etc/yum.repos.d").mkdir(exist_ok=True)
    Path("/tmp/stub.spec").write_text(STUB)
    _run(
        "rpmbuild",
        "--quiet",
        "-bb",
        "--define",
        "_rpmdir /tmp",
        "--define",
        "_topdir /tmp/rpmbuild",
        "/tmp/stub.spec",
    )
    _run("rpm", "--install", "--nodeps", *Path("/tmp").glob("noarch/*.rpm"))
    for path in Path("/tmp").iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def make(folder: Path, kinds: Mapping[str, tuple[Family, str]]) -> dict[str, Machine]:
    """Systems of all kinds, with the repositories."""
    (folder / "memory").mkdir()
    (folder / "repositories").mkdir()
    keys: dict[str, str] = {}
    layers: dict[str, str] = {}
    for suite in sorted({suite for _, suite in kinds.values()}):
        root = root_of(suite)
        Machine(DNF, str(root), folder / "repositories", {}, folder / "memory").run(prepare, folder / suite)
        layers[suite] = f"{folder / suite / 'upper'}:{root}"
    first = Machine(DNF, layers["bookworm"], folder / "repositories", {}, folder / "memory")
    first.run(
        lambda: (REPOSITORIES / "keys.json").write_text(json.dumps(make_repositories())), folder / "builder"
    )
    keys.update(json.loads((folder / "repositories/keys.json").read_text()))
    return {
        kind: Machine(family, layers[suite], folder / "repositories", keys, folder / "memory")
        for kind, (family, suite) in kinds.items()
    }


def given(machine: Machine, which: str = "good", **changes: Any) -> dict[str, Any]:
    """A repository as an inventory gives it."""
    found: dict[str, Any] = {
        "type": machine.family.type,
        "uris": [f"file://{REPOSITORIES}/{machine.family.name}/{which}"],
        "key": machine.keys["right"],
    }
    if machine.family.name == "apt":
        found["suites"] = ["./"]
    else:
        found["signed"] = "both"
    return {**found, **changes}


def write(files: Iterable[base.File]) -> None:
    """Put a backend's files where they belong."""
    for file in files:
        file.path.parent.mkdir(parents=True, exist_ok=True)
        if file.text is None:
            file.path.unlink(missing_ok=True)
        else:
            file.path.write_text(file.text)


# --- what others do on a system ------------------------------------------------------------------------------------


def files(*folders: str) -> list[str]:
    """Paths and contents of all files."""
    paths = (
        path
        for folder in folders
        for path in Path(folder).rglob("*")
        if path.is_file() and not path.is_symlink()
    )
    return sorted(f"{path} {zlib.crc32(path.read_bytes())}" for path in paths)


def add_repository(machine: Machine, which: str) -> None:
    """A repository of an administrator."""
    uri = f"file://{REPOSITORIES}/{machine.family.name}/{which}"
    if machine.family.name == "apt":
        Path("/etc/apt/sources.list").write_text(f"deb [trusted=yes] {uri} ./\n")
    else:
        Path("/etc/yum.repos.d/others.repo").write_text(f"[others]\nname=others\nbaseurl={uri}\ngpgcheck=0\n")


PLUGIN = """import dnf


class CloudId(dnf.Plugin):
    name = "cloud-id"

    def config(self):
        for each in self.base.repos.iter_enabled():
            each.baseurl = [address.replace("/behind-a-plugin", "/good") for address in each.baseurl]
"""


def add_plugin() -> None:
    """A plugin of dnf without which a repository 'behind-a-plugin' cannot be read, as those of clouds."""
    folder = next(Path("/usr/lib").glob("python3*/*-packages/dnf-plugins"))
    (folder / "cloud_id.py").write_text(PLUGIN)


def upgrade_all(machine: Machine, *words: str) -> None:
    """A person upgrades everything."""
    if machine.family.name == "apt":
        _run("apt-get", "-y", "-q", "upgrade", *words)
    else:
        _run("dnf", "-y", "-q", "upgrade", *words)


def dnf_automatic() -> None:
    """What a timer runs on many machines."""
    program = "import sys; from dnf.automatic.main import main; sys.exit(main(['--installupdates']))"
    _run("/usr/bin/python3", "-c", program)


def take_out_command(name: str) -> None:
    """Many of dnf's commands come with packages of their own, which a machine need not have."""
    for path in Path("/usr/lib").glob(f"python3*/*-packages/dnf-plugins/{name}.py"):
        path.unlink()


LIST = Path("/etc/dnf/plugins/versionlock.list")


def hold_by_hand(machine: Machine, name: str, version: str) -> None:
    """A person holds a package."""
    if machine.family.name == "apt":
        _run("apt-mark", "hold", name)
    else:
        LIST.write_text(f"# of the site\n\n{name}-{version}*\n!kernel-0:9*\n")


def held_by_hand(machine: Machine) -> list[str]:
    """What people hold."""
    if machine.family.name == "apt":
        return _run("apt-mark", "showhold").split()
    return LIST.read_text().splitlines()


def versionlock(*words: str) -> None:
    """A person changes the locks of dnf."""
    _run("dnf", "-y", "-q", "versionlock", *words)


def rpm_order(first: str, second: str) -> int:
    """How rpm orders two versions."""
    return int(_run("rpm", "--eval", f"%{{lua: print(rpm.vercmp('{first}', '{second}'))}}"))


@contextmanager
def served(machine: Machine, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The address at which the repositories are served; package managers keep nothing of those with file://."""
    handler = functools.partial(Quiet, directory=str(REPOSITORIES / machine.family.name))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        if tls:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http{'s' if tls else ''}://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server that logs nothing."""

    # Without it the connection ends after each answer, which apt 3.0 takes for a fault of TLS.
    protocol_version = "HTTP/1.1"

    def log_message(self, *_words: object) -> None:
        """Nothing."""


LOCK = "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); print('locked', flush=True); input()"
PLACES = {
    ("apt", "front end"): "/var/lib/dpkg/lock-frontend",
    ("apt", "database"): "/var/lib/dpkg/lock",
    ("dnf", "database"): "/var/lib/rpm/.rpm.lock",
}


@contextmanager
def busy(machine: Machine, whose: str) -> Iterator[None]:
    """Another program has the lock: one like the package manager, or one that asks its database."""
    place = PLACES.get((machine.family.name, whose), "/dev/null")
    words = ["/usr/bin/python3", "-c", LOCK, place]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        if other.stdout is not None:
            other.stdout.readline()
        if place == "/dev/null":
            # Dnf's own lock is a file with the number of a process.
            Path("/var/lib/dnf").mkdir(exist_ok=True)
            Path("/var/lib/dnf/rpmdb_lock.pid").write_text(str(other.pid))
        try:
            yield
        finally:
            other.kill()


def leave_half_done(machine: Machine, name: str, before: str, after: str) -> str:
    """As if a run had been killed that changes a package; the version that is meant to be there in the end."""
    if machine.family.name == "apt":
        status = Path("/var/lib/dpkg/status")
        head, found, tail = status.read_text().partition(f"Package: {name}\n")
        status.write_text(head + found + tail.replace("install ok installed", "install ok unpacked", 1))
        return before
    # A transaction puts what is new beside what is old, which goes at its end.
    KILL.touch()
    words = ["dnf", "-y", "-q", "--allowerasing", "install", f"{name}-{after}"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    KILL.unlink()
    if done.returncode != -signal.SIGKILL:
        raise AssertionError(f"dnf was not killed: {done.stdout}{done.stderr}")
    return after
