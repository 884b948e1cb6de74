/* SPDX-License-Identifier: Apache-2.0
 *
 * winograd_unpacked.c - 3x3 convolutions with stride 1, and gradients of their input,
 * by Winograd's F(4x4, 3x3) on CPUs, from weights that are not packed
 * (yki_winograd_unpacked in clkernels/winograd.cl).
 *
 * Transformed weights are four times as large. Where images are small and channels
 * many, writing and reading them, once a step in training, takes as long as the
 * products. Here a group transforms a piece of the weights when it multiplies by it,
 * and the piece never leaves the group's cache. Each block of tiles transforms again,
 * so blocks are large. Where there would be many blocks, packed weights (winograd.c)
 * are better. The arithmetic is the same. So they are in canonical plans, where each granule of a
 * step reads the packed weights again.
 */
#include "op/conv/winograd.h"

enum {
    CHUNK_CHANNELS = 64, /* transformed together: 36 x 64 x 2 V floats */
    BLOCK_BYTES = 6 << 20,
    BLOCK_TILES = 144,
    MOST_BLOCKS = 4,
};

/* Tiles of a block, a multiple of the register tile of p. They are transformed before the
 * products begin, for all channels. */
static int64_t
tiles_of_block(const yki_winograd_side *s)
{
    int64_t p = s->step;
    int64_t most = YKI_MIN(BLOCK_BYTES / (36 * 4 * s->in_blocks * s->v), BLOCK_TILES);

    most = YKI_MAX(most / p * p, p);
    return YKI_MIN(most, YKI_MAX(s->most_tiles + p - 1, p) / p * p);
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_winograd_side s;

    if (!yki_winograd_applies(problem, traits))
        return false;
    s = yki_winograd_side_of(problem, traits);
    return s.most_tiles <= MOST_BLOCKS * tiles_of_block(&s);
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    yki_winograd_side s = yki_winograd_side_of(problem, traits);
    int64_t most = tiles_of_block(&s);
    int64_t splits = YKI_MIN(traits->compute_units, s.pairs);
    int64_t chunk = YKI_MIN(CHUNK_CHANNELS / s.v, s.in_blocks);
    int64_t chunks = (s.in_blocks + chunk - 1) / chunk;
    int64_t step = chunks * 36 * (most * chunk * s.v + YKI_WINOGRAD_SKEW) +
                   36 * (most * 2 * s.v + YKI_WINOGRAD_SKEW) +
                   36 * (chunk * s.v * 2 * s.v + YKI_WINOGRAD_SKEW) + 2 * s.v;
    const yki_named_int values[] = {{"most", most},
                                    {"splits", splits},
                                    {"chunk", chunk},
                                    {"c", s.c},
                                    {"h", s.h},
                                    {"w", s.w},
                                    {"o", s.o},
                                    {"oh", s.oh},
                                    {"ow", s.ow},
                                    {"pad_h", s.pad[0]},
                                    {"pad_w", s.pad[1]},
                                    {"scratch_step", step},
                                    {"act", conv.a.act},
                                    {"transposed", s.transposed},
                                    {"has_bias", conv.has_bias}};
    uint32_t scratch;
    yki_launch *launch;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    scratch =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * step * traits->compute_units));
    launch =
        yki_recipe_launch(recipe, "winograd.cl", "yki_winograd_unpacked", "-DV=%u", (unsigned)s.v);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv.has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, scratch);
    YKI_TRY(yki_winograd_finish(recipe, launch, problem, traits, values, YKI_COUNT(values)));
    launch->flops.constant += 117 * s.c * s.o; /* for each block again */
    return YOKE_OK;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;

const yki_solver yki_solver_winograd_unpacked = {
    .name = "conv2d-winograd4-unpacked",
    .op = &forward_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .applies = applies,
    .layouts = yki_winograd_layouts,
    .emit = emit,
};

const yki_solver yki_solver_winograd_unpacked_grad_input = {
    .name = "conv2d-grad-input-winograd4-unpacked",
    .op = &grad_input_op,
    .numerical_class = YKI_CLASS_WINOGRAD4,
    .applies = applies,
    .layouts = yki_winograd_layouts,
    .emit = emit,
};
