"""Commands in advice, as they can be pasted where a run was started.

Judges write them short: 'ansible-playbook -i INVENTORY site.yml', 'kubectl get nodes'. Which inventory, kubeconfig and programs a
run has, is known where its words are shown: the suite's findings and the output of playbooks go through `Started.said`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusmith.paths import repo_root

KUBECTL = re.compile(
    r"\bkubectl (?=(?:-n|annotate|apply|cordon|create|delete|describe|drain|get|label|logs|patch|taint|uncordon) )"
)
ANSIBLE = re.compile(
    r"\b(?P<program>ansible(?:-playbook)?) -i INVENTORY(?: (?:playbooks/)?(?P<playbook>\w+)\.yml\b)?"
)
SITE = "provision_nodes"
"""What site.yml is in the collection."""
TELLS = "started"
"""Key of the guard's result that has the facts of a run."""


@dataclass(frozen=True)
class Started:
    """With what a run was started; what is empty is not known, and left as it is written.

    Attributes:
        inventory: as it is given with -i; None if the run has that of ansible.cfg or of the environment.
        kubeconfig: of an administrator.
        folder: where the person stands.
        context: of the kubeconfig; empty for its current one.
    """

    inventory: str | None = ""
    kubeconfig: str = ""
    folder: Path | None = None
    context: str = ""

    def said(self, text: str) -> str:
        """A text whose commands are this run's."""
        found = ANSIBLE.sub(self._ansible, text)
        option = f"--kubeconfig {self._path(self.kubeconfig)} " if self.kubeconfig else ""
        option += f"--context {shlex.quote(self.context)} " if self.context else ""
        return KUBECTL.sub(lambda match: match.group() + option, found)

    def _ansible(self, match: re.Match[str]) -> str:
        if self.inventory == "":
            return match.group()
        words = [self._program(match["program"])]
        words += [f"-i {self._path(self.inventory)}"] if self.inventory else []
        if name := match["playbook"]:
            here = (self._here / "site.yml").exists() and self._here.samefile(repo_root())
            file = "site.yml" if name == "site" else f"playbooks/{name}.yml"
            words.append(file if here else f"gpusmith.gpu.{SITE if name == 'site' else name}")
        return " ".join(words)

    def _program(self, name: str) -> str:
        """By its name alone if the shell finds it."""
        program = Path(sys.executable).parent / name
        found = shutil.which(name)
        if (found and Path(found) == program) or not program.is_file():
            return name
        return self._path(str(program))

    def _path(self, path: str) -> str:
        """Shorter, where it is below the folder; a list of hosts is no path."""
        below = "," not in path and Path(path).is_absolute() and Path(path).is_relative_to(self._here)
        return shlex.quote(os.path.relpath(path, self._here) if below else path)

    @property
    def _here(self) -> Path:
        return self.folder or Path.cwd()


def of_guard(result: Mapping[str, Any]) -> Started | None:
    """What the guard's result tells of the run; None if it tells nothing."""
    told = result.get(TELLS)
    return Started(told["inventory"], told["kubeconfig"]) if isinstance(told, Mapping) else None
