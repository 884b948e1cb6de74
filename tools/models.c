/* SPDX-License-Identifier: Apache-2.0
 *
 * models.c - the built-in models: tiny, mlp, simplecnn, lenet, resnet18, resnet34,
 * resnet50 and mobilenet, which adapt to the shape of the data and to the number of
 * classes, and the table of all of them. Language models are in language.c.
 */
#include <stdio.h>
#include <string.h>

#include "models.h"

enum { LARGE_IMAGE = 112 };

static yoke_node *
dense(yoke_graph *g, yoke_node *x, int64_t units, const char *name)
{
    yoke_dense_options o;

    memset(&o, 0, sizeof o);
    o.units = units;
    o.name = name;
    return yoke_dense(g, x, &o);
}

static yoke_node *
conv(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride, int64_t pad,
     bool bias, const char *name)
{
    yoke_conv2d_options o;

    memset(&o, 0, sizeof o);
    o.filters = filters;
    o.kernel[0] = o.kernel[1] = size;
    o.stride[0] = o.stride[1] = stride;
    o.pad[0] = o.pad[1] = pad;
    o.no_bias = !bias;
    o.name = name;
    return yoke_conv2d(g, x, &o);
}

/* 3x3, each channel by itself. */
static yoke_node *
depthwise(yoke_graph *g, yoke_node *x, int64_t stride, const char *name)
{
    yoke_conv2d_options o;

    memset(&o, 0, sizeof o);
    o.filters = o.groups = yoke_node_shape(x).dim[0];
    o.kernel[0] = o.kernel[1] = 3;
    o.stride[0] = o.stride[1] = stride;
    o.pad[0] = o.pad[1] = 1;
    o.no_bias = true;
    o.name = name;
    return yoke_conv2d(g, x, &o);
}

static yoke_node *
norm(yoke_graph *g, yoke_node *x, const char *name)
{
    yoke_batch_norm_options o;

    memset(&o, 0, sizeof o);
    o.name = name;
    return yoke_batch_norm(g, x, &o);
}

static yoke_pool2d_options
window(int64_t size)
{
    yoke_pool2d_options o;

    memset(&o, 0, sizeof o);
    o.kernel[0] = o.kernel[1] = size;
    return o;
}

static yoke_node *
build_tiny(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    x = yoke_relu(g, dense(g, yoke_flatten(g, x), 32, "fc1"));
    return dense(g, x, outputs, "fc2");
}

static yoke_node *
build_mlp(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    x = yoke_relu(g, dense(g, yoke_flatten(g, x), 128, "fc1"));
    return dense(g, x, outputs, "fc2");
}

static yoke_node *
build_simplecnn(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    yoke_pool2d_options pool = window(2);

    x = yoke_maxpool2d(g, yoke_relu(g, conv(g, x, 32, 3, 1, 1, true, "conv1")), &pool);
    return dense(g, yoke_flatten(g, x), outputs, "fc1");
}

/* If images are too small for a second convolution of 5x5, it is 3x3 and both have padding. */
static yoke_node *
build_lenet(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    yoke_shape shape = yoke_node_shape(x);
    bool small = shape.dim[1] < 16 || shape.dim[2] < 16;
    yoke_pool2d_options pool = window(2);

    x = yoke_relu(g, conv(g, x, 20, 3, 1, small ? 1 : 0, true, "conv1"));
    x = yoke_avgpool2d(g, x, &pool);
    x = yoke_relu(g, conv(g, x, 50, small ? 3 : 5, 1, small ? 1 : 0, true, "conv2"));
    x = yoke_avgpool2d(g, x, &pool);
    x = yoke_relu(g, dense(g, yoke_flatten(g, x), 128, "fc1"));
    return dense(g, x, outputs, "fc2");
}

/* The position of a residual block: its layer, from 1, and its number in the layer, from 0. */
typedef struct place {
    int layer, block;
} place;

/* A convolution with its batch norm. Names are those of torchvision, such as layer1.0.conv2 and
 * layer1.0.bn2. */
