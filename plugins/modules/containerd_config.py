#!/usr/bin/python
"""Ansible module: one drop-in of containerd's configuration, with a restart only if the effective configuration changed."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: containerd_config
short_description: Manage one drop-in of containerd, restart only on an effective change
description:
  - Keeps the root file as it is, apart from the import of the drop-in folder. If there is none, or only the package's own that turns CRI off, it
    writes a minimal one. The previous file is kept beside it, and is put back when gpusmith's last drop-in is removed.
  - For containerd 1.x, which reads a plugin's settings from the last file that has any, writes one more file with the settings of the site and of
    gpusmith together.
  - Writes one drop-in in the schema version of the root file, and the registries' C(hosts.toml) (read by containerd at each pull).
  - Compares the output of C(containerd config dump) with the configuration with which the running containerd was started, and restarts it only if
    they differ, or if its CRI plugin is down. If containerd does not come up with its CRI plugin, the previous files are restored.
  - Never asks systemd for a daemon-reload, which takes GPUs away from running containers.
version_added: "0.1.0"
author: gpusmith contributors
options:
  name: {type: str, required: true, description: "Name of the drop-in, C(/etc/containerd/conf.d/NAME.toml)."}
  runtime: {type: dict, default: {}, description: "Settings of the CRI runtime plugin, as schema 3 and newer name them."}
  images: {type: dict, default: {}, description: "Settings of the CRI images plugin, as schema 3 and newer name them."}
  registries:
    description:
      - Registries with a special address; keys host and endpoint. Registries that this module wrote and that are no longer listed are removed; with
        O(state=absent) all of them are. Registries of others stay. Without this option registries are not changed.
    type: list
    elements: dict
  restart: {type: bool, default: true, description: Whether containerd may be restarted.}
  state: {type: str, choices: [present, absent], default: present, description: C(absent) removes the drop-in.}
  bundle: {type: str, default: "", description: "The probe's code; set by the action plugin."}
attributes:
  check_mode: {support: partial, description: Reports which files would change. The effective configuration is known only if containerd is installed.}
"""

EXAMPLES = r"""
- name: Let the kubelet and containerd agree about cgroups
  gpusmith.gpu.containerd_config:
    name: 50-gpusmith
    runtime:
      containerd: {runtimes: {runc: {runtime_type: io.containerd.runc.v2, options: {SystemdCgroup: true}}}}
"""

RETURN = r"""
effective: {type: dict, returned: when containerd is installed, description: "The settings that matter, from the effective configuration."}
overrides:
  description: >-
    Files of others that override gpusmith's settings, one sentence each. Empty if gpusmith's settings are effective, or no such file was found.
  returned: when containerd is installed
  type: list
  elements: str
restarted: {type: bool, returned: always, description: Whether containerd was or would be restarted.}
cri_error:
  description: Error message of the CRI plugin of the running containerd if it was down before; empty if it was up.
  returned: when containerd is installed
  type: str
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle, containerd, containerd_files
from ansible_collections.gpusmith.gpu.plugins.module_utils.files import mode_of, put, read, shown

# In /run: valid for this boot's containerd only.
NOTE = Path("/run/gpusmith/containerd-started-with")
INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")


def _shown(text: str | None, is_private: bool) -> str:
    """A file's text in a diff."""
    return "# It may have passwords, and is not shown.\n" if text and is_private else shown(text or "")


