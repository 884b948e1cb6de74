/* SPDX-License-Identifier: Apache-2.0
 *
 * check_csv.c - tables: their columns, labels and types, numbers as C reads them, and what is
 * refused with a sentence that names file and line.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/made_files.h"
#include "data/text.h"
#include "support/scratch.h"
#include "support/support.h"

START_TEST(csv)
{
    yoke_dataset *dataset =
        opened(text_file("t.csv",
                         "\xEF\xBB\xBF"
                         "sepal, width ,\"the \"\"class\"\"\"\r\n5.1,-3.5e0,2\r\n\r\n+4,.25,0\r\n"),
               NULL);
    const yoke_field *x = yoke_dataset_get_field(dataset, 0);
    float row[2];
    int32_t label;

    ck_assert_int_eq(yoke_dataset_count(dataset), 2);
    ck_assert_str_eq(x->name, "x");
    ck_assert(x->type == YOKE_F32 && x->shape.rank == 1 && x->shape.dim[0] == 2);
    read_one(dataset, "x", 0, row);
    ck_assert(row[0] == 5.1f && row[1] == -3.5f);
    read_one(dataset, "x", 1, row);
    ck_assert(row[0] == 4 && row[1] == 0.25f);
    read_one(dataset, "label", 0, &label);
    ck_assert_int_eq(label, 2);
    yoke_dataset_destroy(dataset);
}
END_TEST

/* A column of weights is a field of its own, and no data. */
START_TEST(csv_weights)
{
    static const char table[] = "a,w,label,b\n1,0.5,no,2\n3,0,yes,4\n";
    yoke_dataset *dataset =
        opened(text_file("t.csv", table), &(yoke_dataset_open_options){.csv_weights = "W"});
    float row[2], weight;

    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 3);
    ck_assert_str_eq(yoke_dataset_get_field(dataset, 1)->name, "label");
    read_one(dataset, "x", 1, row);
    ck_assert(row[0] == 3 && row[1] == 4);
    read_one(dataset, "weight", 0, &weight);
    ck_assert(weight == 0.5f);
    yoke_dataset_destroy(dataset);
    refused(text_file("t.csv", table),
            &(yoke_dataset_open_options){.csv_weights = "3", .csv_label = "label"},
            YOKE_ERROR_INVALID_ARGUMENT, "column \"3\" is named twice");
    refused(text_file("t.csv", table), &(yoke_dataset_open_options){.csv_weights = "label"},
            YOKE_ERROR_INVALID_ARGUMENT, "the column of weights would be the label");
    refused(text_file("t.csv", "a,w,label\n1,-1,0\n"),
            &(yoke_dataset_open_options){.csv_weights = "w"}, YOKE_ERROR_FORMAT,
            "line 2, column 2: a weight is negative; must be 0 or more");
}
END_TEST

START_TEST(csv_integers)
{
    yoke_dataset *dataset;
    int32_t whole[2];

    dataset = opened(text_file("t.csv", "a,b,label\n3,-2147483648,1\n16777217,5,0\n"),
                     &(yoke_dataset_open_options){.csv_integers = true});
    ck_assert_int_eq(yoke_dataset_get_field(dataset, 0)->type, YOKE_I32);
    ck_assert_str_eq(yoke_dataset_get_field(dataset, 1)->name, "label");
    read_one(dataset, "x", 0, whole);
    ck_assert(whole[0] == 3 && whole[1] == INT32_MIN);
    read_one(dataset, "x", 1, whole);
    ck_assert(whole[0] == 16777217 && whole[1] == 5); /* exact where floats are not */
    yoke_dataset_destroy(dataset);
    refused(text_file("t.csv", "a,b,label\n3,2.5,1\n"),
            &(yoke_dataset_open_options){.csv_integers = true}, YOKE_ERROR_FORMAT,
            "line 2, column 2: \"2.5\" is not a whole number of 32 bits");
    refused(text_file("t.csv", "a,b,label\n3,2147483648,1\n"),
            &(yoke_dataset_open_options){.csv_integers = true}, YOKE_ERROR_FORMAT,
            "\"2147483648\" is not a whole number");
}
END_TEST

