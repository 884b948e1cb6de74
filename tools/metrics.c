/* SPDX-License-Identifier: Apache-2.0
 *
 * metrics.c - counts what a model says of samples; computes what follows from the counts, and
 * writes it.
 *
 * Memory follows from the number of classes or of values in a sample, never from the number of
 * samples. All arithmetic is in double; a mean over nothing is 0 / 0, a NaN.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"
#include "metrics.h"
#include "progress.h"
#include "table.h"

enum { FEW = 10, WORST = 5 }; /* so many have a line each; of more only the worst */
static const double NOT_DEFINED = (double)NAN;

/* ---- counting classes ---- */

bool
yki_tool_classes_start(yki_tool_classes *c, size_t count, size_t top)
{
    *c = (yki_tool_classes){.count = count, .top = top};
    c->labels = calloc(count, sizeof *c->labels);
    c->answers = calloc(count, sizeof *c->answers);
    c->hits = calloc(count, sizeof *c->hits);
    if (count <= TOOL_MOST_CONFUSED)
        c->confusion = calloc(count * count, sizeof *c->confusion);
    return c->labels && c->answers && c->hits && (c->confusion || count > TOOL_MOST_CONFUSED);
}

void
yki_tool_classes_end(yki_tool_classes *c)
{
    free(c->labels);
    free(c->answers);
    free(c->hits);
    free(c->confusion);
    *c = (yki_tool_classes){0};
}

/* The first of the largest values; `count` if all are NaN. */
static size_t
answer_of(const float *values, size_t count)
{
    size_t best = count;

    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]) && (best == count || values[i] > values[best]))
            best = i;
    return best;
}

/* How many classes come before the label, as the metric top_k counts them. */
static size_t
rank_of(const float *values, size_t count, size_t label)
{
    const float own = values[label];
    size_t before = 0;

    if (isnan(own))
        return count;
    for (size_t i = 0; i < count; i++)
        before += values[i] > own || (values[i] == own && i < label);
    return before;
}

/* The probability of the answer; NaN: there is none. */
static double
confidence_of(const float *values, size_t count, bool logits, size_t answer)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += logits ? exp((double)values[i] - (double)values[answer]) : (double)values[i];
    if (logits)
        return 1 / sum;
    return isnan(sum) || !(values[answer] >= 0 && values[answer] <= 1) ? NOT_DEFINED
                                                                       : (double)values[answer];
}

static void
add_confidence(yki_tool_classes *c, double confidence, bool right)
{
    int bin = (int)ceil(confidence * TOOL_BINS) - 1;
    yki_tool_bin *b = &c->bins[bin < 0 ? 0 : bin >= TOOL_BINS ? TOOL_BINS - 1 : bin];

    b->samples++;
    b->right += right;
    b->confidence += confidence;
}

void
yki_tool_classes_add(yki_tool_classes *c, const float *values, bool logits, size_t label)
{
    const size_t answer = answer_of(values, c->count);
    double confidence;

    c->samples++;
    c->labels[label]++;
    c->among_top += rank_of(values, c->count, label) < c->top;
    if (answer == c->count) {
        c->undecided++;
        return;
    }
    c->answers[answer]++;
    c->hits[answer] += answer == label;
    c->right += answer == label;
    if (c->confusion)
        c->confusion[label * c->count + answer]++;
    confidence = confidence_of(values, c->count, logits, answer);
    if (!isnan(confidence))
        add_confidence(c, confidence, answer == label);
}

/* ---- scores of classes ---- */

static double
ratio(uint64_t part, uint64_t all)
{
    return all ? (double)part / (double)all : NOT_DEFINED;
}

yki_tool_score
yki_tool_class_score(const yki_tool_classes *c, size_t i)
{
    return (yki_tool_score){.precision = ratio(c->hits[i], c->answers[i]),
                            .recall = ratio(c->hits[i], c->labels[i]),
                            .f1 = ratio(2 * c->hits[i], c->labels[i] + c->answers[i])};
}

