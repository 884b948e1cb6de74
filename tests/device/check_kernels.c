/* SPDX-License-Identifier: Apache-2.0
 *
 * check_kernels.c - the kernels that no solver launches, each by itself over buffers
 * of its own: update.cl, team.cl, feed.cl, fill.cl, copy.cl, peak.cl, load.cl. Small, so that
 * Oclgrind looks at them too: within plans it loses track of memory (docs/drivers.md).
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "device/sources.h"
#include "support/support.h"

enum { COUNT = 384, FIRST = 128, WORDS = 16, MAX_ARGS = 20 };

static yoke_context *context;
static yoke_selection *selection;
static yki_queue *queue;
static yki_buffer *made[24];
static size_t made_count;

static void
open_device(void)
{
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    ASSERT_OK(yki_queue_create(yoke_selection_get(selection, 0), false, &queue));
}

static void
close_device(void)
{
    while (made_count > 0)
        yki_buffer_destroy(made[--made_count]);
    yki_queue_destroy(queue);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

/* With these bytes: all of them at once (Oclgrind). */
static yki_buffer *
buffer(size_t size, const void *bytes)
{
    ck_assert_uint_lt(made_count, YKI_COUNT(made));
    ASSERT_OK(yki_buffer_create(yki_queue_device(queue), size, 0, "of a test", &made[made_count]));
    ASSERT_OK(yki_buffer_put(made[made_count], 0, size, bytes));
    return made[made_count++];
}

static yki_buffer *
floats(size_t count, const float *values)
{
    return buffer(count * sizeof *values, values);
}

/* The next argument of a kernel that is being set up. */
typedef struct call {
    yki_kernel *kernel;
    unsigned next;
    size_t local;
} call;

static call
begin(const char *file, const char *options, const char *name, size_t local)
{
    call c = {.local = local};
    yki_program *program;

    ASSERT_OK(yki_program_get(yki_queue_device(queue), file, options, &program));
    ASSERT_OK(yki_kernel_create(program, name, &c.kernel));
    yki_program_release(program);
    return c;
}

static void
pass_buffer(call *c, yki_buffer *value)
{
    ASSERT_OK(yki_kernel_set_buffer(c->kernel, c->next++, value));
}

static void
pass_int(call *c, int32_t value)
{
    ASSERT_OK(yki_kernel_set(c->kernel, c->next++, sizeof value, &value));
}

static void
pass_float(call *c, float value)
{
    ASSERT_OK(yki_kernel_set(c->kernel, c->next++, sizeof value, &value));
}

static void
launch(call *c, size_t groups)
{
    const yki_grid grid = {{groups, 1, 1}, {c->local, 1, 1}};

    ASSERT_OK(yki_queue_launch(queue, c->kernel, &grid, YKI_NO_WAIT, NULL));
    ASSERT_OK(yki_queue_finish(queue));
    yki_kernel_destroy(c->kernel);
}

static void
ramp(float *values, size_t count, float from, float step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = from + step * (float)((i * 37) % 64);
}

static void
expect(yki_buffer *got, const double *wanted, size_t count, const char *what)
{
    float *values = malloc(count * sizeof *values);

    ASSERT_OK(yki_buffer_get(got, 0, count * sizeof *values, values));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(fabs((double)values[i] - wanted[i]) <= 1e-6 * fmax(1, fabs(wanted[i])),
                      "%s %zu: %.9g instead of %.9g", what, i, (double)values[i], wanted[i]);
    free(values);
}

/* Step values as update.cl has them. */
static yki_buffer *
step_values(float rate, float inverse_count, float scale, uint32_t good)
{
    float words[WORDS] = {0};

    words[5] = rate;
    words[6] = 0.271f; /* 1 - beta1^t */
    words[7] = 0.1f;   /* its root, of beta2 */
    words[8] = inverse_count;
    words[9] = scale;
    memcpy(&words[10], &good, sizeof good);
    return floats(WORDS, words);
}

