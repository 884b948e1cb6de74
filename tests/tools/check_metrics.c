/* SPDX-License-Identifier: Apache-2.0
 *
 * check_metrics.c - metrics of classes and of values, beside what is counted by hand: classes that
 * never occur or are never the answer, equal values, NaNs.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/metrics.h"
#include "support/support.h"

enum { ANT, BEE, CAT, DOG, CLASSES };

static const float none = NAN;
static yki_tool_classes classes;
static yki_tool_values values;
static yoke_model *model; /* of which only the names of classes are asked */

static void
set_up(void)
{
    static const char *const names[] = {"ant", "bee", "cat", "dog"};
    const yoke_model_options options = {.class_names = names, .class_count = CLASSES};
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(g, "y", yoke_relu(g, yoke_input(g, "x", YOKE_F32, yoke_shape(CLASSES))));
    ASSERT_OK(yoke_model_create(g, &options, &model));
    yoke_graph_destroy(g);
}

static void
tear_down(void)
{
    yki_tool_classes_end(&classes);
    yki_tool_values_end(&values);
    yoke_model_destroy(model);
}

/* NaN is equal to NaN. */
static void
assert_near(double value, double expected)
{
    ck_assert_msg(isnan(expected) ? isnan(value) : fabs(value - expected) < 1e-7,
                  "%.9g instead of %.9g", value, expected);
}

static void
assert_score(yki_tool_score score, double precision, double recall, double f1)
{
    assert_near(score.precision, precision);
    assert_near(score.recall, recall);
    assert_near(score.f1, f1);
}

static char *text;
static size_t length;

static FILE *
open_text(void)
{
    FILE *stream = open_memstream(&text, &length);

    ck_assert_ptr_nonnull(stream);
    return stream;
}

static void
assert_text(FILE *stream, const char *expected)
{
    fclose(stream);
    ck_assert_str_eq(text, expected);
    free(text);
}

/* ---- classes ---- */

/* No sample is a dog, and no answer is a cat. */
static void
add_animals(void)
{
    const struct {
        size_t label;
        float values[CLASSES];
    } samples[] = {
        {ANT, {2, 1, 0, 0}},
        {ANT, {1, 1, 0, 0}},       /* of equal ones the first: right */
        {BEE, {1, 1, 0, 0}},       /* and wrong, but second */
        {BEE, {0, 3, 0, 0}},       /* right */
        {CAT, {0, -2, -1, 5}},     /* a dog; the label is third */
        {CAT, {none, 1, 0.5f, 0}}, /* a bee; the label is second */
        {CAT, {none, none, none, none}},
        {BEE, {1, none, 0, 0}}, /* an ant */
    };

    ck_assert(yki_tool_classes_start(&classes, CLASSES, 2));
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        yki_tool_classes_add(&classes, samples[i].values, true, samples[i].label);
}

START_TEST(counts_classes)
{
    static const uint64_t confusion[CLASSES * CLASSES] = {2, 0, 0, 0, 2, 1, 0, 0,
                                                          0, 1, 0, 1, 0, 0, 0, 0};

    add_animals();
    ck_assert_uint_eq(classes.samples, 8);
    ck_assert_uint_eq(classes.right, 3);
    ck_assert_uint_eq(classes.among_top, 5);
    ck_assert_uint_eq(classes.undecided, 1);
    ck_assert_mem_eq(classes.confusion, confusion, sizeof confusion);
    assert_score(yki_tool_class_score(&classes, ANT), 0.5, 1, 2. / 3);
    assert_score(yki_tool_class_score(&classes, BEE), 0.5, 1. / 3, 0.4);
    assert_score(yki_tool_class_score(&classes, CAT), NAN, 0, 0);
    assert_score(yki_tool_class_score(&classes, DOG), 0, NAN, 0);
    /* over the three that occur */
    assert_score(yki_tool_mean_score(&classes), 1. / 3, 4. / 9, 16. / 45);
}
END_TEST

START_TEST(knows_nothing)
{
    ck_assert(yki_tool_classes_start(&classes, CLASSES, 5));
    assert_score(yki_tool_mean_score(&classes), NAN, NAN, NAN);
    assert_near(yki_tool_calibration_error(&classes), NAN);
    ck_assert(yki_tool_values_start(&values, 1));
    assert_near(yki_tool_mean_errors(&values).rmse, NAN);
}
END_TEST

static void
add_two(float a, float b, bool logits, size_t label)
{
    const float two[] = {a, b};

    yki_tool_classes_add(&classes, two, logits, label);
}

