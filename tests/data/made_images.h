/* SPDX-License-Identifier: Apache-2.0
 *
 * made_images.h - for tests of images: writes PNG and JPEG files by libpng and libjpeg.
 */
#ifndef TESTS_MADE_IMAGES_H
#define TESTS_MADE_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"

#if defined(YOKE_HAVE_PNG) && defined(YOKE_HAVE_JPEG)
#define MADE_IMAGES 1

#include <stdio.h>

#include <jpeglib.h>
#include <png.h>

typedef struct made_png {
    uint32_t width, height;
    int depth, color; /* bits; PNG_COLOR_TYPE_ */
    bool interlaced;
    const uint8_t *pixels; /* rows of whole bytes */
    const png_color *palette;
    int palette_size;
} made_png;
void make_png(const char *path, const made_png *image);

typedef struct made_jpeg {
    uint32_t width, height;
    int channels;
    J_COLOR_SPACE from, to;
    bool progressive;
    const uint8_t *pixels;
} made_jpeg;
void make_jpeg(const char *path, const made_jpeg *image);
#endif

#endif
