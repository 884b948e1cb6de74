/* SPDX-License-Identifier: Apache-2.0
 *
 * shares.h - how a batch is split over the devices of a team.
 *
 * Pure arithmetic, no OpenCL: times go in, counts come out. The result is a function of
 * the inputs alone (only +, -, *, /, sqrt, each correctly rounded; no clock, no random
 * numbers), so processes that pass in the same gathered times decide the same.
 *
 * Devices are numbered over the whole team. Counts may be any whole number of samples.
 */
#ifndef YKI_SHARES_H
#define YKI_SHARES_H

#include "base/base.h"

/* ---- shares.c: texts, rounding, the fastest split ---- */

typedef enum yki_shares_kind {
    YKI_SHARES_AUTO = 0, /* follow the measured speed */
    YKI_SHARES_EVEN,
    YKI_SHARES_GIVEN /* follow weights that the user gives */
} yki_shares_kind;

/* Reads the text of shares: "auto", "even", or one weight for each of `devices` devices, such as
 * "80,20" or "0.7, 0.3, 0". NULL means `otherwise`. Writes the weights to `weights` (`devices`
 * entries), all 1 for the words. Returns YOKE_ERROR_INVALID_ARGUMENT for other texts. */
yoke_status yki_shares_parse(const char *text, yki_shares_kind otherwise, size_t devices,
                             yki_shares_kind *kind, double *weights);

/* Returns whether the text of shares is "auto", or NULL, as an option of a trainer may be. */
bool yki_shares_are_auto(const char *text);

/* Splits n in proportion to weights (finite, not negative, not all 0) by the method of largest
 * remainders. The sum of counts[] is exactly n. Of equal remainders the first device gets the
 * sample. Counts may be 0. */
void yki_shares_round(const double *weights, size_t devices, int64_t n, int64_t *counts);

/* Splits n by "even" or by weights; NULL means even. "auto" is an error, because nothing is
 * measured here. yoke_team_split calls it. */
yoke_status yki_shares_split(const char *text, size_t devices, int64_t n, int64_t *counts);

/* A device's time for n samples in one pass: 0 for no samples, else a + b n seconds, at least 0. */
typedef struct yki_line {
    double a, b; /* b > 0; a < 0: larger batches are slower per sample */
} yki_line;

/* Returns the seconds of n samples. */
double yki_line_seconds(const yki_line *line, int64_t n);

/* Finds the split of n whose slowest device is fastest: the exact minimum over all integer splits
 * with counts[k] <= limits[k] (NULL: no limits). Devices with used[k] false get nothing (NULL: all
 * are used). Returns the time of the slowest device. If the limits do not hold n, returns a
 * negative number and writes nothing. */
double yki_shares_fastest(const yki_line *lines, const int64_t *limits, const bool *used,
                          size_t devices, int64_t n, int64_t *counts);

/* ---- balance.c: shares that follow the measured speed ---- */

typedef struct yki_shares yki_shares;

typedef struct yki_shares_options {
    const char *shares;       /* as yki_shares_parse; NULL: auto */
    int64_t batch;            /* samples of a full step; smaller ones are split in proportion */
    const char *const *names; /* one for each device, copied; NULL: "device 0", ... */
    const int64_t *limits;    /* samples that each device's memory holds; NULL: no limits */
    bool fixed;               /* the shares of the first step stay */
    /* Shares change only for a gain above this fraction of a step; 0: 0.02. */
    double hysteresis;
} yki_shares_options;

/* Makes shares. Returns YOKE_ERROR_INVALID_ARGUMENT if the text is wrong, and
 * YOKE_ERROR_OUT_OF_DEVICE_MEMORY if the batch, split by it, does not fit the limits. */
yoke_status yki_shares_create(size_t devices, const yki_shares_options *options,
                              yki_shares **shares);
void yki_shares_destroy(yki_shares *shares);

/* Takes in a measurement made before the first step: the seconds of one pass over n samples. There
 * may be any number of them. Two sizes are best, an even share and a fourth of it: the model is the
 * line through the smallest and the largest size. Ignores seconds <= 0 or not finite. */
void yki_shares_calibrate(yki_shares *shares, size_t device, int64_t n, double seconds);
/* Tests only: gives what is known of a device. Returns false if nothing is known yet. */
bool yki_shares_get_line(const yki_shares *shares, size_t device, yki_line *line);
/* Tests only: replaces what is known of a device. */
void yki_shares_set_line(yki_shares *shares, size_t device, yki_line line);

/* Splits the next step's n samples over the devices. With shares "auto", a step of more than half a
 * batch may change the shares or probe a device. */
yoke_status yki_shares_next(yki_shares *shares, int64_t n, int64_t *counts);
/* Takes in a completed step: the samples of each device, and the seconds that it computed without
 * waiting for others. Seconds that are not above 0 or not finite mean that it was not measured. A
 * step of several passes gives the mean counts and seconds of a pass. Steps come in order; any
 * number of them may be late. */
void yki_shares_observe(yki_shares *shares, const int64_t *counts, const double *seconds);

/* Splits n samples by the present shares, for evaluation and prediction. Changes nothing. */
void yki_shares_divide(const yki_shares *shares, int64_t n, int64_t *counts);
/* Sets other shares from the next step on. On failure the old ones stay. */
yoke_status yki_shares_set(yki_shares *shares, const char *text);
/* Sets the counts of a full batch, as a checkpoint has kept them. Their sum must be the batch. */
yoke_status yki_shares_set_counts(yki_shares *shares, const int64_t *counts);
/* Sets the samples that each device's memory holds, once they are known; INT64_MAX: no limit.
 * Shares that exceed them are made anew. On failure the old limits stay. */
yoke_status yki_shares_set_limits(yki_shares *shares, const int64_t *limits);

/* The largest batch that fits the limits with these shares; INT64_MAX: no limit. */
int64_t yki_shares_largest_batch(const yki_shares *shares, const int64_t *limits);

typedef struct yki_share_info {
    const char *name;
    int64_t count;      /* samples of a full batch */
    int64_t limit;      /* INT64_MAX: none */
    double predicted;   /* seconds of a step for that count, by the model; 0: unknown */
    double measured;    /* median seconds of the newest steps at that count; 0: none */
    double idle;        /* fraction of a step that it waits for the slowest: 0 .. 1 */
    double overhead;    /* seconds before the first sample, by the model */
    double speed;       /* samples a second, alone with a full batch; 0: unknown */
    const char *reason; /* why it is left out, or "" */
} yki_share_info;

/* Fills in what is known of one device. The texts are lent: name lasts as long as the shares,
 * reason until they change. */
void yki_shares_get(const yki_shares *shares, size_t device, yki_share_info *info);
/* Seconds of a step of a full batch, by the model; 0: unknown. */
double yki_shares_step_seconds(const yki_shares *shares);
/* Samples a second if no device ever waited: the sum of their speeds; 0: unknown. */
double yki_shares_ceiling(const yki_shares *shares);

typedef struct yki_shares_state {
    size_t devices;
    int64_t batch;
    yki_shares_kind kind;
    bool fixed;
    uint64_t changes; /* of the counts since the first step */
} yki_shares_state;

void yki_shares_get_state(const yki_shares *shares, yki_shares_state *state);

/* ---- explain.c ---- */

/* Tells the share of each device, the ceiling, and what holds the team back. */
void yki_shares_explain(const yki_shares *shares, const yki_teller *to);

#endif