/* ---- optimizers: one step of some segments; elements outside them stay ---- */

typedef struct optimizer_case {
    const char *kernel;
    float arguments[3];
    int integer; /* the last argument, where it is one; -1: none */
    const char *options;
    size_t local;
    uint32_t vector;
    float clip_value;
} optimizer_case;

static const optimizer_case optimizers[] = {
    {"yki_sgd", {0.f}, 0, "-DVEC=16 -DWG=1", 1, 16, 0.f},
    {"yki_sgd", {0.9f}, 1, "-DVEC=4 -DWG=64", 64, 4, 0.05f},
    {"yki_adam", {0.9f, 0.99f, 1e-3f}, 0, "-DVEC=16 -DWG=1", 1, 16, 0.f},
    {"yki_adam", {0.9f, 0.99f, 1e-3f}, 1, "-DVEC=4 -DWG=64", 64, 4, 0.05f},
    {"yki_rmsprop", {0.9f, 1e-3f, 0.5f}, -1, "-DVEC=16 -DWG=1", 1, 16, 0.f},
    {"yki_rmsprop", {0.9f, 1e-3f, 0.f}, -1, "-DVEC=4 -DWG=64", 64, 4, 0.f},
};

/* Segments that are updated alike. Between two of them are elements that stay. */
typedef struct part {
    int first, end;
    float rate_scale, decay;
} part;

static const part parts_of_all[] = {
    {FIRST, FIRST + 64, 2.f, 0.01f}, {FIRST + 64, FIRST + 96, 1.f, 0.f}, {256, COUNT, 3.f, 0.02f}};

enum { PARTS = sizeof parts_of_all / sizeof parts_of_all[0] };

/* Gives the table that update.cl reads, and the vectors of all segments. */
static yki_buffer *
segments_of(uint32_t vector, int32_t *vectors)
{
    int32_t rows[4 * PARTS];

    *vectors = 0;
    for (int i = 0; i < PARTS; i++) {
        rows[4 * i] = parts_of_all[i].first / (int32_t)vector;
        rows[4 * i + 1] = *vectors;
        memcpy(&rows[4 * i + 2], &parts_of_all[i].rate_scale, 4);
        memcpy(&rows[4 * i + 3], &parts_of_all[i].decay, 4);
        *vectors += (parts_of_all[i].end - parts_of_all[i].first) / (int32_t)vector;
    }
    return buffer(sizeof rows, rows);
}

/* NULL: the element stays. */
static const part *
part_of(int element)
{
    for (int i = 0; i < PARTS; i++)
        if (element >= parts_of_all[i].first && element < parts_of_all[i].end)
            return &parts_of_all[i];
    return NULL;
}

/* What PyTorch's documentation says of one step. */
static void
one_step(const optimizer_case *c, const part *of, double g, double *p, double *m, double *v)
{
    const double rate = (double)0.1f * (double)of->rate_scale, decay = (double)of->decay;
    double a0 = (double)c->arguments[0], a1 = (double)c->arguments[1];
    double a2 = (double)c->arguments[2];

    g *= 0.25;
    if (c->clip_value > 0)
        g = fmax(-(double)c->clip_value, fmin((double)c->clip_value, g));
    if (strcmp(c->kernel, "yki_sgd") == 0) {
        g += decay * *p;
        if (a0 > 0) {
            *m = a0 * *m + g;
            g = c->integer ? g + a0 * *m : *m;
        }
        *p -= rate * g;
    } else if (strcmp(c->kernel, "yki_adam") == 0) {
        if (c->integer)
            *p -= rate * decay * *p;
        else
            g += decay * *p;
        *m = a0 * *m + (1 - a0) * g;
        *v = a1 * *v + (1 - a1) * g * g;
        *p -= rate / (double)0.271f * *m / (sqrt(*v) / (double)0.1f + a2);
    } else {
        double change;

        g += decay * *p;
        *v = a0 * *v + (1 - a0) * g * g;
        change = g / (sqrt(*v) + a1);
        if (a2 > 0) {
            *m = a2 * *m + change;
            change = *m;
        }
        *p -= rate * change;
    }
}

