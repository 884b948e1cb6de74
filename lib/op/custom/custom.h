/* SPDX-License-Identifier: Apache-2.0
 *
 * custom.h - what the graph half and the solver of users' operators share.
 */
#ifndef YKI_CUSTOM_H
#define YKI_CUSTOM_H

#include "op/ops.h"

/* y and dy come after the inputs in the gradient's node. */
enum { YKI_CUSTOM_INPUTS = YKI_MAX_INPUTS - 2 };

/* Owned by the node, as its data; problems and launches point into it. */
typedef struct yki_custom_text {
    char name[64]; /* the operator's, for errors */
    char kernel[96];
    yoke_range ranges[YKI_CUSTOM_INPUTS];
    char source[];
} yki_custom_text;

#endif
