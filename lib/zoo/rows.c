/* SPDX-License-Identifier: Apache-2.0
 *
 * rows.c - the table of the built-in models, and what options they take.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/near.h"
#include "zoo/zoo.h"

enum { MOST_SIZE = 1 << 16, MOST_COUNT = 1 << 24 };

#define IMAGE(c, side) .input = {3, 0, {c, side, side}}, .classes = 10
#define TEXT(length, layer_count, head_count, columns, most, tokens)                               \
    .kind = YOKE_ZOO_TEXTS, .input = {1, 0, {length}}, .layers = layer_count, .heads = head_count, \
    .width = columns, .context = most, .vocabulary = tokens

const yki_zoo_row yki_zoo_rows[] = {
    {{"tiny", "10-32-1, regression", .input = {1, 0, {10}}}, .layers = yki_zoo_tiny},
    {{"mlp", "784-128-10", .input = {1, 0, {784}}, .classes = 10}, .layers = yki_zoo_mlp},
    {{"simplecnn", "one convolution and a dense layer", YOKE_ZOO_IMAGES, IMAGE(1, 28)},
     .layers = yki_zoo_simplecnn},
    {{"lenet", "two convolutions, two dense layers", YOKE_ZOO_IMAGES, IMAGE(1, 28)},
     .layers = yki_zoo_lenet},
    {{"resnet18", "ResNet-18", YOKE_ZOO_IMAGES, IMAGE(3, 32)}, .layers = yki_zoo_resnet18},
    {{"resnet34", "ResNet-34", YOKE_ZOO_IMAGES, IMAGE(3, 32)}, .layers = yki_zoo_resnet34},
    {{"resnet50", "ResNet-50", YOKE_ZOO_IMAGES, IMAGE(3, 32)}, .layers = yki_zoo_resnet50},
    {{"mobilenet", "MobileNetV2", YOKE_ZOO_IMAGES, IMAGE(3, 32)}, .layers = yki_zoo_mobilenet},
    {{"unet", "U-Net, a class for each pixel", YOKE_ZOO_PIXELS, .input = {3, 0, {3, 64, 64}},
      .classes = 2, .width = 64},
     .maps = yki_zoo_unet},
    {{"autoencoder", "images through a code of 32 numbers", YOKE_ZOO_COPIES,
      .input = {3, 0, {1, 28, 28}}, .width = 16},
     .maps = yki_zoo_autoencoder},
    {{"gpt", "a small GPT of 128 bytes", TEXT(128, 4, 4, 128, 128, 256)}, .language = yki_zoo_gpt},
    {{"char", "a GPT of characters, 10.7 M parameters", TEXT(256, 6, 6, 384, 256, 65)},
     .language = yki_zoo_gpt},
    {{"gpt2", "GPT-2, 124 M parameters", TEXT(64, 12, 12, 768, 1024, 50304)},
     .language = yki_zoo_gpt},
    {{"llama", "a small Llama of 128 bytes", TEXT(128, 4, 4, 128, 128, 256), .shared = 2,
      .inner = 384},
     .language = yki_zoo_llama},
    {.layers = NULL},
};

const yoke_zoo_model *
yoke_zoo_get(size_t index)
{
    for (size_t i = 0; yki_zoo_rows[i].about.name; i++)
        if (i == index)
            return &yki_zoo_rows[i].about;
    return NULL;
}

const yki_zoo_row *
yki_zoo_find(const char *name)
{
    const yki_zoo_row *row = yki_zoo_rows;
    yki_near near;

    while (row->about.name && strcmp(row->about.name, name) != 0)
        row++;
    if (row->about.name)
        return row;
    yki_near_start(&near, name);
    for (row = yki_zoo_rows; row->about.name; row++)
        yki_near_offer(&near, row->about.name);
    yki_fail(YOKE_ERROR_NOT_FOUND,
             "there is no built-in model \"%.80s\"; must be one that yoke_zoo_get() lists%s", name,
             yki_near_hint(&near));
    return NULL;
}

/* ---- options ---- */

