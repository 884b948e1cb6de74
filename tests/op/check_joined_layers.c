/* SPDX-License-Identifier: Apache-2.0
 *
 * check_joined_layers.c - operators with several results, which only fusions make, of convolutions
 * and norms: a convolution with its pooling, a norm with its statistics, both gradients of a
 * convolution, and a convolution with the statistics of a norm. Each is run alone; the others are
 * in check_joined.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op/alone.h"

/* ---- a convolution with its pooling ---- */

typedef struct pooled {
    int width; /* lanes */
    bool blocked, max, relu, bias;
    int c, h, w, o, kernel, stride, pad, dilation;
} pooled;

static const pooled pooled_layers[] = {
    {16, true, true, true, true, 1, 9, 8, 20, 3, 1, 1, 1},
    {16, false, false, true, true, 3, 5, 19, 33, 3, 1, 1, 1},
    {16, false, true, true, true, 2, 10, 13, 17, 3, 2, 1, 1},
    {16, false, true, false, false, 2, 8, 9, 5, 2, 1, 0, 3},
    {8, true, false, true, false, 1, 9, 10, 9, 5, 1, 2, 1},
    {8, false, true, true, true, 1, 4, 20, 18, 3, 1, 0, 1},
    {4, true, true, true, true, 2, 6, 11, 6, 3, 1, 1, 1},
    {4, false, false, true, true, 4, 5, 6, 3, 3, 1, 1, 1},
};

enum { SAMPLES = 5, MOST_IMAGE = 400, MOST_SMALL = 1600, MOST_TAPS = 1000 };

/* All are multiples of 1/8 and so small that no sum is rounded. */
typedef struct pooled_data {
    float x[SAMPLES * MOST_IMAGE], weight[MOST_TAPS], bias[64], dy[SAMPLES * MOST_SMALL];
    float y[SAMPLES * MOST_SMALL], dw[MOST_TAPS], db[64];
    float wanted_y[SAMPLES * MOST_SMALL], wanted_dw[MOST_TAPS], wanted_db[64];
} pooled_data;

static int
pooled_size(const pooled *l, int size)
{
    return ((size + 2 * l->pad - l->dilation * (l->kernel - 1) - 1) / l->stride + 1) / 2;
}

/* Where channel o, position (i, j) of sample n lies in what is pooled. */
static size_t
pooled_at(const pooled *l, int n, int o, int i, int j)
{
    int block = l->blocked ? l->width : 1, blocks = (l->o + block - 1) / block;
    int oh = pooled_size(l, l->h), ow = pooled_size(l, l->w);

    return (size_t)((((n * blocks + o / block) * oh + i) * ow + j) * block + o % block);
}

static size_t
tap_at(const pooled *l, int o, int c, int r, int s)
{
    return (size_t)(((o * l->c + c) * l->kernel + r) * l->kernel + s);
}

/* The element of x that meets tap (r, s) at (i, j) of the convolution; NULL: padding. */
static const float *
met(const pooled *l, const pooled_data *d, int n, int c, int i, int j, int r, int s)
{
    int y = i * l->stride - l->pad + r * l->dilation, x = j * l->stride - l->pad + s * l->dilation;

    return y < 0 || y >= l->h || x < 0 || x >= l->w ? NULL
                                                    : &d->x[((n * l->c + c) * l->h + y) * l->w + x];
}

/* A pixel of the convolution; or, with a gradient g, what it adds to those of weights and bias. */
static float
pixel(const pooled *l, pooled_data *d, int n, int o, int i, int j, float g)
{
    float sum = l->bias ? d->bias[o] : 0;

    d->wanted_db[o] += g;
    for (int c = 0; c < l->c; c++)
        for (int r = 0; r < l->kernel; r++)
            for (int s = 0; s < l->kernel; s++) {
                const float *x = met(l, d, n, c, i, j, r, s);

                sum += x ? *x * d->weight[tap_at(l, o, c, r, s)] : 0;
                d->wanted_dw[tap_at(l, o, c, r, s)] += x ? *x * g : 0;
            }
    return l->relu && sum <= 0 ? 0 : sum;
}

static void
expect_window(const pooled *l, pooled_data *d, int n, int o, int i, int j)
{
    size_t at = pooled_at(l, n, o, i, j);
    float p[4], sum = 0, g = d->dy[at];
    int best = 0;

    for (int k = 0; k < 4; k++) {
        p[k] = pixel(l, d, n, o, 2 * i + k / 2, 2 * j + k % 2, 0);
        sum += p[k];
        if (p[k] > p[best] || isnan(p[k]))
            best = k;
    }
    d->wanted_y[at] = l->max ? p[best] : sum / 4;
    for (int k = 0; k < 4; k++)
        if (!(l->relu && p[k] <= 0) && (k == best || !l->max))
            (void)pixel(l, d, n, o, 2 * i + k / 2, 2 * j + k % 2, l->max ? g : g / 4);
}

