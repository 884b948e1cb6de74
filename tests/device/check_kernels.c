/* SPDX-License-Identifier: Apache-2.0
 *
 * check_kernels.c - the kernels that no solver launches, each by itself over buffers
 * of its own: team.cl, granule.cl, feed.cl, fill.cl, copy.cl, peak.cl, load.cl, dot_probe.cl
 * (update.cl has check_update_kernels.c). Small, so that
 * Oclgrind looks at them too: within plans it loses track of memory (docs/drivers.md).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "one_kernel.h"
#include "support/support.h"

enum { COUNT = 384, FIRST = 128, WORDS = 16, MAX_ARGS = 20 };

/* ---- bytes ---- */

static void
pass_long(call *c, uint64_t value)
{
    ASSERT_OK(yki_kernel_set(c->kernel, c->next++, sizeof value, &value));
}

START_TEST(bytes_are_copied_and_filled)
{
    unsigned char from[200], to[200], wanted[200];
    yki_buffer *result;
    call run;

    open_device();
    for (int i = 0; i < 200; i++) {
        from[i] = (unsigned char)i;
        to[i] = wanted[i] = 0xee;
    }
    /* 37 words and 3 bytes, from word 2 to word 5 */
    memcpy(wanted + 20, from + 8, 37 * 4 + 3);
    run = begin("copy.cl", "", "yki_copy", 1);
    pass_buffer(&run, buffer(sizeof from, from));
    pass_buffer(&run, result = buffer(sizeof to, to));
    pass_long(&run, 2);
    pass_long(&run, 5);
    pass_long(&run, 37);
    pass_int(&run, 3);
    launch(&run, 3);
    ASSERT_OK(yki_buffer_get(result, 0, sizeof to, to));
    ck_assert_mem_eq(to, wanted, sizeof to);

    /* bytes 7 to 180, of a pattern that starts anew at each word */
    for (int i = 7; i < 181; i++)
        wanted[i] = (unsigned char)(0x11 * (i % 4 + 1));
    run = begin("fill.cl", "", "yki_fill", 1);
    pass_buffer(&run, result);
    pass_long(&run, 7);
    pass_long(&run, 181);
    pass_int(&run, 0x44332211);
    launch(&run, 2);
    ASSERT_OK(yki_buffer_get(result, 0, sizeof to, to));
    ck_assert_mem_eq(to, wanted, sizeof to);
    close_device();
}
END_TEST

/* ---- the loss scale ---- */

/* Vectors and a rest, in groups of one item and of many. */
START_TEST(gradients_get_the_loss_scale)
{
    enum { SOME = COUNT - 3 };
    float values[COUNT], step[WORDS] = {[7] = 3, [8] = 1024, [9] = 5};
    double wanted[COUNT];
    yki_buffer *result;
    call run;

    open_device();
    ramp(values, COUNT, -1, 0.03f);
    for (int i = 0; i < COUNT; i++)
        wanted[i] = (i < SOME ? 1024 : 1) * (double)values[i];
    run =
        begin("flat.cl", _i ? "-DVEC=4 -DWG=32" : "-DVEC=16 -DWG=1", "yki_loss_scale", _i ? 32 : 1);
    pass_buffer(&run, floats(COUNT, values));
    pass_buffer(&run, result = floats(COUNT, values));
    pass_buffer(&run, floats(WORDS, step));
    pass_int(&run, SOME);
    launch(&run, 2);
    expect(result, wanted, COUNT, "scaled");
    close_device();
}
END_TEST

/* ---- teams: three inputs of eight ---- */

/* The inputs of team.cl, `used` of them; those beyond are the first again. */
static void
pass_inputs(call *c, yki_buffer *const *inputs, int used)
{
    for (int i = 0; i < 8; i++)
        pass_buffer(c, inputs[i < used ? i : 0]);
    pass_int(c, used);
}

