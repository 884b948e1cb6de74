/* SPDX-License-Identifier: Apache-2.0
 *
 * decoding.c - derives from a language model's graph the one that generates.
 *
 * The model computes (T, columns) from T tokens. In between, only attention looks from
 * one row to others; all else takes each row by itself, and so works on any number of
 * them. So the derived graph has the same nodes over fewer rows, and
 *
 *   - attention becomes attention_step, with a cache of the keys and values of earlier rows;
 *   - where a value of T rows that is the same for all samples is added (learned positions),
 *     each row takes the one of its position;
 *   - rotary positions begin where the new rows stand;
 *   - the samples' lengths are left out: a causal row sees none that is beyond its own;
 *   - dropout is left out, as in evaluation.
 *
 * An operator that is not known to keep rows apart is refused by its name. Of a model over
 * sequences the derived graph has sequences too: all operators but attention and rotary
 * positions take their rows one by one already.
 */
#include <string.h>

#include "base/near.h"
#include "replica/decoding.h"

/* ---- what the model is ---- */

static uint32_t
inputs_of(const yoke_node *node, const yki_op **op, yoke_node **inputs)
{
    uint32_t count = yki_effective(node, false, op, inputs);

    return *op == &yki_op_attention ? 1 : count; /* without the lengths */
}

static yoke_status
mark_needed(const yoke_graph *g, const yoke_node *logits, bool **needed)
{
    bool *marks = yki_alloc(g->node_count, sizeof *marks, "a generator's nodes");

    if (!marks)
        return YOKE_ERROR_OUT_OF_MEMORY;
    marks[logits->id] = true;
    for (size_t i = g->node_count; i-- > 0;) {
        yoke_node *inputs[YKI_MAX_INPUTS];
        const yki_op *op;
        uint32_t count;

        if (!marks[i])
            continue;
        count = inputs_of(g->nodes[i], &op, inputs);
        for (uint32_t k = 0; k < count; k++)
            marks[inputs[k]->id] = true;
    }
    *needed = marks;
    return YOKE_OK;
}

static yoke_status
check_input(const yoke_node *node, yki_language *found)
{
    if (found->tokens)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the model computes from \"%s\" too; must have one input, of tokens, to "
                        "generate",
                        node->name);
    if (node->type == YOKE_F32 || yki_whole_shape(node).rank != 1)
        return yki_fail_shape("the model's input", node,
                              "(length), one whole number for each token");
    found->tokens = node;
    found->context = yki_whole_shape(node).dim[0];
    found->tokens_end = node->low < node->limit ? node->limit : INT32_MAX;
    return YOKE_OK;
}

static yoke_status
look(const yoke_graph *g, const bool *needed, yki_language *found)
{
    size_t attentions = 0;

    for (size_t i = 0; i < g->node_count; i++) {
        const yoke_node *node = g->nodes[i];

        if (node->role == YKI_ROLE_STATE && (needed[i] || !yki_is_constant(node)))
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "the model has the running statistic \"%s\"; a generator takes models "
                            "that compute each row by itself",
                            node->name);
        if (needed[i] && node->role == YKI_ROLE_INPUT)
            YKI_TRY(check_input(node, found));
        attentions += needed[i] && node->op == &yki_op_attention;
    }
    if (!found->tokens || attentions == 0)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the output \"%s\" is not computed by attention over tokens; a generator "
                        "takes models that are (yoke_attention)",
                        found->logits->name);
    return YOKE_OK;
}

static yoke_status
find_output(const yoke_graph *g, const char *name, const yoke_node **node)
{
    for (size_t i = 0; i < g->output_count; i++)
        if (!name || strcmp(g->outputs[i].name, name) == 0) {
            *node = g->outputs[i].node;
            return YOKE_OK;
        }
    return name ? yki_graph_no_output(g, name)
                : yki_fail(YOKE_ERROR_STATE,
                           "the model has no output; call yoke_graph_set_output before");
}

yoke_status
yki_language_find(const yoke_graph *g, const char *output, yki_language *found)
{
    yki_language l = {0};
    yoke_status status;
    yoke_shape shape;
    bool *needed;

    YKI_TRY(find_output(g, output, &l.logits));
    YKI_TRY(mark_needed(g, l.logits, &needed));
    status = look(g, needed, &l);
    yki_free(needed);
    YKI_TRY(status);
    shape = yki_whole_shape(l.logits);
    if (l.logits->type != YOKE_F32 || !l.logits->batched || shape.rank != 2 ||
        shape.dim[0] != l.context)
        return yki_fail_shape("the output", l.logits, "(length, vocabulary), a row for each token");
    l.vocabulary = shape.dim[1];
    *found = l;
    return YOKE_OK;
}

/* ---- what becomes of a node ---- */

typedef struct derivation {
    const yki_language *language;
    int64_t rows, streams, context;
    bool fills;
    yoke_node **of; /* by the id of a node of the model; NULL: it has no counterpart */
    yki_decoding *made;
} derivation;

