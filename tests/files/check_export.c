/* SPDX-License-Identifier: Apache-2.0
 *
 * check_export.c - models that are written for Hugging Face: from weights of transformers
 * the same tensors come back, under the same names, bit by bit, in one file and in shards;
 * f16 and bf16 are the nearest; config.json has the sizes; and what is refused.
 */
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/weights_file.h"
#include "support/scratch.h"
#include "support/support.h"

enum { LENGTH = 7, VOCABULARY = 11, MOST = 512, SMALL_SHARD = 1200 };

static const char *
in_source(const char *name)
{
    static char path[500];
    const char *folder = getenv("YOKE_SRCDIR");

    snprintf(path, sizeof path, "%s/tests/files/%s", folder ? folder : ".", name);
    return path;
}

static yoke_graph *
build(bool llama)
{
    const yoke_zoo_options sizes = {.layers = 2,
                                    .heads = llama ? 4 : 2,
                                    .width = 8,
                                    .context = LENGTH,
                                    .vocabulary = VOCABULARY,
                                    .shared = llama ? 2 : 0,
                                    .inner = llama ? 12 : 0};
    yoke_graph *g;

    ASSERT_OK(yoke_zoo(llama ? "llama" : "gpt", &sizes, &g));
    return g;
}

/* A model with the weights that transformers wrote. */
static yoke_model *
load(bool llama)
{
    yoke_graph *g = build(llama);
    yoke_model *m;

    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_OK(yoke_model_load_weights(m, in_source(llama ? "llama" : "gpt2"), NULL));
    yoke_graph_destroy(g);
    return m;
}

static const yki_tensor *
find(const yki_shards *shards, const char *name, const yki_safetensors **file)
{
    const yki_tensor *tensor = NULL;

    for (size_t i = 0; i < shards->count && !tensor; i++) {
        *file = shards->files[i];
        tensor = yki_safetensors_find(*file, name);
    }
    ck_assert_msg(tensor != NULL, "%s is missing", name);
    return tensor;
}

/* Whether `got` is among the two nearest of the type, and the nearer of them. */
static void
check_number(float wanted, float got, yoke_weight_type type)
{
    const float steps = type == YOKE_WEIGHTS_F16 ? 2048 : 256; /* in a power of two */
    int exponent;

    if (type == YOKE_WEIGHTS_F32) {
        ck_assert_mem_eq(&wanted, &got, sizeof got);
        return;
    }
    frexpf(wanted, &exponent);
    ck_assert_msg(fabsf(wanted - got) <= ldexpf(0.5f, exponent) / steps, "%a is %a", (double)wanted,
                  (double)got);
}

/* Compares all tensors of the model that transformers wrote with what was exported. */
static void
compare(bool llama, const char *folder, yoke_weight_type type)
{
    static const yki_dtype dtypes[] = {YKI_DTYPE_F32, YKI_DTYPE_F16, YKI_DTYPE_BF16};
    yki_shards before, after;
    size_t count = 0;

    ASSERT_OK(yki_shards_open(in_source(llama ? "llama" : "gpt2"), &before));
    ASSERT_OK(yki_shards_open(folder, &after));
    for (size_t i = 0; i < before.files[0]->count; i++) {
        const yki_tensor *a = &before.files[0]->tensors[i];
        const yki_safetensors *file = NULL;
        const yki_tensor *b = find(&after, a->name, &file);
        float wanted[MOST], got[MOST];

        ck_assert_uint_eq(b->rank, a->rank);
        ck_assert_mem_eq(a->shape, b->shape, a->rank * sizeof *a->shape);
        ck_assert_int_eq(b->dtype, dtypes[type]);
        ASSERT_OK(yki_safetensors_read_f32(before.files[0], a, wanted));
        ASSERT_OK(yki_safetensors_read_f32(file, b, got));
        for (uint64_t k = 0; k < a->count; k++)
            check_number(wanted[k], got[k], type);
    }
    for (size_t i = 0; i < after.count; i++)
        count += after.files[i]->count;
    ck_assert_uint_eq(count, before.files[0]->count);
    yki_shards_close(&before);
    yki_shards_close(&after);
}

START_TEST(tensors_are_those_of_transformers)
{
    const bool llama = _i % 2;
    const yoke_weight_type type = (yoke_weight_type)(_i / 2);
    yoke_model *m = load(llama);
    const char *one = scratch_path("one"), *many = scratch_path("many");
    yki_shards shards;

    ASSERT_OK(yoke_model_export(m, one, &(yoke_export_options){.type = type}));
    compare(llama, one, type);
    ASSERT_OK(
        yoke_model_export(m, many, &(yoke_export_options){.type = type, .shard = SMALL_SHARD}));
    compare(llama, many, type);
    ASSERT_OK(yki_shards_open(many, &shards));
    ck_assert_uint_gt(shards.count, 1);
    for (size_t i = 0; i < shards.count; i++)
        ck_assert(shards.files[i]->count == 1 ||
                  shards.files[i]->size - shards.files[i]->start <= SMALL_SHARD);
    yki_shards_close(&shards);
    yoke_model_destroy(m);
}
END_TEST

