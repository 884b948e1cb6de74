/* SPDX-License-Identifier: Apache-2.0
 *
 * bytes.c - bytes of a file or of memory; gzip is expanded.
 *
 * A plain file is read at the offset that is asked for (pread), so a process that needs a piece of
 * it reads only that piece. A compressed file can be read only from its start. So its first bytes
 * are expanded for a look at the header. Then all of it is expanded, into memory of the size that
 * the header gives, after a check that so few bytes can become so many (deflate does not exceed
 * 1032 to 1).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "data/files.h"

enum { PIECE = 1 << 16, MOST_EXPANSION = 1032, GZIP = 16 };

struct yki_bytes {
    atomic_int references;
    char *name;
    int file; /* -1: memory */
    const unsigned char *memory;
    uint64_t stored;
    bool compressed;
    unsigned char *expanded; /* owned */
    uint64_t size;           /* of the file, or expanded */
};

/* ---- opening ---- */

static yoke_status
stored_read(const yki_bytes *b, uint64_t offset, uint64_t size, unsigned char *out)
{
    if (offset > b->stored || size > b->stored - offset)
        return yki_fail(YOKE_ERROR_FORMAT, "%s ends at byte %llu; must have at least %llu bytes",
                        b->name, (unsigned long long)b->stored,
                        (unsigned long long)(offset + size));
    if (b->file < 0) {
        memcpy(out, b->memory + offset, (size_t)size);
        return YOKE_OK;
    }
    while (size) {
        ssize_t got = pread(b->file, out, (size_t)size, (off_t)offset);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return yki_fail(YOKE_ERROR_IO, "%s cannot be read: %s", b->name, strerror(errno));
        if (got == 0)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s has become shorter: it ends at byte %llu; open it again", b->name,
                            (unsigned long long)offset);
        out += got;
        offset += (uint64_t)got;
        size -= (uint64_t)got;
    }
    return YOKE_OK;
}

static yoke_status
look_at_it(yki_bytes *b)
{
    unsigned char magic[2];

    b->size = b->stored;
    if (b->stored < sizeof magic)
        return YOKE_OK;
    YKI_TRY(stored_read(b, 0, sizeof magic, magic));
    b->compressed = magic[0] == 0x1F && magic[1] == 0x8B;
    return YOKE_OK;
}

static yki_bytes *
new_bytes(const char *name)
{
    yki_bytes *b = yki_alloc(1, sizeof *b, "a file");

    if (!b)
        return NULL;
    atomic_init(&b->references, 1);
    b->file = -1;
    b->name = yki_strdup(name, "a file's name");
    if (!b->name) {
        yki_free(b);
        return NULL;
    }
    return b;
}

