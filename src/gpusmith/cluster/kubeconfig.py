"""How the API server is reached: kubeconfigs, the service account of a pod, and what to say of those that cannot be used."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpusmith.cluster import memory_files
from gpusmith.errors import InputError, ToolError
from gpusmith.wording import quoted

if TYPE_CHECKING:
    from kubernetes.client import Configuration


GIVE = "Give --kubeconfig one of the cluster."


@dataclass(frozen=True)
class Access:
    """How the API server is reached.

    Attributes:
        kubeconfig: path, or several as in $KUBECONFIG; empty in a pod, which has its service account.
        context: of the kubeconfig; empty for its current one.
        in_pod: whether this is the pod's own.
        hint: what to do where it cannot be used; empty if a variable of the inventory names it.
    """

    kubeconfig: str
    context: str = ""
    in_pod: bool = False
    hint: str = field(default="", compare=False)

    @property
    def words(self) -> str:
        """What it is called in messages."""
        return "of the pod's service account" if self.in_pod else self.kubeconfig

    @property
    def way(self) -> str:
        """What to do where the API server does not answer."""
        if self.in_pod:
            return self.hint
        named = "--kubeconfig" if self.hint else "gpusmith_kubeconfig"
        return f"Check '{named}' and the way to the cluster: kubectl --kubeconfig {self.kubeconfig} get nodes"


def found(kubeconfig: str, context: str) -> Access:
    """What kubectl would take: the file that is named, else $KUBECONFIG, ~/.kube/config, the pod's service account.

    Raises:
        InputError: there is none of them.
    """
    usual = Path("~/.kube/config").expanduser()
    told = [path for path in os.environ.get("KUBECONFIG", "").split(os.pathsep) if path]
    if kubeconfig or told:
        return Access(kubeconfig or os.pathsep.join(told), context, hint=GIVE)
    if usual.is_file():
        return Access(str(usual), context, hint=GIVE)
    from kubernetes.config import incluster_config

    if os.environ.get(incluster_config.SERVICE_HOST_ENV_NAME):
        if not Path(incluster_config.SERVICE_TOKEN_FILENAME).is_file():
            raise InputError(
                f"This pod has no token of a service account ('{incluster_config.SERVICE_TOKEN_FILENAME}').",
                "Set 'serviceAccountName' and 'automountServiceAccountToken: true' in the pod, or give --kubeconfig.",
            )
        if context:
            raise InputError(
                "Option '--context' names a context of a kubeconfig, and there is none.", "Give --kubeconfig."
            )
        return Access(
            "",
            in_pod=True,
            hint="Look whether a NetworkPolicy keeps pods of this namespace from the API server.",
        )
    raise InputError(
        f"There is no kubeconfig: neither --kubeconfig nor $KUBECONFIG names one, '{usual}' does not exist, and this is no pod.",
        GIVE,
    )


def load(kubeconfig: str | Access) -> tuple[str, Configuration]:
    """What it is called, and the client's settings from it.

    Raises:
        InputError: it is missing or unusable.
        ToolError: the client is not installed, or not one that is known.
    """
    access, parts = (
        (kubeconfig, kubeconfig.kubeconfig.split(os.pathsep))
        if isinstance(kubeconfig, Access)
        else (Access(str(Path(kubeconfig).expanduser()) if kubeconfig else ""), [kubeconfig])
    )
    if not (access.kubeconfig or access.in_pod):
        raise _missing("")
    files = [Path(part).expanduser() for part in parts if part]
    # Of several, kubectl leaves out those that do not exist.
    files = [path for path in files if path.exists()] or files[:1]
    try:
        known = [content(path) for path in files]
    except InputError as error:
        raise InputError(error.message, access.hint or error.hint) from error
    # Of several current ones kubectl takes the first, the client the last.
    current = [str(each["current-context"]) for each in known if each.get("current-context")]
    context = access.context or next(iter(current), None)
    plugin = plugin_of(known, context)
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
        if access.in_pod:
            config.load_incluster_config(client_configuration=settings)
        else:
            config.load_kube_config(
                config_file=os.pathsep.join(map(str, files)),
                context=context,
                client_configuration=settings,
            )
    except Exception as error:  # of the client, yaml, base64 and files
        contexts = [str(row.get("name")) for row in _rows(known, "contexts")]
        wrong = access.context and access.context not in contexts
        raise InputError(
            f"Kubeconfig '{access.words}' cannot be used: {error}",
            f"Give --context one of its own: {quoted(contexts)}."
            if wrong
            else "Fetch it again from the cluster.",
        ) from error
    finally:
        logging.getLogger().removeFilter(said)
    if plugin and said.words:
        # The client goes on as nobody, and the API server's refusal would be all that a person sees.
        raise ToolError(
            f"The credential plugin '{plugin}' of kubeconfig '{access.words}' failed: {'; '.join(said.words)[:400]}.",
            f"Install '{plugin}', or log in anew with it; or give a kubeconfig that needs none.",
        )
    return access.words, settings


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


def _rows(kubeconfigs: Sequence[Mapping[str, Any]], part: str) -> list[Mapping[str, Any]]:
    """A list of all of them; the first one wins where several have a name."""
    return [row for each in kubeconfigs for row in each.get(part) or () if isinstance(row, Mapping)]


def plugin_of(kubeconfigs: Sequence[Mapping[str, Any]], context: str | None) -> str:
    """The program that gives the credential of a context's user; empty if none does."""

    def named(part: str, name: Any, kind: str) -> Mapping[str, Any]:
        rows = [row.get(kind) for row in _rows(kubeconfigs, part) if row.get("name") == name]
        return rows[0] if rows and isinstance(rows[0], Mapping) else {}

    user = named("users", named("contexts", context, "context").get("user"), "user")
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
