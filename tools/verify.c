/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.c - `yoke verify MODEL`: trains a built-in model on a team and on one device
 * from the same initial values, and compares the results.
 *
 * Idea: the split changes the result by rounding only. Plain SGD in the direct numerical
 * class keeps rounding small. The worst difference of a loss and of a weight
 * (max|a-b| / max|b| of its tensor) is printed and compared with the tolerance. With
 * local batch norm the split would make a different network, so it is refused.
 *
 * Where a relu's input is within rounding of 0, or two values of a maximum are, rounding decides
 * whether a gradient passes: with some initial values (one set of seven, of lenet) a weight then
 * differs by far more than rounding. So only what differs with each of three seeds is different.
 *
 * Not here: the same bits on any split (verify_bits.c), speed (yoke bench).
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job.h"
#include "progress.h"
#include "verify.h"

enum { MAX_STEPS = 1000000, MOST_TOLERANCE = 1000000, TRIES = 3 };
static const float USUAL_RATE = 0.01f;

typedef struct request {
    const yki_tool_model *model;
    const char *alone;
    unsigned steps;
    double tolerance; /* 0: not given */
    bool bits;
    yki_tool_training training;
} request;

static const yki_tool_option options[] = {
    {"alone", 'a', "SELECTOR", "the device it is compared with (default: the team's first, whole)",
     TOOL_TEXT(request, alone)},
    {"steps", 'n', "N", "how long to train (default: 20)",
     TOOL_COUNT(request, steps, 1, MAX_STEPS)},
    {"tolerance", 't', "X", "largest difference allowed (default: 1e-5 for each 20 steps)",
     TOOL_REAL(request, tolerance, 1e-30, MOST_TOLERANCE)},
    {"bits", 0, NULL, "train in several splits with any-split, and compare the bits",
     TOOL_FLAG(request, bits)},
    {0},
};

/* The results of a training. */
typedef struct trained {
    char devices[512];
    double *losses;  /* by step */
    float **weights; /* by parameter of the graph */
} trained;

/* ---- training ---- */

static size_t
weight_count(const yoke_graph *graph, size_t index)
{
    yoke_shape shape = yoke_node_shape(yoke_graph_get_parameter(graph, index));
    size_t count = 1;

    for (int32_t i = 0; i < shape.rank; i++)
        count *= (size_t)shape.dim[i];
    return count;
}

static yoke_status
read_weights(yoke_trainer *trainer, const yoke_graph *graph, trained *out)
{
    size_t count = yoke_graph_parameter_count(graph);

    out->weights = calloc(count ? count : 1, sizeof *out->weights);
    if (!out->weights)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        size_t values = weight_count(graph, i);
        yoke_status status;

        out->weights[i] = malloc(values * sizeof **out->weights);
        if (!out->weights[i])
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = yoke_trainer_read(trainer, yoke_node_name(yoke_graph_get_parameter(graph, i)),
                                   out->weights[i], values);
        if (status)
            return status;
    }
    return YOKE_OK;
}

/* Every step has its own random samples, which are the same in both trainings. */
static yoke_status
run_steps(const request *wanted, yoke_trainer *trainer, trained *out)
{
    int64_t n = wanted->training.batch;
    void *input = malloc(yki_tool_model_values(wanted->model) * (size_t)n * 4);
    void *target = malloc(yki_tool_target_values(wanted->model) * (size_t)n * 4);
    yoke_feed feeds[2];
    const size_t count = yki_tool_batch_feeds(wanted->model, n, input, target, feeds);
    yoke_status status = input && target ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (unsigned i = 0; !status && i < wanted->steps; i++) {
        yoke_result result;

        yki_tool_random_batch(wanted->model, n, i + 1, input, target);
        status = yoke_trainer_step(trainer, n, feeds, count, &result);
        out->losses[i] = status ? 0 : result.loss;
    }
    free(input);
    free(target);
    return status;
}

static void
name_devices(const yoke_team *team, trained *out)
{
    size_t used = 0;

    for (size_t k = 0; k < yoke_team_local_count(team) && used < sizeof out->devices; k++) {
        yoke_device_info info;
        const char *id = yoke_device_get_info(yoke_team_get_device(team, k), &info) ? "?" : info.id;

        used += (size_t)snprintf(out->devices + used, sizeof out->devices - used, "%s%s",
                                 k ? "," : "", id);
    }
}

