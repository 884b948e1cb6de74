/* SPDX-License-Identifier: Apache-2.0
 *
 * jsonpick.c - checks that standard input is JSON, and prints values of it.
 *
 *   jsonpick [PATH]...      PATH: keys and array places with points, "0.quota"
 *
 * Written from RFC 8259 alone, independent of the writer that it is used to
 * test, and strict: UTF-8, no control characters, no doubled keys in an object,
 * one value and nothing after it. Values are printed as they stand in the text,
 * strings without their quotes; "#" as the last key is the number of members. Exit
 * status: 0, 1 (not JSON), 3 (no such value).
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SIZE = 1 << 20, MAX_DEPTH = 64, MAX_KEYS = 64 };

static char text[MAX_SIZE + 1];
static size_t at;

/* What is looked for, and where it was found. */
static const char *wanted;
static size_t found, found_end;
static bool is_found;

static void
bad(const char *why)
{
    fprintf(stderr, "jsonpick: byte %zu: %s: %.30s\n", at, why, text + at);
    exit(1);
}

static void
skip_space(void)
{
    at += strspn(text + at, " \t\r\n");
}

static void
expect(char c)
{
    if (text[at] != c)
        bad("another character was expected");
    at++;
}

static void
check_utf8(void)
{
    const unsigned char *s = (const unsigned char *)text + at;
    unsigned long code;
    unsigned more;

    if (s[0] < 0x80) {
        at++;
        return;
    }
    more = s[0] >= 0xf0 ? 3 : s[0] >= 0xe0 ? 2 : 1;
    code = s[0] & (0x3fu >> more);
    if (s[0] < 0xc0 || s[0] > 0xf7)
        bad("not UTF-8");
    for (unsigned i = 1; i <= more; i++) {
        if ((s[i] & 0xc0) != 0x80)
            bad("not UTF-8");
        code = code << 6 | (s[i] & 0x3f);
    }
    if (code < (more == 1   ? 0x80u
                : more == 2 ? 0x800u
                            : 0x10000u) ||
        code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        bad("not UTF-8");
    at += more + 1;
}

/* Returns where the text between the quotes begins; *length is its length. */
static size_t
string(size_t *length)
{
    size_t start = at + 1;

    expect('"');
    while (text[at] != '"') {
        if ((unsigned char)text[at] < 0x20)
            bad("control character or end in a string");
        if (text[at] != '\\') {
            check_utf8();
        } else if (text[at + 1] == 'u') {
            if (strspn(text + at + 2, "0123456789abcdefABCDEF") < 4)
                bad("bad \\u");
            at += 6;
        } else {
            if (!text[at + 1] || !strchr("\"\\/bfnrt", text[at + 1]))
                bad("bad escape");
            at += 2;
        }
    }
    *length = at - start;
    at++;
    return start;
}

static void
digits(void)
{
    size_t count = strspn(text + at, "0123456789");

    if (count == 0)
        bad("a digit was expected");
    at += count;
}

static void
number(void)
{
    if (text[at] == '-')
        at++;
    if (text[at] == '0')
        at++;
    else
        digits();
    if (text[at] == '.') {
        at++;
        digits();
    }
    if (text[at] == 'e' || text[at] == 'E') {
        at++;
        if (text[at] == '+' || text[at] == '-')
            at++;
        digits();
    }
}

static bool
literal(const char *word)
{
    if (strncmp(text + at, word, strlen(word)) != 0)
        return false;
    at += strlen(word);
    return true;
}

/* If `path` begins with this key, what follows it; else NULL. */
static const char *
below(const char *path, const char *key, size_t length)
{
    if (!path || strncmp(path, key, length) != 0)
        return NULL;
    if (path[length] == '.')
        return path + length + 1;
    return path[length] == '\0' ? path + length : NULL;
}

static void value(const char *path, unsigned depth);

/* `path` asks for "#": the count stands for the value. */
static void
count_members(const char *path, unsigned members)
{
    if (path && strcmp(path, "#") == 0)
        printf("%u\n", members);
}

static void
object(const char *path, unsigned depth)
{
    size_t keys[MAX_KEYS], lengths[MAX_KEYS];
    unsigned members = 0;

    expect('{');
    skip_space();
    while (text[at] != '}') {
        if (members == MAX_KEYS)
            bad("more members than this checker takes");
        keys[members] = string(&lengths[members]);
        for (unsigned i = 0; i < members; i++)
            if (lengths[i] == lengths[members] &&
                memcmp(text + keys[i], text + keys[members], lengths[i]) == 0)
                bad("a key twice, before");
        skip_space();
        expect(':');
        value(below(path, text + keys[members], lengths[members]), depth + 1);
        members++;
        if (text[at] == '}')
            break;
        expect(',');
        skip_space();
        if (text[at] == '}')
            bad("comma before the end");
    }
    at++;
    count_members(path, members);
}

static void
array(const char *path, unsigned depth)
{
    unsigned members = 0;
    char key[16];

    expect('[');
    skip_space();
    while (text[at] != ']') {
        snprintf(key, sizeof key, "%u", members++);
        value(below(path, key, strlen(key)), depth + 1);
        if (text[at] == ']')
            break;
        expect(',');
        skip_space();
        if (text[at] == ']')
            bad("comma before the end");
    }
    at++;
    count_members(path, members);
}

static void
value(const char *path, unsigned depth)
{
    size_t start, length;

    if (depth > MAX_DEPTH)
        bad("nested too deeply");
    skip_space();
    start = at;
    if (text[at] == '{')
        object(path, depth);
    else if (text[at] == '[')
        array(path, depth);
    else if (text[at] == '"')
        string(&length);
    else if (!literal("true") && !literal("false") && !literal("null"))
        number();
    if (path && *path == '\0') {
        is_found = true;
        found = start + (text[start] == '"');
        found_end = at - (text[start] == '"');
    } else if (path && strcmp(path, "#") == 0) {
        is_found = true;
        found = found_end = 0;
    }
    skip_space();
}

static void
check(const char *path)
{
    wanted = path;
    at = 0;
    is_found = false;
    value(wanted, 0);
    if (text[at] != '\0')
        bad("something follows");
}

int
main(int argc, char **argv)
{
    size_t size = fread(text, 1, MAX_SIZE, stdin);

    if (size == MAX_SIZE || strlen(text) != size) {
        fprintf(stderr, "jsonpick: too long, or a zero byte\n");
        return 1;
    }
    check(NULL);
    for (int i = 1; i < argc; i++) {
        check(argv[i]);
        if (!is_found) {
            fprintf(stderr, "jsonpick: there is no %s\n", argv[i]);
            return 3;
        }
        if (found_end > found)
            printf("%.*s\n", (int)(found_end - found), text + found);
        else if (!strchr(argv[i], '#'))
            printf("\n");
    }
    return 0;
}
