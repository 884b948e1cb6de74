/* SPDX-License-Identifier: Apache-2.0
 *
 * check_lora.c - low-rank adapters: the same function and gradients as the layers that they stand
 * for, a base that costs and changes nothing, their files, merging, and what is refused.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/safetensors.h"
#include "graph/graph.h"
#include "support/opened.h"
#include "support/scratch.h"

TESTS_SHARE_A_PROCESS

enum { BATCH = 8, IN = 6, WIDTH = 10, OUT = 4, RANK = 2, STEPS = 12 };
/* Sums of at most 48 products in another order. */
static const double ROUNDING = 2e-5;
static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units, const char *name, bool bias)
{
    return yoke_dense(g, x, &(yoke_dense_options){.units = units, .name = name, .no_bias = !bias});
}

static void
finish(yoke_graph *g, yoke_node *y)
{
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(
        g, yoke_mean_squared_error(g, y, yoke_target(g, "t", YOKE_F32, yoke_shape(OUT)), NULL));
}

/* (6) -> "attn.c_attn" (10) -> tanh -> "mlp.c_fc" (4), whose result is the output. */
static yoke_graph *
network(int64_t width)
{
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(IN)), width, "h.0.attn.c_attn", true);
    finish(g, dense(g, yoke_tanh(g, y), OUT, "h.0.mlp.c_fc", true));
    return g;
}

static yoke_status
adapt(yoke_graph *g, const char *targets)
{
    return yoke_graph_add_lora(g,
                               &(yoke_lora_options){.rank = RANK, .alpha = 3, .targets = targets});
}

/* The same by hand. */
static yoke_graph *
composed(void)
{
    yoke_graph *g;
    yoke_node *x, *y, *u;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(IN));
    y = dense(g, x, WIDTH, "h.0.attn.c_attn", true);
    u = dense(g, x, RANK, "a1", false);
    u = dense(g, u, WIDTH, "b1", false);
    y = yoke_tanh(g, yoke_add(g, y, yoke_scale(g, u, 1.5f, 0)));
    u = dense(g, y, RANK, "a2", false);
    u = dense(g, u, OUT, "b2", false);
    y = dense(g, y, OUT, "h.0.mlp.c_fc", true);
    finish(g, yoke_add(g, y, yoke_scale(g, u, 1.5f, 0)));
    return g;
}

static float
number(unsigned i)
{
    return (float)((i * 2654435761u >> 12) % 1000) / 1000.f - 0.5f;
}

static void
feed(yoke_replica *r)
{
    float x[BATCH * IN], t[BATCH * OUT];

    for (unsigned i = 0; i < BATCH * IN; i++)
        x[i] = number(i);
    for (unsigned i = 0; i < BATCH * OUT; i++)
        t[i] = number(i + 500);
    ASSERT_OK(yoke_replica_set_input(r, BATCH, yoke_feed_f32("x", x, BATCH * IN)));
    ASSERT_OK(yoke_replica_set_input(r, BATCH, yoke_feed_f32("t", t, BATCH * OUT)));
}

static yoke_replica *
replica(yoke_graph *g)
{
    const yoke_replica_options o = {
        .batch = BATCH, .level = YOKE_PLAN_ESTIMATE, .optimizer = yoke_adam(0.02f)};
    yoke_replica *r;

    ASSERT_OK(yoke_replica_create(devices.device[0], g, &o, &r));
    feed(r);
    return r;
}

static void
set(yoke_replica *r, const char *name, int64_t count, unsigned seed)
{
    float values[256];

    for (unsigned i = 0; i < count; i++)
        values[i] = number(i + seed);
    ASSERT_OK(yoke_replica_write(r, name, values, count));
}

static void
assert_near(const float *a, const float *b, size_t count, const char *what)
{
    double worst = 0, largest = 0;

    for (size_t i = 0; i < count; i++) {
        ck_assert_msg(isfinite(a[i]) && isfinite(b[i]), "%s", what); /* fmax ignores NaN */
        worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
        largest = fmax(largest, fabs((double)b[i]));
    }
    ck_assert_msg(largest > 0 && worst <= ROUNDING * largest, "%s: %g of %g", what, worst, largest);
}

static void
compare_gradients(yoke_replica *a, yoke_replica *b, const char *name, const char *other,
                  int64_t count)
{
    float x[256], y[256];

    ASSERT_OK(yoke_replica_read_gradient(a, name, x, count));
    ASSERT_OK(yoke_replica_read_gradient(b, other, y, count));
    assert_near(x, y, (size_t)count, name);
}

