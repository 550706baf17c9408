#include "accrue/checkpoint/manifest.h"

#include <system_error>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A name that leads out of the checkpoint's folder is not taken from a file.
bool is_plain_name(const std::string& name) {
    return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos;
}

}  // namespace

std::string to_json(const Manifest& manifest) {
    Json files = Json::object();
    for (const auto& [name, file] : manifest.files) {
        files[name] = {{"bytes", file.bytes}, {"checksum", file.checksum}};
    }
    return Json{{"format", 1}, {"files", files}}.dump(2) + "\n";
}

std::optional<Manifest> read_manifest(const fs::path& checkpoint) {
    try {
        const Json json = Json::parse(read_text(checkpoint / kManifestName));
        if (json.at("format") != 1) {
            return std::nullopt;
        }
        Manifest manifest;
        for (const auto& [name, file] : json.at("files").items()) {
            if (!is_plain_name(name)) {
                return std::nullopt;
            }
            manifest.files[name] = {file.at("bytes").get<int64_t>(), file.at("checksum").get<std::string>()};
        }
        return manifest;
    } catch (const Error&) {
        return std::nullopt;
    } catch (const Json::exception&) {
        return std::nullopt;
    }
}

int64_t bytes_of(const Manifest& manifest) {
    int64_t bytes = 0;
    for (const auto& [name, file] : manifest.files) {
        bytes += file.bytes;
    }
    return bytes;
}

std::optional<std::string> missing_in(const fs::path& checkpoint, const Manifest& manifest) {
    for (const auto& [name, file] : manifest.files) {
        std::error_code fault;
        const auto bytes = static_cast<int64_t>(fs::file_size(checkpoint / name, fault));
        if (fault) {
            return cat("file ", name, " is missing");
        }
        if (bytes != file.bytes) {
            return cat("file ", name, " has ", bytes, " bytes, manifest says ", file.bytes);
        }
    }
    return std::nullopt;
}

}  // namespace accrue
