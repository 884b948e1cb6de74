/* SPDX-License-Identifier: Apache-2.0
 *
 * check_generate.c - `yoke generate` writes what a generator of the library gives, and says what is
 * wrong with a model or a prompt.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "command.h"
#include "support/scratch.h"
#include "support/support.h"

enum { PATH = 512, CONTEXT = 128, LETTERS = 262, LINES = 3 };

/* Saves a model of `letters` tokens. With biases its logits are these; without, its weights are
 * wide, so that its logits are far apart. */
static const char *
save_model_of(int letters, const float *biases, const yoke_tokenizer *tokenizer)
{
    static char path[PATH + 64];
    const yoke_attention_options causal = {.heads = 2, .causal = true};
    const yoke_initializer wide = {YOKE_INIT_NORMAL, 0, 0.5f, 0}, none = {YOKE_INIT_ZEROS, 0, 0, 0};
    yoke_model *model;
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "tokens", YOKE_I32, yoke_shape(CONTEXT));
    x = yoke_embedding(g, x,
                       &(yoke_embedding_options){.rows = letters, .width = 8, .weight_init = wide});
    x = yoke_attention(g, yoke_dense(g, x, &(yoke_dense_options){.units = 24, .weight_init = wide}),
                       NULL, &causal);
    x = yoke_dense(g, x,
                   &(yoke_dense_options){
                       .units = letters, .name = "head", .weight_init = biases ? none : wide});
    yoke_graph_set_output(g, "logits", x);
    ASSERT_OK(
        yoke_model_create(g, &(yoke_model_options){.seed = 3, .tokenizer = tokenizer}, &model));
    if (biases)
        ASSERT_OK(yoke_model_write(model, "head.bias", biases, letters));
    snprintf(path, sizeof path, "--model=%s", scratch_path("model"));
    ASSERT_OK(yoke_model_save(model, path + strlen("--model=")));
    yoke_model_destroy(model);
    yoke_graph_destroy(g);
    return path;
}

static const char *
save_model(int letters)
{
    return save_model_of(letters, NULL, NULL);
}

/* Saves a model that writes tokens of "a" and "b" alone, each as probable as the others, whatever
 * was before. Some of them are longer than a letter. */
static const char *
save_writer(void)
{
    static const char text[] = "aab aab aab aab abb abb abb ba ba\n";
    float biases[LETTERS];
    int longer = 0, tokens;
    const char *path;
    yoke_tokenizer *tokenizer;

    scratch_write(scratch_path("text"), text, strlen(text));
    ASSERT_OK(yoke_tokenizer_train(
        scratch_path("text"),
        &(yoke_tokenizer_options){.kind = YOKE_TOKENIZER_BPE, .vocabulary = LETTERS}, &tokenizer));
    tokens = (int)yoke_tokenizer_vocabulary(tokenizer);
    ck_assert_int_le(tokens, LETTERS);
    for (int i = 0; i < tokens; i++) {
        size_t length, letters = 0;
        const char *token = yoke_tokenizer_get_text(tokenizer, i, &length);

        while (letters < length && (token[letters] == 'a' || token[letters] == 'b'))
            letters++;
        biases[i] = letters == length ? 0.f : -100.f;
        longer += letters == length && length > 1;
    }
    ck_assert_int_ge(longer, 2);
    path = save_model_of(tokens, biases, tokenizer);
    yoke_tokenizer_destroy(tokenizer);
    return path;
}

/* What `yoke generate` writes to standard output, or to standard error where `status` is not 0. The
 * caller frees it. */
static char *
generate(int status, const char *const *options)
{
    const char *arguments[COMMAND_ARGUMENTS] = {"generate", "--devices=cpu:0"};
    size_t count = 2, size;

    while (*options)
        arguments[count++] = *options++;
    ck_assert_int_eq(
        command_wait(command_start(arguments, scratch_path("output"), scratch_path("errors"))),
        status);
    return scratch_read(scratch_path(status ? "errors" : "output"), &size);
}
#define GENERATE(status, ...) generate(status, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(texts_are_continued)
{
    const char *model = save_model(256);
    char *one, *again, *other;

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    one = GENERATE(0, model, "--prompt=98 111 98", "--tokens", "--length=9", "--temperature=1");
    ck_assert_msg(strncmp(one, "98 111 98 ", 10) == 0, "%s", one);
    again = GENERATE(0, model, "--prompt=98,111,98", "--tokens", "--length=9", "--temperature=1");
    ck_assert_str_eq(one, again);
    other = GENERATE(0, model, "--prompt=98 111 98", "--tokens", "--length=9", "--temperature=1",
                     "--seed=1");
    ck_assert_str_ne(one, other);
    free(one);
    free(again);
    free(other);
    one = GENERATE(0, model, "--prompt=bob", "--length=1", "--temperature=0");
    ck_assert_msg(strncmp(one, "bob", 3) == 0 && one[4] == '\n', "%s", one);
    free(one);
}
END_TEST