START_TEST(an_adapter_is_its_composition)
{
    static const struct {
        const char *name, *other;
        int64_t count;
        bool adapter;
    } weights[] = {
        {"h.0.attn.c_attn.weight", "h.0.attn.c_attn.weight", IN * WIDTH, false},
        {"h.0.attn.c_attn.bias", "h.0.attn.c_attn.bias", WIDTH, false},
        {"h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.weight", WIDTH * OUT, false},
        {"h.0.mlp.c_fc.bias", "h.0.mlp.c_fc.bias", OUT, false},
        {"h.0.attn.c_attn.lora_A.weight", "a1.weight", RANK * IN, true},
        {"h.0.attn.c_attn.lora_B.weight", "b1.weight", RANK * WIDTH, true},
        {"h.0.mlp.c_fc.lora_A.weight", "a2.weight", RANK * WIDTH, true},
        {"h.0.mlp.c_fc.lora_B.weight", "b2.weight", RANK * OUT, true},
    };
    yoke_graph *g = network(WIDTH), *h = composed();
    yoke_replica *r, *s;
    float y[BATCH * OUT], z[BATCH * OUT], gradient[IN * WIDTH];

    ASSERT_OK(adapt(g, "c_attn,*.mlp.c_fc"));
    r = replica(g);
    s = replica(h);
    for (unsigned i = 0; i < sizeof weights / sizeof *weights; i++) {
        set(r, weights[i].name, weights[i].count, 1000 * i);
        set(s, weights[i].other, weights[i].count, 1000 * i);
    }
    ASSERT_OK(yoke_replica_forward(r, BATCH));
    ASSERT_OK(yoke_replica_forward(s, BATCH));
    ASSERT_OK(yoke_replica_read_output(r, "y", y, BATCH * OUT));
    ASSERT_OK(yoke_replica_read_output(s, "y", z, BATCH * OUT));
    assert_near(y, z, BATCH * OUT, "y");
    ASSERT_OK(yoke_replica_backward(r));
    ASSERT_OK(yoke_replica_backward(s));
    for (unsigned i = 0; i < sizeof weights / sizeof *weights; i++)
        if (weights[i].adapter)
            compare_gradients(r, s, weights[i].name, weights[i].other, weights[i].count);
        else
            ASSERT_REFUSED(
                YOKE_ERROR_STATE, "has no gradient",
                yoke_replica_read_gradient(r, weights[i].name, gradient, weights[i].count));
    yoke_replica_destroy(r);
    yoke_replica_destroy(s);
    yoke_graph_destroy(g);
    yoke_graph_destroy(h);
}
END_TEST

