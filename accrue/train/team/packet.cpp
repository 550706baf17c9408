#include "accrue/train/team/packet.h"

#include <cstring>
#include <limits>

#include "accrue/base/error.h"
#include "accrue/base/received_json.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kLengthBytes = 8;
// No run has more samples, steps or tokens, and sums of a few such numbers fit.
constexpr int64_t kMost = int64_t{1} << 48;

[[noreturn]] void fail(const std::string& why) {
    throw Error("a message between a worker and the run's leader is damaged: " + why + ".");
}

template <class T>
void append(std::string& to, const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    to.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// What read() gives. What it does not find, or finds to be of another kind, is damage.
template <class Read>
auto found_by(const Read& read) {
    try {
        return read();
    } catch (const Json::exception& error) {
        fail(error.what());
    }
}

int64_t whole_number(const Json& value, const char* name, int64_t least) {
    const bool is_huge = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMost);
    if (!value.is_number_integer() || is_huge || value.get<int64_t>() < least || value.get<int64_t>() > kMost) {
        fail(cat(name, " is ", value.dump(), ", not a whole number from ", least, " to ", kMost));
    }
    return value.get<int64_t>();
}

int64_t number_at(const Json& json, const char* name, int64_t least = 0) {
    return whole_number(json.at(name), name, least);
}

// What is not finite is written as null.
double real_at(const Json& json, const char* name) {
    const Json& value = json.at(name);
    return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

// The next `count` values of a packet's bytes, which are then gone from them.
template <class T>
std::vector<T> taken(std::string_view& from, int64_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    const auto number = static_cast<uint64_t>(count);
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

// Parts of a batch follow one another and leave no row out.
void require_next(int64_t& next, int64_t first, int64_t rows, int64_t all, const char* what) {
    if (first != next || rows < 0 || rows > all - first) {
        fail(cat(what, " of ", rows, " rows begins at row ", first, " of ", all, ", but should begin at ", next));
    }
    next += rows;
}

void require_whole(const TokenBatch& batch) {
    const int64_t rows = batch.rows();
    int64_t next = 0;
    for (const Segment& segment : batch.segments) {
        require_next(next, segment.first, segment.length, rows, "a segment");
    }
    int64_t next_of_grains = 0;
    for (const auto& [number, range] : batch.grains) {
        require_next(next_of_grains, range.first, range.rows, rows, "a grain");
        if (number < 0) {
            fail(cat("a grain has the number ", number));
        }
    }
    if (next != rows || next_of_grains != rows) {
        fail(cat("of ", rows, " rows, ", next, " are in segments and ", next_of_grains, " in grains"));
    }
    for (size_t row = 0; row < batch.tokens.size(); ++row) {
        if (batch.tokens[row] < 0 || batch.targets[row] < -1 || batch.positions[row] < 0 ||
            batch.positions[row] >= rows) {
            fail(cat("row ", row, " has token ", batch.tokens[row], ", target ", batch.targets[row], " and position ",
                     batch.positions[row]));
        }
    }
}

template <class T>
void put_optional(Json& json, const char* name, const std::optional<T>& value) {
    if (value) {
        json[name] = *value;
    }
}

std::optional<int64_t> optional_number_at(const Json& json, const char* name) {
    return json.contains(name) ? std::optional(number_at(json, name)) : std::nullopt;
}

std::optional<double> optional_real_at(const Json& json, const char* name) {
    return json.contains(name) ? std::optional(real_at(json, name)) : std::nullopt;
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
        return {.words = received_json(std::string_view(text).substr(kLengthBytes, length)),
                .bytes = text.substr(kLengthBytes + length)};
    } catch (const std::exception& error) {
        fail(error.what());
    }
}

Json json_of(const DataPosition& position) {
    return {{"epoch", position.epoch}, {"place", position.place}};
}

DataPosition position_of(const Json& json) {
    return found_by(
        [&]() -> DataPosition { return {.epoch = number_at(json, "epoch"), .place = number_at(json, "place")}; });
}

Json json_of(const Window& window) {
    return {{"first", json_of(window.first)},
            {"samples", window.samples},
            {"grain_samples", window.grain_samples},
            {"ends_epoch", window.ends_epoch},
            {"is_short", window.is_short}};
}

Window window_of(const Json& json) {
    return found_by([&]() -> Window {
        return {.first = position_of(json.at("first")),
                .samples = number_at(json, "samples", 1),
                .grain_samples = number_at(json, "grain_samples", 1),
                .ends_epoch = json.at("ends_epoch"),
                .is_short = json.at("is_short")};
    });
}

int64_t number_of(const Packet& packet, const char* name) {
    return found_by([&] { return number_at(packet.words, name); });
}

Packet packet_of(const BatchQuestion& question) {
    return {.words = {{"window", json_of(question.window)}, {"grains", question.grains}}};
}

BatchQuestion batch_question_of(const Packet& packet) {
    return found_by([&] {
        BatchQuestion question{.window = window_of(packet.words.at("window")), .grains = {}};
        for (const Json& number : packet.words.at("grains")) {
            question.grains.push_back(whole_number(number, "a grain", 0));
            if (question.grains.back() >= question.window.grains()) {
                fail(cat("it asks for grain ", question.grains.back(), " of a window of ", question.window.grains()));
            }
        }
        return question;
    });
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
    return found_by([&] {
        std::string_view bytes = packet.bytes;
        const int64_t rows = number_at(packet.words, "rows");
        TokenBatch batch;
        batch.tokens = taken<int32_t>(bytes, rows);
        batch.targets = taken<int32_t>(bytes, rows);
        batch.positions = taken<int32_t>(bytes, rows);
        batch.row_keys = taken<uint64_t>(bytes, rows);
        batch.segments = taken<Segment>(bytes, number_at(packet.words, "segments"));
        batch.grains = taken<TokenBatch::Grain>(bytes, number_at(packet.words, "grains"));
        if (!bytes.empty()) {
            fail(cat("it has ", bytes.size(), " bytes too many"));
        }
        require_whole(batch);
        return batch;
    });
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
    return found_by([&] {
        StepReport report{.step = number_at(json, "step", 1),
                          .window = window_of(json.at("window")),
                          .loss = optional_real_at(json, "loss"),
                          .tokens = number_at(json, "tokens"),
                          .rate = real_at(json, "rate"),
                          .beta2 = real_at(json, "beta2"),
                          .grad_norm = optional_real_at(json, "grad_norm"),
                          .clipped = json.at("clipped"),
                          .skipped = json.at("skipped"),
                          .skip_reason = json.at("skip_reason"),
                          .bad_grain = optional_number_at(json, "bad_grain"),
                          .loss_scale = optional_number_at(json, "loss_scale"),
                          .lowers_loss_scale = json.at("lowers_loss_scale"),
                          .replays = number_at(json, "replays")};
        report.grains = {.norm_mean = real_at(json, "norm_mean"),
                         .norm_variance = real_at(json, "norm_variance"),
                         .noise_scale = optional_real_at(json, "noise_scale")};
        return report;
    });
}

}  // namespace accrue
