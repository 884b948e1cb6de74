/* SPDX-License-Identifier: Apache-2.0
 *
 * feed.cl - writes rows of a dataset into an input: taken by sample number,
 * converted, scaled and, in training, flipped, shifted and made noisy.
 *
 * `from` holds rows of the dataset: either all of them, so that the row number is the
 * sample's, or (identity) those of this batch in its order. Random numbers are
 * functions of seed, epoch and sample number. All arithmetic is on integers, or float
 * operations that can be rounded in one way only, so every device gets the same bits.
 *
 * A task is up to CHUNK elements of a row, or of a row of pixels.
 */
#ifndef WG
#define WG 1
#endif

#define GROUP __kernel YKI_GROUP(WG, 1)

enum { CHUNK = 256 };

#define INTEGER(x) convert_int(x)
#define BYTE(x) (x)
#define SCALED(x) ((convert_float(x) - mean) * scale)

#if WG == 1
#define COPY(TO, MANY)                                                                        \
    int i = 0;                                                                                \
                                                                                              \
    for (; i + 16 <= length; i += 16)                                                         \
        vstore16(MANY(vload16(0, in + i)), 0, to + i);                                        \
    for (; i < length; i++)                                                                   \
        to[i] = TO(in[i]);
#define INTEGERS(x) convert_int16(x)
#define SCALEDS(x) ((convert_float16(x) - mean) * scale)
#else
#define COPY(TO, MANY)                                                                        \
    for (int i = (int)get_local_id(0); i < length; i += WG)                                   \
        to[i] = TO(in[i]);
#endif

/* A sample has `rows` rows of `width` elements each. scaling: `means` means, then as many
 * scales. If there are several, each row is a channel. */
#define FEED(NAME, FROM, DEST, TO, MANY)                                                      \
    GROUP void NAME(__global const FROM *from, ulong first, __global const long *indices,     \
                    __global DEST *out, __global const float *scaling, int means, int n,      \
                    int identity, int rows, int width)                                        \
    {                                                                                         \
        long chunks = (width + CHUNK - 1) / CHUNK, tasks = (long)n * rows * chunks;           \
        long groups = get_num_groups(0), group = get_group_id(0);                             \
        long begin = tasks * group / groups, end = tasks * (group + 1) / groups;              \
                                                                                              \
        for (long task = begin; task < end; task++) {                                         \
            long row = task / chunks, sample = row / rows; /* no %: see shape.cl */           \
            int chunk = (int)(task - row * chunks), channel = (int)(row - sample * rows);     \
            int at = chunk * CHUNK, length = min((int)CHUNK, width - at);                     \
            long number = identity ? sample : indices[sample];                                \
            float mean = scaling[means > 1 ? channel : 0];                                    \
            float scale = scaling[means > 1 ? means + channel : means];                       \
            __global const FROM *in = from + first + (number * rows + channel) * width + at;  \
            __global DEST *to = out + row * width + at;                                       \
                                                                                              \
            COPY(TO, MANY)                                                                    \
        }                                                                                     \
    }

FEED(yki_feed_u8_f32, uchar, float, SCALED, SCALEDS)
FEED(yki_feed_f32_f32, float, float, SCALED, SCALEDS)
FEED(yki_feed_i32_f32, int, float, SCALED, SCALEDS)
FEED(yki_feed_u8_i32, uchar, int, INTEGER, INTEGERS)
FEED(yki_feed_i32_i32, int, int, INTEGER, INTEGERS)
FEED(yki_feed_u8_u8, uchar, uchar, BYTE, BYTE)

