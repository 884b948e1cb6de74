/* SPDX-License-Identifier: Apache-2.0
 *
 * bench_model.c - `yoke bench MODEL`: measures whole training steps of a built-in
 * model on any devices, or prints its plan.
 *
 * There are two times: of steps that are queued with one wait at the end (as in
 * training), and of steps that are waited for one by one. Data is random; labels are
 * in range. Under mpirun all processes are one team, and rank 0 reports. A second
 * trainer without overlap shows how much of the communication backward hides.
 */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "job.h"
#include "json.h"
#include "models.h"
#include "training.h"

enum { MIN_STEPS = 5, MAX_STEPS = 200, WAITED = 20, TURNS = 15 };
static const double SECONDS = 3;

typedef struct request {
    const yki_tool_model *model;
    yki_tool_training training;
    const char *folder; /* of Hugging Face, that has the sizes; NULL: none */
    bool json, plan, overlap;
    unsigned size, seq;
    yki_tool_job job;
} request;

static const yki_tool_option options[] = {
    TOOL_ROW_JSON(request),
    {"plan", 'p', NULL, "print the plan's tasks and memory map instead", TOOL_FLAG(request, plan)},
    {"overlap", 'o', NULL, "also without overlap: how much communication backward hides",
     TOOL_FLAG(request, overlap)},
    {"size", 0, "N", "height and width of the images (default: the model's)",
     TOOL_COUNT(request, size, 1, 4096)},
    {"model", 'm', "DIR", "gpt or llama of the sizes of this folder of Hugging Face",
     TOOL_TEXT(request, folder)},
    {"seq", 0, "N", "tokens of a sample of gpt (default: the model's)",
     TOOL_COUNT(request, seq, 1, 1 << 24)},
    {0},
};

typedef struct figures {
    unsigned steps;
    double step_ms, step_ms_waited, first_step_ms, gflops, peak_fraction;
    uint64_t memory, state;
    double exposed_ms; /* the median of the steps that were waited for */
    /* Without overlap, if that was asked for: a mean, then medians, then their quotient. */
    double apart_ms, communication_ms, backward_ms, hidden;
    /* With a timeline: medians of turns without and with it, and of their quotients - 1. */
    double untraced_ms, traced_ms, trace_cost;
} figures;

/* The trainer that is measured, and its inputs. */
typedef struct bench_state {
    const request *wanted;
    yoke_team *team;
    yoke_trainer *trainer;
    yoke_feed feeds[2];
    size_t feed_count;
    bool feed_each; /* shares may change, or a step has parts: each step needs the data again */
} bench_state;

/* When the command began to run. */
static double process_start;

/* ---- data ---- */

static yoke_status
make_data(const yki_tool_model *model, int64_t n, yoke_feed feeds[2], size_t *count)
{
    void *input = malloc(yki_tool_model_values(model) * (size_t)n * 4);
    void *target = malloc(yki_tool_target_values(model) * (size_t)n * 4);

    *count = yki_tool_batch_feeds(model, n, input, target, feeds);
    if (!input || !target)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_tool_random_batch(model, n, 1, input, target);
    return YOKE_OK;
}

/* ---- measuring ---- */

static yoke_status
step(bench_state *b, bool feed)
{
    return yoke_trainer_step(b->trainer, b->wanted->training.batch, b->feeds,
                             feed || b->feed_each ? b->feed_count : 0, NULL);
}

static int
compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double
median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Whether another step is to be waited for; the answer is the same in all processes. There are
 * WAITED steps or, if these take more than SECONDS, fewer, but at least MIN_STEPS. */
static yoke_status
goes_on(const bench_state *b, int count, double begin, bool *yes)
{
    yoke_comm *comm = b->wanted->job.comm;

    *yes = count < MIN_STEPS || (count < WAITED && yki_tool_now() - begin < SECONDS);
    return comm ? comm->broadcast(comm, yes, sizeof *yes, 0) : YOKE_OK;
}

/* Medians, in seconds, of steps that are waited for one by one and of the times that the trainer
 * reports for them. */
