"""A newer kernel that comes by itself: the real programs of Ubuntu and EL on the lab's packages, with headers and without.

Needs root, and no lab. What is built is simulated, by the hooks with which DKMS follows kernels.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from gpulab.artifacts import debian, repos, rpm_repos
from gpulab.artifacts.families import ARCHIVES
from gpulab.artifacts.sources import IMAGES
from gpulab.simgpu import el, kernels, ubuntu
from gpulab.systems import SIGNED, system

from gpusmith.data import compatibility
from gpusmith.expect import kernels as judge
from gpusmith.expect.wanted import Driver
from gpusmith.node.records import parse
from gpusmith.probe.kernels import find
from tests.long import package_systems as systems
from tests.unit.families.systems import value
from tests.unit.records import healthy_record

RUNNING = os.uname().release
VERSION = "580.178.04"


def run(*words: str) -> str:
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Family:
    """A system of the lab, as a folder.

    Attributes:
        name: what the lab calls it.
        role: what the names of the driver's role are looked up by.
        manager: its package manager.
        build: writes the simulated driver's packages into a folder.
        configure: makes its repositories known, inside of it.
        driver: installs the driver in VERSION and holds it, with the headers of the kernel that runs.
        kernel: installs the kernel's first release, and follows its headers or does not.
        upgrade: what a timer starts.
        installed: packages with their versions.
        known: releases of the kernel.
    """

    name: str
    role: str
    manager: systems.Family
    build: Callable[[Path], None]
    configure: Callable[[str], None]
    driver: Callable[[], None]
    kernel: Callable[[str, bool], None]
    upgrade: tuple[str, ...]
    installed: Callable[[], set[str]]
    known: tuple[kernels.Kernel, ...]


# --- Ubuntu --------------------------------------------------------------------------------------------------------


def configure_apt(key: str) -> None:
    Path("/etc/apt/keyrings/lab.asc").write_text(key)
    names = ("cuda", *system("ubuntu-24.04").archive)
    lines = (
        f"deb [signed-by=/etc/apt/keyrings/lab.asc] file:{systems.REPOSITORIES}/{name} ./\n" for name in names
    )
    Path("/etc/apt/sources.list").write_text("".join(lines))
    # Whatever could come may come.
    Path("/etc/apt/apt.conf.d/52site").write_text('Unattended-Upgrade::Origins-Pattern { "origin=*"; };\n')
    run("apt-get", "-q", "update")


def install_debs() -> None:
    names = ["nvidia-dkms-580-open", "nvidia-kernel-source-580-open", "nvidia-kernel-common-580"]
    run(
        "apt-get",
        "-q",
        "-y",
        "install",
        f"linux-headers-{RUNNING}",
        *(f"{name}={VERSION}-1ubuntu1" for name in names),
    )
    run("apt-mark", "hold", *names)


def install_kernel_debs(version: str, headers: bool) -> None:
    """Without: somebody holds the headers' package, as a site does that has not booted a newer kernel for long."""
    names = ["linux-image-generic", "linux-headers-generic", *(["linux-generic"] if headers else [])]
    run(
        "apt-get",
        "-q",
        "-y",
        "install",
        "gpulab-neighbour=1.0-0ubuntu1",
        *(f"{name}={version}" for name in names),
    )
    if not headers:
        run("apt-mark", "hold", "linux-headers-generic")


def debs() -> set[str]:
    return set(run("dpkg-query", "-W", "-f", "${Package} ${Version}\\n").splitlines())


# --- EL ------------------------------------------------------------------------------------------------------------


def configure_dnf(key: str) -> None:
    Path("/etc/pki/rpm-gpg/lab").write_text(key)
    for name in ("cuda", *system("rocky-9").archive):
        lines = (f"[{name}]", f"name={name}", f"baseurl=file://{systems.REPOSITORIES}/{name}", "gpgcheck=1",
                 "gpgkey=file:///etc/pki/rpm-gpg/lab", "module_hotfixes=1")  # fmt: skip
        Path(f"/etc/yum.repos.d/{name}.repo").write_text("\n".join(lines) + "\n")


def install_rpms() -> None:
    names = ["kmod-nvidia-open-dkms", "nvidia-kmod-common", "nvidia-modprobe"]
    headers = [f"kernel-devel-matched-{RUNNING}", f"kernel-devel-{RUNNING}"]
    run("dnf", "-q", "-y", "install", *headers, *(f"{name}-{VERSION}" for name in names))
    run("dnf", "-q", "-y", "versionlock", "add", *names)


def install_kernel_rpms(version: str, headers: bool) -> None:
    """Without: nothing follows the kernel, since dkms has a package for the one that runs and asks for no more."""
    names = ["kernel", *(["kernel-devel-matched"] if headers else [])]
    run("dnf", "-q", "-y", "install", "gpulab-neighbour-1.0", *(f"{name}-{version}" for name in names))


def rpms() -> set[str]:
    return set(run("rpm", "-qa", "--qf", "%{NAME} %{VERSION}-%{RELEASE}\\n").splitlines())


def of_el(release: int) -> Family:
    tag = f"el{release}"
    return Family(
        f"rocky-{release}",
        f"Rocky {release}",
        systems.DNF,
        lambda folder: el.build(folder, tag),
        configure_dnf,
        install_rpms,
        install_kernel_rpms,
        ("dnf-automatic", "--installupdates"),
        rpms,
        tuple(kernels.known("el", tag)),
    )


