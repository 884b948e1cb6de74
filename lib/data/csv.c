/* SPDX-License-Identifier: Apache-2.0
 *
 * csv.c - tables as text: columns of numbers; one column may be a label, or some may be targets,
 * and one may have weights of samples.
 *
 * Commas separate the cells, or semicolons or tabs if the first line has more of those. Cells may
 * be quoted as in RFC 4180. The first row is a header if none of its cells is a number. The file is
 * read several times, so that memory is needed only for the numbers: first to count rows and to
 * find out what the labels are; again to collect their names, if they are text; last to store the
 * numbers. Errors name line and column.
 *
 * Numbers are read alike in every locale (number.c). Missing values are errors, unless a rule says
 * what they are (encoding.c).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/near.h"
#include "data/encoding.h"
#include "data/files.h"
#include "data/text.h"

enum {
    PIECE = 1 << 16,
    MOST_CLASSES = 1 << 15,
    GUESSED_CLASSES = 1000, /* if nobody says, smaller whole numbers are classes */
};

typedef enum role { ROLE_DATA, ROLE_LABEL, ROLE_TARGET, ROLE_WEIGHT, ROLE_NONE, ROLES } role;

/* Reads the file cell by cell. */
typedef struct scan {
    yki_bytes *bytes;
    char *piece;
    uint64_t next; /* offset in the file */
    size_t at, filled;
    char separator;
    uint64_t line; /* from 1, of the next byte */
    char *cell;
    size_t length, capacity;
    uint64_t cell_line;
    size_t column; /* of the cell, from 0 */
    bool last;     /* of its row; also before the first cell */
} scan;

typedef struct csv {
    const yki_csv_options *options;
    scan s;
    bool header;
    char *names; /* of the columns, one after another, each with a 0: a wide table has many */
    size_t names_length, names_capacity;
    uint8_t *roles;
    uint32_t *places;       /* number of a column among those of its role, or of the encoding */
    yki_encoding *encoding; /* NULL: data columns are numbers */
    float *sample;          /* of a known encoding, to try a row on; otherwise NULL */
    size_t columns, data, targets;
    bool weighted; /* a column has weights of samples */
    size_t label;  /* number of the column; SIZE_MAX: none */
    bool guessed;  /* nobody named the column of the label */
    bool text;     /* some label is not a number */
    bool whole;    /* all labels that are numbers are whole and not negative */
    int64_t largest;
    int64_t rows;
    char **classes; /* names, sorted; not used if options->known is given */
    size_t class_count, class_capacity;
    float *x, *y, *weights;
    int32_t *whole_x; /* instead of x, if options->integers */
    int32_t *labels;
} csv;

/* ---- cells ---- */

/* Reads a byte; -1: the file has ended. */
static yoke_status
next_byte(scan *s, int *byte)
{
    if (s->at == s->filled) {
        uint64_t left = yki_bytes_stored_size(s->bytes) - s->next;

        *byte = -1;
        if (left == 0)
            return YOKE_OK;
        s->at = 0;
        s->filled = 0;
        YKI_TRY(yki_bytes_read(s->bytes, s->next, YKI_MIN(left, (uint64_t)PIECE), s->piece));
        s->filled = (size_t)YKI_MIN(left, (uint64_t)PIECE);
        s->next += s->filled;
    }
    *byte = (unsigned char)s->piece[s->at++];
    if (*byte == '\n')
        s->line++;
    return YOKE_OK;
}

static void
unread(scan *s, int byte)
{
    if (byte < 0)
        return;
    s->at--;
    if (byte == '\n')
        s->line--;
}

static yoke_status
rewind_scan(scan *s)
{
    int byte;

    s->next = 0;
    s->at = s->filled = 0;
    s->line = 1;
    s->column = 0;
    s->last = true;
    /* Skips the byte order mark that some programs write before UTF-8. */
    YKI_TRY(next_byte(s, &byte));
    if (byte == 0xEF && s->filled >= 3 && memcmp(s->piece, "\xEF\xBB\xBF", 3) == 0)
        s->at = 3;
    else
        unread(s, byte);
    return YOKE_OK;
}

