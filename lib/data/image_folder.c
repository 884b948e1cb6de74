/* SPDX-License-Identifier: Apache-2.0
 *
 * image_folder.c - finds images in a folder, and their classes: FOLDER/CLASS/IMAGE.
 *
 * A folder of a part of the data, as train/ and test/, is taken if it has folders with images, and
 * else the folder itself. One for testing may have images without classes too, unless folders
 * beside it are classes. Names are sorted by their bytes, so every process of a job numbers images
 * and classes alike, whatever the order in which the file system lists them. No image is opened.
 */
#include <string.h>
#include <sys/stat.h>

#include "data/image.h"
#include "data/text.h"

void
yki_image_list_clear(yki_image_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        yki_free(l->paths[i]);
    for (size_t i = 0; i < l->class_count; i++)
        yki_free(l->classes[i]);
    yki_free(l->paths);
    yki_free(l->labels);
    yki_free(l->classes);
    *l = (yki_image_list){0};
}

bool
yki_image_name(const char *name)
{
    return yki_ends_with(name, ".png") || yki_ends_with(name, ".jpg") ||
           yki_ends_with(name, ".jpeg");
}

static bool
is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

/* Takes over the path, also on failure. */
static yoke_status
add_path(yki_image_list *l, char *path, int32_t label)
{
    yoke_status status = path ? yki_grow((void **)&l->paths, &l->path_capacity, l->count + 1,
                                         sizeof *l->paths, "names of images")
                              : YOKE_ERROR_OUT_OF_MEMORY;

    if (status == YOKE_OK)
        status = yki_grow((void **)&l->labels, &l->label_capacity, l->count + 1, sizeof *l->labels,
                          "labels of images");
    if (status != YOKE_OK) {
        yki_free(path);
        return status;
    }
    l->paths[l->count] = path;
    l->labels[l->count++] = label;
    return YOKE_OK;
}

static yoke_status
add_class(yki_image_list *l, const char *name)
{
    YKI_TRY(yki_grow((void **)&l->classes, &l->class_capacity, l->class_count + 1,
                     sizeof *l->classes, "names of classes"));
    l->classes[l->class_count] = yki_strdup(name, "a name of a class");
    if (!l->classes[l->class_count])
        return YOKE_ERROR_OUT_OF_MEMORY;
    l->class_count++;
    return YOKE_OK;
}

/* Adds the images that lie in a folder itself. */
static yoke_status
add_images(yki_image_list *l, const char *path, int32_t label)
{
    yki_listing names;
    yoke_status status;

    YKI_TRY(yki_list_folder(path, &names));
    status = YOKE_OK;
    for (size_t i = 0; i < names.count && status == YOKE_OK; i++) {
        char *image =
            yki_image_name(names.names[i]) ? yki_format("%s/%s", path, names.names[i]) : NULL;

        if (image && is_folder(image))
            yki_free(image);
        else if (yki_image_name(names.names[i]))
            status = add_path(l, image, label);
    }
    yki_listing_clear(&names);
    return status;
}

static size_t
find_class(const yki_image_list *l, const char *name)
{
    size_t i = 0;

    while (i < l->class_count && strcmp(l->classes[i], name) != 0)
        i++;
    return i;
}

/* Adds the images of one folder as a class, unless it has none. `fixed`: all classes are there. */
static yoke_status
add_folder(yki_image_list *l, const char *path, const char *name, bool fixed)
{
    const size_t before = l->count, found = fixed ? find_class(l, name) : l->class_count;

    YKI_TRY(add_images(l, path, (int32_t)found));
    if (l->count == before || found < l->class_count)
        return YOKE_OK;
    if (fixed)
        return yki_fail(YOKE_ERROR_FORMAT,
                        "%s has images, but \"%s\" is no class of the training data; must be one "
                        "of its %zu, as \"%s\"",
                        path, name, l->class_count, l->classes[0]);
    return add_class(l, name);
}

