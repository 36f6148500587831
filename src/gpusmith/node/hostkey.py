"""A changed host key, parsed from the output of ssh, to be told in one sentence."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

CHANGED = "REMOTE HOST IDENTIFICATION HAS CHANGED"
OFFENDING = re.compile(r"Offending (?P<kind>\S+) key in (?P<file>.+?):(?P<line>\d+)")
NAME = re.compile(r"Host key for (?P<name>\S+) has changed")
FINGERPRINT = re.compile(r"key sent by the remote host is\s+(?P<fingerprint>\S+?)\.?\s")


@dataclass(frozen=True)
class ChangedKey:
    """What is known of it.

    Attributes:
        cause: the end of a sentence.
        next_step: what a person does.
    """

    cause: str
    next_step: str


def changed_key(said: str) -> ChangedKey | None:
    """The changed key that ssh reports; None if the output is about something else.

    Args:
        said: all of it, with or without its line ends.
    """
    if CHANGED not in said:
        return None
    offending, name, sent = OFFENDING.search(said), NAME.search(said), FINGERPRINT.search(said)
    where = f", which '{offending['file']}' has in line {offending['line']}" if offending else ""
    now = f" (now {sent['fingerprint']})" if sent else ""
    line = "the line with the old key out of your known_hosts"
    if offending and name:
        line = f"the old key: ssh-keygen -f {shlex.quote(offending['file'])} -R {shlex.quote(name['name'])}"
    return ChangedKey(
        f"its host key is not the one that was known{where}{now}",
        "If the machine was installed anew, compare the fingerprint with 'ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub' on"
        f" its console and take out {line}. If it was not, another machine answers at its address.",
    )
