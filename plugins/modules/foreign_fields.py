#!/usr/bin/python
"""Ansible module: let the next apply take away what others set in our objects."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: foreign_fields
short_description: Make fields that others set in our objects ours, so that the next apply takes them away
description:
  - A server-side apply leaves fields that somebody added to an object. This module makes the field manager C(gpusmith) their owner in
    the objects that are applied next (I(metadata.managedFields)); the apply takes away what it does not send.
  - Reads each object once, however many nodes there are, and patches those that have such fields.
  - Looks at DaemonSets, Deployments, RuntimeClasses, ConfigMaps and RBAC objects, and passes over all others. It leaves I(metadata),
    I(status), what a subresource wrote, and the time of C(kubectl rollout restart) alone.
  - Runs on the controller.
version_added: "0.1.0"
author: gpusmith contributors
options:
  kubeconfig:
    description: Path of a kubeconfig on the controller.
    type: path
    required: true
  objects:
    description: The objects that are applied next; only their C(apiVersion), C(kind) and names matter.
    type: list
    elements: dict
    required: true
attributes:
  check_mode:
    support: full
    description: Tells what would be taken away, and has the API server try the patch out.
"""

EXAMPLES = r"""
- name: Take over what others set
  gpusmith.gpu.foreign_fields:
    kubeconfig: "{{ gpusmith_kubeconfig }}"
    objects: "{{ query('ansible.builtin.template', 'device-plugin.yml.j2') | map('from_yaml_all') | flatten }}"
  delegate_to: localhost
"""

RETURN = r"""
foreign:
  description: By object, the fields that others set.
  returned: success
  type: dict
  sample: {"DaemonSet 'gpusmith-system/nvidia-device-plugin'": ["spec.template.spec.containers[nvidia-device-plugin].env[NAME]"]}
"""

from collections.abc import Iterable, Mapping
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.gpusmith.gpu.plugins.module_utils.cluster import (
    ClusterApi,
    ClusterError,
    ClusterRefusedError,
)

PLURALS = {
    "DaemonSet": "daemonsets",
    "Deployment": "deployments",
    "RuntimeClass": "runtimeclasses",
    "ConfigMap": "configmaps",
    "Role": "roles",
    "RoleBinding": "rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}
"""Not among them: namespaces, service accounts and types of resources, in which controllers write by design."""
CONFLICT = 409
TRIES = 5


def path_of(wanted: Mapping[str, Any]) -> str | None:
    """Where the API server has an object; None for a kind that is passed over."""
    if wanted["kind"] not in PLURALS:
        return None
    version, metadata = wanted["apiVersion"], wanted["metadata"]
    namespace = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"/{'apis' if '/' in version else 'api'}/{version}{namespace}/{PLURALS[wanted['kind']]}/{metadata['name']}"


def take_over(api: ClusterApi, path: str, check: bool) -> list[str]:
    """The fields of one object that others set; nobody but us owns them afterwards.

    Raises:
        ClusterError: the cluster does not answer, or does not take the change.
    """
    # The core of gpusmith lives in the controller's environment, where this module runs.
    from gpusmith.managed_fields import additions, taken_over

    for left in reversed(range(TRIES)):
        found = api.read(path)
        fields = additions(found) if found else []
        if not found or not fields:
            break
        try:
            api.replace_managed_fields(
                path, taken_over(found), found["metadata"]["resourceVersion"], dry_run=check
            )
            return fields
        except ClusterRefusedError as error:
            # Controllers write the status while pods come and go: what was read is no longer the newest.
            if error.status != CONFLICT or not left:
                raise
    return []


def refuse_another_handler(api: ClusterApi, wanted: Mapping[str, Any]) -> None:
    """The one field of our objects that nobody can change.

    Raises:
        ClusterError: the class that is there has another handler.
    """
    name = wanted["metadata"]["name"]
    found = api.read(str(path_of(wanted)))
    if found and found["handler"] != wanted["handler"]:
        raise ClusterError(
            f"RuntimeClass '{name}' has handler '{found['handler']}', not '{wanted['handler']}', which cannot be changed."
            f" If nobody needs it as it is: 'kubectl delete runtimeclass {name}', then run this again."
        )


def run(api: ClusterApi, objects: Iterable[Mapping[str, Any]], check: bool) -> dict[str, list[str]]:
    """By object, the fields that others set.

    Raises:
        ClusterError: as take_over().
    """
    from gpusmith.managed_fields import title

    found = {}
    for wanted in objects:
        if wanted["kind"] == "RuntimeClass":
            refuse_another_handler(api, wanted)
    for wanted in objects:
        path = path_of(wanted)
        fields = take_over(api, path, check) if path else []
        if fields:
            metadata = wanted["metadata"]
            found[title(wanted["kind"], metadata["name"], metadata.get("namespace", ""))] = fields
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "kubeconfig": {"type": "path", "required": True},
            "objects": {"type": "list", "elements": "dict", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        found = run(ClusterApi(module.params["kubeconfig"]), module.params["objects"], module.check_mode)
    except ClusterError as error:
        module.fail_json(msg=str(error))
    lines = [f"{name}: {', '.join(fields)}" for name, fields in found.items()]
    module.exit_json(
        changed=bool(found),
        foreign=found,
        msg=f"Others set, which is taken away: {'; '.join(lines)}." if lines else "Nobody else set anything.",
        diff={"prepared": "".join(f"others set, which is taken away: {line}\n" for line in lines)},
    )


if __name__ == "__main__":
    main()
