/* SPDX-License-Identifier: Apache-2.0
 *
 * hugging_face_write.c - writes a GPT-2 or a Llama as Hugging Face keeps it: a folder with the
 * weights under its names, in one file or in several with an index, and config.json, which has the
 * sizes.
 *
 * The names of the weights tell which of the two a graph is; all of them must be there, in the
 * shapes that follow from its sizes, and no others. What config.json cannot say of a graph is
 * refused. The graph between the weights is not compared further: who gives other layers these
 * names gets their weights.
 */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/weights_file.h"
#include "op/ops.h"

enum { MOST_NAMES = 12, NAME = 256, MOST_FILES = 99999 };

/* ---- which model it is ---- */

/* The shape has a letter for each size: vocabulary, positions, c for the width; q for the columns
 * of attention's operands, a for those of its result; i for the inner width, g for twice that. */
typedef struct named_weight {
    const char *name, *shape;
} named_weight;

/* Weights without and with the number of a layer; NULL ends them. */
typedef struct family {
    const char *type, *architecture, *prefix, *embedding;
    bool positions; /* turned by rope, not learned */
    named_weight once[MOST_NAMES], each[MOST_NAMES + 1];
} family;

static const family families[] = {
    {"gpt2",
     "GPT2LMHeadModel",
     "transformer.",
     "wte.weight",
     false,
     {{"wte.weight", "vc"}, {"wpe.weight", "pc"}, {"ln_f.weight", "c"}, {"ln_f.bias", "c"}},
     {{"h.%u.ln_1.weight", "c"},
      {"h.%u.ln_1.bias", "c"},
      {"h.%u.attn.c_attn.weight", "qc"},
      {"h.%u.attn.c_attn.bias", "q"},
      {"h.%u.attn.c_proj.weight", "ca"},
      {"h.%u.attn.c_proj.bias", "c"},
      {"h.%u.ln_2.weight", "c"},
      {"h.%u.ln_2.bias", "c"},
      {"h.%u.mlp.c_fc.weight", "ic"},
      {"h.%u.mlp.c_fc.bias", "i"},
      {"h.%u.mlp.c_proj.weight", "ci"},
      {"h.%u.mlp.c_proj.bias", "c"}}},
    {"llama",
     "LlamaForCausalLM",
     "",
     "model.embed_tokens.weight",
     true,
     {{"model.embed_tokens.weight", "vc"}, {"model.norm.weight", "c"}},
     {{"model.layers.%u.input_layernorm.weight", "c"},
      {"model.layers.%u.self_attn.qkv_proj.weight", "qc"},
      {"model.layers.%u.self_attn.o_proj.weight", "ca"},
      {"model.layers.%u.post_attention_layernorm.weight", "c"},
      {"model.layers.%u.mlp.gate_up_proj.weight", "gc"},
      {"model.layers.%u.mlp.down_proj.weight", "ci"}}},
};
static const named_weight head = {"lm_head.weight", "vc"};

typedef struct description {
    const yoke_graph *graph;
    const family *family;
    unsigned layers;
    bool tied;
    yki_attention_attrs attention;
    yki_ln_attrs norm;
    yki_rope_attrs rope;
} description;

static const yoke_node *
weight_of(const description *d, const char *format, unsigned layer)
{
    char name[NAME];
    const yoke_node *node;

    snprintf(name, sizeof name, format, layer);
    node = yoke_graph_get_node(d->graph, name);
    return node && yki_is_weight(node) ? node : NULL;
}

/* Whether all weights have names of the family. */
static yoke_status
check_names(const description *d)
{
    for (size_t i = 0; i < d->graph->node_count; i++) {
        const yoke_node *node = d->graph->nodes[i];
        bool known = !yki_is_weight(node) || strcmp(node->name, head.name) == 0;

        for (size_t k = 0; !known && k < MOST_NAMES && d->family->once[k].name; k++)
            known = strcmp(node->name, d->family->once[k].name) == 0;
        for (unsigned l = 0; !known && l < d->layers; l++)
            for (size_t k = 0; !known && d->family->each[k].name; k++)
                known = weight_of(d, d->family->each[k].name, l) == node;
        if (!known)
            return yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "the weight \"%s\" has no place in Hugging Face's %s", node->name,
                            d->family->type);
    }
    return YOKE_OK;
}