START_TEST(inputs_are_summed_in_their_order)
{
    bool few = _i == 1, wide = _i == 0;
    float values[3][COUNT], out[COUNT] = {0};
    double wanted[COUNT];
    yki_buffer *inputs[3], *result;
    call run;

    open_device();
    for (int k = 0; k < 3; k++) {
        ramp(values[k], COUNT, -1.f - (float)k, 0.03f);
        inputs[k] = floats(COUNT, values[k]);
    }
    for (int i = 0; i < COUNT; i++)
        wanted[i] = (double)values[0][i] + (double)values[1][i] + (double)values[2][i];
    run = begin("team.cl", wide ? "-DVEC=16 -DWG=1" : "-DVEC=4 -DWG=32",
                few ? "yki_team_sum_few" : "yki_team_sum", wide ? 1 : 32);
    pass_inputs(&run, inputs, 3);
    pass_buffer(&run, result = floats(COUNT, out));
    pass_int(&run, few ? COUNT : COUNT / (wide ? 16 : 4));
    launch(&run, 2);
    expect(result, wanted, COUNT, "sum");
    close_device();
}
END_TEST

START_TEST(moments_and_results_are_merged)
{
    /* (3, C), C = 2: of 2 and 3 values, and of none */
    const float moments[3][6] = {{2, 2, 1.5f, 3, 0.5f, 2}, {3, 3, -1, 2, 6, 1}, {0, 0, 9, 9, 9, 9}};
    const float results[3][2] = {{1.5f, 4}, {2.5f, 8}, {0, 0}};
    /* M = M1 + M2 + d^2 n1 n2 / n */
    const double merged[6] = {5, 5, 0, 2.4, 6.5 + 6.25 * 1.2, 3 + 1.0 * 1.2};
    const double sums[8] = {7, 7, 1.5, 4, 2.5, 8, 0, 0};
    const float before[8] = {7, 7, 7, 7, 7, 7, 7, 7};
    yki_buffer *inputs[3], *result;
    call run;

    open_device();
    for (int k = 0; k < 3; k++)
        inputs[k] = floats(6, moments[k]);
    run = begin("team.cl", _i ? "-DWG=32" : "", "yki_team_moments", _i ? 32 : 1);
    pass_inputs(&run, inputs, 3);
    pass_buffer(&run, result = floats(6, before));
    pass_int(&run, 6);
    launch(&run, 1);
    expect(result, merged, 6, "moment");

    for (int k = 0; k < 3; k++)
        inputs[k] = floats(2, results[k]);
    run = begin("team.cl", "", "yki_team_results", 1);
    pass_inputs(&run, inputs, 3);
    pass_buffer(&run, result = floats(8, before));
    pass_int(&run, 1);
    pass_int(&run, 0);
    launch(&run, 1);
    expect(result, sums, 8, "result");
    close_device();
}
END_TEST

/* ---- granules: two weights, of 256 and 100 elements in runs of 128 ---- */

