#include "accrue/base/received_json.h"

#include "accrue/base/error.h"

namespace accrue {
namespace {

constexpr int kDeepest = 32;

}  // namespace

nlohmann::ordered_json received_json(std::string_view text) {
    using Json = nlohmann::ordered_json;
    return Json::parse(text, [](int depth, Json::parse_event_t /*event*/, Json& /*value*/) {
        if (depth > kDeepest) {
            throw Error(cat("it is nested deeper than ", kDeepest, " levels"));
        }
        return true;
    });
}

}  // namespace accrue
