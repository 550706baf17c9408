#include "accrue/base/replace_folder.h"

#include <cstdio>
#include <string_view>
#include <system_error>

#include <fcntl.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"

namespace accrue {
namespace {

void succeed_or_fail(std::string_view what, const std::filesystem::path& path, const std::error_code& fault) {
    if (fault) {
        throw Error(cat("cannot ", what, " ", path.string(), ": ", fault.message()));
    }
}

bool is_present(const std::filesystem::path& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

void rename_folder(const std::filesystem::path& from, const std::filesystem::path& to) {
    std::error_code fault;
    std::filesystem::rename(from, to, fault);
    succeed_or_fail("rename", from, fault);
}

void remove_folder(const std::filesystem::path& folder) {
    std::error_code fault;
    std::filesystem::remove_all(folder, fault);
    succeed_or_fail("remove", folder, fault);
}

// Linux can exchange two folders in one step. Where a file system cannot, the older one stands aside for a moment.
void put_into_place(const std::filesystem::path& partial, const std::filesystem::path& place,
                    const std::filesystem::path& replaced) {
    if (!is_present(place)) {
        rename_folder(partial, place);
    } else if (renameat2(AT_FDCWD, partial.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
        rename_folder(place, replaced);
        try {
            rename_folder(partial, place);
        } catch (const Error&) {
            rename_folder(replaced, place);
            throw;
        }
    }
}

}  // namespace

void replace_folder(const std::filesystem::path& place,
                    const std::function<void(const std::filesystem::path&)>& write) {
    const std::filesystem::path around = place.has_parent_path() ? place.parent_path() : std::filesystem::path(".");
    const std::filesystem::path partial = around / cat(".", place.filename().string(), ".partial");
    const std::filesystem::path replaced = around / cat(".", place.filename().string(), ".replaced");
    if (is_present(replaced) && !is_present(place)) {
        rename_folder(replaced, place);  // the moment in which it stood aside was a process's last
    }
    remove_folder(replaced);
    remove_folder(partial);
    try {
        std::error_code fault;
        std::filesystem::create_directories(partial, fault);
        succeed_or_fail("make the folder", partial, fault);
        write(partial);
        sync_folder(partial);
        put_into_place(partial, place, replaced);
        sync_folder(around);
    } catch (...) {
        std::error_code ignored;
        std::filesystem::remove_all(partial, ignored);
        throw;
    }
    // The old one now. Where it cannot be removed, the next time tries again.
    std::error_code ignored;
    std::filesystem::remove_all(partial, ignored);
    std::filesystem::remove_all(replaced, ignored);
}

}  // namespace accrue