START_TEST(granules_are_added_exactly)
{
    enum { RUNS = COUNT / 128, USED = 356, UNIT = -130 }; /* units of 2^-20 */
    static const int32_t table[2 * RUNS] = {0, 0, 1, 128, 128, 100};
    static const int32_t units[2] = {UNIT, UNIT};
    static const int64_t none[COUNT];
    const bool wide = _i == 0;
    const char *options = wide ? "-DVEC=16 -DWG=1" : "-DVEC=4 -DWG=32";
    const int vectors = COUNT / (wide ? 16 : 4);
    const size_t local = wide ? 1 : 32;
    float gradient[COUNT] = {0}, largest[2] = {0};
    double wanted[COUNT] = {0};
    yki_buffer *gradients, *weights, *unit, *most, *sums[2], *result;
    call run;

    open_device();
    for (int i = 0; i < USED; i++) {
        gradient[i] = (float)(i - 100) * 0.0625f;
        wanted[i] = 3 * (double)gradient[i];
    }
    gradients = floats(COUNT, gradient);
    weights = buffer(sizeof table, table);
    unit = buffer(sizeof units, units);
    most = floats(2, largest);
    /* The first sum has two granules, the second one: three times the gradient in all. */
    for (int k = 0; k < 3; k++) {
        if (k < 2)
            sums[k] = buffer(sizeof none, none);
        run = begin("granule.cl", options, "yki_granule_add", local);
        pass_buffer(&run, gradients);
        pass_buffer(&run, weights);
        pass_buffer(&run, unit);
        pass_buffer(&run, most);
        pass_buffer(&run, sums[k % 2]);
        pass_int(&run, vectors);
        pass_int(&run, k < 2);
        for (int i = 0; i < 5; i++) /* run, turn; cap and keys, which 64 bits do without */
            pass_int(&run, 0);
        launch(&run, 2);
    }
    run = begin("team.cl", options, "yki_team_sum_i64", local);
    pass_inputs(&run, sums, 2);
    pass_buffer(&run, sums[1]);
    pass_int(&run, vectors);
    launch(&run, 2);
    run = begin("granule.cl", options, "yki_granule_round", local);
    pass_buffer(&run, sums[1]);
    pass_buffer(&run, weights);
    pass_buffer(&run, unit);
    pass_buffer(&run, result = buffer(COUNT * sizeof *gradient, none));
    pass_int(&run, vectors);
    pass_int(&run, 0);
    pass_int(&run, 0);
    pass_int(&run, RUNS);
    launch(&run, 2);
    if (yki_device_get_traits(yki_queue_device(queue))->type == YOKE_DEVICE_ACCELERATOR) {
        close_device();
        TEST_NOT_HERE("Oclgrind widens vectors of integers wrongly: the kernels only ran");
    }
    expect(result, wanted, COUNT, "sum of granules");
    expect(most, (const double[]){155 * 0.0625, 255 * 0.0625}, 2, "largest");
    close_device();
}
END_TEST

/* ---- granules in narrower integers: the same weights ---- */

/* An element in units: what is behind a unit is compared with a random number of as many bits, at
 * most 31. */
static int32_t
rounded(float value, int unit, uint32_t random, double cap)
{
    double units = ldexp(fabs((double)value), unit + 150);
    int exponent, right;

    (void)frexp((double)value, &exponent);
    right = YKI_MIN(YKI_MAX(-(exponent + 126 + unit), 0), 31);
    units = ldexp(floor(ldexp(units, right)), -right);
    units = floor(units + ldexp((double)(random & ((1u << right) - 1)), -right));
    units = fmin(units, cap);
    return (int32_t)(value < 0 ? -units : units);
}

