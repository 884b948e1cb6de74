/* SPDX-License-Identifier: Apache-2.0
 *
 * pieces.c - cuts a text into pieces, which BPE merges each by itself.
 *
 * Does by hand what two regular expressions do, of GPT-2
 *
 *   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * and of Llama 3 (others have \p{N} in place of \p{N}{1,3})
 *
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 *   \s*[\r\n]+|\s+(?!\S)|\s+
 *
 * A character is looked at once or twice, so long runs take linear time.
 */
#include "data/tokenizer.h"

typedef struct look {
    const unsigned char *text;
    size_t length;
} look;

/* The class of the character at `at`, its code and its length; at the end OTHER and length 0. */
static yki_character
class_at(const look *l, size_t at, size_t *size, int32_t *code)
{
    *code = -1;
    *size = 0;
    if (at >= l->length)
        return YKI_CHARACTER_OTHER;
    *size = yki_utf8_next(l->text + at, l->length - at, code);
    return yki_character_of(*code);
}

/* Where a run of at most `most` characters of a class ends. */
static size_t
run(const look *l, size_t at, yki_character class, size_t most)
{
    size_t size;
    int32_t code;

    while (most-- > 0 && class_at(l, at, &size, &code) == class && size > 0)
        at += size;
    return at;
}

/* The length of 's, 't, 're, 've, 'm, 'll or 'd at the start; 0: there is none. The long s is an s
 * where case does not matter. */
static size_t
contraction(const look *l, bool any_case)
{
    const unsigned char *t = l->text;
    const int lower = any_case ? 0x20 : 0;
    int a, b;

    if (l->length < 2 || t[0] != '\'')
        return 0;
    a = t[1] | lower;
    b = l->length > 2 ? t[2] | lower : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l'))
        return 3;
    return any_case && l->length > 2 && t[1] == 0xC5 && t[2] == 0xBF ? 3 : 0;
}

/* The length of the spaces at the start, without the last one if a word follows. With `lines` they
 * end after the last end of a line, if there is one. */
static size_t
spaces(const look *l, bool lines)
{
    size_t at = 0, last = 0, end_of_line = 0, size;
    int32_t code;

    while (class_at(l, at, &size, &code) == YKI_CHARACTER_SPACE) {
        last = at;
        at += size;
        if (code == '\r' || code == '\n')
            end_of_line = at;
    }
    if (lines && end_of_line)
        return end_of_line;
    return at < l->length && last > 0 ? last : at;
}

static size_t
next_gpt2(const look *l)
{
    size_t size, next_size, found = contraction(l, false);
    yki_character class, next;
    int32_t code;

    if (found)
        return found;
    class = class_at(l, 0, &size, &code);
    if (class != YKI_CHARACTER_SPACE)
        return run(l, 0, class, SIZE_MAX);
    next = class_at(l, size, &next_size, &code);
    if (l->text[0] == ' ' && next_size && next != YKI_CHARACTER_SPACE)
        return run(l, size, next, SIZE_MAX);
    return spaces(l, false);
}

static size_t
next_llama3(const look *l, size_t digits)
{
    size_t size, next_size, at, found = contraction(l, true);
    yki_character class, next;
    int32_t code, next_code;

    if (found)
        return found;
    class = class_at(l, 0, &size, &code);
    next = class_at(l, size, &next_size, &next_code);
    if (class == YKI_CHARACTER_LETTER)
        return run(l, 0, class, SIZE_MAX);
    if (class == YKI_CHARACTER_NUMBER)
        return run(l, 0, class, digits);
    if (next == YKI_CHARACTER_LETTER && code != '\r' && code != '\n')
        return run(l, size, next, SIZE_MAX);
    if (class == YKI_CHARACTER_OTHER || (code == ' ' && next_size && next == YKI_CHARACTER_OTHER)) {
        at = run(l, class == YKI_CHARACTER_OTHER ? 0 : size, YKI_CHARACTER_OTHER, SIZE_MAX);
        while (at < l->length && (l->text[at] == '\r' || l->text[at] == '\n'))
            at++;
        return at;
    }
    return spaces(l, true);
}

size_t
yki_next_piece(yki_cut cut, const unsigned char *text, size_t length)
{
    const look l = {text, length};

    switch (cut) {
    case YKI_CUT_GPT2:
        return next_gpt2(&l);
    case YKI_CUT_LLAMA3:
        return next_llama3(&l, 3);
    case YKI_CUT_LLAMA3_DIGITS:
        return next_llama3(&l, 1);
    case YKI_CUT_NONE:
        break;
    }
    return length;
}