/* A size that a model has or does not have. */
typedef struct size_rule {
    const char *name;
    int64_t *given, own, most;
} size_rule;

static yoke_status
complete_size(const char *model, const size_rule *rule)
{
    char what[80];

    if (*rule->given != 0 && rule->own == 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s has no such size: %s", model, rule->name);
    if (*rule->given == 0)
        *rule->given = rule->own;
    else if (*rule->given < 1 || *rule->given > rule->most) {
        snprintf(what, sizeof what, "%s: %s", model, rule->name);
        return yki_fail_range(YOKE_ERROR_INVALID_ARGUMENT, what, *rule->given, 1, rule->most);
    }
    return YOKE_OK;
}

static yoke_status
complete_sizes(const yoke_zoo_model *m, yoke_zoo_options *o)
{
    const size_rule rules[] = {
        {"classes", &o->classes, m->kind == YOKE_ZOO_ROWS && !m->classes ? 1 : m->classes,
         MOST_COUNT},
        {"width", &o->width, m->width, MOST_SIZE},
        {"layers", &o->layers, m->layers, MOST_SIZE},
        {"heads", &o->heads, m->heads, MOST_SIZE},
        {"shared", &o->shared, m->shared, MOST_SIZE},
        {"inner", &o->inner, m->inner, MOST_COUNT},
        {"context", &o->context, m->context, MOST_COUNT},
        {"vocabulary", &o->vocabulary, m->vocabulary, MOST_COUNT},
    };

    for (size_t i = 0; i < YKI_COUNT(rules); i++)
        YKI_TRY(complete_size(m->name, &rules[i]));
    return YOKE_OK;
}

static yoke_status
check_text(const yoke_zoo_model *m, const yoke_zoo_options *o)
{
    char what[80];

    if (o->input.rank != 1)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s is for texts, rows of tokens; these samples have %d axes", m->name,
                        (int)o->input.rank);
    if (o->input.dim[0] > o->context)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "a sample has %lld tokens; must have at most %lld, the context",
                        (long long)o->input.dim[0], (long long)o->context);
    if (o->width % o->heads != 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the width is %lld; must be a multiple of the %lld heads",
                        (long long)o->width, (long long)o->heads);
    if (o->shared && o->heads % o->shared != 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "the heads are %lld; must be a multiple of the %lld shared ones",
                        (long long)o->heads, (long long)o->shared);
    snprintf(what, sizeof what, "%s: dropout", m->name);
    if (!(o->dropout >= 0 && o->dropout < 1))
        return yki_fail_range_below(YOKE_ERROR_INVALID_ARGUMENT, what, (double)o->dropout, 0, 1);
    return YOKE_OK;
}

/* Samples of two axes are images of one channel. */
static yoke_status
check_image(const yoke_zoo_model *m, yoke_zoo_options *o)
{
    if (o->input.rank == 2)
        o->input = yoke_shape(1, o->input.dim[0], o->input.dim[1]);
    if (o->input.rank != 3)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s is for images, (channels, height, width); these samples have %d ax%s; "
                        "take tiny or mlp",
                        m->name, (int)o->input.rank, o->input.rank == 1 ? "is" : "es");
    if (m->kind == YOKE_ZOO_COPIES && (o->target.rank > 0 || o->target_name))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s predicts its input: it has no target",
                        m->name);
    return YOKE_OK;
}

/* A target of maps has the height and width of the image. */
static bool
fits_image(yoke_shape target, yoke_shape image)
{
    const int64_t *size = target.rank == 3 ? target.dim + 1 : target.dim;

    return (target.rank == 2 || target.rank == 3) && size[0] == image.dim[1] &&
           size[1] == image.dim[2];
}