static yoke_status
measure_waited(bench_state *b, double *seconds, yoke_step_times *parts)
{
    double times[WAITED], exposed[WAITED], forward[WAITED], backward[WAITED];
    double begin = yki_tool_now();
    int count = 0;
    bool more = true;
    yoke_status status = goes_on(b, count, begin, &more);

    while (!status && more) {
        double start = yki_tool_now();
        yoke_step_times one;

        status = step(b, false);
        if (!status)
            status = yoke_trainer_wait(b->trainer);
        times[count] = yki_tool_now() - start;
        if (!status)
            status = yoke_trainer_get_times(b->trainer, &one);
        if (status)
            return status;
        exposed[count] = one.exposed;
        forward[count] = one.forward;
        backward[count++] = one.backward;
        status = goes_on(b, count, begin, &more);
    }
    if (status)
        return status;
    *seconds = median(times, count);
    parts->exposed = median(exposed, count);
    parts->forward = median(forward, count);
    parts->backward = median(backward, count);
    return YOKE_OK;
}

/* Makes the number of steps that take about SECONDS, from MIN_STEPS to MAX_STEPS, and waits only at
 * the end. All processes make the same number. */
static yoke_status
measure_queued(bench_state *b, double guess, unsigned *steps, double *seconds)
{
    double wanted = SECONDS / (guess > 1e-6 ? guess : 1e-6), start;
    yoke_comm *comm = b->wanted->job.comm;
    yoke_status status = YOKE_OK;

    *steps = wanted > MAX_STEPS ? MAX_STEPS : wanted < MIN_STEPS ? MIN_STEPS : (unsigned)wanted;
    if (comm)
        status = comm->broadcast(comm, steps, sizeof *steps, 0);
    start = yki_tool_now();
    for (unsigned i = 0; !status && i < *steps; i++)
        status = step(b, false);
    if (!status)
        status = yoke_trainer_wait(b->trainer);
    *seconds = (yki_tool_now() - start) / *steps;
    return status;
}

/* Sums the memory of this process's devices, and divides the operations by their summed peaks. */
static yoke_status
measure_devices(const bench_state *b, figures *f)
{
    double peak = 0;

    f->memory = 0;
    f->state = yoke_trainer_state_bytes(b->trainer);
    for (size_t k = 0; k < yoke_team_local_count(b->team); k++) {
        yoke_device *device = yoke_team_get_device(b->team, k);
        yoke_memory_usage usage;
        yoke_peak limits;
        yoke_status status = yoke_device_get_memory(device, &usage);

        if (!status)
            status = yoke_device_measure_peak(device, &limits);
        if (status)
            return status;
        f->memory += usage.peak;
        peak += limits.gflops;
    }
    f->peak_fraction = peak > 0 ? f->gflops / peak : 0;
    return YOKE_OK;
}

/* Times the first step, then the others. */
static yoke_status
measure_steps(bench_state *b, figures *f, double *waited, double *queued, yoke_step_times *parts)
{
    yoke_status status = step(b, true);

    if (!status)
        status = yoke_trainer_wait(b->trainer);
    f->first_step_ms = 1e3 * (yki_tool_now() - process_start);
    if (!status)
        status = measure_waited(b, waited, parts);
    return status ? status : measure_queued(b, *waited, &f->steps, queued);
}

static yoke_status
measure(bench_state *b, figures *f)
{
    double seconds = 0, waited = 0;
    yoke_step_times parts;
    yoke_status status = measure_steps(b, f, &waited, &seconds, &parts);

    if (status)
        return status;
    f->step_ms = 1e3 * seconds;
    f->step_ms_waited = 1e3 * waited;
    f->exposed_ms = 1e3 * parts.exposed;
    f->gflops = yoke_trainer_flops(b->trainer, b->wanted->training.batch) / seconds / 1e9;
    return measure_devices(b, f);
}

/* Divides the time that overlap saves by the most that it could save. */
static yoke_status
measure_apart(bench_state *b, figures *f)
{
    figures apart;
    double seconds = 0, waited = 0, most;
    yoke_step_times parts;
    yoke_status status = measure_steps(b, &apart, &waited, &seconds, &parts);

    if (status)
        return status;
    f->apart_ms = 1e3 * seconds;
    f->communication_ms = 1e3 * parts.exposed;
    f->backward_ms = 1e3 * parts.backward;
    most = f->communication_ms < f->backward_ms ? f->communication_ms : f->backward_ms;
    f->hidden = most > 0 ? (f->apart_ms - f->step_ms) / most : 0;
    return YOKE_OK;
}

/* Times some steps, which a timeline has if `trace` is its file, after one that does not count. */
static yoke_status
time_turn(bench_state *b, unsigned steps, const char *trace, double *seconds)
{
    yoke_status status = trace ? yoke_trainer_trace(b->trainer, trace) : YOKE_OK;
    double start = 0;

    for (unsigned i = 0; !status && i <= steps; i++) {
        if (i == 1) {
            status = yoke_trainer_wait(b->trainer);
            start = yki_tool_now();
        }
        if (!status)
            status = step(b, false);
    }
    if (!status)
        status = yoke_trainer_wait(b->trainer);
    *seconds = (yki_tool_now() - start) / steps;
    return !status && trace ? yoke_trainer_trace(b->trainer, NULL) : status;
}

