/* SPDX-License-Identifier: Apache-2.0
 *
 * check_hugging_face.c - weights of GPT-2 and Llama that transformers wrote
 * (hugging_face.py): logits and gradients are PyTorch's, from one file, from shards and
 * without the prefix; and files that are no good.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/shards.h"
#include "graph/graph.h"
#include "support/devices.h"
#include "support/scratch.h"

enum { SAMPLES = 3, LENGTH = 6, VOCABULARY = 11, MOST = 512 };

/* A file that is kept here, or one of transformers.sh, which makes them anew. */
static const char *
in_source(const char *name)
{
    static char path[2][500];
    static unsigned turn;
    const char *folder = getenv("YOKE_SRCDIR"), *made = getenv("YOKE_TEST_MODELS");

    turn ^= 1;
    snprintf(path[turn], sizeof path[turn], "%s%s/%s",
             made     ? made
             : folder ? folder
                      : ".",
             made ? "" : "/tests/files", name);
    return path[turn];
}

static yoke_graph *
build(const char *model, int64_t vocabulary)
{
    const bool llama = strcmp(model, "llama") == 0;
    const yoke_zoo_options sizes = {.input = yoke_shape(LENGTH),
                                    .layers = 2,
                                    .heads = llama ? 4 : 2,
                                    .width = 8,
                                    .context = 7,
                                    .vocabulary = vocabulary,
                                    .shared = llama ? 2 : 0,
                                    .inner = llama ? 12 : 0};
    yoke_graph *g;

    ASSERT_OK(yoke_zoo(model, &sizes, &g));
    return g;
}

/* max |a - b| / max |b| */
static double
error_of(const float *a, const float *b, size_t count)
{
    double worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)a[i] - (double)b[i]);

        worst = difference > worst || isnan(difference) ? difference : worst;
        largest = fmax(largest, fabs((double)b[i]));
    }
    return worst / largest;
}

/* Reads the gradient that PyTorch computed, of all parts of a parameter. */
static void
read_expected(const yki_safetensors *io, const char *parameter, float *out)
{
    for (unsigned p = 0; p < yki_parts_of(parameter); p++) {
        char part[100], name[120];
        const yki_tensor *tensor;

        yki_translate_back(parameter, p, part, sizeof part);
        snprintf(name, sizeof name, "gradient.%s", part);
        tensor = yki_safetensors_find(io, name);
        ck_assert_msg(tensor != NULL, "%s", name);
        ASSERT_OK(yki_safetensors_read_f32(io, tensor, out));
        out += tensor->count;
    }
}

/* Compares the gradient by a parameter; that of a Conv1D is (in, out) in the file. */
static void
check_gradient(yoke_replica *replica, const yki_safetensors *io, const yoke_node *node)
{
    const size_t count = (size_t)yki_shape_count(node->shape);
    const int64_t rows = node->shape.dim[0], columns = node->shape.dim[1];
    float got[MOST], expected[MOST], turned[MOST];

    ck_assert_uint_le(count, MOST);
    read_expected(io, node->name, expected);
    ASSERT_OK(yoke_replica_read_gradient(replica, node->name, got, (int64_t)count));
    if (yki_is_conv1d(node->name)) {
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < columns; c++)
                turned[c * rows + r] = got[r * columns + c];
        memcpy(got, turned, sizeof got);
    }
    ck_assert_msg(error_of(got, expected, count) < 1e-5, "%s: error %g", node->name,
                  error_of(got, expected, count));
}

/* Compares the logits of the first `length` tokens of each sample. */
static void
check_logits(yoke_replica *replica, const int32_t *tokens, const float *expected, int64_t length)
{
    int32_t some[SAMPLES * LENGTH], next[SAMPLES * LENGTH] = {0};
    float got[SAMPLES * LENGTH * VOCABULARY];
    double error = 0;

    for (int s = 0; s < SAMPLES; s++)
        memcpy(some + s * length, tokens + s * LENGTH, (size_t)length * sizeof *some);
    ASSERT_OK(
        yoke_replica_set_input(replica, SAMPLES, yoke_feed_i32("tokens", some, SAMPLES * length)));
    ASSERT_OK(
        yoke_replica_set_input(replica, SAMPLES, yoke_feed_i32("next", next, SAMPLES * length)));
    ASSERT_OK(yoke_replica_evaluate(replica, SAMPLES));
    ASSERT_OK(yoke_replica_read_output(replica, "logits", got, SAMPLES * length * VOCABULARY));
    for (int s = 0; s < SAMPLES; s++)
        error =
            fmax(error, error_of(got + s * length * VOCABULARY, expected + s * LENGTH * VOCABULARY,
                                 (size_t)(length * VOCABULARY)));
    ck_assert_msg(error < 4e-6, "length %d: error %g", (int)length, error);
}