static yoke_status
check_there(const description *d, const char *format, unsigned layer)
{
    char name[NAME];

    if (weight_of(d, format, layer))
        return YOKE_OK;
    snprintf(name, sizeof name, format, layer);
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "the model has no weight \"%s\"; Hugging Face's %s has one", name,
                    d->family->type);
}

static yoke_status
check_all(const description *d)
{
    for (size_t k = 0; k < MOST_NAMES && d->family->once[k].name; k++)
        YKI_TRY(check_there(d, d->family->once[k].name, 0));
    for (unsigned l = 0; l < YKI_MAX(d->layers, 1u); l++)
        for (size_t k = 0; d->family->each[k].name; k++)
            YKI_TRY(check_there(d, d->family->each[k].name, l));
    return YOKE_OK;
}

static yoke_status
find_family(description *d)
{
    for (size_t i = 0; i < YKI_COUNT(families) && !d->family; i++)
        if (yoke_graph_get_node(d->graph, families[i].embedding))
            d->family = &families[i];
    if (!d->family)
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the model has neither \"%s\" nor \"%s\"; must be a gpt or a llama for "
                        "Hugging Face's format",
                        families[0].embedding, families[1].embedding);
    while (weight_of(d, d->family->each[0].name, d->layers))
        d->layers++;
    d->tied = !weight_of(d, head.name, 0);
    YKI_TRY(check_all(d));
    return check_names(d);
}

/* ---- what config.json says of it ---- */

static yoke_status
refuse(const yoke_node *node, const char *why)
{
    return yki_fail(YOKE_ERROR_UNSUPPORTED, "\"%s\" %s; Hugging Face's config.json cannot say so",
                    node->name, why);
}

/* Takes the attributes of an operator, which are the same in all layers. */
static yoke_status
take_node(description *d, const yoke_node *node, unsigned counts[2])
{
    if (node->op == &yki_op_attention) {
        yki_attention_attrs a = yki_attention_attrs_get(&node->attrs);
        float scale = 1 / sqrtf((float)a.width);

        if (!a.causal || a.lengths || fabsf(a.scale - scale) > 1e-6f * scale)
            return refuse(node, "is no causal attention of the usual scale");
        if (counts[0]++ && (a.heads != d->attention.heads || a.shared != d->attention.shared ||
                            a.width != d->attention.width))
            return refuse(node, "has other heads than the layer before");
        d->attention = a;
    } else if (node->op == &yki_op_rope) {
        yki_rope_attrs a = yki_rope_attrs_get(&node->attrs);

        if (a.interleaved || node->input_count > 1)
            return refuse(node, "turns neighbours or from another position than 0");
        if (counts[1]++ && !(a.base == d->rope.base))
            return refuse(node, "has another base than the layer before");
        d->rope = a;
    } else if (node->op == &yki_op_layer_norm) {
        yki_ln_attrs a = yki_ln_attrs_get(&node->attrs);

        if (d->norm.epsilon > 0 && !(a.epsilon == d->norm.epsilon))
            return refuse(node, "has another epsilon than the layer before");
        d->norm = a;
    }
    return YOKE_OK;
}

static yoke_status
take_attributes(description *d)
{
    unsigned counts[2] = {0};

    for (size_t i = 0; i < d->graph->node_count; i++)
        if (d->graph->nodes[i]->op)
            YKI_TRY(take_node(d, d->graph->nodes[i], counts));
    if (counts[0] != d->layers || counts[1] != (d->family->positions ? d->layers : 0))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the model has %u attentions and %u rotary positions in %u layers; must "
                        "have those of Hugging Face's %s",
                        counts[0], counts[1], d->layers, d->family->type);
    return YOKE_OK;
}

/* The most tokens of a sample: those of the sequence, or of the model's input. */
static int64_t
context_of(const yoke_graph *graph)
{
    if (graph->length)
        return graph->length;
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_INPUT && graph->nodes[i]->shape.rank > 0)
            return graph->nodes[i]->shape.dim[0];
    return 0;
}

static int64_t
size_of(const description *d, const char *name, int axis)
{
    return weight_of(d, name, 0)->shape.dim[axis];
}

