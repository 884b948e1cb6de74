/* SPDX-License-Identifier: Apache-2.0
 *
 * check_golden.c - whole small networks against PyTorch: from the same parameters,
 * 10 steps on the same data end in the same losses and parameters; those of yoke_zoo
 * too. golden.py made the files.
 *
 * Tolerance: 1e-4 of the largest value of each tensor, with `strict` and with
 * Winograd alike. Networks with relu are compared with `strict` only, on data that
 * comes no nearer to its kink than 2e-6 (golden.py picks the seed): beyond that
 * another order of sums may switch a relu, and with it the gradient of a whole
 * channel (seen: one switch, 2 % of a weight's gradient), which says nothing of
 * either sum. Winograd, whose sums differ by more, is held to the smooth twin.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/support.h"

TESTS_SHARE_A_PROCESS

enum { STEPS = 10, BATCH = 8, MAX_ENTRIES = 256 };

/* ---- golden files ---- */

typedef struct entry {
    char name[96];
    size_t count;
    yoke_type type;
    float *values; /* or int32 of the same size */
} entry;

typedef struct golden {
    entry entries[MAX_ENTRIES];
    size_t count;
} golden;

static void
load(const char *name, golden *file)
{
    const char *folder = getenv("YOKE_SRCDIR");
    char path[4096], type[8];
    FILE *stream;
    entry e;
    int rank;

    snprintf(path, sizeof path, "%s/tests/golden/%s.golden", folder ? folder : "..", name);
    stream = fopen(path, "rb");
    ck_assert_msg(stream != NULL, "%s cannot be opened", path);
    file->count = 0;
    while (fscanf(stream, "%95s %7s %d", e.name, type, &rank) == 3) {
        e.count = 1;
        for (int i = 0; i < rank; i++) {
            size_t size;

            ck_assert_int_eq(fscanf(stream, "%zu", &size), 1);
            e.count *= size;
        }
        ck_assert_int_eq(fgetc(stream), '\n');
        e.type = strcmp(type, "f32") == 0 ? YOKE_F32 : YOKE_I32;
        e.values = malloc(e.count * 4);
        ck_assert_uint_eq(fread(e.values, 4, e.count, stream), e.count);
        ck_assert_uint_lt(file->count, MAX_ENTRIES);
        file->entries[file->count++] = e;
    }
    fclose(stream);
    ck_assert_uint_gt(file->count, 0);
}

static const entry *
find(const golden *file, const char *name)
{
    for (size_t i = 0; i < file->count; i++)
        if (strcmp(file->entries[i].name, name) == 0)
            return &file->entries[i];
    ck_abort_msg("no %s in the golden file", name);
    return NULL;
}

static void
unload(golden *file)
{
    for (size_t i = 0; i < file->count; i++)
        free(file->entries[i].values);
}

/* ---- the networks of golden.py ---- */

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units, const char *name)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .name = name});
}

static yoke_node *
conv(yoke_graph *g, yoke_node *x, yoke_conv2d_options o)
{
    return yoke_conv2d(g, x, &o);
}

static yoke_node *
norm(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_batch_norm(g, x, &(yoke_batch_norm_options){.name = name});
}

static void
classify(yoke_graph *g, yoke_node *y)
{
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(
        g, yoke_softmax_cross_entropy(g, y, yoke_target(g, "t", YOKE_I32, yoke_shape()), NULL));
}

static void
build_mlp(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(12));

    classify(g, dense(g, yoke_relu(g, dense(g, x, 16, "fc1")), 5, "fc2"));
}

