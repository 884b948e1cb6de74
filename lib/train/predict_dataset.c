/* SPDX-License-Identifier: Apache-2.0
 *
 * predict_dataset.c - an output of the graph for samples of a dataset.
 *
 * Samples go to the devices as in an evaluation (evaluate.c): read ahead, scaled and cropped there.
 * Only the inputs that the output is computed from are looked for, so a dataset needs no targets.
 */
#include <string.h>

#include "train/trainer.h"

typedef struct source {
    yki_loaders *loaders;
    int64_t start; /* the dataset's number of the first sample */
} source;

static yoke_status
load_samples(void *user, yoke_trainer *t, size_t member, yki_plan *plan, int64_t first, int64_t n)
{
    const source *from = user;

    return yki_trainer_load_range(t, from->loaders, member, plan, from->start, first, n);
}

static yoke_status
make_loaders(yoke_trainer *t, const char *output, yoke_dataset *dataset)
{
    bool *reads = yki_alloc(t->graph->node_count, sizeof *reads, "inputs of an output");
    yoke_status status = reads ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    if (reads) {
        yki_trainer_mark_read(t, output, reads);
        status = yki_trainer_loaders_of(t, &t->predict_loaders, dataset, reads);
    }
    yki_free(reads);
    return status;
}

yoke_status
yoke_trainer_predict_dataset(yoke_trainer *t, const char *output, yoke_dataset *dataset,
                             int64_t first, int64_t n, float *values, int64_t count)
{
    const char *const function = "yoke_trainer_predict_dataset";
    source from = {.start = first};
    yki_order order = {.sequential = true};
    int64_t length;
    yoke_status status;

    YKI_TRY(yki_trainer_ready(t, function));
    YKI_GIVEN(function, {"dataset", dataset});
    if (!output && t->graph->output_count)
        output = t->graph->outputs[0].name;
    if (first < 0 || first > dataset->count)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "first", first, 0, dataset->count);
    if (n < 0 || n > dataset->count - first)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of samples", n, 0,
                              dataset->count - first);
    YKI_TRY(yki_trainer_compare_counts(t, function, "the prediction", n));
    YKI_TRY(make_loaders(t, output, dataset));
    from.loaders = &t->predict_loaders;
    order.count = (uint64_t)(first + n);
    YKI_TRY(yki_trainer_begin_prefetch(t, from.loaders, &order, first));
    length = t->crew.length;
    t->crew.length = t->predict_loaders.length;
    status = yki_trainer_predict(t, output, n, load_samples, &from, values, count);
    t->crew.length = length; /* of data that the next step may use again */
    yki_trainer_end_prefetch(from.loaders);
    return status;
}