static int64_t
size_by_letter(const description *d, char letter)
{
    const char *inner =
        d->family->positions ? "model.layers.0.mlp.down_proj.weight" : "h.0.mlp.c_proj.weight";
    const int64_t heads = d->attention.heads, width = d->attention.width;

    switch (letter) {
    case 'v':
        return size_of(d, d->family->embedding, 0);
    case 'p':
        return size_of(d, "wpe.weight", 0);
    case 'c':
        return size_of(d, d->family->embedding, 1);
    case 'q':
        return (heads + 2 * d->attention.shared) * width;
    case 'a':
        return heads * width;
    default:
        return size_of(d, inner, 1) * (letter == 'g' ? 2 : 1);
    }
}

static yoke_status
check_shape(const description *d, const named_weight *w, unsigned layer)
{
    const yoke_node *node = weight_of(d, w->name, layer);
    const size_t rank = strlen(w->shape);
    yoke_shape wanted = {.rank = (int32_t)rank};
    char text[128];

    for (size_t i = 0; i < rank; i++)
        wanted.dim[i] = size_by_letter(d, w->shape[i]);
    if (yki_shape_equal(node->shape, wanted))
        return YOKE_OK;
    return yki_fail_shape("the weight", node, yki_shape_text(wanted, text, sizeof text));
}

static yoke_status
check_shapes(const description *d)
{
    const named_weight *const each = d->family->each, *const once = d->family->once;

    for (size_t k = 0; once[k].name; k++)
        YKI_TRY(check_shape(d, &once[k], 0));
    for (unsigned l = 0; l < d->layers; l++)
        for (size_t k = 0; each[k].name; k++)
            YKI_TRY(check_shape(d, &each[k], l));
    if (!d->family->positions && (d->attention.shared != d->attention.heads ||
                                  size_by_letter(d, 'a') != size_by_letter(d, 'c')))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "the model has %d heads of %d, %d of them for keys, in a width of %lld; "
                        "Hugging Face's gpt2 has heads that share nothing and fill the width",
                        d->attention.heads, d->attention.width, d->attention.shared,
                        (long long)size_by_letter(d, 'c'));
    return d->tied ? YOKE_OK : check_shape(d, &head, 0);
}

/* The shortest number that reads back as the same float: 1e-05, not 9.9999997e-06. */
static double
plain(float value)
{
    char text[32];
    int digits = 1;

    do
        snprintf(text, sizeof text, "%.*g", digits, (double)value);
    while (!(strtof(text, NULL) == value) && digits++ < 9);
    return strtod(text, NULL);
}

static json_t *
config_gpt2(const description *d)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:s, s:f, s:f, s:f}", "vocab_size",
                     (json_int_t)size_of(d, "wte.weight", 0), "n_positions",
                     (json_int_t)size_of(d, "wpe.weight", 0), "n_embd",
                     (json_int_t)size_of(d, "wte.weight", 1), "n_layer", (json_int_t)d->layers,
                     "n_head", (json_int_t)d->attention.heads, "n_inner",
                     (json_int_t)size_of(d, "h.0.mlp.c_fc.weight", 0), "layer_norm_epsilon",
                     plain(d->norm.epsilon), "activation_function", "gelu_new", "resid_pdrop", 0.0,
                     "embd_pdrop", 0.0, "attn_pdrop", 0.0);
}

static json_t *
config_llama(const description *d)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:s, s:b, s:b}",
                     "vocab_size", (json_int_t)size_of(d, "model.embed_tokens.weight", 0),
                     "max_position_embeddings", (json_int_t)context_of(d->graph), "hidden_size",
                     (json_int_t)size_of(d, "model.embed_tokens.weight", 1), "intermediate_size",
                     (json_int_t)size_of(d, "model.layers.0.mlp.down_proj.weight", 1),
                     "num_hidden_layers", (json_int_t)d->layers, "num_attention_heads",
                     (json_int_t)d->attention.heads, "num_key_value_heads",
                     (json_int_t)d->attention.shared, "head_dim", (json_int_t)d->attention.width,
                     "rms_norm_eps", plain(d->norm.epsilon), "rope_theta", plain(d->rope.base),
                     "hidden_act", "silu", "attention_bias", 0, "mlp_bias", 0);
}