/* ---- config.json ---- */

static json_t *
read_config(const char *path)
{
    json_t *json = json_load_file(path, 0, NULL);

    ck_assert_msg(json != NULL, "%s", path);
    return json;
}

START_TEST(sizes_are_those_of_transformers)
{
    const bool llama = _i;
    yoke_model *m = load(llama);
    const char *folder = scratch_path("sizes");
    char path[600];
    json_t *before, *after, *value, *other;
    const char *key;
    size_t same = 0;

    ASSERT_OK(yoke_model_export(m, folder, NULL));
    snprintf(path, sizeof path, "%s/config.json", folder);
    after = read_config(path);
    before = read_config(in_source(llama ? "llama/config.json" : "gpt2/config.json"));
    json_object_foreach(before, key, value)
    {
        other = json_object_get(after, key);
        if (!other || strstr(key, "pdrop") || strcmp(key, "n_inner") == 0)
            continue;
        ck_assert_msg(json_is_number(value)
                          ? !(fabs(json_number_value(value) - json_number_value(other)) > 0)
                          : json_equal(value, other),
                      "%s", key);
        same++;
    }
    ck_assert_uint_ge(same, llama ? 14 : 9);
    ck_assert(llama || json_integer_value(json_object_get(after, "n_inner")) == 32);
    ck_assert(!llama || json_number_value(json_object_get(after, "rope_theta")) == 10000);
    json_decref(before);
    json_decref(after);
    yoke_model_destroy(m);
}
END_TEST

/* ---- rounding ---- */

static float
half_value(uint16_t bits, bool brain)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    uint32_t word = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &word, sizeof value);
    if (!brain)
        value = (bits & 0x8000 ? -1.f : 1.f) *
                (exponent ? ldexpf((float)(1024 + fraction), exponent - 25)
                          : ldexpf((float)fraction, -24));
    return value;
}

/* All numbers of a type, what is half way to the next, and its neighbours. */
START_TEST(numbers_become_the_nearest_or_the_even_one)
{
    const bool brain = _i;
    uint16_t (*const to)(float) = brain ? yki_to_bf16 : yki_to_f16;
    const uint16_t end = brain ? 0x7F7F : 0x7BFF;

    for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000)
        for (uint32_t bits = sign; bits < sign + end; bits++) {
            const float low = half_value((uint16_t)bits, brain);
            const float high = half_value((uint16_t)(bits + 1), brain);
            const float middle = (float)(((double)low + (double)high) / 2);

            ck_assert_uint_eq(to(low), bits);
            ck_assert_uint_eq(to(middle), bits + (bits & 1));
            ck_assert_uint_eq(to(nextafterf(middle, low)), bits);
            ck_assert_uint_eq(to(nextafterf(middle, high)), bits + 1);
        }
    ck_assert_uint_eq(to(INFINITY), end + 1);
    ck_assert_uint_eq(to(-INFINITY), 0x8000 + end + 1);
    ck_assert(isnan(half_value(to(NAN), true)) || !brain);
    ck_assert_uint_gt(to(NAN) & 0x7FFF, end + 1);
    if (!brain) {
        ck_assert_uint_eq(to(65519.996f), 0x7BFF);
        ck_assert_uint_eq(to(65520), 0x7C00);
        ck_assert_uint_eq(to(-1e30f), 0xFC00);
    }
}
END_TEST

/* ---- what is refused ---- */

static void
refused(const yoke_graph *g, yoke_status status, const char *sentence)
{
    yoke_model *m;

    ASSERT_OK(yoke_graph_status(g));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_REFUSED(status, sentence, yoke_model_export(m, scratch_path("refused"), NULL));
    ck_assert_int_ne(access(scratch_path("refused"), F_OK), 0);
    yoke_model_destroy(m);
}

START_TEST(other_models_are_refused)
{
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(4));
    yoke_graph_set_output(g, "y", yoke_dense(g, x, &(yoke_dense_options){.units = 2}));
    refused(g, YOKE_ERROR_UNSUPPORTED,
            "the model has neither \"wte.weight\" nor \"model.embed_tokens.weight\"");
    yoke_graph_destroy(g);
    g = build(false);
    yoke_parameter(g, "more", yoke_shape(2), (yoke_initializer){0});
    refused(g, YOKE_ERROR_UNSUPPORTED, "the weight \"more\" has no place in Hugging Face's gpt2");
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_I32, yoke_shape(4));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 3, .width = 2, .name = "wte"});
    yoke_graph_set_output(g, "y", x);
    refused(g, YOKE_ERROR_UNSUPPORTED,
            "the model has no weight \"wpe.weight\"; Hugging Face's gpt2 has one");
    yoke_graph_destroy(g);
}
END_TEST

