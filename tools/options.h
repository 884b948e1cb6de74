/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - options that several commands have: their rows of --help, and the
 * parsers of their arguments.
 *
 * All commands use the same row, so that an option has one meaning.
 */
#ifndef YOKE_TOOLS_OPTIONS_H
#define YOKE_TOOLS_OPTIONS_H

#include "tool.h"

#define TOOL_ROW_DATA                                                                              \
    {                                                                                              \
        "data", 0, "DIR", "folder or file of samples; see yoke-data(7)"                            \
    }
#define TOOL_ROW_CHANNELS_LAST                                                                     \
    {                                                                                              \
        "channels-last", 0, NULL, ".npy images are (height, width, channels)"                      \
    }
#define TOOL_ROW_BATCH(default_is)                                                                 \
    {                                                                                              \
        "batch", 'b', "N", "samples per step (default: " default_is ")"                            \
    }
#define TOOL_ROW_DEVICES                                                                           \
    {                                                                                              \
        "devices", 'd', "SELECTOR", "the devices (default: all)"                                   \
    }
#define TOOL_ROW_SHARES                                                                            \
    {                                                                                              \
        "shares", 0, "SHARES", "auto (default), even, or weights such as 80,20"                    \
    }
#define TOOL_ROW_SEED                                                                              \
    {                                                                                              \
        "seed", 0, "N", "of initial values and orders (default: 0)"                                \
    }
#define TOOL_ROW_JSON                                                                              \
    {                                                                                              \
        "json", 'j', NULL, "for programs; a line is an object"                                     \
    }
#define TOOL_ROW_LOG_DIR                                                                           \
    {                                                                                              \
        "log-dir", 0, "DIR", "under mpirun: a file for what each process has to say"               \
    }

enum { TOOL_MAX_BATCH = 1 << 20, TOOL_MAX_EPOCHS = 1 << 24 };

/* A schedule before the number of steps in an epoch is known; `warmup` and `period` in epochs. */
typedef struct yki_tool_schedule {
    yoke_schedule_kind kind;
    double warmup, period;
    double factor, initial, final_factor;
} yki_tool_schedule;

/* Reads a text such as "cosine,warmup=1,final=0.01". On failure it returns false and writes the
 * reason to `why`; so do the next two parsers. */
bool yki_tool_parse_schedule(const char *text, yki_tool_schedule *schedule, char why[160]);
/* Converts the times to steps. */
yoke_schedule yki_tool_make_schedule(const yki_tool_schedule *schedule, int64_t steps_per_epoch,
                                     int64_t epochs);
/* "sgd,momentum=0.9,nesterov,decay=1e-4"; the learning rate is `rate` or, if that is 0, the default
 * of the optimizer. */
bool yki_tool_parse_optimizer(const char *text, double rate, yoke_optimizer *optimizer,
                              char why[160]);
/* "flip,shift=2,noise=0.1,crop", or "none" */
bool yki_tool_parse_augmentation(const char *text, yoke_augmentation *augmentation, char why[160]);
/* Reads a finite decimal number that is at least `least`; false: `text` is none. */
bool yki_tool_parse_real(const char *text, double least, double *value);
/* Reads a whole number from 0 to 2^32 - 1; false: `text` is none. */
bool yki_tool_parse_seed(const char *text, uint32_t *seed);

/* Returns the seconds of a clock that only goes forward. */
double yki_tool_now(void);

#endif
