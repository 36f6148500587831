#!/usr/bin/python
"""Ansible module: a set of packages of exact versions, pinned and held, by whatever package manager the machine has."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: packages
short_description: Install exact versions from one signed repository, pinned and held
description:
  - Writes the repository with its key, reads only its package list, pins the exact versions, simulates, installs and holds them.
  - If the package manager would remove a package that is not part of the set, or change one that is held, or, on a node that has joined a cluster,
    change any other one, the module fails and names it. Pins and repository are then as they were before, and nothing was changed, also in check mode.
    C(preflight_removable_packages) names those that may be removed.
  - A converged node costs a few file reads and one query of the package database.
  - Needs only the package manager and Python 3.8 on the node. This release supports apt and dnf 4.
  - For dnf, pins and holds are lines of its plugin versionlock, which end with C(.?*). All other lines of its list stay as they are. If one of them
    allows only another version of a package, it is named, and nothing is installed. If the plugin is missing, it is installed.
  - If a dnf upgrade of the whole node fails from now on, since another package needs newer versions, C(warnings) say so after a change.
version_added: "0.1.0"
author: gpusmith contributors
options:
  name: {type: str, required: true, description: "Names the files of this set, such as C(/etc/apt/sources.list.d/gpusmith-NAME.sources)."}
  repository:
    type: dict
    description:
      - Keys type (V(deb), or V(rpm) for dnf), uris, key (an armored public key) and fingerprint (with which the key is compared, if given); suites
        and components for debs; signed (V(packages), V(metadata) or V(both)) for rpms.
      - The key is for this repository only. If packages are signed, dnf also imports it into rpm's database, where it stays.
      - Without this option, only repositories that the node already has are used.
  packages:
    {type: dict, default: {}, description: "Version by name. A version without revision, such as 1.36.3, is the newest revision that all of them have."}
  patterns:
    type: list
    elements: str
    default: []
    description: >-
      Shell patterns of names that belong to the set; V(src:PATTERN) is for the name of the source package. Packages that match are pinned to the
      set's versions. Those that came along in such a version are held, and removed, together with the set.
  unversioned:
    {type: list, elements: str, default: [], description: "Packages that are installed in the version that is offered, and never changed afterwards."}
  optional:
    type: list
    elements: str
    default: []
    description: >-
      Like O(unversioned), for packages that are left out if no repository offers them, and that stay when the set is removed. With dnf a name can
      be that of one build, C(NAME-VERSION-RELEASE.ARCH), as for a kernel's headers.
  companions:
    {type: list, elements: str, default: [], description: "Packages that are held where they are installed, and never requested; also by patterns."}
  counterparts:
    type: list
    elements: dict
    default: []
    description: >-
      Packages to install in place of installed ones that have a name of another branch. C(of) is the name of the installed package, C(names) are its
      possible names now, of which the first that is offered is used, and C(version) is its version, empty for any. If none is offered, nothing is
      installed.
  release:
    {type: list, elements: str, default: [], description: "Packages whose holds are released first, since another version comes; also by patterns."}
  replaced:
    {type: list, elements: str, default: [], description: "Of those that match O(patterns), what is removed because of the others, and not updated."}
  displaced:
    type: list
    elements: str
    default: []
    description: >-
      Packages that are removed in the step that installs the others, because they contain files of these and no package relation says that they
      cannot stay.
  hold_unversioned: {type: bool, default: false, description: Whether O(unversioned) are held as well. If not, their holds are not changed.}
  autoremove: {type: bool, default: false, description: "With O(state=absent), whether what came along and nothing needs afterwards is removed as well."}
  folder:
    type: path
    description:
      - With O(state=fetched), where archives of the packages are saved, with a manifest. What came to an installed set since is added.
      - With O(state=present), exactly the packages in this folder are installed, also over newer versions, pinned and held. No repository is asked
        or written. O(packages) may be left out; if they are given, the folder must have them in these versions.
  state:
    type: str
    choices: [present, absent, fetched]
    default: present
    description:
      - V(absent) removes packages, pins and repository. If the package manager would also remove or install anything else, nothing is removed, and
        that is named, also in check mode. apt leaves configuration files; dnf leaves edited ones, as C(FILE.rpmsave).
      - V(fetched) changes only O(folder). A set that is not installed yet is saved with all packages that its installation would add or change on
        this node; what V(present) refuses is refused here as well. An installed set is saved in its installed versions, with the packages that
        belong to it. Packages that no repository has any more are taken from the package manager's cache.
attributes:
  check_mode: {support: full, description: "Reports what would be installed, as far as the repository's list is already on the node."}
  diff_mode: {support: full, description: Shows the repository and pin files.}
"""

EXAMPLES = r"""
- name: Install all parts of the driver in one version
  gpusmith.gpu.packages:
    name: nvidia-driver
    repository: "{{ nvidia_driver_repository }}"
    packages: {nvidia-driver-cuda: "580.178.04", nvidia-kernel-open-dkms: "580.178.04"}
    patterns: ["nvidia-*", "libnvidia-*", libcuda1]
"""

RETURN = r"""
packages: {returned: always, type: dict, description: "By name, the version before and after."}
saved: {returned: with a folder, type: dict, description: "By name, the version in the folder. Empty in check mode if it would be fetched."}
busy: {returned: failed, type: bool, description: Whether another program had the package manager's lock for too long.}
plan: {returned: "in check mode, if the lists are on the node", type: dict, description: "What would be installed, changed and removed."}
"""

import os
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages as door
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import base, others
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.folder_work import FolderWork


def main() -> None:
    """Run the module."""
    names = {"type": "list", "elements": "str", "default": []}
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "repository": {"type": "dict", "no_log": False},
            "packages": {"type": "dict", "default": {}},
            "patterns": names,
            "unversioned": names,
            "optional": names,
            "companions": names,
            "counterparts": {"type": "list", "elements": "dict", "default": []},
            "release": names,
            "replaced": names,
            "displaced": names,
            "hold_unversioned": {"type": "bool", "default": False},
            "autoremove": {"type": "bool", "default": False},
            "folder": {"type": "path"},
            "state": {
                "type": "str",
                "choices": ["present", "absent", "fetched"],
                "default": "present",
            },
        },
        required_if=[("state", "fetched", ["folder"])],
        supports_check_mode=True,
    )
    state, folder = module.params["state"], module.params["folder"]
    packages: dict[str, Any] = {}
    try:
        params = {**module.params, "removable": door.removable()}
        serves = os.path.exists(others.KUBECONFIG)
        work = FolderWork(params, module.check_mode, door.backend(), serves=serves)
        packages = work.packages
        if state == "absent":
            work.absent()
        elif state == "fetched":
            work.fetched(Path(folder))
        elif folder:
            work.from_folder(Path(folder))
        else:
            work.present()
    except (base.PackageError, OSError) as error:
        module.fail_json(msg=str(error), packages=packages, busy=isinstance(error, base.BusyError))
        raise
    for warning in work.warnings:
        module.warn(warning)
    told: dict[str, Any] = {} if work.plan is None else {"plan": work.plan}
    if folder:
        told["saved"] = work.saved
    module.exit_json(changed=work.changed, packages=packages, diff=work.diff, **told)


if __name__ == "__main__":
    main()
