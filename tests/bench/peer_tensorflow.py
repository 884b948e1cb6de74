# SPDX-License-Identifier: Apache-2.0
"""Times training in TensorFlow, by the program of its tutorial "Distributed training with Keras".

  peer_tensorflow.py MODEL BATCH SECONDS DEVICES

MODEL is mlp or simplecnn, with the layers, loss and optimizer of `yoke bench`. With DEVICES of 2, two
logical CPUs share the batch under a MirroredStrategy; with 1 it is plain Keras. Prints `version V`,
then `DEVICES MS`: the time of an epoch of model.fit over its steps, the median of those that go into
SECONDS, at least 3, after one that is not counted. Batches are cached as they are, so that no time
is the input's.
"""
import statistics, sys, time
import tensorflow as tf

name, batch, seconds, devices = sys.argv[1], *map(int, sys.argv[2:])
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * devices)
if devices == 1:
    strategy = tf.distribute.get_strategy()
else:
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(devices)])
layers = {
    "mlp": [tf.keras.layers.Input((28, 28, 1)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(128, activation="relu"),
            tf.keras.layers.Dense(10)],
    "simplecnn": [tf.keras.layers.Input((28, 28, 1)),
                  tf.keras.layers.Conv2D(32, 3, padding="same", activation="relu"),
                  tf.keras.layers.MaxPooling2D(),
                  tf.keras.layers.Flatten(),
                  tf.keras.layers.Dense(10)]}[name]
steps = 50 if name == "mlp" else 15
samples = tf.random.normal((batch * steps, 28, 28, 1))
labels = tf.random.uniform((batch * steps,), 0, 10, tf.int64)
data = tf.data.Dataset.from_tensor_slices((samples, labels)).batch(batch, True).cache()
with strategy.scope():
    model = tf.keras.Sequential(layers)
    model.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  optimizer=tf.keras.optimizers.Adam(), metrics=["accuracy"])


def epoch():
    begin = time.perf_counter()
    model.fit(data, verbose=0)
    return 1e3 * (time.perf_counter() - begin) / steps


epoch()
end, times = time.perf_counter() + seconds, []
while len(times) < 3 or time.perf_counter() < end:
    times.append(epoch())
print("version", tf.__version__)
print(devices, f"{statistics.median(times):.4f}")