/* What a timeline costs: turns without and with it, one after the other, so that both see the same
 * machine. Either is first in every other pair. The last turn leaves the file. */
static yoke_status
measure_trace(bench_state *b, figures *f)
{
    const char *trace = b->wanted->training.trace;
    const unsigned steps = f->steps / TURNS > 2 ? f->steps / TURNS : 2;
    double without[TURNS], with[TURNS], quotient[TURNS];
    yoke_status status = YOKE_OK;

    for (int i = 0; !status && i < TURNS; i++) {
        if (i % 2)
            status = time_turn(b, steps, trace, &with[i]);
        if (!status)
            status = time_turn(b, steps, NULL, &without[i]);
        if (!status && i % 2 == 0)
            status = time_turn(b, steps, trace, &with[i]);
        quotient[i] = with[i] / without[i];
    }
    if (status)
        return status;
    f->untraced_ms = 1e3 * median(without, TURNS);
    f->traced_ms = 1e3 * median(with, TURNS);
    f->trace_cost = median(quotient, TURNS) - 1;
    return YOKE_OK;
}

static void
print_line(void *user, const char *line)
{
    (void)user;
    puts(line);
}

static const char *
device_id(const bench_state *b, size_t index, yoke_device_info *info)
{
    return yoke_device_get_info(yoke_team_get_device(b->team, index), info) ? "?" : info->id;
}

static double
tokens_per_second(const bench_state *b, const figures *f)
{
    return 1e3 * b->wanted->training.batch / f->step_ms *
           (double)yki_tool_model_values(b->wanted->model);
}

static void
print_text(const bench_state *b, const figures *f, const int64_t *counts)
{
    yoke_device_info info;

    printf("%s, batch %u on", b->wanted->model->name, b->wanted->training.batch);
    for (size_t k = 0; k < yoke_team_local_count(b->team); k++)
        printf(" %s (%lld)", device_id(b, k, &info), (long long)counts[k]);
    printf("\nstep       %.3f ms queued (%u steps), %.3f ms waited for\n", f->step_ms, f->steps,
           f->step_ms_waited);
    if (b->wanted->model->language)
        printf("tokens     %.0f tokens/s\n", tokens_per_second(b, f));
    printf("rate       %.0f samples/s, %.1f GFLOP/s, %.2f of the peak\n",
           1e3 * b->wanted->training.batch / f->step_ms, f->gflops, f->peak_fraction);
    printf("first step %.0f ms after the start, memory %.1f MB, of which state of the optimizer "
           "%.1f MB\n",
           f->first_step_ms, (double)f->memory / 1e6, (double)f->state / 1e6);
    if (b->wanted->job.ranks > 1)
        printf("processes  %d; %.3f ms of a step wait for gradients\n", b->wanted->job.ranks,
               f->exposed_ms);
    if (f->apart_ms > 0)
        printf("overlap    %.3f ms a step without it: %.3f backward, then %.3f communication; "
               "%.2f of it is hidden\n",
               f->apart_ms, f->backward_ms, f->communication_ms, f->hidden);
    if (f->traced_ms > 0)
        printf("timeline   %.3f ms a step with it, %.3f ms without; the median of %d turns is "
               "%+.1f %%\n",
               f->traced_ms, f->untraced_ms, TURNS, 1e2 * f->trace_cost);
}