static yoke_node *
conv_norm(yoke_graph *g, yoke_node *x, int64_t filters, int64_t size, int64_t stride, place at,
          int number)
{
    char name[2][40];

    snprintf(name[0], sizeof name[0], "layer%d.%d.conv%d", at.layer, at.block, number);
    snprintf(name[1], sizeof name[1], "layer%d.%d.bn%d", at.layer, at.block, number);
    return norm(g, conv(g, x, filters, size, stride, size / 2, false, name[0]), name[1]);
}

/* The input of a block, which is added to its result; it is projected if the shapes differ. */
static yoke_node *
shortcut(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, place at)
{
    char name[2][40];

    if (stride == 1 && yoke_node_shape(x).dim[0] == filters)
        return x;
    snprintf(name[0], sizeof name[0], "layer%d.%d.downsample.0", at.layer, at.block);
    snprintf(name[1], sizeof name[1], "layer%d.%d.downsample.1", at.layer, at.block);
    return norm(g, conv(g, x, filters, 1, stride, 0, false, name[0]), name[1]);
}

/* Two 3x3 convolutions. */
static yoke_node *
basic_block(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, place at)
{
    yoke_node *y = yoke_relu(g, conv_norm(g, x, filters, 3, stride, at, 1));

    y = conv_norm(g, y, filters, 3, 1, at, 2);
    return yoke_relu(g, yoke_add(g, y, shortcut(g, x, filters, stride, at)));
}

/* 1x1, 3x3 on a quarter of the channels, 1x1. */
static yoke_node *
bottleneck(yoke_graph *g, yoke_node *x, int64_t filters, int64_t stride, place at)
{
    yoke_node *y = yoke_relu(g, conv_norm(g, x, filters, 1, 1, at, 1));

    y = yoke_relu(g, conv_norm(g, y, filters, 3, stride, at, 2));
    y = conv_norm(g, y, 4 * filters, 1, 1, at, 3);
    return yoke_relu(g, yoke_add(g, y, shortcut(g, x, 4 * filters, stride, at)));
}

typedef yoke_node *(*residual_block)(yoke_graph *, yoke_node *, int64_t filters, int64_t stride,
                                     place at);

static bool
is_small(const yoke_node *x)
{
    yoke_shape shape = yoke_node_shape(x);

    return shape.dim[1] < LARGE_IMAGE || shape.dim[2] < LARGE_IMAGE;
}

/* For small images the stem is 3x3 with stride 1 and no pooling; for large ones it is
 * torchvision's. */
static yoke_node *
stem(yoke_graph *g, yoke_node *x)
{
    yoke_pool2d_options pool = window(3);

    if (is_small(x))
        return yoke_relu(g, norm(g, conv(g, x, 64, 3, 1, 1, false, "conv1"), "bn1"));
    pool.stride[0] = pool.stride[1] = 2;
    pool.pad[0] = pool.pad[1] = 1;
    x = yoke_relu(g, norm(g, conv(g, x, 64, 7, 2, 3, false, "conv1"), "bn1"));
    return yoke_maxpool2d(g, x, &pool);
}

static yoke_node *
build_resnet(yoke_graph *g, yoke_node *x, int64_t outputs, residual_block add_block,
             const int *blocks)
{
    x = stem(g, x);
    for (place at = {.layer = 1}; at.layer <= 4; at.layer++)
        for (at.block = 0; at.block < blocks[at.layer - 1]; at.block++)
            x = add_block(g, x, (int64_t)32 << at.layer, at.layer > 1 && at.block == 0 ? 2 : 1, at);
    return dense(g, yoke_global_avgpool(g, x), outputs, "fc");
}

static yoke_node *
build_resnet18(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    static const int blocks[4] = {2, 2, 2, 2};

    return build_resnet(g, x, outputs, basic_block, blocks);
}

static const int deep_blocks[4] = {3, 4, 6, 3};

static yoke_node *
build_resnet34(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    return build_resnet(g, x, outputs, basic_block, deep_blocks);
}

static yoke_node *
build_resnet50(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    return build_resnet(g, x, outputs, bottleneck, deep_blocks);
}

/* The names of a part of an inverted residual, a convolution and its batch norm. Those that relu
 * follows are a layer of two, as in torchvision. */
typedef struct mobile_names {
    char conv[40], norm[40];
} mobile_names;

