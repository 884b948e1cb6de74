/* SPDX-License-Identifier: Apache-2.0
 *
 * board.c - files that TensorBoard shows.
 *
 * A file is a row of records: the length, the data, and a checksum of each. The data are a message
 * of Protocol Buffers, an Event, with the time, the step, and values with their tags. The numbers
 * of fields are those of TensorFlow's event.proto and summary.proto.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "data/dataset.h"
#include "data/image.h"
#include "data/wire.h"

enum { BINS = 30, MOST_FILES = 1000, MOST_SIDE = 16384, NAME = 96 };
/* Fields of Event, of the log of a session, of Summary.Value, of images and histograms. */
enum { WALL_TIME = 1, STEP = 2, FILE_VERSION = 3, SUMMARY = 5, SESSION = 7 };
enum { SESSION_STATUS = 1, SESSION_START = 1, SUMMARY_VALUE = 1 };
enum { TAG = 1, NUMBER = 2, IMAGE = 4, HISTOGRAM = 5 };
enum { HEIGHT = 1, WIDTH = 2, CHANNELS = 3, ENCODED = 4 };
enum { LEAST = 1, MOST = 2, COUNT = 3, SUM = 4, SQUARES = 5, LIMITS = 6, COUNTS = 7 };

struct yoke_board {
    FILE *file;
    char *path;
    int error; /* errno of the first failure; 0: none */
};

/* ---- records ---- */

static yoke_status
cannot_write(const char *path, int error)
{
    return yki_fail(YOKE_ERROR_IO, "%s cannot be written: %s", path, strerror(error));
}

static void
write_bytes(yoke_board *b, const void *data, size_t size)
{
    if (!b->error && fwrite(data, 1, size, b->file) != size)
        b->error = errno ? errno : EIO;
}

static void
write_word(yoke_board *b, uint64_t word, unsigned size)
{
    unsigned char bytes[8];

    yki_put_little_endian(bytes, word, size);
    write_bytes(b, bytes, size);
}

/* Checksums are turned, so that data with checksums in them have no simple ones. */
static uint32_t
masked(const void *data, size_t size)
{
    const uint32_t crc = yki_crc32c(data, size);

    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static yoke_status
write_record(yoke_board *b, yki_wire_out *event)
{
    unsigned char length[8];

    if (event->failed) {
        yki_wire_clear(event);
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "out of memory for a record of %s", b->path);
    }
    yki_put_little_endian(length, event->size, sizeof length);
    write_bytes(b, length, sizeof length);
    write_word(b, masked(length, sizeof length), 4);
    write_bytes(b, event->data, event->size);
    write_word(b, masked(event->data, event->size), 4);
    yki_wire_clear(event);
    return b->error ? cannot_write(b->path, b->error) : YOKE_OK;
}

static yki_wire_out
begin_event(int64_t step)
{
    yki_wire_out event = {0};
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    yki_wire_put_double(&event, WALL_TIME, (double)now.tv_sec + 1e-9 * (double)now.tv_nsec);
    yki_wire_put_int(&event, STEP, step);
    return event;
}

/* Writes an event with one value, which is cleared. */
static yoke_status
write_value(yoke_board *b, int64_t step, yki_wire_out *value)
{
    yki_wire_out event = begin_event(step), summary = {0};

    yki_wire_put_message(&summary, SUMMARY_VALUE, value);
    yki_wire_put_message(&event, SUMMARY, &summary);
    return write_record(b, &event);
}

/* ---- files ---- */

/* Makes the folder and those that it is in. */
static yoke_status
make_folder(const char *folder)
{
    char *path = yki_strdup(folder, "a folder's name");
    yoke_status status = path ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (char *at = path; status == YOKE_OK && *at; at++) {
        const bool ends = at[1] == '\0' || (at[1] == '/' && at[0] != '/');
        const char next = at[1];

        if (!ends)
            continue;
        at[1] = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            status =
                yki_fail(YOKE_ERROR_IO, "the folder %s cannot be made: %s", path, strerror(errno));
        at[1] = next;
    }
    yki_free(path);
    return status;
}

/* Opens a file of a name that is not there yet: TensorBoard takes the files of a folder in the
 * order of their names, which begin with the time. */
