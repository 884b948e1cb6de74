/* SPDX-License-Identifier: Apache-2.0
 *
 * check_fusion.c - each fusion is taken where it should be, and gives what the
 * separate tasks give: the same network is planned with and without fusions and run
 * on the same numbers, for several batches.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "op/harness.h"
#include "plan/fuse.h"

enum { MAX_RESULTS = 64, NO_CPU = 2 };

/* What a run left: outputs, sums, gradients, next states. */
typedef struct results {
    size_t count;
    const char *names[MAX_RESULTS];
    float *values[MAX_RESULTS];
    int64_t sizes[MAX_RESULTS];
} results;

typedef struct side {
    yki_weights *weights;
    yki_queue *queue;
    yki_plan *plan;
} side;

static void
create_with(side *s, yoke_device *device, yoke_graph *graph, const yki_plan_options *options)
{
    ASSERT_OK(yki_weights_create(device, graph, options->training, 0, NULL, &s->weights));
    ASSERT_OK(yki_weights_initialize(s->weights, 3));
    ASSERT_OK(yki_queue_create(device, false, &s->queue));
    ASSERT_OK(yki_plan_create(s->weights, s->queue, options, &s->plan));
}

static void
create(side *s, yoke_device *device, yoke_graph *graph, int64_t batch, bool training,
       bool no_fusion)
{
    const yki_plan_options options = {.max.batch = batch,
                                      .training = training,
                                      .no_fusion = no_fusion,
                                      .strict = true,
                                      .level = YOKE_PLAN_ESTIMATE};

    create_with(s, device, graph, &options);
}

static void
destroy(side *s)
{
    yki_plan_destroy(s->plan);
    yki_queue_destroy(s->queue);
    yki_weights_release(s->weights);
}

static void
keep(results *r, const char *name, yki_buffer *buffer, int64_t count)
{
    float *values = calloc((size_t)count + 1, sizeof *values);

    if (!buffer || r->count == MAX_RESULTS) {
        free(values);
        return;
    }
    ASSERT_OK(yki_buffer_get(buffer, 0, (uint64_t)count * 4, values));
    r->names[r->count] = name;
    r->values[r->count] = values;
    r->sizes[r->count++] = count;
}

static void
give_inputs(side *s, int64_t n)
{
    const yoke_graph *g = s->weights->graph;

    for (size_t i = 0; i < g->node_count; i++) {
        const yoke_node *node = g->nodes[i];
        yki_buffer *buffer = node->role == YKI_ROLE_INPUT ? yki_plan_buffer(s->plan, node) : NULL;
        int64_t count = op_value_count(node, n);
        uint32_t *words;

        if (!buffer)
            continue;
        words = calloc((size_t)count + 1, sizeof *words);
        for (int64_t k = 0; k < count; k++) {
            float value = (float)op_normal(5, (uint32_t)i, (uint64_t)k);
            int32_t label = (int32_t)(op_uniform(6, (uint32_t)i, (uint64_t)k) * 4);

            memcpy(&words[k], node->type == YOKE_F32 ? (void *)&value : (void *)&label, 4);
        }
        ASSERT_OK(yki_buffer_put(buffer, 0, (uint64_t)count * 4, words));
        free(words);
    }
}

static void
run(side *s, int64_t n, results *r)
{
    const yoke_graph *g = s->weights->graph;
    yki_step_values step = {.step = 1, .inverse_count = 1, .clip_scale = 1, .good = 1};

    memset(r, 0, sizeof *r);
    give_inputs(s, n);
    ASSERT_OK(yki_buffer_put(s->plan->step_values, 0, sizeof step, &step));
    ASSERT_OK(yki_plan_enqueue(s->plan, YKI_FORWARD, (yki_extents){.batch = n}, NULL));
    if (s->weights->training) {
        ASSERT_OK(yki_plan_enqueue(s->plan, YKI_BACKWARD, (yki_extents){.batch = n}, NULL));
        ASSERT_OK(yki_plan_commit_states(s->plan));
    }
    ASSERT_OK(yki_queue_finish(s->queue));
    for (size_t i = 0; i < g->output_count; i++)
        keep(r, g->outputs[i].name, yki_plan_buffer(s->plan, g->outputs[i].node),
             op_value_count(g->outputs[i].node, n));
    if (g->loss_sum)
        keep(r, "loss", yki_plan_buffer(s->plan, g->loss_sum), 2);
    for (size_t i = 0; i < g->metric_count; i++)
        keep(r, g->metrics[i].name, yki_plan_buffer(s->plan, g->metrics[i].sum), 2);
    for (size_t i = 0; i < s->weights->weight_count && s->weights->training; i++)
        keep(r, s->weights->weights[i].node->name, s->weights->weights[i].gradient,
             op_value_count(s->weights->weights[i].node, 1));
    for (size_t i = 0; i < s->weights->state_count; i++)
        keep(r, s->weights->states[i].node->name, s->weights->states[i].value,
             op_value_count(s->weights->states[i].node, 1));
}