static yki_problem
pooled_problem(const pooled *l, bool grad)
{
    const yki_conv_pooled_attrs attrs = {.conv = {.kernel = {l->kernel, l->kernel},
                                                  .stride = {l->stride, l->stride},
                                                  .pad = {l->pad, l->pad},
                                                  .dilation = {l->dilation, l->dilation},
                                                  .groups = 1,
                                                  .act = l->relu},
                                         .bias = l->bias,
                                         .max = l->max};
    const yki_operand weight =
        alone_tensor(YOKE_F32, false, yoke_shape(l->o, l->c, l->kernel, l->kernel));
    const yki_operand bias = alone_tensor(YOKE_F32, false, yoke_shape(l->o));
    yki_operand y =
        alone_tensor(YOKE_F32, true, yoke_shape(l->o, pooled_size(l, l->h), pooled_size(l, l->w)));
    yki_problem p = {.op = grad ? &yki_op_conv_pooled_grad : &yki_op_conv_pooled,
                     .max.batch = SAMPLES + 2};

    y.layout.block = l->blocked ? (uint32_t)l->width : 1;
    yki_conv_pooled_attrs_set(&p.attrs, &attrs);
    p.in[p.input_count++] = alone_tensor(YOKE_F32, true, yoke_shape(l->c, l->h, l->w));
    p.in[p.input_count++] = weight;
    if (l->bias)
        p.in[p.input_count++] = bias;
    if (grad)
        p.in[p.input_count++] = y;
    p.out = grad ? weight : y;
    if (grad && l->bias)
        p.extra[p.extra_count++] = bias;
    return p;
}

/* Multiples of `step`, from -4 to 4 of them. */
static void
fill_steps(float *values, size_t count, uint32_t stream, float step)
{
    for (size_t i = 0; i < count; i++)
        values[i] = ((float)(int)(op_uniform(7, stream, i) * 9) - 4) * step;
}

/* Notes what is expected, and compares the result. */
static void
check_windows(const pooled *l, pooled_data *d)
{
    yki_problem p = pooled_problem(l, false);
    void *with_bias[] = {d->x, d->weight, d->bias, d->y}, *without[] = {d->x, d->weight, d->y};

    alone_run(&p, 0, SAMPLES, l->bias ? with_bias : without);
    for (int n = 0; n < SAMPLES; n++)
        for (int o = 0; o < l->o; o++)
            for (int i = 0; i < pooled_size(l, l->h); i++)
                for (int j = 0; j < pooled_size(l, l->w); j++) {
                    size_t at = pooled_at(l, n, o, i, j);

                    expect_window(l, d, n, o, i, j);
                    ck_assert_msg(d->y[at] == d->wanted_y[at] ||
                                      (isnan(d->y[at]) && isnan(d->wanted_y[at])),
                                  "y[%d][%d][%d][%d] is %g instead of %g", n, o, i, j,
                                  (double)d->y[at], (double)d->wanted_y[at]);
                }
}

/* The result and the gradients, exactly; a maximum that comes twice gets its gradient once. No
 * samples give gradients of 0. A NaN stays one. */
START_TEST(a_convolution_joins_its_pooling)
{
    const pooled *l = &pooled_layers[_i];
    pooled_data *d = calloc(1, sizeof *d);
    yki_problem p = pooled_problem(l, true);
    void *with_bias[] = {d->x, d->weight, d->bias, d->dy, d->dw, d->db};
    void *without[] = {d->x, d->weight, d->dy, d->dw};

    if (!alone_vectors((uint32_t)l->width) || alone_traits.vector_width < (uint32_t)l->width) {
        free(d);
        TEST_NOT_HERE("a kernel for CPUs with vectors");
    }
    alone_traits.vector_width = (uint32_t)l->width;
    fill_steps(d->x, YKI_COUNT(d->x), 0, 0.5f);
    fill_steps(d->weight, YKI_COUNT(d->weight), 1, 0.25f);
    fill_steps(d->bias, YKI_COUNT(d->bias), 2, 0.25f);
    fill_steps(d->dy, YKI_COUNT(d->dy), 3, 0.5f);
    check_windows(l, d);
    alone_run(&p, 0, SAMPLES, l->bias ? with_bias : without);
    for (int i = 0; i < l->o * l->c * l->kernel * l->kernel; i++)
        ck_assert_float_eq(d->dw[i], d->wanted_dw[i]);
    for (int i = 0; i < l->o && l->bias; i++)
        ck_assert_float_eq(d->db[i], d->wanted_db[i]);
    alone_run(&p, 0, 0, l->bias ? with_bias : without);
    for (int i = 0; i < l->o * l->c * l->kernel * l->kernel; i++)
        ck_assert_float_eq(d->dw[i], 0);
    d->x[2 * l->w + 3] = NAN;
    check_windows(l, d);
    free(d);
}
END_TEST

/* ---- batch norm with its statistics ---- */

enum { NORM_SAMPLES = 9, MOST_CHANNELS = 35, MOST_VALUES = 2400 };