/* Trains the team or, if `alone`, the devices that `first` selects. The team's training writes to
 * `first` the id of the whole device that the team's first device belongs to. */
static yoke_status
train(const request *wanted, yoke_context *context, yoke_graph *graph, bool alone, trained *out,
      char first[64])
{
    yoke_trainer_options o = yki_tool_trainer_options(&wanted->training, yoke_sgd(USUAL_RATE, 0));
    yoke_trainer *trainer = NULL;
    yoke_team *team = NULL;
    yoke_device_info info;
    yoke_status status;

    o.strict = true;
    if (alone) {
        o.shares = NULL;
        o.core_groups = YOKE_CORE_GROUPS_NEVER; /* the reference stays one device */
    }
    out->losses = calloc(wanted->steps, sizeof *out->losses);
    if (!out->losses)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yoke_team_create(context, alone ? first : wanted->training.devices, NULL, &team);
    if (!status)
        status = yoke_device_get_info(yoke_team_get_device(team, 0), &info);
    if (!status) {
        name_devices(team, out);
        if (!alone)
            memcpy(first, info.parent, sizeof info.parent);
        status = yoke_trainer_create(team, graph, &o, &trainer);
    }
    if (!status)
        status = run_steps(wanted, trainer, out);
    if (!status)
        status = read_weights(trainer, graph, out);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    return status;
}

static void
clear(trained *t, const yoke_graph *graph)
{
    for (size_t i = 0; t->weights && i < yoke_graph_parameter_count(graph); i++)
        free(t->weights[i]);
    free(t->weights);
    free(t->losses);
}

/* ---- judging ---- */

/* Finds the worst parameter, and returns its max|a-b| / max|b|. NaN counts as worse than all. */
static double
worst_weight(const trained *a, const trained *b, const yoke_graph *graph, size_t *at)
{
    double worst = 0;

    *at = 0;
    for (size_t i = 0; i < yoke_graph_parameter_count(graph); i++) {
        double apart = 0, largest = 0, part;

        for (size_t j = 0; j < weight_count(graph, i); j++) {
            double d = fabs((double)a->weights[i][j] - (double)b->weights[i][j]);

            apart = d <= apart ? apart : d;
            largest = fmax(largest, fabs((double)b->weights[i][j]));
        }
        part = apart <= 0 ? 0 : largest > 0 ? apart / largest : INFINITY;
        if (!(part <= worst)) {
            worst = part;
            *at = i;
        }
    }
    return worst;
}

static double
worst_loss(const trained *a, const trained *b, unsigned steps, unsigned *at)
{
    double worst = 0;

    *at = 0;
    for (unsigned i = 0; i < steps; i++) {
        double part = fabs(a->losses[i] - b->losses[i]) / fmax(fabs(b->losses[i]), 1e-30);

        if (!(part <= worst)) {
            worst = part;
            *at = i;
        }
    }
    return worst;
}

/* Returns whether the two agree, and says how far they are apart. */
static bool
judge(const request *wanted, const yoke_graph *graph, const trained *team, const trained *alone)
{
    unsigned step, last = wanted->steps - 1;
    size_t parameter;
    char first[TOOL_LOSS], final[TOOL_LOSS];
    double loss = worst_loss(team, alone, wanted->steps, &step);
    double weight = worst_weight(team, alone, graph, &parameter);

    printf("loss    from %s to %s; worst difference %.3g, in step %u\n",
           yki_tool_loss_text(alone->losses[0], first),
           yki_tool_loss_text(alone->losses[last], final), loss, step + 1);
    printf("weights worst difference %.3g of the largest, in %s\n", weight,
           yoke_node_name(yoke_graph_get_parameter(graph, parameter)));
    return loss <= wanted->tolerance && weight <= wanted->tolerance;
}