static void
build_conv(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(3, 9, 9));

    x = conv(g, x,
             (yoke_conv2d_options){.filters = 8, .kernel = {3, 3}, .pad = {1, 1}, .name = "conv1"});
    x = yoke_maxpool2d(g, yoke_relu(g, x), &(yoke_pool2d_options){.kernel = {2, 2}});
    x = conv(g, x,
             (yoke_conv2d_options){.filters = 12,
                                   .kernel = {5, 5},
                                   .stride = {2, 2},
                                   .pad = {2, 2},
                                   .groups = 2,
                                   .name = "conv2"});
    x = yoke_silu(g, norm(g, x, "bn1"));
    x = conv(g, x,
             (yoke_conv2d_options){.filters = 12,
                                   .kernel = {3, 3},
                                   .pad = {2, 2},
                                   .dilation = {2, 2},
                                   .groups = 12,
                                   .no_bias = true,
                                   .name = "conv3"});
    x = yoke_global_avgpool(g, yoke_leaky_relu(g, x, 0.1f));
    classify(g, dense(g, x, 4, "fc1"));
}

static yoke_node *
plain_conv(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride,
           const char *name)
{
    return conv(g, x,
                (yoke_conv2d_options){.filters = filters,
                                      .kernel = {size, size},
                                      .stride = {stride, stride},
                                      .pad = {size / 2, size / 2},
                                      .no_bias = true,
                                      .name = name});
}

typedef yoke_node *(*activation)(yoke_graph *, yoke_node *);

static void
build_blocks(yoke_graph *g, activation act)
{
    yoke_node *x = yoke_input(g, "x", YOKE_F32, yoke_shape(3, 12, 12)), *y, *shortcut;

    x = act(g, norm(g, plain_conv(g, x, 16, 3, 1, "conv1"), "bn1"));
    y = act(g, norm(g, plain_conv(g, x, 16, 3, 1, "layer1.0.conv1"), "layer1.0.bn1"));
    y = norm(g, plain_conv(g, y, 16, 3, 1, "layer1.0.conv2"), "layer1.0.bn2");
    x = act(g, yoke_add(g, y, x));
    y = act(g, norm(g, plain_conv(g, x, 32, 3, 2, "layer2.0.conv1"), "layer2.0.bn1"));
    y = norm(g, plain_conv(g, y, 32, 3, 1, "layer2.0.conv2"), "layer2.0.bn2");
    shortcut =
        norm(g, plain_conv(g, x, 32, 1, 2, "layer2.0.downsample.0"), "layer2.0.downsample.1");
    x = act(g, yoke_add(g, y, shortcut));
    classify(g, dense(g, yoke_global_avgpool(g, x), 10, "fc"));
}

static void
build_residual(yoke_graph *g)
{
    build_blocks(g, yoke_relu);
}

static void
build_smooth(yoke_graph *g)
{
    build_blocks(g, yoke_silu);
}

static void
build_sequence(yoke_graph *g)
{
    yoke_node *x = yoke_input(g, "x", YOKE_I32, yoke_shape(6)), *y, *scores;

    x = yoke_embedding(g, x,
                       &(yoke_embedding_options){.rows = 11, .width = 8, .name = "embedding1"});
    x = yoke_layer_norm(g, x, &(yoke_layer_norm_options){.name = "ln1"});
    y = yoke_gelu(g, dense(g, x, 8, "fc1"));
    scores = yoke_matmul(g, y, x, &(yoke_matmul_options){.transpose_b = true});
    scores = yoke_softmax(g, yoke_scale(g, scores, 0.5f, 0), 1);
    y = dense(g, yoke_tanh(g, yoke_matmul(g, scores, y, NULL)), 3, "fc2");
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(
        g, yoke_mean_squared_error(g, y, yoke_target(g, "t", YOKE_F32, yoke_shape(6, 3)), NULL));
}

enum { WIDTH = 16, HEADS = 4, SHARED = 2, INNER = 24, TOKENS = 19, LENGTH = 7 };

/* The name of a part of a layer; two at a time. */
static const char *
part(const char *format, int layer)
{
    static char names[2][64];
    static int at;

    at = !at;
    snprintf(names[at], sizeof names[at], format, layer);
    return names[at];
}

