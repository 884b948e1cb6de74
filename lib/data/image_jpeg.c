/* SPDX-License-Identifier: Apache-2.0
 *
 * image_jpeg.c - JPEG, baseline or progressive, by libjpeg-turbo.
 *
 * Grays stay gray, all else becomes red, green and blue; CMYK too, without a colour profile. The
 * orientation that a camera notes is not applied. libjpeg goes on after most damage, with a
 * warning; here such an image is refused. It leaves by longjmp where it finds an error, so what it
 * and this file allocate is in a struct of the function that called setjmp.
 */
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "data/image.h"

#ifdef YOKE_HAVE_JPEG
#include <jpeglib.h>

#include <jerror.h>

/* A real progressive image has about ten scans; each costs the time of a whole image. */
enum { MOST_SCANS = 100 };

typedef struct decoder {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    struct jpeg_decompress_struct jpeg;
    jmp_buf jump;
    yki_image *image;
    yki_resize *resize;
    unsigned char *row;
    yoke_status status; /* of what failed outside libjpeg */
    char why[JMSG_LENGTH_MAX];
} decoder;

static void
on_error(j_common_ptr jpeg)
{
    decoder *d = jpeg->client_data;

    jpeg->err->format_message(jpeg, d->why);
    longjmp(d->jump, 1);
}

/* What an image that is whole may have, too. */
static bool
harmless(int code)
{
    return code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM || code == JWRN_JFIF_MAJOR;
}

static void
on_message(j_common_ptr jpeg, int level)
{
    if (level < 0 && !harmless(jpeg->err->msg_code))
        on_error(jpeg);
}

static void
on_output(j_common_ptr jpeg)
{
    (void)jpeg;
}

static void
on_progress(j_common_ptr jpeg)
{
    decoder *d = jpeg->client_data;

    if (d->jpeg.input_scan_number <= MOST_SCANS)
        return;
    snprintf(d->why, sizeof d->why, "it has more than %d scans", MOST_SCANS);
    longjmp(d->jump, 1);
}

static yoke_status
read_header(decoder *d)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;

    jpeg_mem_src(jpeg, (unsigned char *)d->image->data, (unsigned long)d->image->size);
    jpeg_read_header(jpeg, TRUE);
    YKI_TRY(yki_image_check(d->image, jpeg->image_width, jpeg->image_height));
    d->image->width = jpeg->image_width;
    d->image->height = jpeg->image_height;
    if (jpeg->num_components != 1 && jpeg->num_components != 3 && jpeg->num_components != 4)
        return yki_fail(YOKE_ERROR_FORMAT, "%s has %d channels; must have 1, 3 or 4",
                        d->image->name, jpeg->num_components);
    d->image->channels = jpeg->num_components == 1 ? 1 : 3;
    jpeg->out_color_space = jpeg->num_components == 1   ? JCS_GRAYSCALE
                            : jpeg->num_components == 3 ? JCS_RGB
                                                        : JCS_CMYK;
    return YOKE_OK;
}

/* Makes a row of CMYK one of RGB, in place. Adobe's programs store all four inverted. */
static void
drop_black(uint8_t *row, uint32_t columns, bool inverted)
{
    for (uint32_t i = 0; i < columns; i++) {
        const unsigned flip = inverted ? 0 : 255, black = row[4 * i + 3] ^ flip;

        for (uint32_t c = 0; c < 3; c++)
            row[3 * i + c] = (uint8_t)(((row[4 * i + c] ^ flip) * black + 127) / 255);
    }
}

static yoke_status
read_pixels(decoder *d)
{
    struct jpeg_decompress_struct *jpeg = &d->jpeg;

    YKI_TRY(yki_resize_begin(d->resize, d->image));
    d->row = yki_alloc(d->image->width, (size_t)jpeg->num_components, "pixels of an image");
    if (!d->row)
        return YOKE_ERROR_OUT_OF_MEMORY;
    jpeg->progress = &d->progress;
    jpeg_start_decompress(jpeg);
    for (uint32_t y = 0; y < d->image->height; y++) {
        jpeg_read_scanlines(jpeg, &d->row, 1);
        if (jpeg->out_color_space == JCS_CMYK)
            drop_black(d->row, d->image->width, jpeg->saw_Adobe_marker);
        yki_resize_row(d->resize, d->row);
    }
    jpeg_finish_decompress(jpeg);
    return YOKE_OK;
}

/* All that libjpeg may leave by longjmp. */
static bool
guarded(decoder *d)
{
    if (setjmp(d->jump))
        return false;
    jpeg_create_decompress(&d->jpeg);
    d->status = read_header(d);
    if (d->status == YOKE_OK && d->resize)
        d->status = read_pixels(d);
    return true;
}

yoke_status
yki_jpeg_decode(yki_image *image, yki_resize *resize)
{
    decoder d = {.image = image, .resize = resize};
    bool returned;

    d.jpeg.err = jpeg_std_error(&d.errors);
    d.jpeg.client_data = &d;
    d.errors.error_exit = on_error;
    d.errors.emit_message = on_message;
    d.errors.output_message = on_output;
    d.progress.progress_monitor = on_progress;
    returned = guarded(&d);
    jpeg_destroy_decompress(&d.jpeg);
    yki_free(d.row);
    if (returned)
        return d.status;
    if (d.errors.msg_code == JERR_OUT_OF_MEMORY)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "decoding %s: %s", image->name, d.why);
    return yki_image_fail(image, d.why);
}

#else

yoke_status
yki_jpeg_decode(yki_image *image, yki_resize *resize)
{
    (void)resize;
    return yki_fail(YOKE_ERROR_UNSUPPORTED,
                    "%s is a JPEG, which this build of yoke cannot read; build it with "
                    "libjpeg-turbo",
                    image->name);
}

#endif
