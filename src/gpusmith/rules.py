"""What values of the inventory must be where their type does not say it. The playbooks' guard and the suite go by the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HINT = "Correct it in the inventory."
SWAP = ("off", "keep")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TAINT_KEYS = {"key", "value", "effect"}
TRUE_WORDS = {"yes", "true", "on", "1"}
FALSE_WORDS = {"no", "false", "off", "0"}

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
# The API takes the same for keys and values of taints.
LONGEST_NAME = 63
LONGEST_PREFIX = 253
NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NAME_WORDS = "at most 63 letters, digits, '-', '_' and '.', a letter or digit first and last"
KEY_WORDS = f"{NAME_WORDS} (before it, if wanted, a DNS name and '/')"
VALUE_WORDS = f"empty or {NAME_WORDS}"
QUOTE_IT = "a string (quote it)"

SYSCTL_NAME = re.compile(r"[^\s=]+")


@dataclass(frozen=True)
class Wrong:
    """A value that cannot be used.

    Attributes:
        name: the variable, with the place inside it.
        wants: what it must be.
        seen: what it is.
    """

    name: str
    wants: str
    seen: str

    @property
    def message(self) -> str:
        """One sentence, without the host."""
        return f"'{self.name}' must be {self.wants}, not {self.seen}."


Rule = Callable[[str, Any], Iterator[Wrong]]


def is_key(text: object) -> bool:
    """Whether Kubernetes takes it for the key of a label or taint."""
    if not isinstance(text, str):
        return False
    prefix, slash, name = text.rpartition("/")
    if slash and (len(prefix) > LONGEST_PREFIX or not DNS_NAME.fullmatch(prefix)):
        return False
    return len(name) <= LONGEST_NAME and NAME.fullmatch(name) is not None


def is_value(text: str) -> bool:
    """Whether Kubernetes takes it for the value of a label or taint."""
    return not text or (len(text) <= LONGEST_NAME and NAME.fullmatch(text) is not None)


def _value(name: str, value: Any) -> Iterator[Wrong]:
    if not isinstance(value, str):
        yield Wrong(name, QUOTE_IT, repr(value))
    elif not is_value(value):
        yield Wrong(name, VALUE_WORDS, repr(value))


def labels(name: str, value: Any) -> Iterator[Wrong]:
    """Labels that the API server takes."""
    if not isinstance(value, Mapping):
        yield Wrong(name, "a mapping of keys to values", repr(value))
        return
    for key, text in value.items():
        if not is_key(key):
            yield Wrong(name, f"a mapping whose keys are {KEY_WORDS}", repr(key))
        yield from _value(f"{name}.{key}", text)


def taints(name: str, value: Any) -> Iterator[Wrong]:
    """Taints that the API server takes."""
    if not isinstance(value, list | tuple):
        yield Wrong(name, "a list of {key, value, effect}", repr(value))
        return
    seen = set()
    for index, row in enumerate(value):
        place = f"{name}[{index}]"
        if not isinstance(row, Mapping) or not {"key", "effect"} <= set(row) <= TAINT_KEYS:
            yield Wrong(place, "a mapping of key, effect and, if wanted, value", repr(row))
            continue
        if not is_key(row["key"]):
            yield Wrong(f"{place}.key", KEY_WORDS, repr(row["key"]))
        if row["effect"] not in EFFECTS:
            yield Wrong(f"{place}.effect", f"one of {', '.join(map(repr, EFFECTS))}", repr(row["effect"]))
        if row.get("value") is not None:
            yield from _value(f"{place}.value", row["value"])
        same = (str(row["key"]), str(row["effect"]))
        if same in seen:
            yield Wrong(place, "the only one with its key and effect", repr(row))
        seen.add(same)


def startup_taint(name: str, value: Any) -> Iterator[Wrong]:
    """Key of the taint of a new node; empty for none."""
    if value != "" and not is_key(value):
        yield Wrong(name, f"empty or {KEY_WORDS}", repr(value))


def sysctl(name: str, value: Any) -> Iterator[Wrong]:
    """Kernel parameters: each becomes a line of a file."""
    if not isinstance(value, Mapping):
        yield Wrong(name, "a mapping of kernel parameters to values", repr(value))
        return
    for key, setting in value.items():
        if not isinstance(key, str) or not SYSCTL_NAME.fullmatch(key):
            yield Wrong(name, "a mapping whose keys are names of kernel parameters", repr(key))
        if isinstance(setting, bool) or not isinstance(setting, str | int | float) or "\n" in str(setting):
            yield Wrong(f"{name}.{key}", "a string of one line or a number", repr(setting))


def swap(name: str, value: Any) -> Iterator[Wrong]:
    """What to do about swap."""
    # Unquoted, YAML takes 'off' for false.
    if value is not False and value not in SWAP:
        yield Wrong(name, f"one of {', '.join(map(repr, SWAP))}", repr(value))


def kubeconfig(name: str, value: Any) -> Iterator[Wrong]:
    """Path of a kubeconfig; whether there has to be one is known to who needs it."""
    if value is not None and not isinstance(value, str):
        yield Wrong(name, "the path of a file", repr(value))
        return
    try:
        if value and Path(value).expanduser().is_dir():
            yield Wrong(name, "the path of a file", f"the folder {value!r}")
    except RuntimeError:
        yield Wrong(name, "the path of a file", f"{value!r}, whose user has no home folder")


def text(name: str, value: Any) -> Iterator[Wrong]:
    """A string, or nothing."""
    if value is not None and not isinstance(value, str):
        yield Wrong(name, "a string", repr(value))


def port(name: str, value: Any) -> Iterator[Wrong]:
    """A TCP port, or nothing."""
    number = not isinstance(value, bool) and isinstance(value, int | str)
    if value is not None and not (
        number and re.fullmatch(r"[0-9]{1,5}", str(value)) and 0 < int(value) < 65536
    ):
        yield Wrong(name, "a port from 1 to 65535", repr(value))


def flag(name: str, value: Any) -> Iterator[Wrong]:
    """A truth value, or nothing; Ansible takes words for it, too."""
    if value is not None and str(value).lower() not in TRUE_WORDS | FALSE_WORDS:
        yield Wrong(name, "true or false", repr(value))


CONNECTION: Mapping[str, Rule] = {
    "ansible_host": text,
    "ansible_port": port,
    "ansible_user": text,
    "ansible_connection": text,
    "ansible_ssh_common_args": text,
    "ansible_ssh_extra_args": text,
    "ansible_ssh_private_key_file": text,
    "ansible_private_key_file": text,
    "ansible_become": flag,
    "ansible_become_user": text,
}
"""Ansible's own variables for the way to a host. One that cannot be used would break the connections of all hosts."""

RULES: Mapping[str, Rule] = {
    **CONNECTION,
    "gpusmith_kubeconfig": kubeconfig,
    "validation_kubeconfig": kubeconfig,
    "kubernetes_node_labels": labels,
    "kubernetes_node_taints": taints,
    "kubernetes_node_startup_taint": startup_taint,
    "host_baseline_swap": swap,
    "host_baseline_sysctl": sysctl,
}
"""By the name of the variable."""


def find(values: Mapping[str, Any]) -> Iterator[Wrong]:
    """What is wrong among a host's variables, templates filled in."""
    for name, rule in RULES.items():
        if name in values:
            yield from rule(name, values[name])
