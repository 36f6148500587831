"""Names by which gpusmith is known in a cluster. They stand here only; YAML repeats them, and a test compares."""

from __future__ import annotations

DOMAIN = "gpusmith.io/"

# --- labels, annotations and taints of Node objects ---
OPERANDS_LABEL = DOMAIN + "operands"
"""Label: 'enabled' on nodes that get our operands."""
SIMULATED_LABEL = DOMAIN + "simulated"
"""Label: 'true' on nodes whose GPUs are simulated."""
GPUS_LABEL = DOMAIN + "gpus"
"""Label: the number of GPUs by the inventory; alerts go by it."""
STAMP = DOMAIN + "validated"
"""Annotation: what a complete validation has proved."""
CONDITION = DOMAIN + "Validated"
"""Condition: the outcome of the last validation, where the inventory asks for it (validation_node_condition)."""
STARTUP_TAINT = DOMAIN + "unvalidated"
"""Taint: a new node carries it until a complete validation of it passed."""
OWNED_TAINTS = DOMAIN + "owned-taints"
"""Annotation: the taints that site.yml set, as 'key:effect', separated by commas."""

UPGRADE = DOMAIN + "driver-upgrade"
"""Annotation: the ledger of a node's driver upgrade."""
FIRST_CHANGE = "driver upgrade"
"""The change that ledgers are of that do not name one."""
PREVIOUS_DRIVER = DOMAIN + "driver-previous"
"""Annotation: the driver that the last upgrade replaced, and where its packages are; a rollback goes by it."""
HOLD = DOMAIN + "hold"
"""Annotation or label: a person's veto. An upgrade leaves a node alone that carries it, whatever its value."""

GPU_TYPE_LABEL = "gpu-type"
"""Label: the GPU model by the inventory, a key of data/gpus.yml."""

# --- values of OPERANDS_LABEL ---
OPERANDS_ON = "enabled"
OPERANDS_PAUSED = "paused"
"""An upgrade has taken our operands off the node for a while."""

# --- field managers ---
MANAGER = "gpusmith"
"""Field manager of everything that site.yml applies, and value of MANAGED_BY."""
STAMP_MANAGER = "gpusmith-validation"
"""Field manager of stamps."""

# --- the operands ---
OPERANDS_NAMESPACE = "gpusmith-system"
"""Their namespace, if the inventory does not say otherwise."""

# --- what a run of the suite makes ---
MANAGED_BY = "app.kubernetes.io/managed-by"
PURPOSE_LABEL = DOMAIN + "purpose"
PURPOSE = "validation"
RUN_LABEL = DOMAIN + "run"
WORKLOAD_LABEL = DOMAIN + "workload"
OWNER_ANNOTATION = DOMAIN + "owner"
"""Annotation: which process of which machine a run is."""
ALIVE_ANNOTATION = DOMAIN + "alive"
"""Annotation: changes every few seconds while a run lives."""
PRIORITY_CLASS = "gpusmith-validation"
"""PriorityClass of the suite's pods, which give way to everybody's."""
RUN_NAMESPACE = "gpusmith-validation-"
"""Beginning of the name of a run's namespace."""
PROGRAMS = "gpusmith-programs"
"""ConfigMap that holds the programs of a run."""

RESULTS_SCHEMA = "gpusmith.results/1"
"""Schema of results.json, which the suite writes and stamps are made of."""
EVIDENCE_SCHEMA = "gpusmith.evidence/1"
"""Schema of the evidence beside it, by which a run can be judged again."""

# --- who works on which nodes now ---
RUNS_NAMESPACE = "kube-system"
"""It is there before anything of ours is."""
RUNS = MANAGER + "-runs"
"""ConfigMap with an entry for each run of a playbook that changes nodes."""

# --- what others call things ---
GPU_RESOURCE = "nvidia.com/gpu"
"""Resource: whole GPUs. What a node offers is asked of wanted/offers.py."""
GPU_TAINT = "nvidia.com/gpu"
"""Key of the taint that GPU nodes carry by convention, whatever they offer."""
DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"
"""Label: the driver by GPU feature discovery; older ones do not write it."""
COUNT_LABEL = "nvidia.com/gpu.count"
"""Label: the number of GPUs by GPU feature discovery."""
PRESENT_LABEL = "nvidia.com/gpu.present"
"""Label: 'true' on nodes with GPUs, by the GPU Operator and by GPU feature discovery."""
REPLICAS_LABEL = "nvidia.com/gpu.replicas"
"""Label: into how many shares the device plugin divides each GPU, by GPU feature discovery."""
INSTANCE_LABEL = "node.kubernetes.io/instance-type"
"""Label: the kind of machine, by clouds."""
PRODUCT_LABEL = "nvidia.com/gpu.product"
"""Label: the name of the GPU model by GPU feature discovery."""
CORDON_TAINT = "node.kubernetes.io/unschedulable"
"""Taint by which Kubernetes keeps pods off a cordoned node."""
READINESS_TAINTS = "readiness.k8s.io/"
"""Beginning of the keys of taints by which Kubernetes' node readiness controller waits for conditions of a node."""
SENTINEL_LABELS = "nvsentinel.dgxc.nvidia.com/"
"""Beginning of labels that NVIDIA's NVSentinel puts on the nodes which it looks after."""
SENTINEL_LABEL = "k8saas.nvidia.com/ManagedByNVSentinel"
"""Label: NVSentinel leaves a node alone where it is 'false'; its runbook asks for that while a driver is changed."""
DEPLOY_LABEL = "nvidia.com/gpu.deploy.device-plugin"
"""Label: the GPU Operator runs its device plugin where it is 'true'; its driver manager pauses it by another value."""