START_TEST(granules_are_rounded_at_random)
{
    enum { RUNS = COUNT / 128, USED = 356, UNIT = -130, RUN = 1 }; /* units of 2^-20 */
    static const int32_t table[RUN + 2 * RUNS] = {9, 0, 0, 1, 128, 128, 100};
    static const uint32_t keys[2][2] = {{0x12345678u, 0x9abcdef0u}, {77u, 0u}};
    const int32_t units[2] = {UNIT, UNIT};
    const bool wide = _i % 2 == 0, halves = _i / 2 == 1;
    const int cap = halves ? 4095 : 1 << 29;
    const int vectors = COUNT / (wide ? 16 : 4);
    float gradient[COUNT] = {0}, wanted[COUNT] = {0}, got[COUNT];
    int32_t sum[COUNT] = {0}, words[COUNT] = {0};
    yki_buffer *gradients, *weights, *unit, *most, *sums, *result;
    char options[64];
    call run;

    open_device();
    snprintf(options, sizeof options, "-DVEC=%d -DWG=%d -DWORD=%d", wide ? 16 : 4, wide ? 1 : 32,
             halves ? 2 : 4);
    for (int i = 0; i < USED; i++)
        gradient[i] = ldexpf((i % 3 ? 1.f : -1.f) * (1 + 0.1f * (float)(i % 9)), i % 50 - 58);
    gradients = floats(COUNT, gradient);
    weights = buffer(sizeof table, table);
    unit = buffer(sizeof units, units);
    most = floats(2, wanted);
    sums = buffer(sizeof words, words);
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < COUNT; i++)
            sum[i] += rounded(gradient[i], UNIT, random_word((uint32_t)(128 * RUN + i), keys[k]),
                              (double)cap);
        run = begin("granule.cl", options, "yki_granule_add", wide ? 1 : 32);
        pass_buffer(&run, gradients);
        pass_buffer(&run, weights);
        pass_buffer(&run, unit);
        pass_buffer(&run, most);
        pass_buffer(&run, sums);
        pass_int(&run, vectors);
        pass_int(&run, k == 0);
        pass_int(&run, RUN);
        pass_int(&run, 0);
        pass_int(&run, cap);
        pass_int(&run, (int)keys[k][0]);
        pass_int(&run, (int)keys[k][1]);
        launch(&run, 2);
    }
    run = begin("granule.cl", options, "yki_granule_round", wide ? 1 : 32);
    pass_buffer(&run, sums);
    pass_buffer(&run, weights);
    pass_buffer(&run, unit);
    pass_buffer(&run, result = floats(COUNT, gradient));
    pass_int(&run, vectors);
    pass_int(&run, RUN);
    pass_int(&run, 0);
    pass_int(&run, RUNS);
    launch(&run, 2);
    if (yki_device_get_traits(yki_queue_device(queue))->type == YOKE_DEVICE_ACCELERATOR) {
        close_device();
        TEST_NOT_HERE("Oclgrind mixes lanes of integers: the kernels only ran");
    }
    ASSERT_OK(yki_buffer_get(sums, 0, sizeof words, words));
    for (int i = 0; i < COUNT; i++) {
        int word = halves ? ((int16_t *)words)[i] : words[i];

        ck_assert_msg(word == sum[i], "element %d, %g: %d units, not %d", i, (double)gradient[i],
                      word, sum[i]);
        wanted[i] = ldexpf((float)sum[i], -20);
    }
    ASSERT_OK(yki_buffer_get(result, 0, sizeof got, got));
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(got[i] == wanted[i], "element %d: %.9g, not %.9g", i, (double)got[i],
                      (double)wanted[i]);
    close_device();
}
END_TEST

/* Over many elements and granules the mean is right. */
START_TEST(random_rounding_is_fair)
{
    enum { ELEMENTS = 4096, GRANULES = 64 };
    static const float values[] = {0.25f, 0.5f, 0.9f, 3.1f, 0x1p-7f};
    const uint32_t keys[2] = {5, 0};

    for (size_t v = 0; v < YKI_COUNT(values); v++) {
        double sum = 0, mean;

        for (uint32_t g = 0; g < GRANULES; g++)
            for (uint32_t i = 0; i < ELEMENTS; i++) {
                uint32_t own[2] = {keys[0] + g, keys[1]};

                sum += rounded(values[v], -150, random_word(i, own), 1e9);
            }
        mean = sum / (ELEMENTS * GRANULES);
        /* The deviation of a mean is at most 0.001; that of 1/128 is 0.0002. */
        ck_assert_msg(fabs(mean - (double)values[v]) < 0.004 * fmin(1, 40 * (double)values[v]),
                      "%g: %g on average", (double)values[v], mean);
    }
}
END_TEST

