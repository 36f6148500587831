"""modprobe, rmmod, insmod and lsmod of a lab node: simulated modules go to simgpu, everything else to kmod.

Which modules a name means, with aliases, blacklists and install lines, is always decided by the real modprobe
(--show-depends); only the insertion itself is replaced, for files whose modinfo says gpusmith_simulated=1.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from simgpu import paths
from simgpu.files import read
from simgpu.modinfo import is_simulated, modinfo
from simgpu.modules import BYTES, DEPENDS, named
from simgpu.state import State

KMOD = next((path for path in ("/bin/kmod", "/usr/bin/kmod") if Path(path).exists()), "/bin/kmod")
# Options with a value of their own, and questions, are not about inserting a module here.
ASKS_SHORT = frozenset("cDRVhndSC")
ASKS_LONG = frozenset(
    {
        "--show-depends",
        "--showconfig",
        "--resolve-alias",
        "--help",
        "--version",
        "--show-modversions",
        "--dump-modversions",
    }
)
ASKS_WITH_VALUE = ("--dirname", "--set-version", "--config")


def real(name: str, arguments: Sequence[str]) -> NoReturn:
    """Go on as the real program."""
    os.execv(KMOD, [name, *arguments])  # noqa: S606 - it becomes that program


def ask(*words: str) -> subprocess.CompletedProcess[str]:
    """Ask the real modprobe."""
    return subprocess.run(["modprobe", *words], executable=KMOD, capture_output=True, text=True)


def kernel(*words: str) -> tuple[int, str]:
    """Tell the simulated kernel; returns the errno and what it said."""
    done = subprocess.run([paths.SIMGPU, *words], capture_output=True, text=True)
    return done.returncode, done.stderr.strip().removeprefix("simgpu: ")


def shell(command: str, **environment: str) -> int:
    """Run a line of modprobe.d."""
    return subprocess.run(["/bin/sh", "-c", command], env={**os.environ, **environment}).returncode


def loaded() -> list[str]:
    """The simulated modules that are loaded."""
    try:
        return State.load().modules
    except OSError:
        return []


def live(module: str) -> bool:
    """Whether a module can be used. One that is only just being loaded cannot: the kernel is asked, which waits for that."""
    return read(paths.MODULES / module / "initstate").strip() == "live"


def say(text: str) -> None:
    """A line for people."""
    print(text, file=sys.stderr)


def insmod(arguments: Sequence[str]) -> int:
    """The program insmod."""
    words = [word for word in arguments if not word.startswith("-")]
    if not words or not is_simulated(Path(words[0])):
        real("insmod", arguments)
    code, text = kernel("load", *words)
    if code:
        say(f"insmod: ERROR: could not insert module {words[0]}: {text}")
    return int(code != 0)


def rmmod(arguments: Sequence[str]) -> int:
    """The program rmmod."""
    names = [named(word) for word in arguments if not word.startswith("-")]
    if not any(name in BYTES for name in names):
        real("rmmod", arguments)
    result = 0
    for name in names:
        code, text = kernel("unload", name)
        if code:
            say(f"rmmod: ERROR: {text}")
            result = 1
    return result


def modprobe(arguments: Sequence[str]) -> int:
    """The program modprobe."""
    flags = [word for word in arguments if word.startswith("-")]
    words = [word for word in arguments if not word.startswith("-")]
    short = {letter for word in flags if not word.startswith("--") for letter in word[1:]}
    long = {word for word in flags if word.startswith("--")}
    if (
        not words
        or short & ASKS_SHORT
        or long & ASKS_LONG
        or any(w.startswith(ASKS_WITH_VALUE) for w in long)
    ):
        real("modprobe", arguments)
    if "r" in short or long & {"--remove", "--remove-holders"}:
        return remove(arguments, words, ignore="i" in short or "--ignore-remove" in long)
    many = bool("a" in short or long & {"--all"})
    names, extra = (words, []) if many else (words[:1], words[1:])
    passed: list[str] = [word for word in ("--use-blacklist", "--ignore-install") if word in long]
    passed += [f"-{letter}" for letter in "bi" if letter in short]
    plans = []
    for name in names:
        done = ask("--show-depends", *passed, name, *extra)
        if done.returncode:
            real("modprobe", arguments)
        plans.append((name, [line.rstrip() for line in done.stdout.splitlines()]))
    if not any(inserts_simulated(line) or runs_modprobe(line) for _, plan in plans for line in plan):
        real("modprobe", arguments)
    quiet = "q" in short or "--quiet" in long
    for name, plan in plans:
        for line in plan:
            if code := step(name, line, quiet=quiet, first="--first-time" in long):
                return code
    return 0


def inserts_simulated(line: str) -> bool:
    """Whether a line of --show-depends inserts a simulated module."""
    word, _, rest = line.partition(" ")
    return word == "insmod" and is_simulated(Path(rest.split(" ")[0]))


def runs_modprobe(line: str) -> bool:
    """An install line that may lead back here, as those of Debian's nvidia-kernel-support do."""
    return line.startswith("install ") and "modprobe" in line and "nvidia" in line


