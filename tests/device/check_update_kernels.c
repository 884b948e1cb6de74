/* SPDX-License-Identifier: Apache-2.0
 *
 * check_update_kernels.c - the kernels of update.cl, which no solver launches: optimizers, what
 * they need to know first, and their arithmetic on devices that round otherwise (exact.cl). Each
 * runs by itself, small enough for Oclgrind (check_kernels.c).
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/sources.h"
#include "one_kernel.h"
#include "support/support.h"

enum { COUNT = 384, SQUARES = 18, FIRST = 128, WORDS = 16, MAX_ARGS = 20 };

/* The step's number, and the seed. */
static uint32_t counter[3] = {3, 0x89abcdef, 5};

/* Step values as update.cl has them. */
static yki_buffer *
step_values(float rate, float inverse_count, float scale, uint32_t good)
{
    float words[WORDS] = {0};

    memcpy(words, counter, sizeof counter);
    words[5] = rate;
    words[6] = 0.271f; /* 1 - beta1^t */
    words[7] = 0.1f;   /* its root, of beta2 */
    words[8] = 2;      /* loss scale */
    words[9] = 0.5f;
    words[10] = inverse_count;
    words[11] = scale;
    memcpy(&words[12], &good, sizeof good);
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
    int number; /* of its first element in the graph, in 128s */
} part;

static const part parts_of_all[] = {{FIRST, FIRST + 64, 2.f, 0.01f, 5},
                                    {FIRST + 64, FIRST + 96, 1.f, 0.f, 0},
                                    {256, COUNT, 3.f, 0.02f, 40000000}};

enum { PARTS = sizeof parts_of_all / sizeof parts_of_all[0] };

