/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_image.c - the bytes of an image: a refusal has a sentence that names the file, and what is
 * decoded becomes a sample. Decoders of a build that lacks them refuse each file.
 */
#include <stdlib.h>

#include "data/image.h"
#include "fuzz/fuzz.h"

enum { SIDE = 8, CHANNELS = 3, MOST = 1 << 22 /* pixels that are decoded */ };

int
fuzz_image(const uint8_t *data, size_t size)
{
    yki_resize resize = {.height = SIDE, .width = SIDE, .channels = CHANNELS};
    yki_image image = {.name = "input", .data = data, .size = size};
    uint8_t out[CHANNELS * SIDE * SIDE];
    yoke_status status = yki_image_decode(&image, NULL);

    if (status == YOKE_OK) {
        require(image.width > 0 && image.height > 0 && image.width <= YKI_IMAGE_MOST_SIDE &&
                    image.height <= YKI_IMAGE_MOST_SIDE &&
                    (uint64_t)image.width * image.height <= YKI_IMAGE_MOST_PIXELS,
                "a size that is too large");
        require(image.channels == 1 || image.channels == 3, "other channels");
        if ((uint64_t)image.width * image.height > MOST)
            return 0;
        status = yki_image_decode(&image, &resize);
    }
    if (status == YOKE_OK)
        yki_resize_end(&resize, out);
    else
        check_refusal(status);
    yki_resize_clear(&resize);
    return 0;
}