/* tolerance 0: the same bits. */
static void
compare(const results *a, const results *b, int64_t n, double tolerance)
{
    ck_assert_uint_eq(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        double worst = 0, largest = 0;

        ck_assert_int_eq(a->sizes[i], b->sizes[i]);
        for (int64_t k = 0; k < a->sizes[i]; k++) {
            ck_assert_msg(isfinite(a->values[i][k]), "%s at %lld is %g, batch %lld", a->names[i],
                          (long long)k, (double)a->values[i][k], (long long)n);
            largest = fmax(largest, fabs((double)b->values[i][k]));
            worst = fmax(worst, fabs((double)a->values[i][k] - (double)b->values[i][k]));
        }
        ck_assert_msg(worst <= tolerance * largest, "%s is off by %g of %g, batch %lld",
                      a->names[i], worst, largest, (long long)n);
        free(a->values[i]);
        free(b->values[i]);
    }
}

static unsigned
tasks_with(const yki_plan *plan, const char *solver)
{
    unsigned count = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        count += plan->tasks[t].solver && strcmp(plan->tasks[t].solver->name, solver) == 0;
    return count;
}

typedef struct expected {
    const char *solver; /* of the fused task; NULL: none */
    unsigned tasks;     /* how many of them */
    unsigned removed;   /* tasks fewer than without fusions, at least */
    double tolerance;
    int64_t batch; /* the largest */
    int cpu;       /* 1: only CPUs with vectors have it; NO_CPU: only other devices */
} expected;

static void
check_on(yoke_device *device, yoke_graph *graph, bool training, const expected *e)
{
    int64_t batches[] = {e->batch, 1, 0, (e->batch + 1) / 2};
    const yki_device_traits *traits = yki_device_get_traits(device);
    bool is_cpu = traits->type == YOKE_DEVICE_CPU && traits->vector_width >= 4;
    double tolerance = e->tolerance;
    side fused, plain;
    results a, b;

    create(&fused, device, graph, e->batch, training, false);
    create(&plain, device, graph, e->batch, training, true);
    /* A norm that is joined with its statistics adds their parts in another order. */
    if (tasks_with(fused.plan, "bn-layer-whole") + tasks_with(fused.plan, "bn-layer-groups") > 0)
        tolerance = YKI_MAX(tolerance, 1e-6);
    if (is_cpu ? e->cpu != NO_CPU : e->cpu != 1) {
        if (e->solver)
            ck_assert_uint_eq(tasks_with(fused.plan, e->solver), e->tasks);
        ck_assert_uint_le(fused.plan->task_count + e->removed, plain.plan->task_count);
    }
    for (size_t i = 0; i < YKI_COUNT(batches); i++) {
        run(&fused, batches[i], &a);
        run(&plain, batches[i], &b);
        compare(&a, &b, batches[i], tolerance);
    }
    destroy(&fused);
    destroy(&plain);
}

static void
check_everywhere(yoke_graph *graph, bool training, const expected *e)
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_graph_status(graph));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_on(yoke_selection_get(selection, i), graph, training, e);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
}

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

/* Its gradient has the same bits whatever is joined: a bias' sums may have another order then. */
static yoke_node *
dense_without_bias(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .no_bias = true});
}

/* ---- the loss ---- */

