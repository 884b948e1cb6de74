/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_ops.c - `yoke bench peak|gemm|conv|attention|eltwise`: single operators beside the
 * limits of the device, measured in the same run.
 *
 * Each case is a small graph, compiled like any other, whose commands are timed.
 * Matrix products are row-major in and out, and their times include all packing. An
 * optimizer's update is no command of the plan; its time is what it adds to a step.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"
#include "training.h"

enum { MAX_REPEATS = 1000, REPEATS = 9 };

typedef struct session {
    yki_tool_training training;
    unsigned repeats, seq;
    bool json;
    yoke_context *context;
    yoke_selection *selection;
    yoke_device *device;
    yoke_peak peak;
    yki_tool_json out;
    const char *label;  /* of the case being measured */
    const char *wanted; /* operators whose name contains this are reported; NULL: all */
    bool by_bandwidth;
    double fixed_flops; /* of a case whose solver may do fewer; 0: those of the plan */
} session;

#define ROW_REPEATS                                                                                \
    {                                                                                              \
        "repeats", 'n', "N", "the best of N runs (default: 9)",                                    \
            TOOL_COUNT(session, repeats, 1, MAX_REPEATS)                                           \
    }
static const yki_tool_option options[] = {TOOL_ROW_JSON(session), ROW_REPEATS, {0}};
static const yki_tool_option attention_options[] = {
    TOOL_ROW_JSON(session),
    ROW_REPEATS,
    {"seq", 0, "N", "positions of the sequence (default: 256 to 4096)",
     TOOL_COUNT(session, seq, 1, 1 << 24)},
    {0},
};

/* ---- reports ---- */

static void
report_peak(session *s)
{
    const yoke_peak *p = &s->peak;

    if (!s->json) {
        printf(
            "peak: %.1f GFLOP/s, copy %.1f GB/s, triad %.1f GB/s, launch %.2f us queued, %.1f us "
            "waited for\n",
            p->gflops, p->copy_gbytes, p->triad_gbytes, 1e6 * p->launch_seconds,
            1e6 * p->waited_launch_seconds);
        return;
    }
    yki_tool_json_open_object(&s->out, NULL);
    yki_tool_json_string(&s->out, "case", "peak");
    yki_tool_json_real(&s->out, "gflops", p->gflops);
    yki_tool_json_real(&s->out, "copy_gbytes", p->copy_gbytes);
    yki_tool_json_real(&s->out, "triad_gbytes", p->triad_gbytes);
    yki_tool_json_real(&s->out, "launch_us", 1e6 * p->launch_seconds);
    yki_tool_json_real(&s->out, "waited_launch_us", 1e6 * p->waited_launch_seconds);
    yki_tool_json_close_object(&s->out);
}

static void
report_task(void *user, const yoke_task_info *c)
{
    session *s = user;
    double flops = s->fixed_flops > 0 ? s->fixed_flops : c->flops;
    double gflops = flops / c->seconds / 1e9, gbytes = c->bytes / c->seconds / 1e9;
    double fraction = s->by_bandwidth ? gbytes / s->peak.copy_gbytes : gflops / s->peak.gflops;

    if (s->wanted && !strstr(c->op, s->wanted))
        return;
    if (!s->json) {
        printf("%-26s %-20s %-26s %10.1f us %8.1f GFLOP/s %7.1f GB/s  %5.2f of %s\n", s->label,
               c->op, c->solver, 1e6 * c->seconds, gflops, gbytes, fraction,
               s->by_bandwidth ? "bandwidth" : "peak");
        return;
    }
    yki_tool_json_open_object(&s->out, NULL);
    yki_tool_json_string(&s->out, "case", s->label);
    yki_tool_json_string(&s->out, "op", c->op);
    yki_tool_json_string(&s->out, "solver", c->solver);
    yki_tool_json_real(&s->out, "us", 1e6 * c->seconds);
    yki_tool_json_real(&s->out, "gflops", gflops);
    yki_tool_json_real(&s->out, "gbytes", gbytes);
    yki_tool_json_string(&s->out, "limit", s->by_bandwidth ? "copy bandwidth" : "peak");
    yki_tool_json_real(&s->out, "fraction", fraction);
    yki_tool_json_close_object(&s->out);
}

