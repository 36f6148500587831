"""Machines of the lab: podman containers that boot systemd and are otherwise bare operating systems."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from gpulab import delays
from gpulab.hosts import Host
from gpulab.network import MOST_MACHINES, NETWORK, Plan
from gpulab.podman import KILLED, LABEL, MISSING, Podman
from gpulab.state import Places, Shape, write_atomically
from gpulab.systems import DEFAULT
from gpusmith.errors import InputError, ToolError
from gpusmith.wait import Deadline, Done, GiveUp, NotYet, wait_until

NODE_INIT = "/usr/lib/simgpu/init"
"""Sets up simulated hardware and a boot id of the machine's own, then becomes /sbin/init."""

DEPOT = "depot"
MOST_GPUS = 8
BOOT_S = 120.0
BOOTED = ("running", "degraded")


@dataclass(frozen=True)
class Machine:
    """One machine.

    Attributes:
        name: hostname, and name in the inventory.
        role: `control-plane`, `gpu`, `cpu` or `depot`.
        address: fixed address on the lab network.
        init: first process.
        mounts: (folder of the host, path in the machine, mount options).
        files: path in the machine -> text, what its installer left there beside the identity.
        gpus: number of its GPUs.
        system: name of its operating system.
    """

    name: str
    role: str
    address: str
    init: str = NODE_INIT
    mounts: tuple[tuple[Path, str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    gpus: int = 0
    system: str = DEFAULT

    @property
    def container(self) -> str:
        """Name of its container."""
        return f"gpulab-{self.name}"

    @property
    def volume(self) -> str:
        """Name of the volume that is its /var."""
        return f"{self.container}-var"


def planned(shape: Shape, places: Places) -> list[Machine]:
    """The nodes of a lab of this shape, in the order in which they are made.

    Raises:
        InputError: more machines than the network has addresses for, a negative number, or sizes of machines that are not there.
    """
    for option, count, least in (
        ("--gpu-nodes", shape.gpu_nodes, 0),
        ("--cpu-nodes", shape.cpu_nodes, 0),
        *(("--gpus", count, 1) for count in shape.gpus),
    ):
        most = MOST_GPUS if option == "--gpus" else MOST_MACHINES
        if not least <= count <= most:
            raise InputError(
                f"Option '{option} {count}' is outside {least} to {most}.", "Choose a number in that range."
            )
    if len(shape.gpus) > max(shape.gpu_nodes, 1):
        raise InputError(
            f"Option '--gpus {shape.sizes}' is for {len(shape.gpus)} machines, and there are {shape.gpu_nodes} with GPUs.",
            f"Add '--gpu-nodes {len(shape.gpus)}'.",
        )
    for name in shape.named_systems:
        if name not in [f"gpu-{number}" for number in range(1, shape.gpu_nodes + 1)]:
            raise InputError(
                f"Option '--os' names '{name}', which is no machine with GPUs of this lab.",
                "It is for gpu-1, gpu-2, ...; the cluster's own machines have Debian 12.",
            )
    plan = Plan.parse(shape.subnet)
    shared = (places.shared, "/srv/shared", "rw")
    machines = [Machine("cp-1", "control-plane", plan.control_plane, mounts=(shared,))]
    for number in range(1, shape.gpu_nodes + 1):
        name = f"gpu-{number}"
        mounts = ((places.hardware(name), "/var/lib/simgpu", "rw"), shared)
        gpus = shape.gpus[min(number, len(shape.gpus)) - 1]
        machine = Machine(name, "gpu", plan.gpu(number), mounts=mounts, gpus=gpus, system=shape.system(name))
        machines.append(machine)
    machines += [
        Machine(f"cpu-{number}", "cpu", plan.cpu(number), mounts=(shared,))
        for number in range(1, shape.cpu_nodes + 1)
    ]
    return machines


def find(machines: Iterable[Machine], name: str) -> Machine:
    """The machine of that name.

    Raises:
        InputError: there is none; lists those that are.
    """
    known = list(machines)
    for machine in known:
        if machine.name == name:
            return machine
    names = ", ".join(f"'{machine.name}'" for machine in known)
    raise InputError(f"The lab has no machine '{name}'.", f"It has {names}.")


def create_arguments(machine: Machine, image: str, host: Host) -> list[str]:
    """Arguments of podman that make a machine, not yet started."""
    words = [
        "create",
        # Images are built here; a missing one is an error, not a question to a registry.
        "--pull=never",
        # `systemctl reboot` ends the container; podman's monitor starts it again.
        "--restart=always",
        *("--name", machine.container, "--hostname", machine.name, "--label", LABEL),
        *("--network", NETWORK, "--ip", machine.address),
        # podman would copy the host's /etc/hosts, with names that are not the machine's.
        "--no-hosts",
        "--privileged",
        *host.machine_flags(),
        *("--tmpfs", "/run:rw,exec", "--tmpfs", "/run/lock", "--tmpfs", "/tmp"),  # noqa: S108
        *("--env", "container=podman", "--stop-signal", "SIGRTMIN+3"),
        # containerd's overlayfs snapshotter needs a real file system below it.
        *("--volume", f"{machine.volume}:/var"),
    ]
    for source, target, options in machine.mounts:
        words += ["--volume", f"{source}:{target}:{options}"]
    return [*words, image, machine.init]


def recipe(machine: Machine, image: str) -> str:
    """What a machine is made from; another recipe makes another machine."""
    return " ".join([image, machine.init, *(f"{source}:{target}" for source, target, _ in machine.mounts)])


def client_key(places: Places) -> Path:
    """The lab's client key (private half), made on first use."""
    return _key_pair(places.keys / "id_ed25519", "gpulab")


def host_key(places: Places, name: str) -> Path:
    """A machine's ssh host key (private half), made on first use."""
    return _key_pair(places.machine(name) / "ssh" / "ssh_host_ed25519_key", name)


def _key_pair(path: Path, comment: str) -> Path:
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    scratch = path.with_name(f".new-{path.name}")
    for leftover in (scratch, scratch.with_name(f"{scratch.name}.pub")):
        leftover.unlink(missing_ok=True)
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(scratch)]
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError as error:
        raise ToolError("Program 'ssh-keygen' is not installed.", "Run 'make setup'.") from error
    except subprocess.CalledProcessError as error:
        raise ToolError(
            f"'ssh-keygen' could not write '{path}': {error.stderr.strip()}.", "Check the disk."
        ) from error
    # The private half last: that it exists says that the pair is complete.
    scratch.with_name(f"{scratch.name}.pub").replace(path.with_name(f"{path.name}.pub"))
    scratch.replace(path)
    return path


def identity_archive(machine: Machine, client_public: str, host_private: str, host_public: str) -> bytes:
    """What an installer gives a bare machine so that it can be reached: names and ssh keys, as a tar archive."""
    files = [
        ("etc/hosts", f"127.0.0.1\tlocalhost\n{machine.address}\t{machine.name}\n", 0o644),
        ("etc/ssh/ssh_host_ed25519_key", host_private, 0o600),
        ("etc/ssh/ssh_host_ed25519_key.pub", host_public, 0o644),
        ("root/.ssh/authorized_keys", client_public, 0o600),
        *((path.lstrip("/"), text, 0o644) for path, text in machine.files),
    ]
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo("root/.ssh")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o700
        archive.addfile(folder)
        for name, text, mode in files:
            data = text.encode()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            archive.addfile(entry, io.BytesIO(data))
        # A container has no tty1; its getty would fail on each boot.
        mask = tarfile.TarInfo("etc/systemd/system/getty@tty1.service")
        mask.type, mask.linkname = tarfile.SYMTYPE, "/dev/null"
        archive.addfile(mask)
    return buffer.getvalue()


@dataclass(frozen=True)
class Machinery:
    """Makes, boots, reaches and removes machines."""

    podman: Podman
    places: Places
    host: Host

    def state(self, machine: Machine) -> str:
        """`MISSING`, `KILLED`, or podman's word for the container: running, exited, created, ..."""
        found = self.podman.inspect(machine.container)
        return MISSING if found is None else str(found["State"]["Status"])

    def ensure(self, machine: Machine, image: str) -> bool:
        """Have the machine running; make it anew if an earlier command was killed while making it.

        Returns:
            Whether anything was done.
        """
        found = self.podman.inspect(machine.container)
        made = self.made(machine)
        # A depot keeps nothing of its own, and has to serve what was built last; other machines are someone's.
        current = machine.role != DEPOT or made.get("recipe") == recipe(machine, image)
        whole = found is not None and made.get("container") == found["Id"] and current
        if found is not None and whole and found["State"]["Status"] != KILLED:
            if found["State"]["Status"] == "running":
                return False
            self.podman.run("start", machine.container)
            return True
        self.remove(machine)
        for source, _, _ in machine.mounts:
            source.mkdir(parents=True, exist_ok=True)
        self._renew_hardware(machine)
        self.podman.new_volume(machine.volume)
        identity = self.podman.run(*create_arguments(machine, image, self.host)).stdout.strip()
        self.podman.run("cp", "-", f"{machine.container}:/", stdin=self._identity(machine))
        self.podman.run("start", machine.container)
        made = {"container": identity, "recipe": recipe(machine, image)}
        write_atomically(self._mark(machine), json.dumps(made))
        return True

    def _renew_hardware(self, machine: Machine) -> None:
        """A new machine has the hardware that was described for it and no past."""
        folder = self.places.hardware(machine.name)
        if folder.is_dir():
            for path in folder.iterdir():
                if path.name != "hardware.json" and path.is_file():
                    path.unlink()
        if machine.role == "gpu":
            delays.write(folder, delays.Delays())

    def boot_seconds(self, machines: Sequence[Machine]) -> float:
        """How long machines may take to boot."""
        return BOOT_S + max(
            (delays.read(self.places.hardware(machine.name)).boot for machine in machines), default=0.0
        )

    def _identity(self, machine: Machine) -> bytes:
        private = host_key(self.places, machine.name)
        client = client_key(self.places)
        return identity_archive(
            machine,
            client.with_name(f"{client.name}.pub").read_text(),
            private.read_text(),
            private.with_name(f"{private.name}.pub").read_text(),
        )

    def _mark(self, machine: Machine) -> Path:
        return self.places.machine(machine.name) / "made.json"

    def made(self, machine: Machine) -> dict[str, str]:
        """The container that a machine is, and its recipe; empty until it was completely made."""
        try:
            return {
                str(key): str(value) for key, value in json.loads(self._mark(machine).read_text()).items()
            }
        except (FileNotFoundError, ValueError, AttributeError):
            return {}

    def remove(self, machine: Machine) -> None:
        """Remove one machine with its disk; its keys stay."""
        self._mark(machine).unlink(missing_ok=True)
        self.podman.remove(machine.container)
        self.podman.run("volume", "rm", "--force", machine.volume, check=False)

    def wait_booted(self, machines: Sequence[Machine], seconds: float | None = None) -> dict[str, str]:
        """Wait until systemd finished booting and ssh answers with the expected host key.

        Args:
            machines: those to wait for.
            seconds: how long, if not as long as booting them may take.

        Returns:
            systemd's word for each machine: running, or degraded (a unit failed).

        Raises:
            WaitTimeout: a machine did not come up; names it and what was seen last.
        """
        deadline = Deadline(self.boot_seconds(machines) if seconds is None else seconds)

        def one(machine: Machine) -> str:
            word = wait_until(f"'{machine.name}' to boot", lambda: self._booted(machine), deadline, tick=0.3)
            if machine.role != DEPOT:
                wait_until(f"ssh on '{machine.name}'", lambda: self._ssh_answers(machine), deadline, tick=0.3)
            return word

        with ThreadPoolExecutor(max_workers=8) as pool:
            words = list(pool.map(one, machines))
        return {machine.name: word for machine, word in zip(machines, words, strict=True)}

    def _booted(self, machine: Machine) -> Done[str] | NotYet:
        done = self.podman.exec(
            machine.container, ["systemctl", "is-system-running"], check=False, timeout=30
        )
        lines = [*done.stdout.split(), *done.stderr.strip().splitlines()[-1:], "nothing"]
        seen = lines[0]
        return Done(seen) if seen in BOOTED else NotYet(seen)

    def _ssh_answers(self, machine: Machine) -> Done[None] | NotYet:
        words = [*self.ssh_command(machine), "true"]
        done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if "Host key verification failed" in done.stderr:
            raise GiveUp(
                f"'{machine.name}' answers ssh with another host key than the lab gave it.",
                "Run 'gpulab down', then 'gpulab up'.",
            )
        if done.returncode == 0:
            return Done(None)
        failed = ", ".join(self.failed_units(machine)) or "none"
        return NotYet(f"{done.stderr.strip() or f'status {done.returncode}'}; failed units: {failed}")

    def failed_units(self, machine: Machine) -> list[str]:
        """Units that failed on a machine."""
        words = ["systemctl", "--failed", "--plain", "--no-legend", "--no-pager"]
        lines = self.podman.exec(machine.container, words, check=False).stdout.splitlines()
        return [line.split()[0] for line in lines if line.split()]

    def boot_mark(self, machine: Machine) -> str:
        """Changes with every boot: start time of the container's first process."""
        found = self.podman.inspect(machine.container)
        return "" if found is None else f"{found['State']['Pid']} {found['State']['StartedAt']}"

    def reboot(self, machines: Sequence[Machine]) -> None:
        """Reboot machines at once, as their own `systemctl reboot` does, and wait until they are back."""
        before = {machine.name: self.boot_mark(machine) for machine in machines}
        for machine in machines:
            self.podman.exec(machine.container, ["systemctl", "reboot"], check=False, quiet=False)
        deadline = Deadline(self.boot_seconds(machines))
        for machine in machines:
            wait_until(
                f"'{machine.name}' to go down and start again",
                lambda machine=machine: self._rebooted(machine, before[machine.name]),  # type: ignore[misc]
                deadline,
                tick=0.3,
            )
        self.wait_booted(machines, deadline.remaining())

    def _rebooted(self, machine: Machine, before: str) -> Done[None] | NotYet:
        now = self.boot_mark(machine)
        if now == before and (found := self.podman.inspect(machine.container)):
            # One that has stopped in between has none.
            self.host.thaw(found["State"].get("CgroupPath", ""))
        if now not in (before, "") and self.state(machine) == "running":
            return Done(None)
        return NotYet(f"{self.state(machine)}, {'the same boot' if now == before else 'starting'}")

    def ssh_command(self, machine: Machine, *, terminal: bool = False) -> list[str]:
        """The words that open ssh to a machine; the host key must be the one the lab gave it."""
        words = ["ssh", "-i", str(client_key(self.places))]
        for option in (*ssh_options(self.places.root / "known_hosts"), "ConnectTimeout=5", "LogLevel=ERROR"):
            words += ["-o", option]
        words += ["-o", "BatchMode=yes"] if not terminal else ["-t"]
        return [*words, f"root@{machine.address}"]

    def exec_in(self, machine: Machine, argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a program in a machine, whatever its status."""
        return self.podman.exec(machine.container, argv, check=False, quiet=False)


def ssh_options(known_hosts: Path) -> list[str]:
    """Options of ssh that make it trust the lab's own key list and nothing else."""
    return [
        f"UserKnownHostsFile={known_hosts}",
        "GlobalKnownHostsFile=/dev/null",
        "StrictHostKeyChecking=yes",
        "HostKeyAlgorithms=ssh-ed25519",
        "IdentitiesOnly=yes",
    ]


def known_hosts(machines: Iterable[Machine], places: Places) -> str:
    """Content of a known_hosts file for these machines."""
    lines = []
    for machine in machines:
        private = host_key(places, machine.name)
        kind, key = private.with_name(f"{private.name}.pub").read_text().split()[:2]
        lines.append(f"{machine.address},{machine.name} {kind} {key}\n")
    return "".join(lines)


def remove_all(podman: Podman, places: Places) -> list[str]:
    """Remove every container and volume of the lab, found by label, and the machines' files.

    Returns:
        Names of what was removed.
    """
    containers = podman.owned("container")
    if containers:
        podman.remove(*containers)
    volumes = podman.owned("volume")
    if volumes:
        podman.run("volume", "rm", "--force", *volumes)
    for folder in (places.root / "machines", places.shared):
        shutil.rmtree(folder, ignore_errors=True)
    return [*containers, *volumes]


def attach(words: Sequence[str]) -> int:
    """Give this terminal to a program, and return its status."""
    return subprocess.run(list(words), check=False, env=dict(os.environ)).returncode
