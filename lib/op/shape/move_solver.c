/* SPDX-License-Identifier: Apache-2.0
 *
 * move_solver.c - concat, slice and unslice as copies of runs. Along an axis, the
 * elements that are contiguous in memory are the axis' range times everything inside
 * it.
 *
 * A blocked layout only adds one more axis inside, so the same copies serve it, as
 * long as no block is divided.
 */
#include "op/flat.h"
#include "op/ops.h"

enum { ELEMENTS_PER_GROUP = 4096 };

/* An operand as seen from an axis; axis 0 is counted in blocks. */
typedef struct view {
    int64_t outer, axis, inner;
} view;

static view
view_of(const yki_operand *operand, int32_t axis)
{
    int64_t block = operand->layout.block;
    view v = {1, 1, block};

    for (int32_t i = 0; i < operand->shape.rank; i++) {
        int64_t size = operand->shape.dim[i];

        if (i == 0)
            size = (size + block - 1) / block;
        if (i < axis)
            v.outer *= size;
        else if (i == axis)
            v.axis = size;
        else
            v.inner *= size;
    }
    return v;
}

/* All operands have one layout. An operand that is not batched is a parameter, which is always
 * plain. */
static bool
one_layout(const yki_problem *problem)
{
    for (uint32_t i = 0; i < problem->input_count; i++)
        if (problem->in[i].layout.block != problem->out.layout.block ||
            (problem->out.layout.block > 1 && !problem->in[i].batched))
            return false;
    return true;
}

static bool
concat_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_concat_attrs attrs = yki_concat_attrs_get(&problem->attrs);

    (void)traits;
    for (uint32_t i = 0; attrs.axis == 0 && i + 1 < problem->input_count; i++)
        if (problem->in[i].shape.dim[0] % problem->out.layout.block)
            return false;
    return one_layout(problem);
}

static bool
slice_applies(const yki_problem *problem, const yki_device_traits *traits)
{
    const yki_slice_attrs attrs = yki_slice_attrs_get(&problem->attrs);
    int64_t block = problem->out.layout.block;

    (void)traits;
    /* A slice may end within a block. Padding lanes then hold its neighbours, which are finite.
     * Copied back, they would not be the zeros that belong there. */
    if (attrs.axis == 0 && (attrs.begin % block || (problem->op == &yki_op_unslice &&
                                                    attrs.end % block && attrs.end < attrs.size)))
        return false;
    return one_layout(problem);
}

static const char *
element_type(const yki_problem *problem)
{
    return problem->out.type == YOKE_U8 ? "uchar" : "uint";
}

static yki_launch *
start_launch(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
             const char *kernel, int64_t elements)
{
    yki_flat flat = yki_flat_for(traits);
    yki_expr groups = problem->out.batched ? YKI_PER_SAMPLE(elements) : YKI_CONST(elements);
    bool near = flat.group > 1 && yki_expr_value(groups, problem->max) < INT32_MAX / 2;
    yki_launch *launch = yki_recipe_launch(recipe, "shape.cl", kernel,
                                           "-DELEM=%s -DVEC=%u -DWG=%u%s", element_type(problem),
                                           flat.vector, flat.group, near ? " -DINDEX=int" : "");

    if (!launch)
        return NULL;
    launch->bytes = groups;
    launch->bytes.per_sample *= 2 * (int64_t)yki_type_size(problem->out.type);
    launch->bytes.constant *= 2 * (int64_t)yki_type_size(problem->out.type);
    groups.divisor = ELEMENTS_PER_GROUP;
    groups.max = flat.groups;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, flat.group, 1, 1);
    return launch;
}

/* Adds one launch that copies `outer` runs per sample; strides and offsets are in elements. */
static void
move(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
     uint32_t input, int64_t outer, int64_t run, int64_t in_stride, int64_t in_offset,
     int64_t out_stride, int64_t out_offset)
{
    start_launch(recipe, problem, traits, "yki_move", outer * run);
    yki_arg_slot(recipe, input);
    yki_arg_slot(recipe, problem->input_count);
    yki_arg_expr(recipe, "samples", problem->out.batched ? YKI_BATCH : YKI_CONST(1));
    yki_arg_int(recipe, "outer", outer);
    yki_arg_int(recipe, "run", run);
    yki_arg_int(recipe, "in_sample", problem->in[input].batched ? outer * in_stride : 0);
    yki_arg_int(recipe, "in_stride", in_stride);
    yki_arg_int(recipe, "in_offset", in_offset);
    yki_arg_int(recipe, "out_sample", outer * out_stride);
    yki_arg_int(recipe, "out_stride", out_stride);
    yki_arg_int(recipe, "out_offset", out_offset);
}

static yoke_status
emit_concat(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
            yki_recipe *recipe)
{
    int32_t axis = yki_concat_attrs_get(&problem->attrs).axis;
    view out = view_of(&problem->out, axis);
    int64_t before = 0;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    for (uint32_t i = 0; i < problem->input_count; i++) {
        view in = view_of(&problem->in[i], axis);

        move(recipe, problem, traits, i, in.outer, in.axis * in.inner, in.axis * in.inner, 0,
             out.axis * out.inner, before * out.inner);
        before += in.axis;
    }
    return recipe->status;
}

static yoke_status
emit_slice(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    const yki_slice_attrs attrs = yki_slice_attrs_get(&problem->attrs);
    view in = view_of(&problem->in[0], attrs.axis), out = view_of(&problem->out, attrs.axis);
    int64_t begin = attrs.axis == 0 ? attrs.begin / problem->out.layout.block : attrs.begin;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    move(recipe, problem, traits, 0, out.outer, out.axis * out.inner, in.axis * in.inner,
         begin * in.inner, out.axis * out.inner, 0);
    return recipe->status;
}

static yoke_status
emit_unslice(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    const yki_slice_attrs attrs = yki_slice_attrs_get(&problem->attrs);
    view in = view_of(&problem->in[0], attrs.axis), out = view_of(&problem->out, attrs.axis);
    int64_t begin = attrs.axis == 0 ? attrs.begin / problem->out.layout.block : attrs.begin;

    (void)tuning;
    yki_recipe_start(recipe, problem);
    start_launch(recipe, problem, traits, "yki_pad", out.outer * out.axis * out.inner);
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "rows",
                 problem->out.batched ? YKI_PER_SAMPLE(out.outer) : YKI_CONST(out.outer));
    yki_arg_int(recipe, "in_run", in.axis * in.inner);
    yki_arg_int(recipe, "out_run", out.axis * out.inner);
    yki_arg_int(recipe, "offset", begin * out.inner);
    return recipe->status;
}

static const yki_op *const concat_op = &yki_op_concat;
static const yki_op *const slice_op = &yki_op_slice;
static const yki_op *const unslice_op = &yki_op_unslice;

const yki_solver yki_solver_concat = {
    .name = "concat-move",
    .op = &concat_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = concat_applies,
    .layouts = yki_flat_layouts,
    .emit = emit_concat,
};

const yki_solver yki_solver_slice = {
    .name = "slice-move",
    .op = &slice_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = slice_applies,
    .layouts = yki_flat_layouts,
    .emit = emit_slice,
};

const yki_solver yki_solver_unslice = {
    .name = "unslice-pad",
    .op = &unslice_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = slice_applies,
    .layouts = yki_flat_layouts,
    .emit = emit_unslice,
};
