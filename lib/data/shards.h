/* SPDX-License-Identifier: Apache-2.0
 *
 * shards.h - weights in one safetensors file, or in several that an index names, as Hugging Face
 * keeps models; and how its names and arrays differ from a graph's.
 */
#ifndef YKI_SHARDS_H
#define YKI_SHARDS_H

#include "data/safetensors.h"

typedef struct yki_shards {
    char *path;              /* for errors */
    yki_safetensors **files; /* owned */
    size_t count;
} yki_shards;

/* Opens a safetensors file; or an index, a name that ends in .index.json, with all its files; or
 * model.safetensors.index.json or model.safetensors of a folder. The caller closes it. */
yoke_status yki_shards_open(const char *path, yki_shards *shards);
void yki_shards_close(yki_shards *shards);

/* Where a tensor is, as an index has it. */
typedef struct yki_index_entry {
    const char *tensor, *file; /* lent by `json` */
} yki_index_entry;
typedef struct yki_index {
    void *json;
    yki_index_entry *entries; /* in the order of the text */
    size_t count;
} yki_index;
/* Reads the text of an index; `name` is for errors. Names of files have no folder. */
yoke_status yki_index_parse(const char *text, size_t length, const char *name, yki_index *index);
void yki_index_clear(yki_index *index);

/* ---- hugging_face.c ---- */

/* The weight of a graph that a tensor of a file belongs to. */
typedef struct yki_place_in {
    char name[256];       /* of the weight; "": it is a buffer, which no weight belongs to */
    unsigned part, parts; /* which part of the weight's first axis, of how many */
} yki_place_in;
/* Translates the name of a tensor. `has` tells whether the graph has a weight of a name. */
void yki_translate(const char *tensor, bool (*has)(const void *user, const char *name),
                   const void *user, yki_place_in *place);
/* The reverse: the name of a part of a weight. */
void yki_translate_back(const char *weight, unsigned part, char *name, size_t size);
/* Returns the number of tensors that hold the weight. */
unsigned yki_parts_of(const char *weight);
/* Whether Hugging Face's GPT-2 has this weight as (in, out), not (out, in). */
bool yki_is_conv1d(const char *weight);

#endif
