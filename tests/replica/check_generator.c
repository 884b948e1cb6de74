/* SPDX-License-Identifier: Apache-2.0
 *
 * check_generator.c - a generator computes what the whole graph does: the same logits within
 * rounding at each position, however a prompt was taken in, and so the same tokens. What it gives
 * a prompt does not depend on the prompts beside it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "replica/sampling.h"
#include "support/opened.h"
#include "support/support.h"

enum { VOCABULARY = 37, MOST = 160 };

typedef struct shape {
    int64_t length, width;
    int32_t heads, shared;
    bool tied;    /* the head is the embedding's table */
    bool learned; /* positions; otherwise rotary ones, and a gated unit */
    bool sequence;
} shape;

static const shape shapes[] = {
    {24, 12, 3, 3, false, true, false},  {150, 32, 2, 1, true, true, false},
    {70, 40, 2, 2, false, false, false}, {24, 12, 3, 3, false, true, true},
    {150, 32, 2, 1, true, true, true},   {70, 40, 2, 2, false, false, true},
};

static const yoke_initializer wide = {YOKE_INIT_NORMAL, 0, 0.4f, 0};

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .weight_init = wide});
}

static yoke_graph *
build(const shape *s)
{
    const yoke_attention_options causal = {
        .heads = s->heads, .shared = s->shared, .causal = true, .dropout = 0.25f};
    yoke_node *x, *y, *table;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "tokens", YOKE_I32, yoke_shape(s->length));
    if (s->sequence)
        x = yoke_sequence(g, x);
    x = yoke_embedding(
        g, x,
        &(yoke_embedding_options){
            .rows = VOCABULARY, .width = s->width, .name = "wte", .weight_init = wide});
    if (s->learned)
        x = yoke_add(g, x, yoke_parameter(g, "positions", yoke_shape(s->length, s->width), wide));
    for (int i = 0; i < 2; i++) {
        int64_t columns = (s->heads + 2 * s->shared) * s->width / s->heads;

        y = dense(g, yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1}), columns);
        if (!s->learned)
            y = yoke_rope(g, y, NULL, &(yoke_rope_options){.heads = s->heads, .shared = s->shared});
        y = dense(g, yoke_attention(g, y, NULL, &causal), s->width);
        x = yoke_add(g, x, yoke_dropout(g, y, 0.25f));
        y = dense(g, x, 2 * s->width);
        y = s->learned ? yoke_gelu_tanh(g, y) : yoke_swiglu(g, y);
        x = yoke_add(g, x, dense(g, y, s->width));
    }
    x = yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1});
    table = yoke_graph_get_node(g, "wte.weight");
    x = s->tied ? yoke_matmul(g, x, table, &(yoke_matmul_options){.transpose_b = true})
                : dense(g, x, VOCABULARY);
    yoke_graph_set_output(g, "logits", x);
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static yoke_model *
make_model(const shape *s)
{
    yoke_graph *g = build(s);
    yoke_model *model;

    ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.seed = 5}, &model));
    yoke_graph_destroy(g);
    return model;
}

static yoke_generator *
make_generator(yoke_model *model, int64_t streams, yoke_plan_level level)
{
    yoke_generator *generator;

    ASSERT_OK(yoke_generator_create(devices.context, devices.selector, model,
                                    &(yoke_generator_options){.streams = streams, .level = level},
                                    &generator));
    return generator;
}

/* Any token, by its place. */
static int32_t
token_at(uint32_t seed, int64_t place)
{
    const uint32_t key[2] = {seed, 0}, counter[4] = {(uint32_t)place, 0, 0, 0};
    uint32_t words[4];

    yki_philox(key, counter, words);
    return (int32_t)(words[0] % VOCABULARY);
}

/* ---- the same as the whole graph ---- */