/* Weights with GPT-2's names, of one head of 2 and the inner width 4, and one in another shape: of
 * more axes than a tensor of such a file has, of fewer, or of another size. */
START_TEST(other_shapes_are_refused)
{
    const yoke_attention_options causal = {.heads = 1, .causal = true};
    const struct {
        const char *name;
        yoke_shape shape;
    } vectors[] = {
        {"wpe.weight", yoke_shape(4, 2)},
        {"ln_f.weight", yoke_shape(2)},
        {"h.0.ln_1.weight", yoke_shape(2)},
        {"h.0.ln_1.bias", yoke_shape(2)},
        {"h.0.ln_2.weight", yoke_shape(2)},
        {"h.0.ln_2.bias", yoke_shape(2)},
        {"h.0.mlp.c_fc.weight", yoke_shape(4, 2)},
        {"h.0.mlp.c_fc.bias", yoke_shape(4)},
        {"h.0.mlp.c_proj.weight", yoke_shape(2, 4)},
        {"h.0.mlp.c_proj.bias", yoke_shape(2)},
        {"h.0.attn.c_proj.weight", yoke_shape(2, 2)},
        {"h.0.attn.c_proj.bias", yoke_shape(2)},
    };
    const yoke_shape others[] = {yoke_shape(1, 2, 3, 4), yoke_shape(), yoke_shape(3)};
    const char *const texts[] = {"(1, 2, 3, 4)", "()", "(3)"};
    char sentence[200];
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_I32, yoke_shape(4));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = 3, .width = 2, .name = "wte"});
    yoke_parameter(g, "ln_f.bias", others[_i], (yoke_initializer){0});
    for (size_t i = 0; i < YKI_COUNT(vectors); i++) {
        if (i == 2 && _i == 0)
            refused(g, YOKE_ERROR_UNSUPPORTED,
                    "the model has no weight \"h.0.ln_1.weight\"; Hugging Face's gpt2 has one");
        yoke_parameter(g, vectors[i].name, vectors[i].shape, (yoke_initializer){0});
        if (i == 0)
            x = yoke_dense(g, x, &(yoke_dense_options){.units = 6, .name = "h.0.attn.c_attn"});
    }
    yoke_graph_set_output(g, "y", yoke_attention(g, x, NULL, &causal));
    snprintf(sentence, sizeof sentence, "the weight \"ln_f.bias\" has shape %s; must be (2)",
             texts[_i]);
    refused(g, YOKE_ERROR_SHAPE, sentence);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(what_cannot_be_written_is_refused)
{
    yoke_model *m = load(false);
    float values[8] = {1, 2, 65519, 70000, -3};

    ASSERT_OK(yoke_model_write(m, "ln_f.bias", values, 8));
    ASSERT_REFUSED(YOKE_ERROR_VALUE,
                   "element 3 of \"transformer.ln_f.bias\" is 70000, too large for f16; take f32 "
                   "or bf16",
                   yoke_model_export(m, scratch_path("large"),
                                     &(yoke_export_options){.type = YOKE_WEIGHTS_F16}));
    ASSERT_OK(yoke_model_export(m, scratch_path("twice"), NULL));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "has a config.json; must be a folder without a model",
                   yoke_model_export(m, scratch_path("twice"), NULL));
    ASSERT_REFUSED(YOKE_ERROR_IO, "cannot be made a folder",
                   yoke_model_export(m, scratch_path("no/where"), NULL));
    ASSERT_INVALID(yoke_model_export(m, scratch_path("x"),
                                     &(yoke_export_options){.type = (yoke_weight_type)3}));
    ASSERT_INVALID(yoke_model_export(m, scratch_path("x"), &(yoke_export_options){.shard = -1}));
    yoke_model_destroy(m);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("export");
    TCase *tcase = test_case(suite, "export");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_loop_test(tcase, tensors_are_those_of_transformers, 0, 6);
    tcase_add_loop_test(tcase, sizes_are_those_of_transformers, 0, 2);
    tcase_add_loop_test(tcase, numbers_become_the_nearest_or_the_even_one, 0, 2);
    tcase_add_test(tcase, other_models_are_refused);
    tcase_add_loop_test(tcase, other_shapes_are_refused, 0, 3);
    tcase_add_test(tcase, what_cannot_be_written_is_refused);
    return suite;
}
