"""The driver's kernel modules on a node: built by DKMS and packed, or taken from another node's build."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import gzip
import json
import lzma
import os
import platform
import re
import tarfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple

from ansible_collections.gpusmith.gpu.plugins.module_utils import built_archive, files

# What packagers call the driver's module in DKMS: NVIDIA's and Ubuntu's, EL's open one, Debian's, Ubuntu's for servers.
NAMES = ("nvidia", "nvidia-open", "nvidia-current", "nvidia-current-open", "nvidia-srv")
SCHEMA = "gpusmith.modules/1"
NOTES = "var/lib/gpusmith/modules"
WITHHELD = "run/gpusmith/modules-withheld"
MARK = "# Written by gpusmith"
# A boot, and whoever removes the other file, lets DKMS build again; sh sources this, and an empty release matches no kernel.
EXCLUSION = (
    MARK + " while it installs the driver: one node of several builds its modules.\n"
    "if [ -e '{}' ]; then BUILD_EXCLUSIVE_KERNEL='^$'; fi\n"
)
STATUS = re.compile(
    r"^(?P<name>[^/, ]+)(?:/|, ?)(?P<version>[^,: ]+)(?:, (?P<kernel>[^,]+), (?P<machine>[^,:]+))?: (?P<state>\w+)"
)
# In DKMS's log: for which kernel it is, what a compiler or the linker of modules says is wrong.
LOG_OF = re.compile(r"make\.log for \S+ for kernel (\S+)")
WRONG = re.compile(r"(?m)^(?:\S*/)?([^/\s:]+:\d+(?::\d+)?: (?:fatal )?error: .+|ERROR: modpost: .+)$")
ENDINGS = (".ko", ".ko.gz", ".ko.xz", ".ko.zst")
FOLDERS = ("updates", "extra", "weak-updates", "kernel")
LAST_WORDS = 12
QUOTES = str.maketrans("\u2018\u2019", "''")

Run = Callable[[Sequence[str]], Tuple[int, str, str]]
Modinfo = Callable[[bytes], Mapping[str, str]]


class BuiltModulesError(Exception):
    """It could not be done.

    Attributes:
        outcome: 'build', the modules do not compile; 'dependent', one of others does not; 'unfit', they are not for this node; 'dkms', it does not do what it is asked.
        message: sentences for people.
    """

    def __init__(self, outcome: str, message: str) -> None:
        super().__init__(message)
        self.outcome, self.message = outcome, message


def last_words(text: str) -> str:
    """The end of what a program said, in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " / ".join(lines[-LAST_WORDS:])


def compiler_said(log: str) -> str:
    """What is wrong, by DKMS's log of a build that failed."""
    found = WRONG.search(log)
    return found.group(1).translate(QUOTES) if found else last_words(log)


