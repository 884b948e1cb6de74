/* SPDX-License-Identifier: Apache-2.0
 *
 * transpose_solver.c - transpositions in plain layout: one row of the result after
 * another, and in square tiles where that keeps lines in a cache, or lets work-items
 * side by side read and write what lies side by side.
 *
 * Axes of size 1 are first dropped, and axes that stay neighbours are joined, so that
 * a permutation of seven axes is mostly one of two or three.
 */
#include "op/flat.h"
#include "op/ops.h"

/* Besides the samples, a row has up to 6 outer axes and a tile up to 5. */
enum { ROW_AXES = 6, TILE_AXES = 5, TILE = 16, ELEMENTS_PER_GROUP = 4096 };
/* Side by side: items of a group, the tile's edge. */
enum { ITEMS = 256, EDGE = 32, MAX_GROUPS = 32768 };

/* The result's axes, outermost first; strides are in elements. */
typedef struct axes {
    int count;
    int64_t size[YOKE_MAX_RANK], in[YOKE_MAX_RANK], out[YOKE_MAX_RANK];
} axes;

static axes
axes_of(const yki_problem *problem)
{
    const yki_transpose_attrs attrs = yki_transpose_attrs_get(&problem->attrs);
    const yoke_shape *from = &problem->in[0].shape;
    int64_t strides[YOKE_MAX_RANK], stride = 1;
    axes a = {0};

    for (int32_t i = from->rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= from->dim[i];
    }
    for (int32_t i = 0; i < attrs.rank; i++) {
        int64_t size = problem->out.shape.dim[i], in = strides[attrs.axes[i]];

        if (size == 1)
            continue;
        if (a.count > 0 && a.in[a.count - 1] == in * size) {
            a.size[a.count - 1] *= size;
            a.in[a.count - 1] = in;
            continue;
        }
        a.size[a.count] = size;
        a.in[a.count++] = in;
    }
    if (a.count == 0) {
        a.size[0] = a.in[0] = 1;
        a.count = 1;
    }
    stride = 1;
    for (int i = a.count - 1; i >= 0; i--) {
        a.out[i] = stride;
        stride *= a.size[i];
    }
    return a;
}

/* The axis of the result that is the innermost one of the input. */
static int
input_innermost(const axes *a)
{
    for (int i = 0; i < a->count; i++)
        if (a->in[i] == 1)
            return i;
    return a->count - 1;
}

static bool
in_groups(const yki_device_traits *traits)
{
    return traits->type != YOKE_DEVICE_CPU && traits->max_group >= EDGE;
}

static bool
tiles_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    axes a = axes_of(problem);
    int other = input_innermost(&a);

    /* Thin matrices gain nothing from tiles. */
    return yki_plain_applies(problem, traits) && other != a.count - 1 && a.size[other] >= 4 &&
           a.size[a.count - 1] >= 4;
}

static bool
cpu_tiles_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return !in_groups(traits) && tiles_apply(problem, traits);
}

static bool
cpu_rows_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return !in_groups(traits) && yki_plain_applies(problem, traits);
}

static bool
group_tiles_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return in_groups(traits) && tiles_apply(problem, traits);
}

static bool
group_rows_apply(const yki_problem *problem, const yki_device_traits *traits)
{
    return in_groups(traits) && yki_plain_applies(problem, traits);
}

static void
start(yki_recipe *recipe, const yki_problem *problem, const yki_flat *flat, const char *kernel,
      int64_t tasks, int64_t per_group, uint32_t share)
{
    yki_expr elements = yki_operand_elements(&problem->out), groups;
    int64_t size = (int64_t)yki_type_size(problem->out.type);
    const char *type = problem->out.type == YOKE_U8 ? "uchar" : "uint";
    yki_launch *launch =
        share ? yki_recipe_launch(recipe, "shape_groups.cl", kernel,
                                  "-DELEM=%s -DWG=%u -DSHARE=%u -DEDGE=%d", type, flat->group,
                                  share, EDGE)
              : yki_recipe_launch(recipe, "shape.cl", kernel, "-DELEM=%s -DVEC=%u -DWG=%u", type,
                                  flat->vector, flat->group);

    groups = problem->out.batched ? YKI_PER_SAMPLE(tasks) : YKI_CONST(tasks);
    groups.divisor = per_group;
    groups.max = flat->groups;
    yki_launch_grid(launch, groups, (yki_expr){0}, (yki_expr){0}, flat->group, 1, 1);
    if (launch) {
        launch->bytes = elements;
        launch->bytes.per_sample *= 2 * size;
        launch->bytes.constant *= 2 * size;
    }
    yki_arg_slot(recipe, 0);
    yki_arg_slot(recipe, 1);
    yki_arg_expr(recipe, "samples", problem->out.batched ? YKI_BATCH : YKI_CONST(1));
    yki_arg_int(recipe, "count", yki_shape_count(problem->out.shape));
}

