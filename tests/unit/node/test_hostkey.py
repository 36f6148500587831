"""A changed host key is named with the line to take out."""

from __future__ import annotations

import pytest

from gpusmith.node.hostkey import changed_key
from gpusmith.preflight.table import of_host

WARNING = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
Someone could be eavesdropping on you right now (man-in-the-middle attack)!
It is also possible that a host key has just been changed.
The fingerprint for the ED25519 key sent by the remote host is
SHA256:EFlCcMpK3CgyLUvFQ6jYPzIhUNS0WnpJH7Rc4ntDLxA.
Please contact your system administrator.
Add correct host key in /home/a b/.ssh/known_hosts to get rid of this message.
Offending ECDSA key in /home/a b/.ssh/known_hosts:17
Host key for [192.0.2.1]:2222 has changed and you have requested strict checking.
Host key verification failed.
"""


@pytest.mark.parametrize("said", [WARNING, " ".join(WARNING.split()), WARNING.replace("\n", "\r\n")])
def test_the_line_to_take_out_is_named(said: str) -> None:
    found = changed_key(said)
    assert found is not None
    assert "'/home/a b/.ssh/known_hosts' has in line 17" in found.cause
    assert "SHA256:EFlCcMpK3CgyLUvFQ6jYPzIhUNS0WnpJH7Rc4ntDLxA)" in found.cause
    assert "ssh-keygen -f '/home/a b/.ssh/known_hosts' -R '[192.0.2.1]:2222'" in found.next_step
    assert "@@@" not in found.cause + found.next_step


def test_a_warning_of_other_words_still_says_what_it_is() -> None:
    found = changed_key("WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!")
    assert found is not None
    assert "known_hosts" in found.next_step


@pytest.mark.parametrize("said", ["", "Host key verification failed.", "Connection refused"])
def test_other_words_are_none(said: str) -> None:
    assert changed_key(said) is None


def test_preflight_names_it_as_well() -> None:
    (refusal,) = of_host({"unreachable": True, "msg": f"Failed to connect to the host via ssh: {WARNING}"})
    assert "ssh-keygen -f" in refusal.hint
    assert "@@@" not in refusal.message
    (refusal,) = of_host({"unreachable": True, "msg": "No route to host"})
    assert "No route to host" in refusal.message