class Node:
    """The modules of one driver version on this machine.

    Args:
        run: runs a program: its status, output and errors.
        modinfo: reads a module's fields.
        version: of the driver, without the packager's part.
        root: replaced in tests.
    """

    def __init__(self, run: Run, modinfo: Modinfo, version: str, root: Path = Path("/")) -> None:
        self._run, self._modinfo, self.version, self._root = run, modinfo, version, root
        self._tree = root / "var/lib/dkms"
        self._exclusion = EXCLUSION.format(root / WITHHELD)
        self._machine = platform.machine()

    # --- keeping DKMS from building ------------------------------------------------------------------------------

    def withhold(self) -> bool:
        """Keep DKMS from building this version; whether that is new. A file of an administrator stays as it is."""
        new = not (self._root / WITHHELD).exists()
        files.put(self._root / WITHHELD, "")
        for name in NAMES:
            path = self._root / "etc/dkms" / "{}-{}.conf".format(name, self.version)
            if not path.exists():
                files.put(path, self._exclusion)
                new = True
        return new

    def allow(self) -> bool:
        """Let DKMS build again; whether anything kept it from that."""
        ours = [path for path in self._exclusions() if files.read(path) == self._exclusion]
        there = [path for path in [*ours, self._root / WITHHELD] if path.exists()]
        for path in there:
            path.unlink()
        folder = self._root / "etc/dkms"
        # DKMS itself may not have been installed.
        if ours and not any(folder.iterdir()):
            folder.rmdir()
        return bool(there)

    def _exclusions(self) -> List[Path]:
        return sorted((self._root / "etc/dkms").glob("nvidia*.conf"))

    # --- building ------------------------------------------------------------------------------------------------

    def build(self, kernel: str) -> bool:
        """Have DKMS build the modules for a kernel, and install them there; whether anything was compiled.

        A note of modules that were taken for this kernel goes, since these are the node's own.

        Raises:
            BuiltModulesError: they do not compile, or DKMS does not know the driver.
        """
        name, states = self._known()
        compiles = kernel not in states
        note = self._root / NOTES / (kernel + ".json")
        # What is installed may not be what DKMS keeps: another name's removal can take the files, and nothing tells of modules
        # that were taken any more once the note is gone.
        self._uninstall(name, states, kernel)
        if note.exists():
            note.unlink()
        for step in ("build", "install"):
            if step == "build" and not compiles:
                continue
            words = ["dkms", step, "-m", name, "-v", self.version, "-k", kernel]
            if step == "install" and not compiles:
                words.append("--force")
            status, output, errors = self._run(words)
            if status != 0:
                self._refuse(name, kernel, self._log_of(name, kernel) if step == "build" else None)
                raise BuiltModulesError(
                    "build",
                    "Driver {} cannot be built for kernel '{}': '{}' ended with {}: {}".format(
                        self.version, kernel, " ".join(words), status, last_words(errors + output)
                    ),
                )
        return compiles

    def restore(self, kernel: str) -> None:
        """Install what DKMS keeps for a kernel once more. A note of modules that were taken stays, and is true again.

        Raises:
            BuiltModulesError: DKMS keeps nothing.
        """
        name, states = self._known()
        self._uninstall(name, states, kernel)
        self._must(["dkms", "install", "--force", "-m", name, "-v", self.version, "-k", kernel])

    def _uninstall(self, name: str, states: Mapping[str, str], kernel: str) -> None:
        """Have DKMS forget that a kernel has the modules: 2.8 installs nothing twice, also with --force (maybe_install_module)."""
        if states.get(kernel) == "installed":
            self._must(["dkms", "uninstall", "-m", name, "-v", self.version, "-k", kernel])

    def mend(self, repair: Callable[[], bool]) -> bool:
        """Finish packages whose module did not compile when they were installed; whether there was anything to finish.

        They are configured without their module, so that the package manager can go on with whatever comes next.

        Args:
            repair: has the package manager finish what was left half done; whether there was anything.

        Raises:
            BuiltModulesError: a module does not compile, which is why.
        """
        logs = {(name, kernel): text for name in NAMES for kernel, text in self._logs(name)}
        if not logs:
            return False
        self.withhold()
        try:
            mended = repair()
        finally:
            self.allow()
        for (name, kernel), text in logs.items() if mended else ():
            # The scripts that were just run again have taken it away.
            files.put(self._log(name), text)
            self._refuse(name, kernel, text)
        return mended

    def _log(self, name: str) -> Path:
        """Where DKMS writes what a build says, which stays there if it fails."""
        return self._tree / name / self.version / "build/make.log"

    def _logs(self, name: str) -> Iterator[Tuple[str, str]]:
        path = self._log(name)
        text = path.read_text(errors="replace") if path.is_file() else ""
        found = LOG_OF.search(text)
        if found:
            yield found.group(1), text

    def _log_of(self, name: str, kernel: str) -> Optional[str]:
        return dict(self._logs(name)).get(kernel)

    def _refuse(self, name: str, kernel: str, log: Optional[str]) -> None:
        """Say what the compiler said, if there is a log of it."""
        if log is None:
            return
        raise BuiltModulesError(
            "build",
            "Module '{}' of driver {} does not compile for kernel '{}': {}. The whole log is '{}' there.".format(
                name, self.version, kernel, compiler_said(log), self._log(name)
            ),
        )

    def pack(self, kernel: str, archive: Path) -> Dict[str, Any]:
        """Pack the modules that were built for a kernel, not compressed, as DKMS's own archives are; what is in it.

        Raises:
            BuiltModulesError: they are not what the driver and the kernel are.
        """
        name, _states = self._known()
        folder = self._tree / name / self.version / kernel / self._machine / "module"
        modules = {
            path.name[: path.name.index(".ko")] + ".ko": self._plain(path) for path in _modules(folder)
        }
        if not modules:
            raise BuiltModulesError("dkms", "DKMS keeps no modules in '{}'.".format(folder))
        described = {"name": name, "version": self.version, "kernel": kernel, "machine": self._machine}
        rows = {file: self._row(data, folder / file) for file, data in modules.items()}
        manifest = {"schema": SCHEMA, **described, "files": rows}
        self._fits(manifest, modules)
        conf = (self._tree / name / self.version / "source/dkms.conf").read_bytes()
        place = built_archive.place(kernel, self._machine)
        contents = {
            built_archive.MAIN + "/dkms_dbversion": built_archive.DATABASE.encode(),
            built_archive.STUB + "/PACKAGE_NAME": name.encode() + b"\n",
            built_archive.STUB + "/PACKAGE_VERSION": self.version.encode() + b"\n",
            built_archive.STUB + "/dkms.conf": conf,
            place + "/log/make.log": b"Built on another node (gpusmith).\n",
            **{"{}/module/{}".format(place, file): data for file, data in modules.items()},
        }
        archive.touch(mode=0o600)
        with archive.open("wb") as target:
            built_archive.write_archive(target, contents)
        return {**manifest, "compiled_unix": int(time.time())}

    def _row(self, data: bytes, path: Path) -> Dict[str, str]:
        said = self._modinfo(data)
        _status, signer, _errors = self._run(["modinfo", "-F", "signer", str(_existing(path))])
        return {
            "sha256": built_archive.digest(data),
            "vermagic": said.get("vermagic", ""),
            "srcversion": said.get("srcversion", ""),
            "signer": signer.strip(),
        }

    def _plain(self, path: Path) -> bytes:
        """A module, not compressed. No Python of a node reads zstd."""
        if path.suffix == ".zst":
            target = path.with_name(".gpusmith-plain")
            status, output, errors = self._run(["zstd", "-dqf", str(path), "-o", str(target)])
            if status != 0:
                raise BuiltModulesError(
                    "dkms", "'{}' cannot be read: {}".format(path, last_words(errors + output))
                )
            data = target.read_bytes()
            target.unlink()
            return data
        packed = path.read_bytes()
        return {".xz": lzma.decompress, ".gz": gzip.decompress}.get(path.suffix, bytes)(packed)

    # --- taking --------------------------------------------------------------------------------------------------

    def take(self, archive: Path, manifest: Mapping[str, Any], builder: str) -> None:
        """Install modules that another node has built, without a compiler, after they have proved to fit.

        Raises:
            BuiltModulesError: they are not for this node, or DKMS does not take them.
        """
        kernel = str(manifest["kernel"])
        modules = self._unpacked(archive, kernel)
        self._fits(manifest, modules)
        name, states = self._known()
        if name != manifest["name"]:
            self._unfit(
                "DKMS calls the driver's module '{}' here, and '{}' there".format(name, manifest["name"])
            )
        named = ["-m", name, "-v", self.version, "-k", kernel]
        self._uninstall(name, states, kernel)
        # It ends with 3 although it has done what it was asked to: then it adds the driver, which the package has done.
        status, output, errors = self._run(["dkms", "ldtarball", "--archive", str(archive), "--force"])
        if self._known()[1].get(kernel) != "built":
            raise BuiltModulesError(
                "dkms", "'dkms ldtarball' ended with {}: {}".format(status, last_words(errors + output))
            )
        self._must(["dkms", "install", *named, "--force"])
        rows = []
        for file, row in sorted(manifest["files"].items()):
            path = self._installed(kernel, file)
            if path is None or built_archive.digest(path.read_bytes()) != row["sha256"]:
                raise BuiltModulesError(
                    "dkms",
                    "After 'dkms install' kernel '{}' does not have the module '{}'.".format(kernel, file),
                )
            rows.append({"path": "/" + str(path.relative_to(self._root)), "sha256": row["sha256"]})
        note = {
            "schema": SCHEMA,
            "kernel": kernel,
            "version": self.version,
            "builder": builder,
            "signer": next((row["signer"] for row in manifest["files"].values()), ""),
            "files": rows,
        }
        files.put(self._root / NOTES / (kernel + ".json"), json.dumps(note, indent=1, sort_keys=True) + "\n")

    def _unpacked(self, archive: Path, kernel: str) -> Dict[str, bytes]:
        """Modules of an archive by name. Whatever else is in it is not for this kernel and machine."""
        place = built_archive.place(kernel, self._machine) + "/module/"
        found = {}
        with tarfile.open(archive) as packed:
            for member in packed:
                path = member.name[2:] if member.name.startswith("./") else member.name
                stream = packed.extractfile(member) if member.isfile() else None
                if stream is None or not built_archive.is_expected(path, place):
                    self._unfit("its archive has '{}'".format(member.name))
                elif path.startswith(place):
                    found[path[len(place) :]] = stream.read()
        return found

    def _fits(self, manifest: Mapping[str, Any], modules: Mapping[str, bytes]) -> None:
        """Refuse modules of another driver, machine or kernel, and those that are not what the manifest says."""
        kernel = str(manifest["kernel"])
        if manifest["version"] != self.version:
            self._unfit("they are of driver {}".format(manifest["version"]))
        if manifest["machine"] != self._machine:
            self._unfit("they are for machines of kind '{}'".format(manifest["machine"]))
        if not (self._root / "lib/modules" / kernel).is_dir():
            self._unfit("they are for kernel '{}', which is not installed".format(kernel))
        if set(modules) != set(manifest["files"]):
            self._unfit("there are {}, and not {}".format(_words(modules), _words(manifest["files"])))
        own = self._vermagic_of_kernel(kernel)
        for name, data in modules.items():
            row, said = manifest["files"][name], self._modinfo(data)
            vermagic = said.get("vermagic", "").strip()
            if built_archive.digest(data) != row["sha256"]:
                self._unfit("the checksum of '{}' is another one than its builder's".format(name))
            if said.get("version") != self.version:
                self._unfit("'{}' says that it is of version {}".format(name, said.get("version")))
            if vermagic.split(" ")[0] != kernel or (own and vermagic != own):
                self._unfit(
                    "'{}' is for kernel '{}', and this is '{}'".format(
                        name, vermagic or "none", own or kernel
                    )
                )

    def _vermagic_of_kernel(self, kernel: str) -> str:
        """What the kernel's own modules say that they are for, however they are packed; empty if it has none."""
        for folder, _folders, names in os.walk(str(self._root / "lib/modules" / kernel / "kernel")):
            for name in sorted(names):
                path = Path(folder) / name
                if name.endswith(ENDINGS) and not name.startswith("nvidia"):
                    return self._run(["modinfo", "-F", "vermagic", str(path)])[1].strip()
        return ""

    def _installed(self, kernel: str, file: str) -> Any:
        """The path of a module in a kernel's folder, where DKMS has put it; None if it is nowhere."""
        for place in FOLDERS:
            for folder, _folders, names in os.walk(str(self._root / "lib/modules" / kernel / place)):
                if file in names:
                    return Path(folder) / file
        return None

    # --- DKMS ----------------------------------------------------------------------------------------------------

    def _known(self) -> Tuple[str, Dict[str, str]]:
        """What DKMS calls the driver's module, and by kernel whether it is built or installed."""
        output = self._must(["dkms", "status"])
        rows = [found for found in map(STATUS.match, output.splitlines()) if found]
        rows = [row for row in rows if row["version"] == self.version and row["name"].startswith("nvidia")]
        if not rows:
            raise BuiltModulesError(
                "dkms",
                "DKMS knows no driver {}: its package is not installed, or is none for DKMS.".format(
                    self.version
                ),
            )
        states = {row["kernel"]: row["state"] for row in rows if row["machine"] == self._machine}
        return rows[0]["name"], states

    def _must(self, words: Sequence[str]) -> str:
        status, output, errors = self._run(words)
        if status != 0:
            raise BuiltModulesError(
                "dkms", "'{}' ended with {}: {}".format(" ".join(words), status, last_words(errors + output))
            )
        return output

    def _unfit(self, why: str) -> NoReturn:
        raise BuiltModulesError(
            "unfit",
            "The modules of driver {} that were built elsewhere do not fit: {}.".format(self.version, why),
        )


def _modules(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name.endswith(ENDINGS):
                yield path


def _existing(path: Path) -> Path:
    """The file as DKMS keeps it, perhaps compressed."""
    return next(
        (
            found
            for found in map(path.parent.joinpath, (path.name[:-3] + end for end in ENDINGS))
            if found.exists()
        ),
        path,
    )


def _words(names: Any) -> str:
    return ", ".join("'{}'".format(name) for name in sorted(names)) or "none"
