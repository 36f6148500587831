"""containerd's CRI plugin, which the kubelet talks to: containerd runs and answers also if it could not be started."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from dataclasses import dataclass

# The plugin's service, and since 2.0 what that is made of.
FILTERS = ("id==cri", "type==io.containerd.cri.v1")
LIST = ("ctr", "plugins", "ls", "--detailed", *FILTERS)
INSTANCES = "fs.inotify.max_user_instances"


@dataclass(frozen=True)
class Cri:
    """The CRI plugin of the running containerd.

    Attributes:
        up: None if containerd could not be asked.
        error: why it is not up, in containerd's own words; or why that is not known.
    """

    up: bool | None = None
    error: str | None = None


def read_plugins(text: str) -> Cri:
    """The state of the CRI plugin, from what `LIST` prints: blocks of KEY: VALUE, divided by empty lines."""
    listed, errors = False, []
    for block in re.split(r"\n\s*\n", text):
        keys = dict(re.findall(r"^\s*(Type|ID|Message):[ \t]*(.*?)[ \t]*$", block, re.MULTILINE))
        listed = listed or keys.get("ID") == "cri"
        # Plugins are listed after those that they need: the first error is the cause.
        if re.search(r"^Error:", block, re.MULTILINE):
            errors.append(keys.get("Message") or f"plugin '{keys.get('ID')}' failed")
    if not listed:
        errors.append("containerd has no plugin 'cri'")
    return Cri(up=not errors, error=errors[0] if errors else None)


def hint(error: str, instances: str | None) -> str:
    """An explanation of the plugin's error, if the error needs one."""
    if "too many open files" not in error or "watcher" not in error:
        return ""
    return f"These are inotify instances, all that the kernel gave root at that time: '{INSTANCES}' is '{instances}' now."
