/* SPDX-License-Identifier: Apache-2.0
 *
 * generator.c - a language model on one device that writes.
 *
 * It has two plans over the same weights and caches (replica/decoding.c): one computes a
 * row of each stream and its logits, the other takes in pieces of prompts, PIECE rows
 * at a time, without logits. Rows of a stream that is not concerned are at position -1.
 * Which of the two computes a row depends on the stream's own prompt alone, so its bits
 * do not depend on the streams beside it.
 */
#include <math.h>
#include <string.h>

#include "replica/decoding.h"
#include "replica/model.h"
#include "replica/replica.h"
#include "replica/sampling.h"

/* Rows of a piece of a prompt. Prompts with fewer tokens to take in than SHORT go row by row. */
enum { PIECE = 64, SHORT = 4, MOST_STREAMS = 4096 };

typedef struct stage {
    yki_decoding decoding;
    yki_weights *weights;
    yki_plan *plan;
    int64_t rows;
    int32_t *tokens, *positions, *starts; /* of all streams; enqueued reads may be using them */
} stage;

typedef struct stream {
    int32_t *tokens; /* prompt, then what was drawn; room for the context */
    int64_t count, prompt;
    int64_t done; /* rows that are in the caches */
    bool running;
} stream;

struct yoke_generator {
    yoke_model *model;         /* retained */
    yoke_selection *selection; /* keeps the hardware in its present split */
    yki_weights *weights;      /* borrowed from the model */
    yki_wisdom *wisdom;
    yki_queue *queue;
    yki_language language;
    stage prefill, decode; /* prefill has no plan where no prompt is long */
    int64_t context;
    size_t most_streams;
    stream *streams;
    size_t count; /* prompts */
    yoke_sampling sampling;
    int32_t *stops; /* owned */
    bool drawn;     /* the logits are those of the newest tokens */
    float *logits;  /* (streams, vocabulary) */
    double *work;
    int32_t *order;
};

/* ---- making ---- */

static yoke_status
make_stage(yoke_generator *g, stage *s, bool fills, int64_t rows, yki_weights *lender,
           const yoke_generator_options *o)
{
    const yki_plan_options options = {
        .max.batch = (int64_t)g->most_streams, .level = o->level, .wisdom = g->wisdom};
    size_t places = g->most_streams * (size_t)rows;

    s->rows = rows;
    YKI_TRY(yki_decoding_create(g->weights->graph, &g->language, rows, (int64_t)g->most_streams,
                                g->context, fills, &s->decoding));
    YKI_TRY(
        yki_weights_create(g->weights->device, s->decoding.graph, false, 0, lender, &s->weights));
    YKI_TRY(yki_plan_create(s->weights, g->queue, &options, &s->plan));
    s->tokens = yki_alloc(places, sizeof *s->tokens, "a generator's tokens");
    s->positions = yki_alloc(places, sizeof *s->positions, "a generator's positions");
    s->starts = yki_alloc(g->most_streams, sizeof *s->starts, "a generator's positions");
    return s->tokens && s->positions && s->starts ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

static void
free_stage(stage *s)
{
    yki_plan_destroy(s->plan);
    yki_weights_release(s->weights);
    yoke_graph_destroy(s->decoding.graph);
    yki_free(s->tokens);
    yki_free(s->positions);
    yki_free(s->starts);
}

static yoke_status
make_memory(yoke_generator *g)
{
    size_t vocabulary = (size_t)g->language.vocabulary;

    g->streams = yki_alloc(g->most_streams, sizeof *g->streams, "a generator's streams");
    g->logits = yki_alloc(g->most_streams * vocabulary, sizeof *g->logits, "logits");
    g->work = yki_alloc(vocabulary, sizeof *g->work, "probabilities");
    g->order = yki_alloc(vocabulary, sizeof *g->order, "the order of tokens");
    if (!g->streams || !g->logits || !g->work || !g->order)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->most_streams; i++) {
        g->streams[i].tokens = yki_alloc((size_t)g->context, sizeof(int32_t), "a stream's tokens");
        if (!g->streams[i].tokens)
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return YOKE_OK;
}

static yoke_status
make_on_device(yoke_generator *g, const yoke_generator_options *o)
{
    yoke_device *device = yoke_selection_get(g->selection, 0);
    int64_t piece;

    YKI_TRY(yki_model_borrow(g->model, device, &g->weights));
    YKI_TRY(yki_language_find(g->weights->graph, o->output, &g->language));
    if (o->context < 0 || o->context == 1 || o->context > g->language.context)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "context", o->context, 2,
                              g->language.context);
    g->context = o->context ? o->context : g->language.context;
    if (g->context < 2)
        return yki_fail_range(YOKE_ERROR_UNSUPPORTED, "the length of the model's input", g->context,
                              2, INT32_MAX);
    YKI_TRY(yki_queue_create(device, false, &g->queue));
    YKI_TRY(yki_open_wisdom(device, o->wisdom, &g->wisdom));
    YKI_TRY(make_memory(g));
    YKI_TRY(make_stage(g, &g->decode, false, 1, g->weights, o));
    piece = YKI_MIN(PIECE, g->context - 1);
    if (piece > SHORT)
        YKI_TRY(make_stage(g, &g->prefill, true, piece, g->decode.weights, o));
    return yki_wisdom_save(g->wisdom);
}