typedef struct norm_data {
    float x[MOST_VALUES], more[MOST_VALUES], y[MOST_VALUES], dx[MOST_VALUES];
    float gamma[MOST_CHANNELS], beta[MOST_CHANNELS], stats[3 * MOST_CHANNELS];
    float dgamma[MOST_CHANNELS], dbeta[MOST_CHANNELS];
} norm_data;

static yki_problem
norm_problem(const yki_op *op, yoke_shape shape, yki_bn_attrs a)
{
    yki_problem p = {.op = op, .max.batch = NORM_SAMPLES};

    yki_bn_attrs_set(&p.attrs, &a);
    p.out = alone_tensor(YOKE_F32, true, shape);
    p.in[p.input_count++] = p.out;
    return p;
}

static void
add_input(yki_problem *p, yoke_shape shape, bool batched)
{
    p->in[p->input_count++] = alone_tensor(YOKE_F32, batched, shape);
}

/* Statistics of the first four samples, of none, and of the others. */
static void
divide_statistics(const norm_data *d, int64_t c, int64_t area, float *parts)
{
    const int64_t begin[] = {0, 4, 4, NORM_SAMPLES};

    for (int64_t i = 0; i < 3 * c; i++) {
        const int64_t part = i / c, channel = i % c;
        const int64_t count = (begin[part + 1] - begin[part]) * area;
        double sum = 0, m2 = 0;

        for (int pass = 0; pass < 2; pass++)
            for (int64_t n = begin[part]; n < begin[part + 1]; n++)
                for (int64_t k = 0; k < area; k++) {
                    double x = (double)d->x[(n * c + channel) * area + k];

                    sum += pass == 0 ? x : 0;
                    m2 += pass == 1 ? (x - sum / (double)count) * (x - sum / (double)count) : 0;
                }
        parts[part * 3 * c + channel] = (float)count;
        parts[(part * 3 + 1) * c + channel] = count ? (float)(sum / (double)count) : 0;
        parts[(part * 3 + 2) * c + channel] = (float)m2;
    }
}

/* The same from parts that another launch gave. `d` has what the operators apart gave, `sums` those
 * of its gradient. */
static void
check_given_parts(const norm_data *d, const float *wanted_y, const float *wanted_dx,
                  const float *sums, yoke_shape shape, yki_bn_attrs forward, yki_bn_attrs backward)
{
    const yoke_shape channels = yoke_shape(shape.dim[0]);
    const int64_t c = shape.dim[0], count = NORM_SAMPLES * yki_shape_count(shape);
    float parts[9 * MOST_CHANNELS];
    norm_data *got = calloc(1, sizeof *got);
    yki_problem p = norm_problem(&yki_op_bn_apply_parts, shape, forward);

    *got = *d;
    divide_statistics(d, c, yki_shape_count(shape) / c, parts);
    add_input(&p, yoke_shape(3, 3, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    add_input(&p, shape, true);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, yoke_shape(3, c));
    alone_run(&p, 0, NORM_SAMPLES,
              (void *[]){got->x, parts, got->gamma, got->beta, got->more, got->y, got->stats});
    alone_near(got->stats, d->stats, 3 * c);
    alone_near(got->y, wanted_y, count);

    for (int64_t i = 0; i < 2 * c; i++) {
        parts[i] = 0.25f * sums[i];
        parts[2 * c + i] = 0.75f * sums[i];
    }
    p = norm_problem(&yki_op_bn_grad_parts, shape, backward);
    add_input(&p, shape, true);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, yoke_shape(2, 2, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, channels);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, channels);
    alone_run(&p, 0, NORM_SAMPLES,
              (void *[]){got->x, got->more, got->stats, parts, got->gamma, got->beta, got->dx,
                         got->dbeta, got->dgamma});
    alone_near(got->dbeta, sums, c);
    alone_near(got->dgamma, sums + c, c);
    alone_near(got->dx, wanted_dx, count);
    free(got);
}

/* Forward with a shortcut, backward with a gate, in one launch and in two, and from parts: what the
 * operators apart give, which the oracles hold (check_norm.c). */
