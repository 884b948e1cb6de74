/* SPDX-License-Identifier: Apache-2.0
 *
 * maps.c - models of images whose result has the height and width of the image: unet and
 * autoencoder. Each size is halved, rounded up or down, as long as it can be, and comes back
 * exactly.
 */
#include <stdio.h>

#include "zoo/zoo.h"

enum { LEVELS = 4, NAME = 48, HALVES = 2, CODE = 32 };

/* Two 3x3 convolutions with a batch norm and relu each, with the names of a Sequential. */
static yoke_node *
double_conv(yoke_graph *g, yoke_node *x, int64_t filters, const char *name)
{
    char part[NAME];

    for (int i = 0; i < 2; i++) {
        snprintf(part, sizeof part, "%s.double_conv.%d", name, 3 * i);
        x = yki_zoo_conv(g, x, filters, 3, 1, 1, part);
        snprintf(part, sizeof part, "%s.double_conv.%d", name, 3 * i + 1);
        x = yoke_relu(g, yki_zoo_norm(g, x, part));
    }
    return x;
}

/* How often an image can be halved and have two rows and columns left, at most LEVELS times. */
static int
levels_of(yoke_shape image)
{
    const int64_t least = YKI_MIN(image.dim[1], image.dim[2]);
    int levels = 0;

    while (levels < LEVELS && least >> (levels + 1) >= 2)
        levels++;
    return levels;
}

/* U-Net, with a batch norm after each convolution, and padding: down to a sixteenth of the size,
 * with twice the maps each time, and up again, joined by what had the same size. An image of less
 * than 32 rows or columns has fewer levels. Names are those of the reference in PyTorch. */
yoke_node *
yki_zoo_unet(yoke_graph *g, yoke_node *x, int64_t outputs, int64_t width)
{
    const int levels = levels_of(yoke_node_shape(x));
    const yoke_pool2d_options half = yki_zoo_window(2);
    yoke_node *kept[LEVELS + 1];
    char name[NAME];

    kept[0] = x = double_conv(g, x, width, "inc");
    for (int i = 1; i <= levels; i++) {
        snprintf(name, sizeof name, "down%d.maxpool_conv.1", i);
        kept[i] = x = double_conv(g, yoke_maxpool2d(g, x, &half), width << i, name);
    }
    for (int i = levels - 1; i >= 0; i--) {
        snprintf(name, sizeof name, "up%d.up", levels - i);
        x = yki_zoo_enlarge(g, x, width << i, 2, yoke_node_shape(kept[i]), name);
        snprintf(name, sizeof name, "up%d.conv", levels - i);
        x = double_conv(g, yoke_concat(g, (yoke_node *[]){kept[i], x}, 2, 0), width << i, name);
    }
    return yki_zoo_conv_bias(g, x, outputs, 1, 1, 0, "outc.conv");
}

/* Two convolutions that halve the image, a code of 32 numbers for each sample, which is the output
 * "code", and the same backwards. */
yoke_node *
yki_zoo_autoencoder(yoke_graph *g, yoke_node *x, int64_t outputs, int64_t width)
{
    yoke_shape shapes[HALVES + 1] = {yoke_node_shape(x)};
    const int64_t *inside = shapes[HALVES].dim;
    char name[NAME];

    for (int i = 0; i < HALVES; i++) {
        snprintf(name, sizeof name, "encoder.conv%d", i + 1);
        x = yoke_relu(g, yki_zoo_conv_bias(g, x, width << i, 3, 2, 1, name));
        shapes[i + 1] = yoke_node_shape(x);
    }
    x = yki_zoo_dense(g, yoke_flatten(g, x), CODE, "encoder.fc");
    yoke_graph_set_output(g, "code", x);
    x = yoke_relu(g, yki_zoo_dense(g, x, inside[0] * inside[1] * inside[2], "decoder.fc"));
    x = yoke_reshape(g, x, shapes[HALVES]);
    for (int i = HALVES - 1; i > 0; i--) {
        snprintf(name, sizeof name, "decoder.conv%d", HALVES - i);
        x = yoke_relu(g, yki_zoo_enlarge(g, x, width << (i - 1), 3, shapes[i], name));
    }
    snprintf(name, sizeof name, "decoder.conv%d", HALVES);
    return yki_zoo_enlarge(g, x, outputs, 3, shapes[0], name);
}
