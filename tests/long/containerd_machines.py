"""Real containerds, each in namespaces of its own over this machine's files: what it writes vanishes with it.

The binaries are Debian 13's package (1.7, schema 2) and two of the lab's releases (2.0, schema 3, and 2.3, schema 4).
In place of systemd stands `systemctl.py`, which starts the real binary and waits for its word that it is ready.
"""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulab.artifacts import golang
from gpulab.artifacts.components import component
from gpulab.artifacts.debian import KEYRING, sources_for
from gpulab.artifacts.store import Store

from gpusmith.node import bundle
from gpusmith.paths import cache_dir

BUNDLE = base64.b64encode(bundle.bundle()).decode()
MODULE = "ansible_collections.gpusmith.gpu.plugins.modules.containerd_config"
PROGRAMS = ("containerd", "ctr")
SYSTEMCTL = Path(__file__).with_name("systemctl.py")
LAYERS = ("etc", "opt", "var")
ENTER = """set -e
mount -t proc proc /proc
mount -t tmpfs tmpfs "$1"
for name in {layers}; do
    mkdir "$1/$name" "$1/$name.work"
    mount -t overlay overlay -o "lowerdir=/$name,upperdir=$1/$name,workdir=$1/$name.work" "/$name"
done
mount -t tmpfs tmpfs /run
# Layers of images cannot lie on layers.
mkdir -p /var/lib/containerd
mount -t tmpfs tmpfs /var/lib/containerd
rm -rf /etc/containerd
mkdir /etc/containerd
echo ready
exec sleep infinity
""".format(layers=" ".join(LAYERS))


# --- binaries ------------------------------------------------------------------------------------------------------


def _debian(folder: Path) -> Path:
    """Debian 13's package, unpacked."""
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    (folder / "status").touch()
    archive = sources_for("trixie")[0].uri
    (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {archive} trixie main\n")
    options = [
        f"-oDir::Etc::sourcelist={folder}/sources.list",
        "-oDir::Etc::sourceparts=/nonexistent",
        f"-oDir::State::lists={folder}/lists",
        f"-oDir::State::status={folder}/status",
        f"-oDir::Cache={folder}/cache",
        "-oAPT::Sandbox::User=root",
    ]
    for words in (("update", "-q"), ("download", "-q", "containerd")):
        subprocess.run(["apt-get", *options, *words], cwd=folder, check=True, capture_output=True)
    (package,) = folder.glob("containerd_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder / "unpacked"], check=True, capture_output=True)
    return folder / "unpacked"


def _lab(name: str) -> Path:
    """What the lab compiles for its machines."""
    store = Store(cache_dir() / "artifacts")

    def none() -> Path:
        raise AssertionError("containerd is no cgo program")

    with store.lock():
        return golang.build(store, component(name), none, "")


@dataclass(frozen=True)
class Binary:
    """One release of containerd.

    Attributes:
        schema: the newest that it reads.
        folder: where its programs lie.
        package_file: the root file that its package brings, if it has a package.
    """

    schema: int
    folder: Path
    package_file: str | None = None


def binary(schema: int, folder: Path) -> Binary:
    """The binary of a schema."""
    if schema == 2:
        unpacked = _debian(folder)
        text = (unpacked / "etc/containerd/config.toml").read_text()
        return Binary(schema, unpacked / "usr/bin", text)
    return Binary(schema, _lab("containerd-2.0" if schema == 3 else "containerd"))


# --- machines ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Machine:
    """Namespaces with a containerd.

    Attributes:
        pid: of the process that keeps them.
        binary: the containerd that was installed first.
        tools: folder of what is found before this machine's own programs.
    """

    pid: int
    binary: Binary
    tools: Path

    def install(self, other: Binary) -> None:
        """Put another containerd in the place of the one that is there."""
        for name in PROGRAMS:
            (self.tools / name).unlink()
            (self.tools / name).symlink_to(other.folder / name)

    def path(self, name: str) -> Path:
        """A file inside, as it is reached from outside."""
        return Path(f"/proc/{self.pid}/root{name}")

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a program inside."""
        return subprocess.run(
            ["nsenter", "--target", str(self.pid), "--mount", "--pid", "--", *words],
            env={
                "PATH": f"{self.tools}:/usr/sbin:/usr/bin:/sbin:/bin",
                "HOME": "/root",
                "LC_ALL": "C.UTF-8",
            },
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def module(self, name: str, check: bool = False, **options: Any) -> dict[str, Any]:
        """What module containerd_config answers."""
        arguments = {"name": name, "bundle": BUNDLE, "_ansible_check_mode": check, **options}
        path = self.path("/run/arguments.json")
        path.write_text(json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
        done = self.run(sys.executable, "-m", MODULE, "/run/arguments.json")
        assert done.stdout.strip().startswith("{"), done
        return dict(json.loads(done.stdout))

    def put(self, files: Mapping[str, str | None]) -> None:
        """Files of the site, by path."""
        for name, text in files.items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text or "")
            # As where it has passwords of registries.
            path.chmod(0o640)

    def files(self) -> dict[str, tuple[str, str]]:
        """Mode and content of all files of containerd's folder."""
        folder = self.path("/etc/containerd")
        return {
            str(path.relative_to(folder)): (stat.filemode(path.stat().st_mode), path.read_text())
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def dump(self) -> dict[str, Any]:
        """What the binary makes of the files."""
        done = self.run("containerd", "config", "dump")
        if done.returncode and not self.path("/etc/containerd/config.toml").exists():
            done = self.run("containerd", "config", "default")
        assert done.returncode == 0, done
        return tomllib.loads(done.stdout)

    def restart(self) -> bool:
        """As a person restarts it; whether it comes up."""
        return self.run("systemctl", "restart", "containerd.service").returncode == 0

    def starts(self) -> int:
        """How often containerd was started."""
        path = self.path("/run/systemctl.starts")
        return len(path.read_text().splitlines()) if path.exists() else 0


def _inner(outer: int) -> int:
    """The process that a process started."""
    children = Path(f"/proc/{outer}/task/{outer}/children").read_text().split()
    return int(children[0])


@contextmanager
def machine(of: Binary, folder: Path) -> Iterator[Machine]:
    """A machine with this containerd, which is not started yet."""
    tools, memory = folder / "tools", folder / "memory"
    tools.mkdir()
    memory.mkdir()
    for name in PROGRAMS:
        (tools / name).symlink_to(of.folder / name)
    for name in ("systemctl", "journalctl"):
        (tools / name).write_text(f"#!{sys.executable} -I\n{SYSTEMCTL.read_text()}")
        (tools / name).chmod(0o755)
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "--"]
    with subprocess.Popen(
        [*command, "sh", "-c", ENTER, "sh", memory], stdout=subprocess.PIPE, text=True
    ) as outer:
        try:
            assert outer.stdout is not None
            assert outer.stdout.readline() == "ready\n"
            yield Machine(_inner(outer.pid), of, tools)
        finally:
            outer.kill()
