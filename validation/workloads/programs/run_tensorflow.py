"""TensorFlow: training steps on the GPU, checked against the closed form."""

from __future__ import annotations

import os

import gpu_driver
import training


class TensorFlow:
    """As training.work wants it."""

    cpu, gpu = "CPU:0", "GPU:0"

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        # Whole memory of a GPU is not ours to take.
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        import tensorflow as tf

        tf.config.set_soft_device_placement(False)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self.tf = tf
        self.name = f"tensorflow {tf.__version__}"

    def first_gpu(self) -> tuple[str, str] | None:
        """Name; TensorFlow does not tell UUIDs."""
        config = self.tf.config
        devices = config.list_physical_devices("GPU")
        if not devices:
            return None
        # Shortened mantissas would not meet the tolerance.
        config.experimental.enable_tensor_float_32_execution(False)
        return config.experimental.get_device_details(devices[0]).get("device_name", self.gpu), ""

    def train(self, device: str) -> tuple[list[float], list[float]]:
        """Gradient descent by GradientTape; results must be on the device."""
        tf = self.tf
        rows, targets, _truth = training.problem()
        with tf.device(f"/{device}"):
            x = tf.constant(rows, dtype=tf.float32)
            y = tf.constant(targets, dtype=tf.float32)
            w = tf.Variable(tf.zeros((training.COLUMNS, 1)))
            losses = []
            for step in range(training.STEPS + 1):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
                losses.append(float(loss.numpy()))
                training.computed_on(loss.device, device)
                if step < training.STEPS:
                    w.assign_sub(training.RATE * tape.gradient(loss, w))
        return losses, [float(value) for value in w.numpy().flatten()]


if __name__ == "__main__":
    gpu_driver.run("tensorflow", lambda: training.work(TensorFlow))