/* The lines of a file, side by side, are what each gives alone. */
START_TEST(lines_of_a_file_are_continued)
{
    const char *model = save_model(256);
    char file[PATH + 64], *all, *first, *second, *lines;
    FILE *prompts = fopen(scratch_path("prompts"), "w");

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    ck_assert_ptr_nonnull(prompts);
    fputs("1 2 3\n\n4 5 6 7 8 9 10 11\n12\n", prompts);
    fclose(prompts);
    snprintf(file, sizeof file, "--prompts=%s", scratch_path("prompts"));
    all = GENERATE(0, model, file, "--count=2", "--tokens", "--length=6", "--top-k=40", "--seed=7");
    first =
        GENERATE(0, model, "--prompt=1 2 3", "--tokens", "--length=6", "--top-k=40", "--seed=7");
    second = GENERATE(0, model, "--prompt=4 5 6 7 8 9 10 11", "--tokens", "--length=6",
                      "--top-k=40", "--seed=8");
    lines = malloc(strlen(first) + strlen(second) + 1);
    ck_assert_ptr_nonnull(lines);
    strcat(strcpy(lines, first), second);
    ck_assert_str_eq(all, lines);
    free(all);
    free(first);
    free(second);
    free(lines);
}
END_TEST

/* Ends the line before the stop, which may begin at the letter `from` or after it. Returns how many
 * letters it has then. */
static size_t
end_before(char *line, size_t from, const char *stop)
{
    char *at = strstr(line + from, stop);

    if (at)
        strcpy(at, "\n");
    return strlen(line) - 1;
}

/* Of "aaab" the first letter is written, and at the end what did not become a stop. */
START_TEST(text_ends_before_a_stop)
{
    static const char *const stops[] = {"--stop=aab", "--stop=abbab", "--stop=aaac"};
    const char *stop = stops[_i] + strlen("--stop="), *model = save_writer();
    char *whole, *part;
    size_t letters, end;

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    whole = GENERATE(0, model, "--prompt=aab", "--length=40", "--temperature=1", "--seed=11");
    part = GENERATE(0, model, "--prompt=aab", "--length=40", "--temperature=1", "--seed=11",
                    stops[_i]);
    letters = strlen(whole) - 1;
    if (_i == 0)
        ck_assert_msg(strstr(whole + 3, "aab") == strstr(whole + 3, "aaab") + 1, "%s", whole);
    if (_i == 2)
        ck_assert_str_eq(whole + letters - 3, "aaa\n");
    end = end_before(whole, strlen("aab"), stop);
    ck_assert_str_eq(part, whole);
    ck_assert(end > strlen("aab") && (end < letters) == (_i < 2));
    free(whole);
    free(part);
}
END_TEST

/* Each line of a file ends before its own stop; the others go on. */
START_TEST(lines_end_before_a_stop)
{
    static const char *const prompts[LINES] = {"ab", "abba", "b"};
    const char *model = save_writer();
    char file[PATH + 64], *whole, *part, *expected, *line;
    FILE *stream = fopen(scratch_path("prompts"), "w");
    size_t ends[LINES];

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    ck_assert_ptr_nonnull(stream);
    for (size_t i = 0; i < LINES; i++)
        fprintf(stream, "%s\n", prompts[i]);
    fclose(stream);
    snprintf(file, sizeof file, "--prompts=%s", scratch_path("prompts"));
    whole = GENERATE(0, model, file, "--length=40", "--temperature=1");
    part = GENERATE(0, model, file, "--length=40", "--temperature=1", "--stop=abba");
    expected = calloc(strlen(whole) + 1, 1);
    ck_assert_ptr_nonnull(expected);
    line = whole;
    for (size_t i = 0; i < LINES; i++) {
        const size_t size = (size_t)(strchr(line, '\n') + 1 - line);
        char *copy = strncat(expected, line, size) + strlen(expected) - size;

        ends[i] = end_before(copy, strlen(prompts[i]), "abba");
        line += size;
    }
    ck_assert_str_eq(part, expected);
    ck_assert(ends[0] != ends[1] && ends[1] != ends[2]);
    free(whole);
    free(part);
    free(expected);
}
END_TEST