static yoke_graph *
label_graph(bool reported)
{
    yoke_loss_options options = {.label_smoothing = 0.1f, .has_ignore_index = 1, .ignore_index = 3};
    yoke_node *y, *label;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense_without_bias(g, yoke_input(g, "x", YOKE_F32, yoke_shape(7)), 5);
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, &options));
    if (reported) {
        yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, label));
        yoke_graph_add_metric(g, "top2", yoke_top_k(g, y, label, 2));
        yoke_graph_add_metric(g, "top3", yoke_top_k(g, y, label, 3));
    }
    return g;
}

/* Two metrics go with the loss, the third stays by itself. */
START_TEST(loss_goes_with_its_gradient_and_metrics)
{
    check_everywhere(label_graph(true), true,
                     &(expected){"loss-step", 1, 5, 0, _i ? 900 : 6, false});
}
END_TEST

START_TEST(loss_goes_with_its_sum_in_evaluation)
{
    check_everywhere(label_graph(_i), false, &(expected){"loss-step", 1, 1, 0, 6, false});
}
END_TEST

static yoke_node *
loss_of(yoke_graph *g, int kind, yoke_node *y, yoke_node *target)
{
    switch (kind) {
    case 0:
        return yoke_mean_squared_error(g, y, target, NULL);
    case 1:
        return yoke_l1_loss(g, y, target, NULL);
    case 2:
        return yoke_huber_loss(g, y, target, &(yoke_loss_options){.delta = 0.5f});
    default:
        return yoke_binary_cross_entropy(g, y, target, NULL);
    }
}

START_TEST(losses_of_elements_are_joined_too)
{
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense_without_bias(g, yoke_input(g, "x", YOKE_F32, yoke_shape(3, 7)), 5);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(3, 5));
    yoke_graph_set_loss(g, loss_of(g, _i, y, target));
    yoke_graph_add_metric(g, "error", yoke_mean_absolute_error(g, y, target));
    check_everywhere(g, true, &(expected){"loss-step", 1, 3, 0, 6, false});
}
END_TEST

/* Someone looks at the samples' own losses: they stay. */
START_TEST(a_loss_that_is_a_result_stays)
{
    yoke_node *y, *target, *loss;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(7)), 5);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(5));
    loss = yoke_mean_squared_error(g, y, target, NULL);
    yoke_graph_set_loss(g, loss);
    yoke_graph_set_output(g, "losses", loss);
    check_everywhere(g, true, &(expected){"loss-step", 0, 0, 0, 6, false});
}
END_TEST

/* ---- dense layers ---- */

/* Layers of these widths with relu between them, on (rows, width) of each sample, or (width). */
static yoke_graph *
dense_graph(const int64_t *widths, size_t count, int64_t rows, bool bias)
{
    yoke_shape shape = rows ? yoke_shape(rows, widths[0]) : yoke_shape(widths[0]);
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, shape);
    for (size_t i = 1; i < count; i++) {
        y = yoke_dense(g, i > 1 ? yoke_relu(g, y) : y,
                       &(yoke_dense_options){.units = widths[i], .no_bias = !bias});
    }
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

/* Sums of a bias' gradient are in another order: 1e-5 of the largest. On a CPU a layer's backward
 * is one task, but for the first layer's, which has only one product, and for the last layer's,
 * which goes with the loss. */
START_TEST(backward_of_dense_layers_is_a_task_each)
{
    static const int64_t widths[][4] = {{10, 32, 7, 1}, {33, 17, 64, 5}, {1, 2, 3, 4}};
    const expected e = {"gemm-cpu-pair", 1, 11, 1e-5, 37, true};
    const expected no_bias = {"gemm-cpu-pair", 1, 8, 1e-5, 37, true};

    check_everywhere(dense_graph(widths[_i % 3], 4, 0, _i / 3), true, _i / 3 ? &e : &no_bias);
}
END_TEST

/* The last layer, with its loss and its backward. */
static yoke_graph *
last_layer_graph(int64_t inputs, int64_t units, bool first, bool labels, bool bias)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(inputs));
    if (!first)
        x = yoke_relu(g, dense(g, x, inputs));
    y = yoke_dense(g, x, &(yoke_dense_options){.units = units, .no_bias = !bias});
    target = labels ? yoke_target(g, "target", YOKE_I32, yoke_shape())
                    : yoke_target(g, "target", YOKE_F32, yoke_shape(units));
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, labels ? yoke_softmax_cross_entropy(g, y, target, NULL)
                                  : yoke_huber_loss(g, y, target, NULL));
    if (labels)
        yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
    return g;
}

