/* SPDX-License-Identifier: Apache-2.0
 *
 * check_weights.c - weights by name, into models and out of them, in host memory
 * alone: what fits is taken, what does not is named and changes nothing; the file
 * carries graph, scaling and names of classes.
 */
#include <stdlib.h>
#include <string.h>

#include "data/weights_file.h"
#include "support/scratch.h"
#include "support/support.h"

static yoke_graph *
small_graph(int64_t units, bool norm)
{
    yoke_graph *g;
    yoke_node *x, *y, *label;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "image", YOKE_F32, yoke_shape(2, 4, 4));
    label = yoke_target(g, "label", YOKE_I32, yoke_shape());
    y = yoke_conv2d(g, x, &(yoke_conv2d_options){.filters = 3, .kernel = {3, 3}});
    if (norm)
        y = yoke_batch_norm(g, y, NULL);
    y = yoke_dense(g, yoke_flatten(g, yoke_relu(g, y)), &(yoke_dense_options){.units = units});
    yoke_graph_set_output(g, "logits", y);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, label, NULL));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static yoke_model *
small_model(int64_t units, bool norm, uint32_t seed)
{
    yoke_graph *g = small_graph(units, norm);
    yoke_model *m;

    ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.seed = seed}, &m));
    yoke_graph_destroy(g);
    return m;
}

static float
first_value(const yoke_model *m, const char *name)
{
    const yoke_node *node = yoke_graph_get_node(yoke_model_get_graph(m), name);
    size_t count = (size_t)yki_shape_count(node->shape);
    float *values = malloc(count * sizeof *values), first;

    ASSERT_OK(yoke_model_read(m, name, values, count));
    first = values[0];
    free(values);
    return first;
}

START_TEST(a_model_is_a_file)
{
    static const float mean[2] = {0.1f, 1.f / 3}, scale[2] = {2, 1e-20f};
    static const char *const classes[3] = {"cat", "a \"dog\"", "\xc3\xa9l\xc3\xa9phant"};
    const char *path = scratch_path("m.safetensors");
    yoke_graph *g = small_graph(3, true);
    const float *got[2];
    yoke_model *m, *again;
    const yoke_field *field;
    char *text, *text_again;

    ASSERT_OK(yoke_model_create(g,
                                &(yoke_model_options){.seed = 5,
                                                      .input_type = YOKE_U8,
                                                      .mean = mean,
                                                      .scale = scale,
                                                      .scaling_count = 2,
                                                      .class_names = classes,
                                                      .class_count = 3},
                                &m));
    ASSERT_OK(yoke_model_save(m, path));
    ASSERT_OK(yoke_model_load(path, &again));
    ASSERT_OK(yoke_graph_to_json(g, &text));
    ASSERT_OK(yoke_graph_to_json(yoke_model_get_graph(again), &text_again));
    ck_assert_str_eq(text, text_again);
    field = yoke_model_get_input(again);
    ck_assert_str_eq(field->name, "image");
    ck_assert(field->type == YOKE_U8 && field->shape.rank == 3 && field->shape.dim[2] == 4);
    ck_assert_uint_eq(yoke_model_class_count(again), 3);
    for (size_t i = 0; i < 3; i++)
        ck_assert_str_eq(yoke_model_get_class_name(again, i), classes[i]);
    ck_assert_ptr_null(yoke_model_get_class_name(again, 3));
    ck_assert_uint_eq(yoke_model_get_scaling(again, &got[0], &got[1]), 2);
    for (size_t i = 0; i < 2; i++)
        ck_assert(got[0][i] == mean[i] && got[1][i] == scale[i]);
    ck_assert_uint_eq(yoke_model_get_scaling(NULL, NULL, NULL), 0);
    ck_assert(first_value(m, "conv1.weight") == first_value(again, "conv1.weight"));
    ck_assert(first_value(m, "conv1.weight") != 0);
    ck_assert(first_value(again, "bn1.running_var") == 1);
    yoke_free(text);
    yoke_free(text_again);
    yoke_model_destroy(m);
    yoke_model_destroy(again);
    yoke_graph_destroy(g);
}
END_TEST

/* The same seed starts a model and a device alike. */
START_TEST(values_by_name)
{
    yoke_model *m = small_model(3, true, 7);
    float values[3] = {4, 5, 6}, got[3];

    ASSERT_OK(yoke_model_write(m, "bn1.running_mean", values, 3));
    ASSERT_OK(yoke_model_read(m, "bn1.running_mean", got, 3));
    ck_assert_int_eq(memcmp(values, got, sizeof got), 0);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, yoke_model_read(m, "bn1", got, 3));
    ASSERT_STATUS(YOKE_ERROR_SHAPE, yoke_model_write(m, "bn1.bias", got, 2));
    ASSERT_DETAIL("\"bn1.bias\" has shape (3); the number of values is 2; must be 3");
    yoke_model_destroy(m);
}
END_TEST

