/* SPDX-License-Identifier: Apache-2.0
 *
 * generate.c - `yoke generate --model=FILE --prompt=TEXT`: a language model goes on writing.
 *
 * Each token is written as soon as it is there, apart from bytes that may begin the text of --stop,
 * and from a character of UTF-8 of which a part is still to come.
 * The model's tokenizer makes tokens of texts; of a model without one a token is a byte. With
 * --tokens prompts and results are numbers. Several prompts, one a line of a file, are continued
 * side by side, and each is written when all have ended. The generator goes on with a text that
 * ended at --stop until then, and nobody looks at it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "models.h"
#include "training.h"

enum { MOST_PROMPTS = 256, BYTES = 256, MOST = 1 << 30 };

typedef struct request {
    const char *model, *prompt, *prompts, *stop;
    yki_tool_training training;
    unsigned count, length, top_k, seed;
    double temperature, top_p;
    bool tokens;
} request;

static const yki_tool_option options[] = {
    {"model", 'm', "FILE", "the trained model, or a folder of Hugging Face",
     TOOL_TEXT(request, model)},
    {"prompt", 'p', "TEXT", "the text to continue", TOOL_TEXT(request, prompt)},
    {"prompts", 'f', "FILE", "texts to continue side by side, one in each line",
     TOOL_TEXT(request, prompts)},
    {"count", 'n', "N", "how many lines of it to take (default: all)",
     TOOL_COUNT(request, count, 1, MOST_PROMPTS)},
    {"length", 'l', "N", "tokens to write, at most (default: 200)",
     TOOL_COUNT(request, length, 1, MOST)},
    {"temperature", 't', "X", "0 for the most probable token, always (default: 0.8)",
     TOOL_REAL(request, temperature, 0, 100)},
    {"top-k", 'k', "N", "draw among the N most probable tokens (default: all)",
     TOOL_COUNT(request, top_k, 1, MOST)},
    {"top-p", 'q', "X", "draw among those that have this probability together (default: 1)",
     TOOL_REAL(request, top_p, 0, 1)},
    {"seed", 's', "N", "other numbers, other texts (default: 0)",
     TOOL_COUNT(request, seed, 0, UINT32_MAX)},
    {"stop", 'e', "TEXT", "end before this text; with --tokens, before any of these",
     TOOL_TEXT(request, stop)},
    {"tokens", 0, NULL, "prompts, stops and results are numbers of tokens",
     TOOL_FLAG(request, tokens)},
    {0},
};

/* Of the bytes those from `held` on are not written yet, as a stop may begin there, and no
 * beginning of a character before it. */
typedef struct text {
    int32_t *tokens;
    size_t count, prompt;
    char *bytes;
    size_t size, held, written;
    bool ended;
} text;

typedef struct session {
    const request *wanted;
    yoke_model *model;
    yoke_context *context;
    yoke_generator *generator;
    const yoke_tokenizer *tokenizer; /* the model's, or NULL */
    text texts[MOST_PROMPTS], stops;
    size_t count;
    double seconds;
} session;

/* ---- texts and tokens ---- */

static yoke_status
add_token(text *t, long token)
{
    int32_t *more = realloc(t->tokens, (t->count + 1) * sizeof *more);

    if (!more)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for tokens");
    more[t->count++] = (int32_t)token;
    t->tokens = more;
    return YOKE_OK;
}

/* Reads numbers with anything but digits between them. */
static yoke_status
read_numbers(const char *from, text *t)
{
    yoke_status status = YOKE_OK;
    char sentence[160], *end;

    while (!status) {
        long token;

        from += strspn(from, " \t\r\n,");
        if (!*from)
            break;
        errno = 0;
        token = strtol(from, &end, 10);
        if (end == from || errno || token < 0 || token > INT32_MAX) {
            snprintf(sentence, sizeof sentence,
                     "\"%.40s\" is no number of a token; must be whole numbers, with --tokens",
                     from);
            return yoke_fail(YOKE_ERROR_VALUE, sentence);
        }
        status = add_token(t, token);
        from = end;
    }
    return status;
}

static yoke_status
encode_text(const yoke_tokenizer *tokenizer, const char *from, text *t)
{
    int32_t *tokens = NULL;
    size_t count = 0;
    yoke_status status = yoke_tokenizer_encode(tokenizer, from, strlen(from), &tokens, &count);

    for (size_t i = 0; i < count && !status; i++)
        status = add_token(t, tokens[i]);
    yoke_free(tokens);
    return status;
}

static yoke_status
encode(const session *s, const char *from, text *t)
{
    yoke_status status = YOKE_OK;

    if (s->wanted->tokens)
        status = read_numbers(from, t);
    else if (s->tokenizer)
        status = encode_text(s->tokenizer, from, t);
    else
        for (; *from && !status; from++)
            status = add_token(t, (unsigned char)*from);
    t->prompt = t->count;
    return status;
}

/* ---- what is written ---- */

static yoke_status
add_bytes(text *t, const char *bytes, size_t size)
{
    char *more = realloc(t->bytes, t->size + size + 1);

    if (!more)
        return yoke_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a text");
    memcpy(more + t->size, bytes, size);
    t->bytes = more;
    t->size += size;
    return YOKE_OK;
}