static mobile_names
name_part(int block, int part, bool with_relu)
{
    mobile_names n;

    snprintf(n.conv, sizeof n.conv, "features.%d.conv.%d%s", block, part, with_relu ? ".0" : "");
    if (with_relu)
        snprintf(n.norm, sizeof n.norm, "features.%d.conv.%d.1", block, part);
    else
        snprintf(n.norm, sizeof n.norm, "features.%d.conv.%d", block, part + 1);
    return n;
}

/* 1x1 to `expansion` times the channels, 3x3 depthwise, 1x1 without relu. */
static yoke_node *
inverted_residual(yoke_graph *g, yoke_node *x, int64_t filters, int64_t expansion, int64_t stride,
                  int block)
{
    int64_t channels = yoke_node_shape(x).dim[0];
    mobile_names n = name_part(block, 0, true);
    yoke_node *y = x;
    int part = 0;

    if (expansion > 1) {
        y = conv(g, y, expansion * channels, 1, 1, 0, false, n.conv);
        y = yoke_relu(g, norm(g, y, n.norm));
        n = name_part(block, ++part, true);
    }
    y = yoke_relu(g, norm(g, depthwise(g, y, stride, n.conv), n.norm));
    n = name_part(block, ++part, false);
    y = norm(g, conv(g, y, filters, 1, 1, 0, false, n.conv), n.norm);
    return stride == 1 && filters == channels ? yoke_add(g, x, y) : y;
}