/* Compiles the graph, measures the limits anew, then its commands. Destroys the graph. */
static yoke_status
run_case(session *s, yoke_graph *graph, int64_t batch, bool training)
{
    yoke_replica *replica = NULL;
    yoke_replica_options o = yki_tool_replica_options(&s->training, (yoke_optimizer){0});
    yoke_status status;

    o.batch = batch;
    o.evaluation_only = !training;
    status = yoke_replica_create(s->device, graph, &o, &replica);
    if (!status)
        status = yoke_device_measure_peak(s->device, &s->peak);
    if (!status)
        status = yoke_replica_profile(replica, batch, s->repeats, report_task, s);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
    return status;
}

/* ---- gemm ---- */

static yoke_status
gemm_case(session *s, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_matmul_options o;
    char label[64];
    yoke_graph *g;
    yoke_node *a, *b;
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    memset(&o, 0, sizeof o);
    o.transpose_a = ta;
    o.transpose_b = tb;
    a = yoke_parameter(g, "a", ta ? yoke_shape(k, m) : yoke_shape(m, k), init);
    b = yoke_parameter(g, "b", tb ? yoke_shape(n, k) : yoke_shape(k, n), init);
    yoke_graph_set_output(g, "c", yoke_matmul(g, a, b, &o));
    snprintf(label, sizeof label, "%lldx%lldx%lld %c%c", (long long)m, (long long)n, (long long)k,
             ta ? 't' : 'n', tb ? 't' : 'n');
    s->label = label;
    s->fixed_flops = 2.0 * (double)m * (double)n * (double)k;
    return run_case(s, g, 1, false);
}

static yoke_status
bench_gemm(session *s)
{
    static const struct {
        int64_t m, n, k;
        bool ta, tb;
    } cases[] = {
        {1024, 1024, 1024, false, false}, {1024, 1024, 1024, false, true},
        {1024, 1024, 1024, true, false},  {1024, 1024, 1024, true, true},
        {2048, 2048, 2048, false, false}, {256, 128, 784, false, true},
        {128, 784, 256, true, false},     {256, 784, 128, false, false},
        {1000, 777, 333, false, false},   {64, 10, 128, false, true},
    };
    yoke_status status = YOKE_OK;

    for (size_t i = 0; !status && i < sizeof cases / sizeof *cases; i++)
        status = gemm_case(s, cases[i].m, cases[i].n, cases[i].k, cases[i].ta, cases[i].tb);
    return status;
}

/* ---- conv ---- */

typedef struct conv_case {
    int64_t batch, channels, height, width, filters, kernel, stride, groups;
} conv_case;

static yoke_status
one_conv(session *s, const conv_case *c)
{
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    int64_t out_h = (c->height + 2 * (c->kernel / 2) - c->kernel) / c->stride + 1;
    int64_t out_w = (c->width + 2 * (c->kernel / 2) - c->kernel) / c->stride + 1;
    yoke_shape shape = yoke_shape(c->channels, c->height, c->width);
    yoke_conv2d_options o;
    char label[64];
    yoke_graph *g;
    yoke_node *x, *y;
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    memset(&o, 0, sizeof o);
    o.filters = c->filters;
    o.kernel[0] = o.kernel[1] = c->kernel;
    o.stride[0] = o.stride[1] = c->stride;
    o.pad[0] = o.pad[1] = c->kernel / 2;
    o.groups = c->groups;
    o.no_bias = true;
    /* With a parameter before the convolution, the gradient of its input is computed too. */
    x = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape),
                 yoke_parameter(g, "p", yoke_shape(c->channels, 1, 1), init));
    y = yoke_conv2d(g, x, &o);
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, y, y), NULL, 0));
    snprintf(label, sizeof label, "%lldx%lldx%lld-%lld %lldx%lld s%lld g%lld",
             (long long)c->channels, (long long)c->height, (long long)c->width,
             (long long)c->filters, (long long)c->kernel, (long long)c->kernel,
             (long long)c->stride, (long long)c->groups);
    s->label = label;
    s->fixed_flops = 2.0 * (double)(c->batch * out_h * out_w * c->filters * c->channels /
                                    c->groups * c->kernel * c->kernel);
    s->by_bandwidth = c->groups == c->channels || c->channels < 4;
    return run_case(s, g, c->batch, true);
}