static yoke_status
cell_fail(const scan *s, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: line %llu, column %zu: %s", yki_bytes_name(s->bytes),
                    (unsigned long long)s->cell_line, s->column + 1, what);
}

static yoke_status
append(scan *s, int byte)
{
    YKI_TRY(yki_grow((void **)&s->cell, &s->capacity, s->length + 2, 1, "a cell"));
    s->cell[s->length++] = (char)byte;
    s->cell[s->length] = '\0';
    return YOKE_OK;
}

/* Reads a cell up to the closing quote; two quotes mean one. *byte is the byte after it. */
static yoke_status
quoted_cell(scan *s, int *byte)
{
    for (;;) {
        YKI_TRY(next_byte(s, byte));
        if (*byte < 0)
            return cell_fail(s, "a quote is not closed");
        if (*byte == '"') {
            YKI_TRY(next_byte(s, byte));
            if (*byte != '"')
                return YOKE_OK;
        }
        YKI_TRY(append(s, *byte));
    }
}

/* Reads the next cell; *found is false if the file has ended. */
static yoke_status
next_cell(scan *s, bool *found)
{
    bool quoted = false;
    int byte;

    s->column = s->last ? 0 : s->column + 1;
    YKI_TRY(next_byte(s, &byte));
    if (s->last)
        while (byte == '\n' || byte == '\r') /* empty lines */
            YKI_TRY(next_byte(s, &byte));
    s->cell_line = s->line - (byte == '\n');
    *found = byte >= 0 || !s->last;
    s->length = 0;
    YKI_TRY(yki_grow((void **)&s->cell, &s->capacity, 1, 1, "a cell"));
    s->cell[0] = '\0';
    if (byte == '"') {
        YKI_TRY(quoted_cell(s, &byte));
        quoted = true;
    }
    while (byte >= 0 && byte != '\n' && byte != s->separator) {
        if (byte == 0)
            return cell_fail(s, "a zero byte: this is no text");
        if (quoted && byte != '\r' && byte != ' ')
            return cell_fail(s, "more text after a quote");
        if (!quoted)
            YKI_TRY(append(s, byte));
        YKI_TRY(next_byte(s, &byte));
    }
    s->last = byte != s->separator;
    if (!quoted)
        s->length = yki_trim(s->cell, s->length);
    return YOKE_OK;
}

/* Finds the separator of cells from the first line. */
static yoke_status
find_separator(scan *s)
{
    size_t commas = 0, semicolons = 0, tabs = 0;
    bool quoted = false;
    int byte;

    YKI_TRY(rewind_scan(s));
    do {
        YKI_TRY(next_byte(s, &byte));
        if (byte == '"')
            quoted = !quoted;
        commas += !quoted && byte == ',';
        semicolons += !quoted && byte == ';';
        tabs += !quoted && byte == '\t';
    } while (byte >= 0 && byte != '\n');
    s->separator = ',';
    if (semicolons > commas)
        s->separator = ';';
    if (tabs > YKI_MAX(commas, semicolons))
        s->separator = '\t';
    return rewind_scan(s);
}

/* ---- columns ---- */