START_TEST(calibrates)
{
    ck_assert(yki_tool_classes_start(&classes, 2, 1));
    add_two(0.5f, 0.5f, false, 0); /* (7 / 15, 8 / 15]: one of two is right, as they say */
    add_two(0.5f, 0.5f, false, 1);
    add_two(0.9f, 0.1f, false, 0); /* one of two is right, and they say 0.9 */
    add_two(0.9f, 0.1f, false, 1);
    add_two(0, 1, false, 1);
    add_two(none, 1, false, 1); /* these two have no confidence */
    add_two(2, -1, false, 0);
    ck_assert_uint_eq(classes.bins[7].samples, 2);
    ck_assert_uint_eq(classes.bins[13].samples, 2);
    ck_assert_uint_eq(classes.bins[13].right, 1);
    ck_assert_uint_eq(classes.bins[14].samples, 1);
    assert_near(yki_tool_calibration_error(&classes), 0.8 / 5);
}
END_TEST

START_TEST(takes_logits)
{
    ck_assert(yki_tool_classes_start(&classes, 2, 1));
    add_two(1000, 1000 + logf(3), true, 1); /* 3/4: (11 / 15, 12 / 15] */
    add_two(800, 0, true, 0);
    add_two(-INFINITY, 0, true, 1);
    add_two(INFINITY, 0, true, 0); /* infinity - infinity: no confidence, but right */
    add_two(none, 0, true, 1);
    ck_assert_uint_eq(classes.right, 5);
    ck_assert_uint_eq(classes.bins[11].samples, 1);
    ck_assert_uint_eq(classes.bins[14].samples, 2);
    ck_assert_double_eq_tol(yki_tool_calibration_error(&classes), 0.25 / 3, 1e-4);
}
END_TEST

/* 1/3 is the end of (4 / 15, 5 / 15]. */
START_TEST(counts_the_end_of_a_bin)
{
    static const float same[] = {1, 1, 1};

    ck_assert(yki_tool_classes_start(&classes, 3, 1));
    yki_tool_classes_add(&classes, same, true, 0);
    ck_assert_uint_eq(classes.bins[4].samples, 1);
}
END_TEST

START_TEST(prints_classes)
{
    FILE *stream = open_text();

    add_animals();
    ck_assert(yki_tool_classes_print(&classes, model, false, stream));
    ck_assert(yki_tool_confusion_print(&classes, model, stream));
    /* five have a confidence: e^2 / (e^2 + e + 2), right; e / (2 e + 2), one of two right;
     * e^3 / (e^3 + 3), right; e^5 / (e^5 + 1 + 1 / e + 1 / e^2), wrong */
    assert_text(stream, "top-2 accuracy 62.50 %\n"
                        "calibration error 35.57 %\n"
                        "without an answer 1\n"
                        "CLASS  SAMPLES  PRECISION    RECALL       F1\n"
                        "ant          2    50.00 %  100.00 %  66.67 %\n"
                        "bee          3    50.00 %   33.33 %  40.00 %\n"
                        "cat          3          -    0.00 %   0.00 %\n"
                        "dog          0     0.00 %         -   0.00 %\n"
                        "mean              33.33 %   44.44 %  35.56 %\n"
                        "LABEL  ant  bee  cat  dog\n"
                        "ant      2    0    0    0\n"
                        "bee      2    1    0    0\n"
                        "cat      0    1    0    1\n"
                        "dog      0    0    0    0\n");
}
END_TEST

/* Class k of 20 has k samples, some of which are taken for class 1. */
START_TEST(prints_the_worst)
{
    static const size_t wrong[20] = {[3] = 1, [7] = 1, [9] = 1, [10] = 1, [14] = 2};
    FILE *stream = open_text();

    ck_assert(yki_tool_classes_start(&classes, 20, 5));
    for (size_t label = 0; label < 20; label++)
        for (size_t i = 0; i < label; i++) {
            float logits[20] = {0};

            logits[i < wrong[label] ? 1 : label] = 100;
            yki_tool_classes_add(&classes, logits, true, label);
        }
    ck_assert(yki_tool_classes_print(&classes, model, false, stream));
    ck_assert(yki_tool_confusion_print(&classes, model, stream));
    /* of samples that are taken for class 1 only those of class 3 are among the first five */
    assert_text(stream, "top-5 accuracy 97.37 %\n"
                        "calibration error 3.16 %\n"
                        "the lowest F1 of 20 classes:\n"
                        "CLASS  SAMPLES  PRECISION    RECALL       F1\n"
                        "bee          1    14.29 %  100.00 %  25.00 %\n"
                        "dog          3   100.00 %   66.67 %  80.00 %\n"
                        "7            7   100.00 %   85.71 %  92.31 %\n"
                        "14          14   100.00 %   85.71 %  92.31 %\n"
                        "9            9   100.00 %   88.89 %  94.12 %\n"
                        "mean              95.49 %   95.63 %  93.60 %\n"
                        "LABEL  ANSWER  SAMPLES\n"
                        "14     bee           2\n"
                        "dog    bee           1\n"
                        "7      bee           1\n"
                        "9      bee           1\n"
                        "10     bee           1\n");
}
END_TEST

