"""Folders of package files that a site has put together, on their way from the controller to a node."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages import folder
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.base import PackageError
from ansible_collections.gpusmith.gpu.plugins.module_utils.packages.repositories import repository_of
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.egress import EgressAction

COPIES = 2
"""As many are on the node while files are brought."""


def is_folder(given: Any) -> bool:
    """Whether a repository of the inventory is a folder."""
    return isinstance(given, Mapping) and bool(given.get("folder"))


class FolderAction(EgressAction):
    """Brings folders to the node of its task."""

    TRANSFERS_FILES = False

    def bring(self, given: Mapping[str, Any], owner: str, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """A repository of the inventory as the node knows it, with its folder there if it is one.

        Raises:
            PackageError: the folder is not what its list says, or cannot be brought.
        """
        if not is_folder(given):
            return dict(given)
        found: dict[str, Any] = folder.as_on_node(given, owner)
        repository_of(found, owner)
        site = Path(str(given["folder"])).expanduser()
        asked = {"name": owner, "repository": found, "sums": folder.listed(site).text}
        answer = self._ask_of_folder(asked, task_vars)
        if answer["lacking"]:
            self._send_folder(site, asked, int(answer["free"]), task_vars)
        return found

    def _send_folder(
        self, site: Path, asked: Mapping[str, Any], free: int, task_vars: dict[str, Any] | None
    ) -> None:
        names = sorted(folder.proved(site).digests)
        size = sum((site / name).stat().st_size for name in names)
        if COPIES * size > free:
            raise PackageError(
                f"The node has {free >> 20} MiB free for '{folder.PLACE}', and the packages in '{site}' need "
                f"{COPIES * size >> 20} MiB while they are brought. Make room there; a folder there that no file of sources names is of an "
                "earlier list."
            )
        shell = self._connection._shell  # noqa: SLF001 - Ansible has no other name for it
        before, there = shell.tmpdir, self._make_tmp_path()
        try:
            for name in names:
                self._connection.put_file(str(site / name), f"{there.rstrip('/')}/{name}")
            self._ask_of_folder({**asked, "brought": there}, task_vars)
        except AnsibleError as error:
            raise PackageError(
                f"The packages in '{site}' cannot be brought to the node: {str(error).rstrip('.')}. Look at the connection and at the space for "
                "temporary files of its user."
            ) from error
        finally:
            # It is in a folder for temporary files: nothing is undone because it stays.
            with contextlib.suppress(AnsibleConnectionFailure):
                self._remove_tmp_path(there)
            shell.tmpdir = before

    def _ask_of_folder(self, asked: Mapping[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        answer: dict[str, Any] = self._execute_module(
            module_name="gpusmith.gpu.packages_folder", module_args=dict(asked), task_vars=task_vars
        )
        if answer.get("failed") or answer.get("unreachable"):
            raise PackageError(str(answer.get("msg")))
        return answer
