"""What the configuration of a pod network says of a machine."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

DEFAULT_BRIDGE = "cni0"
"""Of the CNI plugins 'bridge' and 'flannel', if a configuration does not name one."""


def bridges(texts: Iterable[str]) -> list[str]:
    """Bridges that files of /etc/cni/net.d name, by CNI's plugins 'bridge' and 'flannel'.

    A bridge keeps the address of a node's former range of pods, and the plugin refuses one that has another address.
    """
    found: dict[str, None] = {}
    for text in texts:
        for plugin in _plugins(text):
            kind, delegate = plugin.get("type"), plugin.get("delegate")
            # Without an address of the pods' range it is a bridge that somebody else made.
            if kind == "bridge" and (plugin.get("isGateway") or plugin.get("isDefaultGateway")):
                found[str(plugin.get("bridge") or DEFAULT_BRIDGE)] = None
            elif kind == "flannel":
                inner = delegate if isinstance(delegate, Mapping) else {}
                found[str(inner.get("bridge") or DEFAULT_BRIDGE)] = None
    return list(found)


def _plugins(text: str) -> list[Mapping[str, Any]]:
    try:
        read = json.loads(text)
    except ValueError:
        return []
    rows = read.get("plugins", [read]) if isinstance(read, Mapping) else []
    return [row for row in rows if isinstance(row, Mapping)] if isinstance(rows, list) else []