/* The sum of two granules in each kind of integer. */
START_TEST(integers_are_summed)
{
    static const char *const kernels[] = {"yki_team_sum_i32", "yki_team_sum_i16"};
    const bool wide = _i % 2 == 0, halves = _i / 2 == 1;
    const size_t bytes = halves ? 2 : 4;
    int32_t words[2][COUNT] = {{0}}, got[COUNT];
    yki_buffer *inputs[2];
    call run;

    open_device();
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < COUNT; i++)
            if (halves)
                ((int16_t *)words[k])[i] = (int16_t)(i * 37 - 7000 * k);
            else
                words[k][i] = i * 3700001 - 700000000 * k;
        inputs[k] = buffer(COUNT * bytes, words[k]);
    }
    run = begin("team.cl", wide ? "-DVEC=16 -DWG=1" : "-DVEC=4 -DWG=32", kernels[halves],
                wide ? 1 : 32);
    pass_inputs(&run, inputs, 2);
    pass_buffer(&run, inputs[0]);
    pass_int(&run, COUNT / (wide ? 16 : 4));
    launch(&run, 2);
    ASSERT_OK(yki_buffer_get(inputs[0], 0, COUNT * bytes, got));
    for (int i = 0; i < COUNT; i++)
        if (halves)
            ck_assert_int_eq(((int16_t *)got)[i],
                             ((int16_t *)words[0])[i] + ((int16_t *)words[1])[i]);
        else
            ck_assert_int_eq(got[i], words[0][i] + words[1][i]);
    close_device();
}
END_TEST

/* ---- rows of datasets: samples 2 and 0 of three, two rows of 21 elements each ---- */

enum { SAMPLES = 3, ROWS = 2, WIDTH = 21, ROW_ELEMENTS = SAMPLES * ROWS * WIDTH };

typedef struct feed_case {
    const char *kernel;
    size_t from, to; /* bytes of an element */
    bool from_float, to_float, moved, columns;
} feed_case;

static const feed_case feeds[] = {
    {"yki_feed_u8_f32", 1, 4, false, true, false, false},
    {"yki_feed_f32_f32", 4, 4, true, true, false, false},
    {"yki_feed_i32_f32", 4, 4, false, true, false, false},
    {"yki_feed_u8_i32", 1, 4, false, false, false, false},
    {"yki_feed_i32_i32", 4, 4, false, false, false, false},
    {"yki_feed_u8_u8", 1, 1, false, false, false, false},
    {"yki_feed_moved_u8_f32", 1, 4, false, true, true, false},
    {"yki_feed_moved_f32_f32", 4, 4, true, true, true, false},
    {"yki_feed_columns_u8_f32", 1, 4, false, true, false, true},
    {"yki_feed_columns_f32_f32", 4, 4, true, true, false, true},
};

static void
put_number(unsigned char *to, size_t size, bool is_float, int value)
{
    const float f = (float)value;
    const int32_t i = value;

    if (size == 1)
        *to = (unsigned char)value;
    else
        memcpy(to, is_float ? (const void *)&f : (const void *)&i, 4);
}

static void
feed(const feed_case *c, const char *options, size_t local)
{
    static const int64_t indices[] = {2, 0};
    const int columns = ROWS * WIDTH, means = c->columns ? columns : 1;
    float scaling[2 * ROWS * WIDTH];
    unsigned char from[4 * ROW_ELEMENTS], out[4 * ROW_ELEMENTS], wanted[4 * ROW_ELEMENTS];
    size_t used = 2 * ROWS * WIDTH * c->to;
    call run = begin("feed.cl", options, c->kernel, local);
    yki_buffer *result;

    memset(out, 0xee, sizeof out);
    for (int i = 0; i < means; i++) {
        scaling[i] = 3.f + (float)i;
        scaling[means + i] = 0.5f * (float)(i + 1);
    }
    for (int i = 0; i < ROW_ELEMENTS; i++)
        put_number(from + (size_t)i * c->from, c->from, c->from_float, i);
    for (int i = 0; i < 2 * ROWS * WIDTH; i++) {
        int sample = (int)indices[i / columns], column = c->columns ? i % columns : 0;
        int value = sample * columns + i % columns;
        float scaled = ((float)value - scaling[column]) * scaling[means + column];

        put_number(wanted + (size_t)i * c->to, c->to, false, value);
        if (c->to_float)
            memcpy(wanted + (size_t)i * c->to, &scaled, sizeof scaled);
    }
    pass_buffer(&run, buffer(ROW_ELEMENTS * c->from, from));
    pass_long(&run, 0);
    pass_buffer(&run, buffer(sizeof indices, indices));
    pass_buffer(&run, result = buffer(used, out));
    pass_buffer(&run, floats((size_t)(2 * means), scaling));
    pass_int(&run, means);
    pass_int(&run, 2);
    pass_int(&run, 0);
    if (c->moved) { /* a channel of ROWS by WIDTH pixels that stays where it is */
        const int32_t numbers[] = {1, ROWS, WIDTH, ROWS, WIDTH, 0, 0, 0, 0};

        for (size_t i = 0; i < YKI_COUNT(numbers); i++)
            pass_int(&run, numbers[i]);
        pass_float(&run, 0.f);
    }
    pass_int(&run, c->moved ? 5 : c->columns ? 1 : ROWS);
    pass_int(&run, c->moved ? 6 : c->columns ? columns : WIDTH);
    launch(&run, 2);
    ASSERT_OK(yki_buffer_get(result, 0, used, out));
    ck_assert_mem_eq(out, wanted, used);
}

