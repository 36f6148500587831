"""TensorFlow: training steps on all GPUs of the job, with its own strategies, checked against the closed form."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any

import gpu_driver
import ranks
import training
from ranks import Group
from training import Trained


class TensorFlow:
    """As training.work wants it."""

    def __init__(self) -> None:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        # Whole memory of a GPU is not ours to take.
        os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")
        os.environ.update(ranks.nccl_environment())
        import tensorflow as tf

        tf.config.set_soft_device_placement(False)
        tf.config.threading.set_intra_op_parallelism_threads(1)
        self.tf = tf
        self.name = f"tensorflow {tf.__version__}"

    def gpus(self) -> list[tuple[str, str]]:
        """Name of each; TensorFlow does not tell UUIDs."""
        config = self.tf.config
        # Shortened mantissas would not meet the tolerance.
        config.experimental.enable_tensor_float_32_execution(False)
        found = config.list_physical_devices("GPU")
        return [(config.experimental.get_device_details(row).get("device_name", "GPU"), "") for row in found]

    def _strategy(self, group: Group, ordinals: Sequence[int], on_gpus: bool) -> Any:
        """One for several pods, for several GPUs of a pod, or for one; CPUs stand for simulated GPUs."""
        tf = self.tf
        kind = "GPU" if on_gpus else "CPU"
        if len(group.members) > 1:
            os.environ["TF_CONFIG"] = ranks.tf_config(group)
            ways = tf.distribute.experimental.CommunicationImplementation
            # Left to itself, TensorFlow takes its own way over TCP.
            options = tf.distribute.experimental.CommunicationOptions(
                implementation=ways.NCCL if on_gpus else ways.AUTO
            )
            return tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        if not on_gpus:
            (cpu,) = tf.config.list_physical_devices("CPU")
            parts = [tf.config.LogicalDeviceConfiguration() for _ in ordinals]
            tf.config.set_logical_device_configuration(cpu, parts)
        names = [f"{kind}:{ordinal}" for ordinal in ordinals]
        return (
            tf.distribute.MirroredStrategy(names)
            if len(names) > 1
            else tf.distribute.OneDeviceStrategy(names[0])
        )

    def train(self, group: Group, ordinals: Sequence[int], *, on_gpus: bool) -> Trained:
        """Gradient descent by GradientTape in a loop of our own; results must be on the devices."""
        tf, strategy = self.tf, self._strategy(group, ordinals, on_gpus)
        world = strategy.num_replicas_in_sync
        shares = [training.share(rank, world) for rank in range(world)]
        context, reduced = tf.distribute.get_replica_context, tf.distribute.ReduceOp
        with strategy.scope():
            w = tf.Variable(tf.zeros((training.COLUMNS, 1)), aggregation=tf.VariableAggregation.MEAN)

        def mine() -> tuple[Any, Any]:
            rank = context().replica_id_in_sync_group
            x, y = (tf.constant([share[part] for share in shares], tf.float32) for part in (0, 1))
            return x[rank], y[rank]

        def loss_of(x: Any, y: Any) -> Any:
            return tf.reduce_mean(tf.square(tf.matmul(x, w) - y))

        def step() -> Any:
            def one() -> Any:
                x, y = mine()
                with tf.GradientTape() as tape:
                    loss = loss_of(x, y)
                gradient = tape.gradient(loss, w)
                mean = context().all_reduce(reduced.MEAN, loss)
                w.assign_sub(training.RATE * gradient)
                return mean

            return strategy.run(one)

        def last() -> Any:
            return strategy.run(lambda: context().all_reduce(reduced.MEAN, loss_of(*mine())))

        def exchange() -> Any:
            def one() -> Any:
                rank = tf.cast(context().replica_id_in_sync_group, tf.int64)
                summed = context().all_reduce(
                    reduced.SUM, tf.constant(training.numbers(0), tf.int64) * (rank + 1)
                )
                gathered = context().all_gather(tf.reshape(rank, (1,)), axis=0)
                weights = context().all_gather(tf.reshape(w.read_value(), (1, -1)), axis=0)
                return summed, gathered, weights

            return strategy.run(one)

        descend = tf.function(step)
        results = [descend() for _ in range(training.STEPS)] + [tf.function(last)()]
        own = [strategy.experimental_local_results(result) for result in results]
        # Steps are where their variable is, since nothing is placed softly.
        for ordinal, copy in zip(ordinals, strategy.experimental_local_results(w)):
            training.computed_on(copy.device, f"{'GPU' if on_gpus else 'CPU'}:{ordinal}")
        # What exchanges need beside their data has no kernel on GPUs for some types.
        tf.config.set_soft_device_placement(True)
        done = Trained([float(rows[0].numpy()) for rows in own], [], world)
        summed, gathered, weights = (
            strategy.experimental_local_results(part)[0].numpy() for part in tf.function(exchange)()
        )
        done.summed, done.gathered = [int(value) for value in summed], [int(value) for value in gathered]
        done.weights = [[float(value) for value in row] for row in weights]
        if not on_gpus:
            done.evidence["ranks"] = len(group.members) if len(group.members) > 1 else group.gpus
        return done


def work() -> dict[str, Any]:
    """All GPUs of this pod in one process, as TensorFlow wants it.

    Raises:
        ProgramError: it failed, or this pod does not reach the others.
    """
    gpu_driver.load("libcuda.so.1")
    group = ranks.group()
    met = ranks.meet(group)
    (found,) = ranks.in_processes(group, [range(group.gpus)], partial(training.work, TensorFlow, group))
    ways = {"transports": ranks.transports()} if found["world"] > 1 else {}
    return {**found, **ways, "connected_s": met}


if __name__ == "__main__":
    gpu_driver.run("tensorflow", work)
