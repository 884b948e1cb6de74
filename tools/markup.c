/* SPDX-License-Identifier: Apache-2.0
 *
 * markup.c - see markup.h.
 */
#include <stdarg.h>
#include <string.h>

#include "json.h"
#include "markup.h"

enum { SENTENCE = 512 };

/* The bytes of the character that `text` begins with; 0: XML has no such character. */
static unsigned
length_of(const char *text)
{
    const unsigned char first = (unsigned char)text[0];

    if (first < 0x20)
        return first == '\n' || first == '\t';
    if (strncmp(text, "\xEF\xBF\xBE", 3) == 0 || strncmp(text, "\xEF\xBF\xBF", 3) == 0)
        return 0; /* U+FFFE and U+FFFF */
    return yki_tool_utf8_length(text);
}

void
yki_tool_markup(FILE *stream, const char *text)
{
    unsigned length;

    for (; text && *text; text += length ? length : 1) {
        length = length_of(text);
        if (length == 0)
            fputc('?', stream);
        else if (strchr("<>&\"'", *text))
            fprintf(stream, "&#%d;", *text);
        else
            fwrite(text, 1, length, stream);
    }
}

void
yki_tool_markup_print(FILE *stream, const char *format, ...)
{
    char text[SENTENCE];
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    yki_tool_markup(stream, text);
}
