/* SPDX-License-Identifier: Apache-2.0
 *
 * model_info.c - what a file of weights says about the input data: type and shape of a sample,
 * scaling, class names.
 */
#include <string.h>

#include "data/encoding.h"
#include "data/graph_json.h"
#include "data/tokenizer.h"
#include "data/weights_file.h"

static void
clear_input(const yoke_field *field, const struct yki_scaling *scaling)
{
    yki_free((char *)field->name);
    yki_free(scaling->mean);
    yki_free(scaling->scale);
}

void
yki_model_info_clear(yki_model_info *info)
{
    clear_input(&info->field, &info->scaling);
    for (size_t i = 0; i < info->more_count; i++)
        clear_input(&info->more[i].field, &info->more[i].scaling);
    for (size_t i = 0; info->class_names && i < info->class_count; i++)
        yki_free(info->class_names[i]);
    yki_free(info->class_names);
    yoke_tokenizer_destroy(info->tokenizer);
    yki_free(info->encoding);
    memset(info, 0, sizeof *info);
}

/* On failure too, what is set is for clear_input. */
static yoke_status
set_input(yoke_field *to, struct yki_scaling *scaling, const yoke_field *field, const float *mean,
          const float *scale, size_t count)
{
    to->name = yki_strdup(field->name, "the name of an input");
    if (!to->name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    to->type = field->type;
    to->shape = field->shape;
    if (!count)
        return YOKE_OK;
    scaling->mean = yki_alloc(count, sizeof *mean, "scaling");
    scaling->scale = yki_alloc(count, sizeof *scale, "scaling");
    if (!scaling->mean || !scaling->scale)
        return YOKE_ERROR_OUT_OF_MEMORY;
    scaling->count = count;
    memcpy(scaling->mean, mean, count * sizeof *mean);
    memcpy(scaling->scale, scale, count * sizeof *scale);
    return YOKE_OK;
}

yoke_status
yki_model_info_add(yki_model_info *info, const yoke_field *field, const float *mean,
                   const float *scale, size_t count)
{
    yki_model_input *more;

    if (info->more_count == YKI_COUNT(info->more))
        return YOKE_OK;
    more = &info->more[info->more_count++];
    return set_input(&more->field, &more->scaling, field, mean, scale, count);
}

bool
yki_model_info_find(const yki_model_info *info, const char *name, yki_model_input *input)
{
    *input = (yki_model_input){info->field, info->scaling};
    if (info->field.name && strcmp(info->field.name, name) == 0)
        return true;
    for (size_t i = 0; i < info->more_count; i++) {
        *input = info->more[i];
        if (strcmp(input->field.name, name) == 0)
            return true;
    }
    return false;
}

static yoke_status
set_classes(yki_model_info *info, const char *const *names, size_t count)
{
    if (!count)
        return YOKE_OK;
    info->class_names = yki_alloc(count, sizeof *info->class_names, "names of classes");
    if (!info->class_names)
        return YOKE_ERROR_OUT_OF_MEMORY;
    info->class_count = count;
    for (size_t i = 0; i < count; i++) {
        info->class_names[i] = yki_strdup(names[i] ? names[i] : "", "the name of a class");
        if (!info->class_names[i])
            return YOKE_ERROR_OUT_OF_MEMORY;
    }
    return YOKE_OK;
}

static yoke_status
set_all(yki_model_info *info, const yoke_field *field, const float *mean, const float *scale,
        size_t scaling_count, const char *const *names, size_t count)
{
    YKI_TRY(set_input(&info->field, &info->scaling, field, mean, scale, scaling_count));
    return set_classes(info, names, count);
}

yoke_status
yki_model_info_set(yki_model_info *out, const yoke_field *field, const float *mean,
                   const float *scale, size_t scaling_count, const char *const *class_names,
                   size_t class_count)
{
    yki_model_info info = {0};
    yoke_status status =
        set_all(&info, field, mean, scale, scaling_count, class_names, class_count);

    if (status != YOKE_OK) {
        yki_model_info_clear(&info);
        return status;
    }
    yki_model_info_clear(out);
    *out = info;
    return YOKE_OK;
}

/* ---- texts ---- */

static void
add_floats(yki_json_text *text, const char *key, const float *values, size_t count)
{
    yki_json_add(text, key);
    for (size_t i = 0; i < count; i++) {
        yki_json_add(text, i ? ", " : "[");
        yki_json_add_value(text, yki_json_float(values[i]), 0);
    }
    yki_json_add(text, "]");
}

static void
add_input(yki_json_text *text, const yoke_field *field, const struct yki_scaling *scaling)
{
    yki_json_add(text, "{\"name\": ");
    yki_json_add_value(text, json_string(field->name), 0);
    yki_json_add(text, ", \"type\": ");
    yki_json_add_value(text, json_string(yki_value_type_name(field->type)), 0);
    yki_json_add(text, ", \"shape\": [");
    for (int32_t i = 0; i < field->shape.rank; i++) {
        yki_json_add(text, i ? ", " : "");
        yki_json_add_value(text, json_integer(field->shape.dim[i]), 0);
    }
    yki_json_add(text, "]");
    if (scaling->count) {
        add_floats(text, ", \"mean\": ", scaling->mean, scaling->count);
        add_floats(text, ", \"scale\": ", scaling->scale, scaling->count);
    }
    yki_json_add(text, "}");
}

static yoke_status
input_text(const yki_model_info *info, char **out)
{
    yki_json_text text = {0};

    add_input(&text, &info->field, &info->scaling);
    return yki_json_take(&text, out);
}

static yoke_status
inputs_text(const yki_model_info *info, char **out)
{
    yki_json_text text = {0};

    for (size_t i = 0; i < info->more_count; i++) {
        yki_json_add(&text, i ? ", " : "[");
        add_input(&text, &info->more[i].field, &info->more[i].scaling);
    }
    yki_json_add(&text, "]");
    return yki_json_take(&text, out);
}

static yoke_status
classes_text(const yki_model_info *info, char **out)
{
    yki_json_text text = {0};

    for (size_t i = 0; i < info->class_count; i++) {
        yki_json_add(&text, i ? ", " : "[");
        yki_json_add_value(&text, json_string(info->class_names[i]), 0);
    }
    yki_json_add(&text, "]");
    return yki_json_take(&text, out);
}

yoke_status
yki_model_info_write(const yki_model_info *info, yki_text texts[YKI_MODEL_TEXTS], size_t *count)
{
    size_t made = 0;
    yoke_status status = YOKE_OK;

    *count = 0;
    if (info->field.name) {
        status = input_text(info, &texts[made].value);
        texts[made].key = (char *)YKI_INPUT_KEY;
        made += status == YOKE_OK;
    }
    if (status == YOKE_OK && info->more_count) {
        status = inputs_text(info, &texts[made].value);
        texts[made].key = (char *)YKI_INPUTS_KEY;
        made += status == YOKE_OK;
    }
    if (status == YOKE_OK && info->class_count) {
        status = classes_text(info, &texts[made].value);
        texts[made].key = (char *)YKI_CLASSES_KEY;
        made += status == YOKE_OK;
    }
    if (status == YOKE_OK && info->tokenizer) {
        status = yki_tokenizer_write(info->tokenizer, &texts[made].value);
        texts[made].key = (char *)YKI_TOKENIZER_KEY;
        made += status == YOKE_OK;
    }
    if (status == YOKE_OK && info->encoding) {
        texts[made].value = yki_strdup(info->encoding, "an encoding");
        status = texts[made].value ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
        texts[made].key = (char *)YKI_ENCODING_KEY;
        made += status == YOKE_OK;
    }
    if (status != YOKE_OK) {
        while (made)
            yki_free(texts[--made].value);
        return status;
    }
    *count = made;
    return YOKE_OK;
}

static yoke_status
bad(const yki_safetensors *file, const char *key, const char *what)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s: %s in the metadata %s", file->path, key, what);
}