/* The same with a mean and a scale for each of the `width` columns of a table; rows is 1. */
#define FEED_COLUMNS(NAME, FROM)                                                              \
    GROUP void NAME(__global const FROM *from, ulong first, __global const long *indices,     \
                    __global float *out, __global const float *scaling, int means, int n,     \
                    int identity, int rows, int width)                                        \
    {                                                                                         \
        long chunks = (width + CHUNK - 1) / CHUNK, tasks = (long)n * chunks;                  \
        long groups = get_num_groups(0), group = get_group_id(0);                             \
        long begin = tasks * group / groups, end = tasks * (group + 1) / groups;              \
                                                                                              \
        for (long task = begin; task < end; task++) {                                         \
            long sample = task / chunks;                                                      \
            int at = (int)(task - sample * chunks) * CHUNK;                                   \
            int length = min((int)CHUNK, width - at), i = (int)get_local_id(0);               \
            long number = identity ? sample : indices[sample];                                \
            __global const FROM *in = from + first + number * width + at;                     \
            __global const float *mean = scaling + at, *scale = scaling + means + at;         \
            __global float *to = out + sample * width + at;                                   \
                                                                                              \
            for (; WG == 1 && i + 16 <= length; i += 16)                                      \
                vstore16((convert_float16(vload16(0, in + i)) - vload16(0, mean + i)) *       \
                             vload16(0, scale + i),                                           \
                         0, to + i);                                                          \
            for (; i < length; i += WG)                                                       \
                to[i] = (convert_float(in[i]) - mean[i]) * scale[i];                          \
        }                                                                                     \
    }

FEED_COLUMNS(yki_feed_columns_u8_f32, uchar)
FEED_COLUMNS(yki_feed_columns_f32_f32, float)

/* ---- images that are moved ---- */

/* Where pixel (0, 0) of the result is in the image, and whether the image is mirrored: x, y,
 * flip. The position is not below -shift, and not above the free room + shift. `shifted` of 2^24
 * samples are shifted, chosen by a random word of its own; for the others shift is 0. */
int4 place(long sample, uint epoch, uint seed, int room_y, int room_x, int flip, int shift,
           int shifted, int training)
{
    uint c0 = 0xFFFFFFFFu, c1 = (uint)sample, c2 = (uint)((ulong)sample >> 32), c3 = epoch;
    uint range_y, range_x;

    if (!training)
        return (int4)(room_x / 2, room_y / 2, 0, 0);
    YKI_PHILOX(uint, ulong, c0, c1, c2, c3, seed, 0x66656564u); /* "feed" */
    shift = (int)(c3 >> 8) < shifted ? shift : 0;
    range_y = (uint)(room_y + 2 * shift + 1);
    range_x = (uint)(room_x + 2 * shift + 1);
    return (int4)((int)(((ulong)c1 * range_x) >> 32) - shift,
                  (int)(((ulong)c2 * range_y) >> 32) - shift, flip ? (int)(c0 >> 31) : 0, 0);
}

/* Nearly normal numbers from -2040 to 2040: the sum of 16 random bytes, minus its mean. For
 * element `first` and those that follow, one in each lane. U, L, I, F: vectors of uint, ulong,
 * int, float. */
#define BYTES(w) (((w) & 255u) + ((w) >> 8 & 255u) + ((w) >> 16 & 255u) + ((w) >> 24))
#define NORMAL(NAME, U, L, I, F)                                                              \
    F NAME(U element, long sample, uint epoch, uint seed)                                     \
    {                                                                                         \
        U c0 = element, c1 = (U)((uint)sample), c2 = (U)((uint)((ulong)sample >> 32));        \
        U c3 = (U)(epoch);                                                                    \
                                                                                              \
        YKI_PHILOX(U, L, c0, c1, c2, c3, seed, 0x6E6F6973u); /* "nois" */                     \
        return YKI_PASTE(convert_, F)(                                                        \
            YKI_PASTE(convert_, I)(BYTES(c0) + BYTES(c1) + BYTES(c2) + BYTES(c3)) - 2040);    \
    }
NORMAL(normal, uint, ulong, int, float)
NORMAL(normal8, uint8, ulong8, int8, float8)

__constant uint lanes8[8] = {0, 1, 2, 3, 4, 5, 6, 7};

/* A row of the result. `in` is where its first pixel would be in the row of the image, of which
 * [low, high) is inside. Pixels outside are 0 before scaling. */