static yoke_status
open_file(yoke_board *b, const char *folder)
{
    const size_t size = strlen(folder) + NAME;

    b->path = yki_alloc(size, 1, "a file's name");
    if (!b->path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (int i = 0; i < MOST_FILES && !b->file; i++) {
        snprintf(b->path, size, "%s/events.out.tfevents.%010lld.%03d.%ld.yoke", folder,
                 (long long)time(NULL), i, (long)getpid());
        b->file = fopen(b->path, "wbx");
        if (!b->file && errno != EEXIST)
            break;
    }
    return b->file ? YOKE_OK : cannot_write(b->path, errno);
}

yoke_status
yoke_board_create(const char *folder, yoke_board **out)
{
    yki_wire_out event;
    yoke_board *b;
    yoke_status status;

    YKI_GIVEN("yoke_board_create", {"folder", folder}, {"board", out});
    if (!*folder)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_board_create: folder is empty");
    b = yki_alloc(1, sizeof *b, "a file for TensorBoard");
    if (!b)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = make_folder(folder);
    if (status == YOKE_OK)
        status = open_file(b, folder);
    if (status == YOKE_OK) {
        event = begin_event(0);
        yki_wire_put_text(&event, FILE_VERSION, "brain.Event:2");
        status = write_record(b, &event);
    }
    if (status == YOKE_OK)
        status = yoke_board_flush(b);
    if (status == YOKE_OK)
        *out = b;
    else
        yoke_board_destroy(b);
    return status;
}

void
yoke_board_destroy(yoke_board *b)
{
    if (!b)
        return;
    if (b->file)
        fclose(b->file);
    yki_free(b->path);
    yki_free(b);
}

yoke_status
yoke_board_flush(yoke_board *b)
{
    YKI_GIVEN("yoke_board_flush", {"board", b});
    if (fflush(b->file) != 0 && !b->error)
        b->error = errno;
    return b->error ? cannot_write(b->path, b->error) : YOKE_OK;
}

yoke_status
yoke_board_restart(yoke_board *b, int64_t step)
{
    yki_wire_out event, session = {0};

    YKI_GIVEN("yoke_board_restart", {"board", b});
    event = begin_event(step);
    yki_wire_put_int(&session, SESSION_STATUS, SESSION_START);
    yki_wire_put_message(&event, SESSION, &session);
    return write_record(b, &event);
}

/* ---- values ---- */

yoke_status
yoke_board_add_scalar(yoke_board *b, const char *tag, int64_t step, double number)
{
    yki_wire_out value = {0};

    YKI_GIVEN("yoke_board_add_scalar", {"board", b}, {"tag", tag});
    yki_wire_put_text(&value, TAG, tag);
    yki_wire_put_float(&value, NUMBER, (float)number);
    return write_value(b, step, &value);
}

/* Of the values that are finite. */
typedef struct histogram {
    double least, most, count, sum, squares;
    double counts[BINS];
} histogram;

static void
look_at(histogram *h, const float *values, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const double x = (double)values[i];

        if (!isfinite(x))
            continue;
        h->least = h->count == 0 || x < h->least ? x : h->least;
        h->most = h->count == 0 || x > h->most ? x : h->most;
        h->count++;
        h->sum += x;
        h->squares += x * x;
    }
}

static void
fill_bins(histogram *h, const float *values, int64_t count)
{
    const double width = (h->most - h->least) / BINS;

    for (int64_t i = 0; i < count; i++) {
        const double x = (double)values[i];

        if (isfinite(x))
            h->counts[width > 0 ? YKI_MIN((int)((x - h->least) / width), BINS - 1) : BINS - 1]++;
    }
}

yoke_status
yoke_board_add_histogram(yoke_board *b, const char *tag, int64_t step, const float *values,
                         int64_t count)
{
    yki_wire_out value = {0}, out = {0};
    double limits[BINS];
    histogram h = {0};

    YKI_GIVEN("yoke_board_add_histogram", {"board", b}, {"tag", tag}, {"values", values});
    look_at(&h, values, count);
    fill_bins(&h, values, count);
    for (int i = 0; i < BINS; i++)
        limits[i] = i == BINS - 1 ? h.most : h.least + (i + 1) * (h.most - h.least) / BINS;
    yki_wire_put_double(&out, LEAST, h.least);
    yki_wire_put_double(&out, MOST, h.most);
    yki_wire_put_double(&out, COUNT, h.count);
    yki_wire_put_double(&out, SUM, h.sum);
    yki_wire_put_double(&out, SQUARES, h.squares);
    yki_wire_put_doubles(&out, LIMITS, limits, BINS);
    yki_wire_put_doubles(&out, COUNTS, h.counts, BINS);
    yki_wire_put_text(&value, TAG, tag);
    yki_wire_put_message(&value, HISTOGRAM, &out);
    return write_value(b, step, &value);
}

/* (channels, height, width) to bytes (height, width, channels); NaN is black. */
static void
shade(const float *from, yoke_shape shape, float least, float most, uint8_t *to)
{
    const int64_t plane = shape.dim[1] * shape.dim[2], channels = shape.dim[0];
    const float scale = most > least ? 255 / (most - least) : 0;

    for (int64_t i = 0; i < plane; i++)
        for (int64_t c = 0; c < channels; c++) {
            const float x = (from[c * plane + i] - least) * scale;

            to[i * channels + c] = (uint8_t)(x >= 255 ? 255 : x > 0 ? x + 0.5f : 0);
        }
}

yoke_status
yoke_board_add_image(yoke_board *b, const char *tag, int64_t step, const float *pixels,
                     yoke_shape shape, float least, float most)
{
    yki_wire_out value = {0}, out = {0};
    const int64_t *dim = shape.dim;
    unsigned char *png = NULL;
    size_t size = 0;
    uint8_t *bytes;
    yoke_status status;

    YKI_GIVEN("yoke_board_add_image", {"board", b}, {"tag", tag}, {"pixels", pixels});
    if (shape.rank != 3 || (dim[0] != 1 && dim[0] != 3) || dim[1] < 1 || dim[2] < 1 ||
        dim[1] > MOST_SIDE || dim[2] > MOST_SIDE)
        return yki_fail(YOKE_ERROR_SHAPE,
                        "%s is no image for TensorBoard; must be (1 or 3, height, width), at most "
                        "%d each",
                        tag, (int)MOST_SIDE);
    bytes = yki_alloc((size_t)(dim[1] * dim[2]), (size_t)dim[0], "an image");
    if (!bytes)
        return YOKE_ERROR_OUT_OF_MEMORY;
    shade(pixels, shape, least, most, bytes);
    status =
        yki_png_encode(bytes, (uint32_t)dim[1], (uint32_t)dim[2], (uint32_t)dim[0], &png, &size);
    yki_free(bytes);
    if (status)
        return status;
    yki_wire_put_int(&out, HEIGHT, dim[1]);
    yki_wire_put_int(&out, WIDTH, dim[2]);
    yki_wire_put_int(&out, CHANNELS, dim[0]);
    yki_wire_put_bytes(&out, ENCODED, png, size);
    yki_free(png);
    yki_wire_put_text(&value, TAG, tag);
    yki_wire_put_message(&value, IMAGE, &out);
    return write_value(b, step, &value);
}