START_TEST(prints_all)
{
    FILE *stream = open_text();
    const char *line;
    int lines = 0;

    ck_assert(yki_tool_classes_start(&classes, 20, 5));
    ck_assert(yki_tool_classes_print(&classes, model, true, stream));
    fflush(stream);
    for (line = text; (line = strchr(line, '\n')); line++)
        lines++;
    ck_assert_int_eq(lines, 2 + 1 + 20 + 1);
    fclose(stream);
    free(text);
}
END_TEST

START_TEST(has_no_matrix)
{
    ck_assert(yki_tool_classes_start(&classes, TOOL_MOST_CONFUSED + 1, 5));
    ck_assert_ptr_null(classes.confusion);
}
END_TEST

/* ---- values ---- */

START_TEST(measures_values)
{
    static const float targets[][2] = {{1, 7}, {2, 7}, {3, 7}, {6, 7}};
    static const float said[][2] = {{1, 7}, {2, 7}, {4, 7}, {4, 8}};
    FILE *stream = open_text();
    yki_tool_errors e;

    ck_assert(yki_tool_values_start(&values, 2));
    for (size_t i = 0; i < 4; i++)
        yki_tool_values_add(&values, said[i], targets[i]);
    e = yki_tool_value_errors(&values, 0);
    assert_near(e.r2, 1 - 5. / 14);
    assert_near(e.mae, 0.75);
    assert_near(e.rmse, sqrt(5. / 4));
    e = yki_tool_value_errors(&values, 1); /* never changes */
    assert_near(e.r2, NAN);
    assert_near(e.mae, 0.25);
    assert_near(e.rmse, 0.5);
    e = yki_tool_mean_errors(&values);
    assert_near(e.r2, 1 - 5. / 14);
    assert_near(e.mae, 0.5);
    assert_near(e.rmse, sqrt(6. / 8));
    ck_assert(yki_tool_values_print(&values, false, stream));
    assert_text(stream, "R2 0.6429\n"
                        "MAE 0.5000\n"
                        "RMSE 0.8660\n"
                        "VALUE      R2     MAE    RMSE\n"
                        "0      0.6429  0.7500   1.118\n"
                        "1           -  0.2500  0.5000\n");
}
END_TEST

/* A model that always says the mean has an R2 of 0; a NaN stays one. */
START_TEST(says_the_mean)
{
    static const float targets[] = {-1, 0, 4};
    const float mean = 1;
    FILE *stream = open_text();

    ck_assert(yki_tool_values_start(&values, 1));
    for (size_t i = 0; i < 3; i++)
        yki_tool_values_add(&values, &mean, &targets[i]);
    assert_near(yki_tool_mean_errors(&values).r2, 0);
    yki_tool_values_add(&values, &none, &targets[0]);
    assert_near(yki_tool_mean_errors(&values).r2, NAN);
    assert_near(yki_tool_mean_errors(&values).mae, NAN);
    ck_assert(yki_tool_values_print(&values, false, stream));
    assert_text(stream, "R2 nan\nMAE nan\nRMSE nan\n");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("metrics");
    TCase *tcase = test_case(suite, "metrics");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, counts_classes);
    tcase_add_test(tcase, knows_nothing);
    tcase_add_test(tcase, calibrates);
    tcase_add_test(tcase, takes_logits);
    tcase_add_test(tcase, counts_the_end_of_a_bin);
    tcase_add_test(tcase, prints_classes);
    tcase_add_test(tcase, prints_the_worst);
    tcase_add_test(tcase, prints_all);
    tcase_add_test(tcase, has_no_matrix);
    tcase_add_test(tcase, measures_values);
    tcase_add_test(tcase, says_the_mean);
    return suite;
}