/* As the only layer or behind another, with labels and with values, with a bias and without, in
 * widths that fill vectors and that do not; its result stays an output. */
START_TEST(the_last_layer_goes_with_its_loss)
{
    static const int64_t widths[][2] = {{32, 10}, {19, 4}, {5, 33}};

    check_everywhere(last_layer_graph(widths[_i / 8][0], widths[_i / 8][1], _i & 1, _i & 2, _i & 4),
                     true, &(expected){"dense-loss", 1, _i & 1 ? 4 : 6, 1e-5, 21, true});
}
END_TEST

/* Not a layer with more work than a core should do alone, nor one with many units. */
START_TEST(a_large_last_layer_keeps_its_tasks)
{
    static const int64_t widths[][2] = {{900, 40}, {20, 65}};

    check_everywhere(last_layer_graph(widths[_i][0], widths[_i][1], true, true, true), true,
                     &(expected){"dense-loss", 0, 4, 1e-5, 21, true});
}
END_TEST

/* The layer's result, or its gradient, has another reader. */
START_TEST(a_last_layer_that_others_read_keeps_its_tasks)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(9));
    y = dense(g, x, 6);
    if (_i)
        yoke_graph_set_output(g, "more", yoke_sigmoid(g, y));
    else
        y = yoke_add(g, y, dense(g, x, 6));
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(6));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    check_everywhere(g, true, &(expected){"dense-loss", 0, 2, 1e-5, 7, true});
}
END_TEST

START_TEST(rows_of_a_sample_are_summed_too)
{
    static const int64_t widths[] = {6, 9, 3};

    check_everywhere(dense_graph(widths, 3, 5, true), true,
                     &(expected){"gemm-cpu-pair", 1, 6, 1e-5, 7, true});
}
END_TEST

/* Too much work for one launch with another: two tasks, each with what belongs to it. */
START_TEST(large_layers_keep_their_products_apart)
{
    static const int64_t widths[] = {300, 310, 320};

    check_everywhere(dense_graph(widths, 3, 0, true), true,
                     &(expected){"gemm-cpu-pair", 0, 6, 1e-5, 64, true});
}
END_TEST

/* relu's result has two readers, so its gradient is a sum: nothing to gate in the product. */
START_TEST(a_sum_of_gradients_is_not_gated)
{
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(g, dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(9)), 8));
    y = yoke_add(g, dense(g, x, 8), x);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(8));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    check_everywhere(g, true, &(expected){NULL, 0, 2, 1e-5, 7, true});
}
END_TEST

/* ---- pooling ---- */

static bool
is_gate(const yki_task *task)
{
    return task->problem.op == &yki_op_unary_grad &&
           yki_unary_attrs_get(&task->problem.attrs).kind == YKI_UNARY_RELU;
}

/* Elements of the largest relu's gradient of a plan. */
static int64_t
largest_gate(const yki_plan *plan)
{
    int64_t largest = 0;

    for (size_t t = 0; t < plan->task_count; t++)
        if (is_gate(&plan->tasks[t]))
            largest = YKI_MAX(largest, yki_shape_count(plan->tasks[t].problem.out.shape));
    return largest;
}

static yoke_graph *
pooled_graph(const yoke_pool2d_options *options, bool average, bool read_twice)
{
    yoke_shape shape = yoke_shape(5, 12, 10);
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(
        g, yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init)));
    y = average ? yoke_avgpool2d(g, x, options) : yoke_maxpool2d(g, x, options);
    if (read_twice)
        y = yoke_add(g, y, yoke_maxpool2d(g, x, options));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

typedef enum gate_size { NO_GATE, SMALL_GATE, WHOLE_GATE } gate_size;

static gate_size
gate_of(yoke_device *device, yoke_graph *graph)
{
    int64_t whole = 5 * 12 * 10, largest;
    side s;

    create(&s, device, graph, 6, true, false);
    largest = largest_gate(s.plan);
    destroy(&s);
    return largest == 0 ? NO_GATE : largest < whole ? SMALL_GATE : WHOLE_GATE;
}

/* Destroys the graph. */
static void
check_gates(yoke_graph *g, gate_size wanted)
{
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        ck_assert_int_eq(gate_of(yoke_selection_get(selection, i), g), wanted);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    check_everywhere(g, true, &(expected){NULL, 0, 0, 0, 6, false});
}

