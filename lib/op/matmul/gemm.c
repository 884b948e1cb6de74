/* SPDX-License-Identifier: Apache-2.0
 *
 * gemm.c - turns the shapes of a matrix product into its loops; see matmul.h.
 */
#include <string.h>

#include "op/matmul/matmul.h"

yki_expr
yki_gemm_times(yki_expr a, yki_expr b)
{
    /* One of the two is a constant: (p n) (c) or (c) (p n). */
    yki_expr product = YKI_PER_SAMPLE(a.per_sample * b.constant + a.constant * b.per_sample);

    product.constant = a.constant * b.constant;
    return product;
}

static bool
is_one(yki_expr size)
{
    return size.per_sample == 0 && size.constant == 1;
}

/* Whether an outer axis is adjacent to an inner one in memory: its stride is the inner stride
 * times the inner size. */
static bool
follows(int64_t outer_stride, int64_t inner_stride, yki_expr inner)
{
    return inner.per_sample == 0 && outer_stride == inner_stride * inner.constant;
}

static void
append(yki_gemm_axis *axes, uint32_t *count, yki_gemm_axis axis)
{
    yki_gemm_axis *last = *count ? &axes[*count - 1] : NULL;

    if (is_one(axis.size))
        return;
    if (last && follows(last->a, axis.a, axis.size) && follows(last->b, axis.b, axis.size)) {
        last->size = yki_gemm_times(last->size, axis.size);
        last->a = axis.a;
        last->b = axis.b;
        return;
    }
    axes[(*count)++] = axis;
}

/* Makes the innermost outer axis a part of the rows, if B does not depend on it. */
static void
fold_rows(yki_gemm *g)
{
    while (g->outer > 0) {
        const yki_gemm_axis *axis = &g->axes[g->outer - 1];

        if (axis->b != 0 || !(is_one(g->m) || follows(axis->a, g->a_m, g->m)))
            return;
        if (is_one(g->m))
            g->a_m = axis->a;
        g->m = yki_gemm_times(axis->size, g->m);
        g->outer--;
    }
}

/* Makes the innermost summed axis a part of the inner sum. */
static void
fold_sum(yki_gemm *g, yki_gemm_axis *sums, uint32_t *count)
{
    while (*count > 0) {
        const yki_gemm_axis *axis = &sums[*count - 1];

        if (!is_one(g->k) && !(follows(axis->a, g->a_k, g->k) && follows(axis->b, g->b_k, g->k)))
            return;
        if (is_one(g->k)) {
            g->a_k = axis->a;
            g->b_k = axis->b;
        }
        g->k = yki_gemm_times(axis->size, g->k);
        (*count)--;
    }
}

static bool
fits(const yki_gemm *g, yki_extents max)
{
    const yki_expr sizes[] = {g->m, g->n, g->k, g->z};
    const int64_t strides[] = {g->a_m, g->a_k, g->b_k, g->b_n};

    for (size_t i = 0; i < YKI_COUNT(sizes); i++)
        if (yki_expr_value(sizes[i], max) > INT32_MAX || strides[i] > INT32_MAX)
            return false;
    for (uint32_t i = 0; i < g->outer + g->sum; i++)
        if (yki_expr_value(g->axes[i].size, max) > INT32_MAX || g->axes[i].a > INT32_MAX ||
            g->axes[i].b > INT32_MAX)
            return false;
    return true;
}

/* Collects samples and leading axes: those of the result in g->axes, those summed over in
 * `sums`. */
static uint32_t
collect_axes(const yki_problem *problem, const yki_matmul_view *a, const yki_matmul_view *b,
             yki_gemm *g, yki_gemm_axis *sums)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&problem->attrs);
    int64_t stride_a[YOKE_MAX_RANK], stride_b[YOKE_MAX_RANK];
    int64_t size_a = a->rows * a->columns, size_b = b->rows * b->columns;
    yoke_shape lead = {0};
    uint32_t summed = 0;

    if (!yki_shape_broadcast(a->lead, b->lead, &lead))
        return 0;
    for (int32_t i = lead.rank; i-- > 0;) {
        int32_t ia = i - (lead.rank - a->lead.rank), ib = i - (lead.rank - b->lead.rank);
        int64_t da = ia < 0 ? 1 : a->lead.dim[ia], db = ib < 0 ? 1 : b->lead.dim[ib];

        stride_a[i] = da == 1 ? 0 : size_a;
        stride_b[i] = db == 1 ? 0 : size_b;
        size_a *= da;
        size_b *= db;
    }
    if (problem->in[0].batched || problem->in[1].batched) {
        yki_gemm_axis batch = {YKI_BATCH, problem->in[0].batched ? size_a : 0,
                               problem->in[1].batched ? size_b : 0};

        append(attrs.sum_batch ? sums : g->axes, attrs.sum_batch ? &summed : &g->outer, batch);
    }
    for (int32_t i = 0; i < lead.rank; i++) {
        yki_gemm_axis axis = {YKI_CONST(lead.dim[i]), stride_a[i], stride_b[i]};

        if (i < attrs.drop_axes || (attrs.sum_axes >> (lead.rank - 1 - i) & 1))
            append(sums, &summed, axis);
        else
            append(g->axes, &g->outer, axis);
    }
    return summed;
}

