"""Makes the simulated driver and CUDA packages from their tables in lab/simgpu/packages/ (gcc and dpkg-deb).

Everything is made for the kernel release and architecture of the machine that builds. They must be in the key of a cached result.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpulab.simgpu import source_dir
from gpusmith import yaml_text
from gpusmith.errors import ToolError

SCHEMA = "gpusmith.simgpu.packages/1"
MAINTAINER = "gpusmith lab <lab@gpusmith.invalid>"
# Reproducible archives: the same sources give the same bytes.
EPOCH = 1_700_000_000
HINT = "Install the packages of 'lab/simgpu/host.txt'."

# Without a build ID: it would be all that differs between two versions but for their number.
CFLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Wno-format-truncation", "-g0", "-Wl,--build-id=none")
LIBRARIES: Mapping[str, str] = {
    "libnvidia-ml.so": "nvml.c",
    "libcuda.so": "cuda.c",
    "libnvidia-ptxjitcompiler.so": "empty.c",
    "libnvidia-cfg.so": "empty.c",
}
PROGRAMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "nvidia-smi": ("nvidia-smi.c", ()),
    "nvidia-modprobe": ("nvidia-modprobe.c", ()),
    "nvidia-persistenced": ("nvidia-persistenced.c", ()),
    "nvidia-persistenced-any": ("nvidia-persistenced.c", ("-DANY_DRIVER",)),
    "nv-fabricmanager": ("nv-fabricmanager.c", ()),
    "nvidia-cuda-mps-control": ("nvidia-cuda-mps-control.c", ()),
    "nvidia-cuda-mps-server": ("nvidia-cuda-mps-server.c", ()),
}
MODULES: Mapping[str, str] = {
    "nvidia": "",
    "nvidia-uvm": "nvidia",
    "nvidia-modeset": "nvidia",
    "nvidia-drm": "nvidia-modeset",
    "nvidia-peermem": "nvidia",
}
COPIED: Mapping[str, str] = {
    "dkms": "dkms.py",
    "dkms-kernel-postinst": "dkms-kernel-postinst.sh",
    "dkms-kernel-prerm": "dkms-kernel-prerm.sh",
    "dkms-kernel-install": "dkms-kernel-install.sh",
}
"""Parts that are files of lab/simgpu/packages."""
LICENSES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}
DEFECTS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "package": {},
    "module": {"nvidia.o": ('-DMODULE_DEFECT="module"',)},
    "cuda": {"libcuda.so": ("-DCUDA_INIT_FAILS=SYSTEM_NOT_READY",)},
    "uuids": {"nvidia.o": ('-DMODULE_DEFECT="uuids"',)},
}
"""In which way a version is broken -> file name of a part -> what it is compiled with. A broken package is so by its script."""
BUILD_FAILS = """\
if [ "$1" = configure ]; then
    echo "Error! Bad return status for module build on kernel: $(uname -r) ($(uname -m))" >&2
    echo "Consult /var/lib/dkms/{name}/{version}/build/make.log for more information. (SIMULATED)" >&2
    exit 10
