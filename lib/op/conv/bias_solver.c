/* SPDX-License-Identifier: Apache-2.0
 *
 * bias_solver.c - the gradient of a bias: partial sums over splits of the samples,
 * then one pass that adds them. Weight gradients use that pass too.
 *
 * CPUs add vectors of channels in blocked layouts, and vectors of positions in the
 * plain one. On other devices a work-item adds one element at a time.
 */
#include "op/conv/conv.h"
#include "op/flat.h"

enum { MAX_GROUPS = 16384, ELEMENTS_PER_GROUP = 16384 };

/* Elsewhere a sum over parts is one over samples, by one work-item in their order, which is that of
 * plan/late_sums.c and of processors: parts are few. */
static void
sum_parts_in_groups(yki_recipe *recipe, const yki_device_traits *traits, uint32_t part,
                    uint32_t out, int64_t count, int64_t parts)
{
    const uint32_t items = yki_share_for(traits, count, parts, true).items;
    yki_launch *launch = yki_recipe_launch(recipe, "reduce_groups.cl", "yki_batch_sum_groups",
                                           "-DWG=%u -DSHARE=1 -DACROSS=1", items);

    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, out);
    yki_arg_int(recipe, "count", count);
    yki_arg_int(recipe, "samples", parts);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN((count + items - 1) / items, MAX_GROUPS)),
                    YKI_CONST(1), YKI_CONST(1), items, 1, 1);
}

static void
sum_parts_on_cpu(yki_recipe *recipe, const yki_device_traits *traits, uint32_t part, uint32_t out,
                 int64_t count, int64_t parts)
{
    yki_launch *launch = yki_recipe_launch(recipe, "reduce_bias.cl", "yki_sum_parts",
                                           "-DWG=1 -DVEC=%u", yki_conv_width(traits));

    yki_arg_slot(recipe, part);
    yki_arg_slot(recipe, out);
    yki_arg_int(recipe, "count", count);
    yki_arg_int(recipe, "parts", parts);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN((count + 4095) / 4096, MAX_GROUPS)), YKI_CONST(1),
                    YKI_CONST(1), 1, 1, 1);
}

void
yki_conv_sum_parts(yki_recipe *recipe, const yki_device_traits *traits, uint32_t part, uint32_t out,
                   int64_t count, int64_t parts)
{
    yki_launch *launch;

    if (yki_conv_is_cpu(traits))
        sum_parts_on_cpu(recipe, traits, part, out, count, parts);
    else
        sum_parts_in_groups(recipe, traits, part, out, count, parts);
    launch = recipe->launch_count ? &recipe->launches[recipe->launch_count - 1] : NULL;
    if (launch && recipe->status == YOKE_OK) {
        launch->adds_parts = true;
        launch->flops = YKI_CONST(count * parts);
        launch->bytes = YKI_CONST(4 * count * (parts + 1));
    }
}

static bool
applies(const yki_problem *problem, const yki_device_traits *traits)
{
    uint32_t block = problem->in[0].layout.block;

    return yki_conv_is_cpu(traits) && problem->out.layout.block <= 1 &&
           (block <= 1 || block == 4 || block == 8 || block == 16);
}

static bool
layouts(yki_problem *problem, const yki_device_traits *traits, unsigned variant)
{
    static const uint32_t blocks[] = {1, 16, 8, 4};

    (void)traits;
    if (variant >= YKI_COUNT(blocks))
        return false;
    problem->in[0].layout.block = blocks[variant];
    return true;
}

typedef struct bias_form {
    const char *kernel;
    uint32_t vector;
    int64_t groups; /* independent pieces in a split */
} bias_form;

static bias_form
choose(const yki_problem *problem, const yki_device_traits *traits, int64_t channels, int64_t area)
{
    uint32_t block = problem->in[0].layout.block;
    uint32_t width = traits->vector_width >= 16 ? 16 : traits->vector_width >= 8 ? 8 : 4;

    if (block > 1)
        return (bias_form){"yki_bias_blocked", block, (channels + block - 1) / block};
    /* A row has one element, so neighbouring channels are adjacent in memory. */
    for (; area == 1 && width >= 4; width /= 2)
        if (channels % width == 0)
            return (bias_form){"yki_bias_blocked", width, channels / width};
    return (bias_form){"yki_bias_rows", width < 4 ? 4 : width, channels};
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
     yki_recipe *recipe)
{
    const yki_operand *dy = &problem->in[0];
    int64_t channels = dy->shape.dim[0], area = yki_shape_count(dy->shape) / channels;
    int64_t most = dy->batched ? problem->max.batch : 1, splits;
    bias_form form = choose(problem, traits, channels, area);
    uint32_t part;
    yki_launch *launch;

    (void)tuning;
    splits = ((int64_t)traits->compute_units * 4 + form.groups - 1) / form.groups;
    splits = YKI_MIN(YKI_MIN(splits, most), most * area * channels / ELEMENTS_PER_GROUP);
    splits = YKI_MAX(YKI_MIN(splits, 256), 1);
    yki_recipe_start(recipe, problem);
    part = splits > 1 ? yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * splits * channels))
                      : 1;
    launch =
        yki_recipe_launch(recipe, "reduce_bias.cl", form.kernel, "-DWG=1 -DVEC=%u", form.vector);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, part);
    yki_arg_expr(recipe, "samples", dy->batched ? YKI_BATCH : YKI_CONST(1));
    yki_arg_int(recipe, "channels", channels);
    yki_arg_int(recipe, "area", area);
    yki_arg_int(recipe, "splits", splits);
    yki_launch_grid(launch, YKI_CONST(YKI_MIN(form.groups, MAX_GROUPS)), YKI_CONST(splits),
                    YKI_CONST(1), 1, 1, 1);
    if (launch) {
        launch->flops = yki_operand_elements(dy);
        launch->bytes = yki_problem_bytes(problem);
    }
    if (splits > 1)
        yki_conv_sum_parts(recipe, traits, part, 1, channels, splits);
    return recipe->status;
}

static const yki_op *const bias_op = &yki_op_reduce_bias;

const yki_solver yki_solver_reduce_bias = {
    .name = "reduce-bias",
    .op = &bias_op,
    .applies = applies,
    .layouts = layouts,
    .emit = emit,
};