START_TEST(a_norm_joins_its_statistics)
{
    const yoke_shape shapes[] = {yoke_shape(3, 8, 11), yoke_shape(2, 3, 7), yoke_shape(35)};
    yoke_shape shape = shapes[_i % 3], channels = yoke_shape(shape.dim[0]);
    int64_t c = shape.dim[0], count = NORM_SAMPLES * yki_shape_count(shape);
    yki_bn_attrs a = {.epsilon = 1e-3f, .affine = 1, .residual = 1}, none = {.epsilon = 1e-3f};
    yki_bn_attrs gated = {.epsilon = 1e-3f, .affine = 1, .act = YKI_BN_RELU};
    yki_problem p;
    norm_data *d, *e;

    if (alone_traits.type == YOKE_DEVICE_CPU && alone_traits.vector_width >= 4)
        TEST_NOT_HERE("only for devices whose work-items run side by side");
    d = calloc(2, sizeof *d);
    e = d + 1;
    for (int64_t i = 0; i < count; i++) {
        d->x[i] = (float)op_normal(1, 2, (uint64_t)i) + 3;
        d->more[i] = (float)op_normal(2, 2, (uint64_t)i);
    }
    for (int64_t i = 0; i < c; i++) {
        d->gamma[i] = (float)op_uniform(3, 2, (uint64_t)i) + 0.5f;
        d->beta[i] = (float)op_uniform(4, 2, (uint64_t)i);
    }
    p = norm_problem(&yki_op_bn_stats, shape, none);
    p.out = alone_tensor(YOKE_F32, false, yoke_shape(3, c));
    alone_run(&p, 0, NORM_SAMPLES, (void *[]){d->x, e->stats});
    p = norm_problem(&yki_op_bn_apply, shape, a);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    add_input(&p, shape, true);
    alone_run(&p, 0, NORM_SAMPLES, (void *[]){d->x, e->stats, d->gamma, d->beta, d->more, e->y});
    alone_last = _i >= 3;
    p = norm_problem(&yki_op_bn_layer, shape, a);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    add_input(&p, shape, true);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, yoke_shape(3, c));
    alone_run(&p, 0, NORM_SAMPLES, (void *[]){d->x, d->gamma, d->beta, d->more, d->y, d->stats});
    alone_near(d->stats, e->stats, 3 * c);
    alone_near(d->y, e->y, count);

    p = norm_problem(&yki_op_bn_grad_stats, shape, gated);
    add_input(&p, shape, true);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    p.out = alone_tensor(YOKE_F32, false, yoke_shape(2, c));
    alone_run(&p, 0, NORM_SAMPLES,
              (void *[]){d->x, d->more, d->stats, d->gamma, d->beta, e->stats});
    p.op = &yki_op_bn_layer_grad;
    p.out = p.in[0];
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, channels);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, channels);
    alone_run(&p, 0, NORM_SAMPLES,
              (void *[]){d->x, d->more, d->stats, d->gamma, d->beta, d->dx, d->dbeta, d->dgamma});
    alone_near(d->dbeta, e->stats, c);
    alone_near(d->dgamma, e->stats + c, c);
    p = norm_problem(&yki_op_bn_grad, shape, gated);
    add_input(&p, shape, true);
    add_input(&p, yoke_shape(3, c), false);
    add_input(&p, yoke_shape(2, c), false);
    add_input(&p, channels, false);
    add_input(&p, channels, false);
    alone_run(&p, 0, NORM_SAMPLES,
              (void *[]){d->x, d->more, d->stats, e->stats, d->gamma, d->beta, e->dx});
    alone_near(d->dx, e->dx, count);
    alone_last = false;
    check_given_parts(d, e->y, e->dx, e->stats, shape, a, gated);
    free(d);
}
END_TEST

/* ---- the gradients of a layer norm ---- */

typedef struct layer {
    int rows, width; /* rows of a sample */
    bool rms;
} layer;

/* Rows of one vector and of many, in floats and in fours; more rows than are done at a time, which
 * is also by one group for a device of one unit; and so wide that an item keeps more. */
static const layer layers[] = {
    {9, 8, false}, {3, 35, true}, {40, 12, true}, {5, 131, false}, {2, 260, true}, {1, 800, false},
};
enum { LAYER_SAMPLES = 4, LAYER_VALUES = 4000, LAYER_WIDTH = 800 };

typedef struct layer_data {
    float x[LAYER_VALUES], dy[LAYER_VALUES], dx[LAYER_VALUES], wanted_dx[LAYER_VALUES];
    float gamma[LAYER_WIDTH], dgamma[LAYER_WIDTH], dbeta[LAYER_WIDTH], sums[2 * LAYER_WIDTH];
} layer_data;

/* What the operators apart give, which the oracles hold (check_rows.c), for several samples and for
 * none. */
