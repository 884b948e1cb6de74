/* SPDX-License-Identifier: Apache-2.0
 *
 * check_canonical_plans.c - canonical plans of small models give the same loss and gradients, bit
 * by bit, on every device: their hashes stand here, so one table holds all implementations to one
 * another. And what has no such plan is refused by name.
 */
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "plan/plan.h"

enum { BATCH = 7, WORDS = 24, LENGTH = 20 };

/* ---- models ---- */

static yoke_node *
labels(yoke_graph *g)
{
    return yoke_target(g, "target", YOKE_I32, yoke_shape());
}

static yoke_node *
conv(yoke_graph *g, yoke_node *x, int32_t filters, int32_t kernel, int32_t pad)
{
    return yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){.filters = filters, .kernel = {kernel, kernel}, .pad = {pad, pad}});
}

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int32_t units, bool bias)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .no_bias = !bias});
}

static const yoke_pool2d_options halves = {.kernel = {2, 2}, .stride = {2, 2}};

static void
mlp(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(1, 12, 12)), *target = labels(g);

    x = yoke_relu(g, dense(g, yoke_flatten(g, x), 65, true));
    x = yoke_dropout(g, yoke_relu(g, dense(g, x, 33, true)), 0.25f);
    x = dense(g, x, 10, true);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, target, NULL));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, target));
}

static void
lenet(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(1, 20, 20));

    x = yoke_maxpool2d(g, yoke_tanh(g, conv(g, x, 6, 5, 2)), &halves);
    x = yoke_avgpool2d(g, yoke_sigmoid(g, conv(g, x, 16, 5, 0)), &halves);
    x = yoke_relu(g, dense(g, yoke_flatten(g, x), 40, true));
    x = dense(g, x, 10, true);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, labels(g), NULL));
}

static void
simplecnn(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(3, 16, 16));

    x = yoke_maxpool2d(g, yoke_relu(g, conv(g, x, 20, 3, 1)), &halves);
    x = yoke_maxpool2d(g, yoke_relu(g, conv(g, x, 33, 3, 1)), &halves);
    x = yoke_dropout(g, yoke_global_avgpool(g, yoke_relu(g, conv(g, x, 40, 3, 1))), 0.5f);
    x = dense(g, x, 10, true);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, labels(g), NULL));
}

static yoke_node *
words(yoke_graph *g, int32_t width)
{
    return yoke_embedding(g, yoke_input(g, "x", YOKE_I32, yoke_shape(LENGTH)),
                          &(yoke_embedding_options){.rows = WORDS, .width = width});
}

/* One block of GPT and of Llama each; widths of heads as small models have them. */
static void
gpt(yoke_graph *g)
{
    yoke_initializer init = {YOKE_INIT_NORMAL, 0, 0.02f, 0};
    yoke_layer_norm_options norm = {.axes = 1};
    yoke_node *x = words(g, 36), *h;

    x = yoke_add(g, x, yoke_parameter(g, "positions", yoke_shape(LENGTH, 36), init));
    x = yoke_dropout(g, x, 0.1f);
    h = dense(g, yoke_layer_norm(g, x, &norm), 108, true);
    h = yoke_attention(g, h, NULL,
                       &(yoke_attention_options){.heads = 3, .causal = true, .dropout = 0.1f});
    x = yoke_add(g, x, dense(g, h, 36, true));
    h = yoke_gelu_tanh(g, dense(g, yoke_layer_norm(g, x, &norm), 72, true));
    x = yoke_add(g, x, dense(g, h, 36, true));
    x = dense(g, yoke_layer_norm(g, x, &norm), WORDS, false);
    x = yoke_transpose(g, x, NULL); /* classes first */
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(
                               g, x, yoke_target(g, "target", YOKE_I32, yoke_shape(LENGTH)), NULL));
}

