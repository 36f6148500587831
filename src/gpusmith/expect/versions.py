"""When a package has a version: the one rule, for apt and rpm alike.

A version is written in an inventory as people say it, '580.178.04', or with the packager's revision, '580.178.04-1', and with the
epoch, '1:580.178.04-1'. What is written must be the package's; what is left out may be anything.

- Behind what is wanted comes nothing, or more of the packager's part, which begins with '-', '+' or '~'. A dot begins another
  upstream version: 550.54.14 and 550.54.15 are two drivers, and neither is 550.54.
- A revision that is asked for is compared: who writes '580.178.04-1' means that build, and '580.178.04-2' is not it.
- An epoch only orders versions. It is compared if it is asked for.
- '12.8.*' is every version that begins with '12.8.'.
- Of a driver a branch can be asked for, '580', or 'latest': which version that is on a node, `choice` says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.matching import is_of_driver

EPOCH = re.compile(r"^\d+:")
PACKAGERS = re.compile(r"[-+~]")
FULL_DRIVER = re.compile(r"(?:\d+:)?\d{3}\.\d+(?:\.\d+)?(?:[-+~]\S+)?$")
"""A driver's version that names one build, not a branch."""
BRANCH = re.compile(r"\d{3}")
LATEST = "latest"
"""Asks for the newest driver of any branch."""


def is_open(asked: str) -> bool:
    """Whether what is asked for leaves the choice of a driver's version: a branch, or the latest one."""
    return asked == LATEST or BRANCH.fullmatch(asked) is not None


def answers(version: str | None, asked: str) -> bool:
    """Whether a driver's version is what was asked for: that one, any of the branch, or any at all."""
    if version is None or not is_open(asked):
        return is_version(version, asked)
    found = of_driver(version)
    return found is not None and (asked == LATEST or found.split(".", maxsplit=1)[0] == asked)


def newest_first(versions: Iterable[str]) -> list[str]:
    """Drivers' versions, each once."""
    return sorted(set(versions), key=_numbers, reverse=True)


def upstream(version: str) -> str:
    """Without epoch and the packager's part: '580.178.04' of '1:580.178.04-1'."""
    return PACKAGERS.split(EPOCH.sub("", version), maxsplit=1)[0]


def is_version(version: str | None, wanted: str) -> bool:
    """Whether a package's version is the wanted one."""
    if version is None:
        return False
    plain = EPOCH.sub("", version)
    if wanted.endswith(".*"):
        return plain.startswith(wanted[:-1])
    return wanted in (version, plain) or any(
        text.startswith(wanted + sign) for text in (plain, version) for sign in "-+~"
    )


def of_driver(version: str) -> str | None:
    """The driver's version that a package's is; None for versions of other things, as the container toolkit's."""
    return upstream(version) if is_of_driver(version) else None


def is_older(version: str, than: str) -> bool:
    """Whether a driver's version is older than another; the packager's revisions count if both name one."""
    first, second = (EPOCH.sub("", text) for text in (version, than))
    if upstream(first) != upstream(second):
        return _numbers(upstream(first)) < _numbers(upstream(second))
    revisions = [_numbers(text.removeprefix(upstream(text))) for text in (first, second)]
    return all(revisions) and revisions[0] < revisions[1]


def numbers(version: str) -> tuple[int, ...]:
    """The numeric parts of a version, without epoch and the packager's part."""
    return tuple(_numbers(upstream(version)))


def _numbers(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)]