START_TEST(a_layer_norm_joins_its_gradients)
{
    const layer *l = &layers[_i % (int)YKI_COUNT(layers)];
    const yoke_shape shape = yoke_shape(l->rows, l->width), inner = yoke_shape(l->width);
    yki_ln_attrs a = {.epsilon = 1e-3f, .axes = 1, .affine = 1, .rms = l->rms};
    yki_problem p = norm_problem(&yki_op_layer_norm_grad, shape, (yki_bn_attrs){0});
    const int64_t n = _i >= 2 * (int)YKI_COUNT(layers) ? 0 : LAYER_SAMPLES;
    layer_data *d = calloc(1, sizeof *d);
    void *values[6] = {d->x, d->dy, d->gamma, d->dx, d->dbeta, d->dgamma};

    if (alone_traits.type == YOKE_DEVICE_CPU && alone_traits.vector_width >= 4) {
        free(d);
        TEST_NOT_HERE("only for devices whose work-items run side by side");
    }
    if (_i >= (int)YKI_COUNT(layers))
        alone_traits.compute_units = 1;
    alone_fill(d->x, LAYER_VALUES, 0);
    alone_fill(d->dy, LAYER_VALUES, 1);
    alone_fill(d->gamma, LAYER_WIDTH, 2);
    p.attrs = (yki_attrs){0};
    yki_ln_attrs_set(&p.attrs, &a);
    add_input(&p, shape, true);
    add_input(&p, inner, false);
    alone_run(&p, 0, n, (void *[]){d->x, d->dy, d->gamma, d->wanted_dx});
    p.op = &yki_op_layer_norm_grads;
    if (l->rms)
        values[4] = d->dgamma;
    for (int i = 0; i < 2 - l->rms; i++)
        p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, inner);
    alone_run(&p, 0, n, values);
    p.op = &yki_op_layer_norm_grad_params;
    p.input_count = 2;
    p.extra_count = 0;
    p.out = l->rms ? p.extra[0] : alone_tensor(YOKE_F32, false, yoke_shape(2, l->width));
    alone_run(&p, 0, n, (void *[]){d->x, d->dy, d->sums});
    alone_near(d->dx, d->wanted_dx, n * l->rows * l->width);
    alone_near(d->dgamma, d->sums + (l->rms ? 0 : l->width), l->width);
    if (!l->rms)
        alone_near(d->dbeta, d->sums, l->width);
    free(d);
}
END_TEST

/* ---- both gradients of a convolution ---- */

typedef struct conv_layer {
    int64_t c, h, w, o, batch;
} conv_layer;

/* Tiles that are cut, rows that are vectors and not, so small that simulators can run them; and
 * tiles enough for two parts of the sums. */
static const conv_layer conv_layers[] = {{33, 5, 6, 40, 5}, {32, 4, 8, 34, 9}, {32, 4, 3, 33, 130}};
enum { CONV_VALUES = 52000, CONV_ACTS = 3 };

typedef struct conv_data {
    float x[CONV_VALUES], dy[CONV_VALUES], w[CONV_VALUES], other[CONV_VALUES], gate[CONV_VALUES];
    float dx[CONV_VALUES], dw[CONV_VALUES], alone_dx[CONV_VALUES], alone_dw[CONV_VALUES];
} conv_data;

static yki_problem
conv_problem(const yki_op *op, const conv_layer *l, yki_conv_act act)
{
    yki_conv_attrs a = {.kernel = {3, 3},
                        .stride = {1, 1},
                        .pad = {1, 1},
                        .dilation = {1, 1},
                        .groups = 1,
                        .act = act};
    const yki_operand x = alone_tensor(YOKE_F32, true, yoke_shape(l->c, l->h, l->w));
    const yki_operand dy = alone_tensor(YOKE_F32, true, yoke_shape(l->o, l->h, l->w));
    const yki_operand weight = alone_tensor(YOKE_F32, false, yoke_shape(l->o, l->c, 3, 3));
    yki_problem p = {.op = op, .max.batch = l->batch + 2};

    if (op != &yki_op_conv2d_grad_input)
        p.in[p.input_count++] = x;
    else
        a.size[0] = (int32_t)l->h, a.size[1] = (int32_t)l->w;
    if (op != &yki_op_conv2d)
        p.in[p.input_count++] = dy;
    if (op != &yki_op_conv2d_grad_weight)
        p.in[p.input_count++] = weight;
    for (int k = YKI_CONV_ACT_SUM; k <= (int)act; k++)
        p.in[p.input_count++] = x;
    p.out = op == &yki_op_conv2d_grad_weight ? weight : op == &yki_op_conv2d ? dy : x;
    if (op == &yki_op_conv2d_grads)
        p.extra[p.extra_count++] = weight;
    yki_conv_attrs_set(&p.attrs, &a);
    return p;
}

/* A simulator takes too long for many samples. */
static int64_t
samples_of(const conv_layer *l)
{
    return op_on_simulator() ? l->batch > 100 ? 1 : 2 : l->batch;
}

/* By every block of the product: the bits of the two apart, which the oracles hold
 * (check_winograd.c), where sums have as many parts; and those of a sum and a gate behind them. */
