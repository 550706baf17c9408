#include "accrue/cli/local_meeting.h"

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "accrue/base/error.h"
#include "accrue/base/file.h"

namespace accrue {
namespace {

namespace fs = std::filesystem;

// Of this user alone: others may write into the folder for temporary files, too.
fs::path own_folder() {
    fs::path folder = fs::temp_directory_path() / cat("accrue-", geteuid());
    if (::mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
        throw Error(cat("cannot make the folder ", folder.string(),
                        ", in which workers of one machine meet: ", std::strerror(errno), "."));
    }
    struct stat facts = {};
    if (::lstat(folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() ||
        (facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
        throw Error(cat(folder.string(),
                        ", in which workers of one machine meet, is not a folder of yours that nobody else "
                        "can open. Remove it, or set TMPDIR to another place."));
    }
    return folder;
}

// Names come from launchers: no separators, no hidden files.
fs::path file_of(const std::string& job) {
    std::string name = "job-";
    for (const char letter : job) {
        const bool is_plain = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '.';
        name += is_plain ? letter : '_';
    }
    return own_folder() / name;
}

// Two processes of one number do not have the same beginning.
std::string beginning_of(int64_t process) {
    std::ifstream file(cat("/proc/", process, "/stat"));
    std::stringstream text;
    text << file.rdbuf();
    // The second field is a name in brackets, in which anything may stand; the 22nd is the time.
    const std::string all = text.str();
    const size_t name_end = all.rfind(')');
    if (name_end == std::string::npos) {
        return "";
    }
    std::istringstream fields(all.substr(name_end + 1));
    std::string field;
    constexpr int kFieldsToTime = 20;
    for (int i = 0; i < kFieldsToTime; ++i) {
        fields >> field;
    }
    return field;
}

struct Found {
    MeetingPoint point;
    int64_t process = 0;
};

std::optional<Found> found_in(const fs::path& file) {
    std::error_code unknown;
    if (!fs::exists(file, unknown)) {
        return std::nullopt;
    }
    std::string text;
    try {
        text = read_text(file);
    } catch (const Error&) {  // it has just gone
        return std::nullopt;
    }
    const nlohmann::json words = nlohmann::json::parse(text, nullptr, false);
    if (!words.is_object()) {
        return std::nullopt;
    }
    const auto process = words.value("process", int64_t{0});
    const std::string began = words.value("began", "");
    if (process <= 0 || began.empty() || beginning_of(process) != began) {
        return std::nullopt;
    }
    return Found{.point = {.address = words.value("address", ""),
                           .run = words.value("run", ""),
                           .token = words.value("token", "")},
                 .process = process};
}

}  // namespace

LocalMeeting::LocalMeeting(const std::string& job, const MeetingPoint& point) : file_(file_of(job)) {
    if (const auto other = found_in(file_); other && other->process != getpid()) {
        throw Error(cat("process ", other->process, " leads the job \"", job,
                        "\" already: two processes cannot both be its number 0."));
    }
    const nlohmann::json words = {{"address", point.address},
                                  {"run", point.run},
                                  {"token", point.token},
                                  {"process", getpid()},
                                  {"began", beginning_of(getpid())}};
    write_text(file_, words.dump());
}

LocalMeeting::~LocalMeeting() {
    std::error_code ignored;
    const auto found = found_in(file_);
    if (found && found->process == getpid()) {
        fs::remove(file_, ignored);
    }
}

std::optional<MeetingPoint> LocalMeeting::find(const std::string& job) {
    const auto found = found_in(file_of(job));
    return found ? std::optional(found->point) : std::nullopt;
}

}  // namespace accrue