static yoke_status
bench_conv(session *s)
{
    static const conv_case cases[] = {
        {32, 64, 32, 32, 64, 3, 1, 1},   {32, 128, 16, 16, 128, 3, 1, 1},
        {32, 256, 8, 8, 256, 3, 1, 1},   {32, 512, 4, 4, 512, 3, 1, 1},
        {32, 64, 32, 32, 128, 3, 2, 1},  {32, 64, 32, 32, 128, 1, 2, 1},
        {32, 128, 16, 16, 128, 1, 1, 1}, {32, 3, 32, 32, 64, 3, 1, 1},
        {32, 64, 32, 32, 64, 3, 1, 64},  {64, 20, 13, 13, 50, 5, 1, 1},
    };
    yoke_status status = YOKE_OK;

    s->wanted = "conv2d";
    for (size_t i = 0; !status && i < sizeof cases / sizeof *cases; i++)
        status = one_conv(s, &cases[i]);
    return status;
}

/* ---- attention ---- */

/* Causal, on one sample: forward, and backward, which computes the scores again. The products of
 * queries with the keys that they see count. */
static yoke_status
attention_case(session *s, int64_t length)
{
    enum { HEADS = 12, WIDTH = 64 };
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape shape = yoke_shape(length, 3 * HEADS * WIDTH);
    yoke_attention_options o;
    char label[64];
    yoke_graph *g;
    yoke_node *x, *y;
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    memset(&o, 0, sizeof o);
    o.heads = HEADS;
    o.causal = true;
    x = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_attention(g, x, NULL, &o);
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, y, y), NULL, 0));
    snprintf(label, sizeof label, "%d x %d, T %lld, causal", HEADS, WIDTH, (long long)length);
    s->label = label;
    return run_case(s, g, 1, true);
}

static yoke_status
bench_attention(session *s)
{
    yoke_status status = YOKE_OK;

    s->wanted = "attention";
    if (s->seq)
        return attention_case(s, s->seq);
    for (int64_t length = 256; !status && length <= 4096; length *= 2)
        status = attention_case(s, length);
    return status;
}

/* ---- eltwise ---- */

static yoke_status
eltwise_case(session *s)
{
    yoke_shape shape = yoke_shape(64, 64, 64);
    yoke_pool2d_options pool;
    yoke_graph *g;
    yoke_node *x, *y;
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    memset(&pool, 0, sizeof pool);
    pool.kernel[0] = pool.kernel[1] = 2;
    x = yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape), yoke_parameter(g, "p", shape, init));
    y = yoke_batch_norm(g, x, NULL);
    y = yoke_add(g, yoke_relu(g, y), x);
    y = yoke_maxpool2d(g, yoke_tanh(g, y), &pool);
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, y, y), NULL, 0));
    s->label = "64x64x64, batch 64";
    return run_case(s, g, 64, true);
}

/* Over the last axis, as in transformers. */
static yoke_status
layer_norm_case(session *s)
{
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_layer_norm_options o;
    yoke_graph *g;
    yoke_node *x, *y;
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    memset(&o, 0, sizeof o);
    o.axes = 1;
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(196, 768));
    x = yoke_mul(g, x, yoke_parameter(g, "p", yoke_shape(768), init));
    y = yoke_layer_norm(g, x, &o);
    yoke_graph_set_loss(g, yoke_mean(g, yoke_mul(g, y, y), NULL, 0));
    s->label = "196x768, batch 64";
    s->wanted = "layer_norm";
    status = run_case(s, g, 64, true);
    s->wanted = NULL;
    return status;
}

/* Times one step on one sample, with a wait; *seconds becomes the least so far. */
static yoke_status
time_step(yoke_replica *replica, bool update, double *seconds)
{
    double start = yki_tool_now(), took;
    yoke_status status = yoke_replica_forward(replica, 1);

    if (!status)
        status = yoke_replica_backward(replica);
    if (!status && update)
        status = yoke_replica_update(replica, 1);
    if (!status)
        status = yoke_replica_wait(replica);
    took = yki_tool_now() - start;
    *seconds = took < *seconds ? took : *seconds;
    return status;
}

/* Times steps with and without the update alternately; the difference of the least times is the
 * time of the update. */
static yoke_status
measure_update(session *s, yoke_replica *replica, double *seconds)
{
    double with = 1e30, without = 1e30, warm_up = 1e30;
    yoke_status status = time_step(replica, true, &warm_up);

    for (unsigned i = 0; !status && i < s->repeats; i++) {
        status = time_step(replica, false, &without);
        if (!status)
            status = time_step(replica, true, &with);
    }
    *seconds = with > without ? with - without : 1e-9;
    return status;
}

enum { UPDATED = 8 << 20 }; /* parameters: more than caches hold */