static yoke_node *
rows(yoke_graph *g, yoke_node *x, int64_t units, bool no_bias, const char *name)
{
    return yoke_dense(g, x,
                      &(yoke_dense_options){.units = units, .no_bias = no_bias, .name = name});
}

static yoke_node *
row_norm(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1, .name = name});
}

static yoke_node *
embed(yoke_graph *g, const char *name)
{
    yoke_node *x = yoke_input(g, "x", YOKE_I32, yoke_shape(LENGTH));

    return yoke_embedding(g, x,
                          &(yoke_embedding_options){.rows = TOKENS, .width = WIDTH, .name = name});
}

static void
guess_tokens(yoke_graph *g, yoke_node *y)
{
    const yoke_loss_options o = {.has_ignore_index = true, .ignore_index = -1};
    yoke_node *t = yoke_target(g, "t", YOKE_I32, yoke_shape(LENGTH));

    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, yoke_transpose(g, y, NULL), t, &o));
}

static void
build_gpt(yoke_graph *g)
{
    yoke_node *x = embed(g, "wte"), *y, *position;

    position = yoke_parameter(g, "wpe.weight", yoke_shape(LENGTH, WIDTH),
                              (yoke_initializer){YOKE_INIT_ZEROS, 0, 0, 0});
    x = yoke_add(g, x, position);
    for (int i = 0; i < 2; i++) {
        y = rows(g, row_norm(g, x, part("h.%d.ln_1", i)), 3 * WIDTH, false,
                 part("h.%d.attn.c_attn", i));
        y = yoke_attention(g, y, NULL, &(yoke_attention_options){.heads = HEADS, .causal = true});
        x = yoke_add(g, x, rows(g, y, WIDTH, false, part("h.%d.attn.c_proj", i)));
        y = rows(g, row_norm(g, x, part("h.%d.ln_2", i)), 4 * WIDTH, false,
                 part("h.%d.mlp.c_fc", i));
        y = rows(g, yoke_gelu_tanh(g, y), WIDTH, false, part("h.%d.mlp.c_proj", i));
        x = yoke_add(g, x, y);
    }
    guess_tokens(g, yoke_matmul(g, row_norm(g, x, "ln_f"), yoke_graph_get_node(g, "wte.weight"),
                                &(yoke_matmul_options){.transpose_b = true}));
}

static yoke_node *
rms_norm(yoke_graph *g, yoke_node *x, const char *name)
{
    return yoke_rms_norm(g, x, &(yoke_layer_norm_options){.axes = 1, .name = name});
}

static void
build_llama(yoke_graph *g)
{
    const yoke_rope_options rope = {.heads = HEADS, .shared = SHARED};
    const yoke_attention_options causal = {.heads = HEADS, .shared = SHARED, .causal = true};
    const int64_t row = WIDTH + 2 * WIDTH / HEADS * SHARED;
    yoke_node *x = embed(g, "embed"), *y;

    for (int i = 0; i < 2; i++) {
        y = rows(g, rms_norm(g, x, part("layers.%d.norm1", i)), row, true,
                 part("layers.%d.qkv", i));
        y = yoke_attention(g, yoke_rope(g, y, NULL, &rope), NULL, &causal);
        x = yoke_add(g, x, rows(g, y, WIDTH, true, part("layers.%d.out", i)));
        y = rows(g, rms_norm(g, x, part("layers.%d.norm2", i)), 2 * INNER, true,
                 part("layers.%d.gate_up", i));
        x = yoke_add(g, x, rows(g, yoke_swiglu(g, y), WIDTH, true, part("layers.%d.down", i)));
    }
    guess_tokens(g, rows(g, rms_norm(g, x, "norm"), TOKENS, true, "head"));
}

/* ---- the built-in models, which are the same networks ---- */