/* ---- numbers ---- */

static const struct {
    const char *name;
    yki_dtype dtype;
} types[] = {
    {"float32", YKI_DTYPE_F32},
    {"float16", YKI_DTYPE_F16},
    {"bfloat16", YKI_DTYPE_BF16},
};

static uint32_t
round_bits(uint32_t bits, int dropped)
{
    const uint32_t half = (uint32_t)1 << (dropped - 1), rest = bits & (2 * half - 1);

    bits >>= dropped;
    return bits + (rest > half || (rest == half && (bits & 1)));
}

uint16_t
yki_to_bf16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)(isnan(value) ? bits >> 16 | 0x40 : round_bits(bits, 16));
}

/* Below 2^-14 a half has steps of 2^-24: the significand is moved there first. */
uint16_t
yki_to_f16(float value)
{
    const uint32_t implied = 0x800000;
    uint32_t bits, sign, exponent;

    memcpy(&bits, &value, sizeof bits);
    sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    exponent = bits >> 23;
    if (isnan(value))
        return (uint16_t)(sign | 0x7E00);
    if (exponent < 102)
        return (uint16_t)sign;
    if (exponent < 113)
        return (uint16_t)(sign | round_bits((bits & (implied - 1)) | implied, 126 - (int)exponent));
    bits = bits - (112u << 23);
    bits = round_bits(bits, 13);
    return (uint16_t)(sign | (exponent > 142 || bits > 0x7C00 ? 0x7C00 : bits));
}

static yoke_status
store(yki_dtype dtype, const char *name, const float *values, uint64_t count, void *out)
{
    uint16_t *halves = out;

    if (dtype == YKI_DTYPE_F32)
        memcpy(out, values, count * sizeof *values);
    for (uint64_t i = 0; dtype != YKI_DTYPE_F32 && i < count; i++) {
        halves[i] = dtype == YKI_DTYPE_F16 ? yki_to_f16(values[i]) : yki_to_bf16(values[i]);
        if (isfinite(values[i]) &&
            (halves[i] & 0x7FFF) == (dtype == YKI_DTYPE_F16 ? 0x7C00 : 0x7F80))
            return yki_fail(
                YOKE_ERROR_VALUE, "element %llu of \"%s\" is %g, too large for %s; take f32%s",
                (unsigned long long)i, name, (double)values[i],
                dtype == YKI_DTYPE_F16 ? "f16" : "bf16", dtype == YKI_DTYPE_F16 ? " or bf16" : "");
    }
    return YOKE_OK;
}

/* ---- tensors ---- */

/* A tensor to write: a weight, or some of its rows. */
typedef struct piece {
    const yoke_node *node;
    char name[NAME];
    int64_t shape[2], first; /* row of the weight */
    unsigned file;
} piece;

typedef struct writing {
    description about;
    yki_dtype dtype;
    const char *folder;
    piece *pieces;
    size_t count, begun; /* begun: of the file that is being written */
    uint64_t total;      /* bytes */
    unsigned files;
    yoke_status (*get)(void *user, const yoke_node *node, float *values);
    void *user;
} writing;

static uint64_t
piece_bytes(const writing *w, const piece *p)
{
    return (uint64_t)p->shape[0] * (uint64_t)(p->node->shape.rank > 1 ? p->shape[1] : 1) *
           (yki_dtype_bits(w->dtype) / 8);
}

static int64_t
rows_of(const description *d, const yoke_node *node, unsigned parts, unsigned part)
{
    const int64_t rows = node->shape.dim[0];

    if (parts < 3)
        return rows / parts;
    return (int64_t)d->attention.width * (part == 0 ? d->attention.heads : d->attention.shared);
}

static void
add_weight(writing *w, const yoke_node *node)
{
    const unsigned parts = yki_parts_of(node->name);
    const bool is_head = strcmp(node->name, head.name) == 0;
    int64_t first = 0;

    for (unsigned part = 0; part < parts; part++) {
        piece *p = &w->pieces[w->count++];
        char name[NAME];

        yki_translate_back(node->name, part, name, sizeof name);
        snprintf(p->name, sizeof p->name, "%s%.200s", is_head ? "" : w->about.family->prefix, name);
        p->node = node;
        p->first = first;
        p->shape[0] = rows_of(&w->about, node, parts, part);
        p->shape[1] = node->shape.dim[1];
        first += p->shape[0];
        if (yki_is_conv1d(node->name)) {
            p->shape[0] = node->shape.dim[1];
            p->shape[1] = node->shape.dim[0];
        }
    }
}