static void
print_figures(const bench_state *b, const figures *f, const int64_t *counts)
{
    yki_tool_json json;
    yoke_device_info info;

    if (!b->wanted->json) {
        print_text(b, f, counts);
        return;
    }
    yki_tool_json_start(&json, stdout);
    yki_tool_json_open_object(&json, NULL);
    yki_tool_json_string(&json, "model", b->wanted->model->name);
    yki_tool_json_integer(&json, "batch", b->wanted->training.batch);
    yki_tool_json_open_array(&json, "devices");
    for (size_t k = 0; k < yoke_team_local_count(b->team); k++)
        yki_tool_json_string(&json, NULL, device_id(b, k, &info));
    yki_tool_json_close_array(&json);
    yki_tool_json_open_array(&json, "shares");
    for (size_t k = 0; k < yoke_team_local_count(b->team); k++)
        yki_tool_json_integer(&json, NULL, (uint64_t)counts[k]);
    yki_tool_json_close_array(&json);
    yki_tool_json_integer(&json, "steps", f->steps);
    yki_tool_json_real(&json, "step_ms", f->step_ms);
    yki_tool_json_real(&json, "step_ms_waited", f->step_ms_waited);
    yki_tool_json_real(&json, "samples_per_second", 1e3 * b->wanted->training.batch / f->step_ms);
    if (b->wanted->model->language) {
        yki_tool_json_integer(&json, "seq", yki_tool_model_values(b->wanted->model));
        yki_tool_json_real(&json, "tokens_per_second", tokens_per_second(b, f));
    }
    yki_tool_json_real(&json, "gflops", f->gflops);
    yki_tool_json_real(&json, "peak_fraction", f->peak_fraction);
    yki_tool_json_integer(&json, "memory_bytes", f->memory);
    yki_tool_json_integer(&json, "state_bytes", f->state);
    yki_tool_json_real(&json, "first_step_ms", f->first_step_ms);
    yki_tool_json_integer(&json, "processes", (uint64_t)b->wanted->job.ranks);
    yki_tool_json_real(&json, "exposed_ms", f->exposed_ms);
    if (f->apart_ms > 0) {
        yki_tool_json_real(&json, "apart_step_ms", f->apart_ms);
        yki_tool_json_real(&json, "backward_ms", f->backward_ms);
        yki_tool_json_real(&json, "communication_ms", f->communication_ms);
        yki_tool_json_real(&json, "hidden", f->hidden);
    }
    if (f->traced_ms > 0) {
        yki_tool_json_real(&json, "untraced_step_ms", f->untraced_ms);
        yki_tool_json_real(&json, "traced_step_ms", f->traced_ms);
        yki_tool_json_real(&json, "trace_cost", f->trace_cost);
    }
    yki_tool_json_close_object(&json);
    yki_tool_json_end(&json);
}

static yoke_status
make_trainer(bench_state *b, yoke_graph *graph, bool apart)
{
    yoke_trainer_options o =
        yki_tool_trainer_options(&b->wanted->training, b->wanted->model->optimizer());
    const bool moves =
        o.reproducible == YOKE_REPRODUCIBLE_NO && (!o.shares || strcmp(o.shares, "auto") == 0);

    o.no_overlap = apart;
    b->feed_each = o.accumulate > 1 || o.reproducible == YOKE_REPRODUCIBLE_ANY_SPLIT ||
                   (yoke_team_count(b->team) > 1 && moves);
    return yoke_trainer_create(b->team, graph, &o, &b->trainer);
}

/* Prints the plan of the first device for the whole batch, or for what it runs at a time. */
static yoke_status
print_plan(bench_state *b, yoke_graph *graph)
{
    const yki_tool_training *training = &b->wanted->training;
    yoke_replica_options o = yki_tool_replica_options(training, b->wanted->model->optimizer());
    yoke_replica *replica = NULL;
    yoke_status status;

    if (training->reproducible == YOKE_REPRODUCIBLE_ANY_SPLIT) {
        status = make_trainer(b, graph, false);
        if (!status)
            status = yoke_trainer_print_plan(b->trainer, print_line, NULL);
        yoke_trainer_destroy(b->trainer);
        return status;
    }
    status = yoke_replica_create(yoke_team_get_device(b->team, 0), graph, &o, &replica);
    if (!status)
        status = yoke_replica_print_plan(replica, print_line, NULL);
    yoke_replica_destroy(replica);
    return status;
}

static yoke_status
train(bench_state *b, yoke_graph *graph)
{
    int64_t counts[64] = {0};
    figures f = {0};
    yoke_status status;

    if (yoke_team_count(b->team) > sizeof counts / sizeof *counts)
        return YOKE_ERROR_UNSUPPORTED;
    status = make_data(b->wanted->model, b->wanted->training.batch, b->feeds, &b->feed_count);
    if (!status)
        status = make_trainer(b, graph, false);
    if (!status)
        status = measure(b, &f);
    if (!status && b->wanted->training.trace)
        status = measure_trace(b, &f);
    if (!status)
        status = yoke_trainer_get_shares(b->trainer, counts, yoke_team_count(b->team));
    if (!status && b->wanted->overlap && b->wanted->job.ranks > 1) {
        yoke_trainer_destroy(b->trainer);
        b->trainer = NULL;
        status = make_trainer(b, graph, true);
        if (!status)
            status = measure_apart(b, &f);
    }
    if (!status)
        print_figures(b, &f, counts);
    yoke_trainer_destroy(b->trainer);
    free((void *)b->feeds[0].data);
    free((void *)b->feeds[1].data);
    return status;
}

