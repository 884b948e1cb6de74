/* SPDX-License-Identifier: Apache-2.0
 *
 * check_halves.c - with products in bfloat16 or half and memory to be saved, what backward needs of
 * forward is kept in half its bytes: where only products and signs read it, gradients have the
 * bits that they have without; elsewhere they are as near as the type allows; and the plan holds
 * less. A budget is met so where nothing else meets it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica/replica.h"
#include "support/devices.h"

enum { N = 32, SIDE = 16, CHANNELS = 16, INPUTS = 3 * SIDE * SIDE, UNITS = 256, CLASSES = 3 };
enum { TEXTS = 8, LENGTH = 32, WORDS = 19, TENSORS = 128 };

/* Each layer's result is read by products, and by its sign. */
static yoke_graph *
layers(void)
{
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_flatten(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3, SIDE, SIDE)));
    for (int i = 0; i < 24; i++)
        y = yoke_relu(g, yoke_dense(g, y, &(yoke_dense_options){.units = UNITS}));
    y = yoke_dense(g, y, &(yoke_dense_options){.units = CLASSES, .name = "fc"});
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, y, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static yoke_node *
block(yoke_graph *g, yoke_node *x, const char *name)
{
    x = yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){
            .filters = CHANNELS, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true, .name = name});
    return yoke_batch_norm(g, x, NULL);
}

/* With norms, a shortcut, a pooling and a view of what is kept. */
static yoke_graph *
images(void)
{
    yoke_graph *g;
    yoke_node *x, *y;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(g, block(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3, SIDE, SIDE)), "c0"));
    /* Its gradient looks for the result among the inputs. */
    x = yoke_maxpool2d(g, x,
                       &(yoke_pool2d_options){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}});
    y = yoke_relu(g, block(g, x, "c1"));
    y = yoke_relu(g, yoke_add(g, block(g, y, "c2"), x));
    for (int i = 3; i < 12; i++) {
        char name[16];

        snprintf(name, sizeof name, "c%d", i);
        y = yoke_silu(g, block(g, y, name));
    }
    y = yoke_relu(
        g, yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = 64, .name = "d0"}));
    y = yoke_dense(g, y, &(yoke_dense_options){.units = CLASSES, .name = "fc"});
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, y, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* What keeping in half the bytes is to do, as an operator of its own: y is x rounded to bfloat16,
 * or with F16 to half, and dx is dy. */
#define ROUND                                                                                      \
    "__kernel void\n"                                                                              \
    "round_forward(__global const float *x, __global float *y, int n, int nx, int ny)\n"           \
    "{\n"                                                                                          \
    "    for (int i = get_global_id(0); i < n * nx; i += get_global_size(0)) {\n"                  \
    "        uint u = as_uint(x[i]), places = SHIFT;\n"                                            \
    "        u += (1u << (places - 1)) - 1u + (u >> places & 1u);\n"                               \
    "        y[i] = as_float(u >> places << places);\n"                                            \
    "    }\n"                                                                                      \
    "}\n"                                                                                          \
    "__kernel void\n"                                                                              \
    "round_backward0(__global const float *x, __global const float *y,\n"                          \
    "                __global const float *dy, __global float *dx, int n, int nx, int ny)\n"       \
    "{\n"                                                                                          \
    "    for (int i = get_global_id(0); i < n * nx; i += get_global_size(0))\n"                    \
    "        dx[i] = dy[i];\n"                                                                     \
    "}\n"
static const char *const round_source[] = {"#define SHIFT 16\n" ROUND, "#define SHIFT 13\n" ROUND};
static const char *rounds; /* NULL: no such operator */

/* Each convolution's result is kept, each function's is computed again from that. */
static yoke_graph *
chain(void)
{
    static const char *const names[] = {"c0", "c1", "c2"};
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, yoke_shape(3, SIDE, SIDE));
    for (size_t i = 0; i < YKI_COUNT(names); i++) {
        y = yoke_conv2d(g, y,
                        &(yoke_conv2d_options){.filters = CHANNELS,
                                               .kernel = {3, 3},
                                               .pad = {1, 1},
                                               .no_bias = true,
                                               .name = names[i]});
        if (rounds)
            y = yoke_custom(g, &y, 1, &(yoke_custom_options){.name = "round", .source = rounds});
        y = yoke_silu(g, y);
    }
    y = yoke_dense(g, yoke_global_avgpool(g, y),
                   &(yoke_dense_options){.units = CLASSES, .name = "fc"});
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, y, yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

