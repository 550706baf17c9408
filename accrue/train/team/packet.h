#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "accrue/train/loader.h"
#include "accrue/train/step.h"

namespace accrue {

// What a worker and whoever leads the run say to each other: words, and bytes that belong to them.
struct Packet {
    nlohmann::ordered_json words = nlohmann::ordered_json::object();
    std::string bytes = {};
};
[[nodiscard]] std::string encoded(const Packet& packet);
// An Error says that it is no packet.
[[nodiscard]] Packet decoded(const std::string& text);

[[nodiscard]] nlohmann::ordered_json json_of(const DataPosition& position);
[[nodiscard]] DataPosition position_of(const nlohmann::ordered_json& json);
[[nodiscard]] nlohmann::ordered_json json_of(const Window& window);
[[nodiscard]] Window window_of(const nlohmann::ordered_json& json);

[[nodiscard]] Packet packet_of(const TokenBatch& batch);
[[nodiscard]] TokenBatch batch_of(const Packet& packet);

// All that is the same for every worker: no times.
[[nodiscard]] nlohmann::ordered_json json_of(const StepReport& report);
[[nodiscard]] StepReport report_of(const nlohmann::ordered_json& json);

}  // namespace accrue
