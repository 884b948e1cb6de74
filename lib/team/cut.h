/* SPDX-License-Identifier: Apache-2.0
 *
 * cut.h - where a chain of work is cut into stages, one for each of some devices. It knows no graph
 * and no device.
 */
#ifndef YKI_CUT_H
#define YKI_CUT_H

#include "base/base.h"

/* A piece of work that is not cut. */
typedef struct yki_cut_unit {
    uint64_t fixed;      /* bytes that its device keeps: weights, with what training adds to them */
    uint64_t kept;       /* bytes for each micro-batch under way */
    uint64_t working;    /* bytes while it computes, of one unit at a time */
    uint64_t evaluation; /* bytes that an evaluation needs besides, of one unit at a time */
    uint64_t prepared;   /* and of all of them */
    uint64_t crosses;    /* bytes that cross if the chain is cut before it, forward and backward */
    bool cuts;           /* it may be cut there */
} yki_cut_unit;

typedef struct yki_cut_device {
    const double *seconds; /* by unit: of one micro-batch */
    uint64_t memory;       /* bytes */
} yki_cut_device;

typedef struct yki_cut_problem {
    const yki_cut_unit *units;
    size_t unit_count;
    const yki_cut_device *devices; /* in the order in which they may get stages */
    size_t device_count;
    size_t stages; /* 0: as many as make a step shortest */
    uint32_t micro_batches;
    bool evaluates;          /* memory for evaluations is kept free */
    double seconds_per_byte; /* of what crosses, for each side */
} yki_cut_problem;

/* Gives each unit its device, so that a step is as short as can be and all devices have room: every
 * micro-batch but one takes as long as the slowest stage, and that one as long as all of them. Of
 * equally short ones fewer stages count. *seconds: of a step; *stages: how many there are; 0:
 * nothing fits, and `device_of` is not written. */
yoke_status yki_cut(const yki_cut_problem *problem, uint32_t *device_of, size_t *stages,
                    double *seconds);
/* The bytes of units [first, end) as one stage that `behind` others follow; of a pipeline of at
 * most `most` stages. */
uint64_t yki_cut_bytes(const yki_cut_problem *problem, size_t first, size_t end, size_t behind,
                       size_t most);
/* What such a stage may take for each of its micro-batches, if a device has all of its memory for
 * it; 0: nothing is left for them. */
uint64_t yki_cut_budget(const yki_cut_problem *problem, size_t device, size_t first, size_t end,
                        size_t behind, size_t most);

#endif
