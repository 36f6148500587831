"""Machines with Debian's own packages, each a container with systemd, on which a role is run. Nothing of a GPU is simulated."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from gpulab.artifacts import debian
from gpulab.hosts import Host
from gpulab.podman import Podman

from gpusmith.wait import Deadline, Done, NotYet, wait_until
from tests.e2e.harness import Ended, Lab
from tests.long.package_systems import made

SYSTEM = ("ca-certificates", "dbus", "pciutils", "procps", "systemd", "systemd-sysv", "udev")
EXCLUDED = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*")
ROLE = """- hosts: all
  gather_facts: false
  tasks:
    - ansible.builtin.import_role:
        name: "gpusmith.gpu.{role}"
        tasks_from: "{{{{ entry }}}}"
        rolespec_validate: false
"""
QUIET: dict[str, Any] = {
    "host_baseline_swap": "keep",
    "host_baseline_modules": [],
    "host_baseline_sysctl": {},
    "host_baseline_sysctl_minimum": {},
    "host_baseline_time_synchronised": "ignore",
}
"""Role host_baseline without what a container's kernel shares with the host."""
ROLE_TIMEOUT_S = 3600.0
READY_S = 120.0


@dataclass(frozen=True)
class Machine:
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

    def wait_for_boot(self) -> None:
        """Until all services are started."""

        def ready() -> Done[str] | NotYet:
            state = self.ask("systemctl", "is-system-running", check=False)
            return Done(state) if state in ("running", "degraded") else NotYet(state or "no answer")

        wait_until(f"'{self.name}' to boot", ready, Deadline(READY_S))

    def write(self, path: str, text: str) -> None:
        """A file there."""
        words = ["exec", "--interactive", self.name, "sh", "-c", f"cat > {path}"]
        self.podman.run(*words, stdin=text.encode())

    def variables(self, **values: Any) -> None:
        """What the inventory says of it, besides how it is reached."""
        reached = {
            "ansible_connection": "containers.podman.podman",
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        self.inventory.write_text(json.dumps({"all": {"hosts": {self.name: {**reached, **values}}}}))

    def play(self, role: str, entry: str, *options: str, **variables: Any) -> Ended:
        """A role, by one of its entries."""
        playbook = self.inventory.with_name("role.yml")
        playbook.write_text(ROLE.format(role=role))
        words = ["-i", str(self.inventory), "-e", json.dumps({"entry": entry, **variables}), str(playbook)]
        return self.runs.run(self.runs.program("ansible-playbook"), *words, *options, timeout=ROLE_TIMEOUT_S)


def host_rootfs(suite: str) -> debian.Rootfs:
    """What role host_baseline meets on a machine, with firewalld."""
    # firewalld of Debian does not start without /etc/protocols, and does not depend on the package that has it.
    more = ("firewalld", "iproute2", "kmod", "netbase", "python3")
    return debian.Rootfs(f"firewalld-{suite}", suite, "minbase", (*SYSTEM, *more), EXCLUDED, unpacked=True)


@contextmanager
def booted(kind: str, label: str, rootfs: debian.Rootfs, root: Path, folder: Path) -> Iterator[Machine]:
    """A machine for a while.

    Args:
        kind: begins the container's name.
        label: of the container.
        rootfs: what it has.
        root: of the checkout.
        folder: for inventory and logs.
    """
    if os.geteuid() != 0:
        pytest.skip("systems of their own need root")
    there = made(rootfs)
    podman, name = Podman(folder / "podman.log"), f"{kind}-{rootfs.suite}-{uuid.uuid4().hex[:6]}"
    words = [
        *("run", "--detach", "--pull=never", "--name", name, "--hostname", rootfs.suite, "--label", label),
        *("--network=podman", "--privileged", *Host.this().machine_flags()),
        *("--tmpfs", "/run:rw,exec", "--tmpfs", "/run/lock", "--tmpfs", "/tmp:exec"),
        *("--env", "container=podman", "--stop-signal", "SIGRTMIN+3"),
        *("--rootfs", f"{there}:O", "/sbin/init"),
    ]
    try:
        podman.run(*words)
        lab, inventory = Lab(root, folder / "logs"), folder / f"{name}.json"
        machine = Machine(name, rootfs.suite, podman, lab, inventory)
        machine.wait_for_boot()
        machine.variables()
        yield machine
    finally:
        podman.run("rm", "--force", "--time", "5", name, check=False)
