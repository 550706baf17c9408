#include "accrue/train/team/packet.h"

#include <cstring>

#include "accrue/base/error.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;

[[noreturn]] void fail(const std::string& why) {
    throw Error("a message between a worker and the run's leader is damaged: " + why + ".");
}

template <class T>
void append(std::string& to, const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// The next `count` values of a packet's bytes, which are then gone from them.
template <class T>
std::vector<T> taken(std::string_view& from, const Json& count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto number = count.get<uint64_t>();
    if (number > from.size() / sizeof(T)) {
        fail(cat("it announces ", number, " values, of which it has ", from.size(), " bytes"));
    }
    std::vector<T> values(number);
    if (number > 0) {
        std::memcpy(values.data(), from.data(), number * sizeof(T));
    }
    from.remove_prefix(number * sizeof(T));
    return values;
}

template <class T>
void put_optional(Json& json, const char* name, const std::optional<T>& value) {
    if (value) {
        json[name] = *value;
    }
}

template <class T>
std::optional<T> optional_of(const Json& json, const char* name) {
    return json.contains(name) ? std::optional<T>(json.at(name).get<T>()) : std::nullopt;
}

}  // namespace

std::string encoded(const Packet& packet) {
    const std::string words = packet.words.dump();
    const uint64_t length = words.size();
    std::string text(reinterpret_cast<const char*>(&length), kLengthBytes);
    return text + words + packet.bytes;
}

Packet decoded(const std::string& text) {
    uint64_t length = 0;
    if (text.size() < kLengthBytes) {
        fail(cat("it has only ", text.size(), " bytes"));
    }
    std::memcpy(&length, text.data(), kLengthBytes);
    if (length > text.size() - kLengthBytes) {
        fail(cat("it announces ", length, " bytes of words and has ", text.size()));
    }
    try {
        return {.words = Json::parse(text.begin() + kLengthBytes,
                                     text.begin() + static_cast<int64_t>(kLengthBytes + length)),
                .bytes = text.substr(kLengthBytes + length)};
    } catch (const Json::exception& error) {
        fail(error.what());
    }
}

Json json_of(const DataPosition& position) {
    return {{"epoch", position.epoch}, {"place", position.place}};
}

DataPosition position_of(const Json& json) {
    return {.epoch = json.at("epoch"), .place = json.at("place")};
}

Json json_of(const Window& window) {
    return {{"first", json_of(window.first)},
            {"samples", window.samples},
            {"grain_samples", window.grain_samples},
            {"ends_epoch", window.ends_epoch},
            {"is_short", window.is_short}};
}

Window window_of(const Json& json) {
    return {.first = position_of(json.at("first")),
            .samples = json.at("samples"),
            .grain_samples = json.at("grain_samples"),
            .ends_epoch = json.at("ends_epoch"),
            .is_short = json.at("is_short")};
}

Packet packet_of(const TokenBatch& batch) {
    Packet packet{
        .words = {{"rows", batch.tokens.size()}, {"segments", batch.segments.size()}, {"grains", batch.grains.size()}}};
    append(packet.bytes, batch.tokens);
    append(packet.bytes, batch.targets);
    append(packet.bytes, batch.positions);
    append(packet.bytes, batch.row_keys);
    append(packet.bytes, batch.segments);
    append(packet.bytes, batch.grains);
    return packet;
}

TokenBatch batch_of(const Packet& packet) {
    std::string_view bytes = packet.bytes;
    const Json& rows = packet.words.at("rows");
    TokenBatch batch;
    batch.tokens = taken<int32_t>(bytes, rows);
    batch.targets = taken<int32_t>(bytes, rows);
    batch.positions = taken<int32_t>(bytes, rows);
    batch.row_keys = taken<uint64_t>(bytes, rows);
    batch.segments = taken<Segment>(bytes, packet.words.at("segments"));
    batch.grains = taken<TokenBatch::Grain>(bytes, packet.words.at("grains"));
    if (!bytes.empty()) {
        fail(cat("it has ", bytes.size(), " bytes too many"));
    }
    return batch;
}

Json json_of(const StepReport& report) {
    Json json = {{"step", report.step},
                 {"window", json_of(report.window)},
                 {"tokens", report.tokens},
                 {"rate", report.rate},
                 {"beta2", report.beta2},
                 {"clipped", report.clipped},
                 {"norm_mean", report.grains.norm_mean},
                 {"norm_variance", report.grains.norm_variance},
                 {"skipped", report.skipped},
                 {"skip_reason", report.skip_reason},
                 {"lowers_loss_scale", report.lowers_loss_scale},
                 {"replays", report.replays}};
    put_optional(json, "loss", report.loss);
    put_optional(json, "grad_norm", report.grad_norm);
    put_optional(json, "noise_scale", report.grains.noise_scale);
    put_optional(json, "bad_grain", report.bad_grain);
    put_optional(json, "loss_scale", report.loss_scale);
    return json;
}

StepReport report_of(const Json& json) {
    StepReport report{.step = json.at("step"),
                      .window = window_of(json.at("window")),
                      .loss = optional_of<double>(json, "loss"),
                      .tokens = json.at("tokens"),
                      .rate = json.at("rate"),
                      .beta2 = json.at("beta2"),
                      .grad_norm = optional_of<double>(json, "grad_norm"),
                      .clipped = json.at("clipped"),
                      .skipped = json.at("skipped"),
                      .skip_reason = json.at("skip_reason"),
                      .bad_grain = optional_of<int64_t>(json, "bad_grain"),
                      .loss_scale = optional_of<int64_t>(json, "loss_scale"),
                      .lowers_loss_scale = json.at("lowers_loss_scale"),
                      .replays = json.at("replays")};
    report.grains = {.norm_mean = json.at("norm_mean"),
                     .norm_variance = json.at("norm_variance"),
                     .noise_scale = optional_of<double>(json, "noise_scale")};
    return report;
}

}  // namespace accrue
