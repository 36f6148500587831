"""What containers see of the simulated kernel's files beyond what they are given by devices and libraries."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from simgpu import paths

RUNC, MOUNT = "/usr/bin/runc", "/usr/bin/mount"


def main(words: Sequence[str]) -> int:
    """Create a container that sees the machine's /proc/driver, by the real runc; words are runc's."""
    show(Path(words[words.index("--bundle") + 1]))
    os.execv(RUNC, [RUNC, *words])  # noqa: S606 - it takes this process, as runc is the one that is waited for


def show(bundle: Path) -> None:
    """Have a container given it before its program starts. runc itself refuses mounts inside of /proc."""
    path = bundle / "config.json"
    spec = json.loads(path.read_text())
    target = bundle / spec["root"]["path"] / str(paths.PROC).lstrip("/")
    hook = {"path": MOUNT, "args": ["mount", "--rbind", str(paths.PROC), str(target)]}
    spec.setdefault("hooks", {}).setdefault("createContainer", []).insert(0, hook)
    path.write_text(json.dumps(spec))
