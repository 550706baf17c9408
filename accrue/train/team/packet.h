#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "accrue/train/loader.h"
#include "accrue/train/step.h"

namespace accrue {

// What a worker and whoever leads the run say to each other: words, and bytes that belong to them. Whatever was received is looked
// at where it is read: an Error says what is damaged in it.
struct Packet {
    nlohmann::ordered_json words = nlohmann::ordered_json::object();
    std::string bytes = {};
};
[[nodiscard]] std::string encoded(const Packet& packet);
[[nodiscard]] Packet decoded(const std::string& text);

[[nodiscard]] nlohmann::ordered_json json_of(const DataPosition& position);
[[nodiscard]] DataPosition position_of(const nlohmann::ordered_json& json);
[[nodiscard]] nlohmann::ordered_json json_of(const Window& window);
[[nodiscard]] Window window_of(const nlohmann::ordered_json& json);

// A number that stands among a packet's words.
[[nodiscard]] int64_t number_of(const Packet& packet, const char* name);

// Which grains of a window a worker needs.
struct BatchQuestion {
    Window window;
    std::vector<int64_t> grains;
};
[[nodiscard]] Packet packet_of(const BatchQuestion& question);
[[nodiscard]] BatchQuestion batch_question_of(const Packet& packet);

[[nodiscard]] Packet packet_of(const TokenBatch& batch);
[[nodiscard]] TokenBatch batch_of(const Packet& packet);

// All that is the same for every worker: no times.
[[nodiscard]] nlohmann::ordered_json json_of(const StepReport& report);
[[nodiscard]] StepReport report_of(const nlohmann::ordered_json& json);

}  // namespace accrue
