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
    uint64_t count; /* floats */
} yki_saved_tensor;

typedef struct yki_saved_tensors {
    const yoke_trainer *trainer;
    yki_saved_tensor *list;
    size_t count, capacity;
    uint64_t floats; /* of all tensors */
} yki_saved_tensors;

/* Lists the tensors of the trainer. `all` must be zero before. Call yki_saved_tensors_clear
 * afterwards, also after a failure. */
yoke_status yki_saved_tensors_list(const yoke_trainer *trainer, yki_saved_tensors *all);
void yki_saved_tensors_clear(yki_saved_tensors *all);
/* The buffer that holds a tensor in a group, and the tensor's offset in it in bytes. NULL: this
 * group does not have the tensor. */
yki_buffer *yki_saved_tensor_find(const yoke_trainer *trainer, size_t group,
                                  const yki_saved_tensor *tensor, uint64_t *offset);

#endif
