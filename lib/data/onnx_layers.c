/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_layers.c - imports convolutions, pooling, norms and embeddings.
 *
 * yoke pads both ends of an axis alike. What one end has more is joined to the input as rows of
 * zeros, so padding "SAME" of any stride is the same numbers. Samples of one axis become images of
 * one row.
 */
#include <float.h>
#include <string.h>

#include "data/onnx_import.h"
#include "op/ops.h"

/* ---- windows ---- */

/* Sizes of a window; index 0 is the vertical axis. */
typedef struct window {
    int64_t kernel[2], stride[2], dilation[2], before[2], after[2];
    bool row; /* a sample has one axis, which is the horizontal one */
} window;

/* Reads an attribute of one number for each axis, or two. */
static yoke_status
get_sizes(yki_onnx_importer *im, const char *name, bool row, int64_t otherwise, size_t lists,
          int64_t out[4])
{
    const yki_onnx_attr *a = yki_onnx_get_attr(im, name);
    const size_t axes = row ? 1 : 2;

    for (size_t i = 0; i < 4; i++)
        out[i] = otherwise;
    if (!a)
        return YOKE_OK;
    if (a->count != axes * lists)
        return yki_onnx_refuse(im, "\"%s\" has %zu numbers; must have %zu", name, a->count,
                               axes * lists);
    for (size_t i = 0; i < a->count; i++)
        out[i / axes * 2 + i % axes + row] = a->ints[i];
    if (row) /* of the axis that is not there */
        out[0] = out[2] = strcmp(name, "pads") == 0 ? 0 : 1;
    return YOKE_OK;
}

/* How much padding makes the result as large as the input divided by the stride. */
static void
pad_same(window *w, const yoke_shape *x, bool upper)
{
    for (int i = 0; i < 2; i++) {
        const int64_t size = x->dim[i + 1], out = (size + w->stride[i] - 1) / w->stride[i];
        const int64_t needs = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        const int64_t pad = needs > size ? needs - size : 0;

        w->before[i] = upper ? pad / 2 : pad - pad / 2;
        w->after[i] = pad - w->before[i];
    }
}

static yoke_status
check_window(const yki_onnx_importer *im, const window *w)
{
    for (int i = 0; i < 2; i++)
        if (w->kernel[i] < 1 || w->stride[i] < 1 || w->dilation[i] < 1 || w->before[i] < 0 ||
            w->after[i] < 0 || w->kernel[i] > INT16_MAX || w->stride[i] > INT16_MAX ||
            w->dilation[i] > INT16_MAX || w->before[i] > INT16_MAX || w->after[i] > INT16_MAX)
            return yki_onnx_refuse(im, "its kernel, strides, dilations or pads are out of range; "
                                       "must be between 1, for pads 0, and 32767");
    return YOKE_OK;
}

/* Reads all of them. `kernel`: the sizes that the weight has, or NULL. */
static yoke_status
get_window(yki_onnx_importer *im, const yoke_shape *x, bool row, const int64_t *kernel, window *w)
{
    const char *automatic = yki_onnx_get_text(im, "auto_pad", "NOTSET");
    int64_t sizes[4], pads[4];

    w->row = row;
    YKI_TRY(get_sizes(im, "kernel_shape", row, kernel ? 1 : 0, 1, sizes));
    memcpy(w->kernel, kernel ? kernel : sizes, sizeof w->kernel);
    YKI_TRY(get_sizes(im, "strides", row, 1, 1, sizes));
    memcpy(w->stride, sizes, sizeof w->stride);
    YKI_TRY(get_sizes(im, "dilations", row, 1, 1, sizes));
    memcpy(w->dilation, sizes, sizeof w->dilation);
    YKI_TRY(get_sizes(im, "pads", row, 0, 2, pads));
    memcpy(w->before, pads, sizeof w->before);
    memcpy(w->after, pads + 2, sizeof w->after);
    YKI_TRY(check_window(im, w));
    if (strcmp(automatic, "NOTSET") == 0)
        return YOKE_OK;
    memset(w->before, 0, sizeof w->before);
    memset(w->after, 0, sizeof w->after);
    if (strcmp(automatic, "VALID") == 0)
        return YOKE_OK;
    if (strcmp(automatic, "SAME_UPPER") != 0 && strcmp(automatic, "SAME_LOWER") != 0)
        return yki_onnx_refuse(im,
                               "\"auto_pad\" is \"%.80s\"; must be NOTSET, VALID, SAME_UPPER "
                               "or SAME_LOWER",
                               automatic);
    pad_same(w, x, strcmp(automatic, "SAME_UPPER") == 0);
    return check_window(im, w);
}

