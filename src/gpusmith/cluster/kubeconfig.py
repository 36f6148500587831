"""Reading a kubeconfig, and what to say of one that cannot be used."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusmith.cluster import memory_files
from gpusmith.errors import InputError, ToolError

if TYPE_CHECKING:
    from kubernetes.client import Configuration


def load(kubeconfig: str) -> tuple[Path, Configuration]:
    """The file, and the client's settings from it.

    Raises:
        InputError: it is missing or unusable.
        ToolError: the client is not installed, or not one that is known.
    """
    path = Path(kubeconfig).expanduser()
    if not kubeconfig:
        raise _missing("")
    plugin = plugin_of(content(path))
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise ToolError(
            f"The Python package 'kubernetes' cannot be used here: {error}.", "Run 'make setup'."
        ) from error
    memory_files.use()
    settings = client.Configuration()
    said = _Errors()
    logging.getLogger().addFilter(said)
    try:
        config.load_kube_config(config_file=str(path), client_configuration=settings)
    except Exception as error:  # of the client, yaml, base64 and files
        raise InputError(
            f"Kubeconfig '{path}' cannot be used: {error}", "Fetch it again from the cluster."
        ) from error
    finally:
        logging.getLogger().removeFilter(said)
    if plugin and said.words:
        # The client goes on as nobody, and the API server's refusal would be all that a person sees.
        raise ToolError(
            f"The credential plugin '{plugin}' of kubeconfig '{path}' failed: {'; '.join(said.words)[:400]}.",
            f"Install '{plugin}', or log in anew with it; or give a kubeconfig that needs none.",
        )
    return path, settings


class _Errors(logging.Filter):
    """Keeps what the client only writes into the log."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether it goes into the log as well."""
        if record.levelno < logging.ERROR:
            return True
        self.words.append(" ".join(record.getMessage().split()).rstrip("."))
        return False


def plugin_of(kubeconfig: Mapping[str, Any]) -> str:
    """The program that gives the current user's credential; empty if none does."""

    def named(rows: Any, name: Any, kind: str) -> Mapping[str, Any]:
        found = [row.get(kind) for row in rows or () if isinstance(row, Mapping) and row.get("name") == name]
        return found[0] if found and isinstance(found[0], Mapping) else {}

    context = named(kubeconfig["contexts"], kubeconfig.get("current-context"), "context")
    user = named(kubeconfig.get("users"), context.get("user"), "user")
    return str((user.get("exec") or {}).get("command") or "")


def _missing(path: str | Path) -> InputError:
    return InputError(
        f"Kubeconfig '{path}' does not exist.",
        "Set 'gpusmith_kubeconfig', or 'validation_kubeconfig', to one of this cluster.",
    )


def content(path: Path) -> Mapping[str, Any]:
    """What a kubeconfig says.

    Raises:
        InputError: it is missing or something else; the client's own words would be those of a fault in a program.
    """
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(path) from error
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(
            f"Kubeconfig '{path}' cannot be read: {' '.join(str(error).split())[:300]}.",
            "Fetch it again from the cluster.",
        ) from error
    except OSError as error:
        raise InputError(
            f"Kubeconfig '{path}' cannot be read: {error.strerror}.", "Name a file that this user can read."
        ) from error
    if not isinstance(found, dict) or not {"clusters", "contexts"} <= found.keys():
        raise InputError(
            f"File '{path}' is no kubeconfig: it has no 'clusters' and 'contexts'.",
            "Set 'gpusmith_kubeconfig' to a kubeconfig of this cluster.",
        )
    return found
