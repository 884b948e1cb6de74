/* SPDX-License-Identifier: Apache-2.0
 *
 * chat.c - a language model goes on with what one types, token by token.
 *
 *   cc chat.c -o chat $(pkg-config --cflags --libs yoke)
 *   ./chat MODEL    a model of a text, as "yoke train" or yoke_trainer_save wrote it; its tokens
 *                   are those of its tokenizer, or else bytes
 *   ./chat          a small one that has learnt nothing yet
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke.h>

enum { LETTERS = 256, CONTEXT = 64, WIDTH = 32, ANSWER = 40 };

static void
need(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "chat: %s\n", yoke_last_error());
    exit(1);
}

/* The smallest model that has all that a generator wants. */
static yoke_model *
make_small(void)
{
    const yoke_attention_options causal = {.heads = 2, .causal = true};
    yoke_model *model;
    yoke_graph *g;
    yoke_node *x;

    need(yoke_graph_create(&g));
    x = yoke_sequence(g, yoke_input(g, "letters", YOKE_I32, yoke_shape(CONTEXT)));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = LETTERS, .width = WIDTH});
    x = yoke_dense(g, x, &(yoke_dense_options){.units = 3 * WIDTH});
    x = yoke_attention(g, x, NULL, &causal);
    x = yoke_dense(g, x, &(yoke_dense_options){.units = LETTERS});
    yoke_graph_set_output(g, "logits", x);
    need(yoke_model_create(g, NULL, &model));
    yoke_graph_destroy(g);
    return model;
}

/* Answers with at most ANSWER tokens, up to the end of a line. */
static void
answer(yoke_generator *generator, const yoke_tokenizer *tokenizer, const char *line)
{
    const int32_t end = yoke_tokenizer_find(tokenizer, "\n");
    const yoke_sampling sampling = {.temperature = 0.8f,
                                    .top_p = 0.95f,
                                    .stops = &end,
                                    .stop_count = end >= 0,
                                    .length = ANSWER};
    size_t most = (size_t)yoke_generator_context(generator) / 2, running = 1, count;
    int32_t *tokens, token;
    yoke_prompt prompt;

    if (yoke_tokenizer_encode(tokenizer, line, strlen(line), &tokens, &count)) {
        printf("%s\n", yoke_last_error()); /* a character that the model has not seen */
        return;
    }
    prompt.count = (int64_t)(count < most ? count : most); /* what was typed last counts */
    prompt.tokens = tokens + count - prompt.count;
    need(yoke_generator_start(generator, &prompt, 1, &sampling));
    while (running) {
        need(yoke_generator_next(generator, &token, &running));
        if (token >= 0) {
            const char *text = yoke_tokenizer_get_text(tokenizer, token, &count);

            fwrite(text ? text : "", 1, count, stdout);
        }
        fflush(stdout);
    }
    putchar('\n');
    yoke_free(tokens);
}

int
main(int argc, char **argv)
{
    const yoke_tokenizer *tokenizer;
    yoke_generator *generator;
    yoke_tokenizer *bytes;
    yoke_context *context;
    yoke_model *model;
    char line[1024];

    if (argc > 1)
        need(yoke_model_load(argv[1], &model));
    else
        model = make_small();
    need(yoke_tokenizer_train(NULL, &(yoke_tokenizer_options){.kind = YOKE_TOKENIZER_BYTES},
                              &bytes));
    tokenizer = yoke_model_get_tokenizer(model);
    need(yoke_context_create(NULL, &context));
    need(yoke_generator_create(context, NULL, model, NULL, &generator));
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line)
            answer(generator, tokenizer ? tokenizer : bytes, line);
    }
    yoke_tokenizer_destroy(bytes);
    yoke_generator_destroy(generator);
    yoke_context_destroy(context);
    yoke_model_destroy(model);
    return 0;
}
