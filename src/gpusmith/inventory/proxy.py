"""A site's HTTP proxy: who is asked through it, who is not, and how programs are told."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from gpusmith.errors import InputError, Refusal
from gpusmith.inventory.labels import must_be
from gpusmith.inventory.templates import has_open

VARIABLE = "gpusmith_proxy"
VARIABLES = (VARIABLE, "containerd_proxy", "kubernetes_node_proxy")
SCHEMES = ("http", "https")
PORTS = {"http": 80, "https": 443}
LABEL_LENGTH = 64
"""Of a part of a name, which is shorter (RFC 1035, section 2.3.4)."""
NEAR = ("localhost", "127.0.0.1", "::1", ".svc", ".cluster.local")
"""Never asked through a proxy: the machine itself and Services of the cluster."""

URL = re.compile(r"https?://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?/?")
# Every program that is told knows names, '.suffix' and addresses; containerd and kubelet know networks as well.
EXCEPTION = re.compile(r"\.?[A-Za-z0-9:_-][A-Za-z0-9.:_-]*(/[0-9]{1,3})?")


def rules(name: str, value: Any) -> Iterator[Refusal]:
    """A mapping of http, https and no_proxy. Files that everybody may read have it, so it has no password."""
    # A template that needs facts is judged when it is filled in.
    if value is None or (isinstance(value, str) and has_open(value)):
        return
    if not isinstance(value, Mapping):
        yield must_be(name, "a mapping with keys http, https and no_proxy", value)
        return
    for scheme in SCHEMES:
        url: object = value.get(scheme) or ""
        if isinstance(url, str) and "@" in url:
            yield Refusal(
                f"'{name}.{scheme}' has a user or a password, and files that everybody on a node may read would have it.",
                "Use a proxy that knows the nodes by their addresses.",
            )
        elif url and not (isinstance(url, str) and URL.fullmatch(url) and is_reachable(url)):
            yield must_be(f"{name}.{scheme}", "an address such as 'http://proxy.example.com:3128'", url)
    exceptions = value.get("no_proxy") or ()
    if not isinstance(exceptions, list | tuple):
        yield must_be(f"{name}.no_proxy", "a list", exceptions)
        return
    for index, each in enumerate(exceptions):
        if not isinstance(each, str) or not EXCEPTION.fullmatch(each):
            wants = "a name, a suffix such as '.example.com', an address, or a network such as '10.0.0.0/8'"
            yield must_be(f"{name}.no_proxy[{index}]", wants, each)


def is_reachable(url: str) -> bool:
    """Whether the host and port of an address are such that programs can resolve and ask them."""
    try:
        parts = urlsplit(url)
        name = parts.hostname or ""
        if parts.netloc.startswith("["):
            ipaddress.IPv6Address(name)
        return parts.port != 0 and all(
            0 < len(label) < LABEL_LENGTH for label in name.removesuffix(".").split(".")
        )
    except ValueError:
        return False


def addresses(given: Mapping[str, Any] | None) -> dict[str, str]:
    """By the name of a variable, the proxy that programs are told of.

    The port is written out: without one libcurl, and so dnf, takes 1080, and programs in Go that of the scheme.
    """
    found = {}
    for scheme in SCHEMES:
        if url := str((given or {}).get(scheme) or "").rstrip("/"):
            parts = urlsplit(url)
            found[f"{scheme.upper()}_PROXY"] = url if parts.port else f"{url}:{PORTS[parts.scheme]}"
    return found


def environment(given: Mapping[str, Any] | None, near: Iterable[str] = ()) -> dict[str, str]:
    """HTTP_PROXY, HTTPS_PROXY and NO_PROXY; empty without a proxy.

    Args:
        given: the variable's value.
        near: more that is never asked through the proxy: names and addresses, with or without a port.

    Raises:
        InputError: the value is against `rules`, by who uses a role without the guard.
    """
    for refusal in rules("proxy", given):
        raise InputError(refusal.message, refusal.hint)
    given = given or {}
    found = addresses(given)
    if not found:
        return {}
    names = [*NEAR, *(host(each) for each in near if each), *map(str, given.get("no_proxy") or ())]
    return {**found, "NO_PROXY": ",".join(dict.fromkeys(names))}


def is_near(name: str, given: Mapping[str, Any]) -> bool:
    """Whether programs in Go, such as the kubelet, ask a host without the proxy (golang.org/x/net/http/httpproxy)."""
    return any(
        name == each or name.endswith("." + each.lstrip(".")) or _is_within(name, each)
        for each in (*NEAR, *map(str, given.get("no_proxy") or ()))
    )


def _is_within(address: str, network: str) -> bool:
    try:
        return ipaddress.ip_address(address) in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def for_package_managers(given: Mapping[str, Any] | None) -> dict[str, str]:
    """The same in lower case, which apt, and libcurl for dnf, go by (apt-transport-http(1), libcurl-env(3))."""
    return {name.lower(): value for name, value in environment(given).items()}


def file_text(head: str, given: Mapping[str, Any] | None, near: Iterable[str] = ()) -> str:
    """An environment file of systemd, whose values need no quotes by `rules`; empty without a proxy."""
    lines = [f"{name}={value}" for name, value in environment(given, near).items()]
    return "".join(f"{line}\n" for line in (head, *lines)) if lines else ""


def host(text: str) -> str:
    """A host without its port."""
    matched = re.fullmatch(r"\[(.+)\](:\d+)?|([^:]+)(:\d+)?", text)
    return (matched[1] or matched[3]) if matched else text