START_TEST(rows_are_taken)
{
    open_device();
    feed(&feeds[_i], "-DWG=1", 1);
    feed(&feeds[_i], "-DWG=32", 32);
    close_device();
}
END_TEST

/* ---- what measures devices ---- */

START_TEST(streams_are_copied_and_added)
{
    static const struct {
        const char *kernel;
        double a, b;
    } cases[] = {{"yki_peak_copy", 1, 0}, {"yki_peak_triad", 1, 3}};
    float a[COUNT], b[COUNT], out[COUNT] = {0};
    double wanted[COUNT];
    bool narrow = _i >= 2;
    yki_buffer *result;
    call run;

    open_device();
    ramp(a, COUNT, -1.f, 0.03f);
    ramp(b, COUNT, 0.5f, 0.01f);
    for (int i = 0; i < COUNT; i++)
        wanted[i] = cases[_i % 2].a * (double)a[i] + cases[_i % 2].b * (double)b[i];
    run = begin("peak.cl", narrow ? "-DVEC=4 -DWG=32" : "-DVEC=16 -DWG=1", cases[_i % 2].kernel,
                narrow ? 32 : 1);
    pass_buffer(&run, floats(COUNT, a));
    pass_buffer(&run, floats(COUNT, b));
    pass_buffer(&run, result = floats(COUNT, out));
    pass_int(&run, COUNT / (narrow ? 4 : 16));
    launch(&run, 3);
    expect(result, wanted, COUNT, "element");
    close_device();
}
END_TEST

/* The multiply-adds whose results nobody reads are not computed. So each chain of each lane must
 * be in the total, which this asks for: `rounds` multiply-adds of each. */
START_TEST(all_multiply_adds_of_the_peak_count)
{
    enum { ROUNDS = 3, CHAINS = 12 };
    const int lanes = _i ? 4 : 16;
    const float none[1] = {0};
    float total = 0, got;
    yki_buffer *result;
    call run;

    open_device();
    for (int l = 0; l < lanes; l++) {
        float sum = 0;

        for (int k = 0; k < CHAINS; k++) {
            float c = 0.f + 0.01f * (float)l;

            c += (float)k;
            for (int i = 0; i < ROUNDS; i++)
                c = fmaf(c, 0.5f, 0.5f);
            sum += c;
        }
        total += sum;
    }
    run = begin("peak.cl", _i ? "-DVEC=4 -DWG=32" : "-DVEC=16 -DWG=1", "yki_peak_fma", _i ? 32 : 1);
    pass_buffer(&run, result = floats(1, none));
    pass_int(&run, ROUNDS);
    pass_float(&run, total);
    launch(&run, 1);
    ASSERT_OK(yki_buffer_get(result, 0, sizeof got, &got));
    ck_assert_float_eq(got, total);
    close_device();
}
END_TEST