START_TEST(csv_columns)
{
    static const char text[] = "price;y;size;kind\n1.5;7;2;b\n2.5;8;3;a\n3.5;9;4;b\n";
    yoke_dataset *dataset;
    float values[4];
    int32_t label;

    /* One called y: whole numbers, so classes. */
    ASSERT_STATUS(YOKE_ERROR_FORMAT, yoke_dataset_open(text_file("t.csv", text), NULL, &dataset));
    ASSERT_DETAIL("line 2, column 4: \"b\" is not a number");
    dataset = opened(scratch_path("t.csv"),
                     &(yoke_dataset_open_options){.csv_label = "kind", .csv_targets = "price,3"});
    ck_assert_uint_eq(yoke_dataset_field_count(dataset), 3);
    read_one(dataset, "x", 2, values);
    ck_assert(values[0] == 9);
    read_one(dataset, "target", 2, values);
    ck_assert(values[0] == 3.5f && values[1] == 4);
    read_one(dataset, "label", 2, &label);
    ck_assert_int_eq(label, 1);
    ck_assert_str_eq(yoke_dataset_get_class_name(dataset, 0), "a");
    yoke_dataset_destroy(dataset);
    dataset = opened(text_file("t.tsv", "1\t2\t0.5\n3\t4\t1e3\n"), NULL);
    read_one(dataset, "target", 1, values);
    ck_assert(values[0] == 1000);
    yoke_dataset_destroy(dataset);
    dataset = opened(scratch_path("t.tsv"), &(yoke_dataset_open_options){.csv_no_label = true});
    ck_assert_int_eq(yoke_dataset_get_field(dataset, 0)->shape.dim[0], 3);
    yoke_dataset_destroy(dataset);
    refused(text_file("t.csv", text), &(yoke_dataset_open_options){.csv_label = "color"},
            YOKE_ERROR_NOT_FOUND, "no column \"color\"");
    refused(scratch_path("t.csv"), &(yoke_dataset_open_options){.csv_label = "5"},
            YOKE_ERROR_NOT_FOUND, "no column \"5\"");
    refused(scratch_path("t.csv"),
            &(yoke_dataset_open_options){.csv_label = "kind", .csv_targets = "kind"},
            YOKE_ERROR_INVALID_ARGUMENT, "named twice");
    refused(scratch_path("t.csv"), &(yoke_dataset_open_options){.csv_label = "price"},
            YOKE_ERROR_FORMAT, "line 2, column 4");
    refused(text_file("t.csv", "1,2.5\n2,3\n"), &(yoke_dataset_open_options){.csv_label = "2"},
            YOKE_ERROR_FORMAT, "line 1, column 2: a label must be a whole number");
}
END_TEST

/* Fails unless sample `index` has these numbers. */
static void
expect_numbers(const yoke_dataset *dataset, int64_t index, size_t count, const float *wanted)
{
    float row[16];

    ck_assert_uint_le(count, YKI_COUNT(row));
    ck_assert_int_eq(yoke_dataset_get_field(dataset, 0)->shape.dim[0], (int64_t)count);
    read_one(dataset, "x", index, row);
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(row[i] == wanted[i], "sample %d, number %zu: %g instead of %g", (int)index, i,
                      (double)row[i], (double)wanted[i]);
}

static const char people[] = "city,age,id,zip,label\n"
                             "Rome,30,a1,00100,yes\nOslo,,a2,0150,no\n"
                             ",21,a3,00100,no\nBonn,40,a4,,yes\nRome,60,a5,7,no\n";

/* One-hot in the order of the bytes; the median of 21, 30, 40 and 60; equal texts share a bucket.
 */
START_TEST(csv_rules)
{
    const yoke_dataset_open_options rules = {.csv_columns = "zip=hash:3,ID=drop,*=auto"};
    yoke_dataset *dataset = opened(text_file("t.csv", people), &rules);
    float rows[5][7];

    ck_assert_int_eq(yoke_dataset_get_field(dataset, 0)->shape.dim[0], 7);
    for (int64_t i = 0; i < 5; i++)
        read_one(dataset, "x", i, rows[i]);
    for (int i = 0; i < 5; i++) {
        static const float cities[5][3] = {{0, 0, 1}, {0, 1, 0}, {0, 0, 0}, {1, 0, 0}, {0, 0, 1}};
        static const float ages[5] = {30, 35, 21, 40, 60};

        ck_assert_mem_eq(rows[i], cities[i], sizeof cities[i]);
        ck_assert(rows[i][3] == ages[i]);
        ck_assert(rows[i][4] + rows[i][5] + rows[i][6] == (i == 3 ? 0 : 1));
    }
    ck_assert_mem_eq(rows[0] + 4, rows[2] + 4, 3 * sizeof(float));
    yoke_dataset_destroy(dataset);
}
END_TEST