/* Joins `count` rows of `value` to an end of an axis. */
static yoke_node *
join_rows(yoke_graph *g, yoke_node *x, int32_t axis, int64_t count, bool before, float value)
{
    yoke_node *rows, *parts[2];

    while (x && count > 0) {
        const int64_t some = YKI_MIN(count, x->shape.dim[axis]);

        rows = yoke_scale(g, yoke_slice(g, x, axis, 0, some), 0, value);
        parts[0] = before ? rows : x;
        parts[1] = before ? x : rows;
        x = yoke_concat(g, parts, 2, axis);
        count -= some;
    }
    return x;
}

/* Leaves padding of both ends alike, in w->before. */
static yoke_node *
even_pads(yoke_graph *g, yoke_node *x, window *w, float value)
{
    for (int i = 0; i < 2; i++) {
        const int64_t both = YKI_MIN(w->before[i], w->after[i]);

        x = join_rows(g, x, i + 1, w->before[i] - both, true, value);
        x = join_rows(g, x, i + 1, w->after[i] - both, false, value);
        w->before[i] = w->after[i] = both;
    }
    return x;
}

/* The input as an image. */
static yoke_status
get_image(yki_onnx_importer *im, yoke_node **image, bool *row)
{
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    *row = x->shape.rank == 2;
    if (*row)
        x = yoke_reshape(im->graph, x, yoke_shape(x->shape.dim[0], 1, x->shape.dim[1]));
    if (!x || x->shape.rank != 3)
        return yki_onnx_refuse(im,
                               "a sample has %d axes; must be an image (channels, height, "
                               "width), or (channels, length)",
                               x ? (int)x->shape.rank : 0);
    *image = x;
    return YOKE_OK;
}

/* The result of an image, with as many axes as the input had. */
static yoke_status
give_image(yki_onnx_importer *im, yoke_node *y, bool row)
{
    if (y && row)
        y = yoke_reshape(im->graph, y, yoke_shape(y->shape.dim[0], y->shape.dim[2]));
    return yki_onnx_give(im, y);
}

/* ---- convolutions ---- */

/* Reads the weight of a layer, which must be its own, and its bias. */
static yoke_status
get_weights(yki_onnx_importer *im, bool row, const float **bias)
{
    yki_onnx_item *w = im->in[1], *b = im->in_count > 2 ? im->in[2] : NULL;

    *bias = NULL;
    YKI_TRY(yki_onnx_numbers(im, w));
    if (!w->is_float || w->rank != (row ? 3 : 4) || w->count == 0)
        return yki_onnx_refuse(im, "its weight \"%s\" has %d axes; must have %d, and floats",
                               w->name, (int)w->rank, row ? 3 : 4);
    if (w->parameter)
        return yki_onnx_refuse(im,
                               "its weight \"%s\" belongs to another layer too; must have its "
                               "own",
                               w->name);
    if (!b)
        return YOKE_OK;
    YKI_TRY(yki_onnx_numbers(im, b));
    *bias = b->floats;
    return b->floats ? YOKE_OK : yki_onnx_refuse(im, "its bias \"%s\" has no floats", b->name);
}

static yoke_status
set_weights(yki_onnx_importer *im, yoke_node *y, const char *name, const float *bias)
{
    yki_onnx_item *w = im->in[1];

    if (!y)
        return yki_onnx_refuse(im, "%s", im->graph->detail);
    if (yki_shape_count(y->inputs[1]->shape) != w->count ||
        (bias && yki_shape_count(y->inputs[2]->shape) != im->in[2]->count))
        return yki_onnx_refuse(im, "its weight \"%s\" or its bias does not fit the channels",
                               w->name);
    YKI_TRY(yki_onnx_set_part(im, name, "weight", w->floats));
    w->parameter = y->inputs[1];
    w->parameter->frozen = w->literal;
    return bias ? yki_onnx_set_part(im, name, "bias", im->in[2]->floats) : YOKE_OK;
}

