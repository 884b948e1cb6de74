# SPDX-License-Identifier: Apache-2.0
"""Times whole training steps of a language model in JAX: the models of peer_gpt.py, by hand.

  peer_gpt_jax.py MODEL@LENGTH BATCH SECONDS [TYPE...]

Where the two have a word for the same thing it is the same here: norms before the layers, GELU by
tanh, learned positions, a head tied to the embedding; AdamW, gradients clipped at norm 1. TYPE is
float32 or bfloat16, of products and what lies between them; weights, norms and the loss are float32.
The step is one compiled function that takes its memory over from the step before. Prints `version V -`,
then a line `jax,TYPE MS` each: the median of the steps that go into SECONDS, at least 3, after 3.
"""
import statistics, sys, time
import jax
from jax import numpy as np

# Layers, heads, width, context, vocabulary.
SIZES = {"char": (6, 6, 384, 256, 65), "gpt2": (12, 12, 768, 1024, 50257)}
RATE, DECAY, BETA1, BETA2, EPSILON = 3e-4, 0.1, 0.9, 0.999, 1e-8


def parameters(layers, width, context, vocabulary):
    keys = iter(jax.random.split(jax.random.key(0), 4 * layers + 2))

    def weight(*shape):
        return 0.02 * jax.random.normal(next(keys), shape)

    def dense(inputs, outputs):
        return {"w": weight(inputs, outputs), "b": np.zeros(outputs)}

    def norm():
        return {"w": np.ones(width), "b": np.zeros(width)}

    blocks = [{"norm1": norm(), "in": dense(width, 3 * width), "out": dense(width, width),
               "norm2": norm(), "up": dense(width, 4 * width), "down": dense(4 * width, width)}
              for _ in range(layers)]
    return {"tokens": weight(vocabulary, width), "positions": weight(context, width),
            "blocks": blocks, "norm": norm()}


def normed(p, x):
    x = x.astype(np.float32)
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["w"] + p["b"]


def loss_of(p, tokens, labels, heads, kind):
    def product(x, w):
        return x.astype(kind) @ w.astype(kind)

    def dense(p, x):
        return product(x, p["w"]) + p["b"].astype(kind)

    x = p["tokens"][tokens] + p["positions"][:tokens.shape[1]]
    for block in p["blocks"]:
        y = dense(block["in"], normed(block["norm1"], x))
        q, k, v = (t.reshape(*t.shape[:2], heads, -1) for t in np.split(y, 3, axis=-1))
        y = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + dense(block["out"], y.reshape(x.shape)).astype(np.float32)
        y = jax.nn.gelu(dense(block["up"], normed(block["norm2"], x)), approximate=True)
        x = x + dense(block["down"], y).astype(np.float32)
    logits = product(normed(p["norm"], x), p["tokens"].T).astype(np.float32)
    chosen = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()


def step(state, tokens, labels, heads, kind):
    p, first, second, count = state
    loss, g = jax.value_and_grad(loss_of)(p, tokens, labels, heads, kind)
    length = np.sqrt(sum((x * x).sum() for x in jax.tree.leaves(g)))
    factor, count = np.minimum(1, 1 / (length + 1e-6)), count + 1
    g = jax.tree.map(lambda x: x * factor, g)
    first = jax.tree.map(lambda m, x: BETA1 * m + (1 - BETA1) * x, first, g)
    second = jax.tree.map(lambda v, x: BETA2 * v + (1 - BETA2) * x * x, second, g)
    one, two = 1 - BETA1 ** count, 1 - BETA2 ** count

    def moved(p, m, v):
        return p * (1 - RATE * DECAY) - RATE * (m / one) / (np.sqrt(v / two) + EPSILON)

    return (jax.tree.map(moved, p, first, second), first, second, count), loss


def measure(name, batch, seconds, type):
    name, _, length = name.partition("@")
    layers, heads, *rest = SIZES[name]
    tokens = jax.random.randint(jax.random.key(1), (batch, int(length) + 1), 0, rest[-1])
    p = parameters(layers, *rest)
    zeros = [jax.tree.map(np.zeros_like, p) for _ in range(2)]
    state = (p, *zeros, np.float32(0))
    run = jax.jit(step, static_argnums=(3, 4), donate_argnums=0)

    def timed():
        nonlocal state
        begin = time.perf_counter()
        state, loss = run(state, tokens[:, :-1], tokens[:, 1:], heads, np.dtype(type))
        loss.block_until_ready()
        jax.block_until_ready(state)
        return time.perf_counter() - begin

    last = [timed() for _ in range(3)][-1]
    times = [timed() for _ in range(max(3, min(300, int(seconds / last))))]
    return f"jax,{type} {1e3 * statistics.median(times):.4f}"


def main():
    name, batch, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    print("version", jax.__version__, "-", flush=True)
    for type in sys.argv[4:] or ["float32"]:
        print(measure(name, batch, seconds, type), flush=True)


if __name__ == "__main__":
    main()