static yoke_status
make(yoke_generator *g, yoke_context *context, const char *selector,
     const yoke_generator_options *o)
{
    const yoke_selection_options holder = {.holder = "a generator"};
    yoke_status status;

    YKI_TRY(yoke_selection_create(context, selector, &holder, &g->selection));
    pthread_mutex_lock(&g->model->lock);
    status = make_on_device(g, o);
    pthread_mutex_unlock(&g->model->lock);
    return status;
}

yoke_status
yoke_generator_create_sized(yoke_context *context, const char *selector, yoke_model *model,
                            const yoke_generator_options *options, size_t size,
                            yoke_generator **out)
{
    yoke_generator_options o = {0};
    yoke_generator *g;
    yoke_status status;

    YKI_GIVEN("yoke_generator_create", {"context", context}, {"model", model}, {"generator", out});
    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    if (o.streams < 0 || o.streams > MOST_STREAMS)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "streams", o.streams, 0, MOST_STREAMS);
    if ((unsigned)o.level > YOKE_PLAN_PATIENT)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "level", (int)o.level, 0,
                              YOKE_PLAN_PATIENT);
    g = yki_alloc(1, sizeof *g, "a generator");
    if (!g)
        return YOKE_ERROR_OUT_OF_MEMORY;
    g->model = yki_model_retain(model);
    g->most_streams = o.streams ? (size_t)o.streams : 1;
    status = make(g, context, selector, &o);
    if (status != YOKE_OK) {
        yoke_generator_destroy(g);
        return status;
    }
    *out = g;
    return YOKE_OK;
}

void
yoke_generator_destroy(yoke_generator *g)
{
    if (!g)
        return;
    if (g->queue)
        (void)yki_queue_finish(g->queue);
    free_stage(&g->prefill);
    free_stage(&g->decode);
    yki_queue_destroy(g->queue);
    yki_wisdom_close(g->wisdom);
    if (g->weights) {
        pthread_mutex_lock(&g->model->lock);
        yki_model_give_back(g->model, g->weights);
        pthread_mutex_unlock(&g->model->lock);
    }
    for (size_t i = 0; g->streams && i < g->most_streams; i++)
        yki_free(g->streams[i].tokens);
    yki_free(g->streams);
    yki_free(g->logits);
    yki_free(g->work);
    yki_free(g->order);
    yki_free(g->stops);
    yoke_selection_destroy(g->selection);
    yoke_model_destroy(g->model);
    yki_free(g);
}

int64_t
yoke_generator_vocabulary(const yoke_generator *g)
{
    return g ? g->language.vocabulary : 0;
}

int64_t
yoke_generator_context(const yoke_generator *g)
{
    return g ? g->context : 0;
}

const yki_plan *
yki_generator_plan(const yoke_generator *g)
{
    return g->decode.plan;
}

/* ---- prompts ---- */