/* Appends one value for each of `room` axes: the values of `list` come last, `fill` before them. */
static void
axis_args(yki_recipe *recipe, const char *name, const int64_t *list, int count, int room,
          int64_t fill)
{
    for (int i = 0; i < room; i++)
        yki_arg_int_at(recipe, name, i + 1, i < room - count ? fill : list[i - (room - count)]);
}

static yki_flat
groups_for(const yki_device_traits *traits)
{
    yki_flat flat = {1, ITEMS, MAX_GROUPS};

    while (flat.group > traits->max_group)
        flat.group /= 2;
    return flat;
}

static void
row_args(yki_recipe *recipe, const axes *a)
{
    int last = a->count - 1;

    axis_args(recipe, "d", a->size, last, ROW_AXES, 1);
    axis_args(recipe, "s", a->in, last, ROW_AXES, 0);
    yki_arg_int(recipe, "length", a->size[last]);
    yki_arg_int(recipe, "stride", a->in[last]);
}

static yoke_status
emit_rows(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
          yki_recipe *recipe)
{
    yki_flat flat = yki_flat_for(traits);
    axes a = axes_of(problem);

    (void)tuning;
    yki_recipe_start(recipe, problem);
    start(recipe, problem, &flat, "yki_transpose_rows", yki_shape_count(problem->out.shape),
          ELEMENTS_PER_GROUP, 0);
    row_args(recipe, &a);
    return recipe->status;
}

static yoke_status
emit_group_rows(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
                yki_recipe *recipe)
{
    yki_flat flat = groups_for(traits);
    axes a = axes_of(problem);
    int64_t length = a.size[a.count - 1];
    uint32_t share = 1;

    (void)tuning;
    /* At least a line of memory side by side, and then some elements for each work-item. */
    while (2 * share <= flat.group && 2 * share <= (share < 32 ? length : length / 4))
        share *= 2;
    yki_recipe_start(recipe, problem);
    start(recipe, problem, &flat, "yki_transpose_rows_groups",
          yki_shape_count(problem->out.shape) / length, flat.group / share, share);
    row_args(recipe, &a);
    return recipe->status;
}

static yoke_status
emit_tiles(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
           yki_recipe *recipe)
{
    bool groups = in_groups(traits);
    yki_flat flat = groups ? groups_for(traits) : yki_flat_for(traits);
    axes a = axes_of(problem);
    int last = a.count - 1, other = input_innermost(&a), edge = groups ? EDGE : TILE;
    int64_t rows = a.size[other], columns = a.size[last], out_stride = a.out[other], matrices;

    (void)tuning;
    for (int i = other; i + 1 < last; i++) {
        a.size[i] = a.size[i + 1];
        a.in[i] = a.in[i + 1];
        a.out[i] = a.out[i + 1];
    }
    matrices = yki_shape_count(problem->out.shape) / rows / columns;
    if (!groups)
        flat.group = 1;
    yki_recipe_start(recipe, problem);
    start(recipe, problem, &flat, groups ? "yki_transpose_tiles_groups" : "yki_transpose_tiles",
          matrices * ((rows + edge - 1) / edge) * ((columns + edge - 1) / edge),
          groups ? 1 : ELEMENTS_PER_GROUP / TILE / TILE, groups ? EDGE : 0);
    axis_args(recipe, "d", a.size, last - 1, TILE_AXES, 1);
    axis_args(recipe, "s", a.in, last - 1, TILE_AXES, 0);
    axis_args(recipe, "t", a.out, last - 1, TILE_AXES, 0);
    yki_arg_int(recipe, "rows", rows);
    yki_arg_int(recipe, "columns", columns);
    yki_arg_int(recipe, "in_stride", a.in[last]);
    yki_arg_int(recipe, "out_stride", out_stride);
    return recipe->status;
}

static const yki_op *const transpose_op = &yki_op_transpose;

const yki_solver yki_solver_transpose_tiles = {
    .name = "transpose-tiles",
    .op = &transpose_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = cpu_tiles_apply,
    .emit = emit_tiles,
};

const yki_solver yki_solver_transpose_rows = {
    .name = "transpose-rows",
    .op = &transpose_op,
    .canonical = YKI_CANONICAL_FREE,
    .applies = cpu_rows_apply,
    .emit = emit_rows,
};

const yki_solver yki_solver_transpose_tiles_groups = {
    .name = "transpose-tiles-groups",
    .op = &transpose_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .applies = group_tiles_apply,
    .emit = emit_tiles,
};

const yki_solver yki_solver_transpose_rows_groups = {
    .name = "transpose-rows-groups",
    .op = &transpose_op,
    .side_by_side = true,
    .canonical = YKI_CANONICAL_FREE,
    .applies = group_rows_apply,
    .emit = emit_group_rows,
};