/* Reads numbers; the caller calls free. NULL and *count 0: there are none. */
static yoke_status
read_floats(const yki_safetensors *file, const char *key, const json_t *list, float **values,
            size_t *count)
{
    *count = json_array_size(list);
    *values = NULL;
    if (!*count)
        return YOKE_OK;
    *values = yki_alloc(*count, sizeof **values, "scaling");
    if (!*values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < *count; i++)
        if (!yki_json_get_float(json_array_get(list, i), &(*values)[i]))
            return bad(file, key,
                       "has means or scales that are no numbers; must be lists of numbers");
    return YOKE_OK;
}

static yoke_status
read_field(const yki_safetensors *file, const char *key, const json_t *json, yoke_field *field)
{
    const char *type = json_string_value(json_object_get(json, "type"));
    const json_t *shape = json_object_get(json, "shape");

    field->name = json_string_value(json_object_get(json, "name"));
    if (!field->name || !type || !yki_value_type_find(type, &field->type) ||
        !json_is_array(shape) || json_array_size(shape) >= YOKE_MAX_RANK)
        return bad(file, key, "lacks a name, a type or a shape; must have all three");
    field->shape.rank = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < field->shape.rank; i++) {
        field->shape.dim[i] = json_integer_value(json_array_get(shape, (size_t)i));
        if (field->shape.dim[i] < 1 || field->shape.dim[i] > INT32_MAX)
            return bad(file, key, "has a bad shape; must be a list of sizes");
    }
    return YOKE_OK;
}

