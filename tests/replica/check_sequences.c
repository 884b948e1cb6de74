/* SPDX-License-Identifier: Apache-2.0
 *
 * check_sequences.c - graphs of sequences: small transformers, as GPT and as Llama, whose steps
 * bring from 1 to LENGTH rows give what the same network gives that was built for so many rows, in
 * loss, metric, logits and all gradients; earlier rows are the same bits whatever comes after them;
 * and what does not fit together is refused by a sentence.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device/cache.h"
#include "op/harness.h"
#include "replica/replica.h"
#include "support/devices.h"

enum { LENGTH = 5, WIDTH = 8, WORDS = 7, BATCH = 3, PARAMETERS = 8, LARGEST = 256 };

typedef enum network_kind { PLAIN, DROPOUT, LLAMA, KINDS } network_kind;

static const yoke_initializer spread = {YOKE_INIT_NORMAL, 0, 0.3f, 0};

/* Positions that are added and multiplied, and one layer. */
static yoke_node *
gpt_layer(yoke_graph *g, yoke_node *x, yoke_node *lengths, int64_t length, bool dropout)
{
    const yoke_attention_options causal = {.heads = 2, .causal = true};
    const yoke_rope_options rope = {.heads = 2};
    yoke_node *y;

    x = yoke_add(g, x, yoke_parameter(g, "places", yoke_shape(length, WIDTH), spread));
    x = yoke_mul(g, yoke_parameter(g, "factors", yoke_shape(length, WIDTH), spread), x);
    y = yoke_layer_norm(g, x, &(yoke_layer_norm_options){.axes = 1, .name = "norm"});
    y = yoke_dense(g, y, &(yoke_dense_options){.units = 3 * WIDTH, .name = "qkv"});
    y = yoke_attention(g, yoke_rope(g, y, NULL, &rope), lengths, &causal);
    if (dropout)
        y = yoke_dropout(g, y, 0.5f);
    return yoke_add(g, x, yoke_gelu_tanh(g, y));
}

static yoke_node *
plain_dense(yoke_graph *g, yoke_node *x, int64_t units, const char *name)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .no_bias = true, .name = name});
}

/* Two heads of queries share one of keys and values. */
static yoke_node *
llama_layer(yoke_graph *g, yoke_node *x, yoke_node *lengths)
{
    enum { HEADS = 4, SHARED = 2, INNER = 12 };
    const yoke_rope_options rope = {.heads = HEADS, .shared = SHARED};
    const yoke_attention_options causal = {.heads = HEADS, .shared = SHARED, .causal = true};
    const int64_t columns = WIDTH + 2 * WIDTH / HEADS * SHARED;
    yoke_node *y;

    y = yoke_rms_norm(g, x, &(yoke_layer_norm_options){.axes = 1, .name = "norm1"});
    y = yoke_rope(g, plain_dense(g, y, columns, "qkv"), NULL, &rope);
    x = yoke_add(g, x, plain_dense(g, yoke_attention(g, y, lengths, &causal), WIDTH, "out"));
    y = yoke_rms_norm(g, x, &(yoke_layer_norm_options){.axes = 1, .name = "norm2"});
    y = yoke_swiglu(g, plain_dense(g, y, 2 * INNER, "gate_up"));
    return yoke_add(g, x, plain_dense(g, y, WIDTH, "down"));
}

/* Of `length` rows: a sequence that runs with any number up to that, or fixed. */
static yoke_graph *
network(int64_t length, bool sequence, network_kind kind)
{
    yoke_loss_options ignore = {.has_ignore_index = true, .ignore_index = -1};
    yoke_node *x, *y, *next, *lengths;
    yoke_graph *g;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "tokens", YOKE_I32, yoke_shape(length));
    next = yoke_target(g, "next", YOKE_I32, yoke_shape(length));
    lengths = yoke_input(g, "lengths", YOKE_I32, yoke_shape());
    if (sequence) {
        x = yoke_sequence(g, x);
        next = yoke_sequence(g, next);
    }
    x = yoke_embedding(g, x, &(yoke_embedding_options){WORDS, WIDTH, "words", spread});
    y = x = kind == LLAMA ? llama_layer(g, x, lengths)
                          : gpt_layer(g, x, lengths, length, kind == DROPOUT);
    x = plain_dense(g, x, WORDS, "head");
    yoke_graph_set_output(g, "logits", x);
    if (!sequence)
        x = yoke_transpose(g, x, NULL);
    yoke_graph_set_loss(g, kind == DROPOUT
                               ? yoke_linear_cross_entropy(
                                     g, y, yoke_graph_get_node(g, "head.weight"), next, &ignore)
                               : yoke_softmax_cross_entropy(g, x, next, &ignore));
    yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, x, next));
    ASSERT_OK(yoke_graph_status(g));
    return g;
}