yki_tool_score
yki_tool_mean_score(const yki_tool_classes *c)
{
    yki_tool_score sum = {0, 0, 0};
    double n = 0;

    for (size_t i = 0; i < c->count; i++) {
        const yki_tool_score s = yki_tool_class_score(c, i);

        if (c->labels[i] == 0)
            continue;
        n++;
        sum.precision += isnan(s.precision) ? 0 : s.precision;
        sum.recall += s.recall;
        sum.f1 += s.f1;
    }
    return (yki_tool_score){sum.precision / n, sum.recall / n, sum.f1 / n};
}

double
yki_tool_calibration_error(const yki_tool_classes *c)
{
    double error = 0, samples = 0;

    for (size_t i = 0; i < TOOL_BINS; i++) {
        error += fabs((double)c->bins[i].right - c->bins[i].confidence);
        samples += (double)c->bins[i].samples;
    }
    return samples > 0 ? error / samples : NOT_DEFINED;
}

/* ---- the worst ---- */

/* The index of the lowest score behind `last`, in the order of scores and then of indices; `count`:
 * there is none. NaNs have no place in it. `last` of `count` begins. */
static size_t
next_lowest(const double *scores, size_t count, size_t last)
{
    size_t lowest = count;

    for (size_t i = 0; i < count; i++) {
        const bool behind =
            last == count || scores[i] > scores[last] || (scores[i] == scores[last] && i > last);

        if (behind && !isnan(scores[i]) && (lowest == count || scores[i] < scores[lowest]))
            lowest = i;
    }
    return lowest;
}

/* Calls `row` for each index or, if there are many, for those of the lowest scores. */
static void
each_row(const double *scores, size_t count, bool all, void (*row)(void *user, size_t index),
         void *user)
{
    size_t i = count;

    for (size_t k = 0; all && k < count; k++)
        row(user, k);
    for (size_t k = 0; !all && k < WORST && (i = next_lowest(scores, count, i)) < count; k++)
        row(user, i);
}

/* ---- classes for people ---- */

static void
percent_cell(yki_tool_table *table, double value)
{
    if (isnan(value))
        yki_tool_table_cell(table, "-");
    else
        yki_tool_table_cell(table, "%.2f %%", 100 * value);
}

static void
score_cells(yki_tool_table *table, const yki_tool_score *s)
{
    percent_cell(table, s->precision);
    percent_cell(table, s->recall);
    percent_cell(table, s->f1);
}

typedef struct class_rows {
    const yki_tool_classes *classes;
    const yoke_model *model;
    yki_tool_table table;
} class_rows;

static void
class_row(void *user, size_t i)
{
    class_rows *rows = user;
    const yki_tool_score s = yki_tool_class_score(rows->classes, i);
    char number[24];

    yki_tool_table_cell(&rows->table, "%s", yki_tool_class_name(rows->model, i, number));
    yki_tool_table_cell(&rows->table, "%llu", (unsigned long long)rows->classes->labels[i]);
    score_cells(&rows->table, &s);
}

static bool
print_scores(class_rows *rows, bool all, FILE *stream)
{
    static const char *const heads[] = {"SAMPLES", "PRECISION", "RECALL", "F1"};
    const yki_tool_classes *c = rows->classes;
    const yki_tool_score mean = yki_tool_mean_score(c);
    double *scores = malloc(c->count * sizeof *scores);

    if (!scores)
        return false;
    for (size_t i = 0; i < c->count; i++) /* a class that never occurs is not among the worst */
        scores[i] = c->labels[i] ? yki_tool_class_score(c, i).f1 : NOT_DEFINED;
    yki_tool_table_start(&rows->table);
    yki_tool_table_column(&rows->table, "CLASS", false);
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++)
        yki_tool_table_column(&rows->table, heads[i], true);
    each_row(scores, c->count, all, class_row, rows);
    free(scores);
    yki_tool_table_cell(&rows->table, "mean");
    yki_tool_table_cell(&rows->table, "%s", "");
    score_cells(&rows->table, &mean);
    return yki_tool_table_print(&rows->table, stream);
}