static yoke_status
refuse(const yoke_node *node, const char *why)
{
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "\"%s\" (%s) %s; a generator takes models in which only causal attention looks "
                    "from one row to another",
                    node->name, node->op->name, why);
}

static bool
has_rows(const derivation *d, const yoke_node *node)
{
    if (d->language->tokens->length)
        return node->length > 0;
    return node->batched && node->shape.rank > 0 && node->shape.dim[0] == d->language->context;
}

/* Whether the operator keeps the rows of its first input apart. The others of `count` inputs are
 * the same for all samples, but for those of binary and concat. */
static bool
keeps_apart(const derivation *d, const yoke_node *node, const yki_op *op, yoke_node *const *in)
{
    int32_t rank = in[0]->shape.rank;

    if (!has_rows(d, in[0]) || !has_rows(d, node))
        return false;
    if (node->length)
        return !op->whole;
    if (op == &yki_op_unary || op == &yki_op_embedding)
        return true;
    if (op == &yki_op_swiglu)
        return rank > 1;
    if (op == &yki_op_layer_norm)
        return yki_ln_attrs_get(&node->attrs).axes < rank;
    if (op == &yki_op_softmax)
        return yki_softmax_attrs_get(&node->attrs).axis != 0;
    if (op == &yki_op_slice)
        return yki_slice_attrs_get(&node->attrs).axis != 0;
    if (op == &yki_op_transpose)
        return yki_transpose_attrs_get(&node->attrs).axes[0] == 0;
    if (op == &yki_op_matmul) {
        bool turned = yki_matmul_attrs_get(&node->attrs).transpose_a;

        return rank == 2 ? !turned && in[1]->shape.rank == 2 : rank > 2 && in[1]->shape.rank < rank;
    }
    return false;
}

/* A value that is the same for all samples, as each row of the other operand meets it; `rank` is
 * that of the result with its rows. */
static yoke_node *
at_positions(derivation *d, const yoke_node *value, int32_t rank)
{
    yoke_node *inputs[2] = {d->made->positions, d->of[value->id]};
    yoke_node *node;
    char *name;

    if (value->shape.rank < rank || value->shape.dim[0] == 1)
        return inputs[1];
    name = yki_format("%s.at", value->name);
    if (!name) {
        yki_graph_fail(d->made->graph, value->name, YOKE_ERROR_OUT_OF_MEMORY);
        return NULL;
    }
    node = yoke_graph_get_node(d->made->graph, name);
    if (!node)
        node = yki_node(d->made->graph, &yki_op_embedding, name, inputs, 2, NULL, 0);
    yki_free(name);
    return node;
}

static yoke_status
derive_binary(derivation *d, const yoke_node *node)
{
    const int32_t rank = yki_whole_shape(node).rank;
    yoke_node *inputs[2];

    for (int k = 0; k < 2; k++) {
        const yoke_node *in = node->inputs[k];
        bool lacks_rows = !has_rows(d, in) || (!in->length && in->shape.rank < rank);

        if (in->batched ? lacks_rows : in->shape.rank == rank && in->shape.dim[0] != 1 && rank != 2)
            return refuse(node, "mixes rows");
        inputs[k] = in->batched ? d->of[in->id] : at_positions(d, in, rank);
    }
    d->of[node->id] =
        yki_node(d->made->graph, node->op, node->name, inputs, 2, &node->attrs, sizeof node->attrs);
    return yki_graph_status(d->made->graph);
}

static yoke_status
derive_attention(derivation *d, const yoke_node *node)
{
    yki_attention_attrs attrs = yki_attention_attrs_get(&node->attrs);
    yoke_graph *g = d->made->graph;
    yoke_node *inputs[3] = {d->of[node->inputs[0]->id], d->made->positions, NULL};

    if (!attrs.causal)
        return refuse(node, "sees later rows, as it is not causal");
    if (!has_rows(d, node->inputs[0]))
        return refuse(node, "is not over the tokens");
    attrs.lengths = 0;
    inputs[2] =
        yki_state(g, node->name, "cache", yki_attention_cache(&attrs, d->streams, d->context), 0);
    if (inputs[2])
        d->of[node->id] =
            yki_node(g, &yki_op_attention_step, node->name, inputs, 3, &attrs, sizeof attrs);
    if (d->fills && d->of[node->id])
        yoke_graph_set_output(g, node->name, d->of[node->id]);
    return yki_graph_status(g);
}

static yoke_status
derive_rope(derivation *d, const yoke_node *node)
{
    yoke_node *inputs[2] = {d->of[node->inputs[0]->id], d->made->starts};

    if (node->input_count > 1 || !has_rows(d, node->inputs[0]))
        return refuse(node, "is not over all tokens from the first on");
    d->of[node->id] =
        yki_node(d->made->graph, node->op, node->name, inputs, 2, &node->attrs, sizeof node->attrs);
    return yki_graph_status(d->made->graph);
}