/* The logits of the last of `count` tokens, by the whole graph. */
static void
whole(yoke_predictor *predictor, const shape *s, const int32_t *tokens, int64_t count,
      float logits[VOCABULARY])
{
    static float all[MOST * VOCABULARY];
    int32_t padded[MOST] = {0};

    memcpy(padded, tokens, (size_t)count * sizeof *tokens);
    ASSERT_OK(yoke_predictor_run(predictor, 1, yoke_feed_i32("tokens", padded, s->length), all,
                                 s->length * VOCABULARY));
    memcpy(logits, all + (count - 1) * VOCABULARY, VOCABULARY * sizeof *logits);
}

static void
compare_logits(const float *a, const float *b, const char *what, int64_t count)
{
    double difference = 0, largest = 0;

    for (int i = 0; i < VOCABULARY; i++) {
        difference = fmax(difference, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
        ck_assert(isfinite(a[i]) && isfinite(b[i]));
    }
    ck_assert_msg(difference <= 2e-5 * largest, "%s %lld: %g of %g", what, (long long)count,
                  difference, largest);
}

static int32_t
best_of(const float *logits)
{
    int32_t best = 0;

    for (int32_t i = 1; i < VOCABULARY; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Continues a prompt of this many tokens by at most `most`. */
static void
follow(yoke_generator *generator, yoke_predictor *predictor, const shape *s, int64_t count,
       int64_t most)
{
    float logits[VOCABULARY];
    int32_t tokens[MOST];
    size_t running = 1;

    for (int64_t i = 0; i < count; i++)
        tokens[i] = token_at(11, i);
    ASSERT_OK(yoke_generator_start(generator, &(yoke_prompt){tokens, count}, 1,
                                   &(yoke_sampling){.length = most}));
    while (running) {
        int32_t token;

        ASSERT_OK(yoke_generator_next(generator, &token, &running));
        whole(predictor, s, tokens, count, logits);
        compare_logits(yoke_generator_get_logits(generator, 0), logits, "token", count);
        ck_assert_int_eq(token, best_of(logits));
        tokens[count++] = token;
    }
    ck_assert_int_le(count, s->length);
}

static void
compare_with_graph(const shape *s)
{
    static const int64_t counts[] = {1, 2, 4, 5, 6, 17, 64, 65, 66, 129};
    yoke_model *model = make_model(s);
    yoke_generator *generator = make_generator(model, 1, YOKE_PLAN_ESTIMATE);
    yoke_predictor *predictor;

    ck_assert_int_eq(yoke_generator_vocabulary(generator), VOCABULARY);
    ck_assert_int_eq(yoke_generator_context(generator), s->length);
    ASSERT_OK(yoke_predictor_create(
        devices.context, devices.selector, model,
        &(yoke_predictor_options){.raw = true, .batch = 1, .level = YOKE_PLAN_ESTIMATE},
        &predictor));
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i] < s->length)
            follow(generator, predictor, s, counts[i], 3);
    follow(generator, predictor, s, s->length - 2, 0);
    yoke_predictor_destroy(predictor);
    yoke_generator_destroy(generator);
    yoke_model_destroy(model);
}

START_TEST(logits_are_those_of_the_whole_graph)
{
    compare_with_graph(&shapes[_i]);
}
END_TEST

/* On a sub-device. */
START_TEST(parts_of_a_device_generate)
{
    if (test_in_matrix())
        TEST_NOT_HERE("set-ups of one's own are left alone");
    if (!test_devices_open(TEST_POCL_HALVES, &devices))
        TEST_SKIP("%s", devices.missing);
    compare_with_graph(&shapes[0]);
    test_devices_close(&devices);
}
END_TEST

/* ---- prompts side by side ---- */

typedef struct text {
    int32_t tokens[MOST];
    int64_t count;
    float logits[VOCABULARY]; /* the last */
} text;

/* Continues prompts together; prompt i of them is number first + i. */
static void
write_texts(yoke_generator *generator, size_t first, size_t count, text *texts)
{
    static const int64_t lengths[] = {9, 1, 21, 3};
    const yoke_sampling sampling = {
        .temperature = 0.9f, .top_k = 20, .top_p = 0.95f, .seed = 40 + first, .length = 12};
    yoke_prompt prompts[4];
    size_t running = 1;

    for (size_t i = 0; i < count; i++) {
        texts[i].count = lengths[first + i];
        for (int64_t k = 0; k < texts[i].count; k++)
            texts[i].tokens[k] = token_at((uint32_t)(first + i), k);
        prompts[i] = (yoke_prompt){texts[i].tokens, texts[i].count};
    }
    ASSERT_OK(yoke_generator_start(generator, prompts, count, &sampling));
    while (running) {
        int32_t tokens[4];

        ASSERT_OK(yoke_generator_next(generator, tokens, &running));
        for (size_t i = 0; i < count; i++) {
            if (tokens[i] < 0)
                continue;
            texts[i].tokens[texts[i].count++] = tokens[i];
            memcpy(texts[i].logits, yoke_generator_get_logits(generator, i),
                   sizeof texts[i].logits);
        }
    }
}

START_TEST(prompts_do_not_see_one_another)
{
    yoke_model *model = make_model(&shapes[0]);
    yoke_generator *together = make_generator(model, 4, YOKE_PLAN_ESTIMATE);
    yoke_generator *alone = make_generator(model, 1, YOKE_PLAN_ESTIMATE);
    static text all[4], one;

    write_texts(together, 0, 4, all);
    for (size_t i = 0; i < 4; i++)
        for (int of_one = 0; of_one < 2; of_one++) {
            write_texts(of_one ? alone : together, i, 1, &one);
            ck_assert_int_eq(one.count, all[i].count);
            ck_assert_mem_eq(one.tokens, all[i].tokens, (size_t)one.count * sizeof *one.tokens);
            ck_assert_mem_eq(one.logits, all[i].logits, sizeof one.logits);
        }
    ck_assert_int_eq(all[1].count, 13);
    ck_assert_int_eq(all[2].count, 24); /* the context is full */
    yoke_generator_destroy(together);
    yoke_generator_destroy(alone);
    yoke_model_destroy(model);
}
END_TEST

/* ---- when a stream ends ---- */

START_TEST(stop_tokens_end_a_stream)
{
    const shape *s = &shapes[0];
    yoke_model *model = make_model(s);
    yoke_generator *generator = make_generator(model, 2, YOKE_PLAN_ESTIMATE);
    const int32_t first[] = {3, 5}, second[] = {8};
    const yoke_prompt prompts[] = {{first, 2}, {second, 1}};
    int32_t tokens[2], given[2] = {-1, -1};
    size_t running = 2, steps = 0;

    ASSERT_OK(yoke_generator_start(generator, prompts, 2, NULL));
    ck_assert_ptr_null(yoke_generator_get_logits(generator, 0));
    ASSERT_OK(yoke_generator_next(generator, given, &running));
    ck_assert_uint_eq(running, 2);
    ck_assert_ptr_null(yoke_generator_get_logits(generator, 2));
    /* What comes first is where it stops now. */
    ASSERT_OK(yoke_generator_start(generator, prompts, 2,
                                   &(yoke_sampling){.stops = given, .stop_count = 1}));
    while (running && steps++ < 100) {
        ASSERT_OK(yoke_generator_next(generator, tokens, &running));
        ck_assert_int_eq(tokens[0], -1);
        ck_assert(tokens[1] != given[0]);
    }
    ASSERT_OK(yoke_generator_next(generator, tokens, &running));
    ck_assert(tokens[0] == -1 && tokens[1] == -1 && running == 0);
    yoke_generator_destroy(generator);
    yoke_model_destroy(model);
}
END_TEST

/* ---- drawing ---- */

enum { DRAWS = 20000 };

/* How often each of five tokens is drawn. */
static void
count_draws(const yoke_sampling *s, double parts[5])
{
    const float logits[5] = {0, logf(4), logf(2), -INFINITY, logf(3)};
    double work[5];
    int32_t order[5];

    memset(parts, 0, 5 * sizeof *parts);
    for (int i = 0; i < DRAWS; i++)
        parts[yki_sample(logits, 5, s, s->seed, i, work, order)] += 1.0 / DRAWS;
}

static void
expect_parts(const yoke_sampling *s, const double expected[5])
{
    double parts[5];

    count_draws(s, parts);
    for (int i = 0; i < 5; i++)
        ck_assert_msg(expected[i] > 0 ? fabs(parts[i] - expected[i]) < 0.015 : !(parts[i] > 0),
                      "token %d: %g instead of %g", i, parts[i], expected[i]);
}

START_TEST(tokens_are_drawn_by_their_probabilities)
{
    expect_parts(&(yoke_sampling){.temperature = 1}, (double[]){0.1, 0.4, 0.2, 0, 0.3});
    expect_parts(&(yoke_sampling){.temperature = 0.5f, .seed = 3},
                 (double[]){1 / 30.0, 16 / 30.0, 4 / 30.0, 0, 9 / 30.0});
    expect_parts(&(yoke_sampling){.temperature = 1, .top_k = 2},
                 (double[]){0, 4 / 7.0, 0, 0, 3 / 7.0});
    expect_parts(&(yoke_sampling){.temperature = 1, .top_p = 0.75f},
                 (double[]){0, 4 / 9.0, 2 / 9.0, 0, 3 / 9.0});
    expect_parts(&(yoke_sampling){.temperature = 1, .top_k = 3, .top_p = 0.6f},
                 (double[]){0, 4 / 7.0, 0, 0, 3 / 7.0});
    expect_parts(&(yoke_sampling){.temperature = 1, .top_p = 0.01f}, (double[]){0, 1, 0, 0, 0});
    expect_parts(&(yoke_sampling){.top_k = 5}, (double[]){0, 1, 0, 0, 0});
}
END_TEST

START_TEST(nothing_is_drawn_from_what_is_no_number)
{
    const yoke_sampling s = {.temperature = 1};
    float logits[3] = {1, 2, 2};
    double work[3];
    int32_t order[3];

    ck_assert_int_eq(yki_sample(logits, 3, &(yoke_sampling){0}, 0, 0, work, order), 1);
    logits[2] = NAN;
    ck_assert_int_eq(yki_sample(logits, 3, &s, 0, 0, work, order), -1);
    logits[2] = INFINITY;
    ck_assert_int_eq(yki_sample(logits, 3, &s, 0, 0, work, order), -1);
    logits[0] = logits[1] = logits[2] = -INFINITY;
    ck_assert_int_eq(yki_sample(logits, 3, &s, 0, 0, work, order), -1);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(prompts_that_do_not_fit_are_refused)
{
    yoke_model *model = make_model(&shapes[0]);
    yoke_generator *generator = make_generator(model, 2, YOKE_PLAN_ESTIMATE);
    int32_t tokens[MOST] = {0}, given[2];
    yoke_prompt prompt = {tokens, 24};
    size_t running;

    ASSERT_REFUSED(YOKE_ERROR_STATE, "there is no prompt; call yoke_generator_start before",
                   yoke_generator_next(generator, given, &running));
    ASSERT_REFUSED(YOKE_ERROR_VALUE,
                   "prompt 0 has 24 tokens; must have between 1 and 23, as the context has room "
                   "for 24 with what is generated",
                   yoke_generator_start(generator, &prompt, 1, NULL));
    prompt.count = 0;
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "prompt 0 has 0 tokens",
                   yoke_generator_start(generator, &prompt, 1, NULL));
    prompt.count = 5;
    tokens[3] = VOCABULARY;
    ASSERT_REFUSED(YOKE_ERROR_VALUE,
                   "token 3 of prompt 0 is 37; must be between 0 and 36, the model's vocabulary",
                   yoke_generator_start(generator, &prompt, 1, NULL));
    tokens[3] = -1;
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "token 3 of prompt 0 is -1",
                   yoke_generator_start(generator, &prompt, 1, NULL));
    tokens[3] = 0;
    ASSERT_INVALID(yoke_generator_start(generator, &prompt, 3, NULL));
    ASSERT_INVALID(yoke_generator_start(generator, &(yoke_prompt){NULL, 5}, 1, NULL));
    ASSERT_REFUSED(
        YOKE_ERROR_INVALID_ARGUMENT, "temperature is -1; must be between 0 and 1e+06",
        yoke_generator_start(generator, &prompt, 1, &(yoke_sampling){.temperature = -1}));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "top_p is 1.5; must be between 0 and 1",
                   yoke_generator_start(generator, &prompt, 1, &(yoke_sampling){.top_p = 1.5f}));
    ASSERT_INVALID(yoke_generator_start(generator, &prompt, 1, &(yoke_sampling){.top_k = -1}));
    ASSERT_INVALID(yoke_generator_start(generator, &prompt, 1, &(yoke_sampling){.length = -1}));
    ASSERT_INVALID(yoke_generator_start(generator, &prompt, 1, &(yoke_sampling){.stop_count = 1}));
    yoke_generator_destroy(generator);
    yoke_model_destroy(model);
}
END_TEST