static yoke_status
check_prompt(const yoke_generator *g, size_t index, const yoke_prompt *p)
{
    if (p->count < 1 || p->count >= g->context)
        return yki_fail(YOKE_ERROR_VALUE,
                        "prompt %zu has %lld tokens; must have between 1 and %lld, as the context "
                        "has room for %lld with what is generated",
                        index, (long long)p->count, (long long)g->context - 1,
                        (long long)g->context);
    if (!p->tokens)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "yoke_generator_start: the tokens of prompt %zu are NULL", index);
    for (int64_t i = 0; i < p->count; i++)
        if (p->tokens[i] < 0 || p->tokens[i] >= g->language.tokens_end)
            return yki_fail(YOKE_ERROR_VALUE,
                            "token %lld of prompt %zu is %d; must be between 0 and %lld, the "
                            "model's vocabulary",
                            (long long)i, index, p->tokens[i],
                            (long long)g->language.tokens_end - 1);
    return YOKE_OK;
}

yoke_status
yoke_generator_start_sized(yoke_generator *g, const yoke_prompt *prompts, size_t count,
                           const yoke_sampling *sampling, size_t size)
{
    yoke_sampling s = {0};
    int32_t *stops;

    YKI_GIVEN("yoke_generator_start", {"generator", g}, {"prompts", prompts});
    if (sampling)
        memcpy(&s, sampling, YKI_MIN(size, sizeof s));
    YKI_TRY(yki_check_sampling(&s));
    if (count < 1 || count > g->most_streams)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "the number of prompts", (int64_t)count,
                              1, (int64_t)g->most_streams);
    for (size_t i = 0; i < count; i++)
        YKI_TRY(check_prompt(g, i, &prompts[i]));
    stops = yki_alloc(s.stop_count, sizeof *stops, "stop tokens");
    if (!stops)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (s.stop_count)
        memcpy(stops, s.stops, s.stop_count * sizeof *stops);
    yki_free(g->stops);
    g->stops = stops;
    s.stops = stops;
    g->sampling = s;
    g->count = count;
    g->drawn = false;
    for (size_t i = 0; i < count; i++) {
        stream *to = &g->streams[i];

        memcpy(to->tokens, prompts[i].tokens, (size_t)prompts[i].count * sizeof *to->tokens);
        to->count = to->prompt = prompts[i].count;
        to->done = 0;
        to->running = true;
    }
    return YOKE_OK;
}

/* ---- computing ---- */

/* Places the next rows of stream i, as many as `rows_of` says. */
static bool
fill(yoke_generator *g, stage *s, int64_t (*rows_of)(const stage *, const stream *))
{
    bool some = false;

    for (size_t i = 0; i < g->count; i++) {
        stream *from = &g->streams[i];
        int64_t rows = from->running ? rows_of(s, from) : 0;

        s->starts[i] = rows ? (int32_t)from->done : 0;
        for (int64_t r = 0; r < s->rows; r++) {
            int64_t at = (int64_t)i * s->rows + r;

            s->tokens[at] = r < rows ? from->tokens[from->done + r] : 0;
            s->positions[at] = r < rows ? (int32_t)(from->done + r) : -1;
        }
        from->done += rows;
        some |= rows > 0;
    }
    return some;
}

/* Gives an input, if the model needs it, `values` of each stream. */
static yoke_status
give(yoke_generator *g, const stage *s, const yoke_node *input, int64_t values, const int32_t *data)
{
    yki_buffer *buffer = yki_plan_buffer(s->plan, input);

    return buffer ? yki_queue_write(g->queue, buffer, 0, g->count * (uint64_t)values * sizeof *data,
                                    data, YKI_NO_WAIT, NULL)
                  : YOKE_OK;
}

static yoke_status
enqueue(yoke_generator *g, stage *s)
{
    YKI_TRY(give(g, s, s->decoding.tokens, s->rows, s->tokens));
    YKI_TRY(give(g, s, s->decoding.positions, s->rows, s->positions));
    YKI_TRY(give(g, s, s->decoding.starts, 1, s->starts));
    return yki_plan_enqueue(s->plan, YKI_FORWARD, (yki_extents){.batch = (int64_t)g->count}, NULL);
}

/* Rows of a prompt but for its last, whose logits are wanted. */
static int64_t
rows_of_piece(const stage *s, const stream *from)
{
    return from->prompt - 1 >= SHORT ? YKI_MIN(s->rows, YKI_MAX(from->prompt - 1 - from->done, 0))
                                     : 0;
}

