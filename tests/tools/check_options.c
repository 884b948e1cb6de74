/* SPDX-License-Identifier: Apache-2.0
 *
 * check_options.c - values of options by their rows; schedules, optimizers and
 * augmentations as they are typed.
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
        {"", "\"\" is unknown; must be constant, step, cosine, linear or one-cycle"},
        {"slow", "\"slow\" is unknown; must be constant, step, cosine, linear or one-cycle"},
        {"cosine,", NULL}, /* a comma too much is forgiven */
        {"cosine,x=1", "there is no setting \"x\"; must be warmup or final"},
        {"cosine,factor=2", "there is no setting \"factor\"; must be warmup or final"},
        {"step,initial=2", "there is no setting \"initial\"; must be warmup, period or factor"},
        {"cosine,warmup", "warmup is \"\"; must be a number of at least 0"},
        {"cosine,warmup=-1", "warmup is \"-1\"; must be a number of at least 0"},
        {"cosine,warmup=1e999", "warmup is \"1e999\"; must be a number of at least 0"},
        {"cosine,warmup= 1", "warmup is \" 1\"; must be a number of at least 0"},
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
    ck_assert(o.momentum == 0.5f && o.nesterov && o.weight_decay == 1e-4f);
    ck_assert(o.learning_rate == 0.01f);
    ck_assert(yki_tool_parse_optimizer("adamw,beta1=0.8,beta2=0.9,epsilon=1e-6", 0.5, &o, why));
    ck_assert_int_eq(o.kind, YOKE_OPTIMIZER_ADAMW);
    ck_assert(o.beta1 == 0.8f && o.beta2 == 0.9f && o.epsilon == 1e-6f);
    ck_assert(o.learning_rate == 0.5f && o.weight_decay == 0.01f);
    ck_assert(yki_tool_parse_optimizer("rmsprop", 0, &o, why));
    ck_assert_int_eq(o.kind, YOKE_OPTIMIZER_RMSPROP);
    ck_assert(!yki_tool_parse_optimizer("lion", 0, &o, why));
    ck_assert_str_eq(why, "\"lion\" is unknown; must be sgd, adam, adamw or rmsprop");
    ck_assert(!yki_tool_parse_optimizer("sgd,nesterov=1", 0, &o, why));
    ck_assert_str_eq(why, "nesterov is \"1\"; must have no value");
    ck_assert(!yki_tool_parse_optimizer("adam,momentum=0.9", 0, &o, why));
    ck_assert_str_eq(why,
                     "there is no setting \"momentum\"; must be decay, epsilon, beta1 or beta2");
    ck_assert(!yki_tool_parse_optimizer("sgd,beta1=0.9", 0, &o, why));
    ck_assert(yki_tool_parse_optimizer("rmsprop,momentum=0.9,beta2=0.9", 0, &o, why));
    /* longer than any word can be */
    ck_assert(
        !yki_tool_parse_optimizer("sgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgdsgd", 0, &o, why));
}
END_TEST

START_TEST(augmentations)
{
    static const struct {
        const char *text, *why;
    } refused[] = {
        {"shift=0.5", "shift is 0.5; must be a whole number of at most 1000"},
        {"turn", "there is no setting \"turn\"; must be flip, shift, part, noise or crop"},
        {"shift=1,part=0", "part is 0; must be above 0 and at most 1"},
        {"shift=1,part=1e-60", "part is 1e-60; must be above 0 and at most 1"},
        {"shift=1,part=1.5", "part is 1.5; must be above 0 and at most 1"},
        {"shift=1,part=-1", "part is \"-1\"; must be a number of at least 0"},
        {"shift=1,part=nan", "part is \"nan\"; must be a number of at least 0"},
        {"shift=1,part", "part is \"\"; must be a number of at least 0"},
        {"part=0.3", "part is 0.3, but nothing is shifted; must be with shift=N"},
        {"shift=0,flip,part=1", "part is 1, but nothing is shifted; must be with shift=N"},
    };
    yoke_augmentation a;
    char why[160];

    ck_assert(yki_tool_parse_augmentation("flip,shift=2,crop,noise=0.5", &a, why));
    ck_assert(a.flip && a.crop && a.shift == 2 && a.noise == 0.5f);
    ck_assert(a.shift_part == 0);
    ck_assert(yki_tool_parse_augmentation("shift=1,part=0.25", &a, why));
    ck_assert(a.shift == 1 && a.shift_part == 0.25f);
    ck_assert(yki_tool_parse_augmentation("part=1,shift=3", &a, why));
    ck_assert(a.shift == 3 && a.shift_part == 1);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        ck_assert(!yki_tool_parse_augmentation(refused[i].text, &a, why));
        ck_assert_str_eq(why, refused[i].why);
    }
}
END_TEST