START_TEST(weights_that_are_no_numbers_are_named)
{
    yoke_model *model = make_model(&shapes[0]);
    const int32_t tokens[] = {1, 2, 3};
    yoke_generator *generator;
    float bias[12] = {0};
    size_t running;
    int32_t token;

    bias[7] = NAN;
    ASSERT_OK(yoke_model_write(model, "dense2.bias", bias, 12));
    generator = make_generator(model, 1, YOKE_PLAN_ESTIMATE);
    ASSERT_OK(yoke_generator_start(generator, &(yoke_prompt){tokens, 3}, 1, NULL));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "the weight \"dense2.bias\" has a value that is not finite",
                   yoke_generator_next(generator, &token, &running));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "there is no prompt",
                   yoke_generator_next(generator, &token, &running));
    yoke_generator_destroy(generator);
    yoke_model_destroy(model);
}
END_TEST

typedef struct unfit {
    yoke_node *(*make)(yoke_graph *g, yoke_node *x); /* x is (8, 12) */
    const char *sentence;
} unfit;

static const yoke_attention_options heads2 = {.heads = 2, .causal = true};

static yoke_node *
seen_later(yoke_graph *g, yoke_node *x)
{
    return yoke_attention(g, x, NULL, &(yoke_attention_options){.heads = 2});
}