fi
"""


@dataclass(frozen=True)
class Deb:
    """One package to be written; paths are absolute, as on the target."""

    name: str
    version: str
    architecture: str
    fields: Mapping[str, str]
    description: str
    files: Mapping[str, Path] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)
    scripts: Mapping[str, str] = field(default_factory=dict)
    conffiles: tuple[str, ...] = ()


def architecture() -> tuple[str, str]:
    """Debian's name of this machine's architecture, and its library folder.

    Raises:
        ToolError: an architecture without simulated drivers.
    """
    machine = os.uname().machine
    known = {"x86_64": ("amd64", "x86_64-linux-gnu"), "aarch64": ("arm64", "aarch64-linux-gnu")}
    if machine not in known:
        raise ToolError(
            f"There is no simulated driver for the architecture '{machine}'.", "Use x86_64 or aarch64."
        )
    return known[machine]


def write_all(jobs: Sequence[tuple[Path, Deb]], work: Path) -> None:
    """Write packages into their folders, as many at a time as there are processors."""
    for out in {out for out, _ in jobs}:
        out.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda job: write(job[1], job[0], work), jobs))


def table(name: str) -> dict[str, Any]:
    """One of the tables of lab/simgpu/packages."""
    path = source_dir() / "packages" / f"{name}.yml"
    content: dict[str, Any] = yaml_text.load(path.read_text())
    if content.get("schema") != SCHEMA:
        raise ToolError(f"The package table '{path}' has schema '{content.get('schema')}', not '{SCHEMA}'.")
    return content


def broken_by_parts() -> list[dict[str, Any]]:
    """Rows of the drivers that are broken in what is compiled, and so with the packages of every distribution."""
    return [row for row in table("broken")["drivers"] if DEFECTS[row["breaks"]]]


def broken_drivers() -> str:
    """The versions of the repository 'cuda-broken' for people, one a line."""
    return "\n".join(f"  {row['version']}  {row['summary']}" for row in table("broken")["drivers"])


def upstream(version: str) -> str:
    """Version without epoch and Debian revision."""
    return version.rsplit(":", maxsplit=1)[-1].split("-", maxsplit=1)[0]


# --- compiling -------------------------------------------------------------------------------------------


def run(*words: str | Path) -> None:
    """Run a build step.

    Raises:
        ToolError: it failed or is not installed.
    """
    command = [str(word) for word in words]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "SOURCE_DATE_EPOCH": str(EPOCH)},
        )
    except FileNotFoundError as error:
        raise ToolError(f"Program '{command[0]}' is not installed.", HINT) from error
    if done.returncode:
        raise ToolError(f"'{' '.join(command)}' failed: {done.stderr.strip()[-2000:]}", HINT)


def compile_library(
    source: str, output: Path, soname: str, version: str, cuda: int, defines: tuple[str, ...] = ()
) -> None:
    """Compile one shared library of the driver; with ``-DSIMGPU_TEST`` in ``defines`` it takes paths from tests."""
    src = source_dir() / "src"
    script = src / source.replace(".c", ".map")
    run(
        "gcc", *CFLAGS, "-fPIC", "-shared", "-fvisibility=hidden", f'-DDRIVER_VERSION="{version}"', f"-DCUDA_VERSION={cuda}",
        *defines, f"-Wl,-soname,{soname}", *([f"-Wl,--version-script={script}"] if script.exists() else []),
        "-o", output, src / source, "-lpthread",
    )  # fmt: skip


class Driver:
    """The compiled parts of one driver version, each made when it is first asked for.

    Attributes:
        version: its number, which is compiled into every part.
        cuda: what its CUDA library calls itself.
        like: a version whose parts become this one's when its number, of the same length, is replaced.
    """

    def __init__(
        self, work: Path, version: str, cuda: int, like: Driver | None = None, breaks: str = ""
    ) -> None:
        self.folder = work / f"driver-{version}{'-' if breaks else ''}{breaks}"
        self.folder.mkdir(exist_ok=True)
        self.version = version
        self.cuda = cuda
        self.like = like
        self._defects = DEFECTS[breaks] if breaks else {}

    def part(self, name: str) -> Path:
        """Path of one part, by the name that the tables use.

        Raises:
            ToolError: no such part, or its compilation failed.
        """
        path = self.folder / name
        if not path.exists():
            self._make(name, path)
        return path

    def _make(self, name: str, path: Path) -> None:
        src = source_dir() / "src"
        define = f'-DDRIVER_VERSION="{self.version}"'
        path.parent.mkdir(exist_ok=True)
        broken = self._defects.get(path.name, ())
        if self.like and not broken:
            content = self.like.part(name).read_bytes()
            path.write_bytes(content.replace(self.like.version.encode(), self.version.encode()))
        elif name in LIBRARIES:
            compile_library(LIBRARIES[name], path, f"{name}.1", self.version, self.cuda, broken)
        elif name in PROGRAMS:
            source, flags = PROGRAMS[name]
            run("gcc", *CFLAGS, define, *flags, "-o", path, src / source, "-lpthread", "-ldl")
        elif name in COPIED:
            shutil.copy(source_dir() / "packages" / COPIED[name], path)
        else:
            flavour, _, module = name.removesuffix(".o").partition("/")
            if flavour not in LICENSES or module not in MODULES:
                raise ToolError(
                    f"A package table names the unknown part '{name}'.",
                    "Correct the table in 'lab/simgpu/packages'.",
                )
            run(
                "gcc", "-c", define, *broken, f'-DMODULE_NAME="{module}"', f'-DMODULE_LICENSE="{LICENSES[flavour]}"',
                f'-DMODULE_DEPENDS="{MODULES[module]}"', *(["-DMODULE_ALIASES"] if module == "nvidia" else []),
                "-o", path, src / "module.c",
            )  # fmt: skip


def made(rows: Sequence[Mapping[str, Any]], work: Path) -> list[Driver]:
    """A driver for each row of the tables; what can be compiled once for several versions is."""
    compiled: dict[tuple[int, int], Driver] = {}
    drivers = []
    for row in rows:
        alike = len(row["version"]), row["cuda"]
        driver = Driver(work, row["version"], row["cuda"], compiled.get(alike), row.get("breaks", ""))
        compiled.setdefault(alike, driver)
        drivers.append(driver)
    return drivers


# --- from tables to packages -----------------------------------------------------------------------------


def placeholders(version: str, deb: str, **more: str) -> dict[str, str]:
    """What the tables may name in braces."""
    branch = version.split(".", maxsplit=1)[0]
    dkms = "3.0.3-4~" if branch < "550" else "3.0.11"
    return {
        "version": version,
        "deb": deb,
        "branch": branch,
        "triplet": architecture()[1],
        "dkms": dkms,
        **more,
    }


def driver_packages(rows: Mapping[str, Any], row: Mapping[str, Any], built: Driver | None) -> list[Deb]:
    """All packages of one driver version."""
    values = placeholders(row["version"], row["deb"], breaks=row.get("breaks", ""))
    branch = [
        other["version"] for other in rows["drivers"] if other["version"].startswith(values["branch"] + ".")
    ]
    newest = max(branch, key=numbers)
    return [
        package(template, values, built)
        for template in rows["packages"]
        if template.get("once") != "branch" or newest == row["version"]
    ]


def toolkit_packages(rows: Mapping[str, Any]) -> list[Deb]:
    """The CUDA toolkits."""
    return [package(template, values, None) for template, values in toolkit_rows(rows)]


def toolkit_rows(rows: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], dict[str, str]]]:
    """Every package of every toolkit: its row, and what that may name in braces."""
    for number, row in enumerate(rows["toolkits"]):
        major = row["x"].split(".")[0]
        values = {**row, "major": major, "dash": row["x"].replace(".", "-"), "triplet": architecture()[1]}
        for template in rows["packages"]:
            if template.get("once") != "all" or number == len(rows["toolkits"]) - 1:
                yield template, values


def numbers(version: str) -> list[int]:
    """Sort key of a version made of numbers."""
    return [int(part) for part in re.findall(r"\d+", version)]


RELATIONS = {
    "pre_depends": "Pre-Depends",
    "depends": "Depends",
    "recommends": "Recommends",
    "provides": "Provides",
    "conflicts": "Conflicts",
    "replaces": "Replaces",
}


@dataclass
class Contents:
    """What is in a package, whatever its format; paths are absolute, as on the target."""

    files: dict[str, Path]
    texts: dict[str, str]
    links: dict[str, str]
    modes: dict[str, int]


def contents(template: Mapping[str, Any], values: Mapping[str, str], built: Driver | None) -> Contents:
    """What a row of a table puts into its package."""

    def fill(text: str) -> str:
        return text.format_map(values)

    files = (
        {fill(path): built.part(name) for path, name in template.get("files", {}).items()} if built else {}
    )
    # Only tables with placeholders of their own in a text escape braces; the maintainer scripts have shell functions.
    texts = {fill(path): fill_text(text, values) for path, text in template.get("texts", {}).items()}
    links = {fill(path): fill(target) for path, target in template.get("links", {}).items()}
    modes = {fill(path): int(mode, 8) for path, mode in template.get("modes", {}).items()}
    if template.get("firmware"):
        folder = f"/lib/firmware/nvidia/{values['version']}"
        texts |= {
            f"{folder}/{name}.bin": "SIMULATED (gpusmith lab): no firmware\n"
            for name in ("gsp_ga10x", "gsp_tu10x")
        }
        # NVIDIA's CDI generation mounts nvidia/VERSION/gsp*.bin into containers: this link carries the live state.
        links[f"{folder}/gsp_simgpu_live.bin"] = "../../../../../run/simgpu/live"
    if "modprobe_conf" in template:
        texts |= modprobe_conf(**template["modprobe_conf"])
    if "dkms" in template and built:
        name, flavour = template["dkms"]["name"], template["dkms"]["flavour"]
        # What the modules are called is mostly the name under which DKMS knows them.
        called = template["dkms"].get("modules", name)
        folder = f"/usr/src/{name}-{values['version']}"
        for module in MODULES:
            files[f"{folder}/{module.replace('nvidia', called, 1)}.simulated.o"] = built.part(
                f"{flavour}/{module}.o"
            )
        texts[f"{folder}/dkms.conf"] = (
            f'PACKAGE_NAME="{name}"\nPACKAGE_VERSION="{values["version"]}"\nAUTOINSTALL=yes\n'
        )
    return Contents(files, texts, links, modes)


def package(template: Mapping[str, Any], values: Mapping[str, str], built: Driver | None) -> Deb:
    """One row of a table, filled in."""

    def fill(text: str) -> str:
        return text.format_map(values)

    fields = {
        title: ", ".join(map(fill, template[key])) for key, title in RELATIONS.items() if template.get(key)
    }
    fields["Section"] = template.get("section", "utils")
    content = contents(template, values, built)
    scripts = {
        name: fill_text(template[name], values)
        for name in ("postinst", "prerm", "postrm")
        if name in template
    }
    triggers = fill_text(template.get("triggers", ""), values)
    if "dkms" in template and built:
        name = template["dkms"]["name"]
        scripts["postinst"] = (
            fill_text(BUILD_FAILS, {**values, "name": name})
            if values.get("breaks") == "package"
            else f'if [ "$1" = configure ]; then dkms postinst -m {name} -v {values["version"]}; fi\n'
        )
        scripts["prerm"] = f"dkms remove -m {name} -v {values['version']} --all\n"
    if "user" in template:
        user = template["user"]
        scripts["postinst"] = (
            f"getent passwd {user} >/dev/null || "
            f"useradd --system --user-group --no-create-home --home-dir /var/run/nvpd/ --shell /usr/sbin/nologin {user}\n"
        ) + scripts.get("postinst", "")
    if "enable" in template:
        unit = template["enable"]
        scripts["postinst"] = scripts.get("postinst", "") + (
            'if [ "$1" = configure ] && [ -z "$2" ] && command -v systemctl >/dev/null; then\n'
            f"    systemctl enable --no-reload -q {unit} || true\n"
            "    if [ -d /run/systemd/system ]; then systemctl daemon-reload || true; fi\nfi\n"
        )
        scripts["prerm"] = (
            'if [ "$1" = remove ] && [ -d /run/systemd/system ]; then\n'
            f"    systemctl disable --now -q {unit} || true\nfi\n"
        )
    if template.get("ldconfig"):
        triggers += "activate-noawait ldconfig\n"
    if triggers:
        scripts["triggers"] = triggers
    return Deb(
        name=fill(template["name"]),
        version=values["deb"],
        architecture=template.get("architecture", architecture()[0]),
        fields=fields,
        description=fill(template["summary"]),
        files=content.files,
        texts=content.texts,
        links=content.links,
        modes=content.modes,
        scripts=scripts,
        conffiles=tuple(path for path in [*content.files, *content.texts] if path.startswith("/etc/"))
        if template.get("conffiles", True)
        else (),
    )


def fill_text(text: str, values: Mapping[str, str]) -> str:
    """Replace the known placeholders only, so that shell and JSON keep their braces."""
    for key, value in values.items():
        text = text.replace("{" + key + "}", str(value))
    return text.replace("{{", "{").replace("}}", "}")


def modprobe_conf(folder: str, module: str) -> dict[str, str]:
    """Files with which Debian lets the names of its renamed modules resolve (own words, the real lines' effect)."""
    aliases = "".join(f"alias pci:v000010DEd*sv*sd*bc03sc{code}i00* nvidia\n" for code in ("02", "00"))
    installs = f"install nvidia modprobe -i {module} $CMDLINE_OPTS\n"
    for part, needed in (
        ("modeset", "nvidia"),
        ("drm", "nvidia-modeset"),
        ("uvm", "nvidia"),
        ("peermem", "nvidia"),
    ):
        installs += f"install nvidia-{part} modprobe {needed} ; modprobe -i {module}-{part} $CMDLINE_OPTS\n"
    removes = (
        "remove nvidia modprobe -r -i nvidia-drm nvidia-modeset nvidia-peermem nvidia-uvm nvidia\n"
        "remove nvidia-modeset modprobe -r -i nvidia-drm nvidia-modeset\n"
    )
    return {
        f"{folder}/nvidia-modprobe.conf": installs + removes + "alias char-major-195* nvidia\n" + aliases,
        f"{folder}/nvidia-blacklists-nouveau.conf": "blacklist nouveau\n",
        f"{folder}/nvidia-options.conf": f"#options {module} NVreg_DeviceFileMode=0660\n",
        f"{folder}/nvidia-load.conf": "nvidia-drm\n",
    }


def headers() -> Deb:
    """Kernel headers of the running kernel, as far as the simulated dkms looks at them."""
    release = os.uname().release
    name = "linux-headers-" + re.sub(r"[^a-z0-9+.-]", "-", release.lower())
    folder = f"/usr/src/linux-headers-{release}"
    return Deb(
        name=name,
        version=f"{'.'.join(re.findall('[0-9]+', release)[:3])}-1+simgpu",
        architecture=architecture()[0],
        fields={"Section": "kernel"},
        description=f"header files for Linux {release} (empty here)",
        texts={f"{folder}/include/generated/utsrelease.h": f'#define UTS_RELEASE "{release}"\n'},
        links={f"/lib/modules/{release}/build": folder},
        scripts={
            "postinst": f"if command -v dkms >/dev/null; then dkms autoinstall -k {release} || true; fi\n"
        },
    )


def write(deb: Deb, out: Path, work: Path) -> Path:
    """Write one .deb into a folder and return its path."""
    safe = f"{deb.name}_{deb.version.replace(':', '%3a')}_{deb.architecture}.deb"
    with TemporaryDirectory(prefix="deb-", dir=work) as folder:
        root = Path(folder)
        root.chmod(0o755)
        for path, source in deb.files.items():
            place = under(root, path)
            shutil.copyfile(source, place)
            program = "/bin/" in path or "/sbin/" in path or path.endswith("/nvidia-smi")
            place.chmod(deb.modes.get(path, 0o755 if program else 0o644))
        for path, text in deb.texts.items():
            place = under(root, path)
            place.write_text(text)
            place.chmod(deb.modes.get(path, 0o644))
        for path, target in deb.links.items():
            under(root, path).symlink_to(target)
        control = root / "DEBIAN"
        control.mkdir()
        lines = [
            f"Package: {deb.name}",
            f"Version: {deb.version}",
            f"Architecture: {deb.architecture}",
            f"Maintainer: {MAINTAINER}",
            *(f"{title}: {value}" for title, value in deb.fields.items()),
            "Priority: optional",
            f"Description: SIMULATED GPU hardware, gpusmith lab: {deb.description}",
            " This package drives no real GPU and contains nothing of NVIDIA's.",
        ]
        (control / "control").write_text("\n".join(lines) + "\n")
        for name, text in deb.scripts.items():
            script = control / name
            script.write_text(text if name == "triggers" else f"#!/bin/sh\nset -e\n{text}")
            script.chmod(0o644 if name == "triggers" else 0o755)
        if deb.conffiles:
            (control / "conffiles").write_text("".join(f"{path}\n" for path in deb.conffiles))
        for item in [root, *root.rglob("*")]:
            if not item.is_symlink():
                date = built_at(deb.version) if item.suffix == ".service" else EPOCH
                os.utime(item, (date, date))
        run("dpkg-deb", "--root-owner-group", "-Zgzip", "--build", root, out / safe)
    return out / safe


def built_at(version: str) -> int:
    """Unix time of a unit file: later in a newer version, as in life, by which systemd knows that it has not read it.

    All before EPOCH, since dpkg-deb takes no later dates.
    """
    first, second = numbers(version.rpartition(":")[2])[:2]
    return EPOCH - 100_000_000 + first * 10_000 + second


def under(root: Path, path: str) -> Path:
    """Place of an absolute path below a folder, whose parents are made."""
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    return place