/* relu's gradient comes before that of the maximum, on its small side, with the same bits: windows
 * that do not overlap, that do, and that leave elements out. Not where a sum is between them. */
START_TEST(a_maximum_is_gated_on_its_small_side)
{
    static const yoke_pool2d_options windows[] = {
        {.kernel = {2, 2}},
        {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}},
        {.kernel = {2, 3}, .stride = {3, 4}},
        {.kernel = {2, 2}},
    };
    bool twice = _i == 3;

    check_gates(pooled_graph(&windows[_i], false, twice), twice ? WHOLE_GATE : SMALL_GATE);
}
END_TEST

/* Of an average no gate is left: dx is gated as it is written, with the same bits. */
START_TEST(an_average_is_gated_as_it_is_written)
{
    static const yoke_pool2d_options windows[] = {
        {.kernel = {2, 2}},
        {.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1}, .exclude_pad = true},
        {.kernel = {2, 2}},
    };
    bool twice = _i == 2;

    check_gates(pooled_graph(&windows[_i], true, twice), twice ? WHOLE_GATE : NO_GATE);
}
END_TEST

/* ---- a convolution and its pooling ---- */

typedef enum image_use { ONE_READER, AS_OUTPUT, READ_TWICE, INPUT_HAS_GRADIENT, WIDE } image_use;

/* A convolution with bias, relu and pooling, and a dense layer behind them. */
static yoke_graph *
first_layer_graph(bool max, bool relu, bool bias, image_use use)
{
    const yoke_pool2d_options two = {.kernel = {2, 2}}, odd = {.kernel = {2, 2}, .stride = {1, 1}};
    const yoke_pool2d_options *window = use == WIDE ? &odd : &two;
    yoke_shape shape = yoke_shape(2, 9, 8);
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, shape);
    if (use == INPUT_HAS_GRADIENT)
        x = yoke_mul(
            g, x, yoke_parameter(g, "p", shape, (yoke_initializer){YOKE_INIT_UNIFORM, -1, 1, 0}));
    x = yoke_conv2d(
        g, x,
        &(yoke_conv2d_options){.filters = 7, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = !bias});
    if (relu)
        x = yoke_relu(g, x);
    y = max ? yoke_maxpool2d(g, x, window) : yoke_avgpool2d(g, x, window);
    if (use == READ_TWICE)
        y = yoke_add(g, y, yoke_maxpool2d(g, x, &two));
    if (use == AS_OUTPUT)
        yoke_graph_set_output(g, "image", x);
    y = dense(g, yoke_flatten(g, y), 5);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(5));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

/* Forward, without training, and with the gradients of its parameters as one task more; the mean
 * needs no image for its gradient if there is no relu, so that stays as it was. */
START_TEST(a_first_layer_goes_with_its_pooling)
{
    bool max = _i & 1, relu = _i & 2, bias = _i & 4, grad = max || relu;

    check_everywhere(first_layer_graph(max, relu, bias, ONE_READER), false,
                     &(expected){"conv-pooled", 1, relu ? 2 : 1, 1e-6, 6, true});
    check_everywhere(first_layer_graph(max, relu, bias, ONE_READER), true,
                     &(expected){"conv-pooled", 1, relu ? 4 : 2, 1e-5, 6, true});
    check_everywhere(first_layer_graph(max, relu, bias, ONE_READER), true,
                     &(expected){"conv-pooled-grad", grad, relu ? 4 : 2, 1e-5, 6, true});
}
END_TEST

/* Not where the image has other readers, or windows overlap; where the input has a gradient, it is
 * not in training. */
START_TEST(an_image_that_others_read_is_not_joined)
{
    image_use use = AS_OUTPUT + _i / 2;
    bool max = _i & 1;

    check_everywhere(first_layer_graph(max, true, true, use), true,
                     &(expected){"conv-pooled", 0, 0, 1e-5, 6, true});
    check_everywhere(
        first_layer_graph(max, true, true, use), false,
        &(expected){"conv-pooled", use == INPUT_HAS_GRADIENT ? 1 : 0, 0, 1e-6, 6, true});
}
END_TEST

/* ---- sums ---- */

/* Several read what relu gives: one of the additions of their gradients goes with the gate, with
 * the same bits. */