START_TEST(adapters_learn_and_the_base_stays)
{
    yoke_graph *g = network(WIDTH);
    yoke_replica *r;
    float before[IN * WIDTH], after[IN * WIDTH], b[RANK * WIDTH];
    double first = 0, last = 0, count;

    ASSERT_OK(adapt(g, "*"));
    r = replica(g);
    ASSERT_OK(yoke_replica_read(r, "h.0.attn.c_attn.weight", before, IN * WIDTH));
    ASSERT_OK(yoke_replica_read(r, "h.0.attn.c_attn.lora_B.weight", b, RANK * WIDTH));
    for (int i = 0; i < RANK * WIDTH; i++)
        ck_assert(b[i] == 0);
    ASSERT_OK(yoke_replica_read(r, "h.0.attn.c_attn.lora_A.weight", b, RANK * IN));
    for (int i = 0; i < RANK * IN; i++)
        ck_assert(b[i] != 0 && fabsf(b[i]) <= 1 / sqrtf(IN));
    for (int i = 0; i < STEPS; i++) {
        ASSERT_OK(yoke_replica_forward(r, BATCH));
        ASSERT_OK(yoke_replica_backward(r));
        ASSERT_OK(yoke_replica_update(r, 1));
        ASSERT_OK(yoke_replica_read_loss(r, i ? &last : &first, &count));
    }
    ck_assert_msg(last < 0.9 * first, "%g after %g", last, first);
    ASSERT_OK(yoke_replica_read(r, "h.0.attn.c_attn.weight", after, IN * WIDTH));
    ck_assert_mem_eq(before, after, sizeof after);
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

static uint64_t
memory_of(yoke_graph *g)
{
    yoke_memory_usage before, with;
    yoke_replica *r;

    ASSERT_OK(yoke_device_get_memory(devices.device[0], &before));
    r = replica(g);
    ASSERT_OK(yoke_device_get_memory(devices.device[0], &with));
    yoke_replica_destroy(r);
    return with.used - before.used;
}

/* Values, gradients and two states of the optimizer, or values alone. */
START_TEST(a_frozen_base_has_values_alone)
{
    enum { WIDE = 1 << 16, BYTES = WIDE * (IN + 1 + OUT) * 4 };
    yoke_graph *full = network(WIDE), *frozen = network(WIDE);
    uint64_t all, few;

    ASSERT_OK(yoke_graph_freeze(frozen, "*.weight"));
    ASSERT_OK(yoke_graph_freeze(frozen, "h.0.attn.c_attn.bias"));
    all = memory_of(full);
    few = memory_of(frozen);
    ck_assert_msg(all - few > BYTES * 2.8, "%llu and %llu", (unsigned long long)all,
                  (unsigned long long)few);
    yoke_graph_destroy(full);
    yoke_graph_destroy(frozen);
}
END_TEST

/* Makes a model of the graph, which is given away. */
static yoke_model *
model_of(yoke_graph *g, bool adapted, uint32_t seed)
{
    yoke_model *m;
    float b[RANK * WIDTH];

    if (adapted)
        ASSERT_OK(adapt(g, "attn*,c_fc"));
    ASSERT_OK(yoke_model_create(g, &(yoke_model_options){.seed = seed}, &m));
    for (unsigned i = 0; i < RANK * WIDTH; i++)
        b[i] = number(i);
    if (adapted) {
        ASSERT_OK(yoke_model_write(m, "h.0.attn.c_attn.lora_B.weight", b, RANK * WIDTH));
        ASSERT_OK(yoke_model_write(m, "h.0.mlp.c_fc.lora_B.weight", b, RANK * OUT));
    }
    yoke_graph_destroy(g);
    return m;
}

static yoke_model *
model(bool adapted, uint32_t seed)
{
    return model_of(network(WIDTH), adapted, seed);
}

static void
predict(yoke_model *m, float *y)
{
    yoke_predictor *p;
    float x[BATCH * IN];

    for (unsigned i = 0; i < BATCH * IN; i++)
        x[i] = number(i);
    ASSERT_OK(yoke_predictor_create(devices.context, devices.selector, m,
                                    &(yoke_predictor_options){.level = YOKE_PLAN_ESTIMATE}, &p));
    ASSERT_OK(yoke_predictor_run(p, BATCH, yoke_feed_f32("x", x, BATCH * IN), y, BATCH * OUT));
    yoke_predictor_destroy(p);
}

/* A base with the weights of `m`. */
static yoke_model *
base_of(const yoke_model *m)
{
    static const char *const names[] = {"h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias",
                                        "h.0.mlp.c_fc.weight", "h.0.mlp.c_fc.bias"};
    static const int64_t counts[] = {IN * WIDTH, WIDTH, WIDTH * OUT, OUT};
    yoke_model *base = model(false, 9);
    float values[IN * WIDTH];

    for (int i = 0; i < 4; i++) {
        ASSERT_OK(yoke_model_read(m, names[i], values, counts[i]));
        ASSERT_OK(yoke_model_write(base, names[i], values, counts[i]));
    }
    return base;
}

START_TEST(files_and_merging_keep_the_function)
{
    yoke_model *m = model(true, 1), *base = base_of(m), *merged, *loaded;
    float y[BATCH * OUT], z[BATCH * OUT];
    size_t size;
    char *text;

    predict(m, y);
    merged = base_of(m);
    predict(merged, z);
    yoke_model_destroy(merged);
    ck_assert(memcmp(y, z, sizeof y) != 0);
    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters")));
    ASSERT_OK(yoke_model_load_adapters(base, scratch_path("adapters")));
    ASSERT_OK(yoke_model_save(base, scratch_path("whole.safetensors")));
    predict(base, z);
    ck_assert_mem_eq(y, z, sizeof y);
    ASSERT_REFUSED(YOKE_ERROR_STATE, "predictors", yoke_model_merge_adapters(base));
    ASSERT_OK(yoke_model_load(scratch_path("whole.safetensors"), &loaded));
    ASSERT_OK(yoke_model_merge_adapters(loaded));
    ck_assert_uint_eq(yoke_graph_parameter_count(yoke_model_get_graph(loaded)), 4);
    ASSERT_REFUSED(YOKE_ERROR_STATE, "no adapters", yoke_model_merge_adapters(loaded));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "no adapters",
                   yoke_model_save_adapters(loaded, scratch_path("none")));
    ASSERT_OK(yoke_model_save(loaded, scratch_path("merged.safetensors")));
    ASSERT_OK(yoke_model_load(scratch_path("merged.safetensors"), &merged));
    predict(merged, z);
    assert_near(z, y, BATCH * OUT, "merged");
    text = scratch_read(scratch_path("adapters/adapter_config.json"), &size);
    ck_assert_ptr_nonnull(strstr(text, "\"r\": 2"));
    ck_assert_ptr_nonnull(strstr(text, "\"lora_alpha\": 3"));
    ck_assert_ptr_nonnull(strstr(text, "\"fan_in_fan_out\": true"));
    ck_assert_ptr_nonnull(strstr(text, "\"c_fc\""));
    free(text);
    text = scratch_read(scratch_path("adapters/adapter_model.safetensors"), &size);
    ck_assert_ptr_nonnull(
        strstr(text + 8, "\"base_model.model.transformer.h.0.attn.c_attn.lora_A.weight\""));
    free(text);
    yoke_model_destroy(m);
    yoke_model_destroy(base);
    yoke_model_destroy(merged);
    yoke_model_destroy(loaded);
}
END_TEST

