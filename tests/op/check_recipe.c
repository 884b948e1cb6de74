/* SPDX-License-Identifier: Apache-2.0
 *
 * check_recipe.c - sizes that are expressions in the extents: their values, and the grids and
 * operands that have such sizes. No device is needed.
 */
#include <string.h>

#include "op/recipe.h"
#include "support/support.h"

static int64_t
at(yki_expr expr, int64_t batch)
{
    return yki_expr_value(expr, (yki_extents){.batch = batch});
}

START_TEST(expressions_have_values)
{
    const yki_expr tiles = {.per_sample = 3, .constant = 2, .divisor = 4};
    const yki_expr few = {.per_sample = 3, .divisor = 2, .max = 7};

    ck_assert_int_eq(at(YKI_CONST(5), 0), 5);
    ck_assert_int_eq(at(YKI_CONST(5), 9), 5);
    ck_assert_int_eq(at(YKI_BATCH, 9), 9);
    ck_assert_int_eq(at(YKI_PER_SAMPLE(6), 0), 0);
    ck_assert_int_eq(at(YKI_PER_SAMPLE(6), 9), 54);
    ck_assert_int_eq(at((yki_expr){.per_sample = 6}, 9), 54); /* a divisor of 0 counts as 1 */
    ck_assert_int_eq(at(tiles, 0), 1);                        /* rounded up: 2 / 4 */
    ck_assert_int_eq(at(tiles, 2), 2);                        /* 8 / 4 */
    ck_assert_int_eq(at(tiles, 3), 3);                        /* 11 / 4 */
    ck_assert_int_eq(at(few, 4), 6);
    ck_assert_int_eq(at(few, 5), 7); /* 15 / 2 is 8 */
    ck_assert_int_eq(at(few, INT32_MAX), 7);
}
END_TEST

START_TEST(operands_have_sizes)
{
    /* 5 channels in blocks of 4 have room for 8. */
    yki_operand x = {YOKE_F32, {.rank = 2, .dim = {5, 3}}, true, {4}, false};

    ck_assert_int_eq(yki_operand_count(&x, (yki_extents){.batch = 2}), 48);
    ck_assert_int_eq(at(yki_operand_elements(&x), 2), 48);
    ck_assert_int_eq(at(yki_operand_bytes(&x), 2), 192);
    ck_assert_int_eq(yki_operand_count(&x, (yki_extents){.batch = 0}), 0);
    x.batched = false;
    ck_assert_int_eq(yki_operand_count(&x, (yki_extents){.batch = 2}), 24);
    ck_assert_int_eq(at(yki_operand_bytes(&x), 0), 96);
}
END_TEST

/* A dimension that was not given has one group; one that comes out as 0 leaves nothing to do. */
START_TEST(grids_have_sizes)
{
    const yki_expr pairs = {.per_sample = 1, .divisor = 2};
    yki_launch launch = {.groups = {YKI_CONST(3), pairs}, .local = {8}};
    yki_grid grid;

    ck_assert(yki_launch_grid_at(&launch, (yki_extents){.batch = 5}, &grid));
    ck_assert_uint_eq(grid.groups[0], 3);
    ck_assert_uint_eq(grid.groups[1], 3);
    ck_assert_uint_eq(grid.groups[2], 1);
    ck_assert_uint_eq(grid.local[0], 8);
    ck_assert_uint_eq(grid.local[1], 1);
    ck_assert(!yki_launch_grid_at(&launch, (yki_extents){.batch = 0}, &grid));
}
END_TEST

START_TEST(extents_have_limits)
{
    const yki_extents max = {.batch = 4};

    ASSERT_OK(yki_extents_check((yki_extents){.batch = 0}, max));
    ASSERT_OK(yki_extents_check(max, max));
    ck_assert_int_eq(yki_extents_check((yki_extents){.batch = 5}, max),
                     YOKE_ERROR_INVALID_ARGUMENT);
    ck_assert_str_eq(yoke_last_error(), "the batch is 5; must be between 0 and 4");
    ck_assert_int_eq(yki_extents_check((yki_extents){.batch = -1}, max),
                     YOKE_ERROR_INVALID_ARGUMENT);
    ck_assert(yki_extents_equal(max, (yki_extents){.batch = 4}));
    ck_assert(!yki_extents_equal(max, (yki_extents){.batch = 3}));
}
END_TEST

/* A kernel that counts a constant and the samples' values. */
static int64_t constant;

static yoke_status
emit_numbers(const yki_problem *problem, const yki_device_traits *traits, unsigned tuning,
             yki_recipe *recipe)
{
    (void)problem;
    (void)traits;
    (void)tuning;
    memset(recipe, 0, sizeof *recipe);
    yki_recipe_launch(recipe, "f.cl", "yki_f", "-DN=1");
    yki_arg_int(recipe, "constant", constant);
    yki_arg_expr(recipe, "values", YKI_PER_SAMPLE(1 << 20));
    return recipe->status;
}

/* Kernels count in ints. What would not fit is refused before anything is launched. */
START_TEST(numbers_of_kernels_are_ints)
{
    const yki_solver solver = {.name = "numbers", .emit = emit_numbers};
    const yki_device_traits traits = {0};
    yki_problem problem = {.max = {.batch = 2047}};
    yki_recipe recipe;

    constant = INT32_MAX;
    ASSERT_OK(yki_solver_emit(&solver, &problem, &traits, 0, &recipe));
    yki_recipe_clear(&recipe);
    problem.max.batch = 2048;
    ASSERT_REFUSED(
        YOKE_ERROR_UNSUPPORTED,
        "yki_f: \"values\" is 2147483648 in a batch of 2048; must be between -2147483648",
        yki_solver_emit(&solver, &problem, &traits, 0, &recipe));
    problem.max.batch = 1;
    constant++;
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "a number of a kernel is 2147483648; must be between",
                   yki_solver_emit(&solver, &problem, &traits, 0, &recipe));
    yki_recipe_clear(&recipe);
    constant = (int64_t)INT32_MIN - 1;
    ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "a number of a kernel is -2147483649; must be between",
                   yki_solver_emit(&solver, &problem, &traits, 0, &recipe));
    yki_recipe_clear(&recipe);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("recipe");
    TCase *tcase = test_case(suite, "sizes");

    tcase_add_test(tcase, expressions_have_values);
    tcase_add_test(tcase, operands_have_sizes);
    tcase_add_test(tcase, grids_have_sizes);
    tcase_add_test(tcase, extents_have_limits);
    tcase_add_test(tcase, numbers_of_kernels_are_ints);
    return suite;
}