START_TEST(gradients_of_a_convolution_join)
{
    const conv_layer *l = &conv_layers[_i / CONV_ACTS];
    const yki_conv_act acts[] = {YKI_CONV_ACT_NONE, YKI_CONV_ACT_SUM, YKI_CONV_ACT_GATED_SUM};
    const yki_conv_act act = acts[_i % CONV_ACTS];
    const int64_t samples = samples_of(l), count = samples * l->c * l->h * l->w;
    unsigned tunings;
    yki_problem p;
    conv_data *d;

    /* Each layer, each act and each block of the product once. */
    if (op_on_simulator() &&
        (l->batch > 100 || (l == &conv_layers[1]) != (act == YKI_CONV_ACT_SUM)))
        TEST_NOT_HERE("too long for a simulator");
    d = calloc(1, sizeof *d);
    alone_traits.compute_units = 64;
    alone_fill(d->x, CONV_VALUES, 0);
    alone_fill(d->dy, CONV_VALUES, 1);
    alone_fill(d->w, CONV_VALUES, 2);
    alone_fill(d->other, CONV_VALUES, 3);
    alone_fill(d->gate, CONV_VALUES, 4);
    alone_only = "winograd4-tiles";
    p = conv_problem(&yki_op_conv2d_grad_input, l, YKI_CONV_ACT_NONE);
    alone_run(&p, 0, samples, (void *[]){d->dy, d->w, d->alone_dx});
    p = conv_problem(&yki_op_conv2d_grad_weight, l, YKI_CONV_ACT_NONE);
    alone_run(&p, 0, samples, (void *[]){d->x, d->dy, d->alone_dw});
    for (int64_t i = 0; i < count && act != YKI_CONV_ACT_NONE; i++) {
        d->alone_dx[i] += d->other[i];
        if (act == YKI_CONV_ACT_GATED_SUM && d->gate[i] <= 0)
            d->alone_dx[i] = 0;
    }
    p = conv_problem(&yki_op_conv2d_grads, l, act);
    tunings = alone_solver(&p, false)->tunings(&p, &alone_traits);
    if (op_on_simulator() && act != YKI_CONV_ACT_NONE)
        tunings = 1;
    for (unsigned tuning = 0; tuning < tunings; tuning++) {
        void *values[] = {d->x, d->dy, d->w, d->other, d->gate, d->dx, d->dw};

        values[p.input_count] = d->dx;
        values[p.input_count + 1] = d->dw;
        alone_run(&p, tuning, samples, values);
        ck_assert_msg(memcmp(d->dx, d->alone_dx, (size_t)count * sizeof *d->dx) == 0,
                      "dx, tuning %u", tuning);
        alone_near(d->dw, d->alone_dw, l->o * l->c * 9);
    }
    free(d);
}
END_TEST

/* The same of the gradient by the input alone, as a product of tiles. */
START_TEST(a_gradient_of_a_convolution_joins_its_sum)
{
    const conv_layer *l = &conv_layers[_i / 2];
    const yki_conv_act act = _i % 2 ? YKI_CONV_ACT_GATED_SUM : YKI_CONV_ACT_SUM;
    const int64_t count = l->batch * l->c * l->h * l->w;
    yki_problem p;
    conv_data *d = calloc(1, sizeof *d);

    alone_traits.compute_units = 1; /* many would divide the sum; with others behind it, none do */
    alone_fill(d->dy, CONV_VALUES, 1);
    alone_fill(d->w, CONV_VALUES, 2);
    alone_fill(d->other, CONV_VALUES, 3);
    alone_fill(d->gate, CONV_VALUES, 4);
    alone_only = "grad-input-plain";
    p = conv_problem(&yki_op_conv2d_grad_input, l, YKI_CONV_ACT_NONE);
    alone_run(&p, 0, l->batch, (void *[]){d->dy, d->w, d->alone_dx});
    p = conv_problem(&yki_op_conv2d_grad_input, l, act);
    if (p.input_count == 4)
        alone_run(&p, 0, l->batch, (void *[]){d->dy, d->w, d->other, d->gate, d->dx});
    else
        alone_run(&p, 0, l->batch, (void *[]){d->dy, d->w, d->other, d->dx});
    for (int64_t i = 0; i < count; i++) {
        float sum = d->alone_dx[i] + d->other[i];

        ck_assert(d->dx[i] == (act == YKI_CONV_ACT_GATED_SUM && d->gate[i] <= 0 ? 0 : sum));
    }
    free(d);
}
END_TEST

/* ---- parts of what a norm behind a convolution needs ---- */

enum { MOST_PARTS = 8 * 3 * 40 };

/* So many tiles are several strips: then most of them are beyond the batch. */
static yki_problem
problem_with_strips(const yki_op *op, const conv_layer *l, yki_conv_act act)
{
    yki_problem p = conv_problem(op, l, act);

    if (l->batch > 100)
        p.max.batch = 3 * l->batch;
    return p;
}

/* Whether the parts of no samples are zeros. */
static void
check_empty_parts(const yki_problem *p, void *const *values)
{
    const uint32_t last = yki_problem_operands(p) - 1;
    const int64_t count = yki_shape_count(yki_problem_operand(p, last)->shape);

    alone_run(p, 0, 0, values);
    for (int64_t i = 0; i < count; i++)
        ck_assert(((const float *)values[last])[i] == 0);
}

/* What numbers of a channel are, whose first one is `from` and which lie in pieces of `area`. */
static void
channel_statistics(const float *from, int64_t samples, int64_t step, int64_t area, double s[3])
{
    s[0] = (double)(samples * area), s[1] = s[2] = 0;
    for (int64_t i = 0; i < samples * area; i++)
        s[1] += (double)from[i / area * step + i % area] / s[0];
    for (int64_t i = 0; i < samples * area; i++) {
        double d = (double)from[i / area * step + i % area] - s[1];

        s[2] += d * d;
    }
}