bool
yki_tool_classes_print(const yki_tool_classes *c, const yoke_model *model, bool all, FILE *stream)
{
    class_rows rows = {.classes = c, .model = model};

    if (c->top < c->count)
        fprintf(stream, "top-%zu accuracy %.2f %%\n", c->top,
                100 * ratio(c->among_top, c->samples));
    fprintf(stream, "calibration error %.2f %%\n", 100 * yki_tool_calibration_error(c));
    if (c->undecided)
        fprintf(stream, "without an answer %llu\n", (unsigned long long)c->undecided);
    all = all || c->count <= FEW;
    if (!all)
        fprintf(stream, "the lowest F1 of %zu classes:\n", c->count);
    return print_scores(&rows, all, stream);
}

/* ---- what is taken for what ---- */

/* A row for each label, a column for each answer. */
static bool
print_matrix(const yki_tool_classes *c, const yoke_model *model, FILE *stream)
{
    char numbers[TABLE_MAX_COLUMNS][24];
    yki_tool_table table;

    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "LABEL", false);
    for (size_t i = 0; i < c->count; i++)
        yki_tool_table_column(&table, yki_tool_class_name(model, i, numbers[i]), true);
    for (size_t i = 0; i < c->count; i++) {
        yki_tool_table_cell(&table, "%s", yki_tool_class_name(model, i, numbers[i]));
        for (size_t k = 0; k < c->count; k++)
            yki_tool_table_cell(&table, "%llu", (unsigned long long)c->confusion[i * c->count + k]);
    }
    return yki_tool_table_print(&table, stream);
}

typedef struct pair {
    uint64_t samples;
    size_t label, answer;
} pair;

/* The most frequent first, then in the order of the matrix. */
static int
compare_pairs(const void *a, const void *b)
{
    const pair *x = a, *y = b;

    if (x->samples != y->samples)
        return x->samples > y->samples ? -1 : 1;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->answer < y->answer ? -1 : x->answer > y->answer;
}

/* Lists the pairs of a label and another answer that occur, and counts them; NULL: counts alone. */
static size_t
list_pairs(const yki_tool_classes *c, pair *pairs)
{
    size_t n = 0;

    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < c->count; k++) {
            if (i == k || c->confusion[i * c->count + k] == 0)
                continue;
            if (pairs)
                pairs[n] = (pair){c->confusion[i * c->count + k], i, k};
            n++;
        }
    return n;
}

static bool
print_pairs(const yki_tool_classes *c, const yoke_model *model, FILE *stream)
{
    const size_t n = list_pairs(c, NULL);
    pair *pairs = malloc((n + 1) * sizeof *pairs);
    char number[24];
    yki_tool_table table;

    if (!pairs)
        return false;
    list_pairs(c, pairs);
    qsort(pairs, n, sizeof *pairs, compare_pairs);
    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "LABEL", false);
    yki_tool_table_column(&table, "ANSWER", false);
    yki_tool_table_column(&table, "SAMPLES", true);
    for (size_t i = 0; i < n; i++) {
        yki_tool_table_cell(&table, "%s", yki_tool_class_name(model, pairs[i].label, number));
        yki_tool_table_cell(&table, "%s", yki_tool_class_name(model, pairs[i].answer, number));
        yki_tool_table_cell(&table, "%llu", (unsigned long long)pairs[i].samples);
    }
    free(pairs);
    return yki_tool_table_print(&table, stream);
}

bool
yki_tool_confusion_print(const yki_tool_classes *c, const yoke_model *model, FILE *stream)
{
    return c->count < TABLE_MAX_COLUMNS ? print_matrix(c, model, stream)
                                        : print_pairs(c, model, stream);
}

/* ---- classes for programs ---- */

static void
score_members(yki_tool_json *j, const yki_tool_score *s)
{
    yki_tool_json_real(j, "precision", s->precision);
    yki_tool_json_real(j, "recall", s->recall);
    yki_tool_json_real(j, "f1", s->f1);
}

