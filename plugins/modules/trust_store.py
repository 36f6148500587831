#!/usr/bin/python
"""Ansible module: a site's own authorities in the machine's trust store."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: trust_store
short_description: Have a machine trust a site's own authorities, and no others that gpusmith added
description:
  - Writes a file for each certificate, removes gpusmith's files that are no longer wanted, has the operating system rebuild its trust store, and
    checks whether the store then has the certificates. Files of others stay.
  - The next run continues a change that did not finish.
author: gpusmith contributors
options:
  certificates: {type: dict, default: {}, description: Certificates in PEM by name.}
  folder: {type: path, required: true, description: Folder in which the operating system looks for them.}
  suffix: {type: str, required: true, description: Suffix of the files.}
  update: {type: list, elements: str, required: true, description: Command that rebuilds the trust store.}
  fresh: {type: list, elements: str, default: [], description: Further arguments of this command if a certificate changes or is removed.}
  bundle: {type: str, default: "", description: The probe's code; set by the action plugin.}
"""

RETURN = r"""
paths: {type: list, elements: str, returned: always, description: Files that changed.}
"""

from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import bundle
from ansible_collections.gpusmith.gpu.plugins.module_utils.files import put, read


def change(module: Any, texts: dict[str, str], leaving: list[str], fresh: bool) -> None:
    """Write and remove files, and have the store made anew."""
    from gpusmith.probe import trust

    stamp = Path(trust.STAMP)
    put(stamp, trust.PENDING)
    for path, text in texts.items():
        put(Path(path), text, 0o644)
    for path in leaving:
        put(Path(path), None)
    command = [*module.params["update"], *(module.params["fresh"] if fresh else [])]
    status, _output, error = module.run_command(command)
    there = trust.gather().authorities
    lacking = [name for name in module.params["certificates"] if not there.get(name)]
    if status != 0 or lacking:
        said = error.strip() or "nothing"
        module.fail_json(
            msg=f"'{' '.join(command)}' ended with {status}, and the trust store lacks {', '.join(lacking) or 'none'}. It said: {said}. "
            "Correct what it names; the next run begins with it."
        )
    put(stamp, "done\n")


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "certificates": {"type": "dict", "default": {}},
            "folder": {"type": "path", "required": True},
            "suffix": {"type": "str", "required": True},
            "update": {"type": "list", "elements": "str", "required": True},
            "fresh": {"type": "list", "elements": "str", "default": []},
            "bundle": bundle.OPTION,
        },
        supports_check_mode=True,
    )
    bundle.take(module)
    from gpusmith.probe import trust

    folder, suffix = module.params["folder"], module.params["suffix"]
    texts = {
        f"{folder}/{trust.PREFIX}{name}{suffix}": text for name, text in module.params["certificates"].items()
    }
    ours, seen = trust.files(), trust.gather()
    foreign = [path for path in texts if path not in ours and Path(path).exists()]
    if foreign:
        module.fail_json(
            msg=f"'{foreign[0]}' is there, and gpusmith did not write it. Move it, or give the authority another name."
        )
    changed = {path: text for path, text in texts.items() if read(Path(path)) != text}
    leaving = [path for path in ours if path not in texts]
    untrusted = [name for name in module.params["certificates"] if not seen.authorities.get(name)]
    due = bool(changed or leaving or untrusted or seen.pending)
    if due and not module.check_mode:
        change(
            module,
            changed,
            leaving,
            fresh=seen.pending or bool(leaving or any(path in ours for path in changed)),
        )
    paths = [*changed, *leaving]
    diff = [
        {
            "before_header": path,
            "after_header": path,
            "before": ours.get(path, ""),
            "after": texts.get(path, ""),
        }
        for path in paths
    ]
    module.exit_json(changed=due, paths=paths, diff=diff)


if __name__ == "__main__":
    main()
