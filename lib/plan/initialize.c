/* SPDX-License-Identifier: Apache-2.0
 *
 * initialize.c - initial values of parameters, on the host.
 *
 * Random numbers are counter-based, and of libm only the square root is used, which is correctly
 * rounded everywhere. So every host gets the same bits. A normal deviate is the sum of twelve
 * uniform ones less six (Irwin-Hall). Its tails end at six deviations, which suits initial
 * weights.
 */
#include <math.h>
#include <string.h>

#include "plan/plan.h"

enum { TERMS = 12 };

/* Returns a uniform number in [0, 1) with 24 bits. */
static float
unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

static void
draw(uint32_t seed, uint32_t index, uint64_t position, uint32_t block, uint32_t out[4])
{
    uint32_t key[2] = {seed, index};
    uint32_t counter[4] = {(uint32_t)position, (uint32_t)(position >> 32), block, 0x696e6974u};

    yki_philox(key, counter, out);
}

static float
uniform(uint32_t seed, uint32_t index, uint64_t position, float low, float high)
{
    uint32_t out[4];

    draw(seed, index, position, 0, out);
    return low + (high - low) * unit(out[0]);
}

static float
normal(uint32_t seed, uint32_t index, uint64_t position, float mean, float deviation)
{
    float sum = 0;

    for (uint32_t block = 0; block < TERMS / 4; block++) {
        uint32_t out[4];

        draw(seed, index, position, block, out);
        for (int i = 0; i < 4; i++)
            sum += unit(out[i]);
    }
    return mean + deviation * (sum - TERMS / 2);
}

void
yki_initialize(const yoke_node *node, uint32_t seed, uint32_t index, float *values)
{
    const yoke_initializer *init = &node->initializer;
    int64_t count = yki_shape_count(node->shape);
    float in = (float)YKI_MAX(node->fan_in, 1), out = (float)YKI_MAX(node->fan_out, 1);
    float gain = init->a != 0 ? init->a : 1;

    if (yki_is_constant(node)) {
        memcpy(values, node->data, (size_t)count * sizeof *values);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = (uint64_t)i;
        float bound;

        switch (init->kind) {
        case YOKE_INIT_ZEROS:
            values[i] = 0;
            break;
        case YOKE_INIT_CONSTANT:
            values[i] = init->a;
            break;
        case YOKE_INIT_UNIFORM:
            values[i] = uniform(seed, index, at, init->a, init->b);
            break;
        case YOKE_INIT_NORMAL:
            values[i] = normal(seed, index, at, init->a, init->b);
            break;
        case YOKE_INIT_XAVIER_UNIFORM:
            bound = gain * sqrtf(6 / (in + out));
            values[i] = uniform(seed, index, at, -bound, bound);
            break;
        case YOKE_INIT_XAVIER_NORMAL:
            values[i] = normal(seed, index, at, 0, gain * sqrtf(2 / (in + out)));
            break;
        case YOKE_INIT_KAIMING_UNIFORM:
            bound = (init->a != 0 ? init->a * sqrtf(3 / in) : sqrtf(6 / in));
            values[i] = uniform(seed, index, at, -bound, bound);
            break;
        case YOKE_INIT_KAIMING_NORMAL:
            values[i] =
                normal(seed, index, at, 0, init->a != 0 ? init->a / sqrtf(in) : sqrtf(2 / in));
            break;
        case YOKE_INIT_DEFAULT:
            bound = 1 / sqrtf(in);
            values[i] = uniform(seed, index, at, -bound, bound);
            break;
        }
    }
}