static yoke_status
spell_token(const session *s, text *t, int32_t token)
{
    const char *bytes;
    char number[16];
    size_t size = 0;

    if (s->wanted->tokens) {
        snprintf(number, sizeof number, "%s%d", t->size ? " " : "", token);
        return add_bytes(t, number, strlen(number));
    }
    if (!s->tokenizer) {
        number[0] = (char)token;
        return add_bytes(t, number, 1);
    }
    bytes = yoke_tokenizer_get_text(s->tokenizer, token, &size);
    return bytes ? add_bytes(t, bytes, size) : YOKE_OK;
}

/* The prompt's bytes begin no stop. */
static yoke_status
spell_prompt(const session *s, text *t)
{
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < t->prompt && !status; i++)
        status = spell_token(s, t, t->tokens[i]);
    t->held = t->size;
    return status;
}

/* Moves `held` to the first byte from which on all agrees with the stop, and ends the text there if
 * it is all of the stop. No later byte can begin it then, as less follows. */
static void
find_stop(const session *s, text *t)
{
    const char *stop = s->wanted->tokens || !s->wanted->stop ? "" : s->wanted->stop;
    const size_t length = strlen(stop);

    if (length == 0) {
        t->held = t->size;
        return;
    }
    for (; t->held < t->size; t->held++) {
        const size_t rest = t->size - t->held;

        if (memcmp(t->bytes + t->held, stop, rest < length ? rest : length) != 0)
            continue;
        if (rest >= length) {
            t->size = t->held;
            t->ended = true;
        }
        return;
    }
}

static yoke_status
take_token(const session *s, text *t, int32_t token)
{
    yoke_status status = add_token(t, token);

    if (!status)
        status = spell_token(s, t, token);
    if (!status)
        find_stop(s, t);
    return status;
}

/* How many bytes at the end begin a character of UTF-8 that has more. */
static size_t
part_of_character(const char *bytes, size_t size)
{
    for (size_t part = 1; part <= size && part < 4; part++) {
        const unsigned char byte = (unsigned char)bytes[size - part];
        const size_t whole = byte < 0xc2 || byte > 0xf4 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;

        if (byte < 0x80 || byte > 0xbf)
            return whole > part ? part : 0;
    }
    return 0;
}

static void
write_until(text *t, size_t end)
{
    if (t->written < end)
        fwrite(t->bytes + t->written, 1, end - t->written, stdout);
    t->written = end;
}

/* Now, and not when the stream's buffer is full. */
static void
write_what_is_there(text *t)
{
    write_until(t, t->held - part_of_character(t->bytes, t->held));
    fflush(stdout);
}

/* ---- prompts ---- */

static yoke_status
read_prompts(session *s)
{
    const request *w = s->wanted;
    FILE *file = fopen(w->prompts, "r");
    yoke_status status = YOKE_OK;
    size_t most = w->count ? w->count : MOST_PROMPTS, room = 0;
    char sentence[512], *line = NULL;
    ssize_t length;

    if (!file) {
        snprintf(sentence, sizeof sentence, "%.400s: %s", w->prompts, strerror(errno));
        return yoke_fail(YOKE_ERROR_IO, sentence);
    }
    while (!status && s->count < most && (length = getline(&line, &room, file)) >= 0) {
        while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
            line[--length] = '\0';
        if (length > 0)
            status = encode(s, line, &s->texts[s->count++]);
    }
    free(line);
    fclose(file);
    if (!status && s->count == 0) {
        snprintf(sentence, sizeof sentence, "%.400s has no prompt; must have one in each line",
                 w->prompts);
        status = yoke_fail(YOKE_ERROR_VALUE, sentence);
    }
    return status;
}

static yoke_status
take_prompts(session *s)
{
    const request *w = s->wanted;
    yoke_status status = w->tokens && w->stop ? read_numbers(w->stop, &s->stops) : YOKE_OK;

    if (status)
        return status;
    if (w->prompts)
        return read_prompts(s);
    s->count = 1;
    return encode(s, w->prompt, &s->texts[0]);
}

static yoke_status
check_vocabulary(const session *s)
{
    int64_t vocabulary = yoke_generator_vocabulary(s->generator);
    char sentence[200];

    if (s->wanted->tokens || s->tokenizer || vocabulary <= BYTES)
        return YOKE_OK;
    snprintf(sentence, sizeof sentence,
             "the model has %lld tokens, more than a byte has values; give and get numbers with "
             "--tokens",
             (long long)vocabulary);
    return yoke_fail(YOKE_ERROR_UNSUPPORTED, sentence);
}

/* ---- writing ---- */

static double
now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static yoke_status
start(session *s)
{
    const request *w = s->wanted;
    yoke_sampling sampling;
    yoke_prompt prompts[MOST_PROMPTS];

    memset(&sampling, 0, sizeof sampling);
    sampling.temperature = (float)w->temperature;
    sampling.top_k = (int32_t)w->top_k;
    sampling.top_p = (float)w->top_p;
    sampling.seed = w->seed;
    sampling.stops = s->stops.tokens;
    sampling.stop_count = s->stops.count;
    sampling.length = w->length;
    for (size_t i = 0; i < s->count; i++) {
        prompts[i].tokens = s->texts[i].tokens;
        prompts[i].count = (int64_t)s->texts[i].count;
    }
    return yoke_generator_start(s->generator, prompts, s->count, &sampling);
}

