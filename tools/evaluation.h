/* SPDX-License-Identifier: Apache-2.0
 *
 * evaluation.h - a trained model is tested on samples: loss, the graph's metrics and, of classes
 * and values, those of metrics.h. The file has the graph, the weights and the scaling of the data,
 * so nothing else is needed.
 */
#ifndef YOKE_TOOLS_EVALUATION_H
#define YOKE_TOOLS_EVALUATION_H

#include "metrics.h"
#include "source.h"
#include "training.h"

/* What a model says of a sample. */
typedef struct yki_tool_subject {
    char *output; /* of the graph, by name; NULL: neither one class nor values */
    size_t count; /* of classes or values */
    bool classes; /* the output has a number for each class */
    bool logits;  /* these are logits, not probabilities */
    bool ignores; /* labels that are `ignored` do not count */
    int64_t ignored;
} yki_tool_subject;

typedef struct yki_tool_evaluation {
    /* If it is not NULL, it is called for each sample that counts, if the model says one class. */
    void (*on_class)(void *user, int64_t sample, const float *result, size_t label);
    void *user;

    yki_tool_subject subject;
    yki_tool_classes classes;
    yki_tool_values values;
    yki_tool_source source; /* the samples are `train` */
    yoke_model *model;
    yoke_context *context;
    yoke_team *team;
    yoke_trainer *trainer;
    yoke_result result;
    double seconds;
} yki_tool_evaluation;

/* The four parts of an evaluation, in their order; the caller closes it also after an error. The
 * model is loaded; samples are opened, and it is found what the model says of them; a trainer is
 * made with these weights (`comm` NULL: one process), which needs no samples; and the model is
 * tested, where `top` is the k of top-k, and every process gets all results. */
yoke_status yki_tool_evaluation_load(const char *file, const yki_tool_training *training,
                                     yki_tool_evaluation *evaluation);
yoke_status yki_tool_evaluation_open(const yki_tool_training *training,
                                     yki_tool_evaluation *evaluation);
yoke_status yki_tool_evaluation_start(const char *file, const yki_tool_training *training,
                                      yoke_comm *comm, yki_tool_evaluation *evaluation);
yoke_status yki_tool_evaluation_run(const yki_tool_training *training, unsigned top,
                                    yki_tool_evaluation *evaluation);
/* Writes the results for people, with each class or value if `all`. False: out of memory. */
bool yki_tool_evaluation_print(const yki_tool_evaluation *evaluation, bool all, FILE *stream);
/* Tokens of a text a second; 0: not known. */
double yki_tool_evaluation_tokens(const yki_tool_evaluation *evaluation);
void yki_tool_evaluation_close(yki_tool_evaluation *evaluation);

#endif