/* The parts together have the statistics of y, also where they are small beside the mean. Those of
 * strips beyond the batch are empty. */
START_TEST(a_convolution_gives_statistics)
{
    const conv_layer *l = &conv_layers[_i];
    const int64_t area = l->h * l->w, samples = samples_of(l), count = samples * l->o * area;
    float parts[MOST_PARTS], bias[64];
    int64_t strips;
    yki_problem p;
    conv_data *d = calloc(1, sizeof *d);

    alone_fill(d->x, CONV_VALUES, 0);
    alone_fill(d->w, CONV_VALUES, 1);
    for (int64_t i = 0; i < l->o; i++)
        bias[i] = 300 + (float)i;
    p = problem_with_strips(&yki_op_conv2d, l, YKI_CONV_ACT_NONE);
    p.in[p.input_count++] = alone_tensor(YOKE_F32, false, yoke_shape(l->o));
    p.repacks = true; /* else weights are transformed before it */
    alone_only = "winograd4-tiles";
    alone_run(&p, 0, samples, (void *[]){d->x, d->w, bias, d->alone_dx});
    p.op = &yki_op_conv2d_parts;
    strips = alone_solver(&p, false)->parts(&p, &alone_traits);
    ck_assert_int_le(strips * 3 * l->o, MOST_PARTS);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, yoke_shape(strips, 3, l->o));
    alone_run(&p, 0, samples, (void *[]){d->x, d->w, bias, d->dx, parts});
    ck_assert(memcmp(d->dx, d->alone_dx, (size_t)count * sizeof *d->dx) == 0);
    for (int64_t c = 0; c < l->o; c++) {
        double wanted[3], n = 0, mean = 0, m2 = 0;

        channel_statistics(d->dx + c * area, samples, l->o * area, area, wanted);
        for (int64_t s = 0; s < strips; s++) {
            const double m = (double)parts[s * 3 * l->o + c];
            const double delta = (double)parts[(s * 3 + 1) * l->o + c] - mean;

            m2 += (double)parts[(s * 3 + 2) * l->o + c];
            if (m == 0)
                continue;
            m2 += delta * delta * n * m / (n + m);
            mean += delta * m / (n + m);
            n += m;
        }
        ck_assert_double_eq(n, wanted[0]);
        ck_assert_double_eq_tol(mean, wanted[1], 1e-6 * wanted[1]);
        ck_assert_double_eq_tol(m2, wanted[2], 1e-4 * wanted[2]);
    }
    check_empty_parts(&p, (void *[]){d->x, d->w, bias, d->dx, parts});
    free(d);
}
END_TEST

/* Of each layer: norms without relu, with it, and with it but without parameters; with another
 * gradient and without. */
enum { SUMS = 6 };

/* The parts together are the sums of the gradients, gated where the norm's result is not above 0,
 * and of their products with the normalised x. */
