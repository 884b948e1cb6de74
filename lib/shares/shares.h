/* SPDX-License-Identifier: Apache-2.0
 *
 * shares.h - how a batch is split over the devices of a team.
 *
 * Pure arithmetic, no OpenCL: times go in, counts come out. Everything is a function
 * of its inputs alone (only +, -, *, /, sqrt, each correctly rounded; no clock, no
 * chance), so processes that feed it the same gathered times decide the same.
 *
 * Devices are numbered over the whole team. Samples come one by one: the granule is 1.
 */
#ifndef YKI_SHARES_H
#define YKI_SHARES_H

#include "base/base.h"

/* ---- shares.c: texts, rounding, the fastest split ---- */

typedef enum yki_shares_kind {
    YKI_SHARES_AUTO = 0, /* by measured speed */
    YKI_SHARES_EVEN,
    YKI_SHARES_GIVEN /* weights */
} yki_shares_kind;

/* Reads "auto", "even" (NULL: `otherwise`) or one weight for each of `devices` devices, such as
 * "80,20" or "0.7, 0.3, 0"; `weights` (`devices` entries) gets them, ones for the words. What
 * cannot be read is YOKE_ERROR_INVALID_ARGUMENT with a sentence. */
yoke_status yki_shares_parse(const char *text, yki_shares_kind otherwise, size_t devices,
                             yki_shares_kind *kind, double *weights);

/* Splits n in proportion to weights (finite, not negative, not all 0) by largest remainder: the
 * sum is exactly n, equal remainders go to the first. Entries may be 0. */
void yki_shares_round(const double *weights, size_t devices, int64_t n, int64_t *counts);

/* yoke_team_split: "even", or weights; NULL: even. "auto" is for those who measure: an error. */
yoke_status yki_shares_split(const char *text, size_t devices, int64_t n, int64_t *counts);

/* A device's time for n samples in one pass: 0 for none, else a + b n seconds (never below 0). */
typedef struct yki_line {
    double a, b; /* b > 0; a < 0 for a device that slows down with size */
} yki_line;

double yki_line_seconds(const yki_line *line, int64_t n);

/* The counts whose slowest device is as fast as can be: exactly the minimum over all integer
 * splits of n with counts[k] <= limits[k]; `used` (NULL: all) leaves devices out. Returns the time
 * of the slowest, or a negative number, with nothing written, where the limits do not hold n. */
double yki_shares_fastest(const yki_line *lines, const int64_t *limits, const bool *used,
                          size_t devices, int64_t n, int64_t *counts);

/* ---- balance.c: shares that follow the measured speed ---- */

typedef struct yki_shares yki_shares;

typedef struct yki_shares_options {
    const char *shares;       /* as yki_shares_parse; NULL: auto */
    int64_t batch;            /* of a full step; other sizes are split in the same proportions */
    const char *const *names; /* one for each device, copied; NULL: numbers */
    const int64_t *limits;    /* samples that each device's memory holds; NULL: no bounds */
    bool freeze;              /* what the first step gets is held */
    /* Gains below this part of a step change nothing; 0: 0.02. */
    double hysteresis;
} yki_shares_options;

/* YOKE_ERROR_INVALID_ARGUMENT for shares that cannot be; YOKE_ERROR_OUT_OF_DEVICE_MEMORY where the
 * batch, split like this, does not fit the limits. */
yoke_status yki_shares_create(size_t devices, const yki_shares_options *options,
                              yki_shares **shares);
void yki_shares_destroy(yki_shares *shares);

/* A measurement before the first step: `seconds` for one pass over n samples. Any number of them,
 * best of two sizes (an even share and a fourth of it, or a few more). */
void yki_shares_calibrate(yki_shares *shares, size_t device, int64_t n, double seconds);
/* What is known of a device, for wisdom; false: nothing yet. And told to another run. */
bool yki_shares_get_line(const yki_shares *shares, size_t device, yki_line *line);
void yki_shares_set_line(yki_shares *shares, size_t device, yki_line line);

/* The split of the next step's n samples over the devices. Only a full batch may change shares. */
yoke_status yki_shares_next(yki_shares *shares, int64_t n, int64_t *counts);
/* A completed step: what each device was given and the seconds it computed, without waiting for
 * others; below or equal 0 or not finite: not measured. A step in k passes gives the counts and
 * seconds of one of them (means). Steps come in order, any number of them late. */
void yki_shares_observe(yki_shares *shares, const int64_t *counts, const double *seconds);

/* The split in force for n samples, which changes nothing: evaluation, prediction. */
void yki_shares_divide(const yki_shares *shares, int64_t n, int64_t *counts);
/* Other shares from the next step on; on failure the old ones stay. */
yoke_status yki_shares_set(yki_shares *shares, const char *text);
/* Counts of a full batch, as a checkpoint kept them (sum: the batch). */
yoke_status yki_shares_set_counts(yki_shares *shares, const int64_t *counts);
void yki_shares_freeze(yki_shares *shares, bool freeze);
/* Bounds from memory, once known; INT64_MAX: none. */
yoke_status yki_shares_set_limits(yki_shares *shares, const int64_t *limits);

/* The largest batch that such limits hold, with these shares; INT64_MAX: no bound. */
int64_t yki_shares_largest_batch(const yki_shares *shares, const int64_t *limits);

typedef struct yki_share_info {
    const char *name;
    int64_t count;      /* samples of a full batch */
    int64_t limit;      /* INT64_MAX: none */
    double predicted;   /* seconds of a step for that count; 0: nothing is known */
    double measured;    /* median of the newest steps at that count; 0: none */
    double idle;        /* part of a step that it waits for the slowest: 0 .. 1 */
    double overhead;    /* seconds before the first sample, by the model */
    double speed;       /* samples a second, alone with a full batch; 0: nothing is known */
    const char *reason; /* why it is left out, or "" */
} yki_share_info;

void yki_shares_get(const yki_shares *shares, size_t device, yki_share_info *info);
/* Seconds of a step by the model, and samples a second that all devices make if none ever waited
 * (sum of speeds); 0: nothing is known. */
double yki_shares_step_seconds(const yki_shares *shares);
double yki_shares_ceiling(const yki_shares *shares);

typedef struct yki_shares_state {
    size_t devices;
    int64_t batch;
    yki_shares_kind kind;
    bool freeze;
    uint64_t changes; /* of the counts since the first step */
} yki_shares_state;

void yki_shares_get_state(const yki_shares *shares, yki_shares_state *state);

/* ---- explain.c ---- */

/* A line on each device, the ceiling, and what holds the team back. */
void yki_shares_explain(const yki_shares *shares, void (*line)(void *user, const char *text),
                        void *user);

#endif
