/* SPDX-License-Identifier: Apache-2.0
 *
 * image_resize.c - makes a sample of a given size of an image: the shorter side is resized to fit,
 * and the middle of the longer one is kept.
 *
 * One pixel of the result is s by s pixels of the image, where s = num / den is the smaller of
 * width / width and height / height. Pixel j of an axis stands for the pixels from (j + offset) s
 * to (j + offset + 1) s, with a whole offset, so an image of the right size is copied. If s is at
 * least 1, the result is their mean, weighted by how much of each is covered; else it is
 * interpolated between the two whose centres are next to its own. Weights are whole numbers, and so
 * are sums, which are divided once, rounded to the nearest: every machine gets the same bytes.
 *
 * Rows come one at a time, so an image needs no more memory than a row and the result.
 */
#include <string.h>

#include "data/image.h"

/* ---- axes ---- */

static uint64_t
common_divisor(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

/* Means: the weights are lengths, in parts of 1 / den of a pixel. */
static void
cover(yki_image_axis *axis, uint32_t out, uint64_t offset, uint64_t num, uint64_t den)
{
    size_t used = 0;

    axis->total = num;
    for (uint32_t j = 0; j < out; j++) {
        const uint64_t begin = (j + offset) * num, end = begin + num;
        yki_image_span *span = &axis->spans[j];

        *span = (yki_image_span){(uint32_t)(begin / den), 0, used};
        for (uint64_t p = span->first; p * den < end; p++, span->count++)
            axis->weights[used++] =
                (uint32_t)(YKI_MIN(end, (p + 1) * den) - YKI_MAX(begin, p * den));
    }
}

/* Interpolation: the weights are distances of centres, in parts of 1 / (2 den) of a pixel. */
static void
interpolate(yki_image_axis *axis, uint32_t in, uint32_t out, uint64_t offset, uint64_t num,
            uint64_t den)
{
    axis->total = 2 * den;
    for (uint32_t j = 0; j < out; j++) {
        const uint64_t centre = (2 * (j + offset) + 1) * num;
        uint64_t left = centre < den ? 0 : (centre - den) / (2 * den);
        uint64_t rest = centre < den ? 0 : (centre - den) % (2 * den);

        if (left >= in - 1) {
            left = in - 1;
            rest = 0;
        }
        axis->spans[j] = (yki_image_span){(uint32_t)left, rest ? 2 : 1, 2 * (size_t)j};
        axis->weights[2 * j] = (uint32_t)(2 * den - rest);
        axis->weights[2 * j + 1] = (uint32_t)rest;
    }
}

static yoke_status
make_axis(yki_image_axis *axis, uint32_t in, uint32_t out, uint64_t num, uint64_t den)
{
    static const char what[] = "resizing an image";
    const uint64_t offset = (in * den - out * num) / (2 * num);

    YKI_TRY(yki_grow((void **)&axis->spans, &axis->span_capacity, out, sizeof *axis->spans, what));
    YKI_TRY(yki_grow((void **)&axis->weights, &axis->weight_capacity, in + 2 * (size_t)out,
                     sizeof *axis->weights, what));
    if (num < den)
        interpolate(axis, in, out, offset, num, den);
    else
        cover(axis, out, offset, num, den);
    return YOKE_OK;
}

/* ---- rows ---- */

yoke_status
yki_resize_begin(yki_resize *r, const yki_image *image)
{
    static const char what[] = "resizing an image";
    const bool wide = (uint64_t)image->width * r->height > (uint64_t)image->height * r->width;
    uint64_t num = wide ? image->height : image->width, den = wide ? r->height : r->width;
    const uint64_t divisor = common_divisor(num, den);
    size_t sums;

    num /= divisor;
    den /= divisor;
    r->from = image->channels;
    r->shared = YKI_MIN(image->channels, r->channels);
    r->columns = image->width;
    r->row = r->open = 0;
    sums = (size_t)r->height * r->width * r->shared;
    YKI_TRY(make_axis(&r->x, image->width, r->width, num, den));
    YKI_TRY(make_axis(&r->y, image->height, r->height, num, den));
    YKI_TRY(yki_grow((void **)&r->gray, &r->gray_capacity, image->width, 1, what));
    YKI_TRY(yki_grow((void **)&r->line, &r->line_capacity, (size_t)r->width * r->shared,
                     sizeof *r->line, what));
    YKI_TRY(yki_grow((void **)&r->sums, &r->sum_capacity, sums, sizeof *r->sums, what));
    memset(r->sums, 0, sums * sizeof *r->sums);
    return YOKE_OK;
}

/* Rec. 601 luma. */
static void
make_gray(const uint8_t *row, uint32_t columns, uint8_t *gray)
{
    for (uint32_t i = 0; i < columns; i++)
        gray[i] =
            (uint8_t)((299u * row[3 * i] + 587u * row[3 * i + 1] + 114u * row[3 * i + 2] + 500u) /
                      1000u);
}

static void
resize_line(yki_resize *r, const uint8_t *row)
{
    const uint32_t channels = r->shared;

    for (uint32_t j = 0; j < r->width; j++) {
        const yki_image_span *span = &r->x.spans[j];
        const uint32_t *weights = r->x.weights + span->weights;

        for (uint32_t c = 0; c < channels; c++) {
            const uint8_t *from = row + (size_t)span->first * channels + c;
            uint32_t sum = 0;

            for (uint32_t k = 0; k < span->count; k++)
                sum += weights[k] * from[(size_t)k * channels];
            r->line[(size_t)j * channels + c] = sum;
        }
    }
}

void
yki_resize_row(yki_resize *r, const uint8_t *row)
{
    const yki_image_span *spans = r->y.spans;
    const size_t values = (size_t)r->width * r->shared;
    const uint32_t y = r->row++;

    while (r->open < r->height && spans[r->open].first + spans[r->open].count <= y)
        r->open++;
    if (r->open == r->height || spans[r->open].first > y)
        return;
    if (r->shared < r->from) {
        make_gray(row, r->columns, r->gray);
        row = r->gray;
    }
    resize_line(r, row);
    for (uint32_t j = r->open; j < r->height && spans[j].first <= y; j++) {
        const uint64_t weight = r->y.weights[spans[j].weights + (y - spans[j].first)];

        for (size_t i = 0; i < values; i++)
            r->sums[j * values + i] += weight * r->line[i];
    }
}

void
yki_resize_end(const yki_resize *r, uint8_t *out)
{
    const uint64_t total = r->x.total * r->y.total;
    const size_t plane = (size_t)r->height * r->width;

    for (uint32_t c = 0; c < r->channels; c++)
        for (size_t i = 0; i < plane; i++)
            out[c * plane + i] =
                (uint8_t)((r->sums[i * r->shared + c % r->shared] + total / 2) / total);
}

void
yki_resize_clear(yki_resize *r)
{
    yki_free(r->x.spans);
    yki_free(r->x.weights);
    yki_free(r->y.spans);
    yki_free(r->y.weights);
    yki_free(r->gray);
    yki_free(r->line);
    yki_free(r->sums);
    memset(r, 0, sizeof *r);
}