/* MobileNetV2, with relu instead of relu6. For small images the first two strides are 1. */
static yoke_node *
build_mobilenet(yoke_graph *g, yoke_node *x, int64_t outputs)
{
    static const struct {
        int64_t expansion, filters, blocks, stride;
    } stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                  {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
    bool small = is_small(x);
    int block = 1;

    x = conv(g, x, 32, 3, small ? 1 : 2, 1, false, "features.0.0");
    x = yoke_relu(g, norm(g, x, "features.0.1"));
    for (size_t s = 0; s < sizeof stages / sizeof *stages; s++)
        for (int64_t i = 0; i < stages[s].blocks; i++)
            x = inverted_residual(g, x, stages[s].filters, stages[s].expansion,
                                  i > 0 || (small && s == 1) ? 1 : stages[s].stride, block++);
    x = conv(g, x, 1280, 1, 1, 0, false, "features.18.0");
    x = yoke_relu(g, norm(g, x, "features.18.1"));
    return dense(g, yoke_global_avgpool(g, x), outputs, "classifier.1");
}

static yoke_optimizer
adam(void)
{
    return yoke_adam(1e-3f);
}

static yoke_optimizer
sgd(void)
{
    return yoke_sgd(0.05f, 0.9f);
}

static yoke_optimizer
adamw(void)
{
    return yoke_adamw(3e-4f, 0.1f);
}

#define SHAPE1(a)                                                                                  \
    {                                                                                              \
        1, 0,                                                                                      \
        {                                                                                          \
            a, 0, 0, 0, 0, 0, 0, 0                                                                 \
        }                                                                                          \
    }
#define SHAPE3(a, b, c)                                                                            \
    {                                                                                              \
        3, 0,                                                                                      \
        {                                                                                          \
            a, b, c, 0, 0, 0, 0, 0                                                                 \
        }                                                                                          \
    }

const yki_tool_model yki_tool_models[] = {
    {"tiny", "10-32-1, regression", SHAPE1(10), 0, adam, 32, false, build_tiny, NULL, {0}},
    {"mlp", "784-128-10", SHAPE1(784), 10, adam, 64, false, build_mlp, NULL, {0}},
    {"simplecnn",
     "one convolution and a dense layer",
     SHAPE3(1, 28, 28),
     10,
     adam,
     64,
     true,
     build_simplecnn,
     NULL,
     {0}},
    {"lenet",
     "two convolutions, two dense layers",
     SHAPE3(1, 28, 28),
     10,
     sgd,
     256,
     true,
     build_lenet,
     NULL,
     {0}},
    {"resnet18", "ResNet-18", SHAPE3(3, 32, 32), 10, sgd, 64, true, build_resnet18, NULL, {0}},
    {"resnet34", "ResNet-34", SHAPE3(3, 32, 32), 10, sgd, 64, true, build_resnet34, NULL, {0}},
    {"resnet50", "ResNet-50", SHAPE3(3, 32, 32), 10, sgd, 32, true, build_resnet50, NULL, {0}},
    {"mobilenet", "MobileNetV2", SHAPE3(3, 32, 32), 10, sgd, 64, true, build_mobilenet, NULL, {0}},
    {"gpt",
     "a small GPT of 128 bytes",
     SHAPE1(128),
     256,
     adamw,
     8,
     false,
     NULL,
     yki_tool_build_gpt,
     {4, 4, 128, 128, 256, 0, 0, 0, 0, false, 0}},
    {"char",
     "a GPT of characters, 10.7 M parameters",
     SHAPE1(256),
     65,
     adamw,
     16,
     false,
     NULL,
     yki_tool_build_gpt,
     {6, 6, 384, 256, 65, 0, 0, 0, 0, false, 0}},
    {"gpt2",
     "GPT-2, 124 M parameters",
     SHAPE1(64),
     50304,
     adamw,
     4,
     false,
     NULL,
     yki_tool_build_gpt,
     {12, 12, 768, 1024, 50304, 0, 0, 0, 0, false, 0}},
    {"llama",
     "a small Llama of 128 bytes",
     SHAPE1(128),
     256,
     adamw,
     8,
     false,
     NULL,
     yki_tool_build_llama,
     {4, 4, 128, 128, 256, 2, 384, 0, 0, false, 0}},
    {NULL, NULL, SHAPE1(1), 0, NULL, 0, false, NULL, NULL, {0}},
};

const yki_tool_model *
yki_tool_find_model(const char *name)
{
    for (const yki_tool_model *model = yki_tool_models; model->name; model++)
        if (strcmp(model->name, name) == 0)
            return model;
    return NULL;
}

const char *
yki_tool_near_model(const char *name, yki_near *near)
{
    yki_near_start(near, name);
    for (const yki_tool_model *model = yki_tool_models; model->name; model++)
        yki_near_offer(near, model->name);
    return yki_near_hint(near);
}

bool
yki_tool_sizes_given(const yki_tool_sizes *s)
{
    return s->layers || s->heads || s->width || s->context || s->vocabulary || s->shared ||
           s->inner || s->dropout > 0;
}

bool
yki_tool_size_model(const yki_tool_model *model, const yki_tool_sizes *sizes, unsigned length,
                    yki_tool_model *copy, char why[TOOL_MODEL_WHY])
{
    yki_tool_sizes *own = &copy->sizes;

    *copy = *model;
    if (!model->language) {
        snprintf(why, TOOL_MODEL_WHY, "%s is no language model: it has no such sizes", model->name);
        return false;
    }
    own->layers = sizes->layers ? sizes->layers : own->layers;
    own->heads = sizes->heads ? sizes->heads : own->heads;
    own->width = sizes->width ? sizes->width : own->width;
    own->context = sizes->context ? sizes->context : own->context;
    own->vocabulary = sizes->vocabulary ? sizes->vocabulary : own->vocabulary;
    own->shared = sizes->shared ? sizes->shared : own->shared;
    own->inner = sizes->inner ? sizes->inner : own->inner;
    own->dropout = sizes->dropout > 0 ? sizes->dropout : own->dropout;
    copy->classes = own->vocabulary;
    copy->input.dim[0] = length ? length : sizes->context ? sizes->context : copy->input.dim[0];
    if (own->width % own->heads != 0) {
        snprintf(why, TOOL_MODEL_WHY, "the width is %u; must be a multiple of the %u heads",
                 own->width, own->heads);
        return false;
    }
    if (own->shared && own->heads % own->shared != 0) {
        snprintf(why, TOOL_MODEL_WHY, "the heads are %u; must be a multiple of the %u shared ones",
                 own->heads, own->shared);
        return false;
    }
    if (length > own->context) {
        snprintf(why, TOOL_MODEL_WHY, "a sample has %u tokens; must have at most %u, the context",
                 length, own->context);
        return false;
    }
    return true;
}

/* Samples of two axes are images of one channel. False: the model cannot take the samples. */
static bool
fit_input(const yki_tool_model *model, yoke_shape *input)
{
    if (!model->image || input->rank == 3)
        return true;
    if (input->rank != 2)
        return false;
    *input = yoke_shape(1, input->dim[0], input->dim[1]);
    return true;
}

static yoke_status
no_image(const yki_tool_model *model, yoke_shape shape)
{
    char sentence[200];

    snprintf(sentence, sizeof sentence,
             "%s is for images, (channels, height, width); these samples have %d ax%s; "
             "take tiny or mlp",
             model->name, (int)shape.rank, shape.rank == 1 ? "is" : "es");
    return yoke_fail(YOKE_ERROR_SHAPE, sentence);
}

/* x * factor + offset, with one pair for all or, if count > 1, one for each index of axis 0. */
static yoke_node *
rescale(yoke_graph *g, yoke_node *x, int64_t count, const float *factor, const float *offset)
{
    yoke_node *parts[TOOL_MAX_PARTS];

    if (count == 1)
        return yoke_scale(g, x, factor[0], offset[0]);
    for (int64_t i = 0; i < count; i++)
        parts[i] = yoke_scale(g, yoke_slice(g, x, 0, i, i + 1), factor[i], offset[i]);
    return yoke_concat(g, parts, (size_t)count, 0);
}

/* The target with mean 0 and deviation 1. */
static yoke_node *
standardise(yoke_graph *g, yoke_node *target, const yki_tool_spread *s)
{
    float factor[TOOL_MAX_PARTS], offset[TOOL_MAX_PARTS];

    for (int64_t i = 0; i < s->count; i++) {
        factor[i] = 1 / s->deviation[i];
        offset[i] = -s->mean[i] / s->deviation[i];
    }
    return rescale(g, target, s->count, factor, offset);
}

/* 1 minus the mean squared error, where the target has variance 1: 1 at best, and 0 for a model
 * that always predicts the mean. */
static yoke_node *
r2(yoke_graph *g, yoke_node *y, yoke_node *target)
{
    yoke_node *error = yoke_sub(g, y, target);

    error = yoke_flatten(g, yoke_mul(g, error, error));
    return yoke_scale(g, yoke_mean(g, error, NULL, 0), -1, 1);
}

static void
add_values_loss(yoke_graph *g, yoke_node *y, const yki_tool_fit *fit)
{
    const yki_tool_spread *s = &fit->spread;
    yoke_node *target = yoke_target(g, fit->target_name, YOKE_F32, fit->target), *wanted = target;
    yoke_node *prediction;

    if (fit->target.rank != 1)
        y = yoke_reshape(g, y, fit->target);
    prediction = y;
    if (s->count > 0) {
        wanted = standardise(g, target, s);
        prediction = rescale(g, y, s->count, s->deviation, s->mean);
    }
    yoke_graph_set_output(g, "prediction", prediction);
    yoke_graph_set_loss(g, yoke_mean_squared_error(g, y, wanted, NULL));
    if (s->count > 0)
        yoke_graph_add_metric(g, "r2", r2(g, y, wanted));
    yoke_graph_add_metric(g, "absolute_error", yoke_mean_absolute_error(g, prediction, target));
}

/* Adds output, loss and metrics after the last layer. */
static void
add_loss(yoke_graph *g, yoke_node *y, const yki_tool_fit *fit)
{
    yoke_node *target;

    if (fit->classes > 0) {
        target = yoke_target(g, fit->target_name, YOKE_I32, yoke_shape());
        yoke_graph_set_output(g, "logits", y);
        yoke_graph_set_loss(g, yoke_softmax_cross_entropy(g, y, target, NULL));
        yoke_graph_add_metric(g, "accuracy", yoke_accuracy(g, y, target));
        return;
    }
    add_values_loss(g, y, fit);
}

/* Builds a model of images or rows in the graph. */
static yoke_status
fit_samples(const yki_tool_model *model, const yki_tool_fit *fit, yoke_graph *g)
{
    yoke_shape input = fit->input;
    int64_t outputs = fit->classes;
    yoke_node *x;

    if (!fit_input(model, &input))
        return no_image(model, input);
    if (outputs == 0) {
        outputs = 1;
        for (int32_t i = 0; i < fit->target.rank; i++)
            outputs *= fit->target.dim[i];
    }
    x = yoke_input(g, fit->input_name, YOKE_F32, input);
    add_loss(g, model->build(g, x, outputs), fit);
    return yoke_graph_status(g);
}

/* Builds a language model in the graph. */
static yoke_status
fit_tokens(const yki_tool_model *model, const yki_tool_fit *fit, yoke_graph *g)
{
    const unsigned length = (unsigned)fit->input.dim[0];
    yki_tool_model sized;
    char why[TOOL_MODEL_WHY], sentence[TOOL_MODEL_WHY + 64];

    if (fit->input.rank != 1) {
        snprintf(sentence, sizeof sentence,
                 "%s is for texts, rows of tokens; these samples have %d axes", model->name,
                 (int)fit->input.rank);
        return yoke_fail(YOKE_ERROR_SHAPE, sentence);
    }
    if (!yki_tool_size_model(model, &(yki_tool_sizes){.vocabulary = (unsigned)fit->classes}, length,
                             &sized, why))
        return yoke_fail(YOKE_ERROR_SHAPE, why);
    model->language(g, &sized.sizes, length, fit->input_name, fit->target_name);
    return yoke_graph_status(g);
}

yoke_status
yki_tool_fit_model(const yki_tool_model *model, const yki_tool_fit *fit, yoke_graph **out)
{
    yoke_graph *g;
    yoke_status status = yoke_graph_create(&g);

    if (status)
        return status;
    status = model->language ? fit_tokens(model, fit, g) : fit_samples(model, fit, g);
    if (status) {
        yoke_graph_destroy(g);
        return status;
    }
    *out = g;
    return YOKE_OK;
}

/* ---- data ---- */

size_t
yki_tool_model_values(const yki_tool_model *model)
{
    size_t count = 1;

    for (int32_t i = 0; i < model->input.rank; i++)
        count *= (size_t)model->input.dim[i];
    return count;
}

size_t
yki_tool_target_values(const yki_tool_model *model)
{
    return model->language ? (size_t)model->input.dim[0] : 1;
}

static uint32_t
next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Labels or tokens below `classes`. */
static void
random_integers(uint32_t *state, int64_t classes, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        int32_t value = (int32_t)(next_random(state) % classes);

        memcpy((char *)out + 4 * i, &value, 4);
    }
}