static void
optimize(const optimizer_case *c, uint32_t good)
{
    float value[COUNT], gradient[COUNT], m[COUNT], v[COUNT];
    double p[COUNT], dm[COUNT], dv[COUNT];
    const float loss[2] = {good ? 3.f : NAN, 4.f};
    int32_t counts = c->vector == 4 ? 2 : 0, vectors;
    yki_buffer *operands[4], *step;
    call run = begin("update.cl", c->options, c->kernel, c->local);

    ramp(value, COUNT, -1.f, 0.03f);
    ramp(gradient, COUNT, -2.f, 0.07f);
    ramp(m, COUNT, 0.5f, 0.01f);
    ramp(v, COUNT, 0.1f, 0.02f);
    for (int i = 0; i < COUNT; i++) {
        p[i] = (double)value[i];
        dm[i] = (double)m[i];
        dv[i] = (double)v[i];
        if (good && part_of(i))
            one_step(c, part_of(i), (double)gradient[i], &p[i], &dm[i], &dv[i]);
    }
    pass_buffer(&run, operands[0] = floats(COUNT, value));
    pass_buffer(&run, operands[1] = floats(COUNT, gradient));
    pass_buffer(&run, operands[2] = floats(COUNT, m));
    pass_buffer(&run, operands[3] = floats(COUNT, v));
    /* Where nothing needs the count earlier, the update finds it itself, and notes it. */
    pass_buffer(&run, step = step_values(0.1f, counts ? 0.f : 0.25f, 1.f, counts ? 0 : good));
    pass_buffer(&run, floats(2, loss));
    pass_int(&run, counts);
    pass_buffer(&run, segments_of(c->vector, &vectors));
    pass_int(&run, PARTS);
    pass_int(&run, vectors);
    pass_float(&run, c->clip_value);
    pass_float(&run, c->arguments[0]);
    if (strcmp(c->kernel, "yki_sgd") != 0) {
        pass_float(&run, c->arguments[1]);
        pass_float(&run, c->arguments[2]);
    }
    if (c->integer >= 0)
        pass_int(&run, c->integer);
    launch(&run, 5);
    expect(operands[0], p, COUNT, "value");
    expect(operands[2], dm, COUNT, "m");
    expect(operands[3], dv, COUNT, "v");
    if (counts) {
        float words[WORDS];

        ASSERT_OK(yki_buffer_get(step, 0, sizeof words, words));
        ck_assert_float_eq(words[8], 0.25f);
        ck_assert_mem_eq(&words[10], &good, sizeof good);
    }
}

START_TEST(optimizers_do_a_step)
{
    open_device();
    optimize(&optimizers[_i], 1);
    close_device();
}
END_TEST

START_TEST(a_bad_step_changes_nothing)
{
    open_device();
    optimize(&optimizers[_i], 0);
    close_device();
}
END_TEST

/* Elements of the magnitudes at which devices differ, above and below FLT_MIN, and zeros. */
static void
small_numbers(float *values, size_t count, int exponent, unsigned seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = 1664525u * seed + 1013904223u;
        values[i] = i % 7 == 0 ? 0.f
                               : ldexpf((float)(seed >> 8) / 16777216.f - 0.5f,
                                        exponent + (int)(seed % 13) - 6);
    }
}