static yoke_replica *
make(yoke_device *device, yoke_graph *g)
{
    const yoke_replica_options o = {.batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .seed = 3};
    yoke_replica *r;

    ASSERT_OK(yoke_replica_create(device, g, &o, &r));
    return r;
}

/* Copies the parameters; those of positions as far as `to` has them. */
static void
copy_parameters(yoke_replica *from, yoke_replica *to)
{
    static float values[LARGEST];

    for (size_t i = 0; i < PARAMETERS; i++) {
        const yoke_node *node = yoke_graph_get_parameter(from->weights->graph, i);
        const yoke_node *other = yoke_graph_get_parameter(to->weights->graph, i);

        ASSERT_OK(yoke_replica_read(from, node->name, values, yki_shape_count(node->shape)));
        ASSERT_OK(yoke_replica_write(to, node->name, values, yki_shape_count(other->shape)));
    }
}

typedef struct outcome {
    double loss, count, hits, all;
    float logits[BATCH * LENGTH * WORDS];
    float gradients[PARAMETERS][LARGEST];
} outcome;

/* Rows at (sample, position) are the same whatever the length. */
static void
feed(yoke_replica *r, int64_t n, int64_t length)
{
    int32_t tokens[BATCH * LENGTH], next[BATCH * LENGTH], lengths[BATCH];

    for (int64_t s = 0; s < n; s++) {
        lengths[s] = s == 1 ? 3 : LENGTH;
        if (!r->weights->graph->length)
            lengths[s] = YKI_MIN(lengths[s], (int32_t)length);
        for (int64_t i = 0; i < length; i++) {
            tokens[s * length + i] = (int32_t)((5 * s + 3 * i + i * i) % WORDS);
            next[s * length + i] = (s + i) % 4 == 2 ? -1 : (int32_t)((2 * s + 4 * i + 1) % WORDS);
        }
    }
    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_i32("tokens", tokens, n * length)));
    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_i32("next", next, n * length)));
    ASSERT_OK(yoke_replica_set_input(r, n, yoke_feed_i32("lengths", lengths, n)));
}

static void
run(yoke_replica *r, int64_t n, int64_t length, bool training, outcome *out)
{
    memset(out, 0, sizeof *out);
    feed(r, n, length);
    if (training) {
        ASSERT_OK(yoke_replica_forward(r, n));
        ASSERT_OK(yoke_replica_read_loss(r, &out->loss, &out->count));
        ASSERT_OK(yoke_replica_read_metric(r, "accuracy", &out->hits, &out->all));
        ASSERT_OK(yoke_replica_backward(r));
        for (size_t i = 0; i < PARAMETERS; i++) {
            const yoke_node *node = yoke_graph_get_parameter(r->weights->graph, i);

            ASSERT_OK(yoke_replica_read_gradient(r, node->name, out->gradients[i],
                                                 yki_shape_count(node->shape)));
        }
        return;
    }
    ASSERT_OK(yoke_replica_evaluate(r, n));
    ASSERT_OK(yoke_replica_read_loss(r, &out->loss, &out->count));
    ASSERT_OK(yoke_replica_read_output(r, "logits", out->logits, n * length * WORDS));
}

static void
near(const float *a, const float *b, size_t count, const char *what, int64_t length)
{
    float worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        worst = YKI_MAX(worst, fabsf(a[i] - b[i]));
        largest = YKI_MAX(largest, fabsf(b[i]));
        ck_assert(isfinite(a[i]));
    }
    ck_assert_msg(worst <= 2e-5f * largest, "%s at length %lld: %g of %g", what, (long long)length,
                  (double)worst, (double)largest);
}

static test_devices devices;

static void
open_devices(void)
{
    if (!test_devices_find(TEST_AS_IS, &devices))
        ck_abort_msg("%s", devices.missing);
}

static void
close_devices(void)
{
    test_devices_close(&devices);
}

