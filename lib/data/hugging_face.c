/* SPDX-License-Identifier: Apache-2.0
 *
 * hugging_face.c - how names and arrays of Hugging Face's GPT-2 and Llama differ from those of the
 * same model as a graph: the names may begin with "transformer."; queries, keys and values, and
 * gate and up, are tensors of their own; a tied head may be there once more; buffers are no
 * weights.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "data/shards.h"

static const char prefix[] = "transformer.";

/* Tensors that are parts of one weight, in the order of its first axis. */
static const struct {
    const char *whole;
    unsigned count;
    const char *parts[3];
} packed[] = {
    {"qkv_proj", 3, {"q_proj", "k_proj", "v_proj"}},
    {"gate_up_proj", 2, {"gate_proj", "up_proj"}},
};

static const char *const buffers[] = {"*.attn.bias", "*.attn.masked_bias", "*.rotary_emb.inv_freq"};

/* Finds `word` as a whole part of the name, between points. */
static const char *
find_word(const char *name, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = strstr(name, word); at; at = strstr(at + 1, word))
        if (at > name && at[-1] == '.' && at[length] == '.')
            return at;
    return NULL;
}

static void
replace(const char *name, const char *at, size_t length, const char *by, char *out, size_t size)
{
    snprintf(out, size, "%.*s%s%s", (int)(at - name), name, by, at + length);
}

static bool
is_buffer(const char *name)
{
    for (size_t i = 0; i < YKI_COUNT(buffers); i++)
        if (fnmatch(buffers[i], name, 0) == 0)
            return true;
    return false;
}

void
yki_translate(const char *tensor, bool (*has)(const void *, const char *), const void *user,
              yki_place_in *place)
{
    const bool prefixed = strncmp(tensor, prefix, sizeof prefix - 1) == 0 && !has(user, tensor);
    const char *name = prefixed ? tensor + sizeof prefix - 1 : tensor, *at;

    place->part = 0;
    place->parts = 1;
    snprintf(place->name, sizeof place->name, "%s", name);
    if (has(user, place->name))
        return;
    for (size_t p = 0; p < YKI_COUNT(packed); p++)
        for (unsigned i = 0; i < packed[p].count; i++) {
            at = find_word(name, packed[p].parts[i]);
            if (!at)
                continue;
            replace(name, at, strlen(packed[p].parts[i]), packed[p].whole, place->name,
                    sizeof place->name);
            if (has(user, place->name)) {
                place->part = i;
                place->parts = packed[p].count;
                return;
            }
        }
    snprintf(place->name, sizeof place->name, "%s", is_buffer(name) ? "" : name);
    /* A head that is tied to the embedding. */
    if (strcmp(name, "lm_head.weight") == 0 &&
        (has(user, "wte.weight") || has(user, "model.embed_tokens.weight")))
        place->name[0] = '\0';
}

unsigned
yki_parts_of(const char *weight)
{
    for (size_t p = 0; p < YKI_COUNT(packed); p++)
        if (find_word(weight, packed[p].whole))
            return packed[p].count;
    return 1;
}

void
yki_translate_back(const char *weight, unsigned part, char *name, size_t size)
{
    const char *at;

    snprintf(name, size, "%s", weight);
    for (size_t p = 0; p < YKI_COUNT(packed); p++) {
        at = find_word(weight, packed[p].whole);
        if (at)
            replace(weight, at, strlen(packed[p].whole), packed[p].parts[part], name, size);
    }
}

bool
yki_is_conv1d(const char *weight)
{
    static const char *const names[] = {"*h.*.attn.c_attn.weight", "*h.*.attn.c_proj.weight",
                                        "*h.*.mlp.c_fc.weight", "*h.*.mlp.c_proj.weight"};

    for (size_t i = 0; i < YKI_COUNT(names); i++)
        if (fnmatch(names[i], weight, 0) == 0)
            return true;
    return false;
}
