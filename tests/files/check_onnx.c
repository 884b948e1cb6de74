/* SPDX-License-Identifier: Apache-2.0
 *
 * check_onnx.c - models of ONNX on devices: what PyTorch exported (onnx_models.py) has PyTorch's
 * outputs and gradients; what yoke writes is read again as the same model, operator by operator.
 * With YOKE_TEST_WRITE it writes models for onnx_runtime.py, with what they compute here.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/models.h"
#include "data/safetensors.h"
#include "data/weights_file.h"
#include "op/small_graphs.h"
#include "support/devices.h"
#include "support/scratch.h"

enum { SAMPLES = 4, MOST = 4096 };

static const char *const exported[] = {"residual", "images", "attention",
                                       "masked",   "words",  "grown"};

static const char *
in_source(const char *name, const char *ending)
{
    static char path[2][500];
    static unsigned turn;
    const char *folder = getenv("YOKE_SRCDIR"), *made = getenv("YOKE_TEST_MODELS");

    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s%s/%s%s",
             made     ? made
             : folder ? folder
                      : ".",
             made ? "" : "/tests/files/onnx", name, ending);
    return path[turn];
}

/* max |a - b| / max |b| */
static double
error_of(const float *a, const float *b, size_t count)
{
    double worst = 0, largest = 1e-30;

    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);

        worst = difference > worst || isnan(difference) ? difference : worst;
        largest = fmax(largest, fabs((double)b[i]));
    }
    return worst / largest;
}

/* ---- predictions ---- */

static yoke_feed
feed_of(const yoke_model *m, const void *x, int64_t n)
{
    const yoke_field *input = yoke_model_get_input(m);
    const int64_t count = n * yki_shape_count(input->shape);

    return input->type == YOKE_I32   ? yoke_feed_i32(input->name, x, count)
           : input->type == YOKE_F32 ? yoke_feed_f32(input->name, x, count)
                                     : yoke_feed_make(input->name, YOKE_U8, x, count);
}

static size_t
predict(const test_devices *d, yoke_model *m, const void *x, int64_t n, float *y)
{
    const yoke_predictor_options o = {
        .raw = true, .batch = n, .strict = true, .level = YOKE_PLAN_ESTIMATE};
    yoke_predictor *p;
    size_t count;

    ASSERT_OK(yoke_predictor_create(d->context, d->selector, m, &o, &p));
    count = (size_t)(n * yki_shape_count(yoke_predictor_get_shape(p)));
    ASSERT_OK(yoke_predictor_run(p, n, feed_of(m, x, n), y, (int64_t)count));
    yoke_predictor_destroy(p);
    return count;
}

/* ---- what PyTorch exported ---- */

typedef struct expected {
    yki_safetensors *io;
    float x[MOST], y[MOST]; /* x: or whole numbers */
    int32_t label[SAMPLES];
} expected;

static void
read_expected(const char *name, expected *e)
{
    ASSERT_OK(yki_safetensors_open(in_source(name, "-io.safetensors"), &e->io));
    ck_assert_uint_le(yki_safetensors_find(e->io, "x")->count, MOST);
    ASSERT_OK(yki_safetensors_read(e->io, yki_safetensors_find(e->io, "x"), e->x));
    ASSERT_OK(yki_safetensors_read_f32(e->io, yki_safetensors_find(e->io, "y"), e->y));
    ASSERT_OK(yki_safetensors_read(e->io, yki_safetensors_find(e->io, "label"), e->label));
}

START_TEST(outputs)
{
    const char *name = exported[_i];
    test_devices devices;
    float y[MOST];
    expected e;
    yoke_model *m;
    size_t count;

    read_expected(name, &e);
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_model_load_onnx(in_source(name, ".onnx"), &m));
    count = predict(&devices, m, e.x, SAMPLES, y);
    ck_assert_uint_eq(count, yki_safetensors_find(e.io, "y")->count);
    ck_assert_msg(error_of(y, e.y, count) < 2e-6, "error %g", error_of(y, e.y, count));
    /* And written again. */
    ASSERT_OK(yoke_model_save_onnx(m, scratch_path("again.onnx")));
    yoke_model_destroy(m);
    ASSERT_OK(yoke_model_load_onnx(scratch_path("again.onnx"), &m));
    predict(&devices, m, e.x, SAMPLES, y);
    ck_assert_msg(error_of(y, e.y, count) < 2e-6, "again: %g", error_of(y, e.y, count));
    yoke_model_destroy(m);
    yki_safetensors_close(e.io);
    test_devices_close(&devices);
}
END_TEST

