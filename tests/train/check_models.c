/* SPDX-License-Identifier: Apache-2.0
 *
 * check_models.c - each built-in model is trained for some steps on a GPU, or on what says that it
 * is one (tests/gpu/face.c): plans of whole networks, with all that is joined there. The same batch
 * again and again must be learned.
 *
 * Sizes of language models and of unet are small: their layers are the same. On a processor other
 * tests do it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/models.h"
#include "support/opened.h"
#include "support/scratch.h"
#include "support/support.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 2, STEPS = 4 };

/* The model with small sizes, where it has some. */
static void
size_model(const yki_tool_model *model, yki_tool_model *sized)
{
    const yki_tool_sizes small = {
        .layers = 2, .heads = 2, .width = 64, .context = 32, .vocabulary = 96};
    char why[TOOL_MODEL_WHY];

    *sized = *model;
    if (model->kind == YOKE_ZOO_PIXELS) {
        sized->sizes.width = 8;
        sized->input = yoke_shape(3, 16, 16);
    }
    if (model->language)
        ck_assert_msg(yki_tool_size_model(model, &small, 32, sized, why), "%s", why);
}

/* Those that take PoCL's compiler longest; YOKE_TEST_MODELS=few leaves them out. In the short form
 * of the matrix, all but one of images and one of words. */
static bool
is_deep(const yki_tool_model *model)
{
    static const char *const names[] = {"resnet34", "resnet50", "mobilenet"};
    bool deep = false;

    if (test_in_short())
        return strcmp(model->name, "lenet") != 0 && strcmp(model->name, "gpt") != 0;
    for (size_t i = 0; i < YKI_COUNT(names); i++)
        deep = deep || strcmp(names[i], model->name) == 0;
    return deep;
}

static bool
has_gpu(void)
{
    return yki_device_get_traits(devices.device[0])->type == YOKE_DEVICE_GPU;
}

static void
learn(const yki_tool_model *model)
{
    yoke_trainer_options o = {.batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .shares = "even"};
    float first = 0, last = 0;
    yki_tool_model sized;
    yoke_feed feeds[2];
    size_t count;
    yoke_trainer *trainer;
    yoke_graph *graph;
    yoke_team *team;
    float *input;
    void *target;

    size_model(model, &sized);
    o.optimizer = sized.optimizer();
    o.optimizer.learning_rate = 1e-3f;
    input = calloc(BATCH * yki_tool_model_values(&sized), sizeof *input);
    target = calloc(BATCH * yki_tool_target_values(&sized), sizeof(int32_t));
    yki_tool_random_batch(&sized, BATCH, 1, input, target);
    count = yki_tool_batch_feeds(&sized, BATCH, input, target, feeds);
    ASSERT_OK(yki_tool_build_model(&sized, &graph));
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, graph, &o, &trainer));
    for (int i = 0; i < STEPS; i++) {
        yoke_result result;

        ASSERT_OK(yoke_trainer_step(trainer, BATCH, feeds, count, &result));
        last = (float)result.loss;
        ck_assert_msg(isfinite(last), "%s: the loss of step %d is %g", model->name, i,
                      (double)last);
        if (i == 0)
            first = last;
    }
    ck_assert_msg(last < first, "%s: the loss goes from %g to %g", model->name, (double)first,
                  (double)last);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_graph_destroy(graph);
    free(input);
    free(target);
}

#define ONLY_GPUS()                                                                                \
    do {                                                                                           \
        if (!has_gpu())                                                                            \
            TEST_NOT_HERE("it is for GPUs; models are trained on processors by other tests");      \
    } while (0)

START_TEST(a_gpu_learns_each_model)
{
    ONLY_GPUS();
    learn(yki_tool_get_model((size_t)_i));
}
END_TEST

START_TEST(a_gpu_learns_each_deep_model)
{
    const char *models = getenv("YOKE_TEST_MODELS");

    ONLY_GPUS();
    if (models && strcmp(models, "few") == 0)
        TEST_NOT_HERE("it takes long to compile; make check-gpu-face trains it");
    learn(yki_tool_get_model((size_t)_i));
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("models");

    for (int i = 0; yki_tool_get_model((size_t)i); i++) {
        const yki_tool_model *model = yki_tool_get_model((size_t)i);
        TCase *tcase = test_case(suite, model->name);

        tcase_add_checked_fixture(tcase, open_devices_in_scratch, leave_devices);
        if (is_deep(model))
            tcase_add_loop_test(tcase, a_gpu_learns_each_deep_model, i, i + 1);
        else
            tcase_add_loop_test(tcase, a_gpu_learns_each_model, i, i + 1);
    }
    return suite;
}
