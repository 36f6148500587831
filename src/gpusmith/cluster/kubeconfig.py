"""Reading a kubeconfig, and what to say of one that cannot be used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    if not kubeconfig or not path.is_file():
        raise InputError(
            f"Kubeconfig '{kubeconfig and path}' does not exist.",
            "Set 'gpusmith_kubeconfig', or 'validation_kubeconfig', to one of this cluster.",
        )
    _must_be_kubeconfig(path)
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise ToolError(
            f"The Python package 'kubernetes' cannot be used here: {error}.", "Run 'make setup'."
        ) from error
    memory_files.use()
    settings = client.Configuration()
    try:
        config.load_kube_config(config_file=str(path), client_configuration=settings)
    except Exception as error:  # of the client, yaml, base64 and files
        raise InputError(
            f"Kubeconfig '{path}' cannot be used: {error}", "Fetch it again from the cluster."
        ) from error
    return path, settings


def _must_be_kubeconfig(path: Path) -> None:
    """Say so of a file that is something else; the client's own words would be those of a fault in a program."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise InputError(
            f"Kubeconfig '{path}' cannot be read: {' '.join(str(error).split())[:300]}",
            "Fetch it again from the cluster.",
        ) from error
    if not isinstance(found, dict) or not {"clusters", "contexts"} <= found.keys():
        raise InputError(
            f"File '{path}' is no kubeconfig: it has no 'clusters' and 'contexts'.",
            "Set 'gpusmith_kubeconfig' to a kubeconfig of this cluster.",
        )