static yoke_status
open_file(yki_bytes *b)
{
    struct stat about;

    /* O_NONBLOCK, because opening a pipe would wait for a writer. It has no effect on files. */
    b->file = open(b->name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (b->file < 0)
        return yki_fail(errno == ENOENT ? YOKE_ERROR_NOT_FOUND : YOKE_ERROR_IO,
                        "%s cannot be opened: %s", b->name, strerror(errno));
    if (fstat(b->file, &about) != 0)
        return yki_fail(YOKE_ERROR_IO, "%s cannot be examined: %s", b->name, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return yki_fail(YOKE_ERROR_FORMAT, "%s is %s; must be a file", b->name,
                        S_ISDIR(about.st_mode) ? "a folder" : "no regular file");
    b->stored = (uint64_t)about.st_size;
    return look_at_it(b);
}

yoke_status
yki_bytes_open(const char *path, yki_bytes **out)
{
    yki_bytes *b = new_bytes(path);
    yoke_status status;

    if (!b)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = open_file(b);
    if (status != YOKE_OK) {
        yki_bytes_release(b);
        return status;
    }
    *out = b;
    return YOKE_OK;
}

yoke_status
yki_bytes_of_memory(const void *data, size_t size, const char *name, yki_bytes **out)
{
    yki_bytes *b = new_bytes(name);
    yoke_status status;

    if (!b)
        return YOKE_ERROR_OUT_OF_MEMORY;
    b->memory = data;
    b->stored = size;
    status = look_at_it(b);
    if (status != YOKE_OK) {
        yki_bytes_release(b);
        return status;
    }
    *out = b;
    return YOKE_OK;
}

yoke_status
yki_bytes_take(void *data, size_t size, const char *name, yki_bytes **out)
{
    yki_bytes *b = new_bytes(name);

    if (!b)
        return YOKE_ERROR_OUT_OF_MEMORY;
    b->memory = b->expanded = data;
    b->stored = b->size = size;
    *out = b;
    return YOKE_OK;
}

yki_bytes *
yki_bytes_retain(yki_bytes *b)
{
    atomic_fetch_add(&b->references, 1);
    return b;
}

void
yki_bytes_release(yki_bytes *b)
{
    if (!b || atomic_fetch_sub(&b->references, 1) > 1)
        return;
    if (b->file >= 0)
        close(b->file);
    yki_free(b->name);
    yki_free(b->expanded);
    yki_free(b);
}

const char *
yki_bytes_name(const yki_bytes *b)
{
    return b->name;
}

uint64_t
yki_bytes_stored_size(const yki_bytes *b)
{
    return b->stored;
}

bool
yki_bytes_compressed(const yki_bytes *b)
{
    return b->compressed;
}

/* ---- expanding ---- */

typedef struct expansion {
    z_stream z;
    unsigned char in[PIECE];
    uint64_t next; /* offset in the file */
    bool ended;
} expansion;

static void *
zlib_alloc(void *user, unsigned count, unsigned size)
{
    (void)user;
    return yki_alloc(count, size, "expanding a file");
}

static void
zlib_free(void *user, void *memory)
{
    (void)user;
    yki_free(memory);
}

static yoke_status
zlib_fail(const yki_bytes *b, const expansion *x, int code)
{
    if (code == Z_MEM_ERROR)
        return YOKE_ERROR_OUT_OF_MEMORY; /* yki_alloc has set the detail */
    return yki_fail(YOKE_ERROR_FORMAT, "%s cannot be expanded: %s", b->name,
                    x->z.msg ? x->z.msg : "the compressed data is damaged");
}

/* Fills `out` as far as the file goes. Gzip members that follow one another are one file. */
static yoke_status
expand(const yki_bytes *b, expansion *x, unsigned char *out, uint64_t size, uint64_t *got)
{
    uint64_t done = 0;

    while (done < size) {
        uint64_t room = YKI_MIN(size - done, (uint64_t)PIECE);
        int code;

        if (x->z.avail_in == 0 && x->next < b->stored) {
            uint64_t piece = YKI_MIN(b->stored - x->next, (uint64_t)PIECE);

            YKI_TRY(stored_read(b, x->next, piece, x->in));
            x->next += piece;
            x->z.next_in = x->in;
            x->z.avail_in = (unsigned)piece;
        }
        if (x->ended && x->z.avail_in == 0)
            break;
        if (x->ended) {
            inflateReset(&x->z);
            x->ended = false;
        }
        x->z.next_out = out + done;
        x->z.avail_out = (unsigned)room;
        code = inflate(&x->z, Z_NO_FLUSH);
        done += room - x->z.avail_out;
        x->ended = code == Z_STREAM_END;
        if (code == Z_BUF_ERROR ||
            (code == Z_OK && x->z.avail_in == 0 && x->next == b->stored && x->z.avail_out == room))
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s is cut short: the compressed data ends at byte "
                            "%llu of %s",
                            b->name, (unsigned long long)done, "its contents");
        if (code != Z_OK && code != Z_STREAM_END)
            return zlib_fail(b, x, code);
    }
    *got = done;
    return YOKE_OK;
}

static yoke_status
start(const yki_bytes *b, expansion **out)
{
    expansion *x = yki_alloc(1, sizeof *x, "expanding a file");
    int code;

    if (!x)
        return YOKE_ERROR_OUT_OF_MEMORY;
    x->z.zalloc = zlib_alloc;
    x->z.zfree = zlib_free;
    code = inflateInit2(&x->z, MAX_WBITS + GZIP);
    if (code != Z_OK) {
        yoke_status status = zlib_fail(b, x, code);

        yki_free(x);
        return status;
    }
    *out = x;
    return YOKE_OK;
}

static void
stop(expansion *x)
{
    inflateEnd(&x->z);
    yki_free(x);
}

yoke_status
yki_bytes_peek(yki_bytes *b, void *out, size_t size, size_t *got)
{
    uint64_t done = YKI_MIN((uint64_t)size, b->size);
    yoke_status status;
    expansion *x;

    if (!b->compressed || b->expanded) {
        YKI_TRY(yki_bytes_read(b, 0, done, out));
        *got = (size_t)done;
        return YOKE_OK;
    }
    YKI_TRY(start(b, &x));
    status = expand(b, x, out, size, &done);
    stop(x);
    *got = (size_t)done;
    return status;
}

/* Expands all of it and checks that it ends there. inflate compares the checksum at its end. */
static yoke_status
expand_all(yki_bytes *b, unsigned char *memory, uint64_t size)
{
    unsigned char beyond;
    uint64_t got = 0, more = 0;
    expansion *x;
    yoke_status status;

    YKI_TRY(start(b, &x));
    status = expand(b, x, memory, size, &got);
    if (status == YOKE_OK && got == size)
        status = expand(b, x, &beyond, 1, &more);
    stop(x);
    YKI_TRY(status);
    if (got < size || more)
        return yki_fail(YOKE_ERROR_FORMAT, "%s holds %s than the %llu bytes that its header says",
                        b->name, more ? "more" : "less", (unsigned long long)size);
    return YOKE_OK;
}

yoke_status
yki_bytes_expect(yki_bytes *b, uint64_t size)
{
    unsigned char *memory;
    yoke_status status;

    if (!b->compressed || b->expanded) {
        if (b->size != size)
            return yki_fail(YOKE_ERROR_FORMAT,
                            "%s has %llu bytes; must have %llu, as its header says", b->name,
                            (unsigned long long)b->size, (unsigned long long)size);
        return YOKE_OK;
    }
    if (size / MOST_EXPANSION > b->stored || size > SIZE_MAX)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has %llu compressed bytes, which cannot expand to the %llu that its "
                        "header says; get the whole file",
                        b->name, (unsigned long long)b->stored, (unsigned long long)size);
    memory = yki_alloc(1, (size_t)size, "the contents of a compressed file");
    if (!memory)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = expand_all(b, memory, size);
    if (status != YOKE_OK) {
        yki_free(memory);
        return status;
    }
    b->expanded = memory;
    b->size = size;
    return YOKE_OK;
}

yoke_status
yki_bytes_read(const yki_bytes *b, uint64_t offset, uint64_t size, void *out)
{
    if (!b->expanded)
        return stored_read(b, offset, size, out);
    if (offset > b->size || size > b->size - offset)
        return yki_fail(YOKE_ERROR_FORMAT, "%s ends at byte %llu; must have at least %llu bytes",
                        b->name, (unsigned long long)b->size, (unsigned long long)(offset + size));
    memcpy(out, b->expanded + offset, (size_t)size);
    return YOKE_OK;
}
