/* SPDX-License-Identifier: Apache-2.0
 *
 * check_progress.c - the line of an epoch: its parts, its width, its characters.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../tools/options.h"
#include "../tools/progress.h"
#include "support/support.h"

static const int64_t shares[] = {48, 16};
static const char *const names[] = {"cpu:0/1+1.0", "cpu:0/1+1.1"};

static yki_tool_view
halfway(void)
{
    return (yki_tool_view){.epoch = 2,
                           .epochs = 10,
                           .done = 500,
                           .samples = 1000,
                           .loss = 0.25,
                           .metric = 0.9375,
                           .metric_name = "accuracy",
                           .test_loss = (double)NAN,
                           .test_metric = (double)NAN,
                           .rate = 1234.5,
                           .left = 3725,
                           .devices = 2,
                           .shares = shares,
                           .names = names};
}

START_TEST(plain)
{
    const yki_tool_style style = {.width = 0};
    yki_tool_view view = halfway();
    char line[TOOL_LINE];

    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line, "epoch  3/10  loss 0.2500  accuracy  93.75 %  1234/s  1:02:05 left"
                           "  cpu:0/1+1.0  75 %  cpu:0/1+1.1  25 %");
    view.left = -1;
    view.devices = 0;
    view.test_loss = 0.5;
    view.test_metric = 1;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line, "epoch  3/10  loss 0.2500  accuracy  93.75 %  test loss 0.5000"
                           "  test accuracy 100.00 %  1234/s");
}
END_TEST

START_TEST(bars)
{
    yki_tool_style style = {.width = 200};
    yki_tool_view view = halfway();
    char line[TOOL_LINE];

    view.left = 61;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line,
                     "epoch  3/10 [==========----------]  50 %  loss 0.2500  accuracy  93.75 %"
                     "  1234/s  1:01 left  cpu:0/1+1.0 ######.. 75 %"
                     "  cpu:0/1+1.1 ##...... 25 %");
    style.utf8 = true;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_ptr_nonnull(strstr(line, "\u2501\u2500"));
    ck_assert_ptr_nonnull(strstr(line, "\u2588\u2588   "));
    ck_assert_ptr_null(strchr(line, '\033'));
    style.color = true;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_ptr_nonnull(strchr(line, '\033'));
}
END_TEST

/* Both devices have their place on a terminal of usual width, in the form that fits. */
START_TEST(no_device_is_lost)
{
    yki_tool_style style = {.width = 119};
    yki_tool_view view = halfway();
    char line[TOOL_LINE];

    view.left = 61;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line, "epoch  3/10 [=====-----]  50 %  loss 0.2500  accuracy  93.75 %"
                           "  1234/s  1:01 left  cpu:0/1+1.0  75 %  cpu:0/1+1.1  25 %");
    style.width = 99;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line, "epoch  3/10 [=====-----]  50 %  loss 0.2500  accuracy  93.75 %"
                           "  1234/s  1:01 left  shares 75:25 %");
    view.test_loss = 0.5;
    view.test_metric = 1;
    view.left = -1;
    style.width = 119;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line, "epoch  3/10  50 %  loss 0.2500  accuracy  93.75 %  test loss 0.5000"
                           "  test accuracy 100.00 %  1234/s  shares 75:25 %");
}
END_TEST

START_TEST(losses_have_one_form)
{
    static const struct {
        double loss;
        const char *text;
    } rows[] = {
        {2.3, "2.300"},        {2.303, "2.303"}, {0.25, "0.2500"},   {12.346, "12.35"},
        {0.012341, "0.01234"}, {0, "0.000"},     {123456, "123456"}, {1.5e9, "1.500e+09"},
        {1.5e-7, "1.500e-07"}, {1, "1.000"},     {0.1, "0.1000"},    {-2.5, "-2.500"},
    };
    char text[TOOL_LOSS];

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ck_assert_str_eq(yki_tool_loss_text(rows[i].loss, text), rows[i].text);
}
END_TEST

/* Characters, without the escapes that change colours. */
static size_t
columns(const char *line)
{
    size_t count = 0;

    while (*line) {
        if (*line == '\033') {
            line += strcspn(line, "m") + 1;
            continue;
        }
        count += ((unsigned char)*line & 0xc0) != 0x80;
        line++;
    }
    return count;
}

START_TEST(fits_any_width)
{
    yki_tool_view view = halfway();
    char line[TOOL_LINE];

    for (size_t width = 20; width < 200; width++)
        for (int kind = 0; kind < 4; kind++) {
            const yki_tool_style style = {
                .width = width, .utf8 = kind & 1, .color = (kind & 2) != 0};

            yki_tool_progress_line(line, &view, &style);
            ck_assert_uint_le(columns(line), width);
            ck_assert_ptr_nonnull(strstr(line, "epoch"));
        }
}
END_TEST

/* More devices than the line holds bytes for. */
START_TEST(many_devices)
{
    enum { MANY = 256 };
    int64_t counts[MANY];
    const char *long_names[MANY];
    const yki_tool_style style = {.width = 0};
    yki_tool_view view = halfway();
    char line[TOOL_LINE];

    for (size_t i = 0; i < MANY; i++) {
        counts[i] = 1;
        long_names[i] = "a device with a name that is as long as names are, almost";
    }
    view.devices = MANY;
    view.shares = counts;
    view.names = long_names;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_uint_lt(strlen(line), TOOL_LINE);
    view.samples = 0;
    view.devices = 0;
    view.loss = view.metric = (double)NAN;
    view.rate = 0;
    view.left = -1;
    yki_tool_progress_line(line, &view, &style);
    ck_assert_str_eq(line, "epoch  3/10");
}
END_TEST

/* Writes nothing between epochs where nobody watches; ten lines a second at most where one does. */
START_TEST(how_often)
{
    yki_tool_view view = halfway();
    yki_tool_progress p;
    char *text = NULL;
    size_t size, updates = 0;
    FILE *stream = open_memstream(&text, &size);
    double begun;

    ck_assert_ptr_nonnull(stream);
    p = (yki_tool_progress){.stream = stream};
    yki_tool_progress_update(&p, &view);
    fflush(stream);
    ck_assert_uint_eq(size, 0);
    yki_tool_progress_epoch(&p, &view);
    ck_assert_uint_eq(strchr(text, '\n') - text, size - 1);
    p.live = true;
    begun = yki_tool_now();
    while (yki_tool_now() - begun < 0.55 || updates < 2) {
        yki_tool_progress_update(&p, &view);
        updates = 0;
        fflush(stream);
        for (const char *at = text; (at = strchr(at, '\r')); at++)
            updates++;
    }
    ck_assert_double_le((double)updates, 1 + 10 * (yki_tool_now() - begun));
    fclose(stream);
    free(text);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("progress");

    tcase_add_test(test_case(suite, "plain"), plain);
    tcase_add_test(test_case(suite, "bars"), bars);
    tcase_add_test(test_case(suite, "devices"), no_device_is_lost);
    tcase_add_test(test_case(suite, "losses"), losses_have_one_form);
    tcase_add_test(test_case(suite, "width"), fits_any_width);
    tcase_add_test(test_case(suite, "many devices"), many_devices);
    tcase_add_test(test_case(suite, "how often"), how_often);
    return suite;
}
