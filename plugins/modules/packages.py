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
  - A converged node costs a few file reads and one query of the package database.
  - Needs only the package manager and Python 3.8 on the node. This release supports apt and dnf 4.
  - For dnf, pins and holds are lines of its plugin versionlock, one for each package with its full version, which end with C(.?*). All other lines
    of C(/etc/dnf/plugins/versionlock.list) stay as they are. If one of them allows only another version of a package, it is named, and nothing is
    installed. If the plugin is missing, it is installed.
  - A dnf upgrade of the whole node fails if a package that is not locked needs a newer version of one that is. After a change, C(warnings) report
    this and name the package.
version_added: "0.1.0"
author: gpusmith contributors
options:
  name:
    description: >-
      Names the files of this set, such as C(/etc/apt/{sources.list,preferences}.d/gpusmith-NAME.*), C(/etc/yum.repos.d/gpusmith-NAME.repo) and
      C(/etc/pki/rpm-gpg/gpusmith-NAME.asc).
    type: str
    required: true
  repository:
    description:
      - Keys type (V(deb), or V(rpm) for dnf), uris, key (an armored public key) and fingerprint (with which the key is compared, if given); suites
        and components for debs; signed (V(packages), V(metadata) or V(both)) for rpms.
      - The key is for this repository only. If packages are signed, dnf also imports it into rpm's database when the first of them is installed. It
        stays there when the set is removed, since others may need it; C(rpm -e) of its package C(gpg-pubkey-*) removes it.
      - Without this option, only repositories that the node already has are used.
    type: dict
  packages:
    description: Version by name of package. A version without revision, such as 1.36.3, means the newest revision that all of them have.
    type: dict
    default: {}
  patterns:
    description:
      - Shell patterns of names that belong to the set; V(src:PATTERN) is for the name of the source package. Packages that match are pinned to the
        set's versions. Those that came along in such a version are held, and removed, together with the set.
    type: list
    elements: str
    default: []
  unversioned:
    description: Packages with their own versions, installed in the version that is offered and never changed afterwards.
    type: list
    elements: str
    default: []
  optional:
    description: >-
      Like O(unversioned), for packages that are left out if no repository offers them, and that stay when the set is removed. With dnf a name can
      be that of one build, C(NAME-VERSION-RELEASE.ARCH), as for a kernel's headers.
    type: list
    elements: str
    default: []
  companions:
    description: >-
      Packages with their own versions that may or may not be installed along with others, also by shell patterns of names. They are held where they
      are installed, and never requested.
    type: list
    elements: str
    default: []
  counterparts:
    description:
      - Packages to install with O(packages) in place of installed ones that have a name of another branch, and that have no other place in the set.
      - C(of) is the name of the installed package, C(names) are its possible names now, of which the first that is offered is used, and C(version)
        is the version that it must have, empty for any. If none is offered, nothing is installed.
    type: list
    elements: dict
    default: []
  release:
    description: Packages whose holds are released first, because another version of them will be installed; also by shell patterns of names.
    type: list
    elements: str
    default: []
  replaced:
    description: >-
      Of the packages that match O(patterns), those that are removed because of the others, such as those of another kind. No other version of them
      is installed.
    type: list
    elements: str
    default: []
  displaced:
    description: >-
      Packages that are removed in the step that installs the others, because they contain files of these and no package relation says that they
      cannot stay. Packages that are not installed are ignored.
    type: list
    elements: str
    default: []
  hold_unversioned:
    description: Whether O(unversioned) are held as well. If not, their holds are not changed.
    type: bool
    default: false
  autoremove:
    description: With O(state=absent), whether to remove also packages that were installed along with these and that nothing needs afterwards.
    type: bool
    default: false
  folder:
    description:
      - With O(state=fetched), folder in which archives of the packages are saved, with a manifest of names, versions and checksums. Packages that
        were added to an installed set since it was saved are added; saved archives stay.
      - With O(state=present), exactly the packages in this folder are installed, also over newer versions, pinned and held. No repository is asked
        or written. O(packages) may be left out; if they are given, the folder must have them in these versions. All of them are part of the set;
        O(counterparts) only name further ones that may go.
    type: path
  state:
    description:
      - V(absent) removes packages, pins and repository. If the package manager would
        also remove or install anything else, nothing is removed, and that is named, also in check mode. apt leaves configuration files; dnf leaves
        edited ones, as C(FILE.rpmsave).
      - V(fetched) changes only O(folder). A set that is not installed yet is saved with all packages that its installation would add or change on
        this node; what V(present) refuses is refused here as well. An installed set is saved in its installed versions, with the packages that
        belong to it by O(patterns) and O(companions). Packages that no repository has any more are taken from the package manager's cache. A
        complete folder that already has O(packages) is left as it is.
    type: str
    choices: [present, absent, fetched]
    default: present
attributes:
  check_mode:
    support: full
    description: Reports what would be installed, as far as the repository's list is already on the node.
  diff_mode:
    support: full
    description: Shows the repository and pin files.
"""

EXAMPLES = r"""
- name: Install containerd
  gpusmith.gpu.packages:
    name: containerd
    repository: "{{ containerd_repository }}"
    packages:
      containerd.io: "2.3.7"

- name: Install all parts of the driver in one version
  gpusmith.gpu.packages:
    name: nvidia-driver
    repository: "{{ nvidia_driver_repository }}"
    packages: {nvidia-driver-cuda: "580.178.04", nvidia-kernel-open-dkms: "580.178.04"}
    patterns: ["nvidia-*", "libnvidia-*", libcuda1]

- name: Install kernel headers, if a repository has them
  gpusmith.gpu.packages:
    name: kernel-headers
    optional: [linux-headers-6.1.0-40-amd64]
"""

RETURN = r"""
packages:
  description: By name, the version before and after.
  returned: always
  type: dict
  sample: {"containerd.io": {"before": null, "after": "2.3.7-1"}}
saved:
  description: By name, the version in the folder. Empty in check mode if it would be fetched.
  returned: with a folder
  type: dict
  sample: {"containerd.io": "2.3.7-1"}
busy:
  description: Whether another program had the package manager's lock for too long.
  returned: failed
  type: bool
plan:
  description: In check mode, what the package manager would install, change and remove, if its lists are on the node.
  returned: in check mode, if something would be installed
  type: dict
  sample: {"installed": {"containerd.io": "2.3.7-1"}, "changed": {}, "removed": {}}
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
