"""Action plugin: collects what the checks of module_utils/guard.py need, on the controller, and refuses."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from ansible import context
from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.vars import load_extra_vars
from ansible_collections.gpusmith.gpu.plugins.module_utils import guard

from gpusmith.rules import HINT, RULES

COLLECTION = Path(__file__).resolve().parents[2]
PROJECT_SPECS = COLLECTION / "meta" / "project_argument_specs.yml"
CLUSTER_TIMEOUT_S = 10


def load_specs(collection: Path) -> tuple[guard.Options, list[str]]:
    """Every declared option, and the names of the roles."""
    roles = sorted(path.name for path in (collection / "roles").iterdir() if path.is_dir())
    files = [PROJECT_SPECS, *(collection / "roles" / role / "meta" / "argument_specs.yml" for role in roles)]
    documents = [yaml.safe_load(path.read_text()) or {} for path in files if path.is_file()]
    return guard.options_of(documents), roles


def missing_sources() -> list[str]:
    """Inventory paths of the command line that do not exist; host lists with a comma are no paths."""
    sources = context.CLIARGS.get("inventory") or ()
    return [source for source in sources if "," not in source and not Path(source).exists()]


class ActionModule(ActionBase):
    """Refuse a run that cannot do what was meant."""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Entry point of Ansible."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "group": {"type": "str", "default": "gpu_nodes"},
                "cluster": {"type": "bool", "default": True},
            }
        )
        variables = task_vars or {}
        group = arguments["group"]
        members = list(variables.get("groups", {}).get(group, []))
        play_hosts = list(variables.get("ansible_play_hosts_all", []))
        nodes = [host for host in members if host in play_hosts]

        options, roles = load_specs(COLLECTION)
        extra = dict(load_extra_vars(self._loader))
        findings = guard.check_target(
            group, members, play_hosts, missing_sources(), context.CLIARGS.get("subset")
        )
        findings += guard.check_extra_names(extra, options)
        findings += check_values(extra, options)
        findings += self._check_inventory(variables, nodes, set(extra), options, guard.prefixes_of(roles))
        if nodes:
            findings += guard.check_offline(plain_variables(variables["hostvars"], nodes[0], extra))
        findings += guard.check_sources(context.CLIARGS.get("inventory") or ())
        if nodes and arguments["cluster"] and not findings:
            findings += check_kubeconfigs(variables["hostvars"], nodes)
            findings += [] if findings else check_cluster(variables["hostvars"][nodes[0]])

        result.update(changed=False, nodes=nodes)
        if findings:
            result.update(failed=True, msg="\n".join(finding.text() for finding in findings))
        return result

    @staticmethod
    def _check_inventory(
        variables: dict[str, Any],
        nodes: list[str],
        extra: set[str],
        options: guard.Options,
        prefixes: list[str],
    ) -> list[guard.Finding]:
        # Most variables are the same on all hosts: judge each pair of name and value once.
        judged = set(options) | set(RULES)
        names: set[str] = set()
        values: dict[str, list[tuple[Any, list[str]]]] = {}
        for node in nodes:
            for name, raw in variables["hostvars"].raw_get(node).items():
                if name in extra:
                    continue
                names.add(name)
                if name not in judged or (raw is not None and plain(raw) is None):
                    continue
                value = filled_in(variables["hostvars"], node, name, raw) if name in RULES else raw
                known = values.setdefault(name, [])
                same = [hosts for other, hosts in known if value == other and type(value) is type(other)]
                if same:
                    same[0].append(node)
                else:
                    known.append((value, [node]))
        findings: list[guard.Finding] = guard.check_inventory_names(names, options, prefixes)
        for name, rows in values.items():
            for value, hosts in rows:
                found = check_values({name: value}, options)
                findings += [guard.on_hosts(finding, hosts) for finding in found]
        return findings


def check_values(values: Mapping[str, Any], options: guard.Options) -> list[guard.Finding]:
    """Types and choices by argument_specs; then, of values that fit them, what only the rules know."""
    findings: list[guard.Finding] = []
    for name, value in sorted(values.items()):
        found = guard.check_values({name: value}, options)
        if not found and name in RULES and not guard.has_template(value):
            found = [guard.Finding(wrong.message, HINT) for wrong in RULES[name](name, value)]
        findings += found
    return findings


def filled_in(hostvars: Any, node: str, name: str, value: Any) -> Any:
    """A host's value with its templates worked out; as it is written where that needs what is not known yet, such as facts."""
    if not guard.has_template(value):
        return value
    try:
        found = hostvars[node][name]
        # Ansible fills in what is inside lists and mappings only when it is looked at.
        return copy.deepcopy(found) if not guard.has_template(found) else value
    except (AnsibleError, KeyError):
        return value