static int64_t
row_of_short(const stage *s, const stream *from)
{
    (void)s;
    return from->done < from->prompt - 1;
}

static int64_t
row_of_all(const stage *s, const stream *from)
{
    (void)s, (void)from;
    return 1;
}

static yoke_status
compute(yoke_generator *g)
{
    while (g->prefill.plan && fill(g, &g->prefill, rows_of_piece)) {
        YKI_TRY(enqueue(g, &g->prefill));
        YKI_TRY(yki_queue_finish(g->queue)); /* the next piece is written where this one is read */
    }
    while (fill(g, &g->decode, row_of_short)) {
        YKI_TRY(enqueue(g, &g->decode));
        YKI_TRY(yki_queue_finish(g->queue));
    }
    fill(g, &g->decode, row_of_all);
    YKI_TRY(enqueue(g, &g->decode));
    YKI_TRY(yki_queue_read(g->queue, yki_plan_buffer(g->decode.plan, g->decode.decoding.logits), 0,
                           g->count * (uint64_t)g->language.vocabulary * sizeof *g->logits,
                           g->logits, YKI_NO_WAIT, NULL));
    return yki_queue_finish(g->queue);
}

/* Says why the logits of a stream cannot be drawn from. */
static yoke_status
fail_logits(const yoke_generator *g, size_t index)
{
    const yoke_model *m = g->model;

    for (size_t i = 0; i < m->value_count; i++)
        for (int64_t k = 0; m->values[i] && k < yki_shape_count(m->graph->nodes[i]->shape); k++)
            if (!isfinite(m->values[i][k]))
                return yki_fail(YOKE_ERROR_VALUE,
                                "the weight \"%s\" has a value that is not finite; the model "
                                "cannot generate",
                                m->graph->nodes[i]->name);
    return yki_fail(YOKE_ERROR_VALUE,
                    "the logits after token %lld of prompt %zu are not finite; must be, to draw "
                    "from them",
                    (long long)g->streams[index].count - 1, index);
}

static bool
stops_at(const yoke_generator *g, int32_t token)
{
    for (size_t i = 0; i < g->sampling.stop_count; i++)
        if (g->stops[i] == token)
            return true;
    return false;
}

/* Draws the next token of a stream; -1: it ends instead. */
static yoke_status
draw_token(yoke_generator *g, size_t index, int32_t *token)
{
    stream *s = &g->streams[index];
    int32_t drawn =
        yki_sample(g->logits + index * (size_t)g->language.vocabulary, g->language.vocabulary,
                   &g->sampling, g->sampling.seed + index, s->count - s->prompt, g->work, g->order);

    if (drawn < 0)
        return fail_logits(g, index);
    if (stops_at(g, drawn)) {
        s->running = false;
        *token = -1;
        return YOKE_OK;
    }
    *token = s->tokens[s->count++] = drawn;
    s->running = s->count < g->context && drawn < g->language.tokens_end &&
                 (!g->sampling.length || s->count - s->prompt < g->sampling.length);
    return YOKE_OK;
}

yoke_status
yoke_generator_next(yoke_generator *g, int32_t *tokens, size_t *running)
{
    yoke_status status;
    size_t left = 0;

    YKI_GIVEN(__func__, {"generator", g}, {"tokens", tokens}, {"running", running});
    if (g->count == 0)
        return yki_fail(YOKE_ERROR_STATE,
                        "%s: there is no prompt; call yoke_generator_start before", __func__);
    for (size_t i = 0; i < g->count; i++)
        left += g->streams[i].running;
    status = left ? compute(g) : YOKE_OK;
    g->drawn = left > 0;
    for (size_t i = 0; i < g->count && status == YOKE_OK; i++) {
        tokens[i] = -1;
        if (g->streams[i].running)
            status = draw_token(g, i, &tokens[i]);
    }
    if (status != YOKE_OK) {
        g->count = 0; /* what the caches hold is not known */
        return status;
    }
    left = 0;
    for (size_t i = 0; i < g->count; i++)
        left += g->streams[i].running;
    *running = left;
    return YOKE_OK;
}

const float *
yoke_generator_get_logits(const yoke_generator *g, size_t prompt)
{
    return g && g->drawn && prompt < g->count ? g->logits + prompt * (size_t)g->language.vocabulary
                                              : NULL;
}
