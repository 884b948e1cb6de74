/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h - how fast one device is, by the times of its steps.
 *
 * Pure arithmetic, as shares.h has it: no clock, no chance.
 */
#ifndef YKI_PACE_H
#define YKI_PACE_H

#include "shares/shares.h"

enum {
    YKI_PACE_POINTS = 16, /* calibrations kept */
    YKI_PACE_WINDOW = 72, /* steps kept */
    YKI_PACE_PROBES = 3,  /* steps of a probe */
    YKI_PACE_SETTLED = 3  /* steps that have to be seen at a count before it may change */
};

/* Seconds: another program or an interrupt may take as much of a device by chance. */
#define YKI_PACE_MOMENT 0.01

typedef struct yki_point {
    int64_t n;
    double seconds;
} yki_point;

typedef struct yki_pace {
    yki_point calibration[YKI_PACE_POINTS];
    size_t calibrations;
    bool known;                           /* o and b mean something */
    double o, b;                          /* seconds = b (o + n) */
    double prior;                         /* b as it was told; 0: nothing was */
    yki_point window[YKI_PACE_WINDOW];    /* the newest steps, a ring */
    uint64_t seen;                        /* steps in the window, and before */
    uint64_t since;                       /* of them, with the present speed */
    uint64_t settled;                     /* steps seen at the present count */
    yki_point probe[2 * YKI_PACE_PROBES]; /* the steps of a probe, and as many after it */
    size_t probes;                        /* of them, seen so far */
    yki_point anchor; /* another count and its time by the model when it was left; n 0: none */
} yki_pace;

/* Zeros are a pace of which nothing is known. */
void yki_pace_calibrate(yki_pace *pace, int64_t n, double seconds);
void yki_pace_set(yki_pace *pace, double o, double b);
/* `present`: the step was split as steps are split now. */
void yki_pace_observe(yki_pace *pace, int64_t n, double seconds, bool present);
/* A step of a probe: n samples, more than the device has otherwise. */
void yki_pace_probe(yki_pace *pace, int64_t n, double seconds);
/* The device is looked at anew: its steps are forgotten, what it needs before a sample is not. */
void yki_pace_forget(yki_pace *pace);
/* The count changes from n. */
void yki_pace_leave(yki_pace *pace, int64_t n);

yki_line yki_pace_line(const yki_pace *pace);
/* The relative standard error of b by the scatter of its steps; 0: no steps, or all alike. */
double yki_pace_doubt(const yki_pace *pace);
/* Seconds for n samples by the fastest of the newest steps, at most `most`. */
double yki_pace_least(const yki_pace *pace, uint64_t most, int64_t n);
/* Median of the newest steps at count n; 0: none. */
double yki_pace_measured(const yki_pace *pace, int64_t n);

#endif