/* Trains the team and the one device. `before`: how often they differed with other seeds. */
static yoke_status
compare(const request *wanted, yoke_context *context, unsigned before, bool *same)
{
    trained team, alone;
    yoke_graph *graph = NULL;
    char first[64] = "";
    yoke_status status = yki_tool_build_model(wanted->model, &graph);

    memset(&team, 0, sizeof team);
    memset(&alone, 0, sizeof alone);
    if (!status)
        status = train(wanted, context, graph, false, &team, first);
    if (!status && wanted->alone)
        snprintf(first, sizeof first, "%s", wanted->alone);
    if (!status)
        status = train(wanted, context, graph, true, &alone, first);
    if (!status) {
        if (before)
            printf("more than rounding, as where a relu turns; again with seed %u:\n",
                   wanted->training.seed);
        else
            printf("%s, %u steps of %u samples: %s against %s\n", wanted->model->name,
                   wanted->steps, wanted->training.batch, team.devices, alone.devices);
        *same = judge(wanted, graph, &team, &alone);
    }
    if (graph) {
        clear(&team, graph);
        clear(&alone, graph);
    }
    yoke_graph_destroy(graph);
    return status;
}

static yoke_status
verify(const request *wanted, yoke_context *context, bool *same)
{
    request attempt = *wanted;
    yoke_status status = YOKE_OK;

    *same = false;
    for (unsigned i = 0; i < TRIES && !status && !*same; i++) {
        status = compare(&attempt, context, i, same);
        attempt.training.seed++;
    }
    if (!status)
        printf("%s: at most %.3g is allowed\n", *same ? "the same" : "DIFFERENT",
               wanted->tolerance);
    return status;
}

/* ---- the command line ---- */

/* The model's name may stand before, between or after the options. */
static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *wanted)
{
    const char *name = NULL;
    yki_near near;
    int status = yki_tool_read(self, argc, argv, wanted);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, "model",
                                        "no model is given; must be a built-in one, such as lenet",
                                        &name);
    if (status != TOOL_OK)
        return status;
    if (wanted->training.batch_norm == 1)
        return yki_tool_usage(self,
                              "--batch-norm is \"local\", which makes another network of each "
                              "team; must be sync, to be compared");
    wanted->model = yki_tool_find_model(name);
    if (!wanted->model)
        return yki_tool_usage(self, "there is no model \"%s\"%s", name,
                              yki_tool_near_model(name, &near));
    if (!wanted->training.batch)
        wanted->training.batch = (unsigned)wanted->model->batch;
    if (!(wanted->tolerance > 0))
        wanted->tolerance = 1e-5 * (wanted->steps > 20 ? wanted->steps / 20.0 : 1);
    return TOOL_OK;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.steps = 20};
    yoke_context *context = NULL;
    yki_tool_job job = {.ranks = 1};
    int result = read_arguments(self, argc, argv, &wanted);
    yoke_status status;
    bool same = false;

    if (result)
        return result == TOOL_EXIT ? TOOL_OK : result;
    if (wanted.bits)
        result = yki_tool_job_start(self, NULL, &job);
    if (result)
        return result;
    yki_tool_log(self, YOKE_LOG_WARNING);
    status = yoke_context_create(NULL, &context);
    if (!status)
        status = wanted.bits ? yki_tool_verify_bits(wanted.model, &wanted.training, wanted.steps,
                                                    context, job.comm, &same)
                             : verify(&wanted, context, &same);
    result = status ? yki_tool_fail(self, status) : TOOL_OK;
    yoke_context_destroy(context);
    result = yki_tool_job_end(&job, result);
    /* All ranks come to this verdict. Who left the job with it would end the others, of which the
     * first still has to say it. */
    return result == TOOL_OK && !same ? TOOL_FAILURE : result;
}

const yki_tool_command yki_tool_verify = {
    .name = "yoke verify",
    .synopsis = "[OPTION]... MODEL",
    .summary = "compare the results of a team with those of one device",
    .description =
        "Train the built-in model MODEL on a team of devices and on one device, from the\n"
        "same start and with the same random samples, and compare losses and weights.\n"
        "The exit status is 1 if they differ by more than rounding does; with --bits, if\n"
        "they differ at all between splits of a batch.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_VERIFY, request, training),
    .run = run,
    .example = "yoke verify --devices=cpu:0/2 --shares=80,20 lenet",
};
