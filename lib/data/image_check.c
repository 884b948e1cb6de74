/* SPDX-License-Identifier: Apache-2.0
 *
 * image_check.c - what holds for images of every format: how large they may be, and how damage is
 * told.
 */
#include "data/image.h"

yoke_status
yki_image_fail(const yki_image *image, const char *why)
{
    return yki_fail(YOKE_ERROR_FORMAT, "%s is damaged: %s", image->name, why);
}

yoke_status
yki_image_check(const yki_image *image, uint64_t width, uint64_t height)
{
    if (width < 1 || height < 1)
        return yki_image_fail(image, "it has no pixels");
    if (width > YKI_IMAGE_MOST_SIDE || height > YKI_IMAGE_MOST_SIDE ||
        width * height > YKI_IMAGE_MOST_PIXELS)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has %llu x %llu pixels; must have at most %d, and at most %d a side",
                        image->name, (unsigned long long)width, (unsigned long long)height,
                        YKI_IMAGE_MOST_PIXELS, YKI_IMAGE_MOST_SIDE);
    return YOKE_OK;
}