/* Saves `from` and loads it into `to`. */
static yoke_status
load_into(const yoke_model *from, yoke_model *to, const yoke_load_options *options)
{
    const char *path = scratch_path("w.safetensors");

    ASSERT_OK(yoke_model_save(from, path));
    return yoke_model_load_weights(to, path, options);
}

START_TEST(what_fits_is_taken)
{
    yoke_model *a = small_model(3, true, 1), *b = small_model(3, true, 2);
    yoke_model *wide = small_model(5, true, 3), *plain = small_model(3, false, 4);
    float before;

    ASSERT_OK(load_into(a, b, NULL));
    ck_assert(first_value(b, "dense1.weight") == first_value(a, "dense1.weight"));
    /* another head: everything but that */
    before = first_value(wide, "dense1.weight");
    ASSERT_OK(load_into(a, wide, &(yoke_load_options){.except = "dense1.*"}));
    ck_assert(first_value(wide, "dense1.weight") == before);
    ck_assert(first_value(wide, "conv1.weight") == first_value(a, "conv1.weight"));
    /* one layer of another network */
    ASSERT_OK(load_into(a, plain, &(yoke_load_options){.pattern = "conv1.*"}));
    ck_assert(first_value(plain, "conv1.weight") == first_value(a, "conv1.weight"));
    ck_assert(first_value(plain, "dense1.weight") != first_value(a, "dense1.weight"));
    /* what both have, though the file has more */
    ASSERT_OK(load_into(a, plain, &(yoke_load_options){.partial = true}));
    ck_assert(first_value(plain, "dense1.weight") == first_value(a, "dense1.weight"));
    yoke_model_destroy(a);
    yoke_model_destroy(b);
    yoke_model_destroy(wide);
    yoke_model_destroy(plain);
}
END_TEST

START_TEST(what_does_not_fit_is_named)
{
    yoke_model *a = small_model(3, true, 1), *wide = small_model(5, true, 2);
    yoke_model *plain = small_model(3, false, 3);
    float conv = first_value(wide, "conv1.weight"), plain_conv = first_value(plain, "conv1.weight");

    ASSERT_STATUS(YOKE_ERROR_SHAPE, load_into(a, wide, NULL));
    ASSERT_DETAIL("w.safetensors: \"dense1.weight\" has shape (3, 12); must be (5, 12); "
                  "\"dense1.bias\" has shape (3); must be (5)");
    ck_assert(first_value(wide, "conv1.weight") == conv);
    ASSERT_STATUS(YOKE_ERROR_SHAPE, load_into(a, wide, &(yoke_load_options){.partial = true}));
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, load_into(plain, a, NULL));
    ASSERT_DETAIL("\"bn1.weight\" is missing; \"bn1.bias\" is missing; \"bn1.running_mean\" is "
                  "missing; and 1 more");
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, load_into(a, plain, NULL));
    ASSERT_DETAIL("\"bn1.weight\" has no place in the graph");
    ck_assert(first_value(plain, "conv1.weight") == plain_conv);
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND, load_into(a, plain, &(yoke_load_options){.pattern = "z*"}));
    ASSERT_DETAIL("has no weights of this graph that match the pattern");
    ASSERT_STATUS(YOKE_ERROR_NOT_FOUND,
                  load_into(a, plain, &(yoke_load_options){.prefix = "module."}));
    yoke_model_destroy(a);
    yoke_model_destroy(wide);
    yoke_model_destroy(plain);
}
END_TEST

/* ---- files of others ---- */

static yoke_status
one(void *user, size_t index, void *out)
{
    (void)index;
    memcpy(out, user, 4);
    return YOKE_OK;
}

/* A file with these tensors, all of one float. */
static const char *
write_scalars(const char *const *names, size_t count, const yki_text *texts, size_t text_count)
{
    static const int64_t shape[1] = {1};
    const char *path = scratch_path("o.safetensors");
    yki_tensor_source sources[4];
    float value = 7;

    for (size_t i = 0; i < count; i++)
        sources[i] = (yki_tensor_source){names[i], YKI_DTYPE_F32, 1, shape};
    ASSERT_OK(yki_safetensors_write(path, texts, text_count, sources, count, one, &value));
    return path;
}

static const char graph_text[] =
    "{\"nodes\": [{\"op\": \"input\", \"name\": \"x\", \"type\": \"f32\", \"shape\": [1]},"
    " {\"op\": \"parameter\", \"name\": \"d.weight\", \"shape\": [1]},"
    " {\"op\": \"mul\", \"name\": \"d\", \"inputs\": [\"x\", \"d.weight\"]},"
    " {\"op\": \"parameter\", \"name\": \"num_batches_tracked\", \"shape\": [1]}],"
    " \"outputs\": {\"y\": \"d\"}}";

