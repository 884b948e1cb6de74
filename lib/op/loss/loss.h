/* SPDX-License-Identifier: Apache-2.0
 *
 * loss.h - how the work of a loss is divided. The loss alone and with its sums is
 * divided in the same way, so both have the same bits.
 */
#ifndef YKI_LOSS_H
#define YKI_LOSS_H

#include "op/ops.h"

typedef struct yki_loss_form {
    uint32_t items; /* of a group */
    int spread;     /* SPREAD of loss.cl */
    yki_expr groups;
} yki_loss_form;

/* `kind` is a yki_loss_kind. (loss_solver.c) */
yki_loss_form yki_loss_form_for(const yki_problem *problem, const yki_device_traits *traits,
                                int32_t kind);

/* ---- rows (loss_rows.c) ---- */

/* How rows of `width` are divided: vectors, work-items of a group, the most groups. */
typedef struct yki_rows_form {
    uint32_t vector, items;
    int64_t groups;
} yki_rows_form;
yki_rows_form yki_rows_form_for(const yki_device_traits *traits, int64_t width);
/* Adds a launch of a kernel of loss_rows.cl, whose groups take rows. */
yki_launch *yki_rows_launch(yki_recipe *recipe, const yki_device_traits *traits, const char *kernel,
                            yoke_type label, int64_t width, yki_expr rows);

/* Adds yki_ce_rows. `grad` is not used without with_grad. */
typedef struct yki_rows_ce_slots {
    uint32_t x, target, grad, pairs;
} yki_rows_ce_slots;
typedef struct yki_rows_ce_args {
    yoke_type label;
    yki_expr rows;
    int64_t first, width;
    int32_t has_ignore, ignore;
    float smoothing;
    bool with_grad;
    bool scaled; /* by the loss scale of the step */
} yki_rows_ce_args;
void yki_rows_ce(yki_recipe *recipe, const yki_problem *problem, const yki_device_traits *traits,
                 const yki_rows_ce_slots *slots, const yki_rows_ce_args *args);
/* Adds a launch that adds the pairs of each sample's rows. */
void yki_rows_sum(yki_recipe *recipe, const yki_problem *problem, uint32_t pairs, uint32_t out,
                  int64_t length, const yki_device_traits *traits);

#endif
