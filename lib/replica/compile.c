/* SPDX-License-Identifier: Apache-2.0
 *
 * compile.c - the program yoke-compile: compiles kernels of a plan for a process that makes the
 * plan (compilers.c). It is not for people. It knows no wisdom: what is compiled already costs it
 * little.
 */
#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "replica/compilers.h"

/* Returns the job in standard input, or NULL. */
static yki_compile_job *
open_job(void)
{
    struct stat about;
    yki_compile_job *job;

    if (fstat(0, &about) || about.st_size <= (off_t)sizeof *job)
        return NULL;
    job = mmap(NULL, (size_t)about.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, 0, 0);
    if (job == MAP_FAILED)
        return NULL;
    return memchr(job->text, '\0', (size_t)about.st_size - sizeof *job) ? job : NULL;
}

static bool
read_options(const json_t *object, yki_plan_options *o)
{
    json_int_t batch;
    int training, level;

    *o = (yki_plan_options){.precision = NULL};
    if (json_unpack((json_t *)(uintptr_t)object, "{s:I, s:b, s:i, s?s}", "batch", &batch,
                    "training", &training, "level", &level, "precision", &o->precision))
        return false;
    o->max.batch = batch;
    o->training = training;
    o->level = (yoke_plan_level)level;
#define X(kind, name) o->name = (kind)json_integer_value(json_object_get(object, #name));
    YKI_COMPILE_OPTIONS(X)
#undef X
    return true;
}

static yoke_status
compile(const char *text, const char *id, const char *cache, const yki_plan_options *options,
        yki_claims *claims)
{
    yoke_context_options o = {.cache_dir = cache};
    yoke_context *context;
    yoke_selection *selection;
    yoke_graph *graph;
    yki_weights *weights;
    yki_queue *queue;
    yoke_device *device;

    YKI_TRY(yoke_context_create(&o, &context));
    YKI_TRY(yoke_selection_create(context, id, NULL, &selection));
    YKI_TRY(yoke_graph_from_json(text, strlen(text), &graph));
    device = yoke_selection_get(selection, 0);
    YKI_TRY(yki_weights_create_bare(device, graph, &weights));
    YKI_TRY(yki_queue_create(device, false, &queue));
    return yki_plan_compile(weights, queue, options, claims);
}

/* It frees nothing: the process ends. */
int
main(void)
{
    const char *graph, *device, *cache;
    yki_plan_options options;
    yki_compile_job *job;
    json_t *root, *object;
    yoke_status status;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    job = open_job();
    root = job ? json_loads(job->text, 0, NULL) : NULL;
    if (!root || kill(job->parent, 0) ||
        json_unpack(root, "{s:s, s:s, s:s, s:o}", "graph", &graph, "device", &device, "cache",
                    &cache, "options", &object) ||
        !read_options(object, &options))
        _exit(2);
    status = compile(graph, device, cache, &options, &job->claims);
    _exit(status == YOKE_OK ? EXIT_SUCCESS : EXIT_FAILURE);
}
