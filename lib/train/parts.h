/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - a list of all tensors that training changes: weights, running statistics, optimizer
 * state.
 */
#ifndef YKI_PARTS_H
#define YKI_PARTS_H

#include "train/trainer.h"

enum { YKI_PART_VALUE = -1 };

/* One tensor: a weight's value, one of its optimizer states, or a running statistic. */
typedef struct yki_part {
    size_t index;  /* of the weight or of the statistic in yki_weights */
    bool is_state; /* a running statistic */
    int which;     /* YKI_PART_VALUE, or the state's number for yki_updater_state */
    char *name;    /* the node's; optimizer states have #m or #v appended */
    const yoke_node *node;
    uint64_t count; /* floats */
} yki_part;

typedef struct yki_parts {
    const yoke_trainer *trainer;
    yki_part *list;
    size_t count, capacity;
    uint64_t floats; /* of all tensors */
} yki_parts;

/* Lists the tensors of the trainer. `all` must be zero before. Call yki_parts_clear afterwards,
 * also after a failure. */
yoke_status yki_parts_list(const yoke_trainer *trainer, yki_parts *all);
void yki_parts_clear(yki_parts *all);
/* The buffer that holds a tensor in a group, and the tensor's offset in it in bytes. NULL: this
 * group does not have the tensor. */
yki_buffer *yki_part_find(const yoke_trainer *trainer, size_t group, const yki_part *part,
                          uint64_t *offset);

#endif