/* Gives the table that update.cl reads, and the vectors of all segments. */
static yki_buffer *
segments_of(uint32_t vector, int32_t *vectors)
{
    int32_t rows[5 * PARTS];

    *vectors = 0;
    for (int i = 0; i < PARTS; i++) {
        rows[5 * i] = parts_of_all[i].first / (int32_t)vector;
        rows[5 * i + 1] = *vectors;
        memcpy(&rows[5 * i + 2], &parts_of_all[i].rate_scale, 4);
        memcpy(&rows[5 * i + 3], &parts_of_all[i].decay, 4);
        rows[5 * i + 4] = parts_of_all[i].number;
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

/* Passes what the optimizer is given last, and runs the update. */
static void
launch_update(call *run, const optimizer_case *c)
{
    pass_float(run, c->clip_value);
    pass_float(run, c->arguments[0]);
    if (strcmp(c->kernel, "yki_sgd") != 0) {
        pass_float(run, c->arguments[1]);
        pass_float(run, c->arguments[2]);
    }
    if (c->integer >= 0)
        pass_int(run, c->integer);
    launch(run, 5);
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
    launch_update(&run, c);
    expect(operands[0], p, COUNT, "value");
    expect(operands[2], dm, COUNT, "m");
    expect(operands[3], dv, COUNT, "v");
    if (counts) {
        float words[WORDS];

        ASSERT_OK(yki_buffer_get(step, 0, sizeof words, words));
        ck_assert_float_eq(words[10], 0.125f); /* without the loss scale */
        ck_assert_mem_eq(&words[12], &good, sizeof good);
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

/* ---- state that is kept as bfloat16 ---- */

/* The keys of a step. */
static void
draw_keys(uint32_t keys[2])
{
    const uint32_t drawn_of[4] = {counter[0], 0x57a7e, 0, 0};
    uint32_t words[4];

    yki_philox(&counter[1], drawn_of, words);
    memcpy(keys, words, 2 * sizeof *keys);
}

/* A number with the chance of a random 16 bits that it is rounded up. */
static uint16_t
rounded(float x, uint32_t random)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + random) >> 16);
}

static float
widened(uint16_t half)
{
    const uint32_t bits = (uint32_t)half << 16;
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The state after one step, with the operations of the kernel, each of which is rounded once. */
static void
next_state(const optimizer_case *c, const part *of, float g, float p, float *m, float *v)
{
    const float a0 = c->arguments[0], a1 = c->arguments[1], a2 = c->arguments[2];

    g *= 0.25f;
    if (c->clip_value > 0)
        g = fmaxf(-c->clip_value, fminf(c->clip_value, g));
    if (strcmp(c->kernel, "yki_adam") != 0 || !c->integer)
        g = fmaf(of->decay, p, g);
    if (strcmp(c->kernel, "yki_sgd") == 0) {
        if (a0 > 0)
            *m = fmaf(a0, *m, g);
    } else if (strcmp(c->kernel, "yki_adam") == 0) {
        *m = fmaf(1.f - a0, g, a0 * *m);
        *v = fmaf((1.f - a1) * g, g, a1 * *v);
    } else {
        *v = fmaf((1.f - a0) * g, g, a0 * *v);
        if (a2 > 0)
            *m = fmaf(a2, *m, g / (sqrtf(*v) + a1));
    }
}

/* Runs a step on operands of `count` elements, all of which are one segment if `rows` is 1. */
static void
run_small(const optimizer_case *c, yki_buffer *const operands[4], float inverse_count,
          uint32_t good, yki_buffer *table, int rows, int32_t vectors)
{
    const float loss[2] = {3.f, 1.f};
    char options[96];
    call run;

    snprintf(options, sizeof options, "%s -DSMALL_STATE=1", c->options);
    run = begin("update.cl", options, c->kernel, c->local);
    for (int i = 0; i < 4; i++)
        pass_buffer(&run, operands[i]);
    pass_buffer(&run, step_values(0.1f, inverse_count, 1.f, good));
    pass_buffer(&run, floats(2, loss));
    pass_int(&run, 0);
    pass_buffer(&run, table);
    pass_int(&run, rows);
    pass_int(&run, vectors);
    launch_update(&run, c);
}

/* One bit of RMSprop's m may follow from a quotient or a root that is rounded otherwise. */
static void
expect_halves(yki_buffer *buffer, const uint16_t *wanted, int slack, const char *what)
{
    uint16_t got[COUNT];

    ASSERT_OK(yki_buffer_get(buffer, 0, sizeof got, got));
    for (int i = 0; i < COUNT; i++)
        ck_assert_msg(abs((int)got[i] - (int)wanted[i]) <= slack, "%s, element %d: %04x, not %04x",
                      what, i, got[i], wanted[i]);
}

static void
optimize_with_small_state(const optimizer_case *c, uint32_t good)
{
    float value[COUNT], gradient[COUNT];
    uint16_t m[COUNT], v[COUNT];
    double p[COUNT];
    yki_buffer *operands[4], *table;
    uint32_t keys[2];
    int32_t vectors;

    ramp(value, COUNT, -1.f, 0.03f);
    ramp(gradient, COUNT, -2.f, 0.07f);
    for (int i = 0; i < COUNT; i++) {
        m[i] = rounded(0.5f + 0.01f * (float)i, 0);
        v[i] = rounded(0.1f + 0.02f * (float)i, 0);
    }
    operands[0] = floats(COUNT, value);
    operands[1] = floats(COUNT, gradient);
    operands[2] = buffer(sizeof m, m);
    operands[3] = buffer(sizeof v, v);
    table = segments_of(c->vector, &vectors);
    run_small(c, operands, 0.25f, good, table, PARTS, vectors);
    draw_keys(keys);
    for (int i = 0; i < COUNT; i++) {
        const part *of = good ? part_of(i) : NULL;
        float next[2] = {widened(m[i]), widened(v[i])};
        double dm = (double)next[0], dv = (double)next[1];
        uint32_t word;

        p[i] = (double)value[i];
        if (!of)
            continue;
        one_step(c, of, (double)gradient[i], &p[i], &dm, &dv);
        word = random_word((uint32_t)of->number * 128u + (uint32_t)(i - of->first), keys);
        next_state(c, of, gradient[i], value[i], &next[0], &next[1]);
        m[i] = rounded(next[0], word & 0xffff);
        v[i] = rounded(next[1], word >> 16);
    }
    expect(operands[0], p, COUNT, "value");
    expect_halves(operands[2], m, c->kernel[4] == 'r', "m");
    expect_halves(operands[3], v, 0, "v");
}

START_TEST(a_small_state_is_rounded_at_random)
{
    open_device();
    optimize_with_small_state(&optimizers[_i], 1);
    optimize_with_small_state(&optimizers[_i], 0);
    close_device();
}
END_TEST

/* How many of `count` numbers are above `low`; the others must be `low`. */
static int
count_above(const uint16_t *halves, uint16_t low, int count, uint8_t *above)
{
    int sum = 0;

    for (int i = 0; i < count; i++) {
        ck_assert_msg(halves[i] == low || halves[i] == low + 1, "%04x beside %04x", halves[i], low);
        above[i] = halves[i] != low;
        sum += above[i];
    }
    return sum;
}

/* Within five standard deviations of what the chance says. */
static void
assert_chance(int found, int count, double chance, const char *what)
{
    const double far = 5 * sqrt(count * chance * (1 - chance));

    ck_assert_msg(fabs(found - count * chance) <= far, "%s: %d of %d, the chance is %g", what,
                  found, count, chance);
}

/* The mean is right, of both states; they are rounded independently of one another, and of the step
 * before. */
START_TEST(rounding_is_right_on_average)
{
    enum { MANY = 4096, STEPS = 3 };
    static const optimizer_case copies = {"yki_adam", {0.f, 0.f, 1.f}, 0, "-DVEC=16 -DWG=1", 1, 16,
                                          0.f};
    static const int32_t row[5] = {0, 0, 0, 0, 7};
    static float value[MANY], gradient[MANY];
    static uint16_t halves[2][MANY];
    static uint8_t above[STEPS][2][MANY];
    const float g = 1.f + 77.f / 32768, square = g * g; /* 0.3 and 0.6 of the way up */
    const double chance[2] = {(double)(g - 1) * 128, (double)(square - 1) * 128};
    yki_buffer *operands[4];

    open_device();
    for (int i = 0; i < MANY; i++)
        gradient[i] = g;
    operands[0] = floats(MANY, value);
    operands[1] = floats(MANY, gradient);
    operands[2] = buffer(sizeof halves[0], halves[0]);
    operands[3] = buffer(sizeof halves[1], halves[1]);
    for (int step = 0; step < STEPS; step++) {
        counter[0] = (uint32_t)step + 1;
        run_small(&copies, operands, 1.f, 1, buffer(sizeof row, row), 1, MANY / 16);
        for (int k = 0; k < 2; k++) {
            ASSERT_OK(yki_buffer_get(operands[2 + k], 0, sizeof halves[k], halves[k]));
            assert_chance(count_above(halves[k], 0x3f80, MANY, above[step][k]), MANY, chance[k],
                          k ? "v" : "m");
        }
    }
    for (int step = 0; step < STEPS; step++) {
        int both = 0, again = 0;

        for (int i = 0; i < MANY; i++) {
            both += above[step][0][i] && above[step][1][i];
            again += step > 0 && above[step][0][i] && above[step - 1][0][i];
        }
        assert_chance(both, MANY, chance[0] * chance[1], "m and v");
        if (step > 0)
            assert_chance(again, MANY, chance[0] * chance[0], "a step and the one before");
    }
    close_device();
}
END_TEST

/* The largest numbers do not become infinite, and what is no number stays so. */
START_TEST(what_cannot_be_rounded_stays)
{
    static const optimizer_case copies = {"yki_sgd", {0.5f}, 0, "-DVEC=4 -DWG=64", 64, 4, 0.f};
    static const uint32_t bits[] = {0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f7f8000,
                                    0x7f800001, 0x7fffffff, 0xffffffff, 0};
    static const int32_t row[5] = {0};
    float value[COUNT] = {0}, gradient[COUNT];
    uint16_t m[COUNT] = {0};
    yki_buffer *operands[4];

    open_device();
    if (!yki_device_get_traits(yki_queue_device(queue))->inf_nan) {
        close_device();
        TEST_NOT_HERE("the device has no NaN");
    }
    for (size_t i = 0; i < COUNT; i++)
        memcpy(&gradient[i], &bits[i % YKI_COUNT(bits)], sizeof *bits);
    operands[0] = floats(COUNT, value);
    operands[1] = floats(COUNT, gradient);
    operands[2] = operands[3] = buffer(sizeof m, m);
    run_small(&copies, operands, 1.f, 1, buffer(sizeof row, row), 1, COUNT / 4);
    ASSERT_OK(yki_buffer_get(operands[2], 0, sizeof m, m));
    for (size_t i = 0; i < COUNT; i++) {
        const uint32_t was = bits[i % YKI_COUNT(bits)];

        if ((was & 0x7fffffff) > 0x7f800000)
            ck_assert_msg((m[i] & 0x7fff) > 0x7f80, "NaN %08x became %04x", was, m[i]);
        else
            ck_assert_msg(m[i] == was >> 16, "%08x became %04x", was, m[i]);
    }
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
        "#define DEFINE_OFF(T, I)                                                        \\\n"
        "    T off_##T(T x, T a)                                                         \\\n"
        "    {                                                                           \\\n"
        "        return as_##T(as_##I(x) + OFF_BY * (1 - (as_##I(a) & 2)));              \\\n"
        "    }\n"
        "DEFINE_OFF(float, int)\n"
        "DEFINE_OFF(float4, int4)\n"
        "#define OWN_QUOTIENT(T, a, b) YKI_PASTE(off_, T)((a) / (b), a)\n"
        "#define OWN_ROOT(T, a) YKI_PASTE(off_, T)(sqrt(a), a)\n";
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
    {"-DOFF_BY=3 -cl-denorms-are-zero", 103, 103, 0},
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

/* The count, and what is clipped of a gradient: by groups of one item, and of 64. Returns the bits
 * of the scale. */
static uint32_t
clip(const char *options, size_t items, const float *gradient, double norm)
{
    float loss[2] = {3.f, 8.f}, words[WORDS], none[SQUARES + 1] = {0};
    yki_buffer *step = step_values(0.1f, 0.f, 0.f, 0), *parts;
    uint32_t good, bits;
    call run = begin("update.cl", options, "yki_step_count", 1);

    pass_buffer(&run, floats(2, loss));
    pass_buffer(&run, step);
    launch(&run, 1);

    parts = floats(SQUARES + 1, none);
    run = begin("update.cl", options, "yki_norm_part", items);
    pass_buffer(&run, floats(COUNT, gradient));
    pass_buffer(&run, parts);
    pass_int(&run, COUNT / 16);
    pass_int(&run, SQUARES);
    pass_int(&run, 1);
    launch(&run, 3);
    run = begin("update.cl", options, "yki_norm_finish", items);
    pass_buffer(&run, parts);
    pass_int(&run, SQUARES + 1);
    pass_buffer(&run, step);
    pass_float(&run, 1.f);
    launch(&run, 1);

    ASSERT_OK(yki_buffer_get(step, 0, sizeof words, words));
    memcpy(&good, &words[12], sizeof good);
    ck_assert_uint_eq(good, 1);
    ck_assert_float_eq(words[10], 0.0625f);
    ck_assert_double_gt(norm, 1);
    ck_assert_double_eq_tol((double)words[11], 1 / (norm + 1e-6), 1e-6);
    memcpy(&bits, &words[11], sizeof bits);
    return bits;
}

START_TEST(count_and_norm_are_found)
{
    float gradient[COUNT];
    double sum = 0;

    open_device();
    ramp(gradient, COUNT, -2.f, 0.07f);
    for (int i = 0; i < COUNT; i++)
        sum += (double)gradient[i] * (double)gradient[i];
    ck_assert_uint_eq(clip("-DVEC=16 -DWG=1", 1, gradient, sqrt(sum) / 16),
                      clip("-DVEC=4 -DWG=64", 64, gradient, sqrt(sum) / 16));
    close_device();
}
END_TEST

/* After step 0 the average is the value, after step 1 a tenth of it stays, and after a step that
 * was not good all does. */
START_TEST(averages_follow_and_change_places)
{
    static const uint32_t turns[][2] = {{1, 1}, {2, 1}, {2, 0}}; /* number of the step, good */
    yki_buffer *values, *averages;
    float value[COUNT], average[COUNT];
    double wanted[COUNT], own[COUNT];
    call run;

    open_device();
    ramp(value, COUNT, -1.f, 0.03f);
    ramp(average, COUNT, 4.f, 0.07f);
    values = floats(COUNT, value);
    for (size_t k = 0; k < YKI_COUNT(turns); k++) {
        uint32_t step[16] = {[0] = turns[k][0], [12] = turns[k][1]};

        averages = floats(COUNT, average);
        run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_average", 1);
        pass_buffer(&run, values);
        pass_buffer(&run, averages);
        pass_buffer(&run, buffer(sizeof step, step));
        pass_int(&run, COUNT / 16);
        pass_float(&run, 0.6f);
        launch(&run, 2);
        for (int i = 0; i < COUNT; i++) {
            const double d = k == 0 ? 0 : k == 1 ? 0.1 : 1;

            own[i] = (double)value[i];
            wanted[i] = own[i] + d * ((double)average[i] - own[i]);
        }
        expect(averages, wanted, COUNT, "average");
    }
    run = begin("update.cl", "-DVEC=16 -DWG=1", "yki_exchange", 1);
    pass_buffer(&run, values);
    pass_buffer(&run, averages);
    pass_int(&run, COUNT / 16);
    launch(&run, 2);
    expect(values, wanted, COUNT, "average in place of the value");
    expect(averages, own, COUNT, "value in place of the average");
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
        call run = begin("update.cl", _i ? "-DVEC=4 -DWG=64" : "-DVEC=16 -DWG=1",
                         "yki_commit_running", _i ? 64 : 1);
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

Suite *
test_suite(void)
{
    Suite *suite = suite_create("update kernels");
    TCase *tcase = test_case(suite, "update");
    const bool in_short = test_in_short();
    /* There of what is the same in all optimizers one has it. */
    const int all = in_short ? 1 : (int)YKI_COUNT(optimizers);

    tcase_add_loop_test(tcase, optimizers_do_a_step, 0, YKI_COUNT(optimizers));
    tcase_add_loop_test(tcase, a_bad_step_changes_nothing, 0, all);
    tcase_add_loop_test(tcase, a_small_state_is_rounded_at_random, in_short ? 1 : 0,
                        in_short ? 2 : (int)YKI_COUNT(optimizers));
    tcase_add_test(tcase, rounding_is_right_on_average);
    tcase_add_test(tcase, what_cannot_be_rounded_stays);
    tcase_add_loop_test(tcase, small_numbers_are_the_same_everywhere, 0, all);
    tcase_add_loop_test(tcase, quotients_and_roots_are_rounded_once, in_short ? 2 : 0,
                        (int)YKI_COUNT(inexact) - (in_short ? 1 : 0));
    tcase_add_test(tcase, count_and_norm_are_found);
    tcase_add_loop_test(tcase, late_parts_are_added, 0, 2);
    tcase_add_test(tcase, a_state_is_committed_when_the_step_is_good);
    tcase_add_test(tcase, averages_follow_and_change_places);
    tcase_add_loop_test(tcase, running_statistics_are_taken_up, 0, 2);
    return suite;
}