/* The same layers with nothing between them, or a dropout that both the second and its adapter
 * read. */
static yoke_graph *
row_of_layers(bool dropout)
{
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(IN)), WIDTH, "h.0.attn.c_attn", true);
    finish(g, dense(g, dropout ? yoke_dropout(g, y, 0.5f) : y, OUT, "h.0.mlp.c_fc", true));
    return g;
}

START_TEST(adapters_in_a_row_read_one_another)
{
    float y[BATCH * OUT], z[BATCH * OUT];

    for (int dropout = 0; dropout < 2; dropout++) {
        yoke_model *m = model_of(row_of_layers(dropout), true, 1), *loaded;

        predict(m, y);
        ASSERT_OK(yoke_model_save(m, scratch_path("whole.safetensors")));
        ASSERT_OK(yoke_model_load(scratch_path("whole.safetensors"), &loaded));
        ASSERT_OK(yoke_model_merge_adapters(loaded));
        predict(loaded, z);
        assert_near(z, y, BATCH * OUT, "merged");
        yoke_model_destroy(m);
        yoke_model_destroy(loaded);
    }
}
END_TEST

/* ---- a layer that is several modules in PEFT ---- */

enum { ROWS = 3, HEAD = 2, QUERIES = 4, PACKED = QUERIES + 2 * HEAD };

/* (3, 6) -> "l.qkv_proj" (3, 8): two heads of queries that share one of keys and values. */
static yoke_graph *
attention(void)
{
    yoke_graph *g;
    yoke_node *y;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(ROWS, IN)), PACKED, "l.qkv_proj", false);
    y = yoke_rope(g, y, NULL, &(yoke_rope_options){.heads = 2, .shared = 1});
    y = yoke_attention(g, y, NULL, &(yoke_attention_options){.heads = 2, .shared = 1});
    yoke_graph_set_output(g, "y", y);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, y, NULL));
    return g;
}

static yoke_model *
attention_model(const char *targets)
{
    yoke_graph *g = attention();
    yoke_model *m;

    if (targets)
        ASSERT_OK(adapt(g, targets));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    yoke_graph_destroy(g);
    return m;
}

static void
attend(yoke_model *m, float *y)
{
    yoke_predictor *p;
    float x[BATCH * ROWS * IN];

    for (unsigned i = 0; i < BATCH * ROWS * IN; i++)
        x[i] = number(i);
    ASSERT_OK(yoke_predictor_create(devices.context, devices.selector, m,
                                    &(yoke_predictor_options){.level = YOKE_PLAN_ESTIMATE}, &p));
    ASSERT_OK(yoke_predictor_run(p, BATCH, yoke_feed_f32("x", x, BATCH * ROWS * IN), y,
                                 BATCH * ROWS * QUERIES));
    yoke_predictor_destroy(p);
}

static void
copy_weight(const yoke_model *from, yoke_model *to, float w[PACKED * IN])
{
    ASSERT_OK(yoke_model_read(from, "l.qkv_proj.weight", w, PACKED * IN));
    ASSERT_OK(yoke_model_write(to, "l.qkv_proj.weight", w, PACKED * IN));
}

START_TEST(parts_share_what_was_one)
{
    yoke_model *m = attention_model("v_proj"), *base = attention_model(NULL);
    float w[PACKED * IN], b[PACKED * RANK], y[BATCH * ROWS * QUERIES], z[BATCH * ROWS * QUERIES];
    char *text;
    size_t size;

    for (unsigned i = 0; i < PACKED * RANK; i++)
        b[i] = number(i);
    ASSERT_OK(yoke_model_write(m, "l.qkv_proj.lora_B.weight", b, PACKED * RANK));
    copy_weight(m, base, w);
    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters")));
    text = scratch_read(scratch_path("adapters/adapter_model.safetensors"), &size);
    ck_assert_ptr_nonnull(strstr(text + 8, "base_model.model.l.k_proj.lora_B.weight"));
    ck_assert_ptr_null(strstr(text + 8, "qkv_proj"));
    free(text);
    ASSERT_OK(yoke_model_load_adapters(base, scratch_path("adapters")));
    attend(m, y);
    attend(base, z);
    ck_assert_mem_eq(y, z, sizeof y);
    yoke_model_destroy(m);
    yoke_model_destroy(base);
}
END_TEST

/* Values of the tensors of adapters of queries, values and keys: A, B, A, B, A, B. */
static float parts[6][QUERIES * RANK + IN * RANK];

