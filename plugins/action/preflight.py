"""Action plugin of module preflight: asks the machine, then judges on the controller, where the data files are."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import copy
import dataclasses
import time
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.variables import of_task

from gpusmith.data import compatibility, models, systems
from gpusmith.errors import GpusmithError, Refusal
from gpusmith.expect import foreign, gpus
from gpusmith.expect.choice import meant
from gpusmith.expect.versions import is_open
from gpusmith.inventory import specs
from gpusmith.inventory.templates import UnfilledError
from gpusmith.inventory.variables import check_templates
from gpusmith.node.records import parse
from gpusmith.preflight import asked as packages
from gpusmith.preflight import kernel_modules, secure_boot
from gpusmith.preflight.join import endpoint
from gpusmith.preflight.judge import judge
from gpusmith.preflight.machine import old_kernels, surroundings
from gpusmith.preflight.proxy import kept_proxies, proxies
from gpusmith.preflight.words import Tables, Wanted


def _names(facts: dict[str, Any]) -> dict[str, Any]:
    """Names from the roles' vars files for the node's operating system; empty if a role has no file for it."""
    rows = {role: (role, variable) for role, variable in packages.VARIABLES.items()}
    rows[packages.KERNEL] = ("nvidia_driver", packages.KERNEL)
    try:
        return {key: systems.of_role(role, facts, name) for key, (role, name) in rows.items()}
    except systems.UnknownSystem:
        return {}


def _of_system(facts: dict[str, Any], name: str) -> Any:
    """A variable of role host_baseline for the node's operating system; None on a system that nobody knows."""
    try:
        return systems.of_role("host_baseline", facts, f"__host_baseline_{name}")
    except systems.UnknownSystem:
        return None


def _exact(record: dict[str, Any], wanted: Wanted, choice: dict[str, Any]) -> Wanted:
    """What is wanted, with the exact version of the driver that is meant on the node, where anybody can tell."""
    asked = wanted.node.driver.version
    if not is_open(asked) or choice.get("refusal"):
        return wanted
    version = meant(parse(record), asked, str(choice.get("version") or ""), wanted.driver_only)
    return dataclasses.replace(wanted, node=wanted.node.with_driver(version))


class ActionModule(EgressAction):
    """Runs the module of the same name and adds `refusals` to its answer."""

    def run(self, tmp: Any = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Gather and judge; a host that cannot be reached is reported by Ansible itself."""
        result: dict[str, Any] = ActionBase.run(self, tmp, task_vars)
        self.way_out(task_vars)
        asked = dict(self._task.args)
        record = asked.pop("record", None)
        if not record:
            result.update(failed=True, msg="'preflight' needs the record of 'gpusmith.gpu.node_state'.")
            return result
        if unusable := check_templates(
            task_vars or {}, lambda name: self._filled(name, task_vars or {}), specs.load()
        ):
            result["refusals"] = [dataclasses.asdict(refusal) for refusal in unusable]
            return result
        choice = asked.pop("choice", None) or {}
        try:
            wanted = _exact(record, self._wanted(task_vars or {}, asked), choice)
            names = _names((task_vars or {}).get("ansible_facts") or {})
            asks = packages.all_of(record, wanted, names)
            due, headers = packages.due(record, asks), packages.headers(record, wanted, names)
        except GpusmithError as error:
            result.update(failed=True, msg=str(error))
            return result
        system = (task_vars or {}).get("ansible_facts") or {}
        trust_program = str((_of_system(system, "trust") or {"update": [""]})["update"][0])
        lacks = kernel_modules.lacks(parse(record), wanted, str(_of_system(system, "modules_package") or ""))
        library = record.get("library") or {}
        path = library["files"]["nvidia-ml"]["path"] if library.get("nvml_version") else None
        # The module's own spec asks for a record: what it needs of it is the library.
        arguments = {
            **asked,
            "record": {},
            "library": path,
            "controller_time": time.time(),
            "asks": due,
            "headers": headers,
            "packages": [lack.package for lack in lacks if lack.package],
            "proxies": proxies(wanted),
            "endpoint": endpoint(record, wanted),
            "trust_program": trust_program,
        }
        result.update(
            self._execute_module(
                module_name="gpusmith.gpu.preflight", module_args=arguments, task_vars=task_vars
            )
        )
        if result.get("failed") or result.get("unreachable"):
            return result
        tables = Tables(models.load(), compatibility.load())
        facts = {
            **result,
            "record": record,
            "trust_program": trust_program,
            "kernel_modules": lacks,
            "asked": asks,
            "driver_package": packages.driver_package(wanted, names),
            "signing": secure_boot.site_key(wanted),
            "unmet": packages.unmet(record, wanted, names),
            "other_containerd": packages.other_containerd(record, wanted, names),
            "choice": Refusal(**choice["refusal"]) if choice.get("refusal") else None,
        }
        found = judge(facts, wanted, tables)
        notes = [*old_kernels(facts), *kept_proxies(facts), *surroundings(parse(record), wanted)]
        notes += [*secure_boot.notes(facts, wanted), *foreign.half_notes(parse(record))]
        version = wanted.node.driver.version
        if version and not is_open(version) and not wanted.no_driver:
            notes += foreign.replaced(parse(record), version)
        notes += packages.unseen(record, wanted, names)
        if not wanted.no_driver:
            notes += gpus.left_out(parse(record))
            notes += gpus.notes(parse(record), tables.rows(wanted.node), wanted.node.driver.module_flavour)
        if notes:
            result["verdict"] = {(task_vars or {})["inventory_hostname"]: {"notes": notes}}
        result["refusals"] = [dataclasses.asdict(refusal) for refusal in found]
        return result

    def _wanted(self, task_vars: dict[str, Any], asked: dict[str, Any]) -> Wanted:
        return Wanted(
            of_task(task_vars, self._templar),
            bool(asked.pop("driver_only", False)),
            bool(asked.pop("joins", True)),
        )

    def _filled(self, name: str, task_vars: dict[str, Any]) -> Any:
        try:
            return copy.deepcopy(self._templar.template(task_vars[name]))
        except AnsibleError as error:
            raise UnfilledError(str(error)) from error
