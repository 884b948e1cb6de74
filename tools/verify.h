/* SPDX-License-Identifier: Apache-2.0
 *
 * verify.h - what the files of `yoke verify` share.
 */
#ifndef YKI_TOOL_VERIFY_H
#define YKI_TOOL_VERIFY_H

#include "models.h"
#include "training.h"

/* Trains the model in several splits with the same bits on any split, prints a hash of the weights
 * of each, and says in *same whether they are the same. Splits that the devices do not allow are
 * left out. All processes of `comm` call it; NULL: there is one (verify_bits.c). */
yoke_status yki_tool_verify_bits(const yki_tool_model *model, const yki_tool_training *training,
                                 unsigned steps, yoke_context *context, yoke_comm *comm,
                                 bool *same);

#endif