static yoke_graph *
make_zoo(const char *name)
{
    const bool llama = strcmp(name, "llama") == 0;
    const yoke_zoo_options sizes = {.input = yoke_shape(LENGTH),
                                    .layers = 2,
                                    .heads = HEADS,
                                    .width = WIDTH,
                                    .context = LENGTH,
                                    .vocabulary = TOKENS,
                                    .shared = llama ? SHARED : 0,
                                    .inner = llama ? INNER : 0,
                                    .input_name = "x",
                                    .target_name = "t"};
    yoke_graph *g;

    ASSERT_OK(yoke_zoo(name, &sizes, &g));
    return g;
}

/* Returns what a model calls a parameter of the file: the built-in gpt as the file. */
static const char *
parameter(bool zoo, const char *name)
{
    static const char *const parts[][2] = {
        {"norm1", "input_layernorm"}, {"qkv", "self_attn.qkv_proj"},
        {"out", "self_attn.o_proj"},  {"norm2", "post_attention_layernorm"},
        {"down", "mlp.down_proj"},    {"gate_up", "mlp.gate_up_proj"},
    };
    static char result[96];
    char word[32];
    int layer;

    if (!zoo)
        return name;
    if (strcmp(name, "embed.weight") == 0)
        return "model.embed_tokens.weight";
    if (strcmp(name, "norm.weight") == 0)
        return "model.norm.weight";
    if (strcmp(name, "head.weight") == 0)
        return "lm_head.weight";
    if (sscanf(name, "layers.%d.%31[^.].weight", &layer, word) == 2)
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
            if (strcmp(word, parts[i][0]) == 0) {
                snprintf(result, sizeof result, "model.layers.%d.%s.weight", layer, parts[i][1]);
                return result;
            }
    return name;
}

/* ---- training ---- */

static void
compare(const char *what, const float *got, const entry *expected, double tolerance)
{
    double worst = 0, largest = 0;

    for (size_t i = 0; i < expected->count; i++) {
        largest = fmax(largest, fabs((double)expected->values[i]));
        worst = fmax(worst, fabs((double)got[i] - (double)expected->values[i]));
        ck_assert_msg(isfinite(got[i]), "%s: %s is %g", what, expected->name, (double)got[i]);
    }
    ck_assert_msg(worst <= tolerance * largest, "%s: %s is off by %g of %g", what, expected->name,
                  worst, largest);
}

static void
give(const golden *file, yoke_replica *replica, const char *input, int step)
{
    char name[16];
    const entry *e;

    snprintf(name, sizeof name, "%s:%d", input, step);
    e = find(file, name);
    ASSERT_OK(yoke_replica_set_input(replica, BATCH,
                                     yoke_feed_make(input, e->type, e->values, (int64_t)e->count)));
}

static void
train(const golden *file, yoke_replica *replica, float *losses)
{
    for (int step = 0; step < STEPS; step++) {
        double sum, count;

        give(file, replica, "x", step);
        give(file, replica, "t", step);
        ASSERT_OK(yoke_replica_forward(replica, BATCH));
        ASSERT_OK(yoke_replica_backward(replica));
        ASSERT_OK(yoke_replica_read_loss(replica, &sum, &count));
        losses[step] = (float)(sum / count);
        ASSERT_OK(yoke_replica_update(replica, 1));
    }
}

