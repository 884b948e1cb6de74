/* SPDX-License-Identifier: Apache-2.0
 *
 * encoding.h - how the data columns of a table become numbers: by rules that a user gives, and by
 * what the training data has in them, which is kept with a model.
 *
 * A column is found by its name or, in a table without a header, by its number. Knows no files.
 */
#ifndef YKI_ENCODING_H
#define YKI_ENCODING_H

#include "base/base.h"

typedef enum yki_encoding_kind {
    YKI_ENCODE_NUMBER,  /* a missing number is an error */
    YKI_ENCODE_MEDIAN,  /* it becomes the median of the others */
    YKI_ENCODE_ONE_HOT, /* a column for each text, with 1 where it stands; missing: all are 0 */
    YKI_ENCODE_HASH,    /* a fixed number of such columns, which texts share by a hash */
    YKI_ENCODE_DROP,    /* no data */
    YKI_ENCODE_AUTO     /* median if all cells are numbers or missing, else one-hot */
} yki_encoding_kind;

typedef struct yki_encoded_column {
    char *name; /* or the column's number from 1, if the table has no header */
    yki_encoding_kind kind;
    double median;
    char **texts; /* of one-hot: sorted by their bytes */
    size_t text_count, text_capacity;
    int64_t buckets;     /* of hash */
    size_t first, width; /* which numbers of a sample it gives */
    /* of the training data, until yki_encoding_settle */
    double *numbers;
    size_t number_count, number_capacity;
    bool mixed; /* a cell is no number */
} yki_encoded_column;

typedef struct yki_encoding {
    yki_encoded_column *columns;
    size_t count, capacity;
    size_t width; /* numbers of a sample */
    char *label;  /* name of the column of labels or of the first target; NULL: none */
} yki_encoding;

void yki_encoding_destroy(yki_encoding *encoding);
/* Adds a data column of this name to an encoding that is being learned, with the rule that `rules`
 * gives it: "city=one-hot,age=median,zip=hash:32,*=auto"; "*" is for all that are not named, and
 * without it they are numbers. */
yoke_status yki_encoding_add(yki_encoding *encoding, const char *rules, const char *name);
/* Fails if a rule is unknown, or is for a column that is none of `encoding`. */
yoke_status yki_encoding_check_rules(const yki_encoding *encoding, const char *rules);
/* Learns from a cell of the training data. The sentence of an error does not name its place. */
yoke_status yki_encoding_learn(yki_encoded_column *column, const char *cell, size_t length);
/* After all cells: finds medians, and which numbers a column gives. */
yoke_status yki_encoding_settle(yki_encoding *encoding);
/* Writes the numbers that a cell gives to those of its sample. */
yoke_status yki_encoding_apply(const yki_encoded_column *column, const char *cell, size_t length,
                               float *sample);
/* As JSON, and back. `where` is for errors. */
yoke_status yki_encoding_write(const yki_encoding *encoding, char **text);
yoke_status yki_encoding_read(const char *text, const char *where, yki_encoding **encoding);

#endif
