/* SPDX-License-Identifier: Apache-2.0
 *
 * check_table.c - aligned columns, sizes for people, hostile names.
 */
#include <stdlib.h>
#include <string.h>

#include "../tools/table.h"
#include "support/support.h"

static void
assert_prints(yki_tool_table *table, const char *expected)
{
    char *buffer = NULL;
    size_t length;
    FILE *stream = open_memstream(&buffer, &length);

    ck_assert_ptr_nonnull(stream);
    ck_assert(yki_tool_table_print(table, stream));
    fclose(stream);
    ck_assert_str_eq(buffer, expected);
    free(buffer);
}

START_TEST(aligns)
{
    yki_tool_table table;

    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "ID", false);
    yki_tool_table_column(&table, "CUS", true);
    yki_tool_table_column(&table, "NOTES", false);
    yki_tool_table_cell(&table, "cpu:%d", 0);
    yki_tool_table_cell(&table, "12345");
    yki_tool_table_cell(&table, "%s", "");
    yki_tool_table_cell(&table, "\xc3\xa9");
    yki_tool_table_cell(&table, "1");
    yki_tool_table_cell(&table, "last");
    assert_prints(&table, "ID       CUS  NOTES\n"
                          "cpu:0  12345\n"
                          "\xc3\xa9          1  last\n");
}
END_TEST

/* More rows than the first allocation holds. */
START_TEST(grows)
{
    enum { ROWS = 1000 };
    yki_tool_table table;
    char *expected = calloc(ROWS + 2, 8), *end = expected;

    ck_assert_ptr_nonnull(expected);
    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "N", false);
    end += sprintf(end, "N\n");
    for (int i = 0; i < ROWS; i++) {
        yki_tool_table_cell(&table, "%d", i);
        end += sprintf(end, "%d\n", i);
    }
    assert_prints(&table, expected);
    free(expected);
}
END_TEST

/* An escape sequence, a C1 control, a newline and a byte that is not UTF-8. */
START_TEST(hides_controls)
{
    yki_tool_table table;

    yki_tool_table_start(&table);
    yki_tool_table_column(&table, "NAME", false);
    yki_tool_table_column(&table, "X", false);
    yki_tool_table_cell(&table, "%s", "\x1b[2J\xc2\x9b\n\xff");
    yki_tool_table_cell(&table, "x");
    assert_prints(&table, "NAME     X\n"
                          "?[2J???  x\n");
}
END_TEST

static const struct {
    uint64_t bytes;
    const char *expected;
} sizes[] = {
    {0, "0 B"},
    {1023, "1023 B"},
    {1024, "1 KiB"},
    {268435456, "256 MiB"},
    {1610612736, "1.5 GiB"},
    {UINT64_MAX, "16 EiB"},
};

START_TEST(writes_sizes)
{
    char text[32];

    ck_assert_str_eq(yki_tool_bytes(sizes[_i].bytes, text), sizes[_i].expected);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("table");
    TCase *tcase = test_case(suite, "table");

    tcase_add_test(tcase, aligns);
    tcase_add_test(tcase, grows);
    tcase_add_test(tcase, hides_controls);
    tcase_add_loop_test(tcase, writes_sizes, 0, (int)(sizeof sizes / sizeof sizes[0]));
    return suite;
}