/* Takes the next token of each text, and counts those that go on. */
static yoke_status
write_next(session *s, size_t *going)
{
    int32_t tokens[MOST_PROMPTS];
    size_t running;
    yoke_status status = yoke_generator_next(s->generator, tokens, &running);

    *going = 0;
    for (size_t i = 0; !status && i < s->count; i++) {
        text *t = &s->texts[i];

        t->ended = t->ended || tokens[i] < 0;
        if (!t->ended)
            status = take_token(s, t, tokens[i]);
        *going += !t->ended;
    }
    if (!status && s->count == 1)
        write_what_is_there(&s->texts[0]);
    if (!status && !running)
        *going = 0;
    return status;
}

static yoke_status
write_all(session *s)
{
    size_t going = s->count;
    yoke_status status = start(s);

    for (size_t i = 0; !status && i < s->count; i++)
        status = spell_prompt(s, &s->texts[i]);
    if (!status && s->count == 1)
        write_what_is_there(&s->texts[0]);
    s->seconds = now();
    while (!status && going && !ferror(stdout))
        status = write_next(s, &going);
    s->seconds = now() - s->seconds;
    for (size_t i = 0; i < s->count; i++) {
        text *t = &s->texts[i];

        if (status && t->written == 0)
            continue;
        write_until(t, t->size);
        putchar('\n');
    }
    return status;
}

static yoke_status
generate(session *s)
{
    const request *w = s->wanted;
    yoke_generator_options o;
    yoke_status status = yki_tool_load_model(w->model, &s->model);

    memset(&o, 0, sizeof o);
    if (!status && w->training.adapters)
        status = yoke_model_load_adapters(s->model, w->training.adapters);
    if (!status) {
        s->tokenizer = yoke_model_get_tokenizer(s->model);
        status = take_prompts(s);
        o.streams = (int64_t)s->count;
    }
    if (!status)
        status = yoke_context_create(NULL, &s->context);
    if (!status)
        status =
            yoke_generator_create(s->context, w->training.devices, s->model, &o, &s->generator);
    if (!status)
        status = check_vocabulary(s);
    return status ? status : write_all(s);
}

static int
read_arguments(const yki_tool_command *self, int argc, char **argv, request *w)
{
    int status = yki_tool_read(self, argc, argv, w);

    if (status == TOOL_OK)
        status = yki_tool_read_argument(self, argc, argv, NULL, NULL, NULL);
    if (status != TOOL_OK)
        return status;
    if (!w->model)
        return yki_tool_usage(self, "no model is given; must be --model=FILE, a file that \"yoke "
                                    "train --out\" wrote");
    if (!w->prompt == !w->prompts)
        return yki_tool_usage(self, "%s; must be --prompt=TEXT or --prompts=FILE",
                              w->prompt ? "two kinds of prompts are given" : "no prompt is given");
    if (w->count && !w->prompts)
        return yki_tool_usage(self, "--count is for --prompts=FILE alone");
    return TOOL_OK;
}

static int
run(const yki_tool_command *self, int argc, char **argv)
{
    request wanted = {.length = 200, .temperature = 0.8, .top_p = 1};
    session s = {.wanted = &wanted};
    int status = read_arguments(self, argc, argv, &wanted);
    size_t written = 0;
    yoke_status failed;

    if (status != TOOL_OK)
        return status == TOOL_EXIT ? TOOL_OK : status;
    yki_tool_log(self, yki_tool_notes(false));
    failed = generate(&s);
    for (size_t i = 0; i < s.count; i++)
        written += s.texts[i].count - s.texts[i].prompt;
    if (failed)
        status = yki_tool_fail(self, failed);
    else if (s.seconds > 0)
        yki_tool_note(self, "%zu tokens, %.3g a second", written, (double)written / s.seconds);
    for (size_t i = 0; i < s.count; i++) {
        free(s.texts[i].tokens);
        free(s.texts[i].bytes);
    }
    free(s.stops.tokens);
    yoke_generator_destroy(s.generator);
    yoke_context_destroy(s.context);
    yoke_model_destroy(s.model);
    return status;
}

const yki_tool_command yki_tool_generate = {
    .name = "yoke generate",
    .synopsis = "--model=FILE --prompt=TEXT [OPTION]...",
    .summary = "let a language model write",
    .description =
        "Continue a text, token by token. FILE is what \"yoke train --out\" wrote of a model\n"
        "over tokens with causal attention, or a folder of Hugging Face with a GPT-2 or a\n"
        "Llama. The same seed gives the same text on one device.",
    .options = options,
    TOOL_TRAINING(TOOL_FOR_GENERATE, request, training),
    .run = run,
    .example = "yoke generate --model=rhyme.safetensors --prompt=\"The farmer\" --length=100",
};