static yoke_device *
first_device(yoke_selection **selection)
{
    ASSERT_OK(yoke_selection_create(devices.context, devices.selector, NULL, selection));
    return yoke_selection_get(*selection, 0);
}

static yoke_memory_usage
about(yoke_device *device)
{
    yoke_memory_usage usage;

    ASSERT_OK(yoke_device_get_memory(device, &usage));
    return usage;
}

/* Lengths go up and down, so nothing is left of a longer step. None builds or allocates. */
START_TEST(every_length_is_as_if_built_for_it)
{
    static const int64_t lengths[] = {LENGTH, 1, 4, 2, 3, LENGTH};
    yoke_selection *selection;
    yoke_device *device = first_device(&selection);
    yoke_graph *g = network(LENGTH, true, _i);
    yoke_replica *r = make(device, g);

    ck_assert_uint_eq(yoke_graph_parameter_count(g), PARAMETERS);
    for (size_t k = 0; k < YKI_COUNT(lengths); k++) {
        int64_t t = lengths[k], n = k % 2 ? BATCH : 2;
        yoke_graph *fixed = network(t, false, _i);
        yoke_replica *other = make(device, fixed);
        static outcome a, b;
        yoke_memory_usage before;
        uint64_t builds;

        copy_parameters(r, other);
        if (k == 0) /* the plan that evaluates is made when it is needed */
            run(r, n, t, false, &a);
        before = about(device);
        builds = yki_program_builds();
        run(r, n, t, true, &a);
        run(r, n, t, false, &a);
        ck_assert_uint_eq(yki_program_builds(), builds);
        ck_assert_uint_eq(about(device).used, before.used);
        ck_assert_uint_eq(about(device).peak, before.peak);
        run(r, n, t, true, &a);
        run(other, n, t, true, &b);
        ck_assert_double_eq(a.count, b.count);
        ck_assert_double_eq(a.hits, b.hits);
        ck_assert_double_eq(a.all, b.all);
        ck_assert_double_eq_tol(a.loss, b.loss, 1e-5 * fabs(b.loss));
        for (size_t i = 0; i < PARAMETERS; i++)
            near(a.gradients[i], b.gradients[i], LARGEST, yoke_graph_get_parameter(g, i)->name, t);
        run(r, n, t, false, &a);
        run(other, n, t, false, &b);
        near(a.logits, b.logits, (size_t)(n * t * WORDS), "logits", t);
        ck_assert_double_eq(a.count, b.count);
        yoke_replica_destroy(other);
        yoke_graph_destroy(fixed);
    }
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
}
END_TEST

START_TEST(rows_do_not_depend_on_later_ones)
{
    yoke_selection *selection;
    yoke_device *device = first_device(&selection);
    yoke_graph *g = network(LENGTH, true, _i ? LLAMA : PLAIN);
    yoke_replica *r = make(device, g);
    static outcome whole, part;

    run(r, BATCH, LENGTH, false, &whole);
    for (int64_t t = 1; t < LENGTH; t++)
        for (int64_t n = 1; n <= BATCH; n += BATCH - 1) {
            run(r, n, t, false, &part);
            for (int64_t s = 0; s < n; s++)
                for (int64_t i = 0; i < t * WORDS; i++)
                    if (!(s == 1 && i / WORDS >= 3))
                        ck_assert_msg(memcmp(&part.logits[s * t * WORDS + i],
                                             &whole.logits[s * LENGTH * WORDS + i], 4) == 0,
                                      "length %lld, sample %lld, value %lld", (long long)t,
                                      (long long)s, (long long)i);
        }
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
}
END_TEST