static yoke_status
make_conv(yki_onnx_importer *im)
{
    const yki_onnx_item *weight = im->in[1];
    const int64_t *const dim = weight->dim;
    yoke_conv2d_options o = {.filters = dim[0], .groups = yki_onnx_get_int(im, "group", 1)};
    const float *bias;
    yoke_node *x, *y;
    window w;
    bool row;

    YKI_TRY(get_image(im, &x, &row));
    YKI_TRY(get_weights(im, row, &bias));
    YKI_TRY(
        get_window(im, &x->shape, row, (const int64_t[]){row ? 1 : dim[2], dim[row ? 2 : 3]}, &w));
    x = even_pads(im->graph, x, &w, 0);
    memcpy(o.kernel, w.kernel, sizeof o.kernel);
    memcpy(o.stride, w.stride, sizeof o.stride);
    memcpy(o.dilation, w.dilation, sizeof o.dilation);
    memcpy(o.pad, w.before, sizeof o.pad);
    o.no_bias = !bias;
    o.name = yki_onnx_layer_name(im, weight);
    if (!o.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    y = yoke_conv2d(im->graph, x, &o);
    YKI_TRY(set_weights(im, y, o.name, bias));
    return give_image(im, y, row);
}

static yoke_status
make_conv_transpose(yki_onnx_importer *im)
{
    const yki_onnx_item *weight = im->in[1];
    const int64_t *const dim = weight->dim, groups = yki_onnx_get_int(im, "group", 1);
    yoke_conv_transpose2d_options o = {.groups = groups};
    const float *bias;
    int64_t more[4];
    yoke_node *x, *y;
    window w;
    bool row;

    YKI_TRY(get_image(im, &x, &row));
    YKI_TRY(get_weights(im, row, &bias));
    YKI_TRY(
        get_window(im, &x->shape, row, (const int64_t[]){row ? 1 : dim[2], dim[row ? 2 : 3]}, &w));
    YKI_TRY(get_sizes(im, "output_padding", row, 0, 1, more));
    if (row)
        more[0] = 0;
    if (yki_onnx_get_attr(im, "output_shape") || groups < 1 || groups > INT16_MAX ||
        dim[1] > INT32_MAX || w.before[0] != w.after[0] || w.before[1] != w.after[1] ||
        strcmp(yki_onnx_get_text(im, "auto_pad", "NOTSET"), "NOTSET") != 0)
        return yki_onnx_refuse(im, "it has an output_shape, auto_pad, or other pads at the end "
                                   "than at the start; must have none of them");
    o.filters = dim[1] * groups;
    memcpy(o.kernel, w.kernel, sizeof o.kernel);
    memcpy(o.stride, w.stride, sizeof o.stride);
    memcpy(o.dilation, w.dilation, sizeof o.dilation);
    memcpy(o.pad, w.before, sizeof o.pad);
    memcpy(o.output_pad, more, sizeof o.output_pad);
    o.no_bias = !bias;
    o.name = yki_onnx_layer_name(im, weight);
    if (!o.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    y = yoke_conv_transpose2d(im->graph, x, &o);
    YKI_TRY(set_weights(im, y, o.name, bias));
    return give_image(im, y, row);
}

/* ---- pooling ---- */

static yoke_status
make_pool(yki_onnx_importer *im)
{
    const bool max = strcmp(im->node->op, "MaxPool") == 0;
    const bool count_pads = yki_onnx_get_int(im, "count_include_pad", 0);
    yoke_pool2d_options o = {.ceil_mode = yki_onnx_get_int(im, "ceil_mode", 0),
                             .exclude_pad = !max && !count_pads};
    yoke_node *x;
    window w;
    bool row;

    YKI_TRY(get_image(im, &x, &row));
    YKI_TRY(get_window(im, &x->shape, row, NULL, &w));
    if (w.dilation[0] != 1 || w.dilation[1] != 1)
        return yki_onnx_refuse(im, "it has dilations; must have none");
    if (!max && !count_pads && (w.before[0] != w.after[0] || w.before[1] != w.after[1]))
        return yki_onnx_refuse(im, "it does not count pads, which are others at the end than at "
                                   "the start; must be the same");
    x = even_pads(im->graph, x, &w, max ? -FLT_MAX : 0);
    memcpy(o.kernel, w.kernel, sizeof o.kernel);
    memcpy(o.stride, w.stride, sizeof o.stride);
    memcpy(o.pad, w.before, sizeof o.pad);
    return give_image(im, max ? yoke_maxpool2d(im->graph, x, &o) : yoke_avgpool2d(im->graph, x, &o),
                      row);
}

static yoke_status
make_global_pool(yki_onnx_importer *im)
{
    const bool max = strcmp(im->node->op, "GlobalMaxPool") == 0;
    yoke_node *x, *y;
    bool row;

    YKI_TRY(get_image(im, &x, &row));
    if (max)
        y = yoke_maxpool2d(im->graph, x,
                           &(yoke_pool2d_options){.kernel = {x->shape.dim[1], x->shape.dim[2]}});
    else
        y = yoke_global_avgpool(im->graph, x);
    return yki_onnx_give(im, y ? yoke_reshape(im->graph, y,
                                              row ? yoke_shape(x->shape.dim[0], 1)
                                                  : yoke_shape(x->shape.dim[0], 1, 1))
                               : NULL);
}

/* Zeros, or another number, around an image or along any axes. */
static yoke_status
make_pad(yki_onnx_importer *im)
{
    const int64_t *pads, *axes;
    size_t count, axis_count;
    double value = 0;
    bool single = true;
    yoke_node *x;
    int32_t axis;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    YKI_TRY(yki_onnx_list(im, 1, NULL, &pads, &count));
    YKI_TRY(yki_onnx_list(im, 3, NULL, &axes, &axis_count));
    if (im->in_count > 2 && im->in[2])
        YKI_TRY(yki_onnx_single(im, im->in[2], &single, &value));
    if (!axes)
        axis_count = (size_t)x->shape.rank + x->batched;
    if (strcmp(yki_onnx_get_text(im, "mode", "constant"), "constant") != 0 || !single ||
        count != 2 * axis_count)
        return yki_onnx_refuse(im, "it is no padding with one number; must be, with two pads for "
                                   "each axis");
    for (size_t i = 0; i < count; i++) {
        const size_t k = i % axis_count;

        if (pads[i] < 0 || pads[i] > INT16_MAX)
            return yki_onnx_refuse(im, "a pad is %lld; must be between 0 and 32767",
                                   (long long)pads[i]);
        if (pads[i] == 0)
            continue;
        YKI_TRY(yki_onnx_node_axis(im, axes ? axes[k] : (int64_t)k, im->in[0], &axis));
        x = join_rows(im->graph, x, axis, pads[i], i < axis_count, (float)value);
        if (!x)
            return yki_onnx_refuse(im, "%s", im->graph->detail);
    }
    return yki_onnx_give(im, x);
}

/* ---- resizing ---- */

/* What input `index` says of the last two axes, of all axes or those alone; false: it is not there,
 * or is empty. */
static yoke_status
get_factors(yki_onnx_importer *im, size_t index, const yoke_node *x, double factor[2], bool *there)
{
    const yki_onnx_attr *axes = yki_onnx_get_attr(im, "axes");
    yki_onnx_item *item = index < im->in_count ? im->in[index] : NULL;
    const size_t all = axes ? axes->count : 4;
    int32_t axis;

    *there = false;
    if (!item)
        return YOKE_OK;
    YKI_TRY(yki_onnx_numbers(im, item));
    if (item->count == 0)
        return YOKE_OK;
    if ((size_t)item->count != all || item->is_float != (index == 2))
        return yki_onnx_refuse(im, "\"%s\" has %lld numbers; must have %zu, one for each axis",
                               item->name, (long long)item->count, all);
    for (size_t i = 0; i < all; i++) {
        double value;

        if (!axes && i == 0 && !item->is_float)
            continue; /* the size of the batch */
        if (!axes && i == 0) {
            value = (double)item->floats[i];
        } else {
            YKI_TRY(yki_onnx_node_axis(im, axes ? axes->ints[i] : (int64_t)i, im->in[0], &axis));
            value = item->is_float ? (double)item->floats[i]
                                   : (double)item->ints[i] / (double)x->shape.dim[axis];
            if (axis > 0) {
                factor[axis - 1] = value;
                continue;
            }
        }
        if (!(value >= 1 && value <= 1))
            return yki_onnx_refuse(im, "it resizes along the batch or the channels; must not");
    }
    *there = true;
    return YOKE_OK;
}

/* Whether what ONNX computes of whole factors is a block for each element, or lies between centres.
 */
static bool
is_upsampling(const yki_onnx_importer *im, bool linear)
{
    const char *place = yki_onnx_get_text(im, "coordinate_transformation_mode", "half_pixel");
    const char *round = yki_onnx_get_text(im, "nearest_mode", "round_prefer_floor");
    const bool centres =
        strcmp(place, "half_pixel") == 0 || strcmp(place, "pytorch_half_pixel") == 0;

    if (linear)
        return centres;
    return centres ? strncmp(round, "round_prefer_", 13) == 0
                   : strcmp(place, "asymmetric") == 0 && strcmp(round, "floor") == 0;
}

static yoke_status
make_resize(yki_onnx_importer *im)
{
    const char *mode = yki_onnx_get_text(im, "mode", "nearest");
    const bool linear = strcmp(mode, "linear") == 0;
    double factor[2] = {1, 1};
    int64_t whole[2];
    bool there;
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    if (x->shape.rank != 3)
        return yki_onnx_refuse(im, "a sample has %d axes; must be an image", x->shape.rank);
    if ((!linear && strcmp(mode, "nearest") != 0) || !is_upsampling(im, linear) ||
        strcmp(yki_onnx_get_text(im, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return yki_onnx_refuse(im, "it places or rounds pixels otherwise; must be nearest with "
                                   "asymmetric and floor, or nearest or linear with half_pixel");
    YKI_TRY(get_factors(im, 2, x, factor, &there));
    if (!there)
        YKI_TRY(get_factors(im, 3, x, factor, &there));
    if (!there)
        return yki_onnx_refuse(im, "it has neither scales nor sizes; must have one of both");
    for (size_t i = 0; i < 2; i++) {
        if (!(factor[i] >= 1 && factor[i] <= 64) || factor[i] != (double)(int64_t)factor[i])
            return yki_onnx_refuse(im, "its factor is %g; must be a whole number between 1 and 64",
                                   factor[i]);
        whole[i] = (int64_t)factor[i];
        if (linear) /* the matrix that interpolates along an axis */
            YKI_TRY(yki_onnx_check_room(im, whole[i] * x->shape.dim[i + 1] * x->shape.dim[i + 1]));
    }
    return yki_onnx_give(im, yoke_upsample2d(im->graph, x, whole[0], whole[1], linear));
}

/* ---- norms ---- */

/* Checks that input `index` is a constant of `count` floats, and gives them. */
static yoke_status
get_part(yki_onnx_importer *im, size_t index, int64_t count, float **values)
{
    yki_onnx_item *item = im->in[index];

    YKI_TRY(yki_onnx_numbers(im, item));
    if (!item->is_float || item->count != count)
        return yki_onnx_refuse(im, "\"%s\" has %lld elements; must have %lld floats", item->name,
                               (long long)item->count, (long long)count);
    *values = item->floats;
    return YOKE_OK;
}

static yoke_status
make_batch_norm(yki_onnx_importer *im)
{
    static const char *const parts[] = {"weight", "bias", "running_mean", "running_var"};
    yoke_batch_norm_options o = {.epsilon = yki_onnx_get_float(im, "epsilon", 1e-5f),
                                 .momentum = 1 - yki_onnx_get_float(im, "momentum", 0.9f)};
    float *values[4];
    yoke_node *x;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    if (x->shape.rank == 0)
        return yki_onnx_refuse(im, "a sample has no axes; must have channels");
    for (size_t i = 0; i < 4; i++)
        YKI_TRY(get_part(im, i + 1, x->shape.dim[0], &values[i]));
    if (o.momentum > 0.0999f && o.momentum < 0.1001f)
        o.momentum = 0.1f;
    o.name = yki_onnx_layer_name(im, im->in[1]);
    if (!o.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_onnx_give(im, yoke_batch_norm(im->graph, x, &o)));
    for (size_t i = 0; i < 4; i++)
        YKI_TRY(yki_onnx_set_part(im, o.name, parts[i], values[i]));
    return YOKE_OK;
}

/* Multiplies by a constant, unless it is left out, and adds another. */
static yoke_status
give_affine(yki_onnx_importer *im, yoke_node *y, size_t scale, size_t bias)
{
    yoke_node *factor, *term;

    if (!y)
        return yki_onnx_give(im, y);
    YKI_TRY(yki_onnx_operand(im, im->in[scale], y, &factor));
    y = yoke_mul(im->graph, y, factor);
    if (y && bias < im->in_count && im->in[bias]) {
        YKI_TRY(yki_onnx_operand(im, im->in[bias], y, &term));
        y = yoke_add(im->graph, y, term);
    }
    return yki_onnx_give(im, y);
}

static yoke_status
make_layer_norm(yki_onnx_importer *im)
{
    yoke_layer_norm_options o = {.epsilon = yki_onnx_get_float(im, "epsilon", 1e-5f)};
    const bool bias = im->in_count > 2 && im->in[2];
    float *values[2];
    int64_t count = 1;
    yoke_node *x;
    int32_t axis;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    YKI_TRY(yki_onnx_node_axis(im, yki_onnx_get_int(im, "axis", -1), im->in[0], &axis));
    o.axes = x->shape.rank - axis;
    for (int32_t i = axis; i < x->shape.rank; i++)
        count *= x->shape.dim[i];
    if (!bias || im->in[1]->parameter || im->in[2]->parameter) {
        o.no_affine = true;
        return give_affine(im, yoke_layer_norm(im->graph, x, &o), 1, 2);
    }
    for (size_t i = 0; i < 2; i++)
        YKI_TRY(get_part(im, i + 1, count, &values[i]));
    o.name = yki_onnx_layer_name(im, im->in[1]);
    if (!o.name)
        return YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_onnx_give(im, yoke_layer_norm(im->graph, x, &o)));
    YKI_TRY(yki_onnx_set_part(im, o.name, "weight", values[0]));
    return yki_onnx_set_part(im, o.name, "bias", values[1]);
}

/* Each channel of each sample by itself; scale and bias have a number for each channel. */
static yoke_status
make_instance_norm(yki_onnx_importer *im)
{
    yoke_layer_norm_options o = {.epsilon = yki_onnx_get_float(im, "epsilon", 1e-5f),
                                 .no_affine = true};
    yoke_node *x, *part;
    yoke_shape shape;

    YKI_TRY(yki_onnx_node_of(im, im->in[0], &x));
    o.axes = x->shape.rank - 1;
    if (o.axes < 1)
        return yki_onnx_refuse(im, "a sample has no axes behind its channels; must have");
    shape = x->shape;
    for (int32_t i = 1; i < shape.rank; i++)
        shape.dim[i] = 1;
    x = yoke_layer_norm(im->graph, x, &o);
    for (size_t i = 1; x && i < 3; i++) {
        YKI_TRY(yki_onnx_node_of(im, im->in[i], &part));
        part = yoke_reshape(im->graph, part, shape);
        x = i == 1 ? yoke_mul(im->graph, x, part) : yoke_add(im->graph, x, part);
    }
    return yki_onnx_give(im, x);
}

const yki_onnx_row yki_onnx_layers[] = {
    {"Conv", 2, 3, make_conv, NULL},
    {"ConvTranspose", 2, 3, make_conv_transpose, NULL},
    {"MaxPool", 1, 1, make_pool, NULL},
    {"AveragePool", 1, 1, make_pool, NULL},
    {"GlobalAveragePool", 1, 1, make_global_pool, NULL},
    {"GlobalMaxPool", 1, 1, make_global_pool, NULL},
    {"Pad", 2, 4, make_pad, NULL},
    {"Resize", 1, 4, make_resize, NULL},
    {"BatchNormalization", 5, 5, make_batch_norm, NULL},
    {"LayerNormalization", 2, 3, make_layer_norm, NULL},
    {"InstanceNormalization", 3, 3, make_instance_norm, NULL},
    {NULL, 0, 0, NULL, NULL},
};
