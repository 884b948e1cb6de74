/* SPDX-License-Identifier: Apache-2.0
 *
 * check_zoo.c - the built-in models: as many parameters as those who published them count, options
 * that are refused, and small ones of each that learn a batch.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/opened.h"
#include "support/scratch.h"
#include "support/support.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 2, STEPS = 5, TEXT = 2000 };

static int64_t
values_of(yoke_shape shape)
{
    int64_t values = 1;

    for (int32_t i = 0; i < shape.rank; i++)
        values *= shape.dim[i];
    return values;
}

/* ---- sizes ---- */

/* Of torchvision, of the reference of U-Net in PyTorch, and of Hugging Face. */
START_TEST(published_counts)
{
    const yoke_zoo_options image = {.input = yoke_shape(3, 224, 224), .classes = 1000};
    const yoke_zoo_options map = {.input = yoke_shape(3, 96, 96)};
    const yoke_zoo_options words = {.vocabulary = 50257};
    const struct {
        const char *name;
        const yoke_zoo_options *options;
        int64_t parameters;
        double products; /* multiplications of a sample; 0: not published */
    } rows[] = {
        {"resnet18", &image, 11689512, 1.814e9},
        {"resnet34", &image, 21797672, 3.664e9},
        {"resnet50", &image, 25557032, 4.089e9},
        {"mobilenet", &image, 3504872, 0.3008e9},
        {"unet", &map, 31037698, 0},
        {"gpt2", &words, 124439808, 0},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        yoke_graph_counts counts;
        yoke_graph *g;

        ASSERT_OK(yoke_zoo(rows[i].name, rows[i].options, &g));
        ASSERT_OK(yoke_graph_count(g, &counts));
        ck_assert_msg(counts.parameters == rows[i].parameters, "%s has %lld parameters",
                      rows[i].name, (long long)counts.parameters);
        /* Each has an addition; batch norms and relus add a little. */
        ck_assert_msg(rows[i].products == 0 || (counts.flops > 2 * rows[i].products &&
                                                counts.flops < 2.25 * rows[i].products),
                      "%s has %g FLOPs", rows[i].name, counts.flops);
        yoke_graph_destroy(g);
    }
}
END_TEST

/* What is predicted of an image has its size, whether that can be halved or not. */
START_TEST(maps_have_the_size_of_the_image)
{
    static const int64_t sizes[][2] = {{1, 1}, {2, 3}, {7, 28}, {33, 31}, {64, 50}};

    for (size_t i = 0; i < 2 * sizeof sizes / sizeof *sizes; i++) {
        const bool copies = i % 2;
        const yoke_zoo_options o = {.input = yoke_shape(2, sizes[i / 2][0], sizes[i / 2][1]),
                                    .width = 2};
        yoke_shape shape;
        yoke_graph *g;

        ASSERT_OK(yoke_zoo(copies ? "autoencoder" : "unet", &o, &g));
        shape = yoke_node_shape(yoke_graph_get_node(g, copies ? "decoder.conv2" : "outc.conv"));
        ck_assert_msg(memcmp(&shape, &o.input, sizeof shape) == 0, "%lld x %lld",
                      (long long)shape.dim[1], (long long)shape.dim[2]);
        yoke_graph_destroy(g);
    }
}
END_TEST

START_TEST(names)
{
    size_t count = 0;

    for (const yoke_zoo_model *m; (m = yoke_zoo_get(count)) != NULL; count++) {
        yoke_graph *g;

        ck_assert(m->name[0] && m->summary[0] && m->input.rank > 0);
        ASSERT_OK(yoke_zoo(m->name, NULL, &g));
        yoke_graph_destroy(g);
    }
    ck_assert_uint_ge(count, 14);
    ck_assert_ptr_null(yoke_zoo_get(SIZE_MAX));
}
END_TEST

/* ---- refusals ---- */