/* Values of every kind, read by their rows. */
typedef struct values {
    bool flag;
    unsigned count;
    double real;
    const char *text, *list;
    int choice;
} values;

static bool
check_list(const char *text, char why[TOOL_WHY])
{
    snprintf(why, TOOL_WHY, "it is bad");
    return strcmp(text, "bad") != 0;
}

static const yki_tool_choice choices[] = {{"red", 5}, {"green", 7}, {"blue", 9}, {NULL, 0}};
static const yki_tool_option rows[] = {
    {"flag", 0, NULL, "", TOOL_FLAG(values, flag)},
    {"count", 0, "N", "", TOOL_COUNT(values, count, 2, UINT32_MAX)},
    {"real", 0, "X", "", TOOL_REAL(values, real, 1e-6, 0.5)},
    {"text", 0, "TEXT", "", TOOL_TEXT(values, text)},
    {"list", 0, "LIST", "", TOOL_LIST(values, list, check_list)},
    {"choice", 0, "KIND", "", TOOL_CHOICE(values, choice, choices)},
};

START_TEST(values_by_rows)
{
    static const char *const texts[] = {NULL, "4294967295", "0.5", "", "good", "green"};
    values v;
    char why[TOOL_SENTENCE];

    memset(&v, 0, sizeof v);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert(yki_tool_read_value(&rows[i], texts[i], &v, why));
    ck_assert(v.flag);
    ck_assert_uint_eq(v.count, UINT32_MAX);
    ck_assert(v.real == 0.5);
    ck_assert_ptr_eq(v.text, texts[3]);
    ck_assert_ptr_eq(v.list, texts[4]);
    ck_assert_int_eq(v.choice, 7);
}
END_TEST

START_TEST(values_that_are_refused)
{
    enum { COUNT = 1, REAL, TEXT, LIST, CHOICE };
    static const struct {
        int row;
        const char *text, *why;
    } cases[] = {
        {COUNT, "1", "--count is 1; must be between 2 and 4294967295"},
        {COUNT, "-1", "--count is -1; must be between 2 and 4294967295"},
        {COUNT, "4294967296", "--count is 4294967296; must be between 2 and 4294967295"},
        {COUNT, "99999999999999999999",
         "--count is 99999999999999999999; must be between 2 and 4294967295"},
        {COUNT, "", "--count is \"\"; must be a whole number between 2 and 4294967295"},
        {COUNT, "2.0", "--count is \"2.0\"; must be a whole number between 2 and 4294967295"},
        {COUNT, "3x", "--count is \"3x\"; must be a whole number between 2 and 4294967295"},
        {REAL, "0", "--real is 0; must be between 1e-06 and 0.5"},
        {REAL, "0.6", "--real is 0.6; must be between 1e-06 and 0.5"},
        {REAL, "nan", "--real is \"nan\"; must be a number between 1e-06 and 0.5"},
        {REAL, "inf", "--real is \"inf\"; must be a number between 1e-06 and 0.5"},
        {REAL, "0x0.1", "--real is \"0x0.1\"; must be a number between 1e-06 and 0.5"},
        {REAL, " 0.1", "--real is \" 0.1\"; must be a number between 1e-06 and 0.5"},
        {REAL, "0.1 ", "--real is \"0.1 \"; must be a number between 1e-06 and 0.5"},
        {REAL, "--1", "--real is \"--1\"; must be a number between 1e-06 and 0.5"},
        {LIST, "bad", "--list=bad: it is bad"},
        {CHOICE, "", "--choice is \"\"; must be red, green or blue"},
        {CHOICE, "gren",
         "--choice is \"gren\"; must be red, green or blue; did you mean \"green\"?"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        values v, before;
        char why[TOOL_SENTENCE] = "";

        memset(&v, 0, sizeof v);
        before = v;
        ck_assert(!yki_tool_read_value(&rows[cases[i].row], cases[i].text, &v, why));
        ck_assert_str_eq(why, cases[i].why);
        ck_assert(v.count == before.count && v.choice == before.choice && !v.list && !v.text);
        ck_assert_msg(!(v.real > 0), "%s changes the value", cases[i].text);
    }
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
    tcase_add_test(test_case(suite, "values by rows"), values_by_rows);
    tcase_add_test(test_case(suite, "values that are refused"), values_that_are_refused);
    return suite;
}