static void
check_weights(const char *model, const char *path)
{
    int32_t tokens[SAMPLES * LENGTH], next[SAMPLES * LENGTH];
    float expected[SAMPLES * LENGTH * VOCABULARY];
    yoke_graph *g = build(model, VOCABULARY);
    test_devices devices;
    yoke_replica *replica;
    yki_safetensors *io;

    ASSERT_OK(yki_safetensors_open(
        in_source(strcmp(model, "gpt") == 0 ? "gpt2-io.safetensors" : "llama-io.safetensors"),
        &io));
    ASSERT_OK(yki_safetensors_read(io, yki_safetensors_find(io, "tokens"), tokens));
    ASSERT_OK(yki_safetensors_read(io, yki_safetensors_find(io, "next"), next));
    ASSERT_OK(yki_safetensors_read_f32(io, yki_safetensors_find(io, "logits"), expected));
    ck_assert(test_devices_open(TEST_AS_IS, &devices));
    ASSERT_OK(yoke_replica_create(
        yoke_selection_get(devices.selection, 0), g,
        &(yoke_replica_options){.batch = SAMPLES, .level = YOKE_PLAN_ESTIMATE}, &replica));
    ASSERT_OK(yoke_replica_load_weights(replica, path, NULL));
    ASSERT_OK(yoke_replica_set_input(replica, SAMPLES,
                                     yoke_feed_i32("tokens", tokens, SAMPLES * LENGTH)));
    ASSERT_OK(
        yoke_replica_set_input(replica, SAMPLES, yoke_feed_i32("next", next, SAMPLES * LENGTH)));
    ASSERT_OK(yoke_replica_forward(replica, SAMPLES));
    ASSERT_OK(yoke_replica_backward(replica));
    for (size_t i = 0; i < yoke_graph_parameter_count(g); i++)
        check_gradient(replica, io, yoke_graph_get_parameter(g, i));
    for (int64_t length = LENGTH; length >= 1; length -= 2)
        check_logits(replica, tokens, expected, length);
    yoke_replica_destroy(replica);
    test_devices_close(&devices);
    yki_safetensors_close(io);
    yoke_graph_destroy(g);
}

START_TEST(one_file)
{
    check_weights("gpt", in_source("gpt2"));
    check_weights("gpt", in_source("gpt2/model.safetensors"));
    check_weights("llama", in_source("llama"));
}
END_TEST

START_TEST(shards)
{
    check_weights("gpt", in_source("gpt2-sharded/model.safetensors.index.json"));
    check_weights("llama", in_source("llama-sharded"));
}
END_TEST

/* ---- the same weights, written otherwise ---- */

/* What becomes of a file of weights. */
typedef struct change {
    const yki_safetensors *from;
    bool turned; /* Conv1D is (out, in), as other programs have it */
    bool nan;    /* the last value of each tensor is NaN */
} change;

/* What a file may have besides, and no weight is: buffers, and the head of a tied model. */
static const struct {
    const char *name;
    uint32_t rank;
    int64_t shape[4];
    size_t count;
} others[] = {
    {"h.0.attn.bias", 4, {1, 1, LENGTH, LENGTH}, LENGTH *LENGTH},
    {"h.0.attn.masked_bias", 0, {0}, 1},
    {"model.layers.0.self_attn.rotary_emb.inv_freq", 1, {4}, 4},
    {"lm_head.weight", 2, {VOCABULARY, 8}, VOCABULARY * 8},
};

