#!/usr/bin/python
"""Ansible module: the driver of a node unloaded, or loaded again, and who uses it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_state
short_description: Unload the driver of a node, or load it again
description:
  - Part of a driver upgrade. A node that serves must be drained first; this module does not know the cluster.
  - C(state=used) reports who uses the driver, and changes nothing.
  - C(state=unloaded) stops the driver's services and O(units), blocks every other load of the modules until this module loads them again or the
    node is rebooted, and unloads the modules, dependent modules first. Nothing is forced. If another process uses the driver, or the kernel keeps a
    module, what was stopped is started again, and the module fails.
  - C(state=loaded) reverses that. It loads the modules, starts the services that ran before, has those of the driver's packages start at boot
    again and creates device links and the CDI specification anew. Then it sets O(power_limits) and O(persistence).
  - Stopped services are noted on the node, so an interrupted call can be repeated. A daemon-reload, which takes GPUs away from running containers,
    is asked of systemd only while no driver is loaded, and only if a package brought other unit files.
author: gpusmith contributors
options:
  state: {type: str, choices: [used, unloaded, loaded], required: true, description: Wanted state.}
  units:
    type: list
    elements: str
    default: []
    description: >-
      Services of others that may be stopped. They are started again if they ran. Services that a node does not have are ignored.
  fabric_manager:
    {type: bool, default: false, description: "With C(state=loaded), whether the node needs the fabric manager. One that ran before is started in any case."}
  power_limits: {type: dict, default: {}, description: "With C(state=loaded), power limits in W by UUID of the GPU."}
  persistence: {type: dict, default: {}, description: "With C(state=loaded), by UUID of the GPU whether persistence mode is on."}
  timeout: {type: float, default: 30.0, description: Seconds within which others must stop using the driver.}
  bundle: {type: str, default: "", description: The probe's code; set by the action plugin.}
"""

RETURN = r"""
holders:
  type: list
  elements: dict
  returned: always
  description: >-
    Processes that use the driver. They have pid, user, command, devices, unit, pod_uid, container and started_unix.
users:
  type: list
  elements: str
  returned: always
  description: >-
    Descriptions of the processes that would keep the driver from being unloaded, except the driver's own services and O(units).
strangers: {type: list, elements: str, returned: always, description: Those of them that are not processes of a pod.}
kept: {type: list, elements: str, returned: always, description: "Modules that the kernel itself uses, so that only a reboot unloads them."}
modules: {type: list, elements: dict, returned: always, description: "Loaded modules, users first. They have name, references and used_by."}
stopped_units: {type: list, elements: str, returned: always, description: Units that were stopped and are to be started again.}
settings: {type: list, elements: str, returned: always, description: "Power limits and persistence modes that were set, in words."}
outcome:
  type: str
  returned: failed
  description: >-
    Why it failed. V(held), a process uses the driver; V(in_use), the kernel keeps a module that no process holds, and only a reboot helps;
    V(refused), a module cannot be loaded; V(unit), a service does not stop or start; V(settings), a GPU does not take a setting.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle
from ansible_collections.gpusmith.gpu.plugins.module_utils.driver_state import Driver, DriverStateError

OPTIONS: Dict[str, Any] = {
    "state": {"type": "str", "choices": ["used", "unloaded", "loaded"], "required": True},
    "units": {"type": "list", "elements": "str", "default": []},
    "fabric_manager": {"type": "bool", "default": False},
    "power_limits": {"type": "dict", "default": {}},
    "persistence": {"type": "dict", "default": {}},
    "timeout": {"type": "float", "default": 30.0},
    "bundle": bundle.OPTION,
}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS, supports_check_mode=True)
    bundle.take(module)
    from gpusmith.probe import usage
    from gpusmith.probe.module import UPGRADE_BLOCK

    def run(words: Sequence[str]) -> Tuple[int, str, str]:
        program = module.get_bin_path(words[0])
        if program is None:
            return 127, "", "'{}' is not installed.".format(words[0])
        status, output, error = module.run_command([program, *words[1:]])
        return int(status), str(output), str(error)

    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    asked = module.params
    driver = Driver(
        run,
        usage.gather,
        lambda: usage.loaded_modules("/sys"),
        Path(UPGRADE_BLOCK),
        asked["timeout"],
        check=module.check_mode,
    )
    changed, settings, failure = False, [], None
    try:
        if asked["state"] == "unloaded":
            changed = driver.unload(asked["units"])
        elif asked["state"] == "loaded":
            changed = driver.load(asked["units"], asked["fabric_manager"])
            # In check mode a driver that is not loaded cannot be asked.
            if not (changed and module.check_mode):
                settings = driver.settle(asked["power_limits"], asked["persistence"])
    except DriverStateError as error:
        failure = error
    now = usage.gather()
    others = driver.others(asked["units"])(now)
    answer: Dict[str, Any] = {
        "changed": bool(changed or settings),
        "holders": [asdict(holder) for holder in now.holders],
        "users": [holder.words for holder in others],
        "strangers": [holder.words for holder in others if not holder.pod_uid],
        "kept": list(now.kept),
        "modules": [asdict(row) for row in now.modules],
        "stopped_units": driver.noted("units"),
        "settings": settings,
    }
    if failure is not None:
        module.fail_json(msg=failure.message, outcome=failure.outcome, **answer)
    else:
        module.exit_json(**answer)


if __name__ == "__main__":
    main()