START_TEST(a_gate_adds_what_meets_there)
{
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_relu(g, yoke_add(g, yoke_input(g, "x", YOKE_F32, yoke_shape(5, 7)),
                              yoke_parameter(g, "p", yoke_shape(5, 7), init)));
    y = yoke_mul(g, yoke_sigmoid(g, x), yoke_tanh(g, x));
    if (_i)
        y = yoke_mul(g, y, yoke_silu(g, x));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    /* The products: forward's and two for each of them in backward; a sum of three has one addition
     * left. */
    check_everywhere(g, true, &(expected){"binary-flat", _i ? 6 + 1 : 3, 1, 0, 6, false});
}
END_TEST

static void
check_late_sums(yoke_device *device, yoke_graph *graph)
{
    yki_plan_options options = {
        .max.batch = 40, .training = true, .strict = true, .level = YOKE_PLAN_ESTIMATE};
    const yki_device_traits *traits = yki_device_get_traits(device);
    side late, early;
    results a, b;

    create_with(&early, device, graph, &options);
    options.late_sums = true;
    create_with(&late, device, graph, &options);
    ck_assert_uint_eq(early.plan->late.count, 0);
    if (traits->type != YOKE_DEVICE_CPU && traits->compute_units >= 4)
        ck_assert_uint_eq(late.plan->late.count, 3);
    for (int64_t n = 40; n >= 0; n -= 20) {
        run(&late, n, &a);
        run(&early, n, &b);
        compare(&a, &b, n, 1e-5);
    }
    destroy(&late);
    destroy(&early);
}

/* On a GPU, the parts of all gradients of weights are added at the end of backward. The order is
 * another. */
START_TEST(parts_of_gradients_are_added_late)
{
    yoke_context *context;
    yoke_selection *selection;
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, yoke_shape(16, 6, 7));
    for (int i = 0; i < 3; i++)
        y = yoke_conv2d(
            g, yoke_relu(g, y),
            &(yoke_conv2d_options){.filters = 16 + i, .kernel = {2, 3}, .no_bias = true});
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_late_sums(yoke_selection_get(selection, i), g);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- both gradients of a convolution ---- */

static void
check_joined_gradients(yoke_device *device, yoke_graph *graph, bool small, bool strict)
{
    yki_plan_options options = {.max.batch = 8,
                                .training = true,
                                .small = small,
                                .strict = strict,
                                .level = YOKE_PLAN_ESTIMATE};
    unsigned gated = 0;
    side joined, apart;
    results a, b;

    create_with(&joined, device, graph, &options);
    options.no_fusion = true;
    create_with(&apart, device, graph, &options);
    for (size_t t = 0; t < joined.plan->task_count; t++) {
        const yki_problem *p = &joined.plan->tasks[t].problem;

        gated += (p->op == &yki_op_conv2d_grads || p->op == &yki_op_conv2d_grad_input) &&
                 yki_conv_attrs_get(&p->attrs).act == YKI_CONV_ACT_GATED_SUM;
    }
    if (yki_device_get_traits(device)->type != YOKE_DEVICE_CPU) {
        ck_assert_uint_eq(tasks_with(joined.plan, "conv2d-grads-winograd4-tiles"),
                          small || strict ? 0 : 4);
        ck_assert_uint_eq(gated, small ? 0 : 2);
    }
    for (int64_t n = 8; n >= 0; n -= 4) {
        run(&joined, n, &a);
        run(&apart, n, &b);
        compare(&a, &b, n, 1e-5);
    }
    destroy(&joined);
    destroy(&apart);
}

/* Two blocks with shortcuts. Where both gradients of a convolution are Winograd's for GPUs, they
 * are one task, and the first of a block adds the shortcut's and gates the sum; the gradient by the
 * input does so too where it is a product of tiles. Not in a plan that saves memory. */