/* All weights that are trained have the names and the gradients that they have in PyTorch. */
static void
check_gradients(yoke_replica *replica, const yoke_graph *g, const expected *e)
{
    float got[MOST], wanted[MOST];
    char name[200];
    size_t found = 0, wants = 0;

    for (size_t i = 0; i < e->io->count; i++)
        wants += strncmp(e->io->tensors[i].name, "gradient.", 9) == 0;
    for (size_t i = 0; i < yoke_graph_parameter_count(g); i++) {
        const yoke_node *p = yoke_graph_get_parameter(g, i);
        const size_t count = (size_t)yki_shape_count(p->shape);
        const yki_tensor *tensor;

        if (p->frozen)
            continue;
        snprintf(name, sizeof name, "gradient.%s", p->name);
        tensor = yki_safetensors_find(e->io, name);
        ck_assert_msg(tensor && tensor->count == count, "%s", name);
        ASSERT_OK(yki_safetensors_read_f32(e->io, tensor, wanted));
        ASSERT_OK(yoke_replica_read_gradient(replica, p->name, got, (int64_t)count));
        ck_assert_msg(error_of(got, wanted, count) < 2e-5, "%s: error %g", name,
                      error_of(got, wanted, count));
        found++;
    }
    ck_assert_uint_eq(found, wants);
}

START_TEST(training)
{
    const char *name = exported[_i];
    const yoke_replica_options options = {
        .batch = SAMPLES, .level = YOKE_PLAN_ESTIMATE, .strict = true};
    test_devices devices;
    yoke_replica *replica;
    yoke_model *m;
    yoke_graph *g;
    expected e;

    read_expected(name, &e);
    ASSERT_OK(yoke_model_load_onnx(in_source(name, ".onnx"), &m));
    ASSERT_OK(yoke_model_save(m, scratch_path("model.safetensors")));
    g = yoke_model_get_graph(m);
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, g->outputs[0].node,
                                      yoke_target(g, "label", YOKE_I32, yoke_shape()), NULL));
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_replica_create(yoke_selection_get(devices.selection, 0), g, &options, &replica));
    ASSERT_OK(yoke_replica_load_weights(replica, scratch_path("model.safetensors"), NULL));
    ASSERT_OK(yoke_replica_set_input(replica, SAMPLES, feed_of(m, e.x, SAMPLES)));
    ASSERT_OK(yoke_replica_set_input(replica, SAMPLES, yoke_feed_i32("label", e.label, SAMPLES)));
    ASSERT_OK(yoke_replica_forward(replica, SAMPLES));
    ASSERT_OK(yoke_replica_backward(replica));
    check_gradients(replica, g, &e);
    yoke_replica_destroy(replica);
    yoke_model_destroy(m);
    yki_safetensors_close(e.io);
    test_devices_close(&devices);
}
END_TEST

/* ---- what yoke writes ---- */

/* Makes a model of one operator whose parameters are not all alike; NULL: it is for training. */
static yoke_model *
small_model(const op_small_graph *row)
{
    yoke_graph *g;
    yoke_node *x, *y;
    yoke_model *m;
    float values[MOST];

    if (row->target != OP_NO_TARGET)
        return NULL;
    ASSERT_OK(yoke_graph_create(&g));
    x = op_small_input(g, row);
    y = row->make(g, x);
    yoke_graph_set_output(g, "result", y);
    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.seed = 4}, &m));
    yoke_graph_destroy(g);
    g = yoke_model_get_graph(m);
    for (size_t i = 0; i < g->node_count; i++) {
        const int64_t count = yki_shape_count(g->nodes[i]->shape);

        if (!yki_is_weight(g->nodes[i]))
            continue;
        for (int64_t k = 0; k < count; k++)
            values[k] = 0.5f + 0.25f * (float)((k * 7 + (int64_t)i) % 5);
        ASSERT_OK(yoke_model_write(m, g->nodes[i]->name, values, count));
    }
    return m;
}

static void
fill(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = (float)((i * 37 + 11) % 41) / 20 - 1;
}

/* Operators that ONNX does not have, or that take whole numbers beside the data. */
static bool
is_refused(const op_small_graph *row)
{
    return strcmp(row->word, "custom") == 0;
}