static yoke_status
check_target(const yoke_zoo_model *m, const yoke_zoo_options *o)
{
    int64_t values = 1;

    if (o->target.rank < 0 || o->target.rank >= YOKE_MAX_RANK)
        return yki_fail_range(YOKE_ERROR_SHAPE, "the rank of the target", o->target.rank, 0,
                              YOKE_MAX_RANK - 1);
    for (int32_t i = 0; i < o->target.rank; i++) {
        if (o->target.dim[i] < 1 || o->target.dim[i] > MOST_COUNT / values)
            return yki_fail(YOKE_ERROR_SHAPE, "%s: the target must have from 1 to %d values",
                            m->name, (int)MOST_COUNT);
        values *= o->target.dim[i];
    }
    if (m->kind == YOKE_ZOO_PIXELS && o->target.rank > 0 && !fits_image(o->target, o->input))
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s: the target must be maps of %lld rows and %lld columns, as the image",
                        m->name, (long long)o->input.dim[1], (long long)o->input.dim[2]);
    return YOKE_OK;
}

static yoke_status
check_spread(const yoke_zoo_model *m, const yoke_zoo_options *o)
{
    if (o->spread_count == 0)
        return YOKE_OK;
    if (o->target.rank == 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s predicts no values: mean and deviation are not for it", m->name);
    if (!o->mean || !o->deviation)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s: mean or deviation is NULL", m->name);
    if (o->spread_count != 1 &&
        (o->spread_count != (size_t)o->target.dim[0] || o->spread_count > YKI_ZOO_MOST_SPREAD))
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: there are %zu means; must be one, or one for each of %lld values, at "
                        "most %d",
                        m->name, o->spread_count, (long long)o->target.dim[0],
                        (int)YKI_ZOO_MOST_SPREAD);
    for (size_t i = 0; i < o->spread_count; i++)
        if (!isfinite(o->mean[i]) || !(o->deviation[i] > 0) || !isfinite(o->deviation[i]))
            return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                            "%s: mean %zu is %g and deviation %g; must be finite, and the "
                            "deviation above 0",
                            m->name, i, (double)o->mean[i], (double)o->deviation[i]);
    return YOKE_OK;
}

/* Shapes that are given or, if not, the model's. */
static void
complete_shapes(const yoke_zoo_model *m, yoke_zoo_options *o)
{
    if (o->input.rank == 0 && o->context > 0)
        o->input = yoke_shape(o->context);
    else if (o->input.rank == 0)
        o->input = m->input;
    if (m->classes == 0 && o->classes == 0 && m->kind == YOKE_ZOO_ROWS && o->target.rank == 0)
        o->target = yoke_shape(1);
}

yoke_status
yki_zoo_complete(const yki_zoo_row *row, yoke_zoo_options *o)
{
    const yoke_zoo_model *m = &row->about;

    if (o->target.rank > 0 && o->classes != 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s: a target of values and classes are given; must be one of both",
                        m->name);
    if (m->kind == YOKE_ZOO_TEXTS && o->target.rank > 0)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "%s predicts tokens, and no values", m->name);
    complete_shapes(m, o);
    YKI_TRY(complete_sizes(m, o));
    if (m->kind == YOKE_ZOO_TEXTS)
        YKI_TRY(check_text(m, o));
    else if (o->dropout != 0 || o->epsilon != 0 || o->base != 0 || o->tied)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT,
                        "%s is no language model: dropout, epsilon, base and tied are not for it",
                        m->name);
    else if (m->kind != YOKE_ZOO_ROWS)
        YKI_TRY(check_image(m, o));
    YKI_TRY(check_target(m, o));
    YKI_TRY(check_spread(m, o));
    if (!o->input_name)
        o->input_name = m->kind == YOKE_ZOO_TEXTS ? "tokens" : "image";
    if (!o->target_name)
        o->target_name = m->kind == YOKE_ZOO_TEXTS ? "next"
                         : o->target.rank > 0      ? "value"
                                                   : "label";
    return YOKE_OK;
}