START_TEST(gradients_of_a_convolution_go_together)
{
    yoke_conv2d_options o = {.filters = 32, .kernel = {3, 3}, .pad = {1, 1}, .no_bias = true};
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape shape = yoke_shape(32, 8, 6);
    yoke_context *context;
    yoke_selection *selection;
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_relu(g, y);
    for (int i = 0; i < 2; i++)
        y = yoke_relu(g, yoke_add(g, y, yoke_conv2d(g, yoke_relu(g, yoke_conv2d(g, y, &o)), &o)));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_joined_gradients(yoke_selection_get(selection, i), g, _i == 1, _i == 2);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- batch norm ---- */

typedef enum norm_case {
    NORM,
    NORM_WITHOUT_PARAMETERS,
    NORM_AND_SHORTCUT,
    NORM_READ_TWICE
} norm_case;

/* A parameter before the norm has a gradient that goes through it. */
static yoke_graph *
normed_graph(norm_case which)
{
    yoke_batch_norm_options o = {.no_affine = which == NORM_WITHOUT_PARAMETERS};
    yoke_shape shape = yoke_shape(5, 12, 10);
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_node *x, *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_batch_norm(g, x, &o);
    if (which == NORM_AND_SHORTCUT)
        y = yoke_add(g, y, yoke_batch_norm(g, x, &o));
    y = yoke_relu(g, y);
    if (which == NORM_READ_TWICE)
        y = yoke_add(g, yoke_sigmoid(g, y), yoke_tanh(g, y));
    target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(y));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    return g;
}

/* x tells what relu let pass, with the same bits, also where several read relu's result; not with a
 * shortcut between the two. */
/* Other devices than CPUs join a norm with its statistics, whose parts they add in another order.
 */
START_TEST(a_norm_finds_the_gate_again)
{
    check_gates(normed_graph((norm_case)_i), _i == NORM_AND_SHORTCUT ? WHOLE_GATE : NO_GATE);
}
END_TEST

/* Statistics go with their use, in both directions, and the gradients of gamma and beta with them.
 * Parts are joined in another order. Small channels are a launch, large ones two. */
START_TEST(statistics_go_with_their_use)
{
    static const int norms[] = {1, 1, 2, 1};

    check_everywhere(normed_graph((norm_case)_i), true,
                     &(expected){_i == NORM ? "bn-layer-groups" : "bn-layer-whole",
                                 (unsigned)norms[_i],
                                 (unsigned)norms[_i] * (_i == NORM_WITHOUT_PARAMETERS ? 2 : 4),
                                 1e-5, _i == NORM ? 600 : 5, NO_CPU});
}
END_TEST

/* Each of two layers gives the logarithms of its sums with its result. */
START_TEST(attention_keeps_its_sums_for_backward)
{
    const yoke_attention_options o = {.heads = 2, .shared = 1, .causal = true};
    yoke_node *x, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(6, 5));
    x = yoke_attention(g, dense(g, x, 12), NULL, &o);
    x = yoke_attention(g, dense(g, x, 12), NULL, &o);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(6, 6));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    check_everywhere(g, true, &(expected){"attention", 2, 7, 1e-5, 7, true});
}
END_TEST

/* The head reads the table of the embedding, whose two gradients are added; the loss computes its
 * logits once, in more than one chunk. Integers are 0 to 3. */
START_TEST(a_tied_head_computes_its_logits_once)
{
    const yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = 3};
    yoke_node *x, *table, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "words", YOKE_I32, yoke_shape(90));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 9, .width = 8, .name = "wte"});
    x = yoke_rms_norm(g, x, &(yoke_layer_norm_options){.axes = 1});
    table = yoke_graph_get_node(g, "wte.weight");
    target = yoke_target(g, "target", YOKE_I32, yoke_shape(90));
    yoke_graph_set_loss(g, yoke_linear_cross_entropy(g, x, table, target, &ignore));
    check_everywhere(g, true, &(expected){"linear-loss", 1, 3, 1e-5, 7, false});
}
END_TEST

/* The table of the embedding has other gradients: of a head that is the same table, of another
 * embedding, or of both. No sum is left, only the products of the embeddings: the rows are added
 * where it was. */
