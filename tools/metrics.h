/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.h - how good a model's answers are: of classes precision, recall, F1, what is taken for
 * what, top-k and calibration; of values R2 and the mean errors.
 *
 * Samples are added one by one, and only counts and sums are kept. What is not defined, such as
 * the recall of a class that never occurs, is NaN.
 */
#ifndef YOKE_TOOLS_METRICS_H
#define YOKE_TOOLS_METRICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <yoke.h>

#include "json.h"

/* ---- classes ---- */

enum {
    TOOL_BINS = 15,           /* of confidence, all as wide; each has its upper end */
    TOOL_MOST_CONFUSED = 2048 /* classes, at most, for a matrix of all pairs: 32 MiB */
};

typedef struct yki_tool_bin {
    uint64_t samples, right;
    double confidence; /* its sum */
} yki_tool_bin;

typedef struct yki_tool_classes {
    size_t count, top;
    uint64_t samples, right, among_top;
    uint64_t undecided; /* samples whose values are all NaN: no class is the answer */
    uint64_t *labels, *answers, *hits; /* of each class; hits are answers that are right */
    uint64_t *confusion;               /* (label, answer); NULL: there are too many classes */
    yki_tool_bin bins[TOOL_BINS];
} yki_tool_classes;

typedef struct yki_tool_score {
    double precision, recall, f1; /* from 0 to 1 */
} yki_tool_score;

/* Begins with no samples; `top` is the k of top-k. False: out of memory. */
bool yki_tool_classes_start(yki_tool_classes *c, size_t count, size_t top);
void yki_tool_classes_end(yki_tool_classes *c);
/* Adds a sample: a value for each class, which are logits or probabilities, and the label, which is
 * below `count`. The answer is the class of the largest value, of equal ones the first; a NaN is
 * never the largest. A sample with a NaN has no confidence. */
void yki_tool_classes_add(yki_tool_classes *c, const float *values, bool logits, size_t label);
/* The score of a class. */
yki_tool_score yki_tool_class_score(const yki_tool_classes *c, size_t index);
/* The mean over the classes that occur, of which a precision that is not defined counts as 0. */
yki_tool_score yki_tool_mean_score(const yki_tool_classes *c);
/* The expected calibration error: how far the confidence is from the fraction that is right, in the
 * mean over all samples by their bins. */
double yki_tool_calibration_error(const yki_tool_classes *c);

/* Write the results: for people a few lines, with the worst classes or, if `all`, each class; and
 * what is taken for what. Names are the model's. False: out of memory. */
bool yki_tool_classes_print(const yki_tool_classes *c, const yoke_model *model, bool all,
                            FILE *stream);
bool yki_tool_confusion_print(const yki_tool_classes *c, const yoke_model *model, FILE *stream);
/* Writes all of it as an object of this key. */
void yki_tool_classes_json(const yki_tool_classes *c, const yoke_model *model, yki_tool_json *j,
                           const char *key);

/* ---- values ---- */

typedef struct yki_tool_sums {
    double mean, spread;     /* of the target; the spread is the sum of its squared deviations */
    double square, absolute; /* sums of errors */
} yki_tool_sums;

typedef struct yki_tool_values {
    size_t count; /* of values in a sample */
    uint64_t samples;
    yki_tool_sums *sums;
} yki_tool_values;

typedef struct yki_tool_errors {
    double r2, mae, rmse;
} yki_tool_errors;

/* Begins with no samples. False: out of memory. */
bool yki_tool_values_start(yki_tool_values *v, size_t count);
void yki_tool_values_end(yki_tool_values *v);
void yki_tool_values_add(yki_tool_values *v, const float *values, const float *targets);
/* The errors of a value. R2 is 1 if all are right, and 0 for a model that always says the target's
 * mean in these samples; it is not defined if the target never changes. */
yki_tool_errors yki_tool_value_errors(const yki_tool_values *v, size_t index);
/* The errors of all values together; R2 is the mean of those that are defined. */
yki_tool_errors yki_tool_mean_errors(const yki_tool_values *v);

/* As for classes; of a sample with several values the worst few have lines of their own. */
bool yki_tool_values_print(const yki_tool_values *v, bool all, FILE *stream);
void yki_tool_values_json(const yki_tool_values *v, yki_tool_json *j, const char *key);

#endif