START_TEST(operators)
{
    const op_small_graph *row = &op_small_graphs[_i];
    yoke_model *m = small_model(row), *again;
    test_devices devices;
    float x[MOST], y[2][MOST];
    size_t count;

    if (!m)
        return;
    if (is_refused(row)) {
        ASSERT_REFUSED(YOKE_ERROR_UNSUPPORTED, "does not write for ONNX",
                       yoke_model_save_onnx(m, scratch_path("x.onnx")));
        yoke_model_destroy(m);
        return;
    }
    ASSERT_OK(yoke_model_save_onnx(m, scratch_path("x.onnx")));
    ASSERT_OK(yoke_model_load_onnx(scratch_path("x.onnx"), &again));
    if (strcmp(row->word, "embedding") == 0) { /* its input is another one than "x" */
        yoke_model_destroy(again);
        yoke_model_destroy(m);
        return;
    }
    fill(x, MOST);
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    count = predict(&devices, m, x, SAMPLES, y[0]);
    ck_assert_uint_eq(predict(&devices, again, x, SAMPLES, y[1]), count);
    ck_assert_msg(error_of(y[1], y[0], count) < 2e-6, "%s %s: error %g", row->word, row->note,
                  error_of(y[1], y[0], count));
    yoke_model_destroy(again);
    yoke_model_destroy(m);
    test_devices_close(&devices);
}
END_TEST

/* Heads that share keys, and positions of both kinds. */
START_TEST(heads)
{
    static const struct {
        int32_t heads, shared;
        bool causal, interleaved;
    } rows[] = {{4, 2, true, false}, {4, 1, false, true}, {6, 3, true, true}};
    test_devices devices;
    float x[MOST], y[2][MOST];
    yoke_model *m, *again;
    yoke_graph *g;
    yoke_node *node;
    size_t count;

    fill(x, MOST);
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        const yoke_rope_options rope = {
            .heads = rows[i].heads, .shared = rows[i].shared, .interleaved = rows[i].interleaved};
        const yoke_attention_options attention = {
            .heads = rows[i].heads, .shared = rows[i].shared, .causal = rows[i].causal};

        ASSERT_OK(yoke_graph_create(&g));
        node =
            yoke_input(g, "x", YOKE_F32, yoke_shape(5, 4 * (rows[i].heads + 2 * rows[i].shared)));
        node = yoke_attention(g, yoke_rope(g, node, NULL, &rope), NULL, &attention);
        yoke_graph_set_output(g, "y", node);
        ASSERT_OK(yoke_model_create(g, NULL, &m));
        yoke_graph_destroy(g);
        ASSERT_OK(yoke_model_save_onnx(m, scratch_path("x.onnx")));
        ASSERT_OK(yoke_model_load_onnx(scratch_path("x.onnx"), &again));
        count = predict(&devices, m, x, SAMPLES, y[0]);
        predict(&devices, again, x, SAMPLES, y[1]);
        ck_assert_msg(error_of(y[1], y[0], count) < 2e-6, "%zu: error %g", i,
                      error_of(y[1], y[0], count));
        yoke_model_destroy(again);
        yoke_model_destroy(m);
    }
    test_devices_close(&devices);
}
END_TEST

/* Data are scaled by the file as the model scales them. */
START_TEST(scaled_data)
{
    static const float mean[2] = {100, 50}, scale[2] = {0.01f, 0.02f};
    unsigned char x[SAMPLES * 2 * 4 * 4];
    test_devices devices;
    float y[2][MOST];
    yoke_model *m, *again;
    yoke_graph *g;
    size_t count;

    for (size_t i = 0; i < sizeof x; i++)
        x[i] = (unsigned char)(i * 89 + 3);
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    for (size_t scaling = 0; scaling < 3; scaling++) {
        const yoke_model_options o = {
            .input_type = YOKE_U8, .mean = mean, .scale = scale, .scaling_count = scaling};

        ASSERT_OK(yoke_graph_create(&g));
        yoke_graph_set_output(
            g, "y",
            yoke_dense(g, yoke_flatten(g, yoke_input(g, "x", YOKE_F32, yoke_shape(2, 4, 4))),
                       &(yoke_dense_options){.units = 3}));
        ASSERT_OK(yoke_model_create(g, &o, &m));
        yoke_graph_destroy(g);
        ASSERT_OK(yoke_model_save_onnx(m, scratch_path("x.onnx")));
        ASSERT_OK(yoke_model_load_onnx(scratch_path("x.onnx"), &again));
        ck_assert_int_eq(yoke_model_get_input(again)->type, YOKE_U8);
        count = predict(&devices, m, x, SAMPLES, y[0]);
        predict(&devices, again, x, SAMPLES, y[1]);
        ck_assert_msg(error_of(y[1], y[0], count) < 2e-6, "%zu: error %g", scaling,
                      error_of(y[1], y[0], count));
        yoke_model_destroy(again);
        yoke_model_destroy(m);
    }
    test_devices_close(&devices);
}
END_TEST

/* ---- for onnxruntime ---- */

typedef struct io {
    const void *x;
    const float *y;
    size_t x_bytes, y_count;
} io;