START_TEST(an_embedding_adds_its_rows_to_another_gradient)
{
    const yoke_shape words = yoke_shape(11);
    yoke_node *x, *more, *table, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "words", YOKE_I32, words);
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 9, .width = 8, .name = "wte"});
    table = yoke_graph_get_node(g, "wte.weight");
    if (_i > 0) { /* as a second embedding of the same table, which has no function of its own */
        yoke_node *inputs[2] = {yoke_input(g, "others", YOKE_I32, words), table};

        more = yki_node(g, &yki_op_embedding, NULL, inputs, 2, NULL, 0);
        x = yoke_mul(g, x, more);
    }
    x = yoke_tanh(g, x);
    if (_i == 1) {
        target = yoke_target(g, "target", YOKE_F32, yoke_node_shape(x));
        yoke_graph_set_loss(g, yoke_mean_squared_error(g, x, target, NULL));
    } else {
        target = yoke_target(g, "target", YOKE_I32, words);
        x = yoke_matmul(g, x, table, &(yoke_matmul_options){.transpose_b = true});
        yoke_graph_set_loss(
            g, yoke_softmax_cross_entropy(g, x, target, &(yoke_loss_options){.axis = -1}));
    }
    check_everywhere(g, true,
                     &(expected){"binary-flat", _i > 0 ? 3 : 0, _i == 2 ? 2 : 1, 1e-5, 7, false});
}
END_TEST

/* ---- running statistics ---- */

/* Two batch norms of different widths and momenta: their states move on without tasks, to the same
 * bits. */
START_TEST(running_statistics_take_no_tasks)
{
    yoke_node *y, *target;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    y = yoke_input(g, "x", YOKE_F32, yoke_shape(5, 3, 4));
    y = yoke_batch_norm(g, y, &(yoke_batch_norm_options){.momentum = 0.3f});
    y = yoke_relu(g, y);
    /* A bias here would have the gradient 0, and nothing but rounding to be compared. */
    y = yoke_dense(g, yoke_flatten(g, y), &(yoke_dense_options){.units = 9, .no_bias = true});
    y = yoke_batch_norm(g, y, NULL);
    target = yoke_target(g, "target", YOKE_F32, yoke_shape(9));
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, target, NULL));
    check_everywhere(g, true, &(expected){"bn-running", 0, 4 + 2, 1e-5, 6, false});
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("fusion");
    TCase *tcase = test_case(suite, "loss");

    tcase_add_loop_test(tcase, loss_goes_with_its_gradient_and_metrics, 0, 2);
    tcase_add_loop_test(tcase, loss_goes_with_its_sum_in_evaluation, 0, 2);
    tcase_add_loop_test(tcase, losses_of_elements_are_joined_too, 0, 4);
    tcase_add_test(tcase, a_loss_that_is_a_result_stays);
    tcase = test_case(suite, "dense");
    tcase_add_loop_test(tcase, backward_of_dense_layers_is_a_task_each, 0, 6);
    tcase_add_loop_test(tcase, the_last_layer_goes_with_its_loss, 0, 24);
    tcase_add_loop_test(tcase, a_large_last_layer_keeps_its_tasks, 0, 2);
    tcase_add_loop_test(tcase, a_last_layer_that_others_read_keeps_its_tasks, 0, 2);
    tcase_add_test(tcase, rows_of_a_sample_are_summed_too);
    tcase_add_test(tcase, large_layers_keep_their_products_apart);
    tcase_add_test(tcase, a_sum_of_gradients_is_not_gated);
    tcase_add_test(tcase, parts_of_gradients_are_added_late);
    tcase_add_loop_test(tcase, gradients_of_a_convolution_go_together, 0, 3);
    tcase_add_loop_test(tcase, a_gate_adds_what_meets_there, 0, 2);
    tcase_add_loop_test(tcase, a_norm_finds_the_gate_again, 0, NORM_READ_TWICE + 1);
    tcase_add_loop_test(tcase, statistics_go_with_their_use, 0, NORM_READ_TWICE + 1);
    tcase_add_test(tcase, attention_keeps_its_sums_for_backward);
    tcase_add_loop_test(tcase, an_embedding_adds_its_rows_to_another_gradient, 0, 3);
    tcase_add_test(tcase, a_tied_head_computes_its_logits_once);
    tcase_add_test(tcase, running_statistics_take_no_tasks);
    tcase_add_loop_test(tcase, a_maximum_is_gated_on_its_small_side, 0, 4);
    tcase_add_loop_test(tcase, an_average_is_gated_as_it_is_written, 0, 3);
    tcase_add_loop_test(tcase, a_first_layer_goes_with_its_pooling, 0, 8);
    tcase_add_loop_test(tcase, an_image_that_others_read_is_not_joined, 0, 8);
    return suite;
}