START_TEST(lengths_that_do_not_fit_are_refused)
{
    static const int32_t values[4 * BATCH * LENGTH];
    yoke_selection *selection;
    yoke_device *device = first_device(&selection);
    yoke_graph *g = network(LENGTH, true, PLAIN);
    yoke_replica *r = make(device, g);
    yoke_feed feed_of_two = yoke_feed_i32("tokens", values, 4);
    float logits[2 * LENGTH * WORDS];

    ASSERT_REFUSED(
        YOKE_ERROR_SHAPE,
        "yoke_replica_set_input: feed \"tokens\" has 0 values; must be 2 samples of 1 to "
        "5 rows of (), of one length",
        yoke_replica_set_input(r, 2, yoke_feed_i32("tokens", values, 0)));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "has 12 values; must be 2 samples of 1 to 5 rows",
                   yoke_replica_set_input(r, 2, yoke_feed_i32("tokens", values, 12)));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "has 5 values; must be 2 samples of 1 to 5 rows",
                   yoke_replica_set_input(r, 2, yoke_feed_i32("tokens", values, 5)));
    feed_of_two.length = 3;
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT,
                   "feed \"tokens\": length is 3; must be 0, or as its count says 2",
                   yoke_replica_set_input(r, 2, feed_of_two));
    feed_of_two.length = 2;
    ASSERT_OK(yoke_replica_set_input(r, 2, feed_of_two));
    ASSERT_OK(yoke_replica_set_input(r, 2, yoke_feed_i32("next", values, 6)));
    ASSERT_OK(yoke_replica_set_input(r, 2, yoke_feed_i32("lengths", values, 2)));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE,
                   "the samples of \"next\" have 3 rows and those of \"tokens\" have 2; must be as "
                   "many",
                   yoke_replica_forward(r, 2));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "must be as many", yoke_replica_evaluate(r, 2));
    ASSERT_OK(yoke_replica_set_input(r, 2, yoke_feed_i32("next", values, 4)));
    ASSERT_OK(yoke_replica_evaluate(r, 2));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "the number of values is 70; must be 28",
                   yoke_replica_read_output(r, "logits", logits, 70));
    ASSERT_OK(yoke_replica_read_output(r, "logits", logits, 28));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
    yoke_selection_destroy(selection);
}
END_TEST

/* ---- trainers, data sets, predictors ---- */

static int32_t tokens[BATCH * LENGTH], next_tokens[BATCH * LENGTH], full[BATCH];

static yoke_trainer *
make_trainer(void)
{
    const yoke_trainer_options o = {.batch = BATCH, .level = YOKE_PLAN_ESTIMATE};
    yoke_graph *g = network(LENGTH, true, DROPOUT);
    yoke_trainer *t;
    yoke_team *team;

    for (int i = 0; i < BATCH * LENGTH; i++) {
        tokens[i] = i * i % WORDS;
        next_tokens[i] = i % 3 ? (i + 2) % WORDS : -1;
    }
    for (int i = 0; i < BATCH; i++)
        full[i] = LENGTH;
    ASSERT_OK(yoke_team_create(devices.context, devices.selector, NULL, &team));
    ASSERT_OK(yoke_trainer_create(team, g, &o, &t));
    yoke_team_destroy(team);
    yoke_graph_destroy(g);
    return t;
}

static yoke_dataset *
make_dataset(int64_t length, int64_t next_length)
{
    const yoke_field fields[] = {
        {.name = "tokens", .type = YOKE_I32, .shape = yoke_shape(length), .data = tokens},
        {.name = "next", .type = YOKE_I32, .shape = yoke_shape(next_length), .data = next_tokens},
        {.name = "lengths", .type = YOKE_I32, .shape = yoke_shape(), .data = full}};
    yoke_dataset *dataset;

    ASSERT_OK(yoke_dataset_create(BATCH, fields, 3, NULL, &dataset));
    return dataset;
}

/* The number of labels among the first `count` values that count. */
static int
labels(int64_t count)
{
    int found = 0;

    for (int64_t i = 0; i < count; i++)
        found += next_tokens[i] >= 0;
    return found;
}