static yoke_status
give_part(void *user, size_t index, void *out)
{
    static const size_t counts[] = {RANK * IN,   QUERIES * RANK, RANK * IN,
                                    HEAD * RANK, RANK * IN,      HEAD * RANK};

    (void)user;
    memcpy(out, parts[index], counts[index] * sizeof(float));
    return YOKE_OK;
}

static void
fill_parts(void)
{
    for (unsigned t = 0; t < 6; t++)
        for (unsigned i = 0; i < sizeof parts[t] / sizeof *parts[t]; i++)
            parts[t][i] = number(100 * t + i);
}

/* Writes queries, values and, as the third, keys; or queries and one other tensor (NULL: none),
 * which is like an A. */
static void
write_parts(size_t modules, const char *other)
{
    static const int64_t a[] = {RANK, IN}, q[] = {QUERIES, RANK}, v[] = {HEAD, RANK};
    yki_tensor_source tensors[] = {
        {"base_model.model.l.q_proj.lora_A.weight", YKI_DTYPE_F32, 2, a},
        {"base_model.model.l.q_proj.lora_B.weight", YKI_DTYPE_F32, 2, q},
        {"base_model.model.l.v_proj.lora_A.weight", YKI_DTYPE_F32, 2, a},
        {"base_model.model.l.v_proj.lora_B.weight", YKI_DTYPE_F32, 2, v},
        {"base_model.model.l.k_proj.lora_A.weight", YKI_DTYPE_F32, 2, a},
        {"base_model.model.l.k_proj.lora_B.weight", YKI_DTYPE_F32, 2, v},
    };
    static const char config[] =
        "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3, \"bias\": \"none\"}";

    if (other)
        tensors[2].name = other;
    ASSERT_OK(yki_safetensors_write(scratch_path("adapters/adapter_model.safetensors"), NULL, 0,
                                    tensors, other ? 3 : 2 * modules, give_part, NULL));
    scratch_write(scratch_path("adapters/adapter_config.json"), config, sizeof config - 1);
}

/* The modules may have an alpha of their own, and there may be all of a layer. */
START_TEST(modules_of_peft_become_one_adapter)
{
    static const char config[] = "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3, "
                                 "\"alpha_pattern\": {\"v_proj\": 12}}";
    const float of_values = _i == 1 ? 6 : 1.5f;
    const int modules = _i == 2 ? 3 : 2;
    yoke_model *m = attention_model("q_proj"), *by_hand = attention_model(NULL);
    yoke_model *base = attention_model(NULL);
    float w[PACKED * IN], y[BATCH * ROWS * QUERIES], z[BATCH * ROWS * QUERIES];

    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters"))); /* makes the folder */
    fill_parts();
    write_parts((size_t)modules, NULL);
    if (_i == 1)
        scratch_write(scratch_path("adapters/adapter_config.json"), config, sizeof config - 1);
    copy_weight(m, base, w);
    for (int o = 0; o < PACKED; o++)
        for (int r = 0; r < RANK; r++)
            for (int i = 0; i < IN; i++)
                if (o < QUERIES)
                    w[o * IN + i] += 1.5f * parts[1][o * RANK + r] * parts[0][r * IN + i];
                else if (o < PACKED - HEAD && modules == 3)
                    w[o * IN + i] +=
                        1.5f * parts[5][(o - QUERIES) * RANK + r] * parts[4][r * IN + i];
                else if (o >= PACKED - HEAD)
                    w[o * IN + i] +=
                        of_values * parts[3][(o - PACKED + HEAD) * RANK + r] * parts[2][r * IN + i];
    ASSERT_OK(yoke_model_write(by_hand, "l.qkv_proj.weight", w, PACKED * IN));
    ASSERT_OK(yoke_model_load_adapters(base, scratch_path("adapters")));
    ck_assert_int_eq(
        yoke_node_shape(yoke_graph_get_node(yoke_model_get_graph(base), "l.qkv_proj.lora_A.weight"))
            .dim[0],
        modules * RANK);
    attend(by_hand, y);
    attend(base, z);
    assert_near(z, y, BATCH * ROWS * QUERIES, "y");
    yoke_model_destroy(m);
    yoke_model_destroy(base);
    yoke_model_destroy(by_hand);
}
END_TEST

/* ---- refusals ---- */

static yoke_status
add(yoke_lora_options o)
{
    yoke_graph *g = network(WIDTH);
    yoke_status status = yoke_graph_add_lora(g, &o);

    yoke_graph_destroy(g);
    return status;
}