/* They keep a device busy and leave memory alone. */
START_TEST(loads_write_nothing)
{
    static const struct {
        const char *file, *options, *kernel;
        size_t local;
    } cases[] = {{"peak.cl", "-DVEC=16 -DWG=1", "yki_peak_fma", 1},
                 {"peak.cl", "-DVEC=4 -DWG=32", "yki_peak_fma", 32},
                 {"load.cl", "-DLOCAL=1", "yki_load", 1}};
    float kept[16];
    double wanted[16];
    yki_buffer *result;
    call run;

    open_device();
    ramp(kept, 16, 7.f, 1.f);
    for (int i = 0; i < 16; i++)
        wanted[i] = (double)kept[i];
    run = begin(cases[_i].file, cases[_i].options, cases[_i].kernel, cases[_i].local);
    pass_buffer(&run, result = floats(16, kept));
    pass_int(&run, 5);
    if (strcmp(cases[_i].file, "peak.cl") == 0)
        pass_float(&run, -1.f);
    launch(&run, 2);
    expect(result, wanted, 16, "element");
    close_device();
}
END_TEST

/* What finds out about dot units, with the one that every device has: two products a lane. */
START_TEST(a_dot_unit_multiplies_pairs)
{
    enum { LANES = 16 };
    uint32_t a = 0x40a04040, b[LANES]; /* 3 and 5 as bfloat16, the first term below */
    float sums[LANES], got[LANES];
    yki_buffer *c;
    call run;

    open_device();
    run = begin("dot_probe.cl", "", "yki_dot_probe", 1);
    for (int i = 0; i < LANES; i++) {
        b[i] = i % 2 ? 0x3f80c000 : 0x4000bf80; /* -2 and 1, or -1 and 2 */
        sums[i] = (float)(10 * i);
    }
    pass_buffer(&run, buffer(sizeof a, &a));
    pass_buffer(&run, buffer(sizeof b, b));
    pass_buffer(&run, c = floats(LANES, sums));
    launch(&run, 1);
    ASSERT_OK(yki_buffer_get(c, 0, sizeof got, got));
    for (int i = 0; i < LANES; i++)
        ck_assert_float_eq(got[i], (float)(10 * i + (i % 2 ? -1 : 7)));
    close_device();
}
END_TEST

/* The same for units that multiply matrices: how tile_mma.cl gives rows, columns and terms to an
 * instruction, which ordinary code does the work of; and for copies ahead, by tile_ahead.cl, of one
 * round and of two. Each operand lies by terms or not. Some rounds of terms, and a rest. */
static const struct {
    int unit;
    const char *ahead, *a_form, *b_form;
} products[] = {{4, "", "K4", "ROW4"},
                {4, " -DTILE_ROUNDS=2", "K4", "ROW4"},
                {4, " -DTILE_ROUNDS=3", "ROW4", "K4"},
                {5, "", "K4", "ROW4"},
                {5, " -DTILE_ROUNDS=2", "ROW4", "K4"},
                {5, " -DTILE_ROUNDS=3", "K4", "ROW4"},
                {0, " -DTILE_ROUNDS=2", "K4", "ROW4"},
                {0, " -DTILE_ROUNDS=3", "ROW4", "K4"},
                {0, " -DTILE_ROUNDS=2", "ROW", "K"},
                {0, " -DTILE_ROUNDS=3", "K", "ROW"}};

