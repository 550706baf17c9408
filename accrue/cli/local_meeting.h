#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace accrue {

// What one process must know of another one of its user, to join it.
struct MeetingPoint {
    std::string address;  // host:port
    std::string run;
    std::string token;
};

// Where processes of one user that were started together on this machine find the one that leads them: a file that only the
// user can read, which goes with its leader.
class LocalMeeting {
public:
    // By whoever leads the job of that name. In another's place, if that is not alive any more; an Error if it is.
    LocalMeeting(const std::string& job, const MeetingPoint& point);
    ~LocalMeeting();
    LocalMeeting(const LocalMeeting&) = delete;
    LocalMeeting& operator=(const LocalMeeting&) = delete;

    // By the others: nothing as long as no living leader is there.
    [[nodiscard]] static std::optional<MeetingPoint> find(const std::string& job);

private:
    std::filesystem::path file_;
};

}  // namespace accrue