class Configuration:
    """The work of one call."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self._before: dict[Path, tuple[str | None, int | None]] = {}
        self.diff: list[dict[str, str]] = []
        self.drop_in_gone = False

    def write(self, path: Path, text: str | None, mode: int | None = None) -> None:
        """Put a text into a file, or remove the file, remembering what was there; `mode` is for a file that is made."""
        before = read(path)
        if before == text:
            return
        is_kept = path == containerd_files.ROOT and text is not None and text == read(containerd_files.KEPT)
        is_private = is_kept or path in containerd_files.PRIVATE or not (mode_of(path) or 0o644) & 0o004
        self._before[path] = before, mode_of(path)
        self.drop_in_gone |= text is None and path.parent == containerd_files.MERGED.parent
        self.diff.append(
            {
                "before": _shown(before, is_private),
                "after": _shown(text, is_private),
                "before_header": str(path),
                "after_header": str(path),
            }
        )
        if not self.module.check_mode:
            self.put(path, text, mode)
            if is_kept:
                path.chmod(mode_of(containerd_files.KEPT) or 0o600)

    @staticmethod
    def put(path: Path, text: str | None, mode: int | None = None) -> None:
        """Have a file with this text, in the mode that it has, or none; a registry's folder goes with its last file."""
        put(path, text, mode_of(path) or mode)
        if text is None and path.name == containerd_files.HOSTS and not any(path.parent.iterdir()):
            path.parent.rmdir()

    def back_out(self) -> None:
        """Put back what was there before this call."""
        for path, (text, mode) in self._before.items():
            self.put(path, text, mode)

    def dump(self) -> tuple[str | None, str]:
        """The effective configuration, or None and containerd's own words."""
        status, output, error = self.module.run_command(["containerd", "config", "dump"])
        if status != 0 and not containerd_files.ROOT.exists():
            # Without a root file 1.x starts, but shows its configuration under another name only.
            status, output, error = self.module.run_command(["containerd", "config", "default"])
        return (output, "") if status == 0 else (None, error.strip())

    def started(self) -> float | None:
        """Unix time of containerd's start, None if it is not active."""
        _status, output, _error = self.module.run_command(
            [
                "systemctl",
                "show",
                "--property=Id,ActiveState,UnitFileState,ActiveEnterTimestamp",
                "containerd.service",
            ],
            environ_update={"LC_ALL": "C", "TZ": "UTC"},
        )
        from gpusmith.probe.services import parse_services

        service = parse_services(output).get("containerd")
        return service.started_unix if service else None

    def cri_error(self) -> str:
        """Why the CRI plugin of the running containerd is down; empty if it is up."""
        from gpusmith.probe import cri

        status, output, error = self.module.run_command(list(cri.LIST))
        if status != 0:
            return f"it cannot be asked: {error.strip()}"
        told = cri.read_plugins(output).error or ""
        limit = INSTANCES.read_text(encoding="utf-8").strip() if INSTANCES.exists() else None
        return f"{told}. {cri.hint(told, limit)}".rstrip(". ") if told else ""

    def restart(self, without_cri: bool = False) -> str:
        """Restart; empty if containerd is up with its CRI plugin, otherwise what that or its journal says.

        Args:
            without_cri: the configuration turns that plugin off.
        """
        # Type=notify: the command ends when containerd has loaded its plugins and serves, or failed.
        status, _output, error = self.module.run_command(["systemctl", "restart", "containerd.service"])
        if status == 0:
            status, _output, error = self.module.run_command(["ctr", "version"])
        if status == 0:
            # containerd runs on if one of its plugins fails to start.
            down = "" if without_cri else self.cri_error()
            return f"its CRI plugin is down: {down}" if down else ""
        _status, journal, _error = self.module.run_command(
            ["journalctl", "-u", "containerd", "-n", "5", "--no-pager", "-o", "cat"]
        )
        return f"{error.strip()} {journal.strip()}".strip()


def noted(started: float | None) -> str | None:
    """The digest that was noted after containerd's last start; None if it was started again since."""
    try:
        # systemd tells whole seconds.
        if started is None or NOTE.stat().st_mtime + 1 < started:
            return None
        return NOTE.read_text(encoding="utf-8").strip()
    except OSError:
        return None


def note(digest: str) -> None:
    """Remember what the running containerd was started with."""
    NOTE.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    NOTE.write_text(digest + "\n", encoding="utf-8")


