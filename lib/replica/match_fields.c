/* SPDX-License-Identifier: Apache-2.0
 *
 * match_fields.c - matches the fields of a dataset with the inputs of a graph, and checks
 * that an input takes the values of its field.
 *
 * Names decide first. An input without a field of its name takes a free field that fits
 * by shape and type, if no other free field fits it and no other free input fits the
 * field. So a file of images and labels matches a graph with one image and one label,
 * whatever the names are.
 */
#include <stdio.h>
#include <string.h>

#include "replica/loader.h"

const yoke_node *
yki_loader_get_input(const yoke_graph *graph, size_t index)
{
    for (size_t i = 0; i < graph->node_count; i++)
        if (graph->nodes[i]->role == YKI_ROLE_INPUT && index-- == 0)
            return graph->nodes[i];
    return NULL;
}

size_t
yki_loader_input_count(const yoke_graph *graph)
{
    size_t count = 0;

    for (size_t i = 0; i < graph->node_count; i++)
        count += graph->nodes[i]->role == YKI_ROLE_INPUT;
    return count;
}

/* Whether the shapes are equal apart from axes of size 1, which do not change the order of
 * elements. */
static bool
same_layout(yoke_shape a, yoke_shape b)
{
    int32_t i = 0, j = 0;

    for (;;) {
        while (i < a.rank && a.dim[i] == 1)
            i++;
        while (j < b.rank && b.dim[j] == 1)
            j++;
        if (i == a.rank || j == b.rank)
            return i == a.rank && j == b.rank;
        if (a.dim[i++] != b.dim[j++])
            return false;
    }
}

/* Whether the values of a sample are those of the input. A sequence may have fewer rows. */
static bool
fits_shape(yoke_shape shape, const yoke_node *node)
{
    if (!node->length)
        return same_layout(shape, node->shape);
    if (shape.rank == 0 || shape.dim[0] > node->length)
        return false;
    memmove(shape.dim, shape.dim + 1, (size_t)--shape.rank * sizeof shape.dim[0]);
    return same_layout(shape, node->shape);
}

bool
yki_field_is_cut(const yoke_field *field, const yoke_node *node)
{
    const int64_t *f = field->shape.dim, *n = node->shape.dim;

    return field->shape.rank == 3 && node->shape.rank == 3 && !node->length && f[0] == n[0] &&
           f[1] >= n[1] && f[2] >= n[2] && (f[1] > n[1] || f[2] > n[2]);
}

yoke_status
yki_dataset_cut(yoke_dataset *dataset, const yoke_graph *graph)
{
    const struct yki_augmentation *a = &dataset->augmentation;

    for (size_t f = 0; f < dataset->field_count; f++) {
        const yoke_field *field = &dataset->fields[f];
        const yoke_node *node = yoke_graph_get_node(graph, field->name);
        yoke_augmentation cut = {.field = field->name, .crop = true};

        if (!node || node->role != YKI_ROLE_INPUT || field->type == YOKE_I32 ||
            !yki_field_is_cut(field, node) || (a->crop && a->field == f))
            continue;
        if (a->field == f) { /* what else is set of this field stays */
            cut.flip = a->flip;
            cut.shift = a->shift;
            cut.noise = a->noise;
            cut.shift_part = a->shift_part;
        }
        return yoke_dataset_set_augmentation(dataset, &cut);
    }
    return YOKE_OK;
}

static bool
type_fits(yoke_type from, yoke_type to)
{
    return to == YOKE_F32 || from == to || (to == YOKE_I32 && from == YOKE_U8);
}

static bool
fits(const yoke_dataset *dataset, size_t f, const yoke_node *node)
{
    const yoke_field *field = &dataset->fields[f];
    bool cut = dataset->augmentation.crop && dataset->augmentation.field == f &&
               yki_field_is_cut(field, node);

    return type_fits(field->type, node->type) && (cut || fits_shape(field->shape, node));
}

/* What the user can do about two types that are not converted. */
static const char *
how_to_fit(yoke_type from, yoke_type to)
{
    return to == YOKE_U8      ? "; save the samples as bytes (uint8), or make the input f32 or i32"
           : from == YOKE_F32 ? "; save the samples as whole numbers (numpy.int32), read a table "
                                "with csv_integers, or make the input f32"
                              : "";
}

static yoke_status
does_not_fit(const yoke_field *field, const yoke_node *node)
{
    const bool converts = type_fits(field->type, node->type);
    char a[128], b[128];

    return yki_fail(
        converts ? YOKE_ERROR_SHAPE : YOKE_ERROR_TYPE,
        "the dataset's field \"%s\" has %s %s; must be %s, as the graph's input \"%s\"%s",
        field->name, converts ? "shape" : "type",
        converts ? yki_shape_text(field->shape, a, sizeof a) : yki_value_type_name(field->type),
        converts ? yki_shape_text(yki_whole_shape(node), b, sizeof b)
                 : yki_value_type_name(node->type),
        node->name, converts ? "" : how_to_fit(field->type, node->type));
}