/* With --tokens any of several ends the text. */
START_TEST(tokens_end_before_a_stop)
{
    const char *model = save_model(256);
    char stop[64], *whole, *part, *at;
    int token;

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    whole = GENERATE(0, model, "--prompt=98 111", "--tokens", "--length=9", "--temperature=1");
    ck_assert_int_eq(sscanf(whole, "%*d %*d %*d %*d %d", &token), 1);
    snprintf(stop, sizeof stop, " %d ", token);
    at = strstr(whole + strlen("98 111"), stop);
    ck_assert_ptr_nonnull(at);
    strcpy(at, "\n");
    snprintf(stop, sizeof stop, "--stop=%d %d", 256, token);
    part = GENERATE(0, model, "--prompt=98 111", "--tokens", "--length=9", "--temperature=1", stop);
    ck_assert_str_eq(part, whole);
    free(whole);
    free(part);
}
END_TEST

/* ---- as soon as it is there ---- */

/* Saves a model that writes these bytes again and again if the most probable one is taken: each of
 * them is there once, and tells the next. What attention adds is 0. */
static const char *
save_chain(const unsigned char *bytes, int count)
{
    enum { BYTES = 256, ENDLESS = 1 << 20 };
    static char path[PATH + 64];
    float *codes = calloc(BYTES, (size_t)count * sizeof *codes);
    float *logits = calloc(BYTES, (size_t)count * sizeof *logits);
    const yoke_initializer none = {YOKE_INIT_ZEROS, 0, 0, 0};
    const yoke_dense_options packed = {.units = 3, .no_bias = true, .weight_init = none};
    const yoke_dense_options added = {.units = count, .no_bias = true, .weight_init = none};
    yoke_model *model;
    yoke_graph *g;
    yoke_node *x, *seen;

    ck_assert(codes && logits);
    for (int i = 0; i < count; i++) {
        codes[bytes[i] * count + i] = 1;
        logits[bytes[(i + 1) % count] * count + i] = 1;
    }
    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "tokens", YOKE_I32, yoke_shape(ENDLESS));
    x = yoke_embedding(g, x,
                       &(yoke_embedding_options){.rows = BYTES, .width = count, .name = "codes"});
    seen = yoke_attention(g, yoke_dense(g, x, &packed), NULL,
                          &(yoke_attention_options){.heads = 1, .causal = true});
    x = yoke_add(g, x, yoke_dense(g, seen, &added));
    x = yoke_dense(g, x,
                   &(yoke_dense_options){.units = BYTES, .no_bias = true, .name = "following"});
    yoke_graph_set_output(g, "logits", x);
    ASSERT_OK(yoke_model_create(g, NULL, &model));
    ASSERT_OK(yoke_model_write(model, "codes.weight", codes, BYTES * count));
    ASSERT_OK(yoke_model_write(model, "following.weight", logits, BYTES * count));
    snprintf(path, sizeof path, "--model=%s", scratch_path("model"));
    ASSERT_OK(yoke_model_save(model, path + strlen("--model=")));
    yoke_model_destroy(model);
    yoke_graph_destroy(g);
    free(codes);
    free(logits);
    return path;
}

/* Starts `yoke generate`, whose standard output is a socket that keeps apart what is written by one
 * call; to the command it is what a pipe is, none of a terminal. Returns the other end. */
static int
start_in_packets(const char *model, const char *length, pid_t *process)
{
    const char *arguments[] = {
        "generate", "--devices=cpu:0", model, "--prompt=a", "--temperature=0", length, NULL};
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    *process = fork();
    ck_assert_msg(*process >= 0, "fork: %s", strerror(errno));
    if (*process == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        command_become(arguments);
    }
    close(ends[1]);
    return ends[0];
}