def plain(value: Any) -> Any:
    """A value of the inventory that cannot be judged before it is decrypted counts as not given."""
    if isinstance(value, str | int | float | bool | list | tuple | Mapping) or value is None:
        return value
    return None


def plain_variables(hostvars: Any, node: str, extra: dict[str, Any]) -> dict[str, Any]:
    """What a node's inventory and the command line say, as they are written."""
    return {**hostvars.raw_get(node), **extra}


def check_kubeconfigs(hostvars: Any, nodes: Sequence[str]) -> list[guard.Finding]:
    """Whether every node names kubeconfigs that exist: the role's, and the suite's own where there is one."""
    without = [node for node in nodes if not hostvars[node].get("gpusmith_kubeconfig")]
    if without:
        finding = guard.Finding(
            "'gpusmith_kubeconfig' is not set.",
            "Set it to the path of a kubeconfig of the existing cluster on this machine.",
        )
        return [guard.on_hosts(finding, without)]
    paths: dict[tuple[str, Path], list[str]] = {}
    for node in nodes:
        # The suite is started in the checkout.
        for name, base in (("gpusmith_kubeconfig", Path()), ("validation_kubeconfig", COLLECTION)):
            given = str(hostvars[node].get(name) or "")
            if given:
                paths.setdefault((name, base / Path(given).expanduser()), []).append(node)
    return [
        guard.on_hosts(
            guard.Finding(f"Kubeconfig '{path}' does not exist.", f"Set '{name}' to one that does."), hosts
        )
        for (name, path), hosts in paths.items()
        if not path.is_file()
    ]


def check_cluster(host: Mapping[str, Any]) -> list[guard.Finding]:
    """Whether the kubeconfig leads to a cluster that answers, and to the one that nodes join."""
    path = os.path.expanduser(str(host["gpusmith_kubeconfig"]))
    try:
        from kubernetes import config

        api = config.new_client_from_config(config_file=path)
    except ImportError as error:
        return [
            guard.Finding(f"The Python package 'kubernetes' cannot be used: {error}.", "Run 'make setup'.")
        ]
    except Exception as error:  # noqa: BLE001 - the client raises its own, yaml's and the file system's errors
        hint = "Set 'gpusmith_kubeconfig' to a kubeconfig that kubectl can use."
        return [guard.Finding(f"Kubeconfig '{path}' cannot be read: {last_words(error)}.", hint)]
    try:
        servers = ask_cluster(api)
    except Exception as error:  # noqa: BLE001 - the client raises its own, urllib3's, ssl's and yaml's errors
        status = getattr(error, "status", None)
        if status in (401, 403):
            return [
                guard.Finding(
                    f"The cluster of kubeconfig '{path}' refuses its user ({status}).",
                    "Give a kubeconfig of an administrator with 'gpusmith_kubeconfig'.",
                )
            ]
        return [
            guard.Finding(
                f"The cluster of kubeconfig '{path}' cannot be reached: {last_words(error)}.",
                "Check 'gpusmith_kubeconfig', and that the API server runs.",
            )
        ]
    endpoint = str(host.get("kubernetes_node_control_plane_endpoint") or "")
    different: list[guard.Finding] = guard.check_same_cluster(path, endpoint, servers)
    return different


def ask_cluster(api: Any) -> list[str]:
    """Addresses of the cluster: the kubeconfig's, and the one its own cluster-info gives to nodes that join."""
    from kubernetes import client

    # One refusal is an answer; the client's own three retries only make the user wait.
    api.rest_client.pool_manager.connection_pool_kw["retries"] = False
    core = client.CoreV1Api(api)
    core.list_node(limit=1, _request_timeout=CLUSTER_TIMEOUT_S)
    servers = [api.configuration.host]
    try:
        info = core.read_namespaced_config_map(
            "cluster-info", "kube-public", _request_timeout=CLUSTER_TIMEOUT_S
        )
        inner = yaml.safe_load((info.data or {})["kubeconfig"])
        servers += [entry["cluster"]["server"] for entry in inner["clusters"]]
    except Exception:  # noqa: BLE001 - clusters that kubeadm did not make have no such object, or another form of it
        return []
    return servers


def last_words(error: BaseException) -> str:
    """The innermost reason in one line, without the layers of the client."""
    inner = getattr(error, "reason", None)
    while isinstance(inner, BaseException):
        error, inner = inner, getattr(inner, "reason", None)
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].rstrip(".")
