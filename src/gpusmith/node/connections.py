"""Reaching nodes: a small protocol, testinfra as its adapter, and one probe of many nodes at once."""

from __future__ import annotations

import base64
import configparser
import json
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from gpusmith.errors import GpusmithError, ToolError
from gpusmith.inventory.programs import ansible_environment
from gpusmith.inventory.values import truth
from gpusmith.node import local
from gpusmith.node.bundle import BOOTSTRAP, Own, bundle
from gpusmith.node.hostkey import changed_key
from gpusmith.node.left_out import without
from gpusmith.node.records import parse
from gpusmith.plain import Shared
from gpusmith.probe.record import Record
from gpusmith.wanted.inventory import Inventory

PROBES_AT_ONCE = 32
PROBE_TIMEOUT_S = 90
NOT_ASKED = 69
"""Status of a machine whose Python, where it has any, cannot run the probe; only pods say so (programs/ask_machine.py)."""
CONNECT_TIMEOUT_S = 10
SSH_SLACK_S = 20.0
"""What connecting and logging in may take beside the program on the node, which has a deadline there."""


@dataclass(frozen=True)
class Result:
    """What a command on a node did."""

    status: int
    stdout: str
    stderr: str


class Unreachable(GpusmithError):  # noqa: N818 - it is a state of a node
    """A node did not answer, which says something about the node and not about the tool."""


class Node(Protocol):
    """A machine that commands can be run on."""

    @property
    def name(self) -> str:
        """Its inventory name."""

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
        """Run a program, as root, in one round trip.

        Raises:
            Unreachable: the machine could not be asked.
        """


def with_input(argv: Sequence[str], stdin: bytes, timeout_s: float) -> str:
    """A shell command that feeds a program: testinfra's own connections have no standard input."""
    program = f"timeout {timeout_s:.0f} {shlex.join(argv)}"
    if not stdin:
        return f"{program} </dev/null"
    return f"printf %s {base64.b64encode(stdin).decode()} | base64 -d | {program}"


@dataclass(frozen=True)
class TestinfraNode:
    """The adapter; ``host`` is testinfra's.

    Attributes:
        name: inventory name.
        host: its connection.
        become: commands go through sudo.
    """

    __test__ = False  # pytest would take the class for tests

    name: str
    host: Any
    become: bool = False

    def run(self, argv: Sequence[str], stdin: bytes = b"", timeout_s: float = 60.0) -> Result:
        """See Node.run."""
        command = with_input([*(["sudo", "-n"] if self.become else []), *argv], stdin, timeout_s)
        backend, deadline_s = self.host.backend, timeout_s + CONNECT_TIMEOUT_S + SSH_SLACK_S
        backend.run_local = partial(local.run_local, backend, deadline_s)
        try:
            done = backend.run(command)
        except local.Stalled as error:
            raise Unreachable(
                f"Node '{self.name}' does not answer over ssh: no end within {deadline_s:.0f} s, although it takes connections.",
                f"Its sshd, its logins or its shell stall: log in to '{self.name}' by hand, and look at its console.",
            ) from error
        except RuntimeError as error:
            # The ssh backend raises its own result when ssh itself failed.
            said = getattr(error.args[0], "stderr", str(error)) if error.args else str(error)
            changed = changed_key(str(said))
            if changed is not None:
                raise Unreachable(f"Node '{self.name}': {changed.cause}.", changed.next_step) from error
            raise Unreachable(
                f"Node '{self.name}' does not answer over ssh: {' '.join(str(said).split())[-400:] or 'no reason given'}",
                "Is the machine up, its address right and its host key known?"
                f" Try: ansible -i INVENTORY {self.name} -m ansible.builtin.ping",
            ) from error
        return Result(done.rc, done.stdout, done.stderr)