def step(name: str, line: str, *, quiet: bool, first: bool) -> int:
    """Do one line of --show-depends; returns the exit status."""
    word, _, rest = line.partition(" ")
    if word == "builtin":
        return 0
    if word == "install":
        return install_line(name, rest)
    path, *options = rest.split(" ")
    if not inserts_simulated(line):
        return subprocess.run(["insmod", path, *options], executable=KMOD).returncode
    module = named(modinfo(Path(path))["name"])
    if live(module):
        if first and module == named(name):
            say(f"modprobe: ERROR: could not insert '{name}': Module already in kernel")
            return 1
        return 0
    code, text = kernel("load", path, *[option for option in options if option])
    # Another modprobe was quicker: kmod ignores that as well, unless the module itself is to be the first (libkmod-module.c).
    if code == errno.EEXIST and not (first and module == named(name)):
        return 0
    if code and not (quiet and code == errno.ENODEV):
        say(f"modprobe: ERROR: could not insert '{module}': {text}")
    return int(code != 0)


def install_line(name: str, command: str) -> int:
    """Run an install command of modprobe.d."""
    code = shell(command, CMDLINE_OPTS=os.environ.get("CMDLINE_OPTS", ""), MODPROBE_MODULE=name)
    if code:
        say(f"modprobe: ERROR: Error running install command '{command}' for module {name}: retcode {code}")
        say(f"modprobe: ERROR: could not insert '{name}': Invalid argument")
    return int(code != 0)


def remove_lines() -> dict[str, str]:
    """The remove commands of modprobe.d, by module."""
    lines = ask("--showconfig").stdout.splitlines()
    rows = (line.split(" ", 2) for line in lines if line.startswith("remove "))
    return {named(row[1]): row[2] for row in rows if len(row) == 3}


def remove(arguments: Sequence[str], words: Sequence[str], ignore: bool) -> int:
    """Do modprobe -r."""
    names = [named(word) for word in words]
    if not any(name in BYTES for name in names):
        real("modprobe", arguments)
    commands = {} if ignore else remove_lines()
    for name in names:
        if name not in loaded():
            continue  # modprobe -r of a module that is not loaded succeeds
        if name in commands:
            if shell(commands[name]):
                return 1
            continue
        code, text = kernel("unload", name)
        if code:
            say(f"modprobe: FATAL: {text}.")
            return 1
        # As modprobe does: what it depended on goes too, if nobody else uses it; nobody minds if not.
        for needed in DEPENDS[name]:
            if needed in loaded():
                kernel("unload", needed)
    return 0


def lsmod(arguments: Sequence[str]) -> int:
    """The program lsmod."""
    if Path("/proc/modules").exists():
        real("lsmod", arguments)
    # A kernel without loadable modules has no such file and there is no place to put one.
    print("Module                  Size  Used by")
    for line in read(paths.RUN / "modules").splitlines():
        name, size, count, by = line.split()[:4]
        print(f"{name:<19} {size:>8}  {count} {by.strip(',-')}".rstrip())
    return 0
