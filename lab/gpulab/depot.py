"""The depot: the one machine from which nodes get packages and images, as a site's mirror would give them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

from gpulab.machines import DEPOT, Machine, Machinery
from gpulab.network import Plan
from gpulab.releases import USUAL, Releases
from gpulab.systems import System
from gpusmith.wait import Deadline, Done, NotYet, wait_until

if TYPE_CHECKING:
    from gpulab.artifacts import Artifacts

SERVE_S = 60.0
KEY_FILE = "/etc/pki/rpm-gpg/RPM-GPG-KEY-gpulab"
PROBE = "import sys,urllib.request as u\nfor url in sys.argv[1:]:\n    u.urlopen(url, timeout=5).read(1)\n"


def machine(plan: Plan, artifacts: Artifacts) -> Machine:
    """The depot of a lab with these artifacts."""
    return Machine(
        DEPOT,
        DEPOT,
        plan.depot,
        init="/sbin/init",
        mounts=(
            (artifacts.apt_root, "/srv/apt", "ro"),
            (artifacts.registry_root, "/var/lib/registry", "rw"),
            *((root, f"/srv/{name}", "ro") for name, root in sorted(artifacts.package_roots.items())),
        ),
    )


def address(plan: Plan, system: System, repository: str, chosen: Releases = USUAL) -> str:
    """Where machines with that operating system find a repository, in a lab with these releases."""
    root = chosen.root(repository)
    if root:
        return f"http://{plan.depot}/{root}/{system.tag if system.manager == 'dnf' else 'deb'}/"
    # Only Docker, Kubernetes and NVIDIA's toolkit have the same .deb packages for all.
    own = system.own_repositories and (system.manager == "dnf" or repository in ("cuda", *system.archive))
    return f"http://{plan.depot}/{system.name if own else 'apt'}/{repository}/"


def operating_system_sources(plan: Plan, artifacts: Artifacts, system: System) -> tuple[tuple[str, str], ...]:
    """What an installer leaves on a node of this site: where its operating system's own packages are."""
    key = artifacts.apt_key.read_text()
    if system.manager == "dnf":
        found = [(KEY_FILE, key)]
        for name in system.archive:
            text = f"[{name}]\nname={name}\nbaseurl={address(plan, system, name)}\ngpgcheck=1\ngpgkey=file://{KEY_FILE}\n"
            found.append((f"/etc/yum.repos.d/{name}.repo", text))
        return tuple(found)
    inside = "".join(f" {line or '.'}\n" for line in key.splitlines())
    return tuple(
        (
            f"/etc/apt/sources.list.d/{name}.sources",
            f"Types: deb\nURIs: {address(plan, system, name)}\nSuites: ./\nSigned-By:\n{inside}",
        )
        for name in system.archive
    )


def urls(plan: Plan, repositories: list[str]) -> list[str]:
    """What must answer before the depot counts as up."""
    return [
        f"http://{plan.registry}/v2/",
        f"http://{plan.depot}/apt/",
        *(f"http://{plan.depot}/{path}" for path in repositories),
    ]


def serves(machinery: Machinery, depot: Machine, plan: Plan, repositories: list[str]) -> bool:
    """Whether packages and images are served now; not so after the cache below a running depot was deleted."""
    return _asked(machinery, depot, urls(plan, repositories)).returncode == 0


def wait_serving(machinery: Machinery, depot: Machine, plan: Plan, repositories: list[str]) -> None:
    """Wait until packages and images are served.

    Raises:
        WaitTimeout: the depot does not answer; names the address and what was seen last.
    """
    wanted = urls(plan, repositories)

    def check() -> Done[None] | NotYet:
        done = _asked(machinery, depot, wanted)
        if done.returncode == 0:
            return Done(None)
        return NotYet((done.stderr.strip().splitlines() or ["no answer"])[-1])

    wait_until(
        f"the depot at '{plan.depot}' to serve packages and images", check, Deadline(SERVE_S), tick=0.5
    )


def _asked(machinery: Machinery, depot: Machine, addresses: list[str]) -> subprocess.CompletedProcess[str]:
    return machinery.podman.exec(depot.container, ["python3", "-c", PROBE, *addresses], check=False)
