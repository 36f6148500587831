"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_build
short_description: Give a node the driver's kernel modules, built by one node for several
description: Nodes with the same kernel, driver and operating system share one build, made by the first of them.
author: gpusmith contributors
options:
  state: {type: str, choices: [withheld, allowed, compiled, restored, rebuilt, mended, present], default: present, description: Wanted state of the modules.}
  kernels: {type: list, elements: str, default: [], description: "With states C(present), C(compiled) and C(restored), releases of the node's kernels that need modules."}
  modules: {type: dict, default: {}, description: "With state C(rebuilt), the modules by kernel release, out of C(gdrdrv) and C(nvidia_fs)."}
  version: {type: str, required: true, description: Version of the driver.}
  flavour: {type: str, required: true, description: "Kind of the modules, C(open) or C(proprietary)."}
  layout: {type: str, required: true, description: Package layout, nvidia or distribution.}
  cache: {type: path, default: "", description: Folder on the controller; empty for the user's cache folder.}
  cache_days: {type: int, default: 90, description: Days after which an unused build is deleted; 0 keeps everything.}
  signing:
    type: dict
    default: {}
    description: Key and certificate (PEM or DER), on the controller.
    suboptions: {key: {type: path, default: "", description: Path of the key.}, certificate: {type: path, default: "", description: Path of the certificate.}}
  timeout: {type: float, default: 1800.0, description: Seconds to wait for another node's build.}
"""
