/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - the insides of a model, for the files that predict with it and save it.
 */
#ifndef YKI_MODEL_H
#define YKI_MODEL_H

#include "data/weights_file.h"
#include "plan/plan.h"

/* The model's weights on one device, which all predictors there share. */
typedef struct yki_model_device {
    yki_weights *weights;
    size_t users;
    uint64_t version; /* of the model's values when they were copied */
} yki_model_device;

struct yoke_model {
    atomic_int references;
    yoke_graph *graph;
    yki_model_info info;
    float **values;       /* by node; NULL: no weight */
    size_t value_count;   /* nodes at first; a trainer adds nodes to the graph */
    uint64_t version;     /* grows when values change */
    pthread_mutex_t lock; /* protects what follows */
    /* The graph without loss and metrics. If the loss applies a softmax or sigmoid to the first
     * output, that function's result is one more output, the last. */
    yoke_graph *predicting;
    bool has_function;
    yki_model_device *devices;
    size_t device_count, device_capacity;
};

/* Takes a reference, which yoke_model_destroy gives back. */
yoke_model *yki_model_retain(yoke_model *model);
/* Fills in `info` for data that has the name, type and shape of the graph's first input. */
yoke_status yki_model_default_info(const yoke_graph *graph, yki_model_info *info);
/* Makes a graph without loss and metrics, whose first output is what a predictor gives by default.
 */
yoke_status yki_model_make_predicting(const yoke_model *model, yoke_graph **graph);
/* Lends the model's present values as weights on a device, copied there unless they are there
 * already. Each call needs a yki_model_give_back. The caller holds the lock. */
yoke_status yki_model_borrow(yoke_model *model, yoke_device *device, yki_weights **weights);
/* Gives borrowed weights back; the last user's call frees them. The caller holds the lock. */
void yki_model_give_back(yoke_model *model, yki_weights *weights);

#endif
