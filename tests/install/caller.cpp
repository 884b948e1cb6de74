/* SPDX-License-Identifier: Apache-2.0
 *
 * caller.cpp - a C++11 program that uses the library: lists the devices that its
 * argument selects. It shows that the headers and the inline wrappers are C++, and
 * installcheck that it links. It must not depend on which devices there are.
 */
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>

#include <yoke.h>

namespace
{

void
check(yoke_status status)
{
    if (status != YOKE_OK)
        throw std::runtime_error(std::string(yoke_status_string(status)) + ": " +
                                 yoke_last_error());
}

struct Destroy {
    void
    operator()(yoke_context *context) const
    {
        yoke_context_destroy(context);
    }
    void
    operator()(yoke_selection *selection) const
    {
        yoke_selection_destroy(selection);
    }
};

void
list(const char *selector)
{
    yoke_context *raw_context = nullptr;
    yoke_selection *raw_selection = nullptr;
    yoke_context_options options = yoke_context_options();

    options.no_cache = true;
    check(yoke_context_create(&options, &raw_context));
    std::unique_ptr<yoke_context, Destroy> context(raw_context);
    check(yoke_selection_create(context.get(), selector, nullptr, &raw_selection));
    std::unique_ptr<yoke_selection, Destroy> selection(raw_selection);

    for (std::size_t i = 0; i < yoke_selection_count(selection.get()); i++) {
        yoke_device_info info;

        check(yoke_device_get_info(yoke_selection_get(selection.get(), i), &info));
        std::printf("%s %s\n", info.id, info.name);
    }
}

} // namespace

int
main(int argc, char **argv)
{
    try {
        list(argc > 1 ? argv[1] : nullptr);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "caller: %s\n", error.what());
        return 1;
    }
    return 0;
}