START_TEST(options_that_are_refused)
{
    yoke_graph *g = network(WIDTH);
    yoke_replica *r;

    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "between 1 and",
                   add((yoke_lora_options){.rank = -1}));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE,
                   "h.0.attn.c_attn: the rank of the adapter is 7; must be between 1 and 6",
                   add((yoke_lora_options){.rank = 7}));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "alpha", add((yoke_lora_options){.alpha = -1, .rank = 2}));
    ASSERT_REFUSED(YOKE_ERROR_VALUE, "dropout", add((yoke_lora_options){.dropout = 1, .rank = 2}));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "did you mean \"c_attn\"",
                   add((yoke_lora_options){.rank = 2, .targets = "c_fc,c_atn"}));
    ASSERT_REFUSED(YOKE_ERROR_INVALID_ARGUMENT, "empty",
                   add((yoke_lora_options){.rank = 2, .targets = ", "}));
    ASSERT_OK(adapt(g, "attn*"));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "without an adapter", adapt(g, "attn*"));
    r = replica(g);
    ASSERT_REFUSED(YOKE_ERROR_STATE, "compiled", adapt(g, "c_fc"));
    yoke_replica_destroy(r);
    yoke_graph_destroy(g);
}
END_TEST

/* So does a NaN in the last tensor of a file of another program, which has no checksums. */
START_TEST(a_nan_changes_nothing)
{
    yoke_model *m = attention_model("q_proj"), *base = attention_model(NULL);
    const size_t before = yoke_graph_parameter_count(yoke_model_get_graph(base));

    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters"))); /* makes the folder */
    fill_parts();
    parts[3][1] = NAN;
    write_parts(2, NULL);
    ASSERT_REFUSED(YOKE_ERROR_VALUE,
                   "element 1 of \"base_model.model.l.v_proj.lora_B.weight\" is NaN",
                   yoke_model_load_adapters(base, scratch_path("adapters")));
    ck_assert_uint_eq(yoke_graph_parameter_count(yoke_model_get_graph(base)), before);
    ASSERT_REFUSED(YOKE_ERROR_STATE, "no adapters", yoke_model_merge_adapters(base));
    yoke_model_destroy(m);
    yoke_model_destroy(base);
}
END_TEST

START_TEST(names_that_are_refused)
{
    static const struct {
        const char *name, *part;
    } others[] = {
        {"base_model.model.lora_A.weight", "is no adapter"},
        {"base_model.model..lora_A.weight", "is no adapter"},
        {"base_model.model.transformer.l.q_proj.lora_A.weight", "is there twice"},
        {"base_model.model.l.qkv_proj.lora_A.weight", "or beside parts of it"},
    };
    yoke_model *m = attention_model("q_proj"), *base = attention_model(NULL);

    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters"))); /* makes the folder */
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_parts(1, others[i].name);
        ASSERT_REFUSED(YOKE_ERROR_FORMAT, others[i].part,
                       yoke_model_load_adapters(base, scratch_path("adapters")));
    }
    yoke_model_destroy(m);
    yoke_model_destroy(base);
}
END_TEST

/* What another program may have made of the names of an adapter. */
enum {
    OTHER_INPUT, /* A reads another node */
    ONE_UNIT,    /* B has one row, which is broadcast */
    OTHER_RANK,  /* B does not read A's result */
    OFFSET,      /* something is added to A's result */
    NOT_SCALED,  /* B reads A's result itself */
    OTHER_SUM,   /* the sum is none */
    DIFFERENCE,
    NO_PARAMETER, /* A's weight is computed */
    TRANSPOSED,   /* the layer multiplies with its weight itself, and not its transpose */
    IMITATIONS
};

static yoke_graph *
imitation(int kind)
{
    yoke_graph *g;
    yoke_node *x, *y, *a, *b, *weight;

    ASSERT_OK(yoke_graph_create(&g));
    x = yoke_input(g, "x", YOKE_F32, yoke_shape(IN));
    if (kind == TRANSPOSED) {
        weight = yoke_parameter(g, "fc.weight", yoke_shape(IN, IN), (yoke_initializer){0});
        yki_names_wish(g, "fc");
        y = yoke_matmul(g, x, weight, NULL);
    } else
        y = dense(g, x, IN, "fc", false);
    a = kind == OTHER_INPUT ? dense(g, x, IN - 1, "narrow", false) : x;
    if (kind == NO_PARAMETER) {
        weight = yoke_parameter(g, "p", yoke_shape(RANK, IN), (yoke_initializer){0});
        weight = yoke_tanh(g, weight);
        yki_names_wish(g, "fc.lora_A");
        a = yoke_matmul(g, a, weight, &(yoke_matmul_options){.transpose_b = true});
    } else
        a = dense(g, a, RANK, "fc.lora_A", false);
    yki_names_wish(g, "fc.lora_scale");
    b = yoke_scale(g, a, 2, kind == OFFSET);
    if (kind == OTHER_RANK)
        b = dense(g, b, RANK + 1, "wide", false);
    b = dense(g, kind == NOT_SCALED ? a : b, kind == ONE_UNIT ? 1 : IN, "fc.lora_B", false);
    yki_names_wish(g, "fc.lora");
    if (kind == OTHER_SUM)
        y = yoke_tanh(g, y);
    else
        y = kind == DIFFERENCE ? yoke_sub(g, y, b) : yoke_add(g, y, b);
    finish(g, dense(g, y, OUT, "out", false));
    return g;
}

