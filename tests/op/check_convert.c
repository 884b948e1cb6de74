/* SPDX-License-Identifier: Apache-2.0
 *
 * check_convert.c - floats as bfloat16 and as half, and back, to the last bit: all 65536 of each
 * type as floats, and floats at, between and beside them.
 *
 * What is expected is computed in double, by the definition of the types.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "op/alone.h"

enum { NUMBERS = 65536, SAMPLES = 3, MOST = 3 * NUMBERS };

/* A type: bits of the significand, the last place of its smallest numbers, and its largest one. */
typedef struct narrow {
    yoke_type type;
    int bits, least;
    double most;
} narrow;

static const narrow kinds[] = {{YKI_TYPE_BF16, 8, -133, 0x1.fep127},
                               {YKI_TYPE_F16, 11, -24, 65504}};

static uint16_t narrowed[MOST];
static float whole[MOST], back[MOST];

static float
float_of(uint32_t bits)
{
    float x;

    memcpy(&x, &bits, sizeof x);
    return x;
}

static uint32_t
bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The number that 16 bits are. */
static double
value_of(const narrow *k, uint16_t bits)
{
    const int exponent = (bits & 0x7fff) >> (k->bits - 1), rest = bits & ((1 << (k->bits - 1)) - 1);
    const int largest = (1 << (16 - k->bits)) - 1;
    double size;

    if (exponent == largest)
        size = rest ? NAN : INFINITY;
    else if (exponent == 0)
        size = ldexp(rest, k->least);
    else
        size = ldexp(rest + (1 << (k->bits - 1)), k->least + exponent - 1);
    return bits & 0x8000 ? -size : size;
}

/* The number of a type that is kept for a float. */
static double
nearest(const narrow *k, float x)
{
    int exponent;
    double unit, y;

    if (isnan(x) || isinf(x))
        return (double)x;
    (void)frexp((double)x, &exponent);
    unit = ldexp(1, YKI_MAX(exponent - k->bits, k->least));
    y = nearbyint((double)x / unit) * unit; /* of two as near the even one */
    return fabs(y) > k->most ? copysign(INFINITY, y) : y;
}

static bool
is_same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static yki_operand
tensor(yoke_type type, yoke_shape shape, uint32_t block)
{
    yki_operand operand = alone_tensor(type, true, shape);

    operand.layout.block = block;
    return operand;
}

static void
widen(yoke_type type, yoke_shape shape, uint32_t block, uint16_t *in, float *out)
{
    const yki_problem p = {.op = &yki_op_widen,
                           .input_count = 1,
                           .in = {tensor(type, shape, block)},
                           .out = tensor(YOKE_F32, shape, block),
                           .max.batch = SAMPLES};

    alone_run(&p, 0, SAMPLES, (void *[]){in, out});
}

/* What is kept is also given as floats. */
static void
narrow_to(yoke_type type, yoke_shape shape, uint32_t block, float *in, float *out, uint16_t *kept)
{
    const yki_problem p = {.op = &yki_op_narrow,
                           .input_count = 1,
                           .in = {tensor(YOKE_F32, shape, block)},
                           .out = tensor(YOKE_F32, shape, block),
                           .extra_count = 1,
                           .extra = {tensor(type, shape, block)},
                           .max.batch = SAMPLES};

    alone_run(&p, 0, SAMPLES, (void *[]){in, out, kept});
}

/* Numbers of a type are floats, and become themselves again. */
START_TEST(every_number_comes_back)
{
    const narrow *k = &kinds[_i];
    const yoke_shape shape = yoke_shape(NUMBERS / 2);

    for (uint32_t i = 0; i < MOST / 2; i++)
        narrowed[i] = (uint16_t)(i + (i >= NUMBERS));
    widen(k->type, shape, 1, narrowed, whole);
    for (uint32_t i = 0; i < MOST / 2; i++)
        ck_assert_msg(is_same((double)whole[i], value_of(k, narrowed[i])),
                      "%s 0x%04x is %.9g, should be %.9g", yki_value_type_name(k->type),
                      narrowed[i], (double)whole[i], value_of(k, narrowed[i]));
    narrow_to(k->type, shape, 1, whole, back, narrowed);
    for (uint32_t i = 0; i < MOST / 2; i++)
        ck_assert_msg(is_same((double)whole[i], value_of(k, narrowed[i])),
                      "%s: %.9g comes back as %.9g", yki_value_type_name(k->type), (double)whole[i],
                      value_of(k, narrowed[i]));
}
END_TEST

/* Floats between two numbers: the middle, and what is beside it; then any floats. An odd count, so
 * that some are behind the vectors, and a layout with gaps. */
START_TEST(the_nearest_is_kept)
{
    const narrow *k = &kinds[_i];
    const yoke_shape shapes[] = {yoke_shape(NUMBERS - 5), yoke_shape(5, 1021)};
    const uint32_t middle = 1u << (24 - k->bits - 1), step = 2 * middle;

    for (size_t s = 0; s < YKI_COUNT(shapes); s++) {
        const uint32_t block = s == 0 ? 1 : 8;
        const int64_t each = s == 0 ? NUMBERS - 5 : (int64_t)8 * 1021;

        for (uint32_t i = 0; i < SAMPLES * each; i++) {
            const uint32_t at = (i / 4 * 2654435761u) / step * step;
            const uint32_t beside[] = {at + middle - 1, at + middle, at + middle + 1, at * 40503u};

            whole[i] = float_of(beside[i % 4]);
            if (fabsf(whole[i]) < 0x1p-126f)
                whole[i] = 0; /* which devices may take it for */
        }
        whole[0] = k->type == YKI_TYPE_F16 ? 65519 : FLT_MAX;
        whole[1] = k->type == YKI_TYPE_F16 ? -65520 : -FLT_MAX;
        whole[2] = k->type == YKI_TYPE_F16 ? 1e30f : 1;
        whole[3] = INFINITY;
        whole[4] = -INFINITY;
        whole[5] = float_of(0x7f800001u);
        narrow_to(k->type, shapes[s], block, whole, back, narrowed);
        for (int64_t i = 0; i < SAMPLES * each; i++)
            ck_assert_msg(is_same(nearest(k, whole[i]), value_of(k, narrowed[i])),
                          "%s: %.9g (0x%08x) is kept as %.9g, should be %.9g",
                          yki_value_type_name(k->type), (double)whole[i], bits_of(whole[i]),
                          value_of(k, narrowed[i]), nearest(k, whole[i]));
        for (int64_t i = 0; i < SAMPLES * each; i++)
            ck_assert_msg(is_same((double)back[i], value_of(k, narrowed[i])), "%s 0x%04x is %.9g",
                          yki_value_type_name(k->type), narrowed[i], (double)back[i]);
    }
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("convert");
    TCase *tcase = test_case(suite, "convert");

    tcase_add_checked_fixture(tcase, alone_open, alone_close);
    tcase_add_loop_test(tcase, every_number_comes_back, 0, YKI_COUNT(kinds));
    tcase_add_loop_test(tcase, the_nearest_is_kept, 0, YKI_COUNT(kinds));
    return suite;
}