static yoke_status
read_first_row(csv *c)
{
    bool found, numbers = false;
    double value;

    do {
        YKI_TRY(next_cell(&c->s, &found));
        if (!found)
            return yki_fail(YOKE_ERROR_FORMAT, "%s is empty; must have rows of numbers",
                            yki_bytes_name(c->s.bytes));
        numbers = numbers || yki_parse_number(c->s.cell, c->s.length, &value);
        YKI_TRY(yki_grow((void **)&c->names, &c->names_capacity, c->names_length + c->s.length + 1,
                         1, "names of columns"));
        memcpy(c->names + c->names_length, c->s.cell, c->s.length + 1);
        c->names_length += c->s.length + 1;
        c->columns++;
    } while (!c->s.last && c->columns < INT32_MAX);
    c->header = !numbers;
    c->roles = yki_alloc(c->columns, sizeof *c->roles, "columns");
    return c->roles ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

/* Finds the column of this name; false: there is none. */
static bool
find_name(const csv *c, const char *name, size_t length, size_t *column)
{
    const char *p = c->names;

    for (size_t i = 0; c->header && i < c->columns; i++, p += strlen(p) + 1)
        if (strncasecmp(p, name, length) == 0 && p[length] == '\0') {
            *column = i;
            return true;
        }
    return false;
}

static const char *
near_column(const csv *c, const char *name, yki_near *near)
{
    const char *p = c->names;

    yki_near_start(near, name);
    for (size_t i = 0; c->header && i < c->columns; i++, p += strlen(p) + 1)
        yki_near_offer(near, p);
    return yki_near_hint(near);
}

static yoke_status
no_column(const csv *c, const char *name, size_t length)
{
    char word[64];
    yki_near near;

    snprintf(word, sizeof word, "%.*s", (int)YKI_MIN(length, sizeof word - 1), name);
    return yki_fail(YOKE_ERROR_NOT_FOUND, "%s has no column \"%.*s\"%s%s",
                    yki_bytes_name(c->s.bytes), (int)length, name,
                    c->header ? "" : "; there is no header with names",
                    near_column(c, word, &near));
}

/* Finds a column by name, or else by number from 1. */
static yoke_status
find_column(const csv *c, const char *name, size_t length, size_t *column)
{
    size_t number = 0;

    if (find_name(c, name, length, column))
        return YOKE_OK;
    for (size_t i = 0; i < length; i++) {
        if (name[i] < '0' || name[i] > '9' || number > c->columns)
            number = SIZE_MAX / 20;
        number = number * 10 + (size_t)(name[i] - '0') % 10;
    }
    if (number < 1 || number > c->columns)
        return no_column(c, name, length);
    *column = number - 1;
    return YOKE_OK;
}

static yoke_status
named_twice(const csv *c, const char *name, size_t length)
{
    return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                    "%s: column \"%.*s\" is named twice; must be named once",
                    yki_bytes_name(c->s.bytes), (int)length, name);
}

/* Gives the column of this name a role of its own. */
static yoke_status
set_role(csv *c, const char *name, size_t length, role its, size_t *column)
{
    YKI_TRY(find_column(c, name, length, column));
    if (c->roles[*column] != ROLE_DATA)
        return named_twice(c, name, length);
    c->roles[*column] = (uint8_t)its;
    return YOKE_OK;
}

static yoke_status
set_targets(csv *c)
{
    for (const char *p = c->options->targets; *p;) {
        size_t length = strcspn(p, ","), column;

        YKI_TRY(set_role(c, p, length, ROLE_TARGET, &column));
        c->targets++;
        p += length + (p[length] == ',');
    }
    return YOKE_OK;
}

static size_t
guess_label(const csv *c)
{
    static const char *const usual[] = {"label", "class", "target", "y"};

    size_t column;

    for (size_t n = 0; n < YKI_COUNT(usual); n++)
        if (find_name(c, usual[n], strlen(usual[n]), &column))
            return column;
    return c->columns - 1;
}

/* ---- encodings ---- */

/* The name of a column or, without a header, its number. */
static const char *
column_name(const csv *c, size_t column, char number[24])
{
    const char *p = c->names;

    if (c->header) {
        while (column-- > 0)
            p += strlen(p) + 1;
        return p;
    }
    snprintf(number, 24, "%zu", column + 1);
    return number;
}

/* A column for each of data, to be learned. */
static yoke_status
begin_encoding(csv *c)
{
    const char *rules = c->options->columns;
    char number[24];

    c->encoding = yki_alloc(1, sizeof *c->encoding, "an encoding");
    c->places = yki_alloc(c->columns, sizeof *c->places, "columns");
    if (!c->encoding || !c->places)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->columns; i++) {
        if (c->roles[i] != ROLE_DATA)
            continue;
        c->places[i] = (uint32_t)c->encoding->count;
        YKI_TRY(yki_encoding_add(c->encoding, rules, column_name(c, i, number)));
    }
    return yki_encoding_check_rules(c->encoding, rules);
}

/* Finds the columns of an encoding that was learned; others have no role, but for that of labels,
 * which may be missing. */