#define MOVED_ROW(NAME, FROM)                                                                 \
    void NAME(__global const FROM *from, long begins, __global float *to, int w, int low,     \
              int high, int flip, float mean, float scale, float noise, uint element,         \
              long sample, uint epoch, uint seed)                                             \
    {                                                                                         \
        int i = (int)get_local_id(0);                                                         \
                                                                                              \
        for (; WG == 1 && i + 8 <= w; i += 8) {                                               \
            int x = flip ? w - 8 - i : i;                                                     \
            float8 value = (float8)(0.f);                                                     \
                                                                                              \
            if (x >= low && x + 8 <= high)                                                    \
                value = convert_float8(vload8(0, from + begins + x));                         \
            else if (x + 8 > low && x < high) {                                               \
                float part[8];                                                                \
                                                                                              \
                for (int k = 0; k < 8; k++)                                                   \
                    part[k] = x + k >= low && x + k < high ?                                  \
                                  convert_float(from[begins + x + k]) : 0.f;                  \
                value = vload8(0, part);                                                      \
            }                                                                                 \
            value = ((flip ? value.s76543210 : value) - mean) * scale;                        \
            if (noise != 0.f)                                                                 \
                value = YKI_EXACT_FMA(normal8(element + (uint)i + vload8(0, lanes8), sample,  \
                                              epoch, seed), (float8)(noise), value);          \
            vstore8(value, 0, to + i);                                                        \
        }                                                                                     \
        for (; i < w; i += WG) {                                                              \
            int x = flip ? w - 1 - i : i;                                                     \
            float value = x >= low && x < high ? convert_float(from[begins + x]) : 0.f;       \
                                                                                              \
            value = (value - mean) * scale;                                                   \
            if (noise != 0.f)                                                                 \
                value = YKI_EXACT_FMA(normal(element + (uint)i, sample, epoch, seed), noise,  \
                                      value);                                                 \
            to[i] = value;                                                                    \
        }                                                                                     \
    }
MOVED_ROW(row_u8, uchar)
MOVED_ROW(row_f32, float)

/* (channels, in_h, in_w) to (channels, h, w). `noise` scales what normal() gives. */
#define MOVED(NAME, ROW, FROM)                                                                \
    GROUP void NAME(__global const FROM *from, ulong first, __global const long *indices,     \
                    __global float *out, __global const float *scaling, int means, int n,     \
                    int identity, int channels, int in_h, int in_w, int h, int w,             \
                    int training, int flip, int shift, int shifted, float noise, uint seed,   \
                    uint epoch)                                                               \
    {                                                                                         \
        long tasks = (long)n * channels * h, placed = -1, number = 0;                         \
        long groups = get_num_groups(0), group = get_group_id(0);                             \
        long begin = tasks * group / groups, end = tasks * (group + 1) / groups;              \
        int4 at = (int4)(0);                                                                  \
                                                                                              \
        for (long task = begin; task < end; task++) {                                         \
            long plane = task / h, sample = plane / channels;                                 \
            int row = (int)(task - plane * h), channel = (int)(plane - sample * channels);    \
            float mean = scaling[means > 1 ? channel : 0];                                    \
            float scale = scaling[means > 1 ? means + channel : means];                       \
            bool inside;                                                                      \
            int y;                                                                            \
                                                                                              \
            if (sample != placed) {                                                           \
                number = indices[sample];                                                     \
                at = place(number, epoch, seed, in_h - h, in_w - w, flip, shift, shifted,     \
                           training);                                                         \
                placed = sample;                                                              \
            }                                                                                 \
            y = row + at.y;                                                                   \
            inside = y >= 0 && y < in_h;                                                      \
            ROW(from,                                                                         \
                (long)first +                                                                 \
                    (((identity ? sample : number) * channels + channel) * in_h + y) * in_w + \
                    at.x,                                                                     \
                out + task * w, w, inside ? -at.x : w, inside ? in_w - at.x : w, at.z, mean,  \
                scale, noise, (uint)((channel * h + row) * w), number, epoch, seed);          \
        }                                                                                     \
    }

MOVED(yki_feed_moved_u8_f32, row_u8, uchar)
MOVED(yki_feed_moved_f32_f32, row_f32, float)