static yoke_status
bench(const request *wanted, yoke_context *context)
{
    bench_state b = {.wanted = wanted};
    yoke_graph *graph = NULL;
    yoke_status status = yoke_team_create(context, wanted->training.devices,
                                          &(yoke_team_options){.comm = wanted->job.comm}, &b.team);

    if (!status)
        status = yki_tool_build_model(wanted->model, &graph);
    if (!status)
        status = yki_tool_add_lora(&wanted->training, graph);
    if (!status)
        status = wanted->plan ? print_plan(&b, graph) : train(&b, graph);
    yoke_graph_destroy(graph);
    yoke_team_destroy(b.team);
    return status;
}

/* Takes the sizes of a folder. */
static int
take_folder(const yki_tool_command *self, request *wanted, yki_tool_model *sized)
{
    const yki_tool_model *model = wanted->model;
    yoke_status failed = yki_tool_read_shorter(wanted->folder, sized);

    if (failed)
        return yki_tool_fail(self, failed);
    if (!sized->sizes.shared != !model->sizes.shared) /* which Llama alone has */
        return yki_tool_usage(self, "%s is of a %s; take \"yoke bench %s\"", wanted->folder,
                              sized->name, sized->name);
    wanted->model = sized;
    return TOOL_OK;
}

/* Replaces the model by a copy with the sizes that are asked for. */
static int
resize(const yki_tool_command *self, request *wanted, yki_tool_model *copy)
{
    const yki_tool_model *model = wanted->model;
    char why[TOOL_MODEL_WHY];

    if (wanted->size && !model->image)
        return yki_tool_usage(self, "%s takes no images: --size is not for it", model->name);
    *copy = *model;
    wanted->model = copy;
    if (wanted->size)
        copy->input.dim[1] = copy->input.dim[2] = wanted->size;
    if ((wanted->seq || yki_tool_sizes_given(&wanted->training.sizes)) &&
        !yki_tool_size_model(model, &wanted->training.sizes, wanted->seq, copy, why))
        return yki_tool_usage(self, "%s", why);
    return TOOL_OK;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.model = yki_tool_find_model(strrchr(self->name, ' ') + 1)};
    yki_tool_model of_folder, sized;
    yoke_context *context = NULL;
    yoke_status failed;
    int status;

    process_start = yki_tool_now();
    wanted.training.batch = (unsigned)wanted.model->batch;
    status = yki_tool_read(self, argc, argv, &wanted);
    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, NULL, NULL, NULL);
    if (status == TOOL_OK && wanted.folder)
        status = take_folder(self, &wanted, &of_folder);
    if (status == TOOL_OK)
        status = resize(self, &wanted, &sized);
    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    status = yki_tool_job_start(self, NULL, &wanted.job);
    if (status != TOOL_OK)
        return status;
    yki_tool_log(self, yki_tool_notes(false));
    failed = yoke_context_create(NULL, &context);
    if (!failed)
        failed = bench(&wanted, context);
    status = failed ? yki_tool_fail(self, failed) : TOOL_OK;
    yoke_context_destroy(context);
    return yki_tool_job_end(&wanted.job, status);
}

#define MODEL(identifier, model_name)                                                              \
    const yki_tool_command yki_tool_bench_##identifier = {                                         \
        .name = "yoke bench " model_name,                                                          \
        .synopsis = "[OPTION]...",                                                                 \
        .summary = "training steps of the built-in model " model_name,                             \
        .description =                                                                             \
            "Train the built-in model " model_name " on random data and report what a\n"           \
            "step takes, or explain its plan.",                                                    \
        .options = options,                                                                        \
        TOOL_TRAINING(TOOL_FOR_BENCH, request, training),                                          \
        .run = run,                                                                                \
        .example = "yoke bench " model_name " --devices=cpu:0/2 --shares=even",                    \
    };
MODEL(tiny, "tiny")
MODEL(mlp, "mlp")
MODEL(simplecnn, "simplecnn")
MODEL(lenet, "lenet")
MODEL(resnet18, "resnet18")
MODEL(resnet34, "resnet34")
MODEL(resnet50, "resnet50")
MODEL(mobilenet, "mobilenet")
MODEL(unet, "unet")
MODEL(autoencoder, "autoencoder")
MODEL(gpt, "gpt")
MODEL(char, "char")
MODEL(gpt2, "gpt2")
MODEL(llama, "llama")
