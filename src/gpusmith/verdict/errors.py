"""The message of a failed task as text, printed once for equal ones."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpusmith.wording import ADDRESS

Result = Mapping[str, Any]

SAME = "The same."
DETAILS = ("stderr", "stdout", "module_stderr", "module_stdout")
MOST_LINES = 40
TRACE = "Traceback (most recent call last)"


def text(result: Result) -> str:
    """The message of a result: one line, or one below the other."""
    # Of a task whose output is secret, Ansible keeps only why.
    said = result.get("msg", result.get("censored"))
    if said is None:
        return ""
    if isinstance(said, list | tuple):
        return "\n".join(["", *(f"    {line}" for line in said)])
    # Ansible's own words before those of a connection say nothing.
    return str(said).strip().removeprefix("Task failed: ")


def words(result: Result) -> str:
    """The message with what the task's program printed, unless the message has it already."""
    said = text(result) or "The task failed without a message."
    parts = [said]
    for key in DETAILS:
        printed = str(result.get(key) or "").strip()
        if printed and printed not in said:
            parts += ["", f"{key}:", *(f"    {line}" for line in printed.splitlines()[-MOST_LINES:])]
    if "rc" in result and len(parts) > 1:
        parts[0] += f" (status {result['rc']})"
    trace = str(result.get("exception") or "")
    if TRACE in trace and TRACE not in "\n".join(parts):
        parts += ["", trace.strip()]
    return "\n".join(parts)


class Errors:
    """Remembers what was said, so that the next host with the same error is only named."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def words(self, task: str, host: str, result: Result) -> str:
        """What to say of a failure: all of it, or that it is the same as another host's at this task."""
        full = words(result)
        key = (task, ADDRESS.sub("\0", re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", "\0", full)))
        if key in self._said:
            return SAME
        self._said.add(key)
        return full
