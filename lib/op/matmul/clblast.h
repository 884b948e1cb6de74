/* SPDX-License-Identifier: Apache-2.0
 *
 * clblast.h - the parameters of CLBlast's SGEMM, for who searches them.
 *
 * A set is a number (a solver's `tuning`): the planner and wisdom keep it like any
 * other tuning. There is no list of sets for known devices: seeds are common
 * starting points, from which `yoke tune` goes on by changing one value at a time.
 */
#ifndef YKI_CLBLAST_H
#define YKI_CLBLAST_H

#include "op/recipe.h"

/* The parameters that are searched. GEMMK and KREG stay 0 and 1: CLBlast's first kernel. */
typedef enum yki_clblast_parameter {
    YKI_CLBLAST_MWG,   /* tile of a work-group: rows, */
    YKI_CLBLAST_NWG,   /* columns, */
    YKI_CLBLAST_KWG,   /* terms at a time */
    YKI_CLBLAST_MDIMC, /* work-items over rows and columns of the tile */
    YKI_CLBLAST_NDIMC,
    YKI_CLBLAST_MDIMA, /* ... while loading A and B */
    YKI_CLBLAST_NDIMB,
    YKI_CLBLAST_KWI, /* unrolling of the inner loop */
    YKI_CLBLAST_VWM, /* vector widths */
    YKI_CLBLAST_VWN,
    YKI_CLBLAST_STRM, /* strided or contiguous items */
    YKI_CLBLAST_STRN,
    YKI_CLBLAST_SA, /* A, B through local memory */
    YKI_CLBLAST_SB,
    YKI_CLBLAST_PARAMETERS
} yki_clblast_parameter;

/* Which of its possible values each parameter has. */
typedef struct yki_clblast_set {
    uint8_t choice[YKI_CLBLAST_PARAMETERS];
} yki_clblast_set;

unsigned yki_clblast_encode(const yki_clblast_set *set);
/* False: no such set. */
bool yki_clblast_decode(unsigned tuning, yki_clblast_set *set);
/* How many values a parameter can have, for changing one at a time. */
unsigned yki_clblast_choices(yki_clblast_parameter parameter);
/* Whether the kernel can be built with it, by CLBlast's own rules, and fits the device. */
bool yki_clblast_valid(const yki_clblast_set *set, const yki_device_traits *traits);
/* "MWG=64 NWG=64 ..." */
void yki_clblast_text(const yki_clblast_set *set, char *text, size_t size);

/* Seeds, as numbers; those that are not valid on a device are skipped by the caller. */
size_t yki_clblast_seeds(const unsigned **tunings);

/* Builds the kernels of a set, checks a product of the problem's size against one in double at
 * a sample of places (a wrong set is YOKE_ERROR_VALUE), and measures it: seconds of one run at
 * the largest batch, the least of a few. Waits; takes seconds where kernels are built. */
yoke_status yki_clblast_measure(yki_queue *queue, const yki_problem *problem, unsigned tuning,
                                double *seconds);
/* Makes the set the device's one; a set that is none is an error. */
yoke_status yki_clblast_use(yki_queue *queue, unsigned tuning);
/* The set that is in force for the device in this process; false: CLBlast's own. */
bool yki_clblast_in_force(yki_queue *queue, unsigned *tuning);
/* Rows, columns and terms of the product at the largest batch; false: CLBlast cannot do it. */
bool yki_clblast_sizes(const yki_problem *problem, int64_t sizes[3]);

/* As a set: CLBlast's own parameters for the device, as long as no other was in force. */
#define YKI_CLBLAST_DEFAULTS 0xffffffffu

#endif