/* Fills files one after the other; a tensor that is larger than a file may be has one alone. */
static yoke_status
list_pieces(writing *w, uint64_t most)
{
    uint64_t size = 0;

    w->pieces = yki_alloc(3 * w->about.graph->node_count, sizeof *w->pieces, "a list of tensors");
    if (!w->pieces)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < w->about.graph->node_count; i++)
        if (yki_is_weight(w->about.graph->nodes[i]))
            add_weight(w, w->about.graph->nodes[i]);
    for (size_t i = 0; i < w->count; i++) {
        const uint64_t bytes = piece_bytes(w, &w->pieces[i]);

        if (most && size && size + bytes > most) {
            w->files++;
            size = 0;
        }
        size += bytes;
        w->total += bytes;
        w->pieces[i].file = w->files;
    }
    if (++w->files > MOST_FILES)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the shards of %llu bytes would be %u; must be at most %d",
                        (unsigned long long)most, w->files, MOST_FILES);
    return YOKE_OK;
}

static yoke_status
give(void *user, size_t index, void *out)
{
    const writing *w = user;
    const piece *p = &w->pieces[w->begun + index];
    const size_t count = (size_t)yki_shape_count(p->node->shape);
    const int64_t columns = p->node->shape.rank > 1 ? p->node->shape.dim[1] : 1;
    float *values = yki_alloc(2 * count, sizeof *values, "a weight"), *from = values;
    yoke_status status = values ? w->get(w->user, p->node, values) : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK && yki_is_conv1d(p->node->name)) {
        from = values + count;
        for (int64_t i = 0; i < p->shape[0]; i++)
            for (int64_t o = 0; o < p->shape[1]; o++)
                from[i * p->shape[1] + o] = values[o * p->shape[0] + i];
    }
    if (status == YOKE_OK)
        status = store(w->dtype, p->name, from + p->first * columns,
                       piece_bytes(w, p) / (yki_dtype_bits(w->dtype) / 8), out);
    yki_free(values);
    return status;
}

/* ---- files ---- */

static void
name_file(const writing *w, unsigned file, char name[NAME])
{
    if (w->files == 1)
        snprintf(name, NAME, "model.safetensors");
    else
        snprintf(name, NAME, "model-%05u-of-%05u.safetensors", file + 1, w->files);
}

static yoke_status
write_weights(writing *w)
{
    const yki_text format = {(char *)"format", (char *)"pt"};
    yki_tensor_source *tensors = yki_alloc(w->count, sizeof *tensors, "a list of tensors");
    yoke_status status = tensors ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (unsigned file = 0; file < w->files && status == YOKE_OK; file++) {
        char name[NAME], *path;
        size_t count = 0;

        for (; w->begun + count < w->count && w->pieces[w->begun + count].file == file; count++) {
            const piece *p = &w->pieces[w->begun + count];

            tensors[count] =
                (yki_tensor_source){p->name, w->dtype, (uint32_t)p->node->shape.rank, p->shape};
        }
        name_file(w, file, name);
        path = yki_format("%s/%s", w->folder, name);
        status = path ? yki_safetensors_write(path, &format, 1, tensors, count, give, w)
                      : YOKE_ERROR_OUT_OF_MEMORY;
        yki_free(path);
        w->begun += count;
    }
    yki_free(tensors);
    return status;
}

