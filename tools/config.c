/* SPDX-License-Identifier: Apache-2.0
 *
 * config.c - the sizes of a language model from Hugging Face's config.json.
 *
 * The file is refused if it asks for anything that gpt or llama does not compute; keys that change
 * nothing of what a model computes, such as those of training, are not looked at. A key that older
 * files lack has the default of transformers.
 */
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "models.h"
#include "source.h"

enum { MOST_SIZE = 65536, MOST_COUNT = 1 << 24, MOST_KEYS = 8, VALUE = 48, ALLOWED = 96 };
#define LEAST_EPSILON 1e-30

/* An object of the file. */
typedef struct config {
    const char *path;
    const json_t *json;
} config;

typedef struct size_key {
    const char *key;
    size_t at; /* in yki_tool_sizes */
    unsigned most;
} size_key;

/* A key that may be missing but has no other value than this one, as JSON. */
typedef struct fixed_key {
    const char *key, *value;
} fixed_key;

/* A model_type. A row without a key ends a list. */
typedef struct family {
    const char *type, *built_in, *epsilon;
    size_key sizes[MOST_KEYS];
    fixed_key fixed[MOST_KEYS];
} family;

#define SIZE(member) offsetof(yki_tool_sizes, member)

static const family families[] = {
    {"gpt2",
     "gpt",
     "layer_norm_epsilon",
     {{"n_layer", SIZE(layers), MOST_SIZE},
      {"n_head", SIZE(heads), MOST_SIZE},
      {"n_embd", SIZE(width), MOST_SIZE},
      {"n_positions", SIZE(context), MOST_COUNT},
      {"vocab_size", SIZE(vocabulary), MOST_COUNT}},
     {{"activation_function", "\"gelu_new\""},
      {"scale_attn_weights", "true"},
      {"scale_attn_by_inverse_layer_idx", "false"},
      {"add_cross_attention", "false"},
      {"tie_word_embeddings", "true"}}},
    {"llama",
     "llama",
     "rms_norm_eps",
     {{"num_hidden_layers", SIZE(layers), MOST_SIZE},
      {"num_attention_heads", SIZE(heads), MOST_SIZE},
      {"hidden_size", SIZE(width), MOST_SIZE},
      {"max_position_embeddings", SIZE(context), MOST_COUNT},
      {"vocab_size", SIZE(vocabulary), MOST_COUNT},
      {"intermediate_size", SIZE(inner), MOST_COUNT}},
     {{"hidden_act", "\"silu\""},
      {"attention_bias", "false"},
      {"mlp_bias", "false"},
      {"rope_scaling", "null"}}},
};

/* ---- values ---- */

/* Writes a value as JSON; one that is long is cut off. */
static void
value_text(const json_t *value, char text[VALUE])
{
    char *all = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);

    snprintf(text, VALUE, "%s", all ? all : "");
    free(all);
}

static yoke_status
refuse(const config *c, const char *key, const char *allowed)
{
    const json_t *value = json_object_get(c->json, key);
    char text[VALUE], sentence[PATH_MAX + 512];

    value_text(value, text);
    if (value)
        snprintf(sentence, sizeof sentence, "%s: \"%.100s\" is %s; must be %s", c->path, key, text,
                 allowed);
    else
        snprintf(sentence, sizeof sentence, "%s has no \"%s\"; must be %s", c->path, key, allowed);
    return yoke_fail(YOKE_ERROR_UNSUPPORTED, sentence);
}

static yoke_status
read_size(const config *c, const char *key, unsigned most, unsigned *out)
{
    const json_t *value = json_object_get(c->json, key);
    const json_int_t number = json_integer_value(value); /* 0 if it is none */
    char allowed[ALLOWED];

    if (number >= 1 && number <= (json_int_t)most) {
        *out = (unsigned)number;
        return YOKE_OK;
    }
    snprintf(allowed, sizeof allowed, "a whole number between 1 and %u", most);
    return refuse(c, key, allowed);
}

static yoke_status
read_real(const config *c, const char *key, double least, double most, float *out)
{
    const double number = json_number_value(json_object_get(c->json, key));
    char allowed[ALLOWED];

    if (number > least && number <= most) {
        *out = (float)number;
        return YOKE_OK;
    }
    snprintf(allowed, sizeof allowed, "a number above %g, at most %g", least, most);
    return refuse(c, key, allowed);
}

/* A key that is missing or null, or has the number that follows from others. */
static yoke_status
check_derived(const config *c, const char *key, unsigned wanted, const char *meaning)
{
    const json_t *value = json_object_get(c->json, key);
    char allowed[ALLOWED];

    if (!value || json_is_null(value) || json_integer_value(value) == (json_int_t)wanted)
        return YOKE_OK;
    snprintf(allowed, sizeof allowed, "%u, %s", wanted, meaning);
    return refuse(c, key, allowed);
}

static yoke_status
check_fixed(const config *c, const char *key, const char *wanted)
{
    const json_t *value = json_object_get(c->json, key);
    char text[VALUE];

    value_text(value, text);
    return !value || strcmp(text, wanted) == 0 ? YOKE_OK : refuse(c, key, wanted);
}

/* ---- the two families ---- */

