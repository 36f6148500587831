#!/usr/bin/python
"""Ansible module: packages of an exact version from one signed apt repository, pinned and held."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: apt_pinned
short_description: Install exact versions from one signed repository, pinned and held
description:
  - Writes the repository in deb822 form with its key, reads its package list and no other, installs the exact versions, pins
    them by apt preferences and holds them.
  - A converged node costs two file reads and one dpkg query.
  - Needs nothing on the node but apt and Python 3.8; M(ansible.builtin.deb822_repository) needs python3-debian.
version_added: "0.1.0"
author: gpusmith contributors
options:
  name:
    description: Names the files C(/etc/apt/{sources,preferences}.list.d/gpusmith-NAME.*); the role's name.
    type: str
    required: true
  repository:
    description: Keys uris, suites, components and key (an armored public key).
    type: dict
    required: true
  packages:
    description: Version by name of package. A version without Debian's revision, such as 1.36.3, takes the newest revision.
    type: dict
    required: true
  pins:
    description: Further pins, version by name or pattern of package, for packages that others pull in.
    type: dict
    default: {}
  hold:
    description: Whether the packages are held.
    type: bool
    default: true
  recommends:
    description: Whether recommended packages are installed too.
    type: bool
    default: false
  state:
    description: C(repository_only) writes the repository and installs nothing. C(absent) removes packages, pins and repository.
    type: str
    choices: [present, absent, repository_only]
    default: present
attributes:
  check_mode:
    support: full
    description: Tells what would be installed, as far as the repository's list is already on the node.
"""

EXAMPLES = r"""
- name: Install containerd
  gpusmith.gpu.apt_pinned:
    name: containerd
    repository: "{{ containerd_repository }}"
    packages:
      containerd.io: "2.3.7"
"""

RETURN = r"""
packages:
  description: By name, the version before and after.
  returned: always
  type: dict
  sample: {"containerd.io": {"before": null, "after": "2.3.7-1"}}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import apt


def read(path: Path) -> str:
    """The file's text, empty if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""