static yoke_node *
without_attention(yoke_graph *g, yoke_node *x)
{
    return yoke_relu(g, x);
}

static yoke_node *
norm_of_all(yoke_graph *g, yoke_node *x)
{
    return yoke_layer_norm(g, yoke_attention(g, x, NULL, &heads2), NULL);
}

static yoke_node *
softmax_of_columns(yoke_graph *g, yoke_node *x)
{
    return yoke_softmax(g, yoke_attention(g, x, NULL, &heads2), 0);
}

static yoke_node *
product_of_rows(yoke_graph *g, yoke_node *x)
{
    yoke_node *y = yoke_attention(g, x, NULL, &heads2);

    return yoke_matmul(g, yoke_matmul(g, y, y, &(yoke_matmul_options){.transpose_b = true}), y,
                       NULL);
}

static yoke_node *
turned(yoke_graph *g, yoke_node *x)
{
    return yoke_dense(g, yoke_transpose(g, yoke_attention(g, x, NULL, &heads2), NULL),
                      &(yoke_dense_options){.units = 4});
}

static yoke_node *
normed_by_batch(yoke_graph *g, yoke_node *x)
{
    return yoke_batch_norm(g, yoke_attention(g, x, NULL, &heads2), NULL);
}

static const unfit unfits[] = {
    {seen_later, "\"attention1\" (attention) sees later rows, as it is not causal; a generator "
                 "takes models in which only causal attention looks from one row to another"},
    {without_attention, "the output \"relu1\" is not computed by attention over tokens"},
    {norm_of_all, "\"ln1\" (layer_norm) mixes rows"},
    {softmax_of_columns, "\"softmax1\" (softmax) mixes rows"},
    {product_of_rows, "\"matmul1\" (matmul) mixes rows"},
    {turned, "the output \"dense1\" has shape (4, 4); must be (length, vocabulary)"},
    {normed_by_batch, "the model has the running statistic \"bn1.running_mean\""},
};

