/* SPDX-License-Identifier: Apache-2.0
 *
 * custom.h - what the operator and the solver of users' operators share.
 */
#ifndef YKI_CUSTOM_H
#define YKI_CUSTOM_H

#include "op/ops.h"

/* The gradient's node takes y and dy after the inputs. */
enum { YKI_CUSTOM_INPUTS = YKI_MAX_INPUTS - 2 };

/* The node owns it, as its data. Problems and launches point into it. */
typedef struct yki_custom_text {
    char name[64]; /* the operator's name, for errors */
    char kernel[96];
    yoke_range ranges[YKI_CUSTOM_INPUTS];
    char source[];
} yki_custom_text;

#endif