/* Some steps with small numbers; gives value, m and v, COUNT elements each. */
static void
optimize_small(const optimizer_case *c, const char *more, float *results)
{
    static const char *const kinds[] = {"-DVEC=8 -DWG=1 -DSETTLE=1", "-DVEC=4 -DWG=64 -DSETTLE=1"};
    const uint32_t vector = c->vector == 4 ? 4 : 8;
    float values[4][COUNT];
    const float loss[2] = {3.f, 4.f};
    yki_buffer *operands[4];
    int32_t vectors;
    char options[96];

    snprintf(options, sizeof options, "%s%s", kinds[vector == 4], more);
    /* A weight that is 0 takes the whole of its change; v has squares. */
    small_numbers(values[0], COUNT, -122, 1);
    small_numbers(values[1], COUNT, c->kernel[4] == 's' ? -122 : -62, 2);
    small_numbers(values[2], COUNT, -122, 3);
    small_numbers(values[3], COUNT, -122, 4);
    for (int i = 0; i < COUNT; i++)
        values[3][i] = fabsf(values[3][i]);
    for (int i = 0; i < 4; i++)
        operands[i] = floats(COUNT, values[i]);
    for (int step = 0; step < 3; step++) {
        call run = begin("update.cl", options, c->kernel, c->local);

        for (int i = 0; i < 4; i++)
            pass_buffer(&run, operands[i]);
        pass_buffer(&run, step_values(0.1f, 0.25f, 1.f, 1));
        pass_buffer(&run, floats(2, loss));
        pass_int(&run, 0);
        pass_buffer(&run, segments_of(vector, &vectors));
        pass_int(&run, PARTS);
        pass_int(&run, vectors);
        pass_float(&run, 0.f);
        pass_float(&run, c->arguments[0]);
        if (strcmp(c->kernel, "yki_sgd") != 0) {
            pass_float(&run, c->arguments[1]);
            pass_float(&run, 0.f); /* epsilon or momentum */
        }
        if (c->integer >= 0)
            pass_int(&run, c->integer);
        launch(&run, 5);
    }
    for (int i = 0; i < 3; i++)
        ASSERT_OK(yki_buffer_get(operands[i ? i + 1 : 0], 0, COUNT * sizeof *results,
                                 results + i * COUNT));
}

/* Small numbers come out alike, whether or not the compiler lets the device keep them. */
START_TEST(small_numbers_are_the_same_everywhere)
{
    float kept[3 * COUNT], dropped[3 * COUNT];

    open_device();
    if (!yki_device_get_traits(yki_queue_device(queue))->denormals) {
        close_device();
        TEST_NOT_HERE("the device does not promise to keep small numbers");
    }
    optimize_small(&optimizers[_i], "", kept);
    close_device();
    open_device();
    optimize_small(&optimizers[_i], " -cl-denorms-are-zero", dropped);
    close_device();
    ck_assert_mem_eq(kept, dropped, sizeof kept);
}
END_TEST

/* The text of exact.cl between other text, in which quotients and roots are wrong by OFF_BY units
 * of the last place, above or below. */
static char *
exact_source(void)
{
    static const char before[] =
        "#define SETTLE 1\n"
        "#undef YKI_ROUNDED_DIVIDE\n"
        "#define YKI_ROUNDED_DIVIDE 0\n"
        "#define BITS(I, x) YKI_PASTE(as_, I)(x)\n"
        "#define OFF(T, I, x, a) YKI_PASTE(as_, T)(BITS(I, x) + OFF_BY * (1 - (BITS(I, a) & 2)))\n"
        "#define ROUGH_QUOTIENT(T, I, a, b) OFF(T, I, (a) / (b), a)\n"
        "#define ROUGH_ROOT(T, I, a) OFF(T, I, sqrt(a), a)\n";
    static const char behind[] =
        "DEFINE_EXACT(float4, int4)\n"
        "__kernel YKI_GROUP(1, 1) void exact(__global const float *a, __global const float *b,\n"
        "                                    __global const float *x, __global float *q,\n"
        "                                    __global float *r, int count)\n"
        "{\n"
        "    for (int i = 0; i < count / 4; i++)\n"
        "        vstore4(QUOTIENT(float4, vload4(i, a), vload4(i, b)), i, q);\n"
        "    for (int i = 0; i < count; i++)\n"
        "        r[i] = ROOT(float, x[i]);\n"
        "}\n";
    size_t size = sizeof before + sizeof behind, i = 0;
    char *text;

    while (strcmp(yki_kernel_sources[i].file, "exact.cl") != 0)
        ck_assert_uint_lt(++i, yki_kernel_source_count);
    for (size_t k = 0; k < yki_kernel_sources[i].line_count; k++)
        size += strlen(yki_kernel_sources[i].lines[k]);
    text = malloc(size);
    strcpy(text, before);
    for (size_t k = 0; k < yki_kernel_sources[i].line_count; k++)
        strcat(text, yki_kernel_sources[i].lines[k]);
    return strcat(text, behind);
}