/* Newer files have an object in place of the number. */
static yoke_status
read_rope(const config *c, float *base)
{
    json_t *rope = json_object_get(c->json, "rope_parameters"), *value;
    const config inner = {c->path, rope};
    yoke_status status;
    const char *key;

    *base = 0; /* the default of both */
    if (!rope)
        return json_object_get(c->json, "rope_theta") ? read_real(c, "rope_theta", 1, 1e12, base)
                                                      : YOKE_OK;
    if (!json_is_object(rope))
        return refuse(c, "rope_parameters", "an object");
    status = check_fixed(&inner, "rope_type", "\"default\"");
    json_object_foreach(rope, key, value)
    {
        if (!status && strcmp(key, "rope_type") != 0 && strcmp(key, "rope_theta") != 0)
            status = refuse(&inner, key, "left out");
    }
    return status ? status : read_real(&inner, "rope_theta", 1, 1e12, base);
}

static yoke_status
read_llama(const config *c, yki_tool_sizes *s)
{
    const json_t *tied = json_object_get(c->json, "tie_word_embeddings");
    char allowed[ALLOWED];
    yoke_status status = YOKE_OK;

    s->tied = json_is_true(tied);
    if (tied && !json_is_boolean(tied))
        return refuse(c, "tie_word_embeddings", "true or false");
    s->shared = s->heads;
    if (json_object_get(c->json, "num_key_value_heads"))
        status = read_size(c, "num_key_value_heads", MOST_SIZE, &s->shared);
    if (!status && s->heads % s->shared != 0) {
        snprintf(allowed, sizeof allowed, "a divisor of the %u heads", s->heads);
        status = refuse(c, "num_key_value_heads", allowed);
    }
    if (!status && s->width / s->heads % 2 != 0) {
        snprintf(allowed, sizeof allowed, "%u times an even number", s->heads);
        status = refuse(c, "hidden_size", allowed);
    }
    if (!status)
        status = check_derived(c, "head_dim", s->width / s->heads, "the width of a head");
    if (!status && !json_is_false(json_object_get(c->json, "use_sliding_window")))
        status = check_fixed(c, "sliding_window", "null");
    return status ? status : read_rope(c, &s->base);
}

static yoke_status
read_family(const config *c, const family *f, yki_tool_model *model)
{
    yki_tool_sizes *s = &model->sizes;
    char allowed[ALLOWED];
    yoke_status status = YOKE_OK;

    *model = *yki_tool_find_model(f->built_in);
    for (const size_key *k = f->sizes; k->key && !status; k++)
        status = read_size(c, k->key, k->most, (unsigned *)((char *)s + k->at));
    for (const fixed_key *k = f->fixed; k->key && !status; k++)
        status = check_fixed(c, k->key, k->value);
    if (!status)
        status = read_real(c, f->epsilon, LEAST_EPSILON, 1, &s->epsilon);
    if (!status && s->width % s->heads != 0) {
        snprintf(allowed, sizeof allowed, "a divisor of the width, %u", s->width);
        status = refuse(c, f->sizes[1].key, allowed);
    }
    if (!status && s->shared)
        status = read_llama(c, s);
    else if (!status)
        status = check_derived(c, "n_inner", 4 * s->width, "4 times the width");
    model->classes = s->vocabulary;
    model->input.dim[0] = s->context;
    return status;
}

static yoke_status
read_all(const config *c, yki_tool_model *model)
{
    const char *type = json_string_value(json_object_get(c->json, "model_type"));

    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++)
        if (strcmp(type, families[i].type) == 0)
            return read_family(c, &families[i], model);
    return refuse(c, "model_type", "\"gpt2\" or \"llama\"");
}

/* ---- the file ---- */

static void
name_config(const char *folder, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/config.json", folder);
}

bool
yki_tool_has_config(const char *folder)
{
    char path[PATH_MAX];

    name_config(folder, path);
    return access(path, F_OK) == 0;
}

yoke_status
yki_tool_parse_config(const char *text, size_t length, const char *path, yki_tool_model *model)
{
    char sentence[PATH_MAX + JSON_ERROR_TEXT_LENGTH + 64];
    json_error_t error;
    yki_tool_model copy;
    yoke_status status;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    const config c = {path, json};

    if (!json) {
        snprintf(sentence, sizeof sentence, "%s is no JSON: %s in line %d", path, error.text,
                 error.line);
        return yoke_fail(YOKE_ERROR_FORMAT, sentence);
    }
    status = read_all(&c, &copy);
    json_decref(json);
    if (!status)
        *model = copy;
    return status;
}

yoke_status
yki_tool_read_config(const char *folder, yki_tool_model *model)
{
    char path[PATH_MAX], *text;
    yoke_status status;
    size_t length;

    name_config(folder, path);
    status = yki_tool_read_text(path, "the sizes of a model", &text, &length);
    if (status)
        return status;
    status = yki_tool_parse_config(text, length, path, model);
    free(text);
    return status;
}

yoke_status
yki_tool_read_shorter(const char *folder, yki_tool_model *model)
{
    yki_tool_model sized;
    yoke_status status = yki_tool_read_config(folder, &sized);
    int64_t most;

    if (status)
        return status;
    most = yki_tool_find_model(sized.name)->input.dim[0];
    if (sized.input.dim[0] > most)
        sized.input.dim[0] = most;
    *model = sized;
    return YOKE_OK;
}