START_TEST(trainers_take_any_length)
{
    yoke_trainer *t = make_trainer();
    static float part[BATCH * LENGTH * WORDS], whole[BATCH * LENGTH * WORDS];

    for (int64_t length = LENGTH; length >= 1; length--) {
        const int64_t count = BATCH * length;
        const yoke_feed feeds[] = {yoke_feed_i32("tokens", tokens, count),
                                   yoke_feed_i32("next", next_tokens, count),
                                   yoke_feed_i32("lengths", full, BATCH)};
        yoke_dataset *dataset = make_dataset(length, length);
        yoke_result result;

        ASSERT_OK(yoke_trainer_step(t, BATCH, feeds, 3, &result));
        ck_assert_double_eq(result.count, labels(count));
        ASSERT_OK(yoke_trainer_predict(t, "logits", 1,
                                       (yoke_feed[]){yoke_feed_i32("tokens", tokens, LENGTH),
                                                     yoke_feed_i32("lengths", full, 1)},
                                       2, whole, LENGTH * WORDS));
        ASSERT_OK(yoke_trainer_predict(t, "logits", 1,
                                       (yoke_feed[]){yoke_feed_i32("tokens", tokens, length),
                                                     yoke_feed_i32("lengths", full, 1)},
                                       2, part, length * WORDS));
        ck_assert_mem_eq(part, whole, (size_t)(length * WORDS) * sizeof *part);
        ASSERT_OK(yoke_trainer_evaluate(t, dataset, &result));
        ck_assert_double_eq(result.count, labels(count));
        ASSERT_OK(yoke_trainer_step(t, BATCH, NULL, 0, &result)); /* the data of the step before */
        ck_assert_double_eq(result.count, labels(count));
        yoke_dataset_destroy(dataset);
    }
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(trainers_refuse_lengths_that_differ)
{
    yoke_trainer *t = make_trainer();
    yoke_feed feeds[] = {yoke_feed_i32("tokens", tokens, 2 * 3),
                         yoke_feed_i32("next", tokens, 2 * 4), yoke_feed_i32("lengths", full, 2)};
    yoke_dataset *dataset = make_dataset(4, 3);
    yoke_result result;

    ASSERT_REFUSED(YOKE_ERROR_SHAPE,
                   "yoke_trainer_step: the samples of \"next\" have 4 rows and those of \"tokens\" "
                   "have 3; must be as many",
                   yoke_trainer_step(t, 2, feeds, 3, NULL));
    feeds[1].count = 2 * (LENGTH + 1);
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "must be 2 samples of 1 to 5 rows of (), of one length",
                   yoke_trainer_step(t, 2, feeds, 3, NULL));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE,
                   "the dataset: the samples of \"next\" have 3 rows and those of \"tokens\" have "
                   "4; must be as many",
                   yoke_trainer_evaluate(t, dataset, &result));
    yoke_dataset_destroy(dataset);
    yoke_trainer_destroy(t);
}
END_TEST

START_TEST(predictors_take_any_length)
{
    static float whole[BATCH * LENGTH * WORDS], part[BATCH * LENGTH * WORDS];
    const yoke_predictor_options o = {.batch = 2, .level = YOKE_PLAN_ESTIMATE};
    yoke_predictor *p;
    yoke_model *model;
    yoke_graph *g;
    yoke_node *x;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_sequence(g, yoke_input(g, "tokens", YOKE_I32, yoke_shape(LENGTH)));
    x = yoke_embedding(g, x, &(yoke_embedding_options){.rows = WORDS, .width = WORDS});
    yoke_graph_set_output(g, "y", x);
    ASSERT_OK(yoke_model_create(g, NULL, &model));
    ASSERT_OK(yoke_predictor_create(devices.context, devices.selector, model, &o, &p));
    ck_assert_int_eq(yoke_predictor_get_shape(p).rank, 2);
    ck_assert_int_eq(yoke_predictor_get_shape(p).dim[0], LENGTH);
    for (int i = 0; i < BATCH * LENGTH; i++)
        tokens[i] = i * i % WORDS;
    ASSERT_OK(yoke_predictor_run(p, BATCH, yoke_feed_i32("tokens", tokens, BATCH * LENGTH), whole,
                                 BATCH * LENGTH * WORDS));
    ASSERT_OK(yoke_predictor_run(p, BATCH, yoke_feed_i32("tokens", tokens, BATCH * 2), part,
                                 BATCH * 2 * WORDS));
    ck_assert_mem_eq(part, whole, (size_t)(BATCH * 2 * WORDS) * sizeof *part);
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "must be 42 for 3 results of (7) for each row",
                   yoke_predictor_run(p, BATCH, yoke_feed_i32("tokens", tokens, BATCH * 2), part,
                                      BATCH * WORDS));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "must be 3 samples of 1 to 5 rows",
                   yoke_predictor_run(p, BATCH, yoke_feed_i32("tokens", tokens, 7), part, 7));
    yoke_predictor_destroy(p);
    yoke_model_destroy(model);
    yoke_graph_destroy(g);
}
END_TEST

/* ---- graphs ---- */