/* Reads one input: the first, which comes with the names of classes, or one more. */
static yoke_status
read_input(const yki_safetensors *file, const char *key, const json_t *json,
           const char *const *names, size_t count, yki_model_info *info)
{
    float *mean = NULL, *scale = NULL;
    size_t means, scales = 0;
    yoke_field field = {0};
    yoke_status status = read_field(file, key, json, &field);

    if (status == YOKE_OK)
        status = read_floats(file, key, json_object_get(json, "mean"), &mean, &means);
    if (status == YOKE_OK)
        status = read_floats(file, key, json_object_get(json, "scale"), &scale, &scales);
    if (status == YOKE_OK && means != scales)
        status = bad(file, key, "has not as many means as scales; must have the same number");
    if (status == YOKE_OK)
        status = info->field.name
                     ? yki_model_info_add(info, &field, mean, scale, scales)
                     : yki_model_info_set(info, &field, mean, scale, scales, names, count);
    yki_free(mean);
    yki_free(scale);
    return status;
}

static yoke_status
read_more(const yki_safetensors *file, yki_model_info *info)
{
    const char *text = yki_safetensors_text(file, YKI_INPUTS_KEY);
    json_t *list = text ? json_loads(text, JSON_REJECT_DUPLICATES, NULL) : NULL;
    yoke_status status = YOKE_OK;

    if (text && (!json_is_array(list) || !info->field.name))
        status = bad(file, YKI_INPUTS_KEY, "is no list beside an input; must be one of objects");
    for (size_t i = 0; i < json_array_size(list) && status == YOKE_OK; i++)
        status = read_input(file, YKI_INPUTS_KEY, json_array_get(list, i), NULL, 0, info);
    json_decref(list);
    return status;
}

/* `json` lends the names. */
static yoke_status
read_classes(const yki_safetensors *file, const json_t *json, const char ***names, size_t *count)
{
    *count = json_array_size(json);
    *names = yki_alloc(*count, sizeof **names, "names of classes");
    if (!*names)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < *count; i++) {
        (*names)[i] = json_string_value(json_array_get(json, i));
        if (!(*names)[i])
            return bad(file, YKI_CLASSES_KEY, "is no list; must be a list of names");
    }
    return YOKE_OK;
}

/* Only if it can be read. */
static yoke_status
take_encoding(const yki_safetensors *file, const char *text, yki_model_info *info)
{
    yki_encoding *read;

    YKI_TRY(yki_encoding_read(text, file->path, &read));
    yki_encoding_destroy(read);
    info->encoding = yki_strdup(text, "an encoding");
    return info->encoding ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

yoke_status
yki_model_info_read(const yki_safetensors *file, yki_model_info *info)
{
    const char *input = yki_safetensors_text(file, YKI_INPUT_KEY);
    const char *classes = yki_safetensors_text(file, YKI_CLASSES_KEY);
    const char *tokenizer = yki_safetensors_text(file, YKI_TOKENIZER_KEY);
    const char *encoding = yki_safetensors_text(file, YKI_ENCODING_KEY);
    json_t *input_json = input ? json_loads(input, JSON_REJECT_DUPLICATES, NULL) : NULL;
    json_t *classes_json = classes ? json_loads(classes, 0, NULL) : NULL;
    const char **names = NULL;
    size_t count = 0;
    yoke_status status = YOKE_OK;

    if (input && !json_is_object(input_json))
        status = bad(file, YKI_INPUT_KEY, "is no object; must be one of JSON");
    else if (classes && !json_is_array(classes_json))
        status = bad(file, YKI_CLASSES_KEY, "is no list; must be a list of names");
    if (status == YOKE_OK)
        status = read_classes(file, classes_json, &names, &count);
    if (status == YOKE_OK && input)
        status = read_input(file, YKI_INPUT_KEY, input_json, names, count, info);
    else if (status == YOKE_OK)
        status = set_classes(info, names, count);
    if (status == YOKE_OK)
        status = read_more(file, info);
    if (status == YOKE_OK && tokenizer)
        status = yki_tokenizer_read(tokenizer, strlen(tokenizer), file->path, &info->tokenizer);
    if (status == YOKE_OK && encoding)
        status = take_encoding(file, encoding, info);
    yki_free(names);
    json_decref(input_json);
    json_decref(classes_json);
    return status;
}
