/* SPDX-License-Identifier: Apache-2.0
 *
 * check_json.c - the JSON writer: commas, escapes, numbers.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/json.h"
#include "support/support.h"

static char *buffer;
static size_t length;
static FILE *stream;
static yki_tool_json json;

static void
set_up(void)
{
    stream = open_memstream(&buffer, &length);
    ck_assert_ptr_nonnull(stream);
    yki_tool_json_start(&json, stream);
}

static void
tear_down(void)
{
    fclose(stream);
    free(buffer);
}

static void
assert_text(const char *expected)
{
    fflush(stream);
    ck_assert_str_eq(buffer, expected);
}

START_TEST(nests)
{
    yki_tool_json_open_array(&json, NULL);
    yki_tool_json_open_object(&json, NULL);
    yki_tool_json_integer(&json, "a", UINT64_MAX);
    yki_tool_json_open_array(&json, "b");
    yki_tool_json_close_array(&json);
    yki_tool_json_bool(&json, "c", true);
    yki_tool_json_close_object(&json);
    yki_tool_json_string(&json, NULL, NULL);
    yki_tool_json_close_array(&json);
    yki_tool_json_end(&json);
    assert_text("[\n  {\n    \"a\": 18446744073709551615,\n    \"b\": [],\n    \"c\": true\n  },\n"
                "  null\n]\n");
}
END_TEST

/* What a driver may call its device, and what JSON makes of it. */
static const struct {
    const char *text, *expected;
} strings[] = {
    {"", "\"\""},
    {"plain", "\"plain\""},
    {"a \"b\" \\c/", "\"a \\\"b\\\" \\\\c/\""},
    {"tab\tnewline\nbell\a\x1b[1m\x7f", "\"tab\\u0009newline\\u000abell\\u0007\\u001b[1m\\u007f\""},
    {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
    {"Latin-1 \xae.", "\"Latin-1 \\ufffd.\""},
    {"cut \xe2\x82", "\"cut \\ufffd\\ufffd\""},
    {"overlong \xc0\xaf", "\"overlong \\ufffd\\ufffd\""},
    {"overlong \xe0\x80\xaf", "\"overlong \\ufffd\\ufffd\\ufffd\""},
    {"surrogate \xed\xa0\x80", "\"surrogate \\ufffd\\ufffd\\ufffd\""},
    {"above \xf4\x90\x80\x80", "\"above \\ufffd\\ufffd\\ufffd\\ufffd\""},
    {"\xff", "\"\\ufffd\""},
};

START_TEST(escapes)
{
    yki_tool_json_string(&json, NULL, strings[_i].text);
    assert_text(strings[_i].expected);
}
END_TEST

static const struct {
    double value;
    const char *expected;
} reals[] = {
    {0.0, "0"},
    {0.1, "0.1"},
    {1.0 / 3.0, "0.3333333333333333"},
    {-2.5e-300, "-2.5e-300"},
    {123456789012345680.0, "1.2345678901234568e+17"},
    {INFINITY, "null"},
    {NAN, "null"},
};

START_TEST(writes_reals)
{
    yki_tool_json_real(&json, NULL, reals[_i].value);
    assert_text(reals[_i].expected);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("json");
    TCase *tcase = test_case(suite, "writer");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, nests);
    tcase_add_loop_test(tcase, escapes, 0, (int)(sizeof strings / sizeof strings[0]));
    tcase_add_loop_test(tcase, writes_reals, 0, (int)(sizeof reals / sizeof reals[0]));
    return suite;
}
