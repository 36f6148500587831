"""Variables of roles that work in the cluster."""

from __future__ import annotations

from typing import Any

import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from gpusmith.paths import repo_root


def filled_in(template: str, **given: Any) -> Any:
    """What a template is with the variables of role gpu_operands and those that are given."""
    return of_role("gpu_operands", template, given)


def of_role(name: str, template: str, given: dict[str, Any], texts: dict[str, Any] | None = None) -> Any:
    """What a template is with a role's variables and those that are given; braces in texts are no templates."""
    role = repo_root() / "roles" / name
    files = [yaml.safe_load((role / name).read_text()) for name in ("defaults/main.yml", "vars/main.yml")]
    place = {"role_path": str(role), "ansible_search_path": [str(role)]}
    variables = _trusted({**files[0], **files[1], **place, **given}) | (texts or {})
    return Templar(DataLoader(), variables=variables).template(trust_as_template(template))


def _trusted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _trusted(part) for key, part in value.items()}
    if isinstance(value, list):
        return list(map(_trusted, value))
    return trust_as_template(value) if isinstance(value, str) else value
