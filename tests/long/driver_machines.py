"""Machines with Debian's own packages and kernels, on which role nvidia_driver is run by Ansible; nothing of a GPU is simulated.

Each is a container with systemd, of which the root file system has a kernel of Debian with its headers, DKMS and a compiler. The
kernel that runs is the host's, for which there is no module: the role builds for Debian's kernel, as where an image is baked. So
nothing is loaded here, ever.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpulab.artifacts import debian
from gpulab.hosts import Host
from gpulab.podman import Podman

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import Ended, Lab
from tests.long.kernels import EXCLUDED, PACKAGES
from tests.long.package_systems import made

LABEL = "io.gpusmith.test=real-driver"
SYSTEM = ("ca-certificates", "dbus", "pciutils", "procps", "systemd", "systemd-sysv", "udev")
COMPONENTS = ("main", "contrib", "non-free", "non-free-firmware")
ROLE = """- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: gpusmith.gpu.nvidia_driver
        tasks_from: "{{ entry }}"
        rolespec_validate: false
"""
COMPILE_TIMEOUT_S = 3600.0
READY_S = 120.0
# Paths and contents below /etc, paths alone of what is large; of dpkg's own, what packages divert and offer as alternatives.
LOOK = r"""set -e
dpkg-query --show --showformat='package ${Package} ${Version} ${db:Status-Abbrev}\n'
find /etc -xdev -type f ! -path /etc/ld.so.cache -exec sha256sum {} + | awk '{print "file", $2, $1}'
find /etc -xdev -type l -printf 'link %p %l\n'
find /boot /usr /var/lib -xdev \( -path /var/lib/apt -o -path /var/lib/dpkg/info -o -name __pycache__ \) -prune -o \
    ! -type d ! -path '/var/lib/dpkg/*-old' ! -name 'lock*' -printf 'file %p -\n'
dpkg-divert --list | sed 's/^/diverted /'
"""


@dataclass(frozen=True)
class DriverMachine:
    """A machine.

    Attributes:
        name: of the container, and in the inventory.
        suite: Debian's code name.
        podman: runs programs there.
        runs: runs Ansible here, and keeps what it printed.
        inventory: file of it alone.
    """

    name: str
    suite: str
    podman: Podman
    runs: Lab
    inventory: Path

    def ask(self, *words: str, check: bool = True) -> str:
        """What a program there prints."""
        return self.podman.run("exec", self.name, *words, check=check, quiet=True).stdout.strip()

    def sh(self, text: str) -> str:
        """What a line of a shell there prints."""
        return self.ask("sh", "-c", text)

    def role(self, entry: str = "install", **variables: Any) -> Ended:
        """Role nvidia_driver, by one of its entries."""
        playbook = self.inventory.with_name("role.yml")
        playbook.write_text(ROLE)
        words = ["-i", str(self.inventory), "-e", json.dumps({"entry": entry, **variables}), str(playbook)]
        return self.runs.run(self.runs.program("ansible-playbook"), *words, timeout=COMPILE_TIMEOUT_S)

    def kernel(self) -> str:
        """The kernel of Debian that there are headers for."""
        return self.sh("basename $(dirname /lib/modules/*/build)")

    def modinfo(self, field: str, name: str = "nvidia-current") -> str:
        """What the module for that kernel says of itself; empty if there is none."""
        return self.ask("modinfo", "-k", self.kernel(), "-F", field, name, check=False)

    def packages(self) -> dict[str, str]:
        """Versions of the packages that are there whole."""
        rows = self.sh("dpkg-query --show --showformat='${Package} ${Version} ${db:Status-Abbrev}\n'")
        parts = [line.split() for line in rows.splitlines()]
        return {name: version for name, version, state in parts if state.endswith("i")}

    def held(self) -> set[str]:
        """Packages that upgrades leave alone."""
        return set(self.ask("apt-mark", "showhold").split())

    def purgeable(self) -> set[str]:
        """Packages that are gone but for their configuration files."""
        rows = self.sh("dpkg-query --show --showformat='${Package} ${db:Status-Abbrev}\n'").splitlines()
        return {name for name, state, *_ in (line.split() for line in rows) if state == "rc"}

    def half_done(self) -> str:
        """What dpkg says of packages that are not there whole."""
        return self.ask("dpkg", "--audit")

    def snapshot(self) -> set[str]:
        """Packages, files with their contents, and links, a line each."""
        return set(self.sh(LOOK).splitlines())


def _key() -> str:
    """Keys of Debian's archive."""
    words = ["gpg", "--no-default-keyring", "--keyring", debian.KEYRING, "--armor", "--export"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


def _repository(suite: str) -> Mapping[str, Any]:
    source = debian.sources_for(suite)[0]
    return {"uris": [source.uri], "suites": [suite], "components": list(COMPONENTS), "key": _key()}


def _prepare(machine: DriverMachine) -> None:
    """The archive as a person has it in the machine's own sources; with another word on keys apt reads none of them."""
    sources = [
        f"deb {source.uri} {source.suite} {' '.join(COMPONENTS)}"
        for source in debian.sources_for(machine.suite)
    ]
    texts = {
        "/etc/apt/sources.list": "\n".join(sources) + "\n",
        "/etc/apt/apt.conf.d/90site": debian.forwarded_options(),
    }
    for path, text in texts.items():
        machine.podman.run(
            "exec", "--interactive", machine.name, "sh", "-c", f"cat > {path}", stdin=text.encode()
        )
    machine.ask("apt-get", "update", "-q")
    variables = {
        "ansible_connection": "containers.podman.podman",
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "nvidia_driver_package_layout": "distribution",
        "nvidia_driver_repository": _repository(machine.suite),
    }
    machine.inventory.write_text(json.dumps({"all": {"hosts": {machine.name: variables}}}))


@contextmanager
def started(suite: str, root: Path, folder: Path) -> Iterator[DriverMachine]:
    """A machine for a while.

    Args:
        suite: Debian's code name.
        root: of the checkout.
        folder: for inventory and logs.
    """
    packages = tuple(sorted({*PACKAGES, *SYSTEM}))
    rootfs = made(debian.Rootfs(f"driver-{suite}", suite, "minbase", packages, EXCLUDED, unpacked=True))
    podman, name = Podman(folder / "podman.log"), f"real-driver-{suite}-{uuid.uuid4().hex[:6]}"
    words = [
        *("run", "--detach", "--pull=never", "--name", name, "--hostname", suite, "--label", LABEL),
        *("--network=podman", "--privileged", *Host.this().machine_flags()),
        *("--tmpfs", "/run:rw,exec", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec"),
        *("--env", "container=podman", "--stop-signal", "SIGRTMIN+3"),
        *("--rootfs", f"{rootfs}:O", "/sbin/init"),
    ]
    try:
        podman.run(*words)
        machine = DriverMachine(name, suite, podman, Lab(root, folder / "logs"), folder / f"{name}.json")

        def ready() -> Done[str] | NotYet:
            state = machine.ask("systemctl", "is-system-running", check=False)
            return Done(state) if state in ("running", "degraded") else NotYet(state or "no answer")

        wait_until(f"'{name}' to boot", ready, Deadline(READY_S))
        _prepare(machine)
        yield machine
    finally:
        podman.run("rm", "--force", "--time", "5", name, check=False)
