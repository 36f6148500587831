"""TensorFlow: training steps on the GPU, checked against the closed form."""

from __future__ import annotations

import os
from typing import Any

import gpu_driver
import training
from gpu_driver import ProgramError


def train(tf: Any, device: str) -> dict[str, Any]:
    """Gradient descent by GradientTape on a device; results must be there."""
    rows, targets, _truth = training.problem()
    with tf.device(device):
        x = tf.constant(rows, dtype=tf.float32)
        y = tf.constant(targets, dtype=tf.float32)
        w = tf.Variable(tf.zeros((training.COLUMNS, 1)))
        losses = []
        for step in range(training.STEPS + 1):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
            losses.append(float(loss.numpy()))
            if device.strip("/") not in loss.device:
                raise ProgramError(f"the loss was computed on '{loss.device}', not on '{device}'")
            if step < training.STEPS:
                w.assign_sub(training.RATE * tape.gradient(loss, w))
    return training.judge(losses, [float(value) for value in w.numpy().flatten()])


def work() -> dict[str, Any]:
    """Witnesses and driver first, then the framework."""
    _cuda, is_simulated, driver = gpu_driver.start_device()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    # Whole memory of a GPU is not ours to take.
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
    import tensorflow as tf

    tf.config.set_soft_device_placement(False)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    facts: dict[str, Any] = {
        "framework": f"tensorflow {tf.__version__}",
        "uuid": driver["uuid"],
        "driver": driver,
    }
    if is_simulated:
        trained = train(tf, "/CPU:0")
        return {
            **facts,
            "simulated": True,
            "device": "cpu",
            "not_executed": ["the training step on the device"],
            **trained,
        }
    devices = tf.config.list_physical_devices("GPU")
    if not devices:
        raise ProgramError(f"tensorflow {tf.__version__} has no GPU device, and a CPU fallback is a failure")
    # Shortened mantissas would not meet the tolerance.
    tf.config.experimental.enable_tensor_float_32_execution(False)
    name = tf.config.experimental.get_device_details(devices[0]).get("device_name", "GPU:0")
    trained = train(tf, "/GPU:0")
    return {**facts, "simulated": False, "device": name, "not_executed": [], **trained}


if __name__ == "__main__":
    gpu_driver.run("tensorflow", work)