/* Numbers whose quotient, and whose root, are as near to the middle of two floats as can be. */
static void
hard_cases(float *a, float *b, float *x)
{
    int count = 0;

    for (uint64_t i = 0; count < COUNT; i++) {
        uint64_t d = 8388609 + 40002 * i % 8388608, inverse = d, middle;

        for (int k = 0; k < 5; k++)
            inverse *= 2 - d * inverse;
        middle = (i & 1 ? inverse : 0 - inverse) & 0x1ffffff; /* times d it is 1 or -1 */
        if (!(middle >> 24))
            continue;
        a[count] = (float)((middle * d + (i & 1 ? (uint64_t)-1 : 1)) >> 25);
        b[count++] = (float)d;
    }
    count = 0;
    for (uint64_t middle = (1 << 24) + 1; count < COUNT && middle < 1 << 25; middle += 2) {
        uint64_t square = middle * middle + (1 << 8);

        if ((square & 0x3ffffff) < 1 << 9)
            x[count++] = (float)(square >> 26) * 67108864.f;
    }
    for (int found = count; count < COUNT; count++)
        x[count] = x[count - found];
}

/* How wrong quotients and roots are, and by which powers of 2 the cases are scaled. */
static const struct {
    const char *options;
    int a, b, x;
} inexact[] = {
    {"-DOFF_BY=0", 0, 0, 0},
    {"-DOFF_BY=3", 0, 0, 0},
    {"-DOFF_BY=3 -cl-denorms-are-zero", -127, -30, -152},
};

/* What the device gets wrong by 3 units of the last place is put right, also where remainders are
 * below FLT_MIN. What is too large stays so. */