static yoke_status
derive_reshape(derivation *d, const yoke_node *node)
{
    yoke_shape shape = node->shape;

    if (!has_rows(d, node) || !has_rows(d, node->inputs[0]))
        return refuse(node, "mixes rows");
    if (!node->length)
        shape.dim[0] = d->rows;
    d->of[node->id] = yoke_reshape(d->made->graph, d->of[node->inputs[0]->id], shape);
    return yki_graph_status(d->made->graph);
}

static yoke_status
derive_computed(derivation *d, const yoke_node *node)
{
    yoke_node *inputs[YKI_MAX_INPUTS], *derived[YKI_MAX_INPUTS];
    const yki_op *op;
    uint32_t count = inputs_of(node, &op, inputs);

    if (!op) {
        d->of[node->id] = d->of[inputs[0]->id];
        return YOKE_OK;
    }
    if (op == &yki_op_attention)
        return derive_attention(d, node);
    if (op == &yki_op_rope)
        return derive_rope(d, node);
    for (uint32_t k = 0; k < count; k++)
        derived[k] = d->of[inputs[k]->id];
    if (node->batched) {
        if (op == &yki_op_binary)
            return derive_binary(d, node);
        if (op == &yki_op_reshape)
            return derive_reshape(d, node);
        for (uint32_t k = 1; k < count; k++)
            if (inputs[k]->batched && !inputs[k]->length)
                return refuse(node, "mixes rows");
        if (!keeps_apart(d, node, op, inputs))
            return refuse(node, "mixes rows");
    }
    d->of[node->id] =
        yki_node(d->made->graph, op, node->name, derived, count, &node->attrs, sizeof node->attrs);
    return yki_graph_status(d->made->graph);
}

/* ---- the graph ---- */

/* An input whose name, or a longer one, no node of the model has. NULL: the graph says why. */
static yoke_node *
add_input(yoke_graph *to, const yoke_graph *model, const char *wish, yoke_shape shape)
{
    char *name = yki_strdup(wish, "a name"), *longer;
    yoke_node *node = NULL;

    while (name && yoke_graph_get_node(model, name)) {
        longer = yki_format("%s_", name);
        yki_free(name);
        name = longer;
    }
    if (name)
        node = yoke_input(to, name, YOKE_I32, shape);
    else
        yki_graph_fail(to, wish, YOKE_ERROR_OUT_OF_MEMORY);
    yki_free(name);
    return node;
}

static yoke_status
add_inputs(derivation *d, const yoke_graph *model)
{
    const yoke_node *tokens = d->language->tokens;
    yki_decoding *m = d->made;

    m->tokens = yoke_input(m->graph, tokens->name, YOKE_I32, yoke_shape(d->rows));
    m->positions = add_input(m->graph, model, "positions", yoke_shape(d->rows));
    m->starts = add_input(m->graph, model, "starts", yoke_shape());
    if (tokens->length) {
        yoke_sequence(m->graph, m->tokens);
        yoke_sequence(m->graph, m->positions);
    }
    YKI_TRY(yki_graph_status(m->graph));
    m->tokens->limit = d->language->tokens_end;
    m->positions->limit = m->starts->limit = d->context;
    d->of[tokens->id] = m->tokens;
    return YOKE_OK;
}

static yoke_status
derive(derivation *d, const yoke_graph *model, const bool *needed)
{
    yoke_graph *g = d->made->graph;

    YKI_TRY(add_inputs(d, model));
    for (size_t i = 0; i < model->node_count; i++) {
        const yoke_node *node = model->nodes[i];

        if (node->role == YKI_ROLE_PARAMETER)
            d->of[i] = yki_parameter(g, node->name, NULL, node->shape, node->initializer,
                                     node->fan_in, node->fan_out);
        else if (needed[i] && node->op)
            YKI_TRY(derive_computed(d, node));
        YKI_TRY(yki_graph_status(g));
    }
    if (d->fills)
        return YOKE_OK;
    d->made->logits = d->of[d->language->logits->id];
    yoke_graph_set_output(g, "logits", d->made->logits);
    return yki_graph_status(g);
}

yoke_status
yki_decoding_create(const yoke_graph *model, const yki_language *language, int64_t rows,
                    int64_t streams, int64_t context, bool fills, yki_decoding *out)
{
    yki_decoding made = {0};
    derivation d = {language, rows, streams, context, fills, NULL, &made};
    bool *needed = NULL;
    yoke_status status;

    YKI_TRY(yoke_graph_create(&made.graph));
    d.of = yki_alloc(model->node_count, sizeof(yoke_node *), "a generator's nodes");
    status = d.of ? mark_needed(model, language->logits, &needed) : YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = derive(&d, model, needed);
    yki_free(needed);
    yki_free(d.of);
    if (status != YOKE_OK) {
        yoke_graph_destroy(made.graph);
        return status;
    }
    *out = made;
    return YOKE_OK;
}
