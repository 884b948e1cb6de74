/* SPDX-License-Identifier: Apache-2.0
 *
 * check_options.c - schedules, optimizers and augmentations as they are typed.
 */
#include <string.h>

#include "../tools/options.h"
#include "support/support.h"

START_TEST(schedules)
{
    yki_tool_schedule s;
    yoke_schedule made;
    char why[160];

    ck_assert(yki_tool_parse_schedule("cosine,warmup=1.5,final=0.25", &s, why));
    made = yki_tool_make_schedule(&s, 10, 20);
    ck_assert_int_eq(made.kind, YOKE_SCHEDULE_COSINE);
    ck_assert_int_eq(made.warmup, 15);
    ck_assert_int_eq(made.steps, 200);
    ck_assert(made.final_factor == 0.25f);
    ck_assert(yki_tool_parse_schedule("step,period=0.01,factor=0.5", &s, why));
    made = yki_tool_make_schedule(&s, 10, 20);
    ck_assert_int_eq(made.kind, YOKE_SCHEDULE_STEP);
    ck_assert_int_eq(made.period, 1);
    ck_assert(made.factor == 0.5f);
    ck_assert(yki_tool_parse_schedule("one-cycle", &s, why));
    made = yki_tool_make_schedule(&s, 10, 20);
    ck_assert_int_eq(made.warmup, 60);
    memset(&s, 0, sizeof s);
    made = yki_tool_make_schedule(&s, 10, 20);
    ck_assert(yoke_schedule_factor(&made, 5) == 1);
}
END_TEST

START_TEST(schedules_that_are_none)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "'' is none of constant, step, cosine, linear, one-cycle"},
        {"slow", "'slow' is none of constant, step, cosine, linear, one-cycle"},
        {"cosine,", NULL}, /* a comma too much is forgiven */
        {"cosine,x=1", "there is no setting 'x'"},
        {"cosine,warmup", "'warmup' is a number of 0 or more, not ''"},
        {"cosine,warmup=-1", "'warmup' is a number of 0 or more, not '-1'"},
        {"cosine,warmup=1e999", "'warmup' is a number of 0 or more, not '1e999'"},
        {"cosine,warmup= 1", "'warmup' is a number of 0 or more, not ' 1'"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        yki_tool_schedule s;
        char why[160] = "";

        ck_assert_int_eq(yki_tool_parse_schedule(cases[i].text, &s, why), cases[i].why == NULL);
        ck_assert_str_eq(why, cases[i].why ? cases[i].why : "");
    }
}
END_TEST

START_TEST(optimizers)
{
    yoke_optimizer o;
    char why[160];

    ck_assert(yki_tool_parse_optimizer("sgd,momentum=0.5,nesterov,decay=1e-4", 0, &o, why));
    ck_assert_int_eq(o.kind, YOKE_OPTIMIZER_SGD);
    ck_assert(o.momentum == 0.5f && o.nesterov == 1 && o.weight_decay == 1e-4f);
    ck_assert(o.learning_rate == 0.01f);
    ck_assert(yki_tool_parse_optimizer("adamw,beta1=0.8,beta2=0.9,epsilon=1e-6", 0.5, &o, why));
    ck_assert_int_eq(o.kind, YOKE_OPTIMIZER_ADAMW);
    ck_assert(o.beta1 == 0.8f && o.beta2 == 0.9f && o.epsilon == 1e-6f);
    ck_assert(o.learning_rate == 0.5f && o.weight_decay == 0.01f);
    ck_assert(yki_tool_parse_optimizer("rmsprop", 0, &o, why));
    ck_assert_int_eq(o.kind, YOKE_OPTIMIZER_RMSPROP);
    ck_assert(!yki_tool_parse_optimizer("lion", 0, &o, why));
    ck_assert_str_eq(why, "'lion' is none of sgd, adam, adamw, rmsprop");
    ck_assert(!yki_tool_parse_optimizer("sgd,nesterov=1", 0, &o, why));
    ck_assert_str_eq(why, "'nesterov' takes no value");
    /* longer than any word can be */
    ck_assert(
        !yki_tool_parse_optimizer("sgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgd", 0, &o, why));
}
END_TEST

START_TEST(augmentations)
{
    yoke_augmentation a;
    char why[160];

    ck_assert(yki_tool_parse_augmentation("flip,shift=2,crop,noise=0.5", &a, why));
    ck_assert(a.flip && a.crop && a.shift == 2 && a.noise == 0.5f);
    ck_assert(!yki_tool_parse_augmentation("shift=0.5", &a, why));
    ck_assert_str_eq(why, "'shift' is a whole number of pixels up to 1000, not 0.5");
    ck_assert(!yki_tool_parse_augmentation("turn", &a, why));
}
END_TEST

START_TEST(numbers)
{
    static const char *const bad[] = {"", "x", "1x", "nan", "inf", "0x10", " 1", "1 ", "--1"};
    static const char *const bad_seeds[] = {"", "-1", "4294967296", "1.0", "99999999999999999999"};
    uint32_t seed;
    double value;

    ck_assert(yki_tool_parse_real("1e-3", 0, &value));
    ck_assert(value == 1e-3);
    ck_assert(!yki_tool_parse_real("0.5", 1, &value));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!yki_tool_parse_real(bad[i], 0, &value), "'%s'", bad[i]);
    ck_assert(yki_tool_parse_seed("4294967295", &seed));
    ck_assert_uint_eq(seed, UINT32_MAX);
    for (size_t i = 0; i < sizeof bad_seeds / sizeof bad_seeds[0]; i++)
        ck_assert_msg(!yki_tool_parse_seed(bad_seeds[i], &seed), "'%s'", bad_seeds[i]);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("options");

    tcase_add_test(test_case(suite, "schedules"), schedules);
    tcase_add_test(test_case(suite, "bad schedules"), schedules_that_are_none);
    tcase_add_test(test_case(suite, "optimizers"), optimizers);
    tcase_add_test(test_case(suite, "augmentations"), augmentations);
    tcase_add_test(test_case(suite, "numbers"), numbers);
    return suite;
}