static yoke_status
give(void *user, size_t index, void *out)
{
    const change *c = user;
    const yki_tensor *tensor = index < c->from->count ? &c->from->tensors[index] : NULL;
    float *values = out, copy[MOST];

    if (!tensor) { /* what is to be skipped */
        for (size_t i = 0; i < others[index - c->from->count].count; i++)
            values[i] = 100;
        return YOKE_OK;
    }
    YKI_TRY(yki_safetensors_read(c->from, tensor, out));
    if (c->nan)
        values[tensor->count - 1] = NAN;
    if (!c->turned || !yki_is_conv1d(tensor->name))
        return YOKE_OK;
    memcpy(copy, values, tensor->count * sizeof *copy);
    for (int64_t i = 0; i < tensor->shape[0]; i++)
        for (int64_t o = 0; o < tensor->shape[1]; o++)
            values[o * tensor->shape[0] + i] = copy[i * tensor->shape[1] + o];
    return YOKE_OK;
}

/* Writes gpt2 without the prefix, with what else may be there. */
static const char *
rewrite(change c)
{
    const char *path = scratch_path("model.safetensors");
    yki_tensor_source tensors[64];
    int64_t shapes[64][2];
    yki_safetensors *from;
    size_t count;

    ASSERT_OK(yki_safetensors_open(in_source("gpt2/model.safetensors"), &from));
    c.from = from;
    count = from->count;
    for (size_t i = 0; i < count; i++) {
        const yki_tensor *t = &from->tensors[i];
        bool turns = c.turned && yki_is_conv1d(t->name);

        tensors[i] =
            (yki_tensor_source){strchr(t->name, '.') + 1, YKI_DTYPE_F32, t->rank, t->shape};
        if (turns) {
            shapes[i][0] = t->shape[1];
            shapes[i][1] = t->shape[0];
            tensors[i].shape = shapes[i];
        }
    }
    for (size_t i = 0; i < YKI_COUNT(others); i++)
        tensors[count++] =
            (yki_tensor_source){others[i].name, YKI_DTYPE_F32, others[i].rank, others[i].shape};
    ASSERT_OK(yki_safetensors_write(path, NULL, 0, tensors, count, give, &c));
    yki_safetensors_close(from);
    return path;
}

START_TEST(other_forms)
{
    check_weights("gpt", rewrite((change){0}));
    check_weights("gpt", rewrite((change){.turned = true}));
}
END_TEST

/* Which way matrices lie is seen from one that is not square, even if only square ones are wanted.
 */
START_TEST(square_matrices_alone)
{
    static const char name[] = "h.0.attn.c_proj.weight";
    const yoke_load_options only = {.pattern = name, .partial = true};
    float values[2][MOST];
    yoke_graph *g = build("gpt", VOCABULARY);
    yoke_model *m;

    for (int i = 0; i < 2; i++) {
        ASSERT_OK(yoke_model_create(g, NULL, &m));
        ASSERT_OK(yoke_model_load_weights(m, in_source("gpt2"), i ? &only : NULL));
        ASSERT_OK(yoke_model_read(m, name, values[i], 64));
        yoke_model_destroy(m);
    }
    ck_assert_mem_eq(values[0], values[1], 64 * sizeof(float));
    yoke_graph_destroy(g);
}
END_TEST

/* The head of a llama that is tied is the embedding, whatever the file has besides. */
START_TEST(tied_head)
{
    static const char name[] = "model.embed_tokens.weight";
    float values[2][MOST];

    for (int tied = 0; tied < 2; tied++) {
        const yoke_zoo_options sizes = {.layers = 2,
                                        .heads = 4,
                                        .width = 8,
                                        .context = 7,
                                        .vocabulary = VOCABULARY,
                                        .shared = 2,
                                        .inner = 12,
                                        .tied = tied};
        yoke_graph *g;
        yoke_model *m;

        ASSERT_OK(yoke_zoo("llama", &sizes, &g));
        ASSERT_OK(yoke_model_create(g, NULL, &m));
        ck_assert((yoke_graph_get_node(g, "lm_head.weight") == NULL) == tied);
        ASSERT_OK(yoke_model_load_weights(m, in_source("llama"), NULL));
        ASSERT_OK(yoke_model_read(m, name, values[tied], VOCABULARY * 8));
        yoke_model_destroy(m);
        yoke_graph_destroy(g);
    }
    ck_assert_mem_eq(values[0], values[1], VOCABULARY * 8 * sizeof(float));
}
END_TEST