class Pinned:
    """The work of one call.

    Attributes:
        changed: whether anything was or would be changed.
        packages: by name, the version before and after.
    """

    def __init__(self, module: Any) -> None:
        self._module = module
        self._name: str = module.params["name"]
        self._check: bool = module.check_mode
        self._wanted: dict[str, str] = {
            name: str(version) for name, version in module.params["packages"].items()
        }
        self._source = apt.SOURCES / f"gpusmith-{self._name}.sources"
        self._preferences = apt.PREFERENCES / f"gpusmith-{self._name}.pref"
        self.changed = False
        self.packages: dict[str, dict[str, Any]] = {}
        self.diff: list[dict[str, str]] = []

    def _write(self, path: Path, text: str) -> bool:
        before = read(path)
        if before == text:
            return False
        self.changed = True
        self.diff.append(
            {"before": before, "after": text, "before_header": str(path), "after_header": str(path)}
        )
        if not self._check:
            temporary = path.with_name(f".{path.name}.new")
            temporary.write_text(text, encoding="utf-8")
            temporary.chmod(0o644)
            temporary.replace(path)
        return True

    def _delete(self, path: Path) -> None:
        if path.exists():
            self.changed = True
            if not self._check:
                path.unlink()

    def present(self, install: bool) -> None:
        """Repository, pins, packages and holds as asked for."""
        new_source = self._write(
            self._source, apt.render_source(self._module.params["repository"], self._name)
        )
        if not install:
            if new_source and not self._check:
                apt.update(apt.only(self._source))
            return
        now = apt.installed(self._wanted)
        missing = {
            name: want
            for name, want in self._wanted.items()
            if not apt.satisfies(now.get(name, {}).get("version"), want)
        }
        exact = {name: now[name]["version"] for name in self._wanted if name not in missing}
        if missing:
            exact.update(self._resolve(missing))
        if len(exact) == len(self._wanted):
            self._write(
                self._preferences,
                apt.render_preferences({**self._module.params["pins"], **exact}, self._name),
            )
        if missing:
            self.changed = True
            if not self._check:
                self._install({name: exact[name] for name in missing})
        self._hold(now, missing)
        for name, want in self._wanted.items():
            before = now.get(name, {}).get("version")
            self.packages[name] = {"before": before, "after": exact.get(name, want)}

    def _resolve(self, missing: dict[str, str]) -> dict[str, str]:
        if self._check:
            # The list may not be on the node yet; preflight asks the repository itself.
            offers = apt.available(missing) if self._source.exists() else {}
        else:
            apt.update(apt.only(self._source))
            offers = apt.available(missing)
        exact = {}
        for name, want in missing.items():
            match = apt.newest_match(offers.get(name, []), want)
            if match is not None:
                exact[name] = match
            elif not self._check:
                there = (
                    ", ".join(f"'{version}'" for version in offers.get(name, [])) or "nothing of that name"
                )
                raise apt.AptError(
                    f"No repository offers '{name}' in version '{want}', only {there}. Correct the version in the inventory."
                )
        return exact

    def _install(self, exact: dict[str, str]) -> None:
        if any(Path("/var/lib/dpkg/updates").iterdir()):
            apt.run(
                ["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"],
                apt.INSTALL_TIMEOUT_S,
                accept=range(256),
            )
        words = ["apt-get", "install", "-q", "-y", "--allow-downgrades", "--allow-change-held-packages"]
        words += ["-o", f"DPkg::Lock::Timeout={apt.LOCK_TIMEOUT_S}"]
        words += ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]
        words.append(
            "--install-recommends" if self._module.params["recommends"] else "--no-install-recommends"
        )
        words += [f"{name}={version}" for name, version in sorted(exact.items())]
        try:
            apt.run(words, apt.INSTALL_TIMEOUT_S)
        except apt.AptError:
            # A fresh image has no lists of the distribution, an old one stale lists: what these packages need is then not found.
            apt.run(["apt-get", "update", "-q"], apt.UPDATE_TIMEOUT_S, accept=range(256))
            apt.run(words, apt.INSTALL_TIMEOUT_S)

    def _hold(self, now: dict[str, dict[str, Any]], missing: dict[str, str]) -> None:
        hold = self._module.params["hold"]
        different = [name for name in self._wanted if name in missing or now[name]["held"] != hold]
        # Installing keeps a hold that was there.
        different = [name for name in different if now.get(name, {}).get("held", False) != hold]
        if different:
            self.changed = True
            if not self._check:
                apt.run(["apt-mark", "hold" if hold else "unhold", *different], 60)

    def absent(self) -> None:
        """No packages, pins and repository of ours."""
        now = apt.installed(self._wanted)
        self.packages = {name: {"before": entry["version"], "after": None} for name, entry in now.items()}
        if now:
            self.changed = True
            if not self._check:
                apt.run(["apt-mark", "unhold", *now], 60)
                apt.run(
                    [
                        "apt-get",
                        "remove",
                        "-q",
                        "-y",
                        "-o",
                        f"DPkg::Lock::Timeout={apt.LOCK_TIMEOUT_S}",
                        *now,
                    ],
                    apt.INSTALL_TIMEOUT_S,
                )
        self._delete(self._preferences)
        self._delete(self._source)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "repository": {"type": "dict", "required": True, "no_log": False},
            "packages": {"type": "dict", "required": True},
            "pins": {"type": "dict", "default": {}},
            "hold": {"type": "bool", "default": True},
            "recommends": {"type": "bool", "default": False},
            "state": {
                "type": "str",
                "choices": ["present", "absent", "repository_only"],
                "default": "present",
            },
        },
        supports_check_mode=True,
    )
    work = Pinned(module)
    try:
        if module.params["state"] == "absent":
            work.absent()
        else:
            work.present(install=module.params["state"] == "present")
    except (apt.AptError, OSError) as error:
        module.fail_json(msg=str(error), packages=work.packages)
    module.exit_json(changed=work.changed, packages=work.packages, diff=work.diff)


if __name__ == "__main__":
    main()