START_TEST(graphs_that_mix_rows_are_refused)
{
    const unfit *u = &unfits[_i];
    yoke_generator *generator = NULL;
    yoke_model *model;
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "tokens", YOKE_I32, yoke_shape(8));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = VOCABULARY, .width = 12});
    yoke_graph_set_output(g, "y", u->make(g, x));
    ASSERT_OK(yoke_model_create(g, NULL, &model));
    yoke_graph_destroy(g);
    ASSERT_REFUSED(
        _i == 5 ? YOKE_ERROR_SHAPE : YOKE_ERROR_UNSUPPORTED, u->sentence,
        yoke_generator_create(devices.context, devices.selector, model, NULL, &generator));
    ck_assert_ptr_null(generator);
    yoke_model_destroy(model);
}
END_TEST

/* Each row, (12), is rearranged on its way to attention. */
static yoke_node *
by_ways(yoke_graph *g, yoke_node *x)
{
    yoke_node *y = yoke_transpose(g, yoke_reshape(g, x, yoke_shape(3, 4)), NULL);

    y = yoke_softmax(g, yoke_slice(g, y, 0, 1, 3), 0);
    y = yoke_flatten(g, yoke_concat(g, (yoke_node *[]){y, y}, 2, 1));
    return yoke_attention(g, yoke_add(g, x, y), NULL, &heads2);
}