static void
write_classes(const yki_tool_classes *c, const yoke_model *model, yki_tool_json *j)
{
    char number[24];

    yki_tool_json_open_array(j, "classes");
    for (size_t i = 0; i < c->count; i++) {
        const yki_tool_score s = yki_tool_class_score(c, i);

        yki_tool_json_open_object(j, NULL);
        yki_tool_json_string(j, "class", yki_tool_class_name(model, i, number));
        yki_tool_json_integer(j, "samples", c->labels[i]);
        yki_tool_json_integer(j, "answers", c->answers[i]);
        score_members(j, &s);
        yki_tool_json_close_object(j);
    }
    yki_tool_json_close_array(j);
}

static void
write_calibration(const yki_tool_classes *c, yki_tool_json *j)
{
    yki_tool_json_open_object(j, "calibration");
    yki_tool_json_real(j, "error", yki_tool_calibration_error(c));
    yki_tool_json_open_array(j, "bins");
    for (size_t i = 0; i < TOOL_BINS; i++) {
        const yki_tool_bin *b = &c->bins[i];

        yki_tool_json_open_object(j, NULL);
        yki_tool_json_integer(j, "samples", b->samples);
        yki_tool_json_real(j, "confidence",
                           b->samples ? b->confidence / (double)b->samples : NOT_DEFINED);
        yki_tool_json_real(j, "accuracy", ratio(b->right, b->samples));
        yki_tool_json_close_object(j);
    }
    yki_tool_json_close_array(j);
    yki_tool_json_close_object(j);
}

static void
write_confusion(const yki_tool_classes *c, yki_tool_json *j)
{
    yki_tool_json_open_array(j, "confusion");
    for (size_t i = 0; i < c->count; i++) {
        yki_tool_json_open_array(j, NULL);
        for (size_t k = 0; k < c->count; k++)
            yki_tool_json_integer(j, NULL, c->confusion[i * c->count + k]);
        yki_tool_json_close_array(j);
    }
    yki_tool_json_close_array(j);
}

void
yki_tool_classes_json(const yki_tool_classes *c, const yoke_model *model, yki_tool_json *j,
                      const char *key)
{
    const yki_tool_score mean = yki_tool_mean_score(c);

    yki_tool_json_open_object(j, key);
    yki_tool_json_integer(j, "samples", c->samples);
    yki_tool_json_integer(j, "without_answer", c->undecided);
    yki_tool_json_real(j, "accuracy", ratio(c->right, c->samples));
    yki_tool_json_open_object(j, "top");
    yki_tool_json_integer(j, "k", c->top);
    yki_tool_json_real(j, "accuracy", ratio(c->among_top, c->samples));
    yki_tool_json_close_object(j);
    yki_tool_json_open_object(j, "mean");
    score_members(j, &mean);
    yki_tool_json_close_object(j);
    write_calibration(c, j);
    write_classes(c, model, j);
    if (c->confusion)
        write_confusion(c, j);
    yki_tool_json_close_object(j);
}

/* ---- values ---- */

bool
yki_tool_values_start(yki_tool_values *v, size_t count)
{
    *v = (yki_tool_values){.count = count};
    v->sums = calloc(count, sizeof *v->sums);
    return v->sums;
}

void
yki_tool_values_end(yki_tool_values *v)
{
    free(v->sums);
    *v = (yki_tool_values){0};
}

/* Mean and spread by Welford's method, which does not subtract large sums. */
void
yki_tool_values_add(yki_tool_values *v, const float *values, const float *targets)
{
    v->samples++;
    for (size_t i = 0; i < v->count; i++) {
        yki_tool_sums *s = &v->sums[i];
        const double target = (double)targets[i], error = (double)values[i] - target;
        const double away = target - s->mean;

        s->mean += away / (double)v->samples;
        s->spread += away * (target - s->mean);
        s->square += error * error;
        s->absolute += fabs(error);
    }
}

static double
r2_of(const yki_tool_sums *s)
{
    return s->spread > 0 ? 1 - s->square / s->spread : NOT_DEFINED;
}

yki_tool_errors
yki_tool_value_errors(const yki_tool_values *v, size_t i)
{
    const yki_tool_sums *s = &v->sums[i];
    const double n = (double)v->samples;

    return (yki_tool_errors){r2_of(s), s->absolute / n, sqrt(s->square / n)};
}