/* An optimizer reads and writes each parameter and its state, and reads the gradient. */
static yoke_status
update_case(session *s, const char *name, yoke_optimizer optimizer, int flops, int floats)
{
    yoke_initializer init = {YOKE_INIT_UNIFORM, -1, 1, 0};
    yoke_shape shape = yoke_shape(UPDATED);
    yoke_task_info info;
    yoke_replica_options o = yki_tool_replica_options(&s->training, optimizer);
    yoke_replica *replica = NULL;
    yoke_graph *g;
    float *x = calloc(UPDATED, sizeof *x);
    yoke_status status = x ? yoke_graph_create(&g) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status) {
        free(x);
        return status;
    }
    yoke_graph_set_loss(g, yoke_mean(g,
                                     yoke_mul(g, yoke_input(g, "x", YOKE_F32, shape),
                                              yoke_parameter(g, "p", shape, init)),
                                     NULL, 0));
    o.batch = 1;
    memset(&info, 0, sizeof info);
    info.name = info.op = "update";
    info.solver = name;
    info.flops = (double)flops * UPDATED;
    info.bytes = 4.0 * floats * UPDATED;
    status = yoke_replica_create(s->device, g, &o, &replica);
    if (!status)
        status = yoke_replica_set_input(replica, 1, yoke_feed_f32("x", x, UPDATED));
    if (!status)
        status = yoke_device_measure_peak(s->device, &s->peak);
    if (!status)
        status = measure_update(s, replica, &info.seconds);
    s->label = "8388608 parameters";
    if (!status)
        report_task(s, &info);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(g);
    free(x);
    return status;
}

static yoke_status
bench_eltwise(session *s)
{
    yoke_status status;

    s->by_bandwidth = true;
    status = eltwise_case(s);
    if (!status)
        status = layer_norm_case(s);
    if (!status)
        status = update_case(s, "sgd with momentum", yoke_sgd(1e-3f, 0.9f), 4, 5);
    if (!status)
        status = update_case(s, "adam", yoke_adam(1e-3f), 12, 7);
    return status;
}

static yoke_status
bench_peak(session *s)
{
    yoke_status status = yoke_device_measure_peak(s->device, &s->peak);

    if (!status)
        report_peak(s);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv, yoke_status (*bench)(session *))
{
    session s;
    yoke_status failed;
    int status;

    memset(&s, 0, sizeof s);
    s.repeats = REPEATS;
    status = yki_tool_read(self, argc, argv, &s);
    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, NULL, NULL, NULL);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    failed = yoke_context_create(NULL, &s.context);
    if (!failed)
        failed = yoke_selection_create(s.context, s.training.devices, NULL, &s.selection);
    if (!failed) {
        s.device = yoke_selection_get(s.selection, 0);
        if (s.json) {
            yki_tool_json_start(&s.out, stdout);
            yki_tool_json_open_array(&s.out, NULL);
        }
        failed = bench(&s);
        if (s.json) {
            yki_tool_json_close_array(&s.out);
            yki_tool_json_end(&s.out);
        }
    }
    status = failed ? yki_tool_fail(self, failed) : TOOL_OK;
    yoke_selection_destroy(s.selection);
    yoke_context_destroy(s.context);
    return status;
}

#define COMMAND(identifier, command_name, what, rows)                                              \
    static int run_##identifier(const yki_tool_command *self, int argc, char **argv)               \
    {                                                                                              \
        return run(self, argc, argv, bench_##identifier);                                          \
    }                                                                                              \
    const yki_tool_command yki_tool_bench_##identifier = {                                         \
        .name = "yoke bench " command_name,                                                        \
        .synopsis = "[OPTION]...",                                                                 \
        .summary = what,                                                                           \
        .description = "Measure " what ", as fractions of what the\n"                              \
                       "device can do, measured in the same run.",                                 \
        .options = rows,                                                                           \
        TOOL_TRAINING(TOOL_FOR_OPERATORS, session, training),                                      \
        .run = run_##identifier,                                                                   \
        .example = "yoke bench " command_name " --devices=cpu:0 --json",                           \
    };
COMMAND(peak, "peak", "the limits of a device", options)
COMMAND(gemm, "gemm", "matrix products", options)
COMMAND(conv, "conv", "convolutions and their gradients", options)
COMMAND(attention, "attention", "attention and its gradient", attention_options)
COMMAND(eltwise, "eltwise", "elementwise operators, normalisation, pooling, optimizers", options)
