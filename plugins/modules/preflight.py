#!/usr/bin/python
"""Ansible module: what preflight has to know about a machine. Its action plugin judges the answer on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Find reasons not to change a machine
description:
  - Gathers free space, clock, kernel headers, drivers that no package owns, the package manager, which versions the inventory's repositories offer
    of packages that are not installed yet, and what installing all of them would do, in one round trip. Repositories are read in a temporary
    folder, with their signatures checked, and the installation is simulated there. For a node that lacks nothing, no repository is asked.
  - Judges all that and the node's record on the controller, against the inventory, C(data/gpus.yml) and C(data/compatibility.yml).
  - Does not fail because of its findings; it returns the reasons to refuse the machine.
author: gpusmith contributors
options:
  driver_only:
    {type: bool, default: false, description: "Whether the run changes the driver of a joined node, and nothing else. It stays on the controller."}
  joins: {type: bool, default: true, description: Whether machines that have not joined do so in this run. It stays on the controller.}
  choice:
    type: dict
    default: {}
    description: >-
      Choice of M(gpusmith.gpu.driver_version) for the host, if the inventory asks for a branch of the driver or for the latest version.
  asks: {type: dict, default: {}, description: "Arguments of M(gpusmith.gpu.packages), by role, for packages that are due; set by the action plugin."}
  headers:
    {type: dict, default: {}, description: "Package of the headers, by release of each kernel for which the module is to be built; set by the action plugin."}
  packages:
    {type: list, elements: str, default: [], description: Packages of which it is asked whether they are installed or offered; set by the action plugin.}
  proxies:
    {type: list, elements: dict, default: [], description: "Proxies that are to be set for services, with keys url, file and line; set by the action plugin."}
  endpoint:
    type: str
    default: ""
    description: >-
      Endpoint at which the machine would join a cluster, as host:port; set by the action plugin, empty if it does not join.
  trust_program: {type: str, default: "", description: Program that rebuilds the trust store; set by the action plugin.}
  free_space_mib: {type: dict, default: {}, description: "Free space that is needed, by path."}
  controller_time: {type: float, description: Unix time of the controller; set by the action plugin.}
  record: {type: dict, required: true, description: "Record of the node, as M(gpusmith.gpu.node_state) returns it. It stays on the controller."}
  library: {type: str, description: Path of the NVIDIA management library; set by the action plugin.}
"""

RETURN = r"""
refusals: {type: list, elements: dict, returned: always, description: Reasons not to go on; keys message and hint.}
"""

import http.client
import json
import os
import re
import socket
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import files, packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, preview
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of

CLUSTER_INFO = "/api/v1/namespaces/kube-public/configmaps/cluster-info"
PROXY_TIMEOUT_S = ENDPOINT_TIMEOUT_S = 10


def knock(url: str) -> Optional[str]:
    """Why nobody takes a connection at an address; None if somebody does."""
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), PROXY_TIMEOUT_S).close()
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def silent_proxies(rows: List[Dict[str, str]]) -> List[Dict[str, Any]]:
    """Those that take no connection, with why, and whether the service is told of it already."""
    urls = sorted({row["url"] for row in rows})
    with ThreadPoolExecutor(max_workers=8) as pool:
        errors = dict(zip(urls, pool.map(knock, urls)))
    return [
        {
            **row,
            "error": errors[row["url"]],
            "told": row["line"] in (files.read(Path(row["file"])) or "").splitlines(),
        }
        for row in rows
        if errors[row["url"]]
    ]


def silent_endpoint(endpoint: str) -> Optional[str]:
    """Why no API server answers there, or where its cluster-info sends a join; None if one does.

    Whose it is, the join asks: a bare machine knows no authority.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        # A load balancer without control planes takes connections, and ends them.
        _shake_hands(endpoint, context)
    except (OSError, ValueError) as error:
        return _in_words(error)
    server = server_of_cluster_info(endpoint, context)
    try:
        if server and server != endpoint:
            _shake_hands(server, context)
    except (OSError, ValueError) as error:
        return "its cluster-info sends a join to '{}', and there: {}".format(server, _in_words(error))
    return None


def _in_words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _shake_hands(endpoint: str, context: ssl.SSLContext) -> None:
    parts = urlsplit("//" + endpoint)
    with socket.create_connection((parts.hostname, parts.port), ENDPOINT_TIMEOUT_S) as connection:
        context.wrap_socket(connection, server_hostname=parts.hostname).close()


def server_of_cluster_info(endpoint: str, context: ssl.SSLContext) -> str:
    """Where kubeadm goes on after it has read cluster-info, as host:port; empty where that is not for everybody to read."""
    parts = urlsplit("//" + endpoint)
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port, timeout=ENDPOINT_TIMEOUT_S, context=context
    )
    try:
        connection.request("GET", CLUSTER_INFO)
        text = json.loads(connection.getresponse().read())["data"]["kubeconfig"]
    except (OSError, ValueError, KeyError, TypeError, http.client.HTTPException):
        return ""
    finally:
        connection.close()
    found = re.search(r"(?m)^\s*server:\s*[\"']?https://([^\s/\"']+)", text)
    if not found:
        return ""
    return found[1] if re.search(r":\d+$", found[1]) else found[1] + ":443"


def free_mib(path: str) -> int:
    """MiB that are free where a path is or will be."""
    place = Path(path)
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize // (1024 * 1024)


def packages_lacking(backend: base.Backend, names: Sequence[str]) -> list[str]:
    """Packages that are neither installed nor offered."""
    if not names:
        return []
    there = {**backend.installed(names), **backend.offered(names)}
    return [name for name in names if name not in there]


def headers_lacking(backend: base.Backend, headers: dict[str, str]) -> list[str]:
    """Releases of kernels for which modules cannot be compiled, neither now nor with a package that the package manager knows."""
    open_ones = {
        release: name
        for release, name in headers.items()
        if not os.path.exists(f"/lib/modules/{release}/build/.")
    }
    lacking = packages_lacking(backend, list(open_ones.values()))
    return [release for release, name in open_ones.items() if name in lacking]


def unowned_driver(backend: base.Backend | None, library: str | None) -> list[str]:
    """Files of a driver that came by NVIDIA's installer: its own uninstaller, and a library that no package owns."""
    # As 'probe.foreign' has them, which does not travel with this module.
    found = [
        path for path in ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer") if Path(path).exists()
    ]
    if library is not None and backend is not None and backend.owner(library) is None:
        found.append(library)
    return found


