"""The fault 'driver-library-mismatch'."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Mapping

from simgpu import driver
from simgpu.errors import RefusedError
from simgpu.fault import Fault, Target, loaded_driver
from simgpu.faults_file import Packages
from simgpu.processes import call, output
from simgpu.state import State

LIBRARY = "libnvidia-ml1"
APT_GET = (
    *("env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-y", "-q"),
    *("--allow-downgrades", "--allow-change-held-packages", "--no-install-recommends"),
    *("-o", "Dpkg::Options::=--force-confold", "install"),
)


class DriverLibraryMismatch(Fault):
    """Another driver version is installed while the old module stays loaded, as an unattended upgrade does."""

    name = "driver-library-mismatch"
    help = "another driver version is installed while the old module stays loaded"
    needs = (loaded_driver,)

    def inject(self, at: Target) -> None:
        """Install another version of the driver's packages."""
        loaded = at.state.values["version"]
        mine = _driver_packages(loaded)
        if not any(name.startswith(LIBRARY) for name in mine):
            text = f"package {LIBRARY} {loaded} is not installed: nothing to upgrade"
            raise RefusedError(errno.ENOENT, text)
        held = output("apt-mark", "showhold").split()
        other = _other_version(loaded, mine)
        _install(dict.fromkeys(mine, other), held)
        at.row["packages"] = Packages(versions=mine, held=[name for name in mine if name in held])

    def heal(self, at: Target) -> None:
        """Install the packages as they were."""
        before = at.row["packages"]
        now = {name: version for name, version, *_ in _dpkg("${Package}\t${Version}", *before["versions"])}
        if now != before["versions"]:
            _install(before["versions"], before["held"])

    def after_heal(self) -> None:
        """A reboot in between loaded the other version: load the right one."""
        state = State.load()
        if "nvidia" in state.modules:
            rows = _dpkg("${Package}\t${Version}", LIBRARY)
            if state.values["version"] not in {version.split("-")[0] for _, version, *_ in rows}:
                driver.reload()


def _dpkg(query: str, *names: str) -> list[list[str]]:
    return [
        line.split("\t") for line in output("dpkg-query", "-W", f"-f={query}\n", *names).splitlines() if line
    ]


def _driver_packages(loaded: str) -> dict[str, str]:
    """The installed packages of the loaded driver, with their versions."""
    return {
        name: version
        for name, version, status in _dpkg("${Package}\t${Version}\t${db:Status-Abbrev}")
        if version.split("-")[0] == loaded
        and status.startswith(("ii", "hi"))
        and not name.startswith("nvidia-driver-pinning-")
    }


def _other_version(loaded: str, mine: Mapping[str, str]) -> str:
    """The newest other version that the repository has of all of them; one of the same branch if there is any."""
    offered = []
    for name in mine:
        lines = output("apt-cache", "madison", name).splitlines()
        offered.append({line.split("|")[1].strip() for line in lines if "|" in line})
    common = set.intersection(*offered) - set(mine.values())
    if not common:
        text = f"the package repository offers no version beside {loaded}: nothing to upgrade to"
        raise RefusedError(errno.ENOENT, text)
    branch = loaded.split(".", 1)[0]

    def rank(version: str) -> tuple[bool, list[int]]:
        return version.split(".", 1)[0] == branch, [int(part) for part in re.findall(r"\d+", version)]

    return max(common, key=rank)


def _install(versions: Mapping[str, str], held: Iterable[str]) -> None:
    call(*APT_GET, *(f"{name}={version}" for name, version in versions.items()))
    if names := [name for name in versions if name in held]:
        call("apt-mark", "hold", *names)