/* Without `build` the network is that of yoke_zoo. */
static void
check_on(yoke_device *device, const char *name, void (*build)(yoke_graph *), bool strict,
         yoke_plan_level level)
{
    yoke_replica_options o = {.batch = BATCH, .strict = strict, .level = level};
    const bool language = strcmp(name, "gpt") == 0 || strcmp(name, "llama") == 0;
    const double tolerance = 1e-4;
    yoke_replica *replica;
    yoke_graph *graph;
    float losses[STEPS], *values;
    static golden file;

    load(name, &file);
    if (build) {
        ASSERT_OK(yoke_graph_create(&graph));
        build(graph);
        ASSERT_OK(yoke_graph_status(graph));
    } else
        graph = make_zoo(name);
    o.optimizer = language ? yoke_adamw(2e-3f, 0.01f) : yoke_sgd(0.05f, 0.9f);
    if (language)
        o.optimizer.epsilon = 1e-5f;
    else
        o.optimizer.weight_decay = 1e-4f;
    ASSERT_OK(yoke_replica_create(device, graph, &o, &replica));
    for (size_t i = 0; i < file.count; i++)
        if (strncmp(file.entries[i].name, "before:", 7) == 0)
            ASSERT_OK(yoke_replica_write(replica, parameter(!build, file.entries[i].name + 7),
                                         file.entries[i].values, file.entries[i].count));
    train(&file, replica, losses);
    compare(name, losses, find(&file, "losses"), tolerance);
    for (size_t i = 0; i < file.count; i++) {
        const entry *e = &file.entries[i];

        if (strncmp(e->name, "after:", 6) != 0)
            continue;
        values = malloc(e->count * sizeof *values);
        ASSERT_OK(yoke_replica_read(replica, parameter(!build, e->name + 6), values, e->count));
        compare(name, values, e, tolerance);
        free(values);
    }
    /* With running statistics, on the last batch. */
    ASSERT_OK(yoke_replica_evaluate(replica, BATCH));
    values = malloc(find(&file, "evaluated")->count * sizeof *values);
    ASSERT_OK(yoke_replica_read_output(replica, build ? "y" : "logits", values,
                                       find(&file, "evaluated")->count));
    compare(name, values, find(&file, "evaluated"), tolerance);
    free(values);
    yoke_replica_destroy(replica);
    yoke_graph_destroy(graph);
    unload(&file);
}

static void
check_everywhere(const char *name, void (*build)(yoke_graph *), int variant, bool smooth)
{
    /* By estimate; then whatever measuring likes, Winograd included. */
    bool strict = variant == 0 || !smooth;
    yoke_context *context;
    yoke_selection *selection;

    ASSERT_OK(yoke_context_create(NULL, &context));
    ASSERT_OK(yoke_selection_create(context, test_selector(), NULL, &selection));
    for (size_t i = 0; i < yoke_selection_count(selection); i++)
        check_on(yoke_selection_get(selection, i), name, build, strict,
                 variant == 0 ? YOKE_PLAN_ESTIMATE : YOKE_PLAN_MEASURE);
    yoke_selection_destroy(selection);
    yoke_context_destroy(context);
}

START_TEST(golden_mlp)
{
    check_everywhere("mlp", build_mlp, _i, false);
}
END_TEST

START_TEST(golden_conv)
{
    check_everywhere("conv", build_conv, _i, false);
}
END_TEST

START_TEST(golden_gpt)
{
    check_everywhere("gpt", build_gpt, _i, true);
}
END_TEST

START_TEST(golden_llama)
{
    check_everywhere("llama", build_llama, _i, true);
}
END_TEST

START_TEST(golden_zoo)
{
    check_everywhere(_i ? "llama" : "gpt", NULL, 0, true);
}
END_TEST

START_TEST(golden_residual)
{
    check_everywhere("residual", build_residual, _i, false);
}
END_TEST

START_TEST(golden_smooth)
{
    check_everywhere("smooth", build_smooth, _i, true);
}
END_TEST

START_TEST(golden_sequence)
{
    check_everywhere("sequence", build_sequence, _i, true);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("golden");
    TCase *tcase = test_case(suite, "golden");

    tcase_add_loop_test(tcase, golden_mlp, 0, 2);
    tcase_add_loop_test(tcase, golden_conv, 0, 2);
    tcase_add_loop_test(tcase, golden_residual, 0, 2);
    tcase_add_loop_test(tcase, golden_smooth, 0, 2);
    tcase_add_loop_test(tcase, golden_sequence, 0, 2);
    tcase_add_loop_test(tcase, golden_zoo, 0, 2);
    tcase = test_case(suite, "language");
    tcase_add_loop_test(tcase, golden_gpt, 0, 2);
    tcase_add_loop_test(tcase, golden_llama, 0, 2);
    return suite;
}
