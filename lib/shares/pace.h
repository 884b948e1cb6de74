/* SPDX-License-Identifier: Apache-2.0
 *
 * pace.h - a model of how fast one device is, learnt from the times of its steps.
 *
 * Pure arithmetic, like shares.h: no clock, no random numbers.
 */
#ifndef YKI_PACE_H
#define YKI_PACE_H

#include "shares/shares.h"

enum {
    YKI_PACE_POINTS = 16, /* calibrations kept */
    YKI_PACE_WINDOW = 72, /* steps kept */
    YKI_PACE_PROBES = 3,  /* steps of a probe */
    YKI_PACE_SETTLED = 3  /* steps to be seen at a count before it may change */
};

/* Seconds that another program or an interrupt may take from a device by chance. */
#define YKI_PACE_MOMENT 0.01

typedef struct yki_point {
    int64_t n;
    double seconds;
} yki_point;

typedef struct yki_pace {
    yki_point calibration[YKI_PACE_POINTS];
    size_t calibrations;
    bool known;                           /* o and b are set */
    double o, b;                          /* seconds = b (o + n) */
    double prior;                         /* b by calibration or wisdom; 0: none */
    yki_point window[YKI_PACE_WINDOW];    /* the newest steps, a ring */
    uint64_t seen;                        /* steps seen so far, also those before the window */
    uint64_t since;                       /* newest steps that have the present speed */
    uint64_t settled;                     /* steps seen at the present count */
    yki_point probe[2 * YKI_PACE_PROBES]; /* the steps of a probe, and as many after it */
    size_t probes;                        /* entries of probe[] that are filled in */
    yki_point anchor; /* the count before and its time by the model when it was left; n 0: none */
} yki_pace;

/* Takes in a measurement before the first step. A pace of zeros knows nothing. */
void yki_pace_calibrate(yki_pace *pace, int64_t n, double seconds);
/* Sets the model to what was known before, such as wisdom. */
void yki_pace_set(yki_pace *pace, double o, double b);
/* Takes in the time of a step. `present`: the step had the present shares. */
void yki_pace_observe(yki_pace *pace, int64_t n, double seconds, bool present);
/* Takes in a step of a probe: n samples, more than the device's present count. */
void yki_pace_probe(yki_pace *pace, int64_t n, double seconds);
/* Forgets the speed of the steps so far, so that b follows new steps alone. Keeps o. */
void yki_pace_forget(yki_pace *pace);
/* Notes that the count is about to change from n. */
void yki_pace_leave(yki_pace *pace, int64_t n);

/* Returns the model as a line. */
yki_line yki_pace_line(const yki_pace *pace);
/* The relative standard error of b, by the scatter of the steps; 0: no steps, or all are equal. */
double yki_pace_doubt(const yki_pace *pace);
/* Seconds of n samples by the fastest of the newest `most` steps and the model. */
double yki_pace_least(const yki_pace *pace, uint64_t most, int64_t n);
/* The median seconds of the newest steps that had n samples; 0: none had. */
double yki_pace_measured(const yki_pace *pace, int64_t n);

#endif