/* If a free field has the right shape, the user has meant that one, and its type is the reason. */
static yoke_status
is_missing(const yoke_dataset *dataset, const yoke_node *node, const bool *taken)
{
    char names[256] = "", shape[128];
    size_t used = 0;

    for (size_t i = 0; i < dataset->field_count; i++)
        if (!taken[i] && fits_shape(dataset->fields[i].shape, node) &&
            !type_fits(dataset->fields[i].type, node->type))
            return does_not_fit(&dataset->fields[i], node);
    for (size_t i = 0; i < dataset->field_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 dataset->fields[i].name);
    return yki_fail(YOKE_ERROR_NOT_FOUND,
                    "the dataset has no field for the graph's input \"%s\", %s %s; it has %s",
                    node->name, yki_value_type_name(node->type),
                    yki_shape_text(yki_whole_shape(node), shape, sizeof shape), names);
}

/* Counts the free fields that fit an input; `last` is the last one. suitors() counts the free
 * inputs that a field fits. */
static size_t
candidates(const yoke_dataset *dataset, const yoke_node *node, const bool *taken, size_t *last)
{
    size_t count = 0;

    for (size_t f = 0; f < dataset->field_count; f++)
        if (!taken[f] && fits(dataset, f, node)) {
            *last = f;
            count++;
        }
    return count;
}

static size_t
suitors(const yoke_dataset *dataset, const yoke_graph *graph, size_t field, const int *fields,
        size_t count)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += fields[i] < 0 && fits(dataset, field, yki_loader_get_input(graph, i));
    return found;
}

static bool
is_read(const yki_loader_options *o, const yoke_node *input)
{
    return !o || !o->reads || o->reads(o->user, input);
}

yoke_status
yki_fields_match(const yoke_dataset *dataset, const yoke_graph *graph, const yki_loader_options *o,
                 int *fields, size_t count)
{
    bool taken[YKI_MAX_FIELDS] = {false};

    for (size_t i = 0; i < count; i++) {
        const yoke_node *node = yki_loader_get_input(graph, i);

        fields[i] = yki_dataset_find(dataset, node->name);
        if (fields[i] < 0)
            continue;
        taken[fields[i]] = true;
        if (fits(dataset, (size_t)fields[i], node))
            continue;
        if (is_read(o, node))
            return does_not_fit(&dataset->fields[fields[i]], node);
        fields[i] = -1;
    }
    for (size_t i = 0; i < count; i++) {
        const yoke_node *node = yki_loader_get_input(graph, i);
        size_t field = 0;

        if (fields[i] >= 0 || yki_dataset_find(dataset, node->name) >= 0)
            continue;
        if (candidates(dataset, node, taken, &field) == 1 &&
            suitors(dataset, graph, field, fields, count) == 1) {
            fields[i] = (int)field;
            taken[field] = true;
        } else if (o && !o->allow_missing && is_read(o, node)) {
            return is_missing(dataset, node, taken);
        }
    }
    return YOKE_OK;
}

/* ---- labels ---- */

enum { CHUNK_BYTES = 1 << 18 };

static yoke_status
check_values(const yoke_field *field, const yoke_node *node, const void *values, int64_t first,
             size_t count)
{
    int64_t each = yki_shape_count(field->shape);

    for (int64_t i = 0; i < (int64_t)count * each; i++) {
        int64_t value =
            field->type == YOKE_U8 ? ((const uint8_t *)values)[i] : ((const int32_t *)values)[i];

        if (!yki_value_fits(node, value))
            return yki_fail(YOKE_ERROR_VALUE,
                            "field \"%s\": sample %lld has the label %lld; must be between %lld "
                            "and %lld for the graph's input \"%s\"",
                            field->name, (long long)(first + i / each), (long long)value,
                            (long long)node->low, (long long)node->limit - 1, node->name);
    }
    return YOKE_OK;
}

yoke_status
yki_field_check_labels(const yoke_dataset *dataset, size_t f, const yoke_node *node)
{
    const yoke_field *field = &dataset->fields[f];
    size_t size = yki_field_size(field), step = YKI_MAX(CHUNK_BYTES / size, 1u);
    void *values;
    int64_t *indices;
    yoke_status status;

    if (node->low == node->limit || field->type == YOKE_F32)
        return YOKE_OK;
    values = yki_alloc(step, size, "labels to be checked");
    indices = yki_alloc(step, sizeof *indices, "numbers of samples");
    status = values && indices ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    for (int64_t first = 0; first < dataset->count && status == YOKE_OK; first += (int64_t)step) {
        size_t count = (size_t)YKI_MIN((int64_t)step, dataset->count - first);

        for (size_t i = 0; i < count; i++)
            indices[i] = first + (int64_t)i;
        status = yki_dataset_read(dataset, f, indices, count, values);
        if (status == YOKE_OK)
            status = check_values(field, node, values, first, count);
    }
    yki_free(values);
    yki_free(indices);
    return status;
}
