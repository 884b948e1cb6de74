/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize.c - `yoke tokenize FILE`: a text as tokens, tokens as text, or a tokenizer of
 * a text.
 *
 * Tokens are written as numbers, one a line, or to a file of llm.c.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "source.h"

enum { HEADER = 1024, NARROW = 20240520, WIDE = 20240801, MOST_VOCABULARY = 1 << 20 };

typedef struct request {
    const char *text, *tokenizer, *out;
    unsigned vocabulary;
    bool train, decode, characters;
} request;

static const yki_tool_option options[] = {
    {"tokenizer", 't', "NAME", "bytes (default), characters, or a file",
     TOOL_TEXT(request, tokenizer)},
    {"decode", 0, NULL, "turn tokens into text", TOOL_FLAG(request, decode)},
    {"train", 0, NULL, "make a tokenizer of the text", TOOL_FLAG(request, train)},
    {"vocabulary", 0, "N", "of that: most tokens (default: 4096)",
     TOOL_COUNT(request, vocabulary, 257, MOST_VOCABULARY)},
    {"characters", 0, NULL, "of that: a token for each character", TOOL_FLAG(request, characters)},
    {"out", 'o', "FILE", "write there, not to standard output", TOOL_TEXT(request, out)},
    {0},
};

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    int status = yki_tool_read(self, argc, argv, w);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, "file",
                                        "no text is given; must be a file or a folder", &w->text);
    if (status != TOOL_OK)
        return status;
    if (w->train && (w->decode || w->tokenizer))
        return yki_tool_usage(self, "--train and --%s are given; must be one of both",
                              w->decode ? "decode" : "tokenizer");
    if (!w->train && (w->vocabulary || w->characters))
        return yki_tool_usage(self, "--%s is given without --train; must go with it",
                              w->vocabulary ? "vocabulary" : "characters");
    if (w->characters && w->vocabulary)
        return yki_tool_usage(self, "--vocabulary and --characters are given; must be one of both");
    if (w->decode && w->tokenizer && strcmp(w->tokenizer, "characters") == 0)
        return yki_tool_usage(self, "the characters of a text are not in its tokens; must be the "
                                    "file of their tokenizer");
    if (w->train && !w->out)
        return yki_tool_usage(self, "no file is given for the tokenizer; must be --out=FILE");
    return TOOL_OK;
}

static yoke_status
fail_io(const char *path)
{
    char sentence[512];

    snprintf(sentence, sizeof sentence, "%s: %s", path, strerror(errno));
    return yoke_fail(YOKE_ERROR_IO, sentence);
}

static yoke_status
train(const yki_tool_command *self, const request *w)
{
    yoke_tokenizer_options o;
    yoke_tokenizer *t = NULL;
    yoke_status status;

    memset(&o, 0, sizeof o);
    o.kind = w->characters ? YOKE_TOKENIZER_CHARACTERS : YOKE_TOKENIZER_BPE;
    o.vocabulary = w->vocabulary;
    status = yoke_tokenizer_train(w->text, &o, &t);
    if (!status)
        status = yoke_tokenizer_save(t, w->out);
    if (!status)
        yki_tool_note(self, "%s: %lld tokens", w->out, (long long)yoke_tokenizer_vocabulary(t));
    yoke_tokenizer_destroy(t);
    return status;
}

/* ---- to tokens ---- */

static yoke_status
encode(const yki_tool_command *self, const request *w, const yoke_tokenizer *t)
{
    int32_t *tokens = NULL;
    size_t length, count;
    int64_t written;
    char *text;
    yoke_status status;

    if (w->out) {
        status = yoke_tokenizer_encode_file(t, w->text, w->out, &written);
        if (!status)
            yki_tool_note(self, "%s: %lld tokens", w->out, (long long)written);
        return status;
    }
    status = yki_tool_read_text(w->text, "a text", &text, &length);
    if (status)
        return status;
    status = yoke_tokenizer_encode(t, text, length, &tokens, &count);
    for (size_t i = 0; !status && i < count; i++)
        printf("%d\n", (int)tokens[i]);
    yoke_free(tokens);
    free(text);
    return status;
}