def ask(backend: base.Backend, role: str, asked: dict[str, Any], lacks: preview.Needs) -> dict[str, Any]:
    """What a repository offers of what is missing."""
    loose = {name: version for name, version in (asked.get("expected") or {}).items() if name in lacks.loose}
    answer: dict[str, Any] = {"asked": {**lacks.missing, **loose}, "versions": {}, "error": None}
    given = asked.get("repository") or asked.get("offered_by") or {}
    try:
        with backend.aside({asked["name"]: repository_of(given, role)}) as beside:
            answer["versions"] = beside.offered(answer["asked"])
            if asked.get("repository"):
                offered = answer["versions"]
                beside.prove(
                    asked["name"],
                    {name: version or "" for name, version in answer["asked"].items() if name in offered},
                )
    except base.PackageError as error:
        answer["error"] = str(error)
    return answer


class Answers(NamedTuple):
    """What repositories tell.

    Attributes:
        repositories: by role, what `ask` found.
        simulation: what `preview.simulate` found; None if nothing is to be installed, or a repository does not answer.
        headers_lacking: releases of kernels.
        packages_lacking: names.
    """

    repositories: dict[str, Any]
    simulation: dict[str, Any] | None
    headers_lacking: list[str]
    packages_lacking: list[str]


def ask_all(
    backend: base.Backend, asks: dict[str, Any], headers: dict[str, str], names: Sequence[str] = ()
) -> Answers:
    """Ask the repositories side by side, then simulate."""

    def lacking(by: base.Backend) -> tuple[list[str], list[str]]:
        return headers_lacking(by, headers), packages_lacking(by, names)

    lacks = {role: preview.needs(backend, asked) for role, asked in asks.items()}
    open_ones = {
        role: asks[role]
        for role, each in lacks.items()
        if each.missing or each.loose or each.repository or each.others
    }
    with ThreadPoolExecutor(max_workers=8) as pool:
        waiting = {
            role: pool.submit(ask, backend, role, asked, lacks[role]) for role, asked in open_ones.items()
        }
    repositories = {role: future.result() for role, future in waiting.items()}
    if not open_ones or any(each["error"] for each in repositories.values()):
        return Answers(repositories, None, *lacking(backend))
    given = {
        asked["name"]: repository_of(asked["repository"], role)
        for role, asked in open_ones.items()
        if asked.get("repository")
    }
    try:
        with backend.aside(given, beside_node=True) as beside:
            found = preview.simulate(beside, open_ones, lacks)
            return Answers(repositories, found, *lacking(beside))
    except base.PackageError as error:
        found = {"plan": base.Plan({}, {}, {})._asdict(), "held": [], "error": str(error), "trouble": ""}
        return Answers(repositories, found, *lacking(backend))


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "driver_only": {"type": "bool", "default": False},
            "joins": {"type": "bool", "default": True},
            "record": {"type": "dict", "required": True},
            "choice": {"type": "dict", "default": {}},
            "asks": {"type": "dict", "default": {}},
            "headers": {"type": "dict", "default": {}},
            "packages": {"type": "list", "elements": "str", "default": []},
            "proxies": {"type": "list", "elements": "dict", "default": []},
            "endpoint": {"type": "str", "default": ""},
            "trust_program": {"type": "str", "default": ""},
            "free_space_mib": {"type": "dict", "default": {}},
            "controller_time": {"type": "float"},
            "library": {"type": "str"},
        },
        supports_check_mode=True,
    )
    now = time.time()
    manager = packages.manager()
    backend = packages.backend() if manager in packages.SUPPORTED else None
    # Preflight refuses an unknown package manager by another check.
    answers = Answers({}, None, [], [])
    if backend is not None:
        answers = ask_all(backend, module.params["asks"], module.params["headers"], module.params["packages"])
    controller, endpoint = module.params["controller_time"], module.params["endpoint"]
    module.exit_json(
        changed=False,
        package_manager=manager,
        **answers._asdict(),
        trust_program_found=bool(module.get_bin_path(module.params["trust_program"])),
        endpoint_error=silent_endpoint(endpoint) if endpoint else None,
        silent_proxies=silent_proxies(module.params["proxies"]),
        disk={
            path: {"free_mib": free_mib(path), "needed_mib": int(need)}
            for path, need in module.params["free_space_mib"].items()
        },
        clock_offset_s=now - controller if controller else 0.0,
        foreign_driver=unowned_driver(backend, module.params["library"]),
    )


if __name__ == "__main__":
    main()
