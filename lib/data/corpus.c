/* SPDX-License-Identifier: Apache-2.0
 *
 * corpus.c - the files of a text: all of a folder, in the order of their names, or one.
 *
 * Hidden files, token files and those of a tokenizer are no text. Nothing here knows what a text
 * becomes.
 */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data/files.h"
#include "data/text.h"
#include "data/tokenizer.h"

enum { PIECE = 1 << 22, MOST_DEPTH = 32, MOST_SMALL = 256 << 20 };

void
yki_corpus_clear(yki_corpus *c)
{
    for (size_t i = 0; i < c->count; i++)
        yki_free(c->files[i].path);
    yki_free(c->files);
    memset(c, 0, sizeof *c);
}

static bool
is_text(const char *name)
{
    return name[0] != '.' && !yki_ends_with(name, ".tokens") &&
           strcmp(name, "tokenizer.json") != 0 && strcmp(name, "vocab.json") != 0 &&
           strcmp(name, "merges.txt") != 0;
}

/* Adds a file; takes over the path, also on failure. */
static yoke_status
add_file(yki_corpus *c, char *path, const struct stat *about)
{
    yoke_status status = yki_grow((void **)&c->files, &c->capacity, c->count + 1, sizeof *c->files,
                                  "the files of a text");

    if (status != YOKE_OK) {
        yki_free(path);
        return status;
    }
    c->files[c->count++] = (struct yki_corpus_file){path, (uint64_t)about->st_size,
                                                    (int64_t)about->st_mtim.tv_sec * 1000000000 +
                                                        about->st_mtim.tv_nsec};
    return YOKE_OK;
}

static yoke_status add_folder(yki_corpus *c, const char *path, int depth);

static yoke_status
add_entry(yki_corpus *c, const char *folder, const char *name, int depth)
{
    size_t length = strlen(folder);
    char *path = yki_format("%s%s%s", folder, length && folder[length - 1] == '/' ? "" : "/", name);
    struct stat about;
    yoke_status status = YOKE_OK;

    if (!path)
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (stat(path, &about) == 0 && S_ISREG(about.st_mode))
        return add_file(c, path, &about);
    if (S_ISDIR(about.st_mode))
        status = add_folder(c, path, depth + 1);
    yki_free(path);
    return status;
}

static yoke_status
add_folder(yki_corpus *c, const char *path, int depth)
{
    DIR *folder = depth < MOST_DEPTH ? opendir(path) : NULL;
    const struct dirent *entry;
    yoke_status status = YOKE_OK;

    if (!folder)
        return yki_fail(YOKE_ERROR_IO, "%s: %s", path,
                        depth < MOST_DEPTH ? strerror(errno) : "is more than 32 folders deep");
    while (status == YOKE_OK && (entry = readdir(folder)))
        if (is_text(entry->d_name))
            status = add_entry(c, path, entry->d_name, depth);
    closedir(folder);
    return status;
}

static int
by_path(const void *a, const void *b)
{
    return strcmp(((const struct yki_corpus_file *)a)->path,
                  ((const struct yki_corpus_file *)b)->path);
}

static yoke_status
find(const char *path, yki_corpus *c)
{
    struct stat about;
    char *copy;

    if (stat(path, &about) != 0)
        return yki_fail(errno == ENOENT ? YOKE_ERROR_NOT_FOUND : YOKE_ERROR_IO, "%s: %s", path,
                        errno == ENOENT ? "there is no such file or folder" : strerror(errno));
    c->folder = S_ISDIR(about.st_mode);
    if (!c->folder) {
        copy = yki_strdup(path, "a file's name");
        return copy ? add_file(c, copy, &about) : YOKE_ERROR_OUT_OF_MEMORY;
    }
    YKI_TRY(add_folder(c, path, 0));
    if (c->count == 0)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "%s has no text; must have a file at least", path);
    qsort(c->files, c->count, sizeof *c->files, by_path);
    return YOKE_OK;
}

yoke_status
yki_corpus_find(const char *path, yki_corpus *corpus)
{
    yki_corpus c = {0};
    yoke_status status = find(path, &c);

    if (status != YOKE_OK) {
        yki_corpus_clear(&c);
        return status;
    }
    *corpus = c;
    return YOKE_OK;
}

/* ---- reading ---- */

/* Whether the last character of a text is a letter, of any script. */
static bool
ends_with_letter(const unsigned char *text, size_t length)
{
    size_t begin = length - 1;
    int32_t code;

    while (begin > 0 && length - begin < 4 && (text[begin] & 0xC0) == 0x80)
        begin--;
    return yki_utf8_next(text + begin, length - begin, &code) == length - begin && code >= 0 &&
           yki_character_of(code) == YKI_CHARACTER_LETTER;
}

/* The last place between a letter and a space; 0: there is none. */
static size_t
last_cut(const char *text, size_t length)
{
    for (size_t i = length; i-- > 1;)
        if ((text[i] == ' ' || text[i] == '\n') && ends_with_letter((const unsigned char *)text, i))
            return i;
    return 0;
}

typedef struct pieces {
    yki_bytes *bytes;
    char *text;
    size_t capacity, length;
    uint64_t before, size; /* bytes that were taken; of the file */
} pieces;

static yoke_status
read_pieces(pieces *p,
            yoke_status (*take)(void *user, const char *text, size_t length, uint64_t before),
            void *user)
{
    while (p->before + p->length < p->size || p->length) {
        size_t more = (size_t)YKI_MIN(p->size - p->before - p->length, (uint64_t)PIECE), cut;

        YKI_TRY(yki_grow((void **)&p->text, &p->capacity, p->length + more, 1, "a text"));
        YKI_TRY(yki_bytes_read(p->bytes, p->before + p->length, more, p->text + p->length));
        p->length += more;
        cut = p->before + p->length < p->size ? last_cut(p->text, p->length) : p->length;
        if (!cut)
            continue;
        YKI_TRY(take(user, p->text, cut, p->before));
        memmove(p->text, p->text + cut, p->length - cut);
        p->length -= cut;
        p->before += cut;
    }
    return YOKE_OK;
}

yoke_status
yki_corpus_read(const struct yki_corpus_file *file,
                yoke_status (*take)(void *user, const char *text, size_t length, uint64_t before),
                void *user)
{
    pieces p = {0};
    yoke_status status;

    YKI_TRY(yki_bytes_open(file->path, &p.bytes));
    p.size = yki_bytes_stored_size(p.bytes);
    status = yki_bytes_compressed(p.bytes)
                 ? yki_fail(YOKE_ERROR_UNSUPPORTED,
                            "%s is compressed by gzip; must be plain text, as gunzip makes it",
                            file->path)
                 : read_pieces(&p, take, user);
    yki_free(p.text);
    yki_bytes_release(p.bytes);
    return status;
}

yoke_status
yki_read_small(const char *path, char **text, size_t *length)
{
    yki_bytes *bytes;
    char *out = NULL;
    uint64_t size;
    yoke_status status = YOKE_OK;

    YKI_TRY(yki_bytes_open(path, &bytes));
    size = yki_bytes_stored_size(bytes);
    if (size > MOST_SMALL)
        status =
            yki_fail(YOKE_ERROR_FORMAT, "%s is larger than 256 MiB; must be a tokenizer", path);
    else if (!(out = yki_alloc((size_t)size + 1, 1, "a tokenizer's file")))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        status = yki_bytes_read(bytes, 0, size, out);
    yki_bytes_release(bytes);
    if (status != YOKE_OK) {
        yki_free(out);
        return status;
    }
    *text = out;
    *length = (size_t)size;
    return YOKE_OK;
}