/* Sequences, whose values have rows; attention; layer norms. */
static yoke_graph *
words(void)
{
    yoke_graph *g;

    ASSERT_OK(yoke_zoo("gpt",
                       &(yoke_zoo_options){.layers = 6,
                                           .heads = 2,
                                           .width = 64,
                                           .context = LENGTH,
                                           .vocabulary = WORDS,
                                           .input_name = "x",
                                           .target_name = "label"},
                       &g));
    return g;
}

typedef struct outcome {
    float *values[TENSORS];
    size_t size[TENSORS], count, halved, again;
    uint64_t memory;
} outcome;

static void
give_images(yoke_replica *r)
{
    static float x[N * INPUTS];
    int32_t labels[N];

    for (size_t i = 0; i < YKI_COUNT(x); i++)
        x[i] = (float)((i * 2654435761u >> 8) % 2001) / 1000 - 1;
    for (int i = 0; i < N; i++)
        labels[i] = i % CLASSES;
    ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_f32("x", x, YKI_COUNT(x))));
    ASSERT_OK(yoke_replica_set_input(r, N, yoke_feed_i32("label", labels, N)));
}

static void
give_words(yoke_replica *r)
{
    int32_t tokens[TEXTS * LENGTH];

    for (int i = 0; i < TEXTS * LENGTH; i++)
        tokens[i] = (i * 7 + i / 3) % WORDS;
    ASSERT_OK(yoke_replica_set_input(r, TEXTS, yoke_feed_i32("x", tokens, TEXTS * LENGTH)));
    ASSERT_OK(yoke_replica_set_input(r, TEXTS, yoke_feed_i32("label", tokens, TEXTS * LENGTH)));
}

/* The class is settled, so that both plans compute products in the type. */
static yoke_replica_options
options(const char *precision)
{
    return (yoke_replica_options){
        .batch = N, .level = YOKE_PLAN_ESTIMATE, .strict = true, .precision = precision, .seed = 3};
}

/* The gradients of one step. */
static void
run(yoke_device *device, yoke_graph *(*net)(void), const yoke_replica_options *given,
    const yki_replica_in_team *part, outcome *result)
{
    yoke_replica_options o = *given;
    yoke_graph *g = net();
    yoke_replica *r;

    memset(result, 0, sizeof *result);
    o.batch = net == words ? TEXTS : N;
    ASSERT_OK(yki_replica_create(device, g, &o, part, &r));
    (net == words ? give_words : give_images)(r);
    ASSERT_OK(yoke_replica_forward(r, o.batch));
    ASSERT_OK(yoke_replica_backward(r));
    for (size_t i = 0; i < r->weights->weight_count; i++) {
        const yki_weight *w = &r->weights->weights[i];
        float *values = malloc(w->size);

        ck_assert_uint_lt(result->count, TENSORS);
        ASSERT_OK(yoke_replica_read_gradient(r, w->node->name, values, w->size / 4));
        result->values[result->count] = values;
        result->size[result->count++] = w->size / 4;
    }
    result->halved = r->training->halved.values;
    result->memory = yki_plan_memory(r->training);
    for (size_t t = 0; t < r->training->task_count; t++)
        result->again += r->training->tasks[t].again;
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}

static void
drop(outcome *a)
{
    for (size_t i = 0; i < a->count; i++)
        free(a->values[i]);
    a->count = 0;
}

/* The distance of two gradients, by the size of the first one; the largest over all tensors. */
static double
distance(const outcome *a, const outcome *b)
{
    double largest = 0;

    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        double size = 0, apart = 0;

        for (size_t k = 0; k < a->size[i]; k++) {
            const double x = (double)a->values[i][k], y = (double)b->values[i][k];

            size += x * x;
            apart += (x - y) * (x - y);
        }
        if (size > 0)
            largest = fmax(largest, sqrt(apart / size));
    }
    return largest;
}