START_TEST(prefixes_and_counters)
{
    static const char *const names[] = {"module.p", "module.bn.num_batches_tracked", "other"};
    yoke_graph *g;
    yoke_model *m;
    const char *path = write_scalars(names, 3, NULL, 0);

    ASSERT_OK(yoke_graph_create(&g));
    (void)yoke_input(g, "x", YOKE_F32, yoke_shape());
    (void)yoke_parameter(g, "p", yoke_shape(1), (yoke_initializer){YOKE_INIT_ZEROS, 0, 0, 0});
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    ASSERT_OK(yoke_model_load_weights(m, path, &(yoke_load_options){.prefix = "module."}));
    ck_assert(first_value(m, "p") == 7);
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
}
END_TEST

START_TEST(metadata_of_others)
{
    static const char *const names[] = {"d.weight", "num_batches_tracked"};
    static const struct {
        const char *key, *value, *detail;
    } wrong[] = {
        {YKI_INPUT_KEY, "[", "is no object; must be one of JSON"},
        {YKI_INPUT_KEY, "{}", "lacks a name, a type or a shape"},
        {YKI_INPUT_KEY, "{\"name\":\"x\",\"type\":\"f16\",\"shape\":[1]}", "lacks a name, a type"},
        {YKI_INPUT_KEY, "{\"name\":\"x\",\"type\":\"f32\",\"shape\":[-1]}",
         "a bad shape; must be a list of sizes"},
        {YKI_INPUT_KEY, "{\"name\":\"z\",\"type\":\"f32\",\"shape\":[1]}", "no input \"z\""},
        {YKI_INPUT_KEY, "{\"name\":\"x\",\"type\":\"u8\",\"shape\":[1],\"mean\":[1]}",
         "not as many means as scales"},
        {YKI_INPUT_KEY,
         "{\"name\":\"x\",\"type\":\"u8\",\"shape\":[1],\"mean\":[\"a\"],\"scale\":[1]}",
         "no numbers"},
        {YKI_INPUT_KEY,
         "{\"name\":\"x\",\"type\":\"u8\",\"shape\":[1],\"mean\":[1,2],\"scale\":[1,2]}",
         "is 2; must be 1, or 1, one for each channel or column"},
        {YKI_CLASSES_KEY, "{}", "is no list; must be a list of names"},
        {YKI_CLASSES_KEY, "[1]", "is no list; must be a list of names"},
        {"a", "b", NULL},
    };
    yoke_model *m;

    for (size_t i = 0; i < YKI_COUNT(wrong); i++) {
        const yki_text texts[2] = {{(char *)YKI_GRAPH_KEY, (char *)graph_text},
                                   {(char *)wrong[i].key, (char *)wrong[i].value}};
        const char *path = write_scalars(names, 2, texts, 2);

        if (!wrong[i].detail) {
            ASSERT_OK(yoke_model_load(path, &m));
            ck_assert(first_value(m, "d.weight") == 7);
            yoke_model_destroy(m);
            continue;
        }
        ck_assert_int_ne(yoke_model_load(path, &m), YOKE_OK);
        ASSERT_DETAIL(wrong[i].detail);
    }
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_model_load(write_scalars(names, 2, NULL, 0), &m));
    ASSERT_DETAIL("has weights but no graph");
}
END_TEST

/* Every way to run out of memory is an error that leaves nothing behind. */
START_TEST(out_of_memory)
{
    const char *path = scratch_path("m.safetensors");
    yoke_model *m = small_model(3, true, 1), *again;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    ASSERT_OK(yoke_model_save(m, path));
    for (uint64_t n = 1; status != YOKE_OK && n < 2000; n++) {
        (void)yki_alloc_fail_at(n);
        status = yoke_model_load(path, &again);
        (void)yki_alloc_fail_at(0);
        ck_assert(status == YOKE_OK || status == YOKE_ERROR_OUT_OF_MEMORY ||
                  status == YOKE_ERROR_FORMAT);
    }
    ASSERT_OK(status);
    yoke_model_destroy(again);
    status = YOKE_ERROR_OUT_OF_MEMORY;
    for (uint64_t n = 1; status != YOKE_OK && n < 2000; n++) {
        (void)yki_alloc_fail_at(n);
        status = yoke_model_save(m, path);
        (void)yki_alloc_fail_at(0);
        ck_assert(status == YOKE_OK || status == YOKE_ERROR_OUT_OF_MEMORY ||
                  status == YOKE_ERROR_VALUE);
        ASSERT_OK(yoke_model_load(path, &again));
        yoke_model_destroy(again);
    }
    ASSERT_OK(status);
    yoke_model_destroy(m);
}
END_TEST

