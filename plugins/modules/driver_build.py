"""Documentation of the action plugin of the same name, which runs on the controller."""

# Copyright gpusmith contributors. Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0).

from __future__ import annotations

DOCUMENTATION = r"""
module: driver_build
short_description: Give a node the driver's kernel modules, built by one node for several
description:
  - Nodes with the same kernel release, architecture, driver version, kind of module, operating system and package layout share one build. The first
    of these nodes builds with DKMS, and its result is stored on the controller. The others wait for the result and install it, with
    M(gpusmith.gpu.built_modules).
  - If the build fails, one more node of the run tries. After that the others fail too, without compiling, and name the nodes that report the
    reason.
  - With C(state=withheld) the driver's packages, which are installed next, build nothing on the node, until C(state=allowed) or a boot. Key,
    certificate and cache are checked as well, so that unusable ones are refused before anything is installed.
  - With C(state=compiled) the node has DKMS build the modules for itself, with C(state=restored) it has DKMS install the modules that it keeps.
    With C(state=rebuilt) it has DKMS rebuild O(modules) of other packages that are compiled against the driver's sources. With C(state=mended)
    packages whose module did not compile are finished without it, and the error contains the compiler's message.
  - With O(signing) the modules are signed on the controller, so that no node ever has the private key. The node that built takes the
    signed modules as well.
version_added: "0.1.0"
author: gpusmith contributors
options:
  state:
    description: What is wanted.
    type: str
    choices: [withheld, allowed, compiled, restored, rebuilt, mended, present]
    default: present
  kernels:
    description: With states C(present), C(compiled) and C(restored), releases of the node's kernels that need modules.
    type: list
    elements: str
    default: []
  modules:
    description: With state C(rebuilt), the modules by kernel release, out of C(gdrdrv) and C(nvidia_fs).
    type: dict
    default: {}
  version:
    description: Version of the driver.
    type: str
    required: true
  flavour:
    description: Kind of the modules, C(open) or C(proprietary).
    type: str
    required: true
  layout:
    description: Whose package names the repository has.
    type: str
    required: true
  cache:
    description: Folder on the controller; empty for the user's cache folder.
    type: path
    default: ""
  cache_days:
    description: Days after which a build that no run has used is deleted from there, when a new one is added. 0 keeps everything.
    type: int
    default: 90
  signing:
    description: Files on the controller.
    type: dict
    default: {}
    suboptions:
      key:
        description: Private RSA key, PEM or DER, without a passphrase, which nobody else can read.
        type: path
        default: ""
      certificate:
        description: The certificate of the key, PEM or DER, which is enrolled in the nodes' firmware.
        type: path
        default: ""
  timeout:
    description: Seconds to wait for another node's build.
    type: float
    default: 1800.0
attributes:
  check_mode:
    support: full
    description: Reports which node would build and which ones would take the result, as far as the records show.
"""

EXAMPLES = r"""
- name: Keep the driver's packages from building
  gpusmith.gpu.driver_build:
    state: withheld
    version: "580.178.04"
    flavour: open
    layout: nvidia

- name: Have the modules of the running kernel
  gpusmith.gpu.driver_build:
    kernels: ["{{ node_record_now.record.host.kernel }}"]
    version: "580.178.04"
    flavour: open
    layout: nvidia
"""

RETURN = r"""
words:
  description: How the node got its modules, or would get them, for each kernel.
  returned: success
  type: list
  elements: str
compiled:
  description: Kernels for which this node compiled.
  returned: with state present
  type: list
  elements: str
builders:
  description: Node that compiled, by kernel.
  returned: with state present
  type: dict
"""
