"""The inventory as Ansible reads it: which GPU nodes there are, and what they should be."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from gpusmith.cluster.kubeconfig import Access
from gpusmith.errors import InputError, Refusal, ToolError, all_of
from gpusmith.inventory import places, specs
from gpusmith.inventory.needs import DRIVER, OF_THE_SUITE, PREFLIGHT, check_needs
from gpusmith.inventory.programs import READ_TIMEOUT_S, ansible_environment, last_lines, run
from gpusmith.inventory.same_cluster import check_kubeconfigs
from gpusmith.inventory.target import GPU_GROUP, on_hosts
from gpusmith.inventory.templates import has_open
from gpusmith.inventory.variables import check_hosts
from gpusmith.plain import Shared
from gpusmith.wanted.node import Monitoring, NodeWanted
from gpusmith.wanted.read import from_plain

HOSTS = "__gpusmith_hosts"
FILL_S = 0.05
"""What the templates of a host may take, ten times of what they take on an idle controller."""


@dataclass(frozen=True)
class Inventory:
    """The GPU nodes that a run is about.

    Attributes:
        source: the inventory as the user named it, or what ansible.cfg names.
        limit: the pattern, empty if none.
        hosts: GPU nodes by name, never empty.
        connection: the whole output of ansible-inventory, which the ssh adapter reads.
        folders: that the hosts are described in.
        chosen: the way to the cluster, where no variable names it.
        within: namespace that is there and stays, in which workloads run; empty for one of the run's own.
        by_pods: whether the machines are asked by privileged pods, and not over ssh.
    """

    source: str
    limit: str
    hosts: Mapping[str, NodeWanted]
    connection: Mapping[str, Any] = field(repr=False)
    folders: tuple[str, ...] = ()
    chosen: Access | None = None
    within: str = ""
    by_pods: bool = False

    @property
    def managed(self) -> bool:
        """Whether gpusmith sets any of them up."""
        return any(host.managed for host in self.hosts.values())

    @property
    def access(self) -> Access:
        """The way to the cluster; raises as `kubeconfig`."""
        return self.chosen or Access(self.kubeconfig)

    @property
    def simulated(self) -> bool:
        """Whether any node is said to be simulated."""
        return any(host.simulated for host in self.hosts.values())

    @property
    def monitoring(self) -> Monitoring:
        """What watches the cluster, which is the same for all of its nodes."""
        return next(iter(self.hosts.values())).monitoring

    @property
    def kubeconfig(self) -> str:
        """The one kubeconfig of all nodes.

        Raises:
            InputError: none, or several.
        """
        without = [name for name, host in self.hosts.items() if not host.suite_kubeconfig]
        if without:
            hint = "Set it in group_vars/all.yml to a file on this machine."
            raise all_of([on_hosts(Refusal("'gpusmith_kubeconfig' is not set.", hint), without)])
        named = sorted({str(places.path(host.suite_kubeconfig).resolve()) for host in self.hosts.values()})
        if len(named) != 1:
            raise InputError(
                f"The GPU nodes name several kubeconfigs: {', '.join(repr(path) for path in named)}.",
                "Validate the nodes of one cluster at a time with --limit.",
            )
        return named[0]

    @cached_property
    def groups(self) -> Mapping[str, frozenset[str]]:
        """GPU nodes of each group that has some of them, and not all."""
        names = self.hosts.keys()
        found = {group: names & set(members(self.connection, group)) for group in self.connection}
        return {group: frozenset(there) for group, there in found.items() if there and there != names}

    def groups_of(self, host: str) -> list[str]:
        """The groups that tell a GPU node from others."""
        return [group for group, there in self.groups.items() if host in there]

    def variables(self, host: str) -> Mapping[str, Any]:
        """Everything that Ansible knows of a host, for the connection to it."""
        listed: Mapping[str, Any] = ((self.connection.get("_meta") or {}).get("hostvars") or {}).get(
            host
        ) or {}
        return {**listed, **self.hosts[host].connection}


def read(
    source: str | None, limit: str | None, working_folder: Path | None = None, cluster: bool = True
) -> Inventory:
    """Read an inventory.

    Args:
        source: file, folder or host list with a comma; None for the one of ansible.cfg.
        limit: Ansible pattern; None for all GPU nodes.
        working_folder: relative paths start here.
        cluster: whether the cluster will be asked, so that a kubeconfig is named beside what else is wrong.

    Raises:
        InputError: it cannot be used, with all reasons.
        ToolError: Ansible's programs are not there.
    """
    folder = working_folder or Path.cwd()
    environment = ansible_environment(folder)
    if source is not None:
        if not source:
            raise InputError("The inventory's path is empty.", "Give --inventory a file or a folder.")
        if "," not in source:
            path = (folder / Path(source).expanduser()).resolve()
            if not path.exists():
                raise InputError(
                    f"Inventory '{source}' does not exist.", "Give --inventory an existing file or folder."
                )
            source = str(path)
    words = ["--inventory", source] if source is not None else []
    limited = ["--limit", limit] if limit else []
    done = run("ansible-inventory", ["--list", *words, *limited], folder, environment)
    named = source or _default_source(environment)
    if done.returncode != 0:
        raise _unreadable(source, named, limit, done.stderr)
    try:
        tree: dict[str, Any] = Shared()(json.loads(done.stdout))
    except ValueError as error:
        raise ToolError(
            "'ansible-inventory --list' printed no JSON.",
            f"Try: ansible-inventory --inventory {named} --list",
        ) from error
    if source is None and not members(tree, "all"):
        raise NO_INVENTORY
    names = nodes_of(tree, named, limit or "")
    # A connection that cannot be made would break those of all hosts, without the reason.
    listed = (tree.get("_meta") or {}).get("hostvars") or {}
    rows = {name: listed.get(name, {}) for name in names}
    if found := check_hosts(rows, specs.load()) + _check_needs(rows):
        raise all_of(found + (_check_kubeconfigs(rows) if cluster else []))
    rows_wanted = _wanted(names, words, folder, environment)
    shared = Shared()
    wanted = {str(row["name"]): shared(from_plain(row)) for row in rows_wanted}
    folders = {str(row["inventory_dir"]) for row in rows_wanted if row.get("inventory_dir")}
    return replace(build(tree, wanted, named, limit or ""), folders=tuple(sorted(folders)))


BEFORE_RESULT = " => "
NO_INVENTORY = InputError(
    "There is no inventory.", "Name yours with --inventory; the lab's is 'inventory/lab'."
)


def nodes_of(tree: Mapping[str, Any], source: str, limit: str) -> list[str]:
    """The GPU nodes of an inventory, never none.

    Raises:
        InputError: there are none.
    """
    names = members(tree, GPU_GROUP)
    if names:
        return names
    if limit:
        raise InputError(
            f"Pattern '{limit}' matches no host of group '{GPU_GROUP}' in inventory '{source}'.",
            "Give --limit a GPU node or a group that has some.",
        )
    raise InputError(
        f"Inventory '{source}' has no host in group '{GPU_GROUP}'.",
        f"Put the GPU nodes into group '{GPU_GROUP}'.",
    )


def _unreadable(source: str | None, named: str, limit: str | None, stderr: str) -> InputError:
    said = last_lines(stderr)
    if limit and ("does not match any hosts" in stderr or "Specified inventory" in stderr):
        return InputError(
            f"Pattern '{limit}' matches no host of inventory '{named}'.",
            "Give --limit a host or group of it.",
        )
    if source is None:
        return InputError(f"No usable inventory: {said}", NO_INVENTORY.hint)
    return InputError(
        f"Inventory '{named}' cannot be read: {said}",
        f"Try: ansible-inventory --inventory {named} --list",
    )


def _default_source(environment: Mapping[str, str]) -> str:
    return environment.get("ANSIBLE_INVENTORY") or f"of {environment.get('ANSIBLE_CONFIG', 'ansible.cfg')}"


def members(tree: Mapping[str, Any], group: str) -> list[str]:
    """Hosts of a group and of its children, in order, each once."""
    row = tree.get(group) or {}
    found = dict.fromkeys(str(host) for host in row.get("hosts") or [])
    for child in row.get("children") or []:
        found.update(dict.fromkeys(members(tree, str(child))))
    return list(found)


def _wanted(
    names: Sequence[str], words: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> list[dict[str, Any]]:
    """What the inventory wants of each node, by lookup 'gpusmith.gpu.wanted': only Ansible can fill templates in."""
    # The output of 'ansible' itself, whatever callbacks a user's ansible.cfg has: 'localhost | SUCCESS => {'.
    output = {
        "ANSIBLE_LOAD_CALLBACK_PLUGINS": "0",
        "ANSIBLE_CALLBACK_RESULT_FORMAT": "json",
        # AWX and build servers force colours; a user may have results hidden.
        "ANSIBLE_FORCE_COLOR": "0",
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_NO_LOG": "0",
    }
    with tempfile.NamedTemporaryFile("w", prefix="gpusmith-", suffix=".json") as file:
        # A command line has no room for the names of a large inventory.
        json.dump({HOSTS: list(names)}, file)
        file.flush()
        message = f"msg={{{{ query('gpusmith.gpu.wanted', *{HOSTS}, refusals=true) }}}}"
        command = ["localhost", *words, "-e", f"@{file.name}", "-m", "ansible.builtin.debug", "-a", message]
        done = run(
            "ansible", command, folder, {**environment, **output}, READ_TIMEOUT_S + FILL_S * len(names)
        )
    try:
        result, _end = json.JSONDecoder().raw_decode(
            done.stdout[done.stdout.index(BEFORE_RESULT) + len(BEFORE_RESULT) :]
        )
        if done.returncode != 0:
            raise _unfilled(str(result["msg"]))
        rows: list[dict[str, Any]] = [json.loads(row) for row in result["msg"]]
        wrong: dict[Refusal, list[str]] = {}
        for row in rows:
            for message, hint in row.get("refusals", ()):
                wrong.setdefault(Refusal(message, hint), []).append(row["name"])
        if wrong:
            raise all_of([on_hosts(refusal, there) for refusal, there in wrong.items()])
        return rows
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise _unfilled(last_lines(done.stdout + done.stderr)) from error


def _unfilled(why: str) -> InputError:
    return InputError(
        f"The inventory's variables cannot be read: {why}", "Look at the named variable in the inventory."
    )


def _check_needs(rows: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    return check_needs(rows, (PREFLIGHT, DRIVER), specs.load(), OF_THE_SUITE)


class _AsWritten:
    """The kubeconfig of hosts whose variables Ansible has not filled in."""

    def __init__(self, rows: Mapping[str, Mapping[str, Any]]) -> None:
        self.rows = rows

    def filled(self, host: str, name: str) -> Any:
        """The suite's own goes before that of the roles."""
        if name != "gpusmith_kubeconfig":
            raise KeyError(name)
        return self.rows[host].get("validation_kubeconfig") or self.rows[host].get(name)


def _check_kubeconfigs(rows: Mapping[str, Mapping[str, Any]]) -> list[Refusal]:
    written = _AsWritten(rows)
    plain = [name for name in rows if not has_open(written.filled(name, "gpusmith_kubeconfig"))]
    return check_kubeconfigs(written, plain)


def build(tree: Mapping[str, Any], wanted: Mapping[str, NodeWanted], source: str, limit: str) -> Inventory:
    """The inventory from what Ansible says of it.

    Args:
        tree: the output of ansible-inventory.
        wanted: by host.
        source: as the user named it.
        limit: the pattern, empty if none.

    Raises:
        InputError: a node lacks a variable that the suite cannot do without.
    """
    values = {
        name: {"gpusmith_gpu_count": node.gpu_count, "nvidia_driver_version": node.driver.version}
        for name, node in wanted.items()
    }
    if found := _check_needs(values):
        raise all_of(found)
    return Inventory(source, limit, dict(wanted), tree)