START_TEST(arguments)
{
    yoke_graph *g = small_graph(3, false);
    yoke_model *m = NULL;
    float nan = 0;

    nan /= nan;
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_model_create(NULL, NULL, &m));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT,
                  yoke_model_create(g, &(yoke_model_options){.scaling_count = 1}, &m));
    ASSERT_STATUS(
        YOKE_ERROR_VALUE,
        yoke_model_create(g, &(yoke_model_options){.scaling_count = 1, .mean = &nan, .scale = &nan},
                          &m));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_model_load(NULL, &m));
    ASSERT_STATUS(YOKE_ERROR_IO, yoke_model_load(scratch_path("none"), &m));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_model_save(NULL, "x"));
    ASSERT_STATUS(YOKE_ERROR_INVALID_ARGUMENT, yoke_model_load_weights(NULL, "x", NULL));
    ck_assert_ptr_null(m);
    ck_assert_ptr_null(yoke_model_get_graph(NULL));
    ck_assert_ptr_null(yoke_model_get_input(NULL));
    ck_assert_uint_eq(yoke_model_class_count(NULL), 0);
    yoke_model_destroy(NULL);
    yoke_graph_destroy(g);
}
END_TEST

/* A tokenizer is kept by the model and its file, where the input is tokens. */
START_TEST(tokenizers)
{
    yoke_graph *g = small_graph(3, false);
    yoke_tokenizer *bytes;
    yoke_model *m;

    ASSERT_OK(yoke_tokenizer_train(NULL, NULL, &bytes));
    ASSERT_REFUSED(YOKE_ERROR_TYPE, "has type f32; must be i32 to have a tokenizer",
                   yoke_model_create(g, &(yoke_model_options){.tokenizer = bytes}, &m));
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_graph_create(&g));
    yoke_graph_set_output(
        g, "y",
        yoke_embedding(g, yoke_input(g, "tokens", YOKE_I32, yoke_shape(4)),
                       &(yoke_embedding_options){.rows = 256, .width = 2, .name = "wte"}));
    ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.tokenizer = bytes}, &m));
    yoke_graph_destroy(g);
    yoke_tokenizer_destroy(bytes);
    ASSERT_OK(yoke_model_save(m, scratch_path("tokens.safetensors")));
    yoke_model_destroy(m);
    ASSERT_OK(yoke_model_load(scratch_path("tokens.safetensors"), &m));
    ck_assert_int_eq(yoke_tokenizer_vocabulary(yoke_model_get_tokenizer(m)), 256);
    yoke_model_destroy(m);
}
END_TEST

/* The file that check.py expects, where python.sh wants it. */
START_TEST(for_python)
{
    static const char *const names[] = {"conv1.weight",     "conv1.bias",     "bn1.weight",
                                        "bn1.bias",         "dense1.weight",  "dense1.bias",
                                        "bn1.running_mean", "bn1.running_var"};
    static const char *const classes[] = {"one", "two"};
    const char *path = getenv("YOKE_TEST_WRITE");
    yoke_graph *g = small_graph(3, true);
    yoke_model *m;

    ASSERT_OK(yoke_model_create(
        g, &(yoke_model_options){.input_type = YOKE_U8, .class_count = 2, .class_names = classes},
        &m));
    for (size_t k = 0; k < YKI_COUNT(names); k++) {
        float values[54];
        size_t count = (size_t)yki_shape_count(yoke_graph_get_node(g, names[k])->shape);

        ck_assert_uint_le(count, YKI_COUNT(values));
        for (size_t i = 0; i < count; i++)
            values[i] = (float)k + (float)i / 8;
        ASSERT_OK(yoke_model_write(m, names[k], values, count));
    }
    ASSERT_OK(yoke_model_save(m, path ? path : scratch_path("python.safetensors")));
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("weights");
    TCase *python = test_case(suite, "python");
    TCase *files = test_case(suite, "files");

    tcase_add_checked_fixture(files, scratch_set_up, scratch_tear_down);
    tcase_add_test(files, a_model_is_a_file);
    tcase_add_test(files, values_by_name);
    tcase_add_test(files, what_fits_is_taken);
    tcase_add_test(files, what_does_not_fit_is_named);
    tcase_add_test(files, prefixes_and_counters);
    tcase_add_test(files, metadata_of_others);
    tcase_add_test(files, out_of_memory);
    tcase_add_test(files, arguments);
    tcase_add_test(files, tokenizers);
    tcase_add_checked_fixture(python, scratch_set_up, scratch_tear_down);
    tcase_add_test(python, for_python);
    return suite;
}