static void
random_floats(uint32_t *state, float offset, size_t count, void *out)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)next_random(state) / 16777216.f + offset;

        memcpy((char *)out + 4 * i, &value, 4);
    }
}

void
yki_tool_random_batch(const yki_tool_model *model, int64_t n, uint32_t state, void *input,
                      void *target)
{
    size_t values = yki_tool_model_values(model) * (size_t)n;
    size_t targets = yki_tool_target_values(model) * (size_t)n;

    if (model->language)
        random_integers(&state, model->classes, values, input);
    else
        random_floats(&state, -0.5f, values, input);
    if (model->classes)
        random_integers(&state, model->classes, targets, target);
    else
        random_floats(&state, 0, targets, target);
}

void
yki_tool_batch_feeds(const yki_tool_model *model, int64_t n, const void *input, const void *target,
                     yoke_feed feeds[2])
{
    int64_t values = (int64_t)yki_tool_model_values(model) * n;
    int64_t targets = (int64_t)yki_tool_target_values(model) * n;

    if (model->language) {
        feeds[0] = yoke_feed_i32("tokens", input, values);
        feeds[1] = yoke_feed_i32("next", target, targets);
        return;
    }
    feeds[0] = yoke_feed_f32("image", input, values);
    feeds[1] = model->classes ? yoke_feed_i32("label", target, targets)
                              : yoke_feed_f32("value", target, targets);
}

yoke_status
yki_tool_build_model(const yki_tool_model *model, yoke_shape input, int64_t classes,
                     yoke_graph **out)
{
    yki_tool_fit fit = {.input_name = model->language ? "tokens" : "image", .target = {1, 0, {1}}};

    fit.input = input.rank == 0 ? model->input : input;
    fit.classes = classes < 0 ? model->classes : classes;
    fit.target_name = model->language ? "next" : fit.classes > 0 ? "label" : "value";
    return yki_tool_fit_model(model, &fit, out);
}