static void
llama(yoke_graph *g)
{
    yoke_layer_norm_options norm = {.axes = 1, .epsilon = 1e-5f};
    yoke_node *x = words(g, 32), *h;

    h = dense(g, yoke_rms_norm(g, x, &norm), 64, false);
    h = yoke_rope(g, h, NULL, &(yoke_rope_options){.heads = 4, .shared = 2, .base = 10000});
    h = yoke_attention(g, h, NULL,
                       &(yoke_attention_options){.heads = 4, .shared = 2, .causal = true});
    x = yoke_add(g, x, dense(g, h, 32, false));
    h = yoke_swiglu(g, dense(g, yoke_rms_norm(g, x, &norm), 88, false));
    x = yoke_add(g, x, dense(g, h, 32, false));
    x = yoke_rms_norm(g, x, &norm);
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(
                               g, x,
                               yoke_parameter(g, "head", yoke_shape(WORDS, 32),
                                              (yoke_initializer){YOKE_INIT_NORMAL, 0, 0.02f, 0}),
                               yoke_target(g, "target", YOKE_I32, yoke_shape(LENGTH)), NULL));
}

static const struct {
    const char *name;
    void (*make)(yoke_graph *g);
    uint64_t hash;
} models[] = {
    /* those with attention last */
    {"mlp", mlp, 0x1f1d17177451c097},
    {"lenet", lenet, 0x45a87a8a0f9e2ba4},
    {"simplecnn", simplecnn, 0xf46c7319e1d54fd2},
    {"gpt", gpt, 0x76e89fdcfee95b88},
    {"llama", llama, 0x0eb2c695019e6816},
};

/* ---- one step ---- */

typedef struct bench {
    yoke_graph *graph;
    yki_weights *weights;
    yki_queue *queue;
    yki_plan *plan;
} bench;

static yoke_status
try_plan(bench *b, yoke_device *device, const yki_plan_options *options)
{
    ASSERT_OK(yki_weights_create(device, b->graph, options->training, 0, NULL, &b->weights));
    ASSERT_OK(yki_queue_create(device, false, &b->queue));
    b->plan = NULL;
    return yki_plan_create(b->weights, b->queue, options, &b->plan);
}

static void
close_bench(bench *b)
{
    yki_plan_destroy(b->plan);
    yki_queue_destroy(b->queue);
    yki_weights_release(b->weights);
}

/* Numbers that need no function of the host. */
static void
put_input(const bench *b, const yoke_node *node, int64_t n)
{
    int64_t count = op_value_count(node, n);
    float *floats = malloc((size_t)count * sizeof *floats + 1);

    for (int64_t k = 0; k < count; k++) {
        double random = op_uniform(9, node->id, (uint64_t)k);
        int32_t integer = (int32_t)(random * 10);

        floats[k] = (float)(4 * random - 2);
        if (node->type != YOKE_F32)
            memcpy(&floats[k], &integer, sizeof integer);
    }
    ASSERT_OK(yki_buffer_put(yki_plan_buffer(b->plan, node), 0, (uint64_t)count * 4, floats));
    free(floats);
}

static uint64_t
add_to_hash(uint64_t hash, yki_buffer *buffer, int64_t count)
{
    float *values = malloc((size_t)count * sizeof *values + 1);

    ASSERT_OK(yki_buffer_get(buffer, 0, (uint64_t)count * 4, values));
    for (int64_t i = 0; i < count; i++) {
        float value = values[i] == 0 ? 0 : values[i]; /* a zero has no sign */
        unsigned char bytes[sizeof value];

        memcpy(bytes, &value, sizeof value);
        for (size_t k = 0; k < sizeof value; k++)
            hash = (hash ^ bytes[k]) * 1099511628211u; /* FNV-1a */
    }
    free(values);
    return hash;
}

/* The hash of the loss and all gradients of a step of n samples. */
static uint64_t
step(const bench *b, int64_t n)
{
    yki_step_values values = {.step = 3, .seed = {5, 6}, .first_sample = {40, 0}};
    yki_weights *w = b->weights;
    uint64_t hash = 14695981039346656037u;

    ASSERT_OK(yki_weights_initialize(w, 3));
    for (size_t i = 0; i < b->graph->node_count; i++) {
        const yoke_node *node = b->graph->nodes[i];

        if (node->role == YKI_ROLE_INPUT && yki_plan_buffer(b->plan, node))
            put_input(b, node, n);
    }
    ASSERT_OK(yki_buffer_put(b->plan->step_values, 0, sizeof values, &values));
    ASSERT_OK(yki_plan_enqueue(b->plan, YKI_FORWARD, (yki_extents){.batch = n}, NULL));
    ASSERT_OK(yki_plan_enqueue(b->plan, YKI_BACKWARD, (yki_extents){.batch = n}, NULL));
    ASSERT_OK(yki_queue_finish(b->queue));
    hash = add_to_hash(hash, yki_plan_buffer(b->plan, b->graph->loss_sum), 2);
    for (size_t i = 0; i < w->weight_count; i++)
        hash =
            add_to_hash(hash, w->weights[i].gradient, yki_shape_count(w->weights[i].node->shape));
    return hash;
}

