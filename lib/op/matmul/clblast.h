/* SPDX-License-Identifier: Apache-2.0
 *
 * clblast.h - the parameters of CLBlast's SGEMM, for the code that searches them.
 *
 * A set of parameters is a number (a solver's `tuning`), so the planner and wisdom
 * keep it like any other tuning. There is no list of sets for known devices: seeds are
 * common starting points, and `yoke tune` goes on from them by changing one value at a
 * time.
 */
#ifndef YKI_CLBLAST_H
#define YKI_CLBLAST_H

#include "op/recipe.h"

/* The parameters that are searched. GEMMK and KREG stay 0 and 1, which select CLBlast's first
 * kernel. */
typedef enum yki_clblast_parameter {
    YKI_CLBLAST_MWG,   /* rows of a work-group's tile */
    YKI_CLBLAST_NWG,   /* columns of the tile */
    YKI_CLBLAST_KWG,   /* terms at a time */
    YKI_CLBLAST_MDIMC, /* work-items over rows and columns of the tile */
    YKI_CLBLAST_NDIMC,
    YKI_CLBLAST_MDIMA, /* the same, while loading A and B */
    YKI_CLBLAST_NDIMB,
    YKI_CLBLAST_KWI, /* unrolling of the inner loop */
    YKI_CLBLAST_VWM, /* vector widths */
    YKI_CLBLAST_VWN,
    YKI_CLBLAST_STRM, /* strided or contiguous items */
    YKI_CLBLAST_STRN,
    YKI_CLBLAST_SA, /* whether A and B pass through local memory */
    YKI_CLBLAST_SB,
    YKI_CLBLAST_PARAMETERS
} yki_clblast_parameter;

/* For each parameter, the index of its value. */
typedef struct yki_clblast_set {
    uint8_t choice[YKI_CLBLAST_PARAMETERS];
} yki_clblast_set;

unsigned yki_clblast_encode(const yki_clblast_set *set);
/* Turns a number into a set. Returns false if no set has that number. */
bool yki_clblast_decode(unsigned tuning, yki_clblast_set *set);
/* Returns how many values a parameter can have, so that a search can change one at a time. */
unsigned yki_clblast_choices(yki_clblast_parameter parameter);
/* Returns whether CLBlast's own rules allow the set, and it fits the device. */
bool yki_clblast_valid(const yki_clblast_set *set, const yki_device_traits *traits);
/* Writes "MWG=64 NWG=64 ...". */
void yki_clblast_text(const yki_clblast_set *set, char *text, size_t size);

/* Gives the seeds, as numbers, and returns how many there are. The caller skips those that are
 * not valid on its device. */
size_t yki_clblast_seeds(const unsigned **tunings);

/* Builds the kernels of a set, compares a sample of a product of the problem's size with one in
 * double (a wrong result is YOKE_ERROR_VALUE), and measures it: `seconds` is the least time of a
 * few runs at the largest batch. Waits; takes seconds where kernels must be built. */
yoke_status yki_clblast_measure(yki_queue *queue, const yki_problem *problem, unsigned tuning,
                                double *seconds);
/* Makes CLBlast use this set on the queue's device. A number without a set is an error. */
yoke_status yki_clblast_use(yki_queue *queue, unsigned tuning);
/* Gives the set that this process uses on the device. Returns false where CLBlast uses its own
 * parameters. */
bool yki_clblast_in_force(yki_queue *queue, unsigned *tuning);
/* Gives rows, columns and terms of the product at the largest batch. Returns false if CLBlast
 * cannot compute it. */
bool yki_clblast_sizes(const yki_problem *problem, int64_t sizes[3]);

/* The number that stands for CLBlast's own parameters for the device. It is valid only while no
 * other set was used. */
#define YKI_CLBLAST_DEFAULTS 0xffffffffu

#endif