START_TEST(imitations_are_no_adapters)
{
    for (int kind = 0; kind < IMITATIONS; kind++) {
        yoke_graph *g = imitation(kind);
        yoke_model *m;

        ASSERT_OK(yoke_model_create(g, NULL, &m));
        ASSERT_REFUSED(YOKE_ERROR_STATE, "no adapters", yoke_model_merge_adapters(m));
        ASSERT_REFUSED(YOKE_ERROR_STATE, "no adapters",
                       yoke_model_save_adapters(m, scratch_path("none")));
        yoke_model_destroy(m);
        yoke_graph_destroy(g);
    }
}
END_TEST

/* Merges a model whose adapter of "fc" has an additional reader of the node `read`. */
static yoke_status
merge_read(const char *read, bool output)
{
    yoke_graph *g;
    yoke_node *y;
    yoke_model *m;
    float b[RANK * WIDTH], before[IN * WIDTH], after[IN * WIDTH];
    yoke_status status;

    ASSERT_OK(yoke_graph_create(&g));
    y = dense(g, yoke_input(g, "x", YOKE_F32, yoke_shape(IN)), WIDTH, "fc", false);
    y = dense(g, y, OUT, "other", false);
    yki_names_wish(g, "other.lora_x");
    finish(g, yoke_tanh(g, y));
    ASSERT_OK(adapt(g, "fc"));
    if (output)
        yoke_graph_set_output(g, "z", yoke_graph_get_node(g, read));
    else
        (void)yoke_tanh(g, yoke_graph_get_node(g, read));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    for (unsigned i = 0; i < RANK * WIDTH; i++)
        b[i] = number(i);
    ASSERT_OK(yoke_model_write(m, "fc.lora_B.weight", b, RANK * WIDTH));
    ASSERT_OK(yoke_model_read(m, "fc.weight", before, IN * WIDTH));
    status = yoke_model_merge_adapters(m);
    ASSERT_OK(yoke_model_read(m, "fc.weight", after, IN * WIDTH));
    ck_assert_int_eq(memcmp(before, after, sizeof before) == 0, status != YOKE_OK);
    ck_assert_ptr_nonnull(yoke_graph_get_node(yoke_model_get_graph(m), "other.lora_x"));
    yoke_model_destroy(m);
    yoke_graph_destroy(g);
    return status;
}

START_TEST(what_is_read_stays)
{
    ASSERT_OK(merge_read("fc.lora", true));
    ASSERT_OK(merge_read("fc.lora", false));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "the output \"z\" reads \"fc.lora_A\", which is inside",
                   merge_read("fc.lora_A", true));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "reads \"fc.lora_B\", which is inside",
                   merge_read("fc.lora_B", false));
    ASSERT_REFUSED(YOKE_ERROR_STATE, "reads \"fc.lora_A.weight\", which is inside",
                   merge_read("fc.lora_A.weight", false));
}
END_TEST

static void
rewrite_config(const char *text)
{
    scratch_write(scratch_path("adapters/adapter_config.json"), text, strlen(text));
}

static yoke_status
load(int64_t width)
{
    yoke_graph *g = network(width);
    yoke_status status = yoke_graph_add_adapters(g, scratch_path("adapters"));

    yoke_graph_destroy(g);
    return status;
}

/* A file without an adapter that the model has leaves it with that one alone, and with its values.
 */
static void
too_few_change_nothing(void)
{
    yoke_graph *g = network(WIDTH);
    yoke_model *m;
    float before[RANK * WIDTH], after[RANK * WIDTH];
    size_t count;

    ASSERT_OK(adapt(g, "c_fc"));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    yoke_graph_destroy(g);
    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("few")));
    yoke_model_destroy(m);
    g = network(WIDTH);
    ASSERT_OK(adapt(g, "c_attn"));
    ASSERT_OK(yoke_model_create(g, NULL, &m));
    yoke_graph_destroy(g);
    count = yoke_graph_parameter_count(yoke_model_get_graph(m));
    ASSERT_OK(yoke_model_read(m, "h.0.attn.c_attn.lora_A.weight", before, RANK * IN));
    ASSERT_REFUSED(YOKE_ERROR_NOT_FOUND, "has no adapter of \"h.0.attn.c_attn\"",
                   yoke_model_load_adapters(m, scratch_path("few")));
    ck_assert_uint_eq(yoke_graph_parameter_count(yoke_model_get_graph(m)), count);
    ASSERT_OK(yoke_model_read(m, "h.0.attn.c_attn.lora_A.weight", after, RANK * IN));
    ck_assert_mem_eq(before, after, RANK * IN * sizeof *before);
    yoke_model_destroy(m);
}