FAMILIES = [
    Family(
        "ubuntu-24.04",
        "Ubuntu 24",
        systems.APT,
        ubuntu.build,
        configure_apt,
        install_debs,
        install_kernel_debs,
        ("unattended-upgrade", "--debug"),
        debs,
        tuple(kernels.known("ubuntu")),
    ),
    of_el(9),
    of_el(10),
]


# --- the systems ---------------------------------------------------------------------------------------------------


def lay_over(files: dict[str, tuple[str, int]], hooks: tuple[str, ...]) -> None:
    """What makes a root file system of Debian a machine of the lab, inside of it."""
    for name, (text, mode) in files.items():
        path = Path("/", name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    for hook in hooks:
        run("sh", "-euc", hook)


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.name)
def family(request: pytest.FixtureRequest) -> Family:
    found: Family = request.param
    return found


@pytest.fixture(scope="module")
def machine(family: Family, tmp_path_factory: pytest.TempPathFactory) -> systems.Machine:
    """A system with its repositories, as a machine of the lab has them."""
    if os.geteuid() != 0:
        pytest.skip("a system of its own needs root")
    folder = tmp_path_factory.mktemp(family.name)
    key = repos.signing_key(folder / "key")
    repositories = folder / "repositories"
    family.build(repositories)
    for each in repositories.iterdir():
        if family.manager is systems.APT:
            repos.index(each, each.name, key, ARCHIVES.get(each.name))
        else:
            rpm_repos.index(each, SIGNED[each.name], key)
    described = system(family.name)
    root = systems.made(
        replace(debian.load(described.rootfs), name=f"{described.rootfs}-unpacked", unpacked=True)
    )
    files = {
        str(path.relative_to(IMAGES / overlay)): (path.read_text(), stat.S_IMODE(path.stat().st_mode))
        for overlay in described.overlays
        for path in (IMAGES / overlay).rglob("*")
        if path.is_file()
    }
    hooks = tuple((IMAGES / name).read_text() for name in described.hooks)
    made = systems.Machine(
        systems.APT, str(root), repositories, {"right": key.public.read_text()}, folder / "memory"
    )
    made.run(lambda: lay_over(files, hooks), folder / "machine")
    return replace(made, layers=f"{folder / 'machine' / 'upper'}:{root}")


@pytest.fixture
def inside(machine: systems.Machine, tmp_path: Path) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Does something in a system of a test's own."""
    (tmp_path / "memory").mkdir()
    yield lambda work: machine.run(work, tmp_path / "memory" / "it")
    shutil.rmtree(tmp_path / "memory")


def told(wanted: Driver) -> list[str]:
    """What the suite and site.yml say of the kernels, inside."""
    record = parse(healthy_record())
    record = replace(record, host=replace(record.host, kernel=RUNNING), kernels=tuple(find()))
    return [problem.cause for problem in judge.problems(record, wanted)]


@pytest.mark.parametrize("headers", [True, False], ids=["with headers", "without headers"])
def test_a_newer_kernel_has_its_module_if_its_headers_came(
    family: Family,
    machine: systems.Machine,
    inside: Callable[[Callable[[], None]], None],
    headers: bool,
) -> None:
    old, new = family.known
    image = f"linux-image-{new.release}" if family.manager is systems.APT else "kernel-core"

    def modules() -> dict[str, bool]:
        return {kernel.release: kernel.module is not None for kernel in find()}

    def work() -> None:
        family.configure(machine.keys["right"])
        family.driver()
        family.kernel(old.version, headers)
        before, first = family.installed(), modules()
        assert first[RUNNING]
        assert first[old.release] or not headers
        run(*family.upgrade)
        came, gone = family.installed() - before, before - family.installed()
        assert any(line.startswith("gpulab-neighbour ") for line in came), came
        assert f"{image} {new.version}" in came
        assert not any("nvidia" in line for line in came), came
        # Of what is gone there is a newer version, so the older kernel is still there.
        assert {line.split()[0] for line in gone} <= {line.split()[0] for line in came}, gone
        assert not any(old.release in line for line in gone)
        assert modules() == {**first, new.release: headers}
        causes = told(wanted)
        if headers:
            assert causes == []
            return
        (cause,) = causes
        assert f"kernel {new.release} is installed and has no module" in cause
        # As the role does: the headers by their full names, which bring no other kernel, then the driver's module.
        backend = family.manager.backend()
        asked = dict.fromkeys(judge.header_packages(names, new.release), "")
        assert sorted(backend.offered(asked)) == sorted(asked)
        assert not {image, "kernel-core"} & set(backend.simulate(asked, {}).changed)
        backend.install(asked)
        run(
            "dkms",
            "install",
            f"{judge.dkms_name(run('dkms', 'status'), VERSION)}/{VERSION}",
            "-k",
            new.release,
        )
        assert told(wanted) == []

    # Inside, the repository's tables are not there.
    names = value("nvidia_driver", family.role, "__nvidia_driver_kernel")
    wanted, _ = Driver(node="gpu-1", version=VERSION), compatibility.load()
    inside(work)
