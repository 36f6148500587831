"""What a failed task says, once."""

from __future__ import annotations

from typing import Any

import pytest

from gpusmith.verdict.errors import SAME, Errors, words


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"msg": "No.\n"}, "No."),
        ({"msg": ["one", "two"]}, "\n    one\n    two"),
        ({"msg": "Task failed: Connection refused"}, "Connection refused"),
        ({"censored": "the output has been hidden"}, "the output has been hidden"),
        ({}, "The task failed without a message."),
        ({"msg": "It says: a", "stderr": "a"}, "It says: a"),
        (
            {"msg": "Failed", "rc": 2, "stderr": "a\nb", "stdout": ""},
            "Failed (status 2)\n\nstderr:\n    a\n    b",
        ),
        ({"msg": "Failed", "exception": "(traceback unavailable)"}, "Failed"),
    ],
)
def test_words(result: dict[str, Any], said: str) -> None:
    assert words(result) == said


def test_a_traceback_is_shown_once() -> None:
    trace = 'Traceback (most recent call last):\n  File "x"\nKeyError: 1'
    assert words({"msg": "Crash", "exception": trace}).count("Traceback") == 1
    assert words({"msg": "Crash", "module_stderr": trace, "exception": trace}).count("Traceback") == 1


def test_hosts_with_the_same_error() -> None:
    errors = Errors()
    assert errors.words("t", "gpu-1", {"msg": "Node 'gpu-1' is bad."}) == "Node 'gpu-1' is bad."
    assert errors.words("t", "gpu-2", {"msg": "Node 'gpu-2' is bad."}) == SAME
    # Another host's name in it, or another task, is another error.
    assert errors.words("t", "gpu-3", {"msg": "Node 'gpu-1' is bad."}) != SAME
    assert errors.words("u", "gpu-2", {"msg": "Node 'gpu-2' is bad."}) != SAME
    dead = "ssh: connect to host 10.0.0.{} port 22: No route to host"
    assert errors.words("t", "gpu-1", {"msg": dead.format(1)}) == dead.format(1)
    assert errors.words("t", "gpu-2", {"msg": dead.format(2)}) == SAME
    # A name is no part of another one.
    assert errors.words("t", "a", {"msg": "Node 'a' is bad."}) == SAME
    assert errors.words("t", "gpu-1", {"msg": "Node 'gpu-11' is bad."}) != SAME