/* ---- files that are no good ---- */

static void
refused(unsigned vocabulary, const char *path, yoke_status status, const char *sentence)
{
    yoke_graph *g = build("gpt", vocabulary);
    yoke_model *m;

    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_STATUS(status, yoke_model_load_weights(m, path, NULL));
    ck_assert_msg(strstr(yoke_last_error(), sentence) != NULL, "%s", yoke_last_error());
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
}

static void
write_text(const char *path, const char *text, size_t length)
{
    FILE *file = fopen(path, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, length, file), length);
    fclose(file);
}

/* Copies a file of the shards to the scratch folder, or a part of it. */
static void
copy_shard(const char *name, size_t most)
{
    char path[200], bytes[8192];
    size_t length;
    FILE *file;

    snprintf(path, sizeof path, "gpt2-sharded/%s", name);
    file = fopen(in_source(path), "rb");
    ck_assert_ptr_nonnull(file);
    length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    write_text(scratch_path(name), bytes, YKI_MIN(length, most));
}

START_TEST(refusals)
{
    static const struct {
        const char *text, *sentence;
    } bad[] = {
        {"", "is no JSON"},
        {"{\"weight_map\": 3}", "has no \"weight_map\""},
        {"{\"weight_map\": {}}", "has no \"weight_map\""},
        {"{\"weight_map\": {\"wte.weight\": 1}}", "is no text; must be the name of a file"},
        {"{\"weight_map\": {\"wte.weight\": \"../x\"}}", "is ../x; must be the name of a file"},
        {"{\"weight_map\": {\"wte.weight\": \"x.safetensors\"}}",
         "names the file x.safetensors, which is not there"},
        {"{\"weight_map\": {\"lost\": \"model-00002-of-00003.safetensors\"}}",
         "says that \"lost\" is in model-00002-of-00003.safetensors; it is not"},
        {"{\"weight_map\": {\"transformer.h.1.ln_1.bias\": \"model-00002-of-00003.safetensors\","
         "\"transformer.h.1.ln_1.weight\": \"again.safetensors\"}}",
         "must be in one of them"},
    };
    const char *index = scratch_path("model.safetensors.index.json");

    refused(12, in_source("gpt2"), YOKE_ERROR_SHAPE,
            "\"wte.weight\" has shape (11, 8); must be (12, 8)");
    refused(VOCABULARY, rewrite((change){.nan = true}), YOKE_ERROR_VALUE, "is NaN");
    copy_shard("model-00002-of-00003.safetensors", SIZE_MAX);
    ck_assert_int_eq(symlink("model-00002-of-00003.safetensors", scratch_path("again.safetensors")),
                     0);
    for (size_t i = 0; i < YKI_COUNT(bad); i++) {
        write_text(index, bad[i].text, strlen(bad[i].text));
        refused(VOCABULARY, index,
                strstr(bad[i].sentence, "not there") ? YOKE_ERROR_NOT_FOUND : YOKE_ERROR_FORMAT,
                bad[i].sentence);
    }
    copy_shard("model.safetensors.index.json", SIZE_MAX);
    copy_shard("model-00003-of-00003.safetensors", SIZE_MAX);
    copy_shard("model-00001-of-00003.safetensors", 1500);
    refused(VOCABULARY, scratch_dir(), YOKE_ERROR_FORMAT, "model-00001-of-00003.safetensors");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("hugging face");
    TCase *models = test_case(suite, "models");
    TCase *weights = test_case(suite, "weights");

    tcase_add_test(models, one_file);
    tcase_add_test(models, shards);
    tcase_add_checked_fixture(weights, scratch_set_up, scratch_tear_down);
    tcase_add_test(weights, other_forms);
    tcase_add_test(weights, square_matrices_alone);
    tcase_add_test(weights, tied_head);
    tcase_add_test(weights, refusals);
    return suite;
}
