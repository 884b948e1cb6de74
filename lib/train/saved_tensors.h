/* SPDX-License-Identifier: Apache-2.0
 *
 * saved_tensors.h - a list of all tensors that training changes: weights, running statistics,
 * optimizer state.
 */
#ifndef YKI_SAVED_TENSORS_H
#define YKI_SAVED_TENSORS_H

#include "train/trainer.h"

enum { YKI_SAVED_VALUE = -1 };

/* One tensor: a weight's value, one of its optimizer states, or a running statistic. */
typedef struct yki_saved_tensor {
    size_t index;  /* of the weight or of the statistic in yki_weights */
    bool is_state; /* a running statistic */
    int which;     /* YKI_SAVED_VALUE, or the state's number for yki_updater_state */
    /* The node's; optimizer states have #m or #v appended. If there is an average, it has the name
     * of the node, so that a checkpoint is a file of averages, and the value has #w appended. */
    char *name;
    const yoke_node *node;
    bool small;     /* kept as bfloat16 */
    uint64_t count; /* floats */
    uint64_t start; /* floats of the tensors before it in the list */
} yki_saved_tensor;

typedef struct yki_saved_tensors {
    const yoke_trainer *trainer;
    yki_saved_tensor *list;
    size_t count, capacity;
    uint64_t floats;       /* of all tensors */
    const float *gathered; /* those that are sharded, at their places among all; lent; or NULL */
} yki_saved_tensors;

/* Lists the tensors of the trainer. `all` must be zero before. Call yki_saved_tensors_clear
 * afterwards, also after a failure. */
yoke_status yki_saved_tensors_list(const yoke_trainer *trainer, yki_saved_tensors *all);
void yki_saved_tensors_clear(yki_saved_tensors *all);
/* Read what this process has of all tensors, or write it to all groups. No step is under way. */
yoke_status yki_saved_tensors_get(const yki_saved_tensors *all, float *values);
yoke_status yki_saved_tensors_put(const yki_saved_tensors *all, const float *values);
/* Whether there are tensors of which this process has not all. */
bool yki_saved_tensors_are_spread(const yoke_trainer *trainer);
/* Whether each group has a part of the tensor only, as it has of the state of its optimizer where
 * that is sharded; or, with stages of several processes, whether one process alone has it. */
bool yki_saved_tensor_is_sharded(const yoke_trainer *trainer, const yki_saved_tensor *tensor);
/* The place of a tensor in a group, or of the `part` of it, in bytes of floats, that the group has.
 * No buffer: this group has nothing of the tensor. */
yki_state_place yki_saved_tensor_find(const yoke_trainer *trainer, size_t group,
                                      const yki_saved_tensor *tensor, yki_range *part);
/* Gathers all sharded tensors; the others stay unwritten. `values` has room for the floats of all,
 * in their order; NULL: this process only helps others. All processes call it. All steps are
 * complete. */
yoke_status yki_saved_tensors_gather(const yki_saved_tensors *all, float *values);

#endif