START_TEST(refusals)
{
    static const float one = 1, zero = 0;
    const struct {
        const char *name, *sentence;
        yoke_zoo_options options;
        yoke_status status;
    } rows[] = {
        {"resnet51", "did you mean \"resnet50\"?", {.classes = 3}, YOKE_ERROR_NOT_FOUND},
        {"lenet", "lenet has no such size: width", {.width = 3}, YOKE_ERROR_INVALID_ARGUMENT},
        {"gpt", "gpt has no such size: classes", {.classes = 3}, YOKE_ERROR_INVALID_ARGUMENT},
        {"gpt", "gpt has no such size: inner", {.inner = 3}, YOKE_ERROR_INVALID_ARGUMENT},
        {"lenet",
         "lenet: classes is -1; must be between 1 and",
         {.classes = -1},
         YOKE_ERROR_INVALID_ARGUMENT},
        {"gpt", "multiple of the 3 heads", {.heads = 3}, YOKE_ERROR_INVALID_ARGUMENT},
        {"llama", "of the 3 shared ones", {.shared = 3}, YOKE_ERROR_INVALID_ARGUMENT},
        {"gpt", "at most 128, the context", {.input = yoke_shape(129)}, YOKE_ERROR_SHAPE},
        {"gpt", "gpt is for texts", {.input = yoke_shape(3, 4)}, YOKE_ERROR_SHAPE},
        {"gpt", "dropout is 1; must be", {.dropout = 1}, YOKE_ERROR_INVALID_ARGUMENT},
        {"lenet", "is no language model", {.tied = true}, YOKE_ERROR_INVALID_ARGUMENT},
        {"lenet", "lenet is for images", {.input = yoke_shape(9)}, YOKE_ERROR_SHAPE},
        {"lenet",
         "must be one of both",
         {.classes = 2, .target = yoke_shape(2)},
         YOKE_ERROR_INVALID_ARGUMENT},
        {"unet",
         "must be maps of 64 rows and 64 columns",
         {.target = yoke_shape(2, 64, 63)},
         YOKE_ERROR_SHAPE},
        {"autoencoder",
         "predicts its input",
         {.target = yoke_shape(1, 28, 28)},
         YOKE_ERROR_INVALID_ARGUMENT},
        {"tiny",
         "from 1 to 16777216 values",
         {.target = yoke_shape(1 << 20, 32)},
         YOKE_ERROR_SHAPE},
        {"tiny",
         "deviation 0; must be finite",
         {.target = yoke_shape(1), .spread_count = 1, .mean = &one, .deviation = &zero},
         YOKE_ERROR_INVALID_ARGUMENT},
        {"tiny",
         "there are 2 means",
         {.target = yoke_shape(3), .spread_count = 2, .mean = &one, .deviation = &one},
         YOKE_ERROR_INVALID_ARGUMENT},
        {"lenet",
         "predicts no values",
         {.spread_count = 1, .mean = &one, .deviation = &one},
         YOKE_ERROR_INVALID_ARGUMENT},
        {"resnet18", "", {.input = {3, 0, {3, -1, 8}}}, YOKE_ERROR_SHAPE},
        {"tiny", "the rank of the target", {.target = {99, 0, {1}}}, YOKE_ERROR_SHAPE},
    };

    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        yoke_graph *g = NULL;

        ASSERT_REFUSED(rows[i].status, rows[i].sentence,
                       yoke_zoo(rows[i].name, &rows[i].options, &g));
        ck_assert_ptr_null(g);
    }
    ASSERT_INVALID(yoke_zoo(NULL, NULL, &(yoke_graph *){NULL}));
    ASSERT_INVALID(yoke_zoo("lenet", NULL, NULL));
}
END_TEST

/* ---- learning ---- */

static const struct {
    const char *name;
    yoke_zoo_options options;
} small[] = {
    {"resnet34", {.input = {3, 0, {3, 8, 8}}, .classes = 3}},
    {"resnet50", {.input = {3, 0, {3, 8, 8}}, .classes = 3}},
    {"mobilenet", {.input = {3, 0, {3, 8, 8}}, .classes = 3}},
    {"unet", {.input = {3, 0, {2, 12, 9}}, .classes = 3, .width = 4}},
    {"unet", {.input = {3, 0, {2, 12, 9}}, .target = {3, 0, {2, 12, 9}}, .width = 4}},
    {"autoencoder", {.input = {3, 0, {1, 9, 12}}, .width = 4}},
    {"gpt", {.layers = 1, .heads = 2, .width = 16, .context = 12, .vocabulary = 11}},
};

/* The same batch again and again must be learned. */
START_TEST(a_small_one_learns)
{
    static float x[TEXT], values[TEXT];
    static int32_t tokens[TEXT], labels[TEXT];
    const char *name = small[_i].name;
    const yoke_zoo_options *o = &small[_i].options;
    const yoke_trainer_options how = {
        .batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .optimizer = yoke_adam(3e-3f)};
    const bool text = strcmp(name, "gpt") == 0, maps = strcmp(name, "unet") == 0;
    const int64_t inputs = BATCH * (text ? o->context : values_of(o->input));
    const int64_t targets = BATCH * (text   ? o->context
                                     : maps ? values_of(o->input) / o->input.dim[0]
                                            : 1);
    yoke_feed feeds[2] = {yoke_feed_f32("image", x, inputs),
                          yoke_feed_i32("label", labels, targets)};
    double first = 0, last = 0;
    yoke_trainer *trainer;
    yoke_graph *g;
    yoke_team *team;

    for (int i = 0; i < TEXT; i++) {
        x[i] = sinf((float)i);
        values[i] = cosf((float)i / 3);
        tokens[i] = i * 5 % 11;
        labels[i] = i / 2 % 3;
    }
    if (text) {
        feeds[0] = yoke_feed_i32("tokens", tokens, inputs);
        feeds[1] = yoke_feed_i32("next", labels, targets);
    } else if (o->target.rank > 0) {
        feeds[1] = yoke_feed_f32("value", values, BATCH * values_of(o->target));
    }
    ASSERT_OK(yoke_zoo(name, o, &g));
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &how, &trainer));
    for (int i = 0; i < STEPS; i++) {
        yoke_result result;

        ASSERT_OK(yoke_trainer_step(trainer, BATCH, feeds, strcmp(name, "autoencoder") == 0 ? 1 : 2,
                                    &result));
        last = result.loss;
        ck_assert_msg(isfinite(last), "%s: the loss of step %d is %g", name, i, last);
        first = i == 0 ? last : first;
    }
    ck_assert_msg(last < first, "%s: the loss goes from %g to %g", name, first, last);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("zoo");
    TCase *graphs = test_case(suite, "graphs");

    tcase_add_test(graphs, published_counts);
    tcase_add_test(graphs, maps_have_the_size_of_the_image);
    tcase_add_test(graphs, names);
    tcase_add_test(graphs, refusals);
    for (int i = 0; i < (int)(sizeof small / sizeof *small); i++) {
        TCase *learning = test_case(suite, small[i].name);

        tcase_add_checked_fixture(learning, open_devices_in_scratch, leave_devices);
        tcase_add_loop_test(learning, a_small_one_learns, i, i + 1);
    }
    return suite;
}