/* ---- to text ---- */

static uint32_t
number_at(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    uint32_t number = 0;

    for (size_t i = 0; i < size; i++)
        number |= (uint32_t)bytes[i] << 8 * i;
    return number;
}

/* Reads the tokens of a file of llm.c. */
static size_t
take_binary(const char *text, size_t length, int32_t *tokens)
{
    const size_t size = number_at(text, 4) == WIDE ? 4 : 2, count = (length - HEADER) / size;

    for (size_t i = 0; i < count; i++)
        tokens[i] = (int32_t)number_at(text + HEADER + i * size, size);
    return count;
}

static bool
is_binary(const char *text, size_t length)
{
    return length >= HEADER && (number_at(text, 4) == NARROW || number_at(text, 4) == WIDE);
}

/* Reads numbers with spaces or ends of lines between them. */
static yoke_status
take_numbers(const char *path, const char *text, int32_t *tokens, size_t *count)
{
    char sentence[512], *end;

    for (*count = 0; *(text += strspn(text, " \t\r\n,")); text = end) {
        const long number = strtol(text, &end, 10);

        if (end == text || number < 0 || number > INT_MAX) {
            snprintf(sentence, sizeof sentence, "%s: \"%.20s\" is no token; must be a number", path,
                     text);
            return yoke_fail(YOKE_ERROR_FORMAT, sentence);
        }
        tokens[(*count)++] = (int32_t)number;
    }
    return YOKE_OK;
}

static yoke_status
write_text(const char *path, const char *text, size_t length)
{
    FILE *file = path ? fopen(path, "wb") : stdout;
    bool good = file && fwrite(text, 1, length, file) == length;

    if (file && path)
        good = fclose(file) == 0 && good;
    return good ? YOKE_OK : fail_io(path ? path : "standard output");
}

static yoke_status
decode(const request *w, const yoke_tokenizer *t)
{
    char *numbers, *text = NULL;
    size_t length, count, size;
    int32_t *tokens;
    yoke_status status = yki_tool_read_text(w->text, "tokens", &numbers, &length);

    if (status)
        return status;
    tokens = malloc((length / 2 + 1) * sizeof *tokens);
    if (!tokens)
        status = yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for tokens");
    else if (is_binary(numbers, length))
        count = take_binary(numbers, length, tokens);
    else
        status = take_numbers(w->text, numbers, tokens, &count);
    if (!status)
        status = yoke_tokenizer_decode(t, tokens, count, &text, &size);
    if (!status)
        status = write_text(w->out, text, size);
    yoke_free(text);
    free(tokens);
    free(numbers);
    return status;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {0};
    int status = read_arguments(self, argc, argv, &wanted);
    yoke_tokenizer *tokenizer = NULL;
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, YOKE_LOG_WARNING);
    if (wanted.train) {
        failed = train(self, &wanted);
    } else {
        failed = yki_tool_open_tokenizer(wanted.tokenizer ? wanted.tokenizer : "bytes", wanted.text,
                                         &tokenizer);
        if (!failed)
            failed = wanted.decode ? decode(&wanted, tokenizer) : encode(self, &wanted, tokenizer);
        yoke_tokenizer_destroy(tokenizer);
    }
    return failed ? yki_tool_fail(self, failed) : TOOL_OK;
}

const yki_tool_command yki_tool_tokenize = {
    .name = "yoke tokenize",
    .synopsis = "[OPTION]... FILE",
    .summary = "turn text into tokens, and back",
    .description =
        "Write the tokens of a text, or with --decode the text of tokens. With --train,\n"
        "make a tokenizer: byte-level BPE, or one of characters.",
    .options = options,
    .run = run,
    .example = "yoke tokenize --train --vocabulary=1024 --out=tokenizer.json text",
};