/* Takes the JSON; NULL: there was no memory for it. */
static yoke_status
write_json(const writing *w, const char *name, json_t *json)
{
    char *text = json ? json_dumps(json, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    char *path = yki_format("%s/%s", w->folder, name);
    yki_replace *file = NULL;
    yoke_status status = YOKE_ERROR_OUT_OF_MEMORY;

    json_decref(json);
    if (!text)
        (void)yki_fail(status, "no host memory for %s", name);
    if (text && path)
        status = yki_replace_begin(path, &file);
    if (status == YOKE_OK) {
        status = yki_replace_write(file, text, strlen(text));
        if (status == YOKE_OK)
            status = yki_replace_commit(file);
        else
            yki_replace_drop(file);
    }
    free(text);
    yki_free(path);
    return status;
}

static yoke_status
write_index(const writing *w)
{
    json_t *map = json_object();
    int failed = map ? 0 : -1;

    for (size_t i = 0; i < w->count && !failed; i++) {
        char name[NAME];

        name_file(w, w->pieces[i].file, name);
        failed = json_object_set_new(map, w->pieces[i].name, json_string(name));
    }
    if (failed) {
        json_decref(map);
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for an index");
    }
    return write_json(w, "model.safetensors.index.json",
                      json_pack("{s:{s:I}, s:o}", "metadata", "total_size", (json_int_t)w->total,
                                "weight_map", map));
}

static yoke_status
write_config(const writing *w)
{
    const description *d = &w->about;
    json_t *json = d->family->positions ? config_llama(d) : config_gpt2(d);
    const char *type = "";

    for (size_t i = 0; i < YKI_COUNT(types); i++)
        if (types[i].dtype == w->dtype)
            type = types[i].name;
    if (json &&
        (json_object_set_new(json, "architectures", json_pack("[s]", d->family->architecture)) ||
         json_object_set_new(json, "model_type", json_string(d->family->type)) ||
         json_object_set_new(json, "tie_word_embeddings", json_boolean(d->tied)) ||
         json_object_set_new(json, "torch_dtype", json_string(type)))) {
        json_decref(json);
        json = NULL;
    }
    return write_json(w, "config.json", json);
}

/* A model that is there already might have other shards, which would stay. */
static yoke_status
make_folder(const char *folder)
{
    static const char *const names[] = {"config.json", "model.safetensors",
                                        "model.safetensors.index.json"};

    if (mkdir(folder, 0777) == 0)
        return YOKE_OK;
    if (access(folder, W_OK) != 0)
        return yki_fail(YOKE_ERROR_IO, "%s cannot be made a folder: %s", folder, strerror(errno));
    for (size_t i = 0; i < YKI_COUNT(names); i++) {
        char *path = yki_format("%s/%s", folder, names[i]);
        const bool there = path && access(path, F_OK) == 0;

        yki_free(path);
        if (!path)
            return YOKE_ERROR_OUT_OF_MEMORY;
        if (there)
            return yki_fail(YOKE_ERROR_STATE, "%s has a %s; must be a folder without a model",
                            folder, names[i]);
    }
    return YOKE_OK;
}

static yoke_status
write_all(writing *w, const yoke_tokenizer *tokenizer)
{
    char *path;
    yoke_status status;

    YKI_TRY(make_folder(w->folder));
    YKI_TRY(write_weights(w));
    if (w->files > 1)
        YKI_TRY(write_index(w));
    if (tokenizer) {
        path = yki_format("%s/tokenizer.json", w->folder);
        status = path ? yoke_tokenizer_save(tokenizer, path) : YOKE_ERROR_OUT_OF_MEMORY;
        yki_free(path);
        YKI_TRY(status);
    }
    return write_config(w);
}

yoke_status
yki_hugging_face_write(const char *folder, const yoke_graph *graph, const yoke_tokenizer *tokenizer,
                       const yoke_export_options *o,
                       yoke_status (*get)(void *, const yoke_node *, float *), void *user)
{
    writing w = {.about.graph = graph, .folder = folder, .get = get, .user = user};
    yoke_status status;

    if ((size_t)o->type >= YKI_COUNT(types))
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "type", (int)o->type, 0,
                              YKI_COUNT(types) - 1);
    if (o->shard < 0)
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, "shard", o->shard, 0, INT64_MAX);
    w.dtype = types[o->type].dtype;
    YKI_TRY(find_family(&w.about));
    YKI_TRY(take_attributes(&w.about));
    YKI_TRY(check_shapes(&w.about));
    status = list_pieces(&w, (uint64_t)o->shard);
    if (status == YOKE_OK)
        status = write_all(&w, tokenizer);
    yki_free(w.pieces);
    return status;
}
