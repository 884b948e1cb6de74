/* SPDX-License-Identifier: Apache-2.0
 *
 * options.h - reads the values of options, by their rows, and texts such as
 * "cosine,warmup=1"; and has the rows that several commands have beside those of
 * training.h.
 */
#ifndef YOKE_TOOLS_OPTIONS_H
#define YOKE_TOOLS_OPTIONS_H

#include "tool.h"

/* `type` is the struct that the command reads into. */
#define TOOL_ROW_JSON(type)                                                                        \
    {                                                                                              \
        "json", 'j', NULL, "write JSON, for programs", TOOL_FLAG(type, json)                       \
    }

/* The largest batch of a command line. */
enum { TOOL_MAX_BATCH = 1 << 20 };

enum { TOOL_SENTENCE = 512 };
/* Reads the argument of an option (NULL if it takes none) into the struct `to`, by the option's
 * row. On failure it returns false and writes a sentence that says what is wrong and what is
 * allowed. */
bool yki_tool_read_value(const yki_tool_option *row, const char *text, void *to,
                         char why[TOOL_SENTENCE]);

/* A schedule before the number of steps in an epoch is known; `warmup` and `period` in epochs. */
typedef struct yki_tool_schedule {
    yoke_schedule_kind kind;
    double warmup, period;
    double factor, initial, final_factor;
} yki_tool_schedule;

/* Reads a text such as "cosine,warmup=1,final=0.01". On failure it returns false and writes the
 * reason to `why`; so do the next two parsers. */
bool yki_tool_parse_schedule(const char *text, yki_tool_schedule *schedule, char why[TOOL_WHY]);
/* Converts the times to steps. */
yoke_schedule yki_tool_make_schedule(const yki_tool_schedule *schedule, int64_t steps_per_epoch,
                                     int64_t epochs);
/* "sgd,momentum=0.9,nesterov,decay=1e-4"; the learning rate is `rate` or, if that is 0, the default
 * of the optimizer. */
bool yki_tool_parse_optimizer(const char *text, double rate, yoke_optimizer *optimizer,
                              char why[TOOL_WHY]);
/* "flip,shift=2,noise=0.1,crop", or "none" */
bool yki_tool_parse_augmentation(const char *text, yoke_augmentation *augmentation,
                                 char why[TOOL_WHY]);

/* "224" or "96x128": height and width */
bool yki_tool_parse_image_size(const char *text, int *height, int *width, char why[TOOL_WHY]);

/* "auto", which gives 0, or a power of 2. */
bool yki_tool_parse_loss_scale(const char *text, float *scale, char why[TOOL_WHY]);
/* "no", "fit", "auto", or a number of stages. */
bool yki_tool_parse_stages(const char *text, uint32_t *stages, char why[TOOL_WHY]);

/* "none", "cheap", or bytes as in "512M", "1.5GiB", "200MB", where M is MiB. */
bool yki_tool_parse_recompute(const char *text, yoke_recompute_choice *choice, uint64_t *bytes,
                              char why[TOOL_WHY]);
/* The same, or "auto", which replicas do not take. */
bool yki_tool_parse_recompute_or_auto(const char *text, yoke_recompute_choice *choice,
                                      uint64_t *bytes, char why[TOOL_WHY]);

/* Adapters; empty targets are the library's. */
typedef struct yki_tool_lora {
    unsigned rank;
    float alpha, dropout;
    char targets[256];
} yki_tool_lora;
/* "rank=8,alpha=16,dropout=0.1,targets=c_attn,c_proj", where what is not given has its default; or
 * "default" */
bool yki_tool_parse_lora(const char *text, yki_tool_lora *lora, char why[TOOL_WHY]);

/* Returns the seconds of a clock that only goes forward. */
double yki_tool_now(void);

#endif
