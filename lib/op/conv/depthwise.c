/* SPDX-License-Identifier: Apache-2.0
 *
 * depthwise.c - convolutions with one filter per channel on CPUs, with channels in
 * blocks of the vector's width (clkernels/conv_depthwise.cl).
 *
 * Several filters per channel are left to the other solvers.
 */
#include "op/conv/conv.h"

enum { MAX_GRIDS = 16, GROUPS_PER_UNIT = 4, MAX_SPLITS = 64, STRIP_BYTES = 24 << 10 };
/* Alternatives to measure: the guessed way to store, or the other one. */
enum { AS_GUESSED, OTHER_STORES, TUNINGS };

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    uint32_t v = yki_conv_width(traits);

    if (variant || !yki_conv_is_cpu(traits))
        return false;
    problem->in[0].layout.block = v;
    if (problem->op == &yki_op_conv2d_grad_weight)
        problem->in[1].layout.block = v;
    else
        problem->out.layout.block = v;
    return true;
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    yki_conv conv = yki_conv_of(problem);
    uint32_t v = yki_conv_width(traits);
    bool is_weight = problem->op == &yki_op_conv2d_grad_weight;
    const yki_operand *image = is_weight ? &problem->in[1] : &problem->out;
    const yki_operand *plain = is_weight ? &problem->out : &problem->in[1];
    int64_t limit = INT32_MAX / 2;

    return yki_conv_is_cpu(traits) && conv.cg == 1 && conv.og == 1 &&
           problem->in[0].layout.block == v && image->layout.block == v &&
           plain->layout.block <= 1 && conv.h * conv.w < limit / v &&
           conv.oh * conv.ow < limit / v &&
           (conv.h + 2 * (int64_t)conv.a.pad[0] + conv.oh) *
                   (conv.w + 2 * (int64_t)conv.a.pad[1] + conv.ow) <
               limit / v &&
           (problem->op != &yki_op_conv2d_grad_input ||
            (int64_t)conv.a.stride[0] * conv.a.stride[1] <= MAX_GRIDS);
}

typedef struct grid {
    yki_conv_axis vertical, horizontal;
    int64_t weight_at;
    int64_t band, strip; /* rows of the grid, and floats of their input */
} grid;

/* A band is as high as fits the first-level cache. */
static void
choose_band(grid *g, uint32_t v)
{
    const yki_conv_axis *x = &g->vertical, *y = &g->horizontal;
    int64_t row = v * YKI_MAX((y->count - 1) * y->in_step + (y->taps - 1) * y->tap_step + 1, 1);

    g->band = x->count;
    for (;; g->band--) {
        g->strip = row * YKI_MAX((g->band - 1) * x->in_step + (x->taps - 1) * x->tap_step + 1, 1);
        if (g->band == 1 || 4 * g->strip <= STRIP_BYTES)
            return;
    }
}

static void
emit_pack(yki_recipe *recipe, const yki_conv *conv, const grid *g, uint32_t v, uint32_t weights)
{
    int64_t blocks = (conv->c + v - 1) / v;
    yki_launch *launch =
        yki_recipe_launch(recipe, "conv_depthwise.cl", "yki_conv_depthwise_pack", "-DV=%u", v);

    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, conv->has_bias ? 2 : 1); /* a kernel has no optional arguments */
    yki_arg_slot(recipe, weights);
    yki_arg_int(recipe, "weight_at", g->weight_at);
    yki_arg_int(recipe, "c", conv->c);
    yki_arg_packed_taps(recipe, conv, &g->vertical, &g->horizontal);
    yki_arg_int(recipe, "has_bias", conv->has_bias);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(blocks, 64)), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->phase = YKI_PHASE_PREPARE;
        launch->bytes = YKI_CONST(8 * conv->c * conv->taps);
    }
}