def version_of(module: Any) -> str | None:
    """Version of the installed containerd, None if there is none."""
    if module.get_bin_path("containerd") is None:
        return None
    status, told, error = module.run_command(["containerd", "--version"])
    found = next((word.lstrip("v") for word in told.split() if word.lstrip("v")[:1].isdigit()), None)
    if found is None and module.params["state"] == "present":
        why = error.strip() or told.strip() or f"it ended with status {status}"
        module.fail_json(
            msg=f"containerd of this machine cannot be run: {why}. Give another 'containerd_version'."
        )
    return found


def without_containerd(module: Any, files: Mapping[Path, str | None]) -> None:
    """End the module where containerd is not installed: leave what is to be without us, or fail if our files are wanted."""
    if module.params["state"] == "present":
        module.fail_json(msg="containerd is not installed on this machine. Run role 'containerd' first.")
    work = Configuration(module)
    for path, text in files.items():
        work.write(path, text, containerd_files.mode_to_make(path))
    module.exit_json(changed=bool(work.diff), diff=work.diff)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "runtime": {"type": "dict", "default": {}},
            "images": {"type": "dict", "default": {}},
            "registries": {"type": "list", "elements": "dict"},
            "restart": {"type": "bool", "default": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "bundle": bundle.OPTION,
        },
        supports_check_mode=True,
    )
    bundle.take(module)
    path = containerd_files.FOLDER / "conf.d" / f"{module.params['name']}.toml"
    version = version_of(module)
    if version is None:
        without_containerd(
            module,
            {
                **containerd_files.without(path),
                **containerd_files.registries(module.params["registries"], "absent"),
            },
        )
        return

    work = Configuration(module)
    try:
        files = containerd_files.wanted(module.params, path, version)
    except containerd.ConfigError as error:
        module.fail_json(msg=str(error))
        return
    for place, content in files.items():
        work.write(place, content, containerd_files.mode_to_make(place))

    effective, problem = work.dump()
    if effective is None:
        if not module.check_mode:
            work.back_out()
        module.fail_json(
            msg=f"containerd does not accept its configuration; the files are back to what they were. It says: {problem}"
        )
        return
    finish(work, effective)


def finish(work: Configuration, effective: str) -> None:
    """Restart containerd if its running configuration is outdated or its CRI plugin is down, and end the module."""
    from gpusmith.probe import containerd as probed

    module, settings = work.module, probed.read_containerd_dump(effective)
    digest = probed.start_digest(effective)
    started = work.started()
    running = noted(started)
    due = containerd.restart_due(digest, running, probed.changed_unix(), started)
    # Nobody can see by times that a file is gone.
    due = due or (running is None and started is not None and work.drop_in_gone)
    due = due or (module.check_mode and bool(work.diff))
    # A CRI plugin that the configuration disables does not come up by a restart.
    cri_error = "" if started is None or settings.cri_disabled else work.cri_error()
    due = module.params["restart"] and (due or bool(cri_error))
    if due and not module.check_mode:
        problem = work.restart(without_cri=bool(settings.cri_disabled))
        if problem:
            fail(work, problem)
        if cri_error:
            module.warn(
                f"containerd's CRI plugin was down, so containerd was restarted. It said: {cri_error}."
            )
    if (due or running is None) and not module.check_mode and module.params["restart"]:
        note(digest)
    module.exit_json(
        changed=bool(work.diff) or due,
        effective=asdict(settings),
        overrides=containerd_files.overrides(effective),
        restarted=due,
        cri_error=cri_error,
        diff=work.diff,
    )


def fail(work: Configuration, problem: str) -> None:
    """Restore the files, and fail with containerd's error."""
    if not work.diff:
        work.module.fail_json(msg=f"containerd did not come up after a restart. It said: {problem}")
    work.back_out()
    again = work.restart()
    state = "runs with it" if not again else "does not come up with that either"
    work.module.fail_json(
        msg=f"containerd did not come up, so its old configuration was put back; it {state}. It said: {problem}"
    )


if __name__ == "__main__":
    main()
