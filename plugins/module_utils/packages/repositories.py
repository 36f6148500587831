"""Repositories as the inventory gives them: nothing without a signature, and no other key than the fingerprint says."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import re
from typing import Any, Mapping

from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError, Repository
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.openpgp import fingerprints

# By type of repository, what of it can be signed; the first is meant where nothing is said.
SIGNED = {"deb": ("metadata",), "rpm": ("packages", "metadata", "both")}


def repository_of(given: Mapping[str, Any], owner: str) -> Repository:
    """A repository as the inventory gives it.

    Args:
        given: type ('deb' unless it says 'rpm'), uris, key (an armored public key), and fingerprint if the key is to be compared with
            it; suites and components of debs, and of rpms what is signed.
        owner: whose repository it is, for errors.

    Raises:
        PackageError: it has no address, no suite, no key, nothing that is signed, another key than the fingerprint says, or of debs a
            password in an address.
    """
    kind = str(given.get("type") or "deb")
    signed = str(given.get("signed") or next(iter(SIGNED.get(kind, ("",)))))
    if signed not in SIGNED.get(kind, ()):
        known = " and ".join(f"'{each}' with {' or '.join(map(repr, SIGNED[each]))}" for each in SIGNED)
        raise PackageError(
            f"The repository of '{owner}' is of type '{kind}' and has '{signed}' signed. Types are {known}; unsigned ones are refused."
        )
    for field in ("uris", "suites", "key") if kind == "deb" else ("uris", "key"):
        if not given.get(field):
            raise PackageError(
                f"The repository of '{owner}' has no '{field}'. Set it in the inventory; unsigned ones are refused."
            )
    if kind == "deb" and any("@" in str(uri).partition("://")[2].partition("/")[0] for uri in given["uris"]):
        raise PackageError(
            f"An address of the repository of '{owner}' has a user or a password, and everybody on the node could read it in apt's sources. "
            "Take it out, and put host, user and password into a file of '/etc/apt/auth.conf.d' on the nodes (apt_auth.conf(5)), mode 0600."
        )
    return Repository(
        uris=[str(uri) for uri in given["uris"]],
        suites=[str(suite) for suite in given.get("suites") or []],
        components=[str(component) for component in given.get("components") or []],
        key=_key(given, owner),
        type=kind,
        signed=signed,
    )


def _key(given: Mapping[str, Any], owner: str) -> str:
    """The armored key, compared with the fingerprint."""
    key = str(given["key"]).strip()
    if "BEGIN PGP PUBLIC KEY BLOCK" not in key:
        raise PackageError(
            f"The key of the repository of '{owner}' is no armored public key ('-----BEGIN PGP PUBLIC KEY BLOCK-----')."
        )
    try:
        found = fingerprints(key)
    except PackageError as error:
        raise PackageError(f"The repository of '{owner}': {error}") from error
    wanted = re.sub(r"\s", "", str(given.get("fingerprint") or "")).upper()
    if wanted and wanted not in found:
        raise PackageError(
            f"The key of the repository of '{owner}' has the fingerprint {' and '.join(found)}, "
            f"the inventory says '{wanted}'. Find out which is right before you go on."
        )
    return key