/* Adds the folders of classes of a folder. If their names tell only parts of the data, they are no
 * classes. */
static yoke_status
add_classes(yki_image_list *l, const char *path)
{
    const bool fixed = l->class_count > 0;
    bool classes = false;
    yki_listing names;
    yoke_status status;

    YKI_TRY(yki_list_folder(path, &names));
    status = YOKE_OK;
    for (size_t i = 0; i < names.count && status == YOKE_OK; i++) {
        char *below = yki_format("%s/%s", path, names.names[i]);
        const size_t before = l->count;

        if (!below)
            status = YOKE_ERROR_OUT_OF_MEMORY;
        else if (is_folder(below))
            status = add_folder(l, below, names.names[i], fixed);
        classes =
            classes || (l->count > before && yki_part_of_name(names.names[i]) == YOKE_PART_ANY);
        yki_free(below);
    }
    yki_listing_clear(&names);
    if (status == YOKE_OK && !classes && !fixed)
        yki_image_list_clear(l);
    return status;
}

/* Adds the classes of a part's folder: of the first that has some. Or, not `classes`, the images
 * that lie in one. */
static yoke_status
add_part(yki_image_list *l, const char *path, yoke_data_part part, bool classes)
{
    yki_listing names;
    yoke_status status;

    YKI_TRY(yki_list_folder(path, &names));
    status = YOKE_OK;
    for (size_t i = 0; i < names.count && status == YOKE_OK && !l->count; i++) {
        char *below;

        if (yki_part_of_name(names.names[i]) != part)
            continue;
        below = yki_format("%s/%s", path, names.names[i]);
        if (!below)
            status = YOKE_ERROR_OUT_OF_MEMORY;
        else if (is_folder(below))
            status = classes ? add_classes(l, below) : add_images(l, below, -1);
        yki_free(below);
    }
    yki_listing_clear(&names);
    return status;
}

/* Adds images without classes that are for testing. A folder beside others that are classes is one
 * itself, whatever its name. */
static yoke_status
add_unlabelled(yki_image_list *l, const char *path)
{
    yki_image_list beside = {0};
    yoke_status status = add_classes(&beside, path);
    const bool classes = beside.count > 0;

    yki_image_list_clear(&beside);
    return status != YOKE_OK || classes ? status : add_part(l, path, YOKE_PART_TEST, false);
}

/* Takes the classes of the training part alone: of its folder, or else of the folder itself. */
static yoke_status
take_classes(yki_image_list *l, const char *path)
{
    YKI_TRY(add_part(l, path, YOKE_PART_TRAIN, true));
    if (!l->count)
        YKI_TRY(add_classes(l, path));
    while (l->count)
        yki_free(l->paths[--l->count]);
    return YOKE_OK;
}

static yoke_status
fill(yki_image_list *l, const char *path, yoke_data_part part)
{
    if (!is_folder(path))
        return add_path(l, yki_strdup(path, "a file's name"), -1);
    if (part == YOKE_PART_TEST && l->class_count == 0)
        YKI_TRY(take_classes(l, path));
    YKI_TRY(add_part(l, path, part == YOKE_PART_TEST ? part : YOKE_PART_TRAIN, true));
    if (l->count)
        return YOKE_OK;
    if (part == YOKE_PART_TEST)
        return add_unlabelled(l, path);
    YKI_TRY(add_classes(l, path));
    return l->count ? YOKE_OK : add_images(l, path, -1);
}

yoke_status
yki_image_list_make(const char *path, yoke_data_part part, const char *const *known,
                    size_t known_count, yki_image_list *out)
{
    yki_image_list l = {0};
    yoke_status status = YOKE_OK;

    for (size_t i = 0; i < known_count && status == YOKE_OK; i++)
        status = add_class(&l, known[i] ? known[i] : "");
    if (status == YOKE_OK)
        status = fill(&l, path, part);
    if (status != YOKE_OK) {
        yki_image_list_clear(&l);
        return status;
    }
    *out = l;
    return YOKE_OK;
}
