/* SPDX-License-Identifier: Apache-2.0
 *
 * pair.c - two matrix products in one launch, on CPUs. The gradients of a small dense
 * layer by its input and by its weight do not depend on one another, and each alone is
 * less work than a launch costs. Only fusions make it (plan/fuse_matmul.c).
 */
#include <stdio.h>
#include <string.h>

#include "op/matmul/matmul.h"

/* One of the two as a problem by itself, and the slots of the pair that are its operands. */
typedef struct part {
    yki_problem problem;
    yki_gemm gemm;
    uint32_t first_input, out;
} part;

static void
describe(const yki_attrs *attrs, char *text, size_t size)
{
    const yki_matmul_pair_attrs pair = yki_matmul_pair_attrs_get(attrs);
    size_t used = 0;

    for (int i = 0; i < 2 && used < size; i++) {
        yki_attrs one;

        yki_matmul_attrs_set(&one, &pair.part[i]);
        if (i)
            used += (size_t)snprintf(text + used, size - used, " & ");
        if (used < size) {
            yki_op_matmul.describe(&one, text + used, size - used);
            used += strlen(text + used);
        }
    }
}

const yki_op yki_op_matmul_pair = {
    .name = "matmul_pair",
    .infer = yki_infer_joined,
    .describe = describe,
};

static bool
split(const yki_problem *problem, part parts[2])
{
    const yki_matmul_pair_attrs pair = yki_matmul_pair_attrs_get(&problem->attrs);
    uint32_t input = 0, result = problem->input_count;

    for (int i = 0; i < 2; i++) {
        yki_problem *p = &parts[i].problem;
        const yki_matmul_attrs attrs = pair.part[i];

        *p = (yki_problem){.op = &yki_op_matmul, .max = problem->max};
        yki_matmul_attrs_set(&p->attrs, &attrs);
        p->input_count = attrs.act == YKI_MATMUL_GATE ? 3 : 2;
        parts[i].first_input = input;
        parts[i].out = result;
        memcpy(p->in, problem->in + input, p->input_count * sizeof *p->in);
        p->out = *yki_problem_operand(problem, result);
        p->extra_count = attrs.sums ? 1 : 0;
        if (attrs.sums)
            p->extra[0] = *yki_problem_operand(problem, result + 1);
        input += p->input_count;
        result += 1 + p->extra_count;
        if (attrs.bias || !yki_gemm_of(p, &parts[i].gemm) ||
            parts[i].gemm.outer + parts[i].gemm.sum > 0)
            return false;
    }
    return true;
}

static bool
applies_direct(const yki_problem *problem, const yki_device_traits *traits)
{
    part parts[2];

    return traits->type == YOKE_DEVICE_CPU && split(problem, parts);
}

static bool
applies_bf16(const yki_problem *problem, const yki_device_traits *traits)
{
    return yki_has_bf16_pairs(traits) && applies_direct(problem, traits);
}

static unsigned
tunings(const yki_problem *problem, const yki_device_traits *traits)
{
    (void)problem;
    (void)traits;
    return 2;
}

static void
add_args(yki_recipe *recipe, part *p, int number, const yki_gemm_cpu_blocking *b, uint32_t unused)
{
    p->gemm.pack_a = b->pack_a;
    p->gemm.pack_b = b->pack_b;
    yki_arg_slot(recipe, p->first_input);
    yki_arg_slot(recipe, p->first_input + 1);
    yki_arg_slot(recipe, p->out);
    yki_arg_slot(recipe, p->first_input + (p->gemm.gate ? 2 : 0));
    yki_arg_slot(recipe, p->gemm.sums ? p->out + 1 : unused);
    yki_arg_int_at(recipe, "kc", number, b->kc);
    yki_arg_int_at(recipe, "mc", number, b->mc);
    yki_arg_int_at(recipe, "nc", number, b->nc);
    yki_gemm_size_args(recipe, &p->gemm, number);
    yki_arg_int_at(recipe, "nx", number, b->nx);
    yki_arg_int_at(recipe, "ny", number, b->ny);
}

static void
add_cost(yki_launch *launch, const part *p)
{
    yki_expr flops, bytes;

    yki_gemm_cost(&flops, &bytes, &p->problem, &p->gemm);
    launch->flops.per_sample += flops.per_sample;
    launch->flops.constant += flops.constant;
    launch->bytes.per_sample += bytes.per_sample;
    launch->bytes.constant += bytes.constant;
}

static yoke_status
emit(const yki_problem *problem, const yki_device_traits *traits, yki_dot_unit unit,
     unsigned tuning, yki_recipe *recipe)
{
    yki_extents max = problem->max;
    int64_t columns = 0, size, groups;
    yki_gemm_cpu_blocking b[2];
    yki_gemm_cpu_tile tile;
    uint32_t scratch;
    yki_launch *launch;
    part parts[2];

    if (!split(problem, parts))
        return yki_fail_bug("a solver of products was asked for another operator");
    for (int i = 0; i < 2; i++)
        columns = YKI_MAX(columns, yki_expr_value(parts[i].gemm.n, max));
    tile = yki_gemm_cpu_tile_for(traits, unit, columns);
    for (int i = 0; i < 2; i++)
        b[i] = yki_gemm_cpu_choose(max, &parts[i].gemm, traits, tile, tuning);
    size = YKI_MAX(b[0].scratch, b[1].scratch);
    groups = b[0].nx * b[0].ny + b[1].nx * b[1].ny;
    yki_recipe_start(recipe, problem);
    scratch = yki_recipe_slot(recipe, YKI_SLOT_SCRATCH, YKI_CONST(4 * size * groups));
    launch = yki_gemm_cpu_launch(recipe, "yki_gemm_cpu_pair", tile);
    for (int i = 0; i < 2; i++)
        add_args(recipe, &parts[i], i, &b[i], scratch);
    yki_arg_slot(recipe, scratch);
    yki_arg_int(recipe, "scratch_size", size);
    yki_launch_grid(launch, YKI_CONST(groups), YKI_CONST(1), YKI_CONST(1), 1, 1, 1);
    for (int i = 0; i < 2 && launch; i++) {
        add_cost(launch, &parts[i]);
        launch->iterations =
            YKI_MAX(launch->iterations, yki_gemm_cpu_iterations(&b[i], &parts[i].gemm, max));
    }
    return recipe->status;
}

static const yki_op *const op = &yki_op_matmul_pair;

const yki_solver yki_solver_gemm_cpu_pair = {
    .name = "gemm-cpu-pair",
    .op = &op,
    .applies = applies_direct,
    .tunings = tunings,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_cpu_pair_bf16 = {
    .name = "gemm-cpu-pair-bf16",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .applies = applies_bf16,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_cpu_pair_rounded = {
    .name = "gemm-cpu-pair-rounded",
    .op = &op,
    .numerical_class = YKI_CLASS_BF16,
    .emulates = true,
    .applies = applies_direct,
    .emit_by = emit,
};

const yki_solver yki_solver_gemm_cpu_pair_rounded_f16 = {
    .name = "gemm-cpu-pair-rounded-f16",
    .op = &op,
    .numerical_class = YKI_CLASS_F16,
    .emulates = true,
    .applies = applies_direct,
    .emit_by = emit,
};
