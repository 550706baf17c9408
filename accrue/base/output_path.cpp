#include "accrue/base/output_path.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

#include "accrue/base/error.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Refuses a place in a sentence that begins with how it was named.
class Refusal {
public:
    explicit Refusal(const OutputPlace& place) : place_(place) {}

    template <class... Parts>
    [[noreturn]] void because(const Parts&... parts) const {
        throw Error(cat(place_.option, " ", place_.path.string(), ": ", parts...));
    }

private:
    const OutputPlace& place_;
};

// What is there, behind links. A link that leads nowhere is an error here: nobody can know where it should lead.
fs::file_status status_behind_links(const fs::path& path, const Refusal& refuse) {
    std::error_code failure;
    const fs::file_status status = fs::status(path, failure);
    if (failure && status.type() != fs::file_type::not_found) {
        refuse.because("it cannot be looked at: ", failure.message(), ".");
    }
    if (status.type() == fs::file_type::not_found && fs::is_symlink(fs::symlink_status(path, failure))) {
        refuse.because("it is a link to ", fs::read_symlink(path, failure).string(),
                       ", which does not exist. Remove the link, or choose another place.");
    }
    return status;
}

std::string kind_of(fs::file_type type) {
    switch (type) {
        case fs::file_type::directory:
            return "a folder";
        case fs::file_type::regular:
            return "a file";
        case fs::file_type::fifo:
            return "a named pipe";
        case fs::file_type::socket:
            return "a socket";
        default:
            return "a device";
    }
}

void check_parent(const fs::path& path, const Refusal& refuse) {
    const fs::path parent = path.parent_path();
    std::error_code ignored;
    if (!fs::exists(parent, ignored)) {
        refuse.because("there is no folder ", parent.string(), ". Make it first, or choose another place.");
    }
    if (!fs::is_directory(parent, ignored)) {
        refuse.because(parent.string(), " is no folder. Choose another place.");
    }
    if (faccessat(AT_FDCWD, parent.c_str(), W_OK | X_OK, AT_EACCESS) != 0) {
        refuse.because("nothing can be written in ", parent.string(), ": ", std::generic_category().message(errno),
                       ". Choose another place.");
    }
}

// Where two names lead to the same file or folder, also through links of both kinds.
bool is_same(const fs::path& a, const fs::path& b) {
    std::error_code ignored;
    return fs::equivalent(a, b, ignored);
}

// Whether a folder, or one above it, is the other.
bool lies_in(const fs::path& inner, const fs::path& outer) {
    std::error_code ignored;
    fs::path at = fs::weakly_canonical(inner, ignored);
    while (!is_same(at, outer) && at.has_relative_path()) {
        at = at.parent_path();
    }
    return is_same(at, outer);
}

void check_aside(const fs::path& path, const OutputPlace& place, fs::file_type wanted, const Refusal& refuse) {
    const fs::path aside = aside_of(path);
    std::error_code ignored;
    const fs::file_type found = fs::symlink_status(aside, ignored).type();
    const bool is_input = std::any_of(place.inputs.begin(), place.inputs.end(),
                                      [&](const fs::path& input) { return is_same(input, aside); });
    if ((found != fs::file_type::not_found && found != wanted) || is_input) {
        refuse.because("it is written as ", aside.string(), " at first, but that is ",
                       is_input ? "one of the inputs" : "something else", ". Choose another name.");
    }
}

// Absolute and without a slash at its end, which would make an empty name.
fs::path named_path(const OutputPlace& place, const Refusal& refuse) {
    if (place.path.empty()) {
        refuse.because("the name is empty. Give a path to write to.");
    }
    const fs::path path = fs::absolute(place.path).lexically_normal();
    return path.has_filename() ? path : path.parent_path();
}

void require_overwrite(const OutputPlace& place, const Refusal& refuse) {
    if (place.overwrite == Overwrite::no) {
        refuse.because("it exists already. Choose another place, or give --overwrite to replace it.");
    }
}

// What a folder holds that we would not have written; nothing if it is ours.
std::optional<std::string> foreign_entry(const fs::path& folder, const std::vector<std::string>& own_files) {
    for (const auto& entry : fs::directory_iterator(folder)) {
        const std::string name = entry.path().filename().string();
        if (!entry.is_regular_file() || entry.is_symlink() ||
            std::find(own_files.begin(), own_files.end(), name) == own_files.end()) {
            return name;
        }
    }
    return std::nullopt;
}

}  // namespace

fs::path aside_of(const fs::path& path) {
    return path.parent_path() / cat(".", path.filename().string(), ".partial");
}

fs::path check_output_file(const OutputPlace& place) {
    const Refusal refuse(place);
    fs::path path = named_path(place, refuse);
    const fs::file_status status = status_behind_links(path, refuse);
    if (fs::exists(status)) {
        for (const fs::path& input : place.inputs) {
            if (is_same(input, path)) {
                refuse.because("it is ", input.string(), ", which is read here. An input is never replaced.");
            }
        }
        if (!fs::is_regular_file(status)) {
            refuse.because("it is ", kind_of(status.type()), ", and a file is to be written. Choose another place.");
        }
        require_overwrite(place, refuse);
        path = fs::canonical(path);
    } else if (!place.path.has_filename()) {
        refuse.because("it names a folder, and a file is to be written. Put a file name behind it.");
    }
    check_parent(path, refuse);
    check_aside(path, place, fs::file_type::regular, refuse);
    return path;
}

fs::path check_output_folder(const OutputPlace& place, const std::vector<std::string>& own_files) {
    const Refusal refuse(place);
    fs::path path = named_path(place, refuse);
    const fs::file_status status = status_behind_links(path, refuse);
    for (const fs::path& input : place.inputs) {
        if (lies_in(path, input) || (fs::exists(status) && lies_in(input, path))) {
            refuse.because("it is, holds or lies in ", input.string(),
                           ", which is read here. An input is never replaced: choose a place beside it.");
        }
    }
    if (fs::exists(status)) {
        if (!fs::is_directory(status)) {
            refuse.because("it is ", kind_of(status.type()), ", and a folder is to be written. Choose another place.");
        }
        require_overwrite(place, refuse);
        path = fs::canonical(path);
        if (const auto foreign = foreign_entry(path, own_files)) {
            refuse.because(
                "it holds ", *foreign,
                ", which was not written here, so it is not replaced. Remove it yourself, or choose another ",
                "place.");
        }
    }
    check_parent(path, refuse);
    check_aside(path, place, fs::file_type::directory, refuse);
    return path;
}

}  // namespace accrue