START_TEST(a_dot_unit_multiplies_matrices)
{
    enum { TALL = 32, BROAD = 32, LONG = 52 }; /* for 32 items */
    bool a_by_terms = strncmp(products[_i].a_form, "ROW", 3) == 0;
    bool b_by_terms = strncmp(products[_i].b_form, "ROW", 3) == 0;
    int unit = products[_i].unit;
    yoke_device_type type;
    char options[200];
    static float a[TALL][LONG], b[LONG][BROAD], a_lies[TALL * LONG], b_lies[LONG * BROAD];
    static float got[TALL * BROAD];
    yki_buffer *c;
    call run;

    if (getenv("YOKE_TEST_QUICK") && _i % 3 != 1) /* each unit is among the rest */
        return;
    open_device();
    type = yki_device_get_traits(yki_queue_device(queue))->type;
    for (int r = 0; r < TALL; r++)
        for (int k = 0; k < LONG; k++) {
            a[r][k] = (float)((r * 37 + k * 101 + r * k * 5) % 61 - 30);
            a_lies[a_by_terms ? k * TALL + r : r * LONG + k] = a[r][k];
        }
    for (int k = 0; k < LONG; k++)
        for (int r = 0; r < BROAD; r++) {
            b[k][r] = (float)(((k * BROAD + r) * 29 + k * (k * BROAD + r) % 17) % 53 - 26);
            b_lies[b_by_terms ? k * BROAD + r : r * LONG + k] = b[k][r];
        }
    /* Oclgrind takes what comes out of the ordinary code for uninitialised: there, without a unit.
     */
    if (type == YOKE_DEVICE_ACCELERATOR)
        unit = 0;
    /* And a processor's compiler takes long to optimise what barriers divide. */
    snprintf(options, sizeof options,
             "-DDOT=%d -DDOT_MMA_PLAIN -DTM=32 -DTN=32 %s -DTK=16 -DA_FORM=TILE_BY_%s "
             "-DB_FORM=TILE_BY_%s%s%s",
             unit, unit ? "-DIM=4 -DIN=8" : "-DIM=8 -DIN=4", products[_i].a_form,
             products[_i].b_form, products[_i].ahead,
             type == YOKE_DEVICE_CPU ? " -cl-opt-disable" : "");
    run = begin("tile_probe.cl", options, "yki_tile_probe", 32);
    pass_buffer(&run, buffer(sizeof a_lies, a_lies));
    pass_buffer(&run, buffer(sizeof b_lies, b_lies));
    pass_buffer(&run, c = buffer(sizeof got, got));
    launch(&run, 1);
    ASSERT_OK(yki_buffer_get(c, 0, sizeof got, got));
    for (int i = 0; i < TALL * BROAD; i++) {
        float sum = 0;

        for (int k = 0; k < LONG; k++)
            sum += a[i / BROAD][k] * b[k][i % BROAD];
        ck_assert_msg(got[i] == sum, "element %d is %g instead of %g", i, (double)got[i],
                      (double)sum);
    }
    close_device();
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = test_case(suite, "update");

    tcase_add_test(tcase, a_dot_unit_multiplies_pairs);
    tcase_add_test(tcase, bytes_are_copied_and_filled);
    tcase_add_loop_test(tcase, gradients_get_the_loss_scale, 0, 2);
    tcase = test_case(suite, "tiles");
    tcase_add_loop_test(tcase, a_dot_unit_multiplies_matrices, 0, YKI_COUNT(products));
    tcase = test_case(suite, "team");
    tcase_add_loop_test(tcase, inputs_are_summed_in_their_order, 0, 3);
    tcase_add_loop_test(tcase, moments_and_results_are_merged, 0, 2);
    tcase_add_loop_test(tcase, granules_are_added_exactly, 0, 2);
    tcase_add_loop_test(tcase, granules_are_rounded_at_random, 0, 4);
    tcase_add_test(tcase, random_rounding_is_fair);
    tcase_add_loop_test(tcase, integers_are_summed, 0, 4);
    tcase_add_loop_test(tcase, rows_are_taken, 0, YKI_COUNT(feeds));
    tcase = test_case(suite, "measure");
    tcase_add_loop_test(tcase, streams_are_copied_and_added, 0, 4);
    tcase_add_loop_test(tcase, loads_write_nothing, 0, 3);
    tcase_add_loop_test(tcase, all_multiply_adds_of_the_peak_count, 0, 2);
    return suite;
}
