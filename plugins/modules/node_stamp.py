"""Ansible module: put the outcome of a validation on a Node object."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: node_stamp
short_description: Stamp a node that a complete validation has proved
description:
  - Reads the results of the validation suite. If every check of the node passed in a complete run, writes the stamp to the Node
    object and takes the startup taint off.
  - If nothing is wrong, but jobs hold GPUs so that these could not be tested, a stamp that is current stays.
  - Otherwise takes an older stamp off and fails with the cause and the next step of each failed check. A startup taint stays.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  node:
    description: Name of the Node object.
    type: str
    required: true
  all_nodes:
    description: Names of all nodes of the run. Checks whose target is none of them concern every node.
    type: list
    elements: str
    required: true
  results:
    description: Path of C(results.json) on the controller.
    type: path
    required: true
  not_before:
    description: Unix time at which the suite was started. Older results are refused, they are of another run.
    type: float
    default: 0.0
  facts:
    description: The facts that the stamp is for, as M(gpusmith.gpu.node_state) says.
    type: dict
    required: true
attributes:
  check_mode:
    support: full
    description: Asks the API server to try the change out.
"""

EXAMPLES = r"""
- name: Stamp
  gpusmith.gpu.node_stamp:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    node: gpu-1
    all_nodes: [gpu-1, gpu-2]
    results: reports/latest/results.json
    facts: "{{ state.stamp }}"
  delegate_to: localhost
"""

RETURN = r"""
stamp:
  description: The annotation's value.
  returned: success
  type: str
untainted:
  description: Whether the startup taint was taken off.
  returned: success
  type: bool
"""

import json
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils import stamp
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import ClusterApi, ClusterError

from gpusmith.probe.stamp import missing_facts

FIELD_MANAGER = "gpusmith-validation"
TRIES = 5


def read_results(path: Path, not_before: float) -> dict[str, Any]:
    """The results of the run that was just made.

    Raises:
        ValueError: there are none, with what to look at.
    """
    try:
        if path.stat().st_mtime < not_before:
            raise ValueError(f"'{path}' is older than this run: the suite wrote no results. Look at its log.")
        results = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ValueError(f"'{path}' does not exist: the suite wrote no results. Look at its log.") from error
    if not isinstance(results, dict):
        raise ValueError(f"'{path}' holds no results.")
    return results


def put(api: ClusterApi, name: str, text: str, dry_run: bool) -> bool:
    """Stamp and untaint; True if the taint was there.

    Raises:
        ClusterError: the node vanished, or others change it faster than we can.
    """
    problem: ClusterError | None = None
    for _attempt in range(TRIES):
        node = api.node(name)
        if node is None:
            raise ClusterError(f"The cluster has no node '{name}' any more.")
        try:
            api.patch(
                name, stamp.stamp_patch(node, text), dry_run=dry_run, query={"fieldManager": FIELD_MANAGER}
            )
        except ClusterError as error:
            # Somebody changed the node between the two calls; look again.
            if "409" not in str(error):
                raise
            problem = error
            continue
        return bool(stamp.has_taint(node))
    assert problem is not None
    raise problem


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "node": {"type": "str", "required": True},
            "all_nodes": {"type": "list", "elements": "str", "required": True},
            "results": {"type": "path", "required": True},
            "not_before": {"type": "float", "default": 0.0},
            "facts": {"type": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    asked = module.params
    name, check = asked["node"], module.check_mode
    unknown = missing_facts(asked["facts"])
    if unknown:
        module.fail_json(
            msg=f"Node '{name}' cannot be stamped: its {' and '.join(unknown)} could not be read."
        )
    try:
        api = ClusterApi(asked["kubeconfig"])
        results = read_results(Path(asked["results"]), asked["not_before"])
        verdict = stamp.judge(results, name, asked["all_nodes"])
        if not verdict.passed:
            cause = f"Node '{name}' is not validated: {verdict.cause}. {verdict.next_step}".strip()
            node = api.node(name)
            old = stamp.read_stamp(node) if node is not None else None
            if verdict.busy and old is not None and old.get("digest") == asked["facts"].get("digest"):
                # Nothing speaks against the stamp that is there, and nothing new was proved.
                module.exit_json(changed=False, stamp="", untainted=False, msg=cause)
            if old is not None:
                api.patch(name, stamp.unstamp_patch(), dry_run=check, query={"fieldManager": FIELD_MANAGER})
            module.fail_json(changed=old is not None, msg=cause)
        text = stamp.make_stamp(asked["facts"], time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        untainted = put(api, name, text, check)
    except (ClusterError, ValueError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=True, stamp=text, untainted=untainted)


if __name__ == "__main__":
    main()
