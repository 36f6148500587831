"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_upgrade
short_description: Change the driver of a node that serves, or bring the previous one back
description: Carries out the plan of M(gpusmith.gpu.driver_upgrade_plan) for one node, from the packages on its disk to the validated driver.
author: gpusmith contributors
options:
  order: {type: dict, required: true, description: "Settings of the plan and of role gpu_upgrade (C(roles/gpu_upgrade/vars/main.yml))."}
  packages: {type: dict, required: true, description: Arguments of M(gpusmith.gpu.packages) for the new version.}
  own: {type: dict, required: true, description: "Files and names of packages of role C(nvidia_driver), as its plan takes them."}
  build: {type: dict, default: {}, description: "Arguments of M(gpusmith.gpu.driver_build), if one node builds the modules for several."}
  nvml_timeout: {type: float, default: 60.0, description: Seconds that the NVIDIA management library may take to answer.}
  ready_timeout: {type: float, default: 600.0, description: Seconds within which the driver must be in the wanted state after it was loaded.}
"""
