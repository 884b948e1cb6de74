/* SPDX-License-Identifier: Apache-2.0
 *
 * gpt.c - a small transformer learns to write like a text, letter by letter, and then
 * writes.
 *
 *   cc gpt.c -o gpt -lm $(pkg-config --cflags --libs yoke)
 *   ./gpt              learns a rhyme
 *   ./gpt TEXT 2000    learns a file in 2000 steps
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yoke.h>

enum { LETTERS = 256, CONTEXT = 64, WIDTH = 64, HEADS = 4, LAYERS = 2, BATCH = 16, WRITTEN = 160 };

static const char rhyme[] = "The farmer has two oxen now, the one is large, the other small; "
                            "he yokes the two before the plough, and so they do the work of all.\n";

static void
need(yoke_status status)
{
    if (status == YOKE_OK)
        return;
    fprintf(stderr, "gpt: %s\n", yoke_last_error());
    exit(1);
}

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units});
}

/* Of each row by itself. */
static yoke_node *
norm(yoke_graph *g, yoke_node *x)
{
    return yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1});
}

/* Each row looks back at the rows before it, then thinks by itself. */
static yoke_node *
block(yoke_graph *g, yoke_node *x)
{
    const yoke_attention_options causal = {.heads = HEADS, .causal = true};
    yoke_node *y = yoke_attention(g, dense(g, norm(g, x), 3 * WIDTH), NULL, &causal);

    x = yoke_add(g, x, dense(g, y, WIDTH));
    y = yoke_gelu_tanh(g, dense(g, norm(g, x), 4 * WIDTH));
    return yoke_add(g, x, dense(g, y, WIDTH));
}

static yoke_graph *
build(void)
{
    const yoke_initializer small = {YOKE_INIT_NORMAL, 0, 0.02f, 0};
    yoke_graph *g;
    yoke_node *x, *next;

    need(yoke_graph_create(&g));
    /* Sequences: a step or a prediction brings up to CONTEXT letters of each sample. */
    x = yoke_sequence(g, yoke_input(g, "letters", YOKE_I32, yoke_shape(CONTEXT)));
    next = yoke_sequence(g, yoke_target(g, "next", YOKE_I32, yoke_shape(CONTEXT)));
    x = yoke_embedding(g, x, &(yoke_embedding_options){LETTERS, WIDTH, .weight_init = small});
    x = yoke_add(g, x, yoke_parameter(g, "position", yoke_shape(CONTEXT, WIDTH), small));
    for (int i = 0; i < LAYERS; i++)
        x = block(g, x);
    x = dense(g, norm(g, x), LETTERS);
    yoke_graph_set_output(g, "logits", x);
    yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, x, next, NULL));
    need(yoke_graph_status(g));
    return g;
}

/* Where a random piece of the text begins. */
static size_t
somewhere(size_t length)
{
    static unsigned state = 1;

    state = state * 1664525u + 1013904223u;
    return (size_t)(state >> 4) % (length - CONTEXT);
}

static void
learn(yoke_trainer *trainer, const char *text, size_t length, int steps)
{
    static int32_t letters[BATCH][CONTEXT], next[BATCH][CONTEXT];
    const yoke_feed feeds[] = {yoke_feed_i32("letters", letters[0], BATCH * CONTEXT),
                               yoke_feed_i32("next", next[0], BATCH * CONTEXT)};
    yoke_result result;

    for (int step = 1; step <= steps; step++) {
        for (int n = 0; n < BATCH; n++) {
            const char *piece = text + somewhere(length);

            for (int t = 0; t < CONTEXT; t++) {
                letters[n][t] = (unsigned char)piece[t];
                next[n][t] = (unsigned char)piece[t + 1];
            }
        }
        need(yoke_trainer_step(trainer, BATCH, feeds, 2, &result));
        if (step % 50 == 0)
            printf("step %d: %.3f bits a letter\n", step, result.loss / log(2));
    }
}

/* The most probable next letter again and again, from a beginning. */
static void
tell(yoke_trainer *trainer, const char *text)
{
    static float logits[CONTEXT][LETTERS];
    int32_t letters[CONTEXT] = {0};
    int at = 0;

    for (; at < 8; at++)
        letters[at] = (unsigned char)text[at];
    printf("%.8s", text);
    for (int i = 0; i < WRITTEN; i++) {
        const yoke_feed feed = yoke_feed_i32("letters", letters, at);
        const float *row = logits[at - 1];
        int best = 0;

        need(yoke_trainer_predict(trainer, "logits", 1, &feed, 1, logits[0], at * LETTERS));
        for (int l = 1; l < LETTERS; l++)
            if (row[l] > row[best])
                best = l;
        putchar(best);
        if (at == CONTEXT)
            memmove(letters, letters + 1, --at * sizeof *letters);
        letters[at++] = best;
    }
    putchar('\n');
}

int
main(int argc, char **argv)
{
    yoke_trainer_options options = {.optimizer = yoke_adamw(2e-3f, 0.01f), .batch = BATCH};
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    char *text = calloc(1, 1 << 24);
    size_t length = 0;
    yoke_context *context;
    yoke_trainer *trainer;
    yoke_graph *graph;
    yoke_team *team;

    if (file)
        length = fread(text, 1, 1 << 24, file);
    else if (argc < 2)
        while (length < 4096)
            length += (size_t)sprintf(text + length, "%s", rhyme);
    if (length <= CONTEXT) {
        fprintf(stderr, "gpt: the text cannot be read, or is shorter than %d letters\n", CONTEXT);
        return 1;
    }
    graph = build();
    need(yoke_context_create(NULL, &context));
    need(yoke_team_create(context, NULL, NULL, &team));
    need(yoke_trainer_create(team, graph, &options, &trainer));
    learn(trainer, text, length, argc > 2 ? atoi(argv[2]) : 150);
    tell(trainer, text);
    yoke_trainer_destroy(trainer);
    yoke_team_destroy(team);
    yoke_context_destroy(context);
    yoke_graph_destroy(graph);
    if (file)
        fclose(file);
    free(text);
    return 0;
}
