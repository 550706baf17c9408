#include "accrue/base/temporary_folder.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

#include "accrue/base/error.h"

namespace accrue {

namespace fs = std::filesystem;

TemporaryFolder::TemporaryFolder() {
    std::error_code missing;
    const fs::path place = fs::temp_directory_path(missing);
    std::string pattern = (place / "accrue-XXXXXX").string();
    if (missing || mkdtemp(pattern.data()) == nullptr) {
        throw Error(
            cat("cannot make a temporary folder",
                missing ? std::string() : cat(" in ", place.string(), ": ", std::generic_category().message(errno)),
                ". Set TMPDIR to a folder that can be written and has room."));
    }
    path_ = fs::canonical(pattern);
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
}

}  // namespace accrue
