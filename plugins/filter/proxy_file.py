"""Filter: the file that tells a service of the site's proxy."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError
from ansible_collections.gpusmith.gpu.plugins.plugin_utils.filter_files import filter_module

from gpusmith.errors import InputError
from gpusmith.inventory import proxy

DOCUMENTATION = r"""
name: proxy_file
short_description: The file that tells a service of the site's proxy
description:
  - Variables C(HTTP_PROXY), C(HTTPS_PROXY) and C(NO_PROXY) for C(EnvironmentFile) of a unit of systemd.
  - The machine itself and Services of the cluster are always in C(NO_PROXY).
author: gpusmith contributors
positional: head, near
options:
  _input: {type: dict, required: true, description: "Keys http, https and no_proxy, see C(gpusmith_proxy)."}
  head: {type: str, required: true, description: First line of the file.}
  near:
    type: list
    elements: str
    default: []
    description: >-
      Names and addresses that are not asked through the proxy, with or without a port. Empty ones are left out.
"""

RETURN = r"""
_value: {type: str, description: The file's content. Empty without a proxy.}
"""


def proxy_file(given: Mapping[str, Any], head: str, near: Sequence[str] = ()) -> str:
    """See DOCUMENTATION."""
    try:
        return proxy.file_text(head, given, near)
    except InputError as error:
        raise AnsibleFilterError(str(error)) from error


FilterModule = filter_module(proxy_file)