static yoke_status
give(void *user, size_t index, void *out)
{
    const io *data = user;

    memcpy(out, index ? (const void *)data->y : data->x,
           index ? data->y_count * sizeof(float) : data->x_bytes);
    return YOKE_OK;
}

/* Writes FOLDER/NAME.onnx, the data and the outputs. */
static void
write_for_runtime(const test_devices *d, yoke_model *m, const char *name)
{
    const yoke_field *input = yoke_model_get_input(m);
    const int64_t values = yki_shape_count(input->shape);
    const bool whole = input->type == YOKE_I32;
    const size_t count = (size_t)(SAMPLES * values);
    int64_t shape[2][YOKE_MAX_RANK + 1] = {{SAMPLES}, {SAMPLES}};
    float *x = malloc(count * sizeof *x), *y = malloc(sizeof *y << 20);
    char path[600];
    io data = {.x = x, .y = y, .x_bytes = count * sizeof *x};
    yki_tensor_source tensors[2] = {
        {"x", whole ? YKI_DTYPE_I32 : YKI_DTYPE_F32, (uint32_t)input->shape.rank + 1, shape[0]},
        {"y", YKI_DTYPE_F32, 1, shape[1]}};

    ck_assert(x && y);
    memcpy(shape[0] + 1, input->shape.dim, sizeof input->shape.dim);
    fill(x, count);
    for (size_t i = 0; whole && i < count; i++) {
        const int32_t token = (int32_t)(i * 5 % 11);

        memcpy(&x[i], &token, sizeof token);
    }
    data.y_count = predict(d, m, x, SAMPLES, y);
    ck_assert_uint_le(data.y_count, 1 << 20);
    shape[1][0] = (int64_t)data.y_count;
    snprintf(path, sizeof path, "%s/%s.onnx", getenv("YOKE_TEST_WRITE"), name);
    ASSERT_OK(yoke_model_save_onnx(m, path));
    snprintf(path, sizeof path, "%s/%s-io.safetensors", getenv("YOKE_TEST_WRITE"), name);
    ASSERT_OK(yki_safetensors_write(path, NULL, 0, tensors, 2, give, &data));
    free(x);
    free(y);
}

START_TEST(for_runtime)
{
    static const char *const built_in[] = {"tiny",     "mlp",       "simplecnn", "lenet",
                                           "resnet18", "mobilenet", "gpt",       "llama"};
    const yki_tool_sizes sizes = {
        .layers = 2, .heads = 4, .width = 16, .context = 12, .vocabulary = 11, .shared = 2};
    test_devices devices;
    char name[100];

    if (!getenv("YOKE_TEST_WRITE"))
        return;
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    for (size_t i = 0; i < op_small_graph_count; i++) {
        const op_small_graph *row = &op_small_graphs[i];
        yoke_model *m =
            is_refused(row) || strcmp(row->word, "embedding") == 0 ? NULL : small_model(row);

        if (!m)
            continue;
        snprintf(name, sizeof name, "%02zu-%s", i, row->word);
        write_for_runtime(&devices, m, name);
        yoke_model_destroy(m);
    }
    for (size_t i = 0; i < YKI_COUNT(built_in); i++) {
        const yki_tool_model *model = yki_tool_find_model(built_in[i]);
        char why[TOOL_MODEL_WHY];
        yki_tool_model sized;
        yoke_graph *g;
        yoke_model *m;

        if (model->language) {
            yki_tool_sizes own = sizes;

            own.shared = strcmp(built_in[i], "llama") == 0 ? 2 : 0;
            own.inner = own.shared ? 24 : 0;
            ck_assert_msg(yki_tool_size_model(model, &own, 9, &sized, why), "%s", why);
            model = &sized;
        }
        ASSERT_OK(yki_tool_build_model(model, &g));
        ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.seed = 7}, &m));
        yoke_graph_destroy(g);
        write_for_runtime(&devices, m, built_in[i]);
        yoke_model_destroy(m);
    }
    test_devices_close(&devices);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("onnx");
    TCase *read = test_case(suite, "read"), *written = test_case(suite, "written");
    TCase *runtime = test_case(suite, "runtime");

    tcase_add_checked_fixture(read, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(read, outputs, 0, (int)YKI_COUNT(exported));
    tcase_add_loop_test(read, training, 0, (int)YKI_COUNT(exported));
    tcase_add_checked_fixture(written, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(written, operators, 0, (int)op_small_graph_count);
    tcase_add_test(written, heads);
    tcase_add_test(written, scaled_data);
    tcase_set_timeout(runtime, 600);
    tcase_add_test(runtime, for_runtime);
    return suite;
}
