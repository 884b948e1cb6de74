/* SPDX-License-Identifier: Apache-2.0
 *
 * weigh.c - weights of classes and of samples and label smoothing, as the command line gives them.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "training.h"

enum { CHUNK = 4096 };

/* Reads the weight at *text, and moves on behind it and a comma. */
static bool
read_weight(const char **text, float *weight)
{
    char *end;
    double value = strtod(*text, &end);

    if (end == *text || (*end && *end != ',') || (*end == ',' && !end[1]) ||
        !(value >= 0 && value <= 1e30))
        return false;
    *weight = (float)value;
    *text = end + (*end == ',');
    return true;
}

bool
yki_tool_check_class_weights(const char *text, char why[TOOL_WHY])
{
    float weight;

    if (strcmp(text, "balanced") == 0)
        return true;
    do
        if (!read_weight(&text, &weight)) {
            snprintf(why, TOOL_WHY, "must be balanced, or weights from 0 on such as 1,2.5");
            return false;
        }
    while (*text);
    return true;
}

/* counts[c] becomes the number of training samples of class c. */
static yoke_status
count_classes(const yki_tool_source *s, double *counts)
{
    const int64_t all = yoke_dataset_count(s->train);
    int64_t indices[CHUNK];
    int32_t labels[CHUNK];

    for (int64_t first = 0; first < all; first += CHUNK) {
        const int64_t n = all - first < CHUNK ? all - first : CHUNK;
        yoke_status status;

        for (int64_t i = 0; i < n; i++)
            indices[i] = first + i;
        status = yoke_dataset_read(s->train, s->target->name, indices, n, labels,
                                   (size_t)n * yki_tool_type_bytes(s->target->type));
        if (status)
            return status;
        for (int64_t i = 0; i < n; i++) {
            const double label = yki_tool_number_at(s->target->type, labels, (size_t)i);

            if (label >= 0 && label < (double)s->classes)
                counts[(int64_t)label]++;
        }
    }
    return YOKE_OK;
}

/* Samples / (classes * samples of the class); 1 for a class without samples. */
static yoke_status
balance(const yki_tool_source *s, float *weights)
{
    double *counts = calloc((size_t)s->classes, sizeof *counts), all = 0;
    yoke_status status = counts ? count_classes(s, counts)
                                : yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for weights");

    for (int64_t c = 0; !status && c < s->classes; c++)
        all += counts[c];
    for (int64_t c = 0; !status && c < s->classes; c++)
        weights[c] = counts[c] > 0 ? (float)(all / ((double)s->classes * counts[c])) : 1;
    free(counts);
    return status;
}

/* The weights of the classes, for free(). */
static yoke_status
class_weights(const char *text, const yki_tool_source *s, float **weights, size_t *count)
{
    const bool balanced = strcmp(text, "balanced") == 0;
    char sentence[160];

    *count = 1;
    for (const char *p = text; *p && !balanced; p++)
        *count += *p == ',';
    if (balanced)
        *count = (size_t)s->classes;
    if (s->classes == 0)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                         "--class-weights is given, but the data has no classes");
    snprintf(sentence, sizeof sentence,
             "--class-weights has %zu weights; must have %lld, one for "
             "each class",
             *count, (long long)s->classes);
    if (*count != (size_t)s->classes)
        return yoke_fail(YOKE_ERROR_INVALID_ARGUMENT, sentence);
    *weights = malloc(*count * sizeof **weights);
    if (!*weights)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for weights");
    if (balanced)
        return balance(s, *weights);
    for (size_t c = 0; c < *count; c++)
        read_weight(&text, *weights + c); /* checked before */
    return YOKE_OK;
}

yoke_status
yki_tool_weigh(const yki_tool_training *t, const yki_tool_source *s, yoke_graph *graph)
{
    float *weights = NULL;
    float smoothing = 0;
    size_t count = 0;
    yoke_status status = YOKE_OK;

    if (t->class_weights)
        status = class_weights(t->class_weights, s, &weights, &count);
    if (!status && t->sample_weights && yoke_dataset_field_count(s->train) < 3)
        status = yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                           "--sample-weights is given, but the data is no table");
    if (!status && (t->class_weights || t->sample_weights))
        status = yoke_graph_weigh_loss(graph, weights, count, t->sample_weights ? "weight" : NULL);
    free(weights);
    if (t->label_smoothing)
        smoothing = strtof(t->label_smoothing, NULL); /* checked before */
    if (!status && smoothing > 0 && s->classes == 0)
        status = yoke_fail(YOKE_ERROR_INVALID_ARGUMENT,
                           "--label-smoothing is given, but the data has no classes");
    if (!status && smoothing > 0)
        status = yoke_graph_smooth_labels(graph, smoothing);
    return status;
}