def connect(inventory: Inventory, working_folder: Path) -> dict[str, Node]:
    """A node per host of the inventory; nothing is contacted yet.

    Raises:
        ToolError: a connection that this suite cannot make.
    """
    from testinfra.utils.ansible_runner import get_ansible_host

    config = configparser.ConfigParser(interpolation=None)
    settings = ansible_environment(working_folder).get("ANSIBLE_CONFIG") or str(
        working_folder / "ansible.cfg"
    )
    config.read(settings)
    found: dict[str, Node] = {}
    for name in inventory.hosts:
        variables = {key: value for key, value in inventory.variables(name).items() if value is not None}
        become = truth(
            variables.pop("ansible_become", config.get("privilege_escalation", "become", fallback=False))
        )
        # Never a question on a terminal, a bounded wait, and no shared connection: each node is asked once.
        extra = f"-o BatchMode=yes -o ConnectTimeout={CONNECT_TIMEOUT_S} -o ServerAliveInterval=10 -o ControlMaster=no"
        # The settings' own 'ssh_args' are all that testinfra knows.
        given = [variables.get(f"ansible_ssh_{kind}", "") for kind in ("args", "extra_args")]
        variables["ansible_ssh_extra_args"] = " ".join(filter(None, (*given, extra)))
        for key in ("ansible_ssh_common_args", "ansible_ssh_extra_args"):
            variables.setdefault(key, "")
        tree = {"all": {"hosts": [name]}, "_meta": {"hostvars": {name: variables}}}
        # Ansible's keys for privileges stay out: sudo is added here, to the program only.
        adapter = get_ansible_host(_ssh_only(config), tree, name)
        if adapter is None:
            kind = variables.get("ansible_connection", "ssh")
            raise ToolError(
                f"Host '{name}' has connection '{kind}', which this suite cannot use.", "Use ssh."
            )
        found[name] = TestinfraNode(name, adapter, bool(become))
    return found


def _ssh_only(config: configparser.ConfigParser) -> configparser.ConfigParser:
    plain = configparser.ConfigParser(interpolation=None)
    for section in ("defaults", "ssh_connection"):
        if config.has_section(section):
            plain[section] = dict(config[section])
    if plain.has_section("ssh_connection"):
        # Sharing connections is for many tasks on one host; ssh takes the first value it is given.
        plain["ssh_connection"]["ssh_args"] = ""
        plain.remove_option("ssh_connection", "control_path")
    return plain


@dataclass(frozen=True)
class Probed:
    """A node's record, or why there is none.

    Attributes:
        record: None if the node could not be asked.
        problem: one sentence; empty if there is a record.
        hint: what to do next.
        duration_s: seconds of the round trip.
        not_asked: the machine cannot be asked at all, which is nobody's fault.
    """

    record: Record | None
    problem: str
    hint: str
    duration_s: float
    not_asked: bool = False


def probe(node: Node, program: bytes, ignored: Sequence[str] = (), shared: Shared | None = None) -> Probed:
    """Ask one node, in one round trip; never raises for what is wrong with the node."""
    begin, shared = time.monotonic(), shared or Shared()

    def answer(record: Record | None, problem: str = "", hint: str = "") -> Probed:
        return Probed(record, problem, hint, time.monotonic() - begin)

    try:
        done = node.run(["python3", "-c", BOOTSTRAP], program, PROBE_TIMEOUT_S)
    except Unreachable as error:
        return answer(None, error.message, error.hint)
    if done.status == NOT_ASKED:
        return Probed(
            None,
            f"The machine of node '{node.name}' is not asked: {done.stderr}.",
            "",
            time.monotonic() - begin,
            not_asked=True,
        )
    if done.status == 124:
        return answer(
            None,
            f"The probe on '{node.name}' did not end within {PROBE_TIMEOUT_S} s.",
            "Look for hanging processes on the node.",
        )
    try:
        # A shell that greets whoever comes puts lines of its own around the record.
        lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
        raw: Mapping[str, Any] = json.loads(lines[0] if lines else done.stdout)
        return answer(shared(parse(without(raw, ignored))))
    except ValueError:
        said = " ".join((done.stderr or done.stdout).split())[-300:] or "nothing"
        return answer(
            None,
            f"The probe on '{node.name}' ended with status {done.status} and said: {said}.",
            "The node needs python3 and, for a user other than root, sudo without a password.",
        )
    except ToolError as error:
        return answer(None, error.message, error.hint)


def probe_all(
    nodes: Mapping[str, Node],
    ignored: Mapping[str, Sequence[str]],
    own: Own = (),
    end: Callable[[], None] = local.end_all,
) -> dict[str, Probed]:
    """Ask all nodes at once.

    Args:
        nodes: by the host's name.
        ignored: GPUs that the inventory leaves out, by the host's name.
        own: files of the site's own that gather facts.
        end: ends the work on all nodes, if the run is interrupted.
    """
    program, shared = bundle(own), Shared()
    with ThreadPoolExecutor(max_workers=min(PROBES_AT_ONCE, len(nodes))) as pool:
        asked = {
            name: pool.submit(probe, node, program, ignored.get(name, ()), shared)
            for name, node in nodes.items()
        }
        try:
            return {name: future.result() for name, future in asked.items()}
        except BaseException:
            # Interrupted: end the ssh processes, since the pool waits for the threads that wait for them.
            pool.shutdown(wait=False, cancel_futures=True)
            end()
            raise