static const char *const types[] = {"bf16", "f16"};
static test_devices devices;

static void
open_devices(void)
{
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    if (devices.slow)
        TEST_NOT_HERE("whole plans are not for the simulator");
}

static void
close_devices(void)
{
    test_devices_close(&devices);
    memset(&devices, 0, sizeof devices);
}

/* Runs one network as it is and with values in half their bytes. */
static void
compare(yoke_device *device, yoke_graph *(*net)(void), const char *type, outcome *plain,
        outcome *less)
{
    yoke_replica_options o = options(type);

    run(device, net, &o, NULL, plain);
    o.recompute = YOKE_RECOMPUTE_CHEAP;
    run(device, net, &o, NULL, less);
    ck_assert_uint_eq(plain->halved, 0);
}

START_TEST(what_products_round_is_kept_to_the_bit)
{
    open_devices();
    for (size_t d = 0; d < devices.count; d++) {
        outcome plain, less;

        compare(devices.device[d], layers, types[_i], &plain, &less);
        ck_assert_uint_ge(less.halved, 2);
        for (size_t i = 0; i < plain.count; i++)
            ck_assert_msg(memcmp(plain.values[i], less.values[i], 4 * plain.size[i]) == 0,
                          "gradient %zu has other bits", i);
        drop(&plain);
        drop(&less);
    }
}
END_TEST

/* Forward and backward read the same rounded numbers: the network is that with rounding as an
 * operator. Sums may differ in their order. */
START_TEST(what_is_kept_is_what_forward_reads)
{
    yoke_replica_options o = options(types[_i]);

    open_devices();
    for (size_t d = 0; d < devices.count; d++) {
        outcome expected, less;
        double apart;

        rounds = round_source[_i];
        o.recompute = YOKE_RECOMPUTE_NOTHING;
        run(devices.device[d], chain, &o, NULL, &expected);
        rounds = NULL;
        o.recompute = YOKE_RECOMPUTE_CHEAP;
        run(devices.device[d], chain, &o, NULL, &less);
        ck_assert_uint_eq(less.halved, 3);
        apart = distance(&expected, &less);
        ck_assert_msg(apart < 1e-5, "apart by %g", apart);
        drop(&expected);
        drop(&less);
    }
}
END_TEST

/* Of norms, sequences and views the gradients are near float32's: some numbers change sides in
 * relu, or another one is the largest in a pooling. */
START_TEST(gradients_are_near)
{
    static yoke_graph *(*const nets[])(void) = {images, words};
    const yoke_replica_options whole = options(NULL);

    open_devices();
    for (size_t d = 0; d < devices.count; d++)
        for (size_t n = 0; n < YKI_COUNT(nets); n++) {
            outcome exact, plain, less;
            double without, with;

            run(devices.device[d], nets[n], &whole, NULL, &exact);
            compare(devices.device[d], nets[n], types[_i], &plain, &less);
            ck_assert_uint_ge(less.halved, 3);
            ck_assert_msg(less.memory < plain.memory, "%llu bytes, without %llu",
                          (unsigned long long)less.memory, (unsigned long long)plain.memory);
            without = distance(&exact, &plain);
            with = distance(&exact, &less);
            printf("# network %zu, %s: apart by %g, and %g with values in half their bytes\n", n,
                   types[_i], without, with);
            ck_assert_msg(with < 0.3, "network %zu, %s: apart by %g", n, types[_i], with);
            drop(&exact);
            drop(&plain);
            drop(&less);
        }
}
END_TEST

/* The least budget that can be met, as it is told where one is refused. */
static uint64_t
least_of(yoke_device *device, const char *precision)
{
    yoke_replica_options o = options(precision);
    unsigned long long least = 0;
    yoke_graph *g = images();
    yoke_replica *r;
    const char *told;

    o.recompute_bytes = 1;
    ASSERT_REFUSED(YOKE_ERROR_OUT_OF_DEVICE_MEMORY, "recompute_bytes is 1; ",
                   yoke_replica_create(device, g, &o, &r));
    told = strstr(yoke_last_error(), "bytes, and ");
    ck_assert(told && sscanf(told, "bytes, and %llu at least", &least) == 1);
    yoke_graph_destroy(g);
    return least;
}

