/* SPDX-License-Identifier: Apache-2.0
 *
 * model.h - inside a model, for what predicts with it and what saves it.
 */
#ifndef YKI_MODEL_H
#define YKI_MODEL_H

#include "data/weights_file.h"
#include "plan/plan.h"

/* The weights of one device, shared by its predictors. */
typedef struct yki_model_device {
    yki_weights *weights;
    size_t users;
    uint64_t version; /* of the model's values */
} yki_model_device;

struct yoke_model {
    atomic_int references;
    yoke_graph *graph;
    yki_model_info info;
    float **values;     /* by node; NULL where it is no weight */
    size_t value_count; /* a trainer adds nodes to the graph */
    uint64_t version;
    pthread_mutex_t lock;   /* of what follows */
    yoke_graph *predicting; /* the same without loss and metrics; outputs, and the first one behind
                             * the loss's function, if it has one, as the last */
    bool has_function;
    yki_model_device *devices;
    size_t device_count, device_capacity;
};

yoke_model *yki_model_retain(yoke_model *model);
/* Takes `graph` and the contents of `info`, also when it fails. All values are 0. */
yoke_status yki_model_make(yoke_graph *graph, yki_model_info *info, yoke_model **model);
/* What the data of a graph is if nobody says so: as its first input is. */
yoke_status yki_model_default_info(const yoke_graph *graph, yki_model_info *info);
/* The model's weights on a device, brought there if nobody else did; and back. Under the lock. */
yoke_status yki_model_borrow(yoke_model *model, yoke_device *device, yki_weights **weights);
void yki_model_give_back(yoke_model *model, yki_weights *weights);

#endif
