#!/usr/bin/python
"""Ansible module: the driver's kernel modules built by DKMS and packed, or taken from another node's build."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: built_modules
short_description: Build the driver's kernel modules with DKMS, or install those that another node has built
description:
  - The node's part of C(nvidia_driver_build=once_per_kernel). M(gpusmith.gpu.driver_build) decides on the controller which node builds and which
    nodes take the result.
  - C(state=withheld) keeps DKMS from building O(version), with files C(/etc/dkms/NAME-VERSION.conf), until C(state=allowed) or a boot. The driver's
    packages are then installed without a build, as on a machine without headers. Modules for later kernels are built as usual.
  - C(state=compiled) has DKMS build and install the modules for O(kernel).
  - C(state=rebuilt) has DKMS rebuild for O(kernel) the O(modules) of other packages that are compiled against the driver's sources.
  - C(state=restored) has DKMS install again the modules that it keeps for O(kernel), in place of modules that were changed.
  - C(state=mended) is for packages whose module did not compile when they were installed. It has the package manager finish them without the
    module, so that other packages can be installed, and fails with the compiler's message. It changes nothing if no build has failed.
  - C(state=built) has DKMS build and install the modules for O(kernel), and packs them into O(archive), in the format of
    C(dkms mktarball --binaries-only).
  - C(state=taken) verifies that the modules of O(archive) fit this node (checksum, version, architecture, the kernel's whole vermagic), hands them
    to C(dkms ldtarball) and C(dkms install), compares the result of the installation, and notes it in C(/var/lib/gpusmith/modules).
version_added: "0.1.0"
author: gpusmith contributors
options:
  state: {type: str, choices: [withheld, allowed, compiled, restored, rebuilt, mended, built, taken], required: true, description: Wanted state.}
  version: {type: str, required: true, description: "Version of the driver, without the packager's part."}
  kernel: {type: str, default: "", description: "Release of the kernel, with states C(compiled), C(restored), C(rebuilt) and C(built)."}
  modules:
    description: With C(state=rebuilt), modules by the names that the kernel shows, out of C(gdrdrv) and C(nvidia_fs).
    type: list
    elements: str
    default: []
  archive: {type: path, default: "", description: Path of the packed modules on the node.}
  manifest: {type: dict, default: {}, description: "Content of the archive, as C(state=built) returned it."}
  builder: {type: str, default: "", description: "With C(state=taken), name of the node that has built the modules, for messages."}
  bundle: {type: str, default: "", description: "The probe's code; set by M(gpusmith.gpu.driver_build)."}
attributes:
  check_mode: {support: none, description: "In check mode M(gpusmith.gpu.driver_build) reports who would build, and asks no node."}
"""

RETURN = r"""
manifest:
  description: Content of the archive. Name of the module in DKMS, version, kernel, machine, and by file its checksum, vermagic and signer.
  returned: with state built
  type: dict
compiled: {type: bool, returned: with states compiled and built, description: Whether DKMS compiled. It does not if it already has the modules.}
outcome:
  description: >-
    Reason of the failure. V(build), the modules do not compile; V(dependent), a module of another package does not compile; V(unfit), the modules
    are not for this node; V(dkms), DKMS refuses.
  returned: failed
  type: str
"""

import os
from pathlib import Path
from typing import Any, Dict, Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle, dependent_modules, packages
from ansible_collections.gpusmith.gpu.plugins.module_utils.built_modules import BuiltModulesError, Node, Run

STATES = ["withheld", "allowed", "compiled", "restored", "rebuilt", "mended", "built", "taken"]
OPTIONS: Dict[str, Any] = {
    "state": {"type": "str", "choices": STATES, "required": True},
    "version": {"type": "str", "required": True},
    "kernel": {"type": "str", "default": ""},
    "modules": {"type": "list", "elements": "str", "default": []},
    "archive": {"type": "path", "default": ""},
    "manifest": {"type": "dict", "default": {}},
    "builder": {"type": "str", "default": ""},
    "bundle": bundle.OPTION,
}


def repair() -> bool:
    """Have the package manager finish what was left half done; whether there was anything."""
    return bool(packages.backend().repair())


def rebuild(run: Run, kernel: str, names: Sequence[str]) -> Dict[str, Any]:
    """Build modules of others anew; the result."""
    from gpusmith.probe.kernels import DEPENDENTS

    for name in names:
        dependent_modules.rebuild(run, DEPENDENTS[name], kernel)
    return {"changed": bool(names)}


def act(node: Node, asked: Dict[str, Any]) -> Dict[str, Any]:
    """Do what is wanted with the driver's modules; the result."""
    archive = Path(asked["archive"])
    if asked["state"] == "withheld":
        return {"changed": node.withhold()}
    if asked["state"] == "allowed":
        return {"changed": node.allow()}
    if asked["state"] == "mended":
        return {"changed": node.mend(repair)}
    # Whatever an earlier run left.
    node.allow()
    if asked["state"] == "taken":
        node.take(archive, asked["manifest"], asked["builder"])
        return {"changed": True}
    if asked["state"] == "restored":
        node.restore(asked["kernel"])
        return {"changed": True}
    compiled = node.build(asked["kernel"])
    if asked["state"] == "compiled":
        return {"changed": True, "compiled": compiled}
    manifest = node.pack(asked["kernel"], archive)
    # Whoever is connected fetches it, and need not be root.
    owner = archive.parent.stat()
    os.chown(str(archive), owner.st_uid, owner.st_gid)
    return {"changed": compiled, "compiled": compiled, "manifest": manifest}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec=OPTIONS)
    bundle.take(module)
    from gpusmith.probe.module_file import modinfo

    def run(words: Sequence[str]) -> Tuple[int, str, str]:
        program = module.get_bin_path(words[0])
        if program is None:
            return 127, "", "'{}' is not installed.".format(words[0])
        status, output, error = module.run_command([program, *words[1:]])
        return int(status), str(output), str(error)

    module.run_command_environ_update = {"LC_ALL": "C", "LANGUAGE": "C"}
    try:
        if module.params["state"] == "rebuilt":
            answer = rebuild(run, module.params["kernel"], module.params["modules"])
        else:
            answer = act(Node(run, modinfo, module.params["version"]), module.params)
    except BuiltModulesError as error:
        module.fail_json(msg=error.message, outcome=error.outcome)
    except packages.PackageError as error:
        module.fail_json(msg=str(error), outcome="dkms")
    else:
        module.exit_json(**answer)


if __name__ == "__main__":
    main()