/* Other data are encoded as the training data were: columns in another order, with one more and
 * without labels, and texts that nobody has seen. */
START_TEST(csv_encodings_are_kept)
{
    yoke_dataset *train, *again, *part;
    yoke_dataset_open_options known = {0};
    const int64_t two[] = {3, 1};

    train = opened(text_file("t.csv", people),
                   &(yoke_dataset_open_options){.csv_columns = "zip=drop,id=drop,*=auto"});
    known.csv_encoding = yoke_dataset_get_encoding(train);
    ck_assert_ptr_nonnull(known.csv_encoding);
    again = opened(text_file("u.csv", "more,age,city\nx,50,Bonn\ny,,Paris\n"), &known);
    ck_assert_uint_eq(yoke_dataset_field_count(again), 1);
    expect_numbers(again, 0, 4, (const float[]){1, 0, 0, 50});
    expect_numbers(again, 1, 4, (const float[]){0, 0, 0, 35});
    ck_assert_str_eq(yoke_dataset_get_encoding(again), known.csv_encoding);
    yoke_dataset_destroy(again);
    known.class_names = (const char *const[]){"no", "yes"};
    known.class_count = 2;
    again = opened(text_file("u.csv", "label,city,age,id\nyes,Oslo,1,a9\n"), &known);
    ck_assert_uint_eq(yoke_dataset_field_count(again), 2);
    expect_numbers(again, 0, 4, (const float[]){0, 1, 0, 1});
    yoke_dataset_destroy(again);
    refused(text_file("u.csv", "cities,age\nRome,1\n"), &known, YOKE_ERROR_NOT_FOUND,
            "has no column \"city\"");
    refused(text_file("u.csv", "city,age\nRome,old\n"), &known, YOKE_ERROR_FORMAT,
            "line 2, column 2: \"old\" is not a number");
    ASSERT_OK(yoke_dataset_subset(train, two, 2, &part));
    ck_assert_str_eq(yoke_dataset_get_encoding(part), known.csv_encoding);
    expect_numbers(part, 1, 4, (const float[]){0, 1, 0, 35});
    yoke_dataset_destroy(part);
    yoke_dataset_destroy(train);
}
END_TEST

START_TEST(csv_rules_that_make_no_sense)
{
    static const struct {
        const char *rules, *text;
        yoke_status status;
        const char *part;
    } rows[] = {
        {"city=text", people, YOKE_ERROR_INVALID_ARGUMENT, "\"city=text\" is no rule for columns"},
        {"city=hash:0", people, YOKE_ERROR_INVALID_ARGUMENT, "is no rule for columns"},
        {"city=hash:65537", people, YOKE_ERROR_INVALID_ARGUMENT, "is no rule for columns"},
        {"city", people, YOKE_ERROR_INVALID_ARGUMENT, "is no rule for columns"},
        {"cty=drop,*=auto", people, YOKE_ERROR_NOT_FOUND, "did you mean \"city\"?"},
        {"label=drop", people, YOKE_ERROR_NOT_FOUND, "there is no column of data \"label\""},
        {"*=drop", people, YOKE_ERROR_FORMAT, "the rules leave no column of data"},
        {"age=median", people, YOKE_ERROR_FORMAT,
         "line 2, column 1: \"Rome\" is not a number; a rule such as \"city=one-hot\" takes text"},
        {"b=drop", "a,b,label\n1,x,0\n,y,1\n", YOKE_ERROR_FORMAT,
         "line 3, column 1: the cell is empty; must be a number, or have a rule such as "
         "\"a=median\""},
        {"a=median", "a,label\n,0\n,1\n", YOKE_ERROR_FORMAT, "column \"a\" has no number"},
        {"1=one-hot", "\xFF,1\n2,0\n", YOKE_ERROR_FORMAT, "is no UTF-8"},
    };

    for (size_t i = 0; i < YKI_COUNT(rows); i++) {
        const yoke_dataset_open_options o = {.csv_columns = rows[i].rules};
        yoke_dataset *dataset;

        ASSERT_STATUS(rows[i].status,
                      yoke_dataset_open(text_file("t.csv", rows[i].text), &o, &dataset));
        ASSERT_DETAIL(rows[i].part);
    }
    for (size_t i = 0; i < 3; i++) {
        static const char *const bad[] = {"", "{\"columns\": [{\"name\": \"a\"}]}",
                                          "{\"columns\": [{\"name\": \"a\", \"kind\": \"auto\"}]}"};
        yoke_dataset *dataset;

        ASSERT_STATUS(YOKE_ERROR_FORMAT,
                      yoke_dataset_open(text_file("t.csv", people),
                                        &(yoke_dataset_open_options){.csv_encoding = bad[i]},
                                        &dataset));
        ASSERT_DETAIL("the encoding of columns is not one that yoke wrote");
    }
}
END_TEST