static yoke_status
use_encoding(csv *c)
{
    size_t column;

    YKI_TRY(yki_encoding_read(c->options->encoding, yki_bytes_name(c->s.bytes), &c->encoding));
    c->places = yki_alloc(c->columns, sizeof *c->places, "columns");
    c->sample = yki_alloc(c->encoding->width, sizeof *c->sample, "a sample");
    if (!c->places || !c->sample)
        return YOKE_ERROR_OUT_OF_MEMORY;
    memset(c->roles, ROLE_NONE, c->columns);
    for (size_t i = 0; i < c->encoding->count; i++) {
        const yki_encoded_column *e = &c->encoding->columns[i];

        if (e->width == 0)
            continue;
        YKI_TRY(find_column(c, e->name, strlen(e->name), &column));
        if (c->roles[column] != ROLE_NONE)
            return named_twice(c, e->name, strlen(e->name));
        c->roles[column] = ROLE_DATA;
        c->places[column] = (uint32_t)i;
    }
    c->data = c->encoding->width;
    c->label = SIZE_MAX;
    if (c->encoding->label &&
        find_column(c, c->encoding->label, strlen(c->encoding->label), &column) == YOKE_OK &&
        c->roles[column] == ROLE_NONE) {
        c->roles[column] = ROLE_LABEL;
        c->label = column;
        c->guessed = true;
    }
    if (!c->options->weights)
        return YOKE_OK;
    YKI_TRY(find_column(c, c->options->weights, strlen(c->options->weights), &column));
    if (c->roles[column] != ROLE_NONE)
        return named_twice(c, c->options->weights, strlen(c->options->weights));
    c->roles[column] = ROLE_WEIGHT;
    c->weighted = true;
    return YOKE_OK;
}

/* The cell at hand: learns from it, or tries it on. */
static yoke_status
look_at_encoded(csv *c)
{
    yki_encoded_column *e = &c->encoding->columns[c->places[c->s.column]];
    yoke_status status = c->sample ? yki_encoding_apply(e, c->s.cell, c->s.length, c->sample)
                                   : yki_encoding_learn(e, c->s.cell, c->s.length);
    char place[256];

    if (status == YOKE_OK)
        return YOKE_OK;
    snprintf(place, sizeof place, "%.180s: line %llu, column %zu", yki_bytes_name(c->s.bytes),
             (unsigned long long)c->s.cell_line, c->s.column + 1);
    return yki_fail_in(status, place);
}

/* After the first reading. */
static yoke_status
settle_encoding(csv *c)
{
    size_t label = c->label;
    char number[24];

    if (!c->encoding || c->sample)
        return YOKE_OK;
    for (size_t i = 0; label == SIZE_MAX && i < c->columns; i++)
        if (c->roles[i] == ROLE_TARGET)
            label = i;
    if (label != SIZE_MAX &&
        !(c->encoding->label = yki_strdup(column_name(c, label, number), "a column's name")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_encoding_settle(c->encoding));
    c->data = c->encoding->width;
    return YOKE_OK;
}

static yoke_status
set_roles(csv *c)
{
    const char *weights = c->options->weights;
    size_t column;

    if ((c->options->columns || c->options->encoding) && c->options->integers)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: columns have rules; must not, where data are integers",
                        yki_bytes_name(c->s.bytes));
    if (c->options->encoding)
        return use_encoding(c);
    c->label = SIZE_MAX;
    if (c->options->targets)
        YKI_TRY(set_targets(c));
    if (c->options->label)
        YKI_TRY(set_role(c, c->options->label, strlen(c->options->label), ROLE_LABEL, &c->label));
    if (weights)
        YKI_TRY(set_role(c, weights, strlen(weights), ROLE_WEIGHT, &column));
    c->weighted = weights != NULL;
    if (!c->options->label && !c->targets && !c->options->no_label && c->columns > 1) {
        c->label = guess_label(c);
        c->guessed = true;
        if (c->roles[c->label] != ROLE_DATA)
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: the column of weights would be the label; name another for that",
                            yki_bytes_name(c->s.bytes));
        c->roles[c->label] = ROLE_LABEL;
    }
    c->data = c->columns - c->targets - (c->label != SIZE_MAX) - c->weighted;
    if (c->data == 0)
        return yki_fail(
            YOKE_ERROR_FORMAT,
            "%s has no column of data beside labels and targets; must have at least one",
            yki_bytes_name(c->s.bytes));
    return c->options->columns ? begin_encoding(c) : YOKE_OK;
}

