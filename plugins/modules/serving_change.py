#!/usr/bin/python
"""Ansible module: what was there before a service of a serving node is changed, and the way back to it."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_change
short_description: Prove a change of a service on a node that serves, or take it back
description:
  - C(state=begun) keeps the files and the versions of packages that are about to change, in C(/var/lib/gpusmith/changes). Copies of an earlier run
    that did not prove its change stay, since they are the last good state; unless the unit was started since, has been up for a minute, and the
    node is Ready. If these copies stay although files or packages have changed since, the present ones are kept beside them. If versions are to
    change, the present packages themselves are kept there, so that the way back needs no repository; if they are not available anywhere, the module
    fails, and nothing was changed.
  - C(state=proved) waits until the unit has stayed up without a restart in between, the node's Lease was renewed after its restart and, if it was
    Ready before, the node is Ready. A unit that O(restart_with) names and that was not restarted is restarted first. The commands of O(asks) must
    succeed, and for containerd its CRI plugin must answer as well, also if nothing was restarted. The kept copies are deleted.
  - C(state=taken_back) restores files and packages, restarts the unit, proves it, and fails with the reason.
  - Unit and files are examined on the node, the Lease from the controller.
author: gpusmith contributors
options:
  state: {type: str, choices: [begun, proved, taken_back], required: true, description: Step to do.}
  subject: {type: str, required: true, description: Name of the change. A change of the same name that was not proved is continued.}
  unit: {type: str, required: true, description: "The service, without '.service'."}
  node: {type: str, required: true, description: Name of the Node object.}
  kubeconfig: {type: path, required: true, description: Path of a kubeconfig on the controller.}
  files: {type: list, elements: path, default: [], description: Paths of files that may change.}
  packages: {type: dict, default: {}, description: Arguments of M(gpusmith.gpu.packages) for the packages that may change.}
  restart_with:
    type: list
    elements: str
    choices: [files, packages]
    default: []
    description: >-
      Which of these require a restart of the unit when they change. The unit is restarted then, unless it already was.
  asks: {type: list, elements: str, default: [], description: "Commands that must succeed after the change, whether the unit was restarted or not."}
  stay: {type: float, default: 5.0, description: Seconds that the unit must stay up.}
  timeout: {type: float, default: 120.0, description: Seconds within which the node must have renewed its Lease.}
  reason: {type: str, default: "", description: "With O(state=taken_back), the reason."}
  step: {type: str, default: "", description: Part of the work on the node; set by the action plugin.}
  ready: {type: bool, default: false, description: Whether the node is Ready before the change; set by the action plugin.}
"""

RETURN = r"""
outcome:
  {type: str, returned: always, description: "V(begun), V(proved), V(taken back), or V(nothing changed) for one that failed before it changed anything."}
restarted: {type: bool, returned: with C(state=proved), description: Whether the unit was restarted since the change began.}
"""

import json
import re
import shlex
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import packages as door
from ansible_collections.gpusmith.gpu.plugins.module_utils.files import mode_of, put, read
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import (
    manifests,
)

# Read by the probe, too: what is open here was not proved.
FOLDER = Path("/var/lib/gpusmith/changes")
PROPERTIES = "ActiveState,SubState,InvocationID,NRestarts,ActiveEnterTimestampMonotonic"
LAST_WORDS = 3

Run = Callable[[Sequence[str]], Tuple[int, str, str]]
Versions = Callable[[Sequence[str]], Dict[str, str]]


def last_words(journal: str) -> str:
    """What a service said last of why it ended: its errors, or else its last lines."""
    lines = [line.strip() for line in journal.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"[EF][0-9]{4} |.*level=(error|fatal)", line)]
    return " ".join((errors or lines)[-LAST_WORDS:])