START_TEST(csv_refusals)
{
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "is empty"},
        {"1,2\n3\n", "line 2, column 1: the row ends, with fewer columns than the 2"},
        {"1,2\n3,4,5\n", "line 2, column 3: more columns than the 2"},
        {"1,a\n2,3\n", "line 2, column 2: a number among labels that are text"},
        {"1,2\n\n\n3,nan\n", "line 4, column 2: \"nan\""},
        {"a,b\n1,0\nNaN,1\n", "line 3, column 1: \"NaN\" is not a number"},
        {"1,2\n1e39,4\n", "line 2, column 1: \"1e39\" is not a finite number of 32 bits"},
        {"1,2\n-inf,4\n", "line 2, column 1: \"-inf\" is not a number"},
        {"1,2\n,4\n", "line 2, column 1: the cell is empty; must be a number"},
        {"1,2\n1,\n", "line 2, column 2: the cell is empty; must be a label"},
        {"1,2\n\"3,4\n", "line 2, column 1: a quote is not closed"},
        {"1,2\n\"3\"4,4\n", "line 2, column 1: more text after a quote"},
        {"1,2\n0x10,4\n", "\"0x10\" is not a number"},
        {"1,2\n1.2.3,4\n", "\"1.2.3\" is not a number"},
    };
    size_t before;

    for (size_t i = 0; i < YKI_COUNT(rows); i++)
        refused(text_file("t.csv", rows[i].text), NULL, YOKE_ERROR_FORMAT, rows[i].part);
    size = 0;
    put("1,2\n3,\0\n", 8);
    refused(written("t.csv", false), NULL, YOKE_ERROR_FORMAT, "line 2, column 2: a zero byte");
    before = size;
    refused(written("t.csv", true), NULL, YOKE_ERROR_UNSUPPORTED, "compressed");
    ck_assert_uint_eq(before, size);
}
END_TEST

START_TEST(numbers)
{
    static const char *const good[] = {"0",
                                       "-0",
                                       "1",
                                       "1.5",
                                       "-2e-3",
                                       "1e22",
                                       "1E23",
                                       "0.1",
                                       "123456789012345678",
                                       ".5",
                                       "5.",
                                       "+7",
                                       "3.4028235e38",
                                       "1e-45",
                                       "0.000000000000000000000000000000001",
                                       "100000000000000000000000000000000000"};
    static const char *const bad[] = {"", "-", ".", "1e", "e1", "1 2", "1,5", "nan", "0x1", "--1"};
    double value;

    for (size_t i = 0; i < YKI_COUNT(good); i++) {
        ck_assert(yki_parse_number(good[i], strlen(good[i]), &value));
        ck_assert_msg(value == strtod(good[i], NULL), "%s is %.17g", good[i], value);
    }
    for (size_t i = 0; i < YKI_COUNT(bad); i++)
        ck_assert_msg(!yki_parse_number(bad[i], strlen(bad[i]), &value), "\"%s\"", bad[i]);
    ck_assert(yki_parse_number("1e999", 5, &value) && isinf(value));
    ck_assert(yki_parse_number("1e99999999999999999999", 22, &value) && isinf(value));
    ck_assert(yki_parse_number("1e-99999999999999999999", 23, &value) && value == 0);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("tables");
    TCase *c = test_case(suite, "tables");

    tcase_add_checked_fixture(c, scratch_set_up, scratch_tear_down);
    tcase_add_test(c, csv);
    tcase_add_test(c, csv_columns);
    tcase_add_test(c, csv_integers);
    tcase_add_test(c, csv_weights);
    tcase_add_test(c, csv_rules);
    tcase_add_test(c, csv_encodings_are_kept);
    tcase_add_test(c, csv_rules_that_make_no_sense);
    tcase_add_test(c, csv_refusals);
    tcase_add_test(c, numbers);
    return suite;
}