START_TEST(gradients_of_a_convolution_give_sums)
{
    const conv_layer *l = &conv_layers[_i / SUMS];
    const bool gates = _i % 3 > 0, affine = _i % 3 < 2;
    const yki_conv_act act = _i % SUMS < 3 ? YKI_CONV_ACT_NONE : YKI_CONV_ACT_SUM;
    const int64_t area = l->h * l->w, samples = samples_of(l), count = samples * l->c * area;
    const yki_operand channels = alone_tensor(YOKE_F32, false, yoke_shape(l->c));
    yki_conv_parts_attrs attrs = {.norm_act = gates, .norm_affine = affine, .epsilon = 1e-3f};
    float parts[MOST_PARTS], stats[3 * 64], gamma[64], beta[64];
    void *values[12];
    uint32_t k = 0;
    int64_t strips;
    yki_problem p;
    conv_data *d;

    /* Of the ways to add, one each. */
    if (op_on_simulator() && _i != 4 && _i != 2 * SUMS)
        TEST_NOT_HERE("too long for a simulator");
    d = calloc(1, sizeof *d);
    alone_fill(d->x, CONV_VALUES, 0);
    alone_fill(d->dy, CONV_VALUES, 1);
    alone_fill(d->w, CONV_VALUES, 2);
    alone_fill(d->other, CONV_VALUES, 3);
    alone_fill(d->gate, CONV_VALUES, 4); /* the norm's x */
    alone_fill(gamma, 64, 5);
    alone_fill(beta, 64, 6);
    for (int64_t c = 0; c < l->c; c++) {
        double s[3];

        if (!affine)
            gamma[c] = 1, beta[c] = 0;
        channel_statistics(d->gate + c * area, samples, l->c * area, area, s);
        for (int r = 0; r < 3; r++)
            stats[r * l->c + c] = (float)s[r];
    }
    alone_only = "winograd4-tiles";
    p = problem_with_strips(&yki_op_conv2d_grads, l, act);
    values[k++] = d->x, values[k++] = d->dy, values[k++] = d->w;
    if (act == YKI_CONV_ACT_SUM)
        values[k++] = d->other;
    values[k] = d->alone_dx, values[k + 1] = d->alone_dw;
    alone_run(&p, 0, samples, values);
    p.op = &yki_op_conv2d_grads_parts;
    attrs.conv = yki_conv_attrs_get(&p.attrs);
    yki_conv_parts_attrs_set(&p.attrs, &attrs);
    p.in[p.input_count++] = p.in[0];
    p.in[p.input_count++] = alone_tensor(YOKE_F32, false, yoke_shape(3, l->c));
    values[k++] = d->gate, values[k++] = stats;
    if (gates && affine) {
        p.in[p.input_count++] = channels;
        p.in[p.input_count++] = channels;
        values[k++] = gamma, values[k++] = beta;
    }
    strips = alone_solver(&p, false)->parts(&p, &alone_traits);
    ck_assert_int_le(strips * 2 * l->c, MOST_PARTS);
    p.extra[p.extra_count++] = alone_tensor(YOKE_F32, false, yoke_shape(strips, 2, l->c));
    values[k++] = d->dx, values[k++] = d->dw, values[k++] = parts;
    alone_run(&p, 0, samples, values);
    ck_assert(memcmp(d->dx, d->alone_dx, (size_t)count * sizeof *d->dx) == 0);
    ck_assert(memcmp(d->dw, d->alone_dw, (size_t)(l->o * l->c * 9) * sizeof *d->dw) == 0);
    for (int64_t c = 0; c < l->c; c++) {
        const float inverse = 1 / sqrtf(stats[2 * l->c + c] / stats[c] + attrs.epsilon);
        double wanted[2] = {0}, got[2] = {0}, size[2] = {0};

        for (int64_t i = 0; i < samples * area; i++) {
            const int64_t at = (i / area * l->c + c) * area + i % area;
            const float e = d->gate[at] - stats[l->c + c];
            const double g =
                gates && fmaf(e, inverse * gamma[c], beta[c]) <= 0 ? 0 : (double)d->dx[at];

            wanted[0] += g, size[0] += fabs(g);
            wanted[1] += g * (double)(e * inverse), size[1] += fabs(g * (double)(e * inverse));
        }
        for (int64_t s = 0; s < strips; s++)
            for (int r = 0; r < 2; r++)
                got[r] += (double)parts[(s * 2 + r) * l->c + c];
        for (int r = 0; r < 2; r++)
            ck_assert_double_le(fabs(got[r] - wanted[r]), 1e-6 * size[r]);
    }
    check_empty_parts(&p, values);
    free(d);
}
END_TEST

/* A norm would take long to join more than 256 parts. */
START_TEST(many_strips_give_no_parts)
{
    static const yki_op *const ops[][2] = {{&yki_op_conv2d, &yki_op_conv2d_parts},
                                           {&yki_op_conv2d_grads, &yki_op_conv2d_grads_parts}};
    const conv_layer *l = &conv_layers[2]; /* a tile each sample */
    yki_problem p = conv_problem(ops[_i][0], l, YKI_CONV_ACT_NONE);
    const yki_solver *solver;

    p.op = ops[_i][1];
    alone_only = "winograd4-tiles";
    alone_traits.max_group = 256;
    alone_traits.memory = alone_traits.max_allocation = UINT64_C(1) << 40;
    solver = alone_solver(&p, false);
    p.max.batch = 256 * 128;
    ck_assert_int_eq(solver->parts(&p, &alone_traits), 256);
    ck_assert(solver->applies(&p, &alone_traits));
    p.max.batch++;
    ck_assert_int_eq(solver->parts(&p, &alone_traits), 257);
    ck_assert(!solver->applies(&p, &alone_traits));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("joined layers");
    TCase *tcase = test_case(suite, "joined");

    tcase_add_checked_fixture(tcase, alone_open, alone_close);
    tcase_add_loop_test(tcase, a_norm_joins_its_statistics, 0, 6);
    tcase_add_loop_test(tcase, a_layer_norm_joins_its_gradients, 0, 3 * (int)YKI_COUNT(layers));
    tcase_add_loop_test(tcase, gradients_of_a_convolution_join, 0,
                        CONV_ACTS * (int)YKI_COUNT(conv_layers));
    tcase_add_loop_test(tcase, a_gradient_of_a_convolution_joins_its_sum, 0, 4);
    tcase = test_case(suite, "parts");
    tcase_add_checked_fixture(tcase, alone_open, alone_close);
    tcase_add_loop_test(tcase, a_convolution_gives_statistics, 0, (int)YKI_COUNT(conv_layers));
    tcase_add_loop_test(tcase, gradients_of_a_convolution_give_sums, 0,
                        SUMS * (int)YKI_COUNT(conv_layers));
    tcase_add_loop_test(tcase, many_strips_give_no_parts, 0, 2);
    tcase = test_case(suite, "pooled");
    tcase_add_checked_fixture(tcase, alone_open, alone_close);
    tcase_add_loop_test(tcase, a_convolution_joins_its_pooling, 0, (int)YKI_COUNT(pooled_layers));
    return suite;
}