/* An operator that works on rows of a sequence is no matter of the generator's. */
START_TEST(rows_of_sequences_may_be_rearranged)
{
    float logits[8 * 4], last[4] = {0};
    const int32_t tokens[8] = {3, 1, 30, 7, 7, 2, 19, 4};
    yoke_generator *generator;
    yoke_predictor *predictor;
    yoke_model *model;
    yoke_graph *g;
    yoke_node *x;
    size_t running;
    int32_t token;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_sequence(g, yoke_input(g, "tokens", YOKE_I32, yoke_shape(8)));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = VOCABULARY, .width = 12});
    yoke_graph_set_output(g, "y", by_ways(g, x));
    ASSERT_OK(yoke_model_create(g, NULL, &model));
    yoke_graph_destroy(g);
    generator = make_generator(model, 1, YOKE_PLAN_ESTIMATE);
    ASSERT_OK(yoke_generator_start(generator, &(yoke_prompt){tokens, 7}, 1, NULL));
    ASSERT_OK(yoke_generator_next(generator, &token, &running));
    memcpy(last, yoke_generator_get_logits(generator, 0), sizeof last);
    ASSERT_OK(yoke_predictor_create(devices.context, devices.selector, model,
                                    &(yoke_predictor_options){.raw = true, .batch = 1},
                                    &predictor));
    ASSERT_OK(yoke_predictor_run(predictor, 1, yoke_feed_i32("tokens", tokens, 7), logits, 7 * 4));
    for (int i = 0; i < 4; i++)
        ck_assert_float_eq_tol(last[i], logits[6 * 4 + i], 1e-5f);
    yoke_predictor_destroy(predictor);
    yoke_generator_destroy(generator);
    yoke_model_destroy(model);
}
END_TEST

static yoke_memory_usage
memory(void)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(devices.device[0], &usage));
    return usage;
}