yki_tool_errors
yki_tool_mean_errors(const yki_tool_values *v)
{
    const double all = (double)v->samples * (double)v->count;
    double r2 = 0, absolute = 0, square = 0, n = 0;

    for (size_t i = 0; i < v->count; i++) {
        const yki_tool_sums *s = &v->sums[i];

        absolute += s->absolute;
        square += s->square;
        if (s->spread > 0) {
            r2 += r2_of(s);
            n++;
        }
    }
    return (yki_tool_errors){r2 / n, absolute / all, sqrt(square / all)};
}

/* ---- values for people and for programs ---- */

static const char *
number_text(double value, char text[TOOL_LOSS])
{
    return isnan(value) ? "nan" : yki_tool_loss_text(value, text);
}

/* R2 is not defined where errors are, but the target never changes. */
static const char *
r2_text(const yki_tool_errors *e, char text[TOOL_LOSS])
{
    return isnan(e->r2) && !isnan(e->mae) ? "-" : number_text(e->r2, text);
}

typedef struct value_rows {
    const yki_tool_values *values;
    yki_tool_table table;
} value_rows;

static void
value_row(void *user, size_t i)
{
    value_rows *rows = user;
    const yki_tool_errors e = yki_tool_value_errors(rows->values, i);
    char text[TOOL_LOSS];

    yki_tool_table_cell(&rows->table, "%zu", i);
    yki_tool_table_cell(&rows->table, "%s", r2_text(&e, text));
    yki_tool_table_cell(&rows->table, "%s", number_text(e.mae, text));
    yki_tool_table_cell(&rows->table, "%s", number_text(e.rmse, text));
}

static bool
print_errors(value_rows *rows, bool all, FILE *stream)
{
    const yki_tool_values *v = rows->values;
    double *scores = malloc(v->count * sizeof *scores);

    if (!scores)
        return false;
    for (size_t i = 0; i < v->count; i++) {
        const yki_tool_errors e = yki_tool_value_errors(v, i);

        scores[i] = isnan(e.mae) ? -(double)INFINITY : e.r2;
    }
    yki_tool_table_start(&rows->table);
    yki_tool_table_column(&rows->table, "VALUE", false);
    yki_tool_table_column(&rows->table, "R2", true);
    yki_tool_table_column(&rows->table, "MAE", true);
    yki_tool_table_column(&rows->table, "RMSE", true);
    each_row(scores, v->count, all, value_row, rows);
    free(scores);
    return yki_tool_table_print(&rows->table, stream);
}

bool
yki_tool_values_print(const yki_tool_values *v, bool all, FILE *stream)
{
    const yki_tool_errors e = yki_tool_mean_errors(v);
    value_rows rows = {.values = v};
    char text[TOOL_LOSS];

    fprintf(stream, "R2 %s\n", r2_text(&e, text));
    fprintf(stream, "MAE %s\n", number_text(e.mae, text));
    fprintf(stream, "RMSE %s\n", number_text(e.rmse, text));
    if (v->count == 1)
        return true;
    all = all || v->count <= FEW;
    if (!all)
        fprintf(stream, "the lowest R2 of %zu values:\n", v->count);
    return print_errors(&rows, all, stream);
}

static void
error_members(yki_tool_json *j, const yki_tool_errors *e)
{
    yki_tool_json_real(j, "r2", e->r2);
    yki_tool_json_real(j, "mae", e->mae);
    yki_tool_json_real(j, "rmse", e->rmse);
}

void
yki_tool_values_json(const yki_tool_values *v, yki_tool_json *j, const char *key)
{
    const yki_tool_errors mean = yki_tool_mean_errors(v);

    yki_tool_json_open_object(j, key);
    yki_tool_json_integer(j, "samples", v->samples);
    error_members(j, &mean);
    yki_tool_json_open_array(j, "values");
    for (size_t i = 0; i < v->count; i++) {
        const yki_tool_errors e = yki_tool_value_errors(v, i);

        yki_tool_json_open_object(j, NULL);
        error_members(j, &e);
        yki_tool_json_close_object(j);
    }
    yki_tool_json_close_array(j);
    yki_tool_json_close_object(j);
}