START_TEST(graphs_of_sequences_are_written_and_read)
{
    yoke_graph *g = network(LENGTH, true, DROPOUT), *again;
    yki_hash a, b;
    char hex[2][33], *text;

    ASSERT_OK(yoke_graph_to_json(g, &text));
    ck_assert_ptr_nonnull(strstr(text, "\"sequence\": true"));
    ASSERT_OK(yoke_graph_from_json(text, strlen(text), &again));
    yki_graph_hash(g, &a);
    yki_graph_hash(again, &b);
    yki_hash_hex(&a, hex[0]);
    yki_hash_hex(&b, hex[1]);
    ck_assert_str_eq(hex[0], hex[1]);
    ck_assert_int_eq(yoke_node_shape(yoke_graph_get_node(again, "tokens")).dim[0], LENGTH);
    yoke_graph_destroy(g);
    yoke_graph_destroy(again);
    yoke_free(text);
}
END_TEST

typedef yoke_node *(*mistake)(yoke_graph *g, yoke_node *x, yoke_node *flat);

static yoke_node *
add_flat(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    return yoke_add(g, x, flat);
}

static yoke_node *
add_few_places(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    (void)flat;
    return yoke_add(g, x, yoke_parameter(g, "few", yoke_shape(3, 4), (yoke_initializer){0}));
}

static yoke_node *
other_length(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    (void)x, (void)flat;
    return yoke_sequence(g, yoke_input(g, "z", YOKE_F32, yoke_shape(6, 4)));
}

static yoke_node *
no_rows(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    (void)x, (void)flat;
    return yoke_sequence(g, yoke_input(g, "z", YOKE_F32, yoke_shape()));
}

static yoke_node *
used_before(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    yoke_node *z = yoke_input(g, "z", YOKE_F32, yoke_shape(LENGTH, 4));

    (void)x, (void)flat;
    yoke_relu(g, z);
    return yoke_sequence(g, z);
}

static yoke_node *
no_input(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    (void)flat;
    return yoke_sequence(g, yoke_relu(g, x));
}

static yoke_node *
narrow_attention(yoke_graph *g, yoke_node *x, yoke_node *flat)
{
    return yoke_attention(
        g,
        yoke_matmul(g, x, yoke_parameter(g, "w", yoke_shape(4, 12), (yoke_initializer){0}), NULL),
        flat, &(yoke_attention_options){.heads = 2});
}

START_TEST(what_does_not_fit_a_sequence_is_refused)
{
    static const struct {
        mistake make;
        const char *sentence;
    } list[] = {
        {add_flat, "add1: \"x\" is a sequence and \"flat\" is not; must both be sequences, or "
                   "neither"},
        {add_few_places, "add1: the input \"few\" has shape (3, 4); must be (5, 4)"},
        {other_length, "z: its length is 6; must be 5, the length of the graph's other sequences"},
        {no_rows, "z: the input \"z\" has shape (); must be (length) or (length, ...)"},
        {used_before, "z: \"relu1\" uses it; must become a sequence before it is used"},
        {no_input,
         "relu1: it is no input; must be an input or a target that is not a sequence yet"},
        {narrow_attention, "attention1: the lengths \"flat\" has type f32; must be i32"},
    };
    yoke_graph *g;
    yoke_node *x, *flat;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_sequence(g, yoke_input(g, "x", YOKE_F32, yoke_shape(LENGTH, 4)));
    flat = yoke_input(g, "flat", YOKE_F32, yoke_shape(4));
    ck_assert_ptr_null(list[_i].make(g, x, flat));
    ck_assert(yoke_graph_status(g) != YOKE_OK);
    ck_assert_str_eq(yoke_last_error(), list[_i].sentence);
    yoke_graph_destroy(g);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("sequences");
    TCase *tcase = test_case(suite, "replicas");

    tcase_set_timeout(tcase, 300);
    tcase_add_checked_fixture(tcase, open_devices, close_devices);
    tcase_add_loop_test(tcase, every_length_is_as_if_built_for_it, 0, KINDS);
    tcase_add_loop_test(tcase, rows_do_not_depend_on_later_ones, 0, 2);
    tcase_add_test(tcase, lengths_that_do_not_fit_are_refused);
    tcase_add_test(tcase, trainers_take_any_length);
    tcase_add_test(tcase, trainers_refuse_lengths_that_differ);
    tcase_add_test(tcase, predictors_take_any_length);
    tcase = test_case(suite, "graphs");
    tcase_add_test(tcase, graphs_of_sequences_are_written_and_read);
    tcase_add_loop_test(tcase, what_does_not_fit_a_sequence_is_refused, 0, 7);
    return suite;
}