START_TEST(quotients_and_roots_are_rounded_once)
{
    float a[COUNT], b[COUNT], x[COUNT], none[COUNT] = {0}, got[COUNT];
    char *source = exact_source();
    yki_buffer *quotients, *roots;
    yki_program *program;
    call run = {.local = 1};

    open_device();
    hard_cases(a, b, x);
    for (int i = 0; i < COUNT; i++) {
        a[i] = ldexpf(a[i], inexact[_i].a);
        b[i] = ldexpf(b[i], inexact[_i].b);
        x[i] = ldexpf(x[i], inexact[_i].x);
    }
    if (_i == 0) {
        a[0] = FLT_MAX;
        b[0] = 0.5f;
    }
    ASSERT_OK(yki_program_get_source(yki_queue_device(queue), "exact", source, inexact[_i].options,
                                     &program));
    ASSERT_OK(yki_kernel_create(program, "exact", &run.kernel));
    yki_program_release(program);
    pass_buffer(&run, floats(COUNT, a));
    pass_buffer(&run, floats(COUNT, b));
    pass_buffer(&run, floats(COUNT, x));
    pass_buffer(&run, quotients = floats(COUNT, none));
    pass_buffer(&run, roots = floats(COUNT, none));
    pass_int(&run, COUNT);
    launch(&run, 1);
    /* In double, rounding once more changes nothing. */
    ASSERT_OK(yki_buffer_get(quotients, 0, sizeof got, got));
    for (int i = 0; i < COUNT; i++)
        ck_assert_float_eq(got[i], (float)((double)a[i] / (double)b[i]));
    ASSERT_OK(yki_buffer_get(roots, 0, sizeof got, got));
    for (int i = 0; i < COUNT; i++)
        ck_assert_float_eq(got[i], (float)sqrt((double)x[i]));
    close_device();
    free(source);
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

/* Two rows of three parts each, side by side in the parts and not in the sums. */
START_TEST(late_parts_are_added)
{
    enum { PART = 70, COUNT_OF = 3 };
    static const int32_t rows[] = {0, PART, 100, 64, COUNT_OF, 64, PART, 4, PART - 64, COUNT_OF};
    float parts[PART * COUNT_OF], sums[200];
    double wanted[200];
    yki_buffer *out;
    call run;

    open_device();
    ramp(parts, PART * COUNT_OF, -1.f, 0.5f);
    ramp(sums, 200, 3.f, 0.25f);
    for (int i = 0; i < 200; i++)
        wanted[i] = (double)sums[i];
    for (int i = 0; i < PART; i++) {
        double *sum = &wanted[i < 64 ? 100 + i : 4 + i - 64];

        *sum = 0;
        for (int k = 0; k < COUNT_OF; k++)
            *sum += (double)parts[k * PART + i];
    }
    run =
        begin("update.cl", _i ? "-DVEC=4 -DWG=64" : "-DVEC=16 -DWG=1", "yki_sum_late", _i ? 64 : 1);
    pass_buffer(&run, floats(PART * COUNT_OF, parts));
    pass_buffer(&run, out = floats(200, sums));
    pass_buffer(&run, buffer(sizeof rows, rows));
    pass_int(&run, 2);
    launch(&run, 1);
    expect(out, wanted, 200, "sum");
    close_device();
}
END_TEST

/* ---- what an update needs to know first ---- */

START_TEST(count_and_norm_are_found)
{
    float gradient[COUNT], loss[2] = {3.f, 8.f}, words[WORDS];
    double sum = 0, norm;
    yki_buffer *step, *parts;
    uint32_t good;
    call run;

    open_device();
    ramp(gradient, COUNT, -2.f, 0.07f);
    for (int i = 0; i < COUNT; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    norm = sqrt(sum) / 8;
    step = step_values(0.1f, 0.f, 0.f, 0);
    run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_step_count", 1);
    pass_buffer(&run, floats(2, loss));
    pass_buffer(&run, step);
    launch(&run, 1);

    parts = floats(4, (float[4]){0});
    run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_norm_part", 1);
    pass_buffer(&run, floats(COUNT, gradient));
    pass_buffer(&run, parts);
    pass_int(&run, COUNT / 16);
    pass_int(&run, 1);
    launch(&run, 3);
    run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_norm_finish", 1);
    pass_buffer(&run, parts);
    pass_int(&run, 4);
    pass_buffer(&run, step);
    pass_float(&run, 1.f);
    launch(&run, 1);

    ASSERT_OK(yki_buffer_get(step, 0, sizeof words, words));
    memcpy(&good, &words[10], sizeof good);
    ck_assert_uint_eq(good, 1);
    ck_assert_float_eq(words[8], 0.125f);
    ck_assert_double_gt(norm, 1);
    ck_assert_double_eq_tol((double)words[9], 1 / (norm + 1e-6), 1e-6);
    close_device();
}
END_TEST

START_TEST(a_state_is_committed_when_the_step_is_good)
{
    uint32_t next[37], state[37], got[37];

    open_device();
    for (uint32_t good = 0; good < 2; good++) {
        yki_buffer *kept;
        call run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_commit_state", 1);

        for (uint32_t i = 0; i < 37; i++) {
            next[i] = 1000 + i;
            state[i] = i;
        }
        pass_buffer(&run, buffer(sizeof next, next));
        pass_buffer(&run, kept = buffer(sizeof state, state));
        pass_buffer(&run, step_values(0.1f, 1.f, 1.f, good));
        pass_int(&run, 37);
        launch(&run, 2);
        ASSERT_OK(yki_buffer_get(kept, 0, sizeof got, got));
        ck_assert_mem_eq(got, good ? next : state, sizeof got);
    }
    close_device();
}
END_TEST

/* Two channels of statistics (count, mean, M2) taken up as a mean and as a variance. */
START_TEST(running_statistics_are_taken_up)
{
    const float stats[6] = {5, 1, 2, 4, 8, 9}, states[4] = {1, 1, 1, 1};
    const float momenta[2] = {0.25f, -0.25f};
    int32_t table[12] = {0, 0, 2, 0, 2, 0, 0, 2, 2, 0, 2, 0};

    open_device();
    memcpy(&table[5], &momenta[0], sizeof momenta[0]);
    memcpy(&table[11], &momenta[1], sizeof momenta[1]);
    for (uint32_t good = 0; good < 2; good++) {
        /* A variance of one value is none: it stays. */
        const double wanted[4] = {good ? 1.25 : 1, good ? 1.75 : 1, good ? 1.25 : 1, 1};
        call run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_commit_running", 1);
        yki_buffer *kept;

        pass_buffer(&run, floats(6, stats));
        pass_buffer(&run, kept = floats(4, states));
        pass_buffer(&run, step_values(0.1f, 1.f, 1.f, good));
        pass_buffer(&run, buffer(sizeof table, table));
        pass_int(&run, 2);
        launch(&run, 2);
        expect(kept, wanted, 4, "state");
    }
    close_device();
}
END_TEST

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
                few ? "yki_team_sum_few" : "yki_team_sum", wide || few ? 1 : 32);
    pass_inputs(&run, inputs, 3);
    pass_buffer(&run, result = floats(COUNT, out));
    pass_int(&run, few ? COUNT : COUNT / (wide ? 16 : 4));
    launch(&run, few ? 1 : 2);
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
    run = begin("team.cl", "", "yki_team_moments", 1);
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
        const int32_t numbers[] = {1, ROWS, WIDTH, ROWS, WIDTH, 0, 0, 0};

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

START_TEST(rows_are_gathered)
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

Suite *
test_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *tcase = test_case(suite, "update");

    tcase_add_loop_test(tcase, optimizers_do_a_step, 0, YKI_COUNT(optimizers));
    tcase_add_loop_test(tcase, a_bad_step_changes_nothing, 0, YKI_COUNT(optimizers));
    tcase_add_loop_test(tcase, small_numbers_are_the_same_everywhere, 0, YKI_COUNT(optimizers));
    tcase_add_loop_test(tcase, quotients_and_roots_are_rounded_once, 0, (int)YKI_COUNT(inexact));
    tcase_add_test(tcase, count_and_norm_are_found);
    tcase_add_loop_test(tcase, late_parts_are_added, 0, 2);
    tcase_add_test(tcase, a_state_is_committed_when_the_step_is_good);
    tcase_add_test(tcase, running_statistics_are_taken_up);
    tcase_add_test(tcase, a_dot_unit_multiplies_pairs);
    tcase_add_test(tcase, bytes_are_copied_and_filled);
    tcase = test_case(suite, "team");
    tcase_add_loop_test(tcase, inputs_are_summed_in_their_order, 0, 3);
    tcase_add_test(tcase, moments_and_results_are_merged);
    tcase_add_loop_test(tcase, rows_are_gathered, 0, YKI_COUNT(feeds));
    tcase = test_case(suite, "measure");
    tcase_add_loop_test(tcase, streams_are_copied_and_added, 0, 4);
    tcase_add_loop_test(tcase, loads_write_nothing, 0, 3);
    tcase_add_loop_test(tcase, all_multiply_adds_of_the_peak_count, 0, 2);
    return suite;
}