static void
check_on(int index, yoke_device *device)
{
    yki_plan_options options = {.max.batch = BATCH, .training = true, .canonical = true};
    bench b;
    uint64_t hash;

    ASSERT_OK(yoke_graph_create(&b.graph));
    models[index].make(b.graph);
    ASSERT_OK(yoke_graph_status(b.graph));
    ASSERT_OK(try_plan(&b, device, &options));
    for (size_t t = 0; t < b.plan->task_count; t++)
        ck_assert(!b.plan->tasks[t].solver || b.plan->tasks[t].solver->canonical);
    hash = step(&b, BATCH);
    ck_assert_msg(hash == models[index].hash, "%s on %s: the bits are 0x%016llx; must be 0x%016llx",
                  models[index].name, yki_device_id(device), (unsigned long long)hash,
                  (unsigned long long)models[index].hash);
    close_bench(&b);
    yoke_graph_destroy(b.graph);
}

static void
on_each_device(void (*check)(int index, yoke_device *device), int index)
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check(index, yoke_selection_get(selection, i));
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

enum { SEQUENCE_MODELS = 2 };

START_TEST(models_have_their_bits)
{
    SKIP_ON_SIMULATOR;
    on_each_device(check_on, _i);
}
END_TEST

START_TEST(models_with_attention_have_their_bits)
{
    SKIP_ON_SIMULATOR;
    SKIP_SLOW_ATTENTION;
    on_each_device(check_on, _i);
}
END_TEST

/* ---- what is refused ---- */

static bool
same_shape(void *user, const yoke_shape *in, size_t count, yoke_shape *out)
{
    (void)user, (void)count;
    *out = in[0];
    return true;
}

static void
refuse_on(int index, yoke_device *device)
{
    yki_plan_options options = {.max.batch = BATCH, .canonical = true};
    yoke_node *x;
    bench b;

    ASSERT_OK(yoke_graph_create(&b.graph));
    x = yoke_input(b.graph, "x", YOKE_F32, yoke_shape(8));
    if (index == 0)
        x = yoke_custom(b.graph, &x, 1,
                        &(yoke_custom_options){.name = "own",
                                               .source = "__kernel void own_forward(...) {}",
                                               .shape = same_shape});
    else
        x = dense(b.graph, x, 4, false);
    if (index == 1)
        options.precision = "bf16";
    yoke_graph_set_output(b.graph, "y", x);
    ASSERT_OK(yoke_graph_status(b.graph));
    ASSERT_STATUS(YOKE_ERROR_UNSUPPORTED, try_plan(&b, device, &options));
    ASSERT_DETAIL(index == 0 ? "for custom of (8) in a batch of 7 has the same bits on every device"
                             : "dense1: products in bfloat16 do not have the same bits");
    close_bench(&b);
    yoke_graph_destroy(b.graph);
}

START_TEST(what_has_other_bits_is_refused)
{
    on_each_device(refuse_on, _i);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("canonical plans");
    TCase *tcase = test_case(suite, "canonical plans");

    tcase_add_loop_test(tcase, models_have_their_bits, 0, (int)YKI_COUNT(models) - SEQUENCE_MODELS);
    tcase_add_loop_test(tcase, models_with_attention_have_their_bits,
                        (int)YKI_COUNT(models) - SEQUENCE_MODELS, (int)YKI_COUNT(models));
    tcase_add_loop_test(tcase, what_has_other_bits_is_refused, 0, 2);
    return suite;
}