/* A file that is damaged leaves a model without adapters, which can be saved as before. */
static void
damage_changes_nothing(void)
{
    const char *path = scratch_path("adapters/adapter_model.safetensors");
    const float nan = NAN;
    yoke_model *m = model(false, 1);
    const size_t before = yoke_graph_parameter_count(yoke_model_get_graph(m));
    size_t size;
    char *text = scratch_read(path, &size);

    memcpy(text + size - sizeof nan, &nan, sizeof nan);
    scratch_write(path, text, size);
    free(text);
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "is damaged",
                   yoke_model_load_adapters(m, scratch_path("adapters")));
    ck_assert_uint_eq(yoke_graph_parameter_count(yoke_model_get_graph(m)), before);
    ASSERT_REFUSED(YOKE_ERROR_STATE, "no adapters", yoke_model_merge_adapters(m));
    yoke_model_destroy(m);
}

START_TEST(files_that_are_refused)
{
    yoke_model *m = model(true, 1);
    yoke_graph *other;
    yoke_model *with_other;
    char *text;
    size_t size;

    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters")));
    ASSERT_OK(load(WIDTH));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "does not fit; must be A (rank, 6) and B (12, rank)",
                   load(WIDTH + 2));
    other = network(WIDTH);
    ASSERT_OK(yoke_graph_add_lora(other, &(yoke_lora_options){.rank = 3, .targets = "c_attn"}));
    ASSERT_OK(yoke_model_create(other, NULL, &with_other));
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "has rank 2",
                   yoke_model_load_adapters(with_other, scratch_path("adapters")));
    yoke_model_destroy(with_other);
    yoke_graph_destroy(other);
    too_few_change_nothing();
    damage_changes_nothing();
    ASSERT_OK(yoke_model_save_adapters(m, scratch_path("adapters")));
    rewrite_config("{\"peft_type\": \"LORA\", \"r\": 4, \"lora_alpha\": 8}");
    ASSERT_REFUSED(YOKE_ERROR_SHAPE, "has rank 2; must be 4", load(WIDTH));
    rewrite_config("{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 8, \"use_dora\": true}");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "use_dora is true", load(WIDTH));
    rewrite_config("{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 8, "
                   "\"alora_invocation_tokens\": [1]}");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "alora_invocation_tokens must be empty", load(WIDTH));
    rewrite_config("{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 8, "
                   "\"alpha_pattern\": {\".*fc\": 4}}");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "the regular expression \".*fc\"", load(WIDTH));
    rewrite_config("{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 8, "
                   "\"alpha_pattern\": {\"c_fc\": 0}}");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "\"c_fc\" must be a number above 0", load(WIDTH));
    rewrite_config("{\"peft_type\": \"IA3\", \"r\": 2, \"lora_alpha\": 8}");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "peft_type must be", load(WIDTH));
    rewrite_config("{\"peft_type\": \"LORA\", \"r\": 0}");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "\"r\", the rank", load(WIDTH));
    rewrite_config("{\"peft_type\": ");
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "is no JSON object: line 1", load(WIDTH));
    remove(scratch_path("adapters/adapter_config.json"));
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "cannot be opened", load(WIDTH));
    text = scratch_read(scratch_path("adapters/adapter_model.safetensors"), &size);
    scratch_write(scratch_path("adapters/adapter_model.safetensors"), text, size - 4);
    free(text);
    ASSERT_REFUSED(YOKE_ERROR_FORMAT, "adapter_model.safetensors", load(WIDTH));
    yoke_model_destroy(m);
}
END_TEST

Suite *
test_suite(void)
{
    Suite *suite = suite_create("lora");
    TCase *tc = test_case(suite, "adapters");

    tcase_add_checked_fixture(tc, open_devices_in_scratch, leave_devices);
    tcase_add_test(tc, an_adapter_is_its_composition);
    tcase_add_test(tc, adapters_learn_and_the_base_stays);
    tcase_add_test(tc, a_frozen_base_has_values_alone);
    tcase_add_test(tc, files_and_merging_keep_the_function);
    tcase_add_test(tc, adapters_in_a_row_read_one_another);
    tcase_add_test(tc, parts_share_what_was_one);
    tcase_add_loop_test(tc, modules_of_peft_become_one_adapter, 0, 3);
    tcase_add_test(tc, options_that_are_refused);
    tcase_add_test(tc, imitations_are_no_adapters);
    tcase_add_test(tc, what_is_read_stays);
    tcase_add_test(tc, a_nan_changes_nothing);
    tcase_add_test(tc, names_that_are_refused);
    tcase_add_test(tc, files_that_are_refused);
    return suite;
}