/* All memory is there before the first token, and the cache is as long as was asked for. */
START_TEST(memory_is_fixed)
{
    yoke_model *model = make_model(&shapes[1]);
    uint64_t used[2], before = memory().used;
    int32_t tokens[MOST];

    for (int i = 0; i < MOST; i++)
        tokens[i] = token_at(3, i);
    for (int half = 0; half < 2; half++) {
        const int64_t context = half ? 75 : 150;
        const int64_t prompts[] = {1, 9, context - 2};
        yoke_generator *generator;
        yoke_memory_usage made;

        ASSERT_OK(yoke_generator_create(
            devices.context, devices.selector, model,
            &(yoke_generator_options){.context = context, .level = YOKE_PLAN_ESTIMATE},
            &generator));
        made = memory();
        used[half] = made.used - before;
        for (size_t i = 0; i < YKI_COUNT(prompts); i++) {
            int64_t count = prompts[i];
            size_t running = 1;

            ASSERT_OK(yoke_generator_start(generator, &(yoke_prompt){tokens, prompts[i]}, 1, NULL));
            for (int32_t token; running; count++)
                ASSERT_OK(yoke_generator_next(generator, &token, &running));
            ck_assert_int_ge(count, context);
            ck_assert_uint_eq(memory().used, made.used);
            ck_assert_uint_eq(memory().peak, made.peak);
        }
        yoke_generator_destroy(generator);
    }
    ck_assert_uint_lt(used[1], used[0]);
    yoke_model_destroy(model);
}
END_TEST

/* Memory of the host that runs out somewhere on the way: nothing is kept, and the next one writes.
 */
START_TEST(generators_without_memory)
{
    const yoke_generator_options o = {.level = YOKE_PLAN_ESTIMATE};
    yoke_model *model = make_model(&shapes[0]);
    yoke_generator *generator = NULL;
    const int32_t token = 1;
    uint64_t tried = 0;
    int32_t next;
    size_t running;

    if (devices.slow)
        TEST_NOT_HERE("simulated");
    for (uint64_t n = 1;; n += 1 + n / 3) {
        yoke_status status;

        yki_alloc_fail_at(n);
        status = yoke_generator_create(devices.context, devices.selector, model, &o, &generator);
        yki_alloc_fail_at(0);
        tried++;
        if (status == YOKE_OK)
            break;
        ck_assert_msg(status == YOKE_ERROR_OUT_OF_MEMORY, "allocation %d: %s: %s", (int)n,
                      yoke_status_name(status), yoke_last_error());
        ck_assert_ptr_null(generator);
    }
    ck_assert_uint_gt(tried, 10);
    ASSERT_OK(yoke_generator_start(generator, &(yoke_prompt){&token, 1}, 1, NULL));
    ASSERT_OK(yoke_generator_next(generator, &next, &running));
    yoke_generator_destroy(generator);
    yoke_model_destroy(model);
}
END_TEST

START_TEST(options_are_checked)
{
    yoke_model *model = make_model(&shapes[0]);
    yoke_generator *generator;

    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "context is 25; must be between 2 and 24",
                   yoke_generator_create(devices.context, devices.selector, model,
                                         &(yoke_generator_options){.context = 25}, &generator));
    ASSERT_INVALID(yoke_generator_create(devices.context, devices.selector, model,
                                         &(yoke_generator_options){.streams = -1}, &generator));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "logit",
                   yoke_generator_create(devices.context, devices.selector, model,
                                         &(yoke_generator_options){.output = "logit"}, &generator));
    yoke_model_destroy(model);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("generator");
    TCase *tcase = test_case(suite, "generator"), *halves = test_case(suite, "halves");

    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_loop_test(tcase, logits_are_those_of_the_whole_graph, 0, 6);
    tcase_add_test(tcase, prompts_do_not_see_one_another);
    tcase_add_test(tcase, stop_tokens_end_a_stream);
    tcase_add_test(tcase, tokens_are_drawn_by_their_probabilities);
    tcase_add_test(tcase, nothing_is_drawn_from_what_is_no_number);
    tcase_add_test(tcase, prompts_that_do_not_fit_are_refused);
    tcase_add_test(tcase, weights_that_are_no_numbers_are_named);
    tcase_add_loop_test(tcase, graphs_that_mix_rows_are_refused, 0, 7);
    tcase_add_test(tcase, rows_of_sequences_may_be_rearranged);
    tcase_add_test(tcase, options_are_checked);
    tcase_add_test(tcase, memory_is_fixed);
    tcase_add_test(tcase, generators_without_memory);
    tcase_add_test(halves, parts_of_a_device_generate);
    return suite;
}