/* ---- classes ---- */

static int
compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static yoke_status
add_class(csv *c, const char *name)
{
    size_t low = 0, high = c->class_count;
    char *copy;

    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = strcmp(c->classes[middle], name);

        if (order == 0)
            return YOKE_OK;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (c->class_count == MOST_CLASSES)
        return cell_fail(&c->s, "more than 32768 different labels: is this the column of labels?");
    YKI_TRY(yki_grow((void **)&c->classes, &c->class_capacity, c->class_count + 1,
                     sizeof *c->classes, "names of classes"));
    if (!(copy = yki_strdup(name, "the name of a class")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    memmove(c->classes + low + 1, c->classes + low, (c->class_count - low) * sizeof *c->classes);
    c->classes[low] = copy;
    c->class_count++;
    return YOKE_OK;
}

/* Finds the number of a class. Class names that were given may have any order. */
static yoke_status
class_number(const csv *c, int32_t *number)
{
    const char *name = c->s.cell;
    char **found;

    for (size_t i = 0; i < c->options->known_count; i++)
        if (strcmp(c->options->known[i], name) == 0) {
            *number = (int32_t)i;
            return YOKE_OK;
        }
    if (c->options->known_count)
        return cell_fail(&c->s, "a class that the training data does not have");
    found = bsearch(&name, c->classes, c->class_count, sizeof *c->classes, compare_names);
    if (!found)
        return cell_fail(&c->s, "the file has changed while it was read");
    *number = (int32_t)(found - c->classes);
    return YOKE_OK;
}

/* ---- rows ---- */

/* Reads the rows after the header, and calls `each` for every cell. */
static yoke_status
walk(csv *c, yoke_status (*each)(csv *, int64_t row))
{
    char what[128];
    bool found, skip = c->header;

    YKI_TRY(rewind_scan(&c->s));
    for (int64_t row = 0;; row++) {
        do {
            YKI_TRY(next_cell(&c->s, &found));
            if (!found) {
                c->rows = row;
                return YOKE_OK;
            }
            if (c->s.column >= c->columns || (c->s.last && c->s.column + 1 < c->columns)) {
                snprintf(what, sizeof what, "%s columns than the %zu of the first row",
                         c->s.column >= c->columns ? "more" : "the row ends, with fewer",
                         c->columns);
                return cell_fail(&c->s, what);
            }
            if (!skip)
                YKI_TRY(each(c, row));
        } while (!c->s.last);
        if (skip) {
            skip = false;
            row--;
        }
    }
}

static yoke_status
is_not(csv *c, const char *wanted)
{
    char what[96];

    snprintf(what, sizeof what, "\"%.40s\" is not a %s", c->s.cell, wanted);
    return cell_fail(&c->s, what);
}

static yoke_status
parse_cell(csv *c, double *value)
{
    if (c->s.length == 0)
        return cell_fail(&c->s, "the cell is empty; must be a number");
    return yki_parse_number(c->s.cell, c->s.length, value) ? YOKE_OK : is_not(c, "number");
}

static yoke_status
take_number(csv *c, float *value)
{
    double number;

    YKI_TRY(parse_cell(c, &number));
    if (!(number >= -3.4028235677973366e38 && number <= 3.4028235677973366e38))
        return is_not(c, "finite number of 32 bits");
    *value = (float)number;
    return YOKE_OK;
}

static yoke_status
take_weight(csv *c, float *value)
{
    YKI_TRY(take_number(c, value));
    return *value >= 0 ? YOKE_OK : cell_fail(&c->s, "a weight is negative; must be 0 or more");
}

static yoke_status
take_integer(csv *c, int32_t *value)
{
    double number;

    YKI_TRY(parse_cell(c, &number));
    if (!(number >= INT32_MIN && number <= INT32_MAX) || number != (double)(int32_t)number)
        return is_not(c, "whole number of 32 bits");
    *value = (int32_t)number;
    return YOKE_OK;
}

/* First reading: finds out what the labels are. Numbers are parsed as well, so that errors are
 * found before memory is allocated. */
static yoke_status
look_at_cell(csv *c, int64_t row)
{
    int32_t ignored_integer;
    float ignored;
    double value;
    bool number;

    if (c->roles[c->s.column] == ROLE_NONE)
        return YOKE_OK;
    if (c->roles[c->s.column] == ROLE_DATA && c->encoding)
        return look_at_encoded(c);
    if (c->roles[c->s.column] == ROLE_DATA && c->options->integers)
        return take_integer(c, &ignored_integer);
    if (c->roles[c->s.column] == ROLE_WEIGHT)
        return take_weight(c, &ignored);
    if (c->roles[c->s.column] != ROLE_LABEL)
        return take_number(c, &ignored);
    if (c->s.length == 0)
        return cell_fail(&c->s, "the cell is empty; must be a label");
    number = yki_parse_number(c->s.cell, c->s.length, &value);
    /* If the column was guessed, text and numbers must not mix: the guess may be wrong. */
    if (c->guessed && row > 0 && number == c->text)
        return number ? cell_fail(&c->s, "a number among labels that are text")
                      : take_number(c, &ignored);
    if (!number) {
        c->text = true;
    } else if (value >= 0 && value <= INT32_MAX && value == (double)(int64_t)value) {
        c->largest = YKI_MAX(c->largest, (int64_t)value);
    } else {
        c->whole = false;
    }
    return YOKE_OK;
}

static yoke_status
note_class(csv *c, int64_t row)
{
    (void)row;
    return c->roles[c->s.column] == ROLE_LABEL ? add_class(c, c->s.cell) : YOKE_OK;
}

static yoke_status
keep_cell(csv *c, int64_t row)
{
    const role r = c->roles[c->s.column];
    const size_t place = c->places[c->s.column];
    double value;

    if (row >= c->rows)
        return cell_fail(&c->s, "the file has changed while it was read");
    if (r == ROLE_NONE)
        return YOKE_OK;
    if (r == ROLE_DATA && c->encoding)
        return yki_encoding_apply(&c->encoding->columns[place], c->s.cell, c->s.length,
                                  &c->x[(size_t)row * c->data]);
    if (r == ROLE_DATA && c->options->integers)
        return take_integer(c, &c->whole_x[(size_t)row * c->data + place]);
    if (r == ROLE_DATA)
        return take_number(c, &c->x[(size_t)row * c->data + place]);
    if (r == ROLE_TARGET)
        return take_number(c, &c->y[(size_t)row * c->targets + place]);
    if (r == ROLE_WEIGHT)
        return take_weight(c, &c->weights[row]);
    if (c->text)
        return class_number(c, &c->labels[row]);
    if (!yki_parse_number(c->s.cell, c->s.length, &value) || !(value >= 0) || value > INT32_MAX ||
        value != (double)(int64_t)value)
        return cell_fail(&c->s, "a label must be a whole number from 0");
    c->labels[row] = (int32_t)value;
    return YOKE_OK;
}

/* ---- the dataset ---- */

static void
csv_free(void *self)
{
    csv *c = self;

    for (size_t i = 0; i < c->class_count; i++)
        yki_free(c->classes[i]);
    yki_free(c->names);
    yki_free(c->classes);
    yki_free(c->roles);
    yki_free(c->places);
    yki_free(c->x);
    yki_free(c->whole_x);
    yki_free(c->y);
    yki_free(c->weights);
    yki_encoding_destroy(c->encoding);
    yki_free(c->sample);
    yki_free(c->labels);
    yki_free(c->s.piece);
    yki_free(c->s.cell);
    yki_bytes_release(c->s.bytes);
    yki_free(c);
}

/* After the first reading: a guessed label column becomes a target if its numbers cannot be
 * classes. Columns are numbered by role. */
static yoke_status
settle(csv *c)
{
    uint32_t counts[ROLES] = {0};

    if (c->label != SIZE_MAX && c->options->known_count)
        c->text = true;
    if (c->label != SIZE_MAX && c->guessed && !c->text &&
        (!c->whole || c->largest >= GUESSED_CLASSES)) {
        c->roles[c->label] = ROLE_TARGET;
        c->label = SIZE_MAX;
        c->targets = 1;
    }
    YKI_TRY(settle_encoding(c));
    if (!c->places && !(c->places = yki_alloc(c->columns, sizeof *c->places, "columns")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->columns; i++)
        if (c->roles[i] != ROLE_DATA || !c->encoding)
            c->places[i] = counts[c->roles[i]]++;
    if (c->text && !c->options->known_count)
        YKI_TRY(walk(c, note_class));
    return YOKE_OK;
}

static yoke_status
read_all(csv *c)
{
    size_t rows;

    YKI_TRY(find_separator(&c->s));
    YKI_TRY(read_first_row(c));
    YKI_TRY(set_roles(c));
    YKI_TRY(walk(c, look_at_cell));
    YKI_TRY(settle(c));
    rows = (size_t)c->rows;
    c->x = yki_alloc(c->options->integers ? 0 : rows * c->data, sizeof *c->x, "a table");
    c->whole_x =
        yki_alloc(c->options->integers ? rows * c->data : 0, sizeof *c->whole_x, "a table");
    c->y = yki_alloc(rows * c->targets, sizeof *c->y, "a table");
    c->labels = yki_alloc(c->label == SIZE_MAX ? 0 : rows, sizeof *c->labels, "a table");
    c->weights = yki_alloc(c->weighted ? rows : 0, sizeof *c->weights, "a table");
    if (!c->x || !c->whole_x || !c->y || !c->labels || !c->weights)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(walk(c, keep_cell));
    return (size_t)c->rows == rows
               ? YOKE_OK
               : yki_fail(YOKE_ERROR_IO, "%s has changed while it was read; open it again",
                          yki_bytes_name(c->s.bytes));
}

static yoke_status
make_dataset(csv *c, yoke_dataset **out)
{
    const yki_csv_options *o = c->options;
    yoke_field fields[4] = {{0}};
    size_t count = 1;

    fields[0] = (yoke_field){o->data_name ? o->data_name : "x", YOKE_F32,
                             yoke_shape((int64_t)c->data), c->x, 0};
    if (o->integers) {
        fields[0].type = YOKE_I32;
        fields[0].data = c->whole_x;
    }
    if (c->label != SIZE_MAX)
        fields[count++] = (yoke_field){o->target_name ? o->target_name : "label", YOKE_I32,
                                       yoke_shape(), c->labels, 0};
    if (c->targets)
        fields[count++] =
            (yoke_field){o->target_name && c->label == SIZE_MAX ? o->target_name : "target",
                         YOKE_F32, yoke_shape((int64_t)c->targets), c->y, 0};
    if (c->weighted)
        fields[count++] = (yoke_field){"weight", YOKE_F32, yoke_shape(), c->weights, 0};
    YKI_TRY(yoke_dataset_create(c->rows, fields, count,
                                &(yoke_dataset_options){.release = csv_free, .user = c}, out));
    return YOKE_OK;
}

yoke_status
yki_csv_read(yki_bytes *bytes, const yki_csv_options *options, yoke_dataset **dataset)
{
    yoke_dataset *made = NULL;
    csv *c;
    yoke_status status;

    if (yki_bytes_compressed(bytes))
        return yki_fail(YOKE_ERROR_UNSUPPORTED, "%s is compressed; must be unpacked, as tables are",
                        yki_bytes_name(bytes));
    if (!(c = yki_alloc(1, sizeof *c, "a table")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    c->options = options;
    c->whole = true;
    c->s.bytes = yki_bytes_retain(bytes);
    c->s.piece = yki_alloc(1, PIECE, "a piece of a table");
    status = c->s.piece ? read_all(c) : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = make_dataset(c, &made);
    if (status != YOKE_OK) {
        csv_free(c);
        return status;
    }
    /* From here on the dataset owns `c`. */
    if (options->known_count)
        status = yoke_dataset_set_class_names(made, options->known, options->known_count);
    else if (c->class_count)
        status =
            yoke_dataset_set_class_names(made, (const char *const *)c->classes, c->class_count);
    if (status == YOKE_OK && c->encoding)
        status = yki_encoding_write(c->encoding, &made->encoding);
    if (status != YOKE_OK) {
        yoke_dataset_destroy(made);
        return status;
    }
    *dataset = made;
    return YOKE_OK;
}