static void
emit_grid(const yki_problem *problem, const yki_device_traits *traits, yki_recipe *recipe,
          const yki_conv *conv, const grid *g, uint32_t v, uint32_t weights, uint32_t strips,
          int64_t strip_size, bool stream)
{
    bool transposed = problem->op == &yki_op_conv2d_grad_input;
    const yki_conv_axis *vertical = &g->vertical, *horizontal = &g->horizontal;
    int64_t blocks = (conv->c + v - 1) / v;
    const yki_named_int values[] = {{"weight_at", g->weight_at},
                                    {"blocks", blocks},
                                    {"h", transposed ? conv->oh : conv->h},
                                    {"w", transposed ? conv->ow : conv->w},
                                    {"oh", transposed ? conv->h : conv->oh},
                                    {"ow", transposed ? conv->w : conv->ow}};
    yki_launch *launch = yki_recipe_launch(recipe, "conv_depthwise.cl",
                                           vertical->out_step * horizontal->out_step > 1
                                               ? "yki_conv_depthwise_direct"
                                               : "yki_conv_depthwise",
                                           "-DV=%u%s", v, stream ? " -DSTREAM" : "");
    yki_expr groups = yki_conv_times(conv, blocks);

    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, weights);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_slot(recipe, strips);
    yki_arg_expr(recipe, "samples", conv->n);
    yki_arg_ints(recipe, values, YKI_COUNT(values));
    yki_arg_axes(recipe, vertical, horizontal);
    yki_arg_int(recipe, "act", conv->a.act);
    yki_arg_int(recipe, "band", g->band);
    yki_arg_int(recipe, "strip_size", strip_size);
    groups.max = GROUPS_PER_UNIT * traits->compute_units;
    yki_launch_grid(launch, groups, YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_times(conv, 2 * conv->c * vertical->count * horizontal->count *
                                                 vertical->taps * horizontal->taps);
        launch->bytes = yki_problem_bytes(problem);
    }
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    return yki_conv_width(traits) == 16 ? TUNINGS : OTHER_STORES;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    bool transposed = problem->op == &yki_op_conv2d_grad_input;
    uint32_t v = yki_conv_width(traits), weights, strips;
    int64_t blocks = (conv.c + v - 1) / v, size = 0, strip = v;
    int64_t groups = (int64_t)GROUPS_PER_UNIT * traits->compute_units;
    grid grids[MAX_GRIDS];
    size_t count = 0;

    /* Only a vector of 16 lanes is a whole cache line. */
    bool stream = v == 16 && (4 * yki_operand_count(&problem->out, problem->max) >
                              (int64_t)traits->cache) != (tuning == OTHER_STORES);

    for (int64_t i = 0; i < (transposed ? conv.a.stride[0] : 1); i++)
        for (int64_t j = 0; j < (transposed ? conv.a.stride[1] : 1); j++) {
            grid *g = &grids[count];

            g->vertical =
                transposed ? yki_conv_gradient_axis(&conv, 0, i) : yki_conv_forward_axis(&conv, 0);
            g->horizontal =
                transposed ? yki_conv_gradient_axis(&conv, 1, j) : yki_conv_forward_axis(&conv, 1);
            g->weight_at = size;
            if (!g->vertical.count || !g->horizontal.count)
                continue;
            choose_band(g, v);
            strip = YKI_MAX(strip, g->strip);
            size += blocks * v * (g->vertical.taps * g->horizontal.taps + 1);
            count++;
        }
    yki_recipe_start(recipe, problem);
    weights = yki_recipe_slot(recipe, YKI_SLOT_PREPARED, YKI_CONST(4 * size));
    strips = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * groups * strip));
    for (size_t i = 0; i < count; i++) {
        emit_pack(recipe, &conv, &grids[i], v, weights);
        emit_grid(problem, traits, recipe, &conv, &grids[i], v, weights, strips, strip, stream);
    }
    return recipe->status;
}

static yoke_status
emit_weight(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    yki_conv conv = yki_conv_of(problem);
    uint32_t v = yki_conv_width(traits), part;
    int64_t blocks = (conv.c + v - 1) / v, most = conv.batched ? problem->max.batch : 1;
    int64_t jobs = (int64_t)GROUPS_PER_UNIT * traits->compute_units, splits;
    yki_launch *launch;

    (void)tuning;
    splits = YKI_MAX(YKI_MIN(YKI_MIN((jobs + blocks - 1) / blocks, most), MAX_SPLITS), 1);
    yki_recipe_start(recipe, problem);
    part =
        yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * splits * blocks * v * conv.taps));
    launch = yki_recipe_launch(recipe, "conv_depthwise.cl", "yki_conv_depthwise_grad_weight",
                               "-DV=%u", v);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "samples", conv.n);
    yki_arg_int(recipe, "splits", splits);
    yki_arg_int(recipe, "blocks", blocks);
    yki_arg_int(recipe, "h", conv.h);
    yki_arg_int(recipe, "w", conv.w);
    yki_arg_int(recipe, "oh", conv.oh);
    yki_arg_int(recipe, "ow", conv.ow);
    yki_arg_window(recipe, &conv);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(jobs, splits * blocks)), YKI_CONST(1), YKI_CONST(1),
                    1, 1, 1);
    if (launch) {
        launch->flops = yki_conv_flops(&conv);
        launch->bytes = yki_problem_bytes(problem);
    }
    launch =
        yki_recipe_launch(recipe, "conv_depthwise.cl", "yki_conv_depthwise_unpack", "-DV=%u", v);
    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, 2);
    yki_arg_int(recipe, "splits", splits);
    yki_arg_int(recipe, "c", conv.c);
    yki_arg_int(recipe, "area", conv.taps);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(blocks, 64)), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    return recipe->status;
}

static const yki_op *const forward_op = &yki_op_conv2d;
static const yki_op *const grad_input_op = &yki_op_conv2d_grad_input;
static const yki_op *const grad_weight_op = &yki_op_conv2d_grad_weight;

const yki_solver yki_solver_conv_depthwise = {
    .name = "conv2d-depthwise",
    .op = &forward_op,
    .applies = applies,
    .layouts = layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_conv_depthwise_grad_input = {
    .name = "conv2d-grad-input-depthwise",
    .op = &grad_input_op,
    .applies = applies,
    .layouts = layouts,
    .tunings = tunings,
    .emit = emit,
};

const yki_solver yki_solver_conv_depthwise_grad_weight = {
    .name = "conv2d-grad-weight-depthwise",
    .op = &grad_weight_op,
    .applies = applies,
    .layouts = layouts,
    .emit = emit_weight,
};