bool
yki_gemm_of(const yki_problem *problem, yki_gemm *g)
{
    const yki_matmul_attrs attrs = yki_matmul_attrs_get(&problem->attrs);
    yki_matmul_view a = yki_matmul_view_of(problem->in[0].shape, attrs.transpose_a);
    yki_matmul_view b = yki_matmul_view_of(problem->in[1].shape, attrs.transpose_b);
    yki_gemm_axis sums[YKI_GEMM_AXES];
    uint32_t summed;

    memset(g, 0, sizeof *g);
    for (uint32_t i = 0; i < problem->input_count; i++)
        if (problem->in[i].layout.block > 1)
            return false;
    if (problem->out.layout.block > 1)
        return false;
    g->m = YKI_CONST(a.rows);
    g->n = YKI_CONST(b.columns);
    g->k = YKI_CONST(a.columns);
    g->a_m = attrs.transpose_a ? 1 : a.columns;
    g->a_k = attrs.transpose_a ? a.rows : 1;
    g->b_k = attrs.transpose_b ? 1 : b.columns;
    g->b_n = attrs.transpose_b ? b.rows : 1;
    g->bias = attrs.bias;
    g->relu = attrs.act == YKI_MATMUL_RELU;
    g->gate = attrs.act == YKI_MATMUL_GATE;
    g->sums = attrs.sums;
    summed = collect_axes(problem, &a, &b, g, sums);
    fold_rows(g);
    fold_sum(g, sums, &summed);
    g->z = YKI_CONST(1);
    for (uint32_t i = 0; i < g->outer; i++)
        g->z = yki_gemm_times(g->z, g->axes[i].size);
    for (uint32_t i = 0; i < summed; i++)
        g->axes[g->outer + i] = sums[i];
    g->sum = summed;
    return fits(g, problem->max);
}

void
yki_gemm_size_args(yki_recipe *recipe, const yki_gemm *g, int part)
{
    yki_arg_expr_at(recipe, "m", part, g->m);
    yki_arg_expr_at(recipe, "n", part, g->n);
    yki_arg_expr_at(recipe, "k", part, g->k);
    yki_arg_int_at(recipe, "a_m", part, g->a_m);
    yki_arg_int_at(recipe, "a_k", part, g->a_k);
    yki_arg_int_at(recipe, "b_k", part, g->b_k);
    yki_arg_int_at(recipe, "b_n", part, g->b_n);
    yki_arg_int_at(recipe, "flags", part,
                   (g->bias ? 1 : 0) | (g->relu ? 2 : 0) | (g->pack_a ? 4 : 0) |
                       (g->pack_b ? 8 : 0) | (g->gate ? 64 : 0) | (g->sums ? 128 : 0));
}

void
yki_gemm_args(yki_recipe *recipe, const yki_gemm *g)
{
    yki_gemm_size_args(recipe, g, -1);
    yki_arg_int(recipe, "outer", g->outer);
    yki_arg_int(recipe, "sum", g->sum);
    for (uint32_t i = 0; i < YKI_GEMM_AXES; i++) {
        bool used = i < g->outer + g->sum;

        yki_arg_expr_at(recipe, "e", (int)i, used ? g->axes[i].size : YKI_CONST(1));
        yki_arg_int_at(recipe, "a", (int)i, used ? g->axes[i].a : 0);
        yki_arg_int_at(recipe, "b", (int)i, used ? g->axes[i].b : 0);
    }
}

void
yki_gemm_cost(yki_expr *flops, yki_expr *bytes, const yki_problem *problem, const yki_gemm *g)
{
    yki_expr terms = yki_gemm_times(yki_gemm_times(g->m, g->n), yki_gemm_times(g->k, g->z));

    for (uint32_t i = 0; i < g->sum; i++)
        terms = yki_gemm_times(terms, g->axes[g->outer + i].size);
    *flops = yki_gemm_times(terms, YKI_CONST(2));
    *bytes = yki_operand_bytes(&problem->out);
    for (uint32_t i = 0; i < problem->input_count; i++) {
        yki_expr in = yki_operand_bytes(&problem->in[i]);

        bytes->per_sample += in.per_sample;
        bytes->constant += in.constant;
    }
}