/* What is computed again has the same bits, so that comes first; what it cannot meet, halves do. */
START_TEST(a_budget_is_met_so_at_last)
{
    open_devices();
    for (size_t d = 0; d < devices.count; d++) {
        const uint64_t whole = least_of(devices.device[d], "f32"),
                       least = least_of(devices.device[d], "bf16");
        yoke_replica_options o = options("bf16");
        outcome plain, less;

        ck_assert_msg(least < whole, "%llu bytes at least, without %llu", (unsigned long long)least,
                      (unsigned long long)whole);
        run(devices.device[d], images, &o, NULL, &plain);
        o.recompute_bytes = (plain.memory + whole) / 2;
        run(devices.device[d], images, &o, NULL, &less);
        ck_assert_uint_eq(less.halved, 0);
        ck_assert_uint_ge(less.again, 1);
        for (size_t i = 0; i < plain.count; i++)
            ck_assert(memcmp(plain.values[i], less.values[i], 4 * plain.size[i]) == 0);
        drop(&less);
        o.recompute_bytes = least;
        run(devices.device[d], images, &o, NULL, &less);
        ck_assert_uint_ge(less.halved, 1);
        ck_assert_uint_le(less.memory, least);
        ck_assert(distance(&plain, &less) < 0.3);
        drop(&less);
        drop(&plain);
    }
}
END_TEST

/* Of no node in float32, nor where the bits are the same on every device. */
START_TEST(others_are_kept_as_they_are)
{
    const yki_replica_in_team canonical = {.owners = 1, .accumulates = true, .canonical = true};
    const yoke_replica_options whole = options(NULL);
    yoke_replica_options o = whole;
    outcome exact, result;

    open_devices();
    o.recompute = YOKE_RECOMPUTE_CHEAP;
    for (int i = 0; i < 3; i++) {
        static const char *const precisions[] = {NULL, "tf32", "fc=bf16,f32"};

        o.precision = precisions[i];
        run(devices.device[0], images, &o, NULL, &result);
        ck_assert_msg(result.halved == 0, "%zu values in %s", result.halved,
                      precisions[i] ? precisions[i] : "f32");
        drop(&result);
    }
    o.precision = "c*=f32,d*=f32,fc=f32,bf16"; /* of no product */
    for (int i = 0; i < 2; i++) {
        run(devices.device[0], images, &o, i ? &canonical : NULL, &result);
        ck_assert_msg((result.halved > 0) == (i == 0), "%d: %zu values", i, result.halved);
        drop(&result);
    }
    /* Rounded behind what is not: the pooling's result is among its inputs all the same. */
    run(devices.device[0], images, &whole, NULL, &exact);
    o.precision = "c0=f32,bf16";
    run(devices.device[0], images, &o, NULL, &result);
    ck_assert(distance(&exact, &result) < 0.3);
    drop(&exact);
    drop(&result);
    o.precision = "c1=bf16,c2=bf16,f32";
    run(devices.device[0], images, &o, NULL, &result);
    ck_assert_uint_ge(result.halved, 1);
    ck_assert_uint_le(result.halved, 2);
    drop(&result);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("halves");
    TCase *tcase = test_case(suite, "halves");

    tcase_add_checked_fixture(tcase, NULL, close_devices);
    tcase_add_loop_test(tcase, what_products_round_is_kept_to_the_bit, 0, YKI_COUNT(types));
    tcase_add_loop_test(tcase, what_is_kept_is_what_forward_reads, 0, YKI_COUNT(types));
    tcase_add_loop_test(tcase, gradients_are_near, 0, YKI_COUNT(types));
    tcase_add_test(tcase, a_budget_is_met_so_at_last);
    tcase_add_test(tcase, others_are_kept_as_they_are);
    return suite;
}