class Change:
    """One change on this machine.

    Args:
        subject: names it.
        unit: the service.
        run: runs a command; status, output and error.
        versions: full versions of installed packages by name.
        folder: of what is kept.
    """

    def __init__(self, subject: str, unit: str, run: Run, versions: Versions, folder: Path = FOLDER) -> None:
        self._unit, self._run, self._versions = unit + ".service", run, versions
        self._path = folder / (subject + ".json")
        self._saved = folder / (subject + ".packages")

    def _kept(self) -> Optional[Mapping[str, Any]]:
        text = read(self._path)
        kept: Optional[Mapping[str, Any]] = json.loads(text) if text else None
        return kept

    def begin(self, files: Sequence[str], packages: Sequence[str], ready: bool) -> bool:
        """Keep what is there, unless an earlier run has; whether it was kept now."""
        earlier = self._kept()
        if earlier is not None:
            files, packages = list(earlier["files"]), list(earlier["packages"])
        there = self._versions(packages)
        unit = self._show()
        now: Dict[str, Any] = {
            "unit": self._unit,
            "since": time.time(),
            "invocation": unit["invocation"],
            "ready": ready,
            "files": {path: read(Path(path)) for path in files},
            "modes": {path: mode_of(Path(path)) for path in files},
            "packages": {name: there.get(name) for name in packages},
        }
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if earlier is None:
            put(self._path, json.dumps(now), 0o600)
        elif any(now[what] != earlier[what] for what in ("files", "packages")):
            # That run may have written it, or a person since: taken back, it must not be lost.
            aside = self._path.with_suffix(".found-%d" % now["since"])
            put(aside, json.dumps(now), 0o600)
            put(self._path, json.dumps({**earlier, "aside": str(aside)}), 0o600)
        return earlier is None

    def look(self, asks: Sequence[str] = (), packages: Sequence[str] = ()) -> Dict[str, Any]:
        """The unit now, what commands answer, and how this machine differs from what was kept; former versions of packages."""
        kept = self._kept()
        answers = [self._answer(words) for words in asks]
        found: Dict[str, Any] = {
            **self._show(),
            "open": kept is not None,
            "words": "",
            "folder": str(self._saved),
            "answers": answers,
        }
        if kept is None:
            return {**found, "former": self._versions(packages)}
        there = self._versions(list(kept["packages"]))
        found.update(
            former={name: version for name, version in kept["packages"].items() if version is not None},
            saved=(self._saved / manifests.MANIFEST).exists(),
            before=kept["invocation"],
            ready=kept["ready"],
            aside=kept.get("aside", ""),
            files=[path for path, text in kept["files"].items() if read(Path(path)) != text],
            packages={
                name: version
                for name, version in kept["packages"].items()
                if version is not None and there.get(name) != version
            },
        )
        if found["active"] != "active" or found["sub"] != "running":
            found["words"] = self._words(kept["since"])
        return found

    def restore(self) -> List[str]:
        """Put the kept files back; the paths that were different."""
        kept = self._kept()
        changed = (
            [] if kept is None else [path for path, text in kept["files"].items() if read(Path(path)) != text]
        )
        for path in changed:
            modes = kept.get("modes", {}) if kept else {}
            put(Path(path), kept["files"][path] if kept else None, modes.get(path))
        return changed

    def restart(self) -> None:
        """Start the unit anew. Whether it stays up is seen later."""
        self._run(["systemctl", "reset-failed", self._unit])
        self._run(["systemctl", "restart", self._unit])

    def end(self) -> None:
        """Forget what was kept."""
        put(self._path, None)
        shutil.rmtree(str(self._saved), ignore_errors=True)

    def _answer(self, words: str) -> Dict[str, Any]:
        try:
            status, output, error = self._run(shlex.split(words))
        except OSError as problem:
            status, output, error = 127, "", str(problem)
        return {"asked": words, "status": status, "output": output, "error": error}

    def _show(self) -> Dict[str, Any]:
        _status, output, _error = self._run(["systemctl", "show", "--property=" + PROPERTIES, self._unit])
        keys = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
        entered = int(keys.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        active = keys.get("ActiveState", "unknown")
        up_s = time.clock_gettime(time.CLOCK_MONOTONIC) - entered if active == "active" and entered else 0.0
        return {
            "active": active,
            "sub": keys.get("SubState", ""),
            "invocation": keys.get("InvocationID", ""),
            "up_s": round(up_s, 3),
            "started": round(time.time() - up_s, 3),
        }

    def _words(self, since: float) -> str:
        # Lines of the unit's processes alone: systemd's own say nothing of the cause.
        command = ["journalctl", "_SYSTEMD_UNIT=" + self._unit, "--since=@%d" % since]
        _status, output, _error = self._run([*command, "--lines=30", "--no-pager", "--output=cat"])
        return last_words(output)


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "subject": {"type": "str", "required": True},
            "unit": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "packages": {"type": "list", "elements": "str", "default": []},
            "asks": {"type": "list", "elements": "str", "default": []},
            "ready": {"type": "bool", "default": False},
            "step": {"choices": ["begin", "look", "restart", "restore", "end"], "required": True},
        }
    )
    asked = module.params

    def versions(names: Sequence[str]) -> Dict[str, str]:
        if not names:
            return {}
        return {name: found.version for name, found in door.backend().installed(names).items()}

    change = Change(
        asked["subject"], asked["unit"], partial(module.run_command, handle_exceptions=False), versions
    )
    try:
        if asked["step"] == "begin":
            module.exit_json(changed=change.begin(asked["files"], asked["packages"], asked["ready"]))
        elif asked["step"] == "restore":
            module.exit_json(changed=True, restored=change.restore())
        elif asked["step"] == "look":
            module.exit_json(changed=False, **change.look(asked["asks"], asked["packages"]))
        else:
            (change.restart if asked["step"] == "restart" else change.end)()
            module.exit_json(changed=True)
    except (OSError, ValueError) as error:
        module.fail_json(msg=f"The change of '{asked['subject']}' cannot be kept in '{FOLDER}': {error}.")


if __name__ == "__main__":
    main()