static void
expect_packet(int from, const char *expected)
{
    char packet[8192];
    ssize_t size = read(from, packet, sizeof packet - 1);

    ck_assert_msg(size >= 0, "read: %s", strerror(errno));
    packet[size] = '\0';
    ck_assert_msg(strcmp(packet, expected) == 0, "%zd bytes from %02x on, not %zu from %02x on",
                  size, (unsigned char)packet[0], strlen(expected), (unsigned char)expected[0]);
}

/* Each token is written by itself, but never a part of a character; what belongs to no character is
 * a character by itself. At the end all is there. */
START_TEST(characters_are_written_whole)
{
    static const char *const expected[] = {"a",    "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9d\x84\x9e",
                                           "\xff", "\x80",     "\xe1\x81z",    "\xf1\n",
                                           ""};
    static const unsigned char bytes[] =
        "a\xc3\xa9\xe2\x82\xac\xf0\x9d\x84\x9e\xff\x80\xe1\x81z\xf1";
    const char *model = save_chain(bytes, sizeof bytes - 1);
    char length[32];
    pid_t process;
    int from;

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    snprintf(length, sizeof length, "--length=%zu", sizeof bytes - 2);
    from = start_in_packets(model, length, &process);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        expect_packet(from, expected[i]);
    close(from);
    ck_assert_int_eq(command_wait(process), 0);
}
END_TEST

/* It ends when nobody reads any more, having hardly begun: by the signal, or because a write fails,
 * as it does first where something was not read yet. */
START_TEST(tokens_are_written_as_they_come)
{
    const char *model = save_chain((const unsigned char *)"abc", 3);
    pid_t process;
    int from, status;

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    from = start_in_packets(model, "--length=1000000000", &process);
    for (int i = 0; i < 9; i++)
        expect_packet(from, (const char *[]){"a", "b", "c"}[i % 3]);
    close(from);
    status = command_wait(process);
    ck_assert_msg(status == -SIGPIPE || status == 1, "exit status %d", status);
}
END_TEST

static void
expect_error(int status, const char *sentence, const char *const *options)
{
    char *said = generate(status, options);

    ck_assert_msg(strstr(said, sentence) != NULL, "\"%s\" is not in \"%s\"", sentence, said);
    free(said);
}
#define EXPECT_ERROR(status, sentence, ...)                                                        \
    expect_error(status, sentence, (const char *const[]){__VA_ARGS__, NULL})

START_TEST(what_is_wrong_is_said)
{
    const char *model = save_model(300);

    if (!command_usable())
        TEST_SKIP("PoCL is not installed");
    EXPECT_ERROR(2, "no model is given; must be --model=FILE", "--prompt=a");
    EXPECT_ERROR(2, "no prompt is given; must be --prompt=TEXT or --prompts=FILE", model);
    EXPECT_ERROR(2, "--count is for --prompts=FILE alone", model, "--prompt=a", "--count=2");
    EXPECT_ERROR(1, "the model has 300 tokens, more than a byte has values", model, "--prompt=a");
    EXPECT_ERROR(1, "\"x 2\" is no number of a token", model, "--tokens", "--prompt=1 x 2");
    EXPECT_ERROR(1, "token 1 of prompt 0 is 300; must be between 0 and 299", model, "--tokens",
                 "--prompt=1 300");
    EXPECT_ERROR(1, "prompt 0 has 0 tokens; must have between 1 and 127", model, "--tokens",
                 "--prompt=");
    EXPECT_ERROR(1, "nowhere", model, "--prompts=nowhere");
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("generate");
    TCase *tcase = test_case(suite, "generate");

    tcase_add_checked_fixture(tcase, scratch_set_up, scratch_tear_down);
    tcase_add_test(tcase, texts_are_continued);
    tcase_add_test(tcase, lines_of_a_file_are_continued);
    tcase_add_loop_test(tcase, text_ends_before_a_stop, 0, 3);
    tcase_add_test(tcase, lines_end_before_a_stop);
    tcase_add_test(tcase, tokens_end_before_a_stop);
    tcase_add_test(tcase, characters_are_written_whole);
    tcase_add_test(tcase, tokens_are_written_as_they_come);
    tcase_add_test(tcase, what_is_wrong_is_said);
    return suite;
}
