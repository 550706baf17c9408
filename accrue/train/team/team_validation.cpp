// What a leader does while its workers validate.
#include <algorithm>
#include <cstring>

#include "accrue/train/team/packet.h"
#include "accrue/train/team/serve_state.h"
#include "accrue/train/team/team_leader.h"

namespace accrue {

std::optional<Evaluation> TeamLeader::evaluate(const Dataset& data, int64_t samples_at_once, const StopFlag& stop,
                                               const std::function<void(int64_t, int64_t)>& told) {
    close_session();
    {
        const std::lock_guard lock(mutex_);
        validation_ = {.data = &data,
                       .all = {.first = {}, .samples = data.size(), .grain_samples = samples_at_once},
                       .ranges = {}};
        validation_.ranges.resize(static_cast<size_t>(validation_.all.grains()));
        for (size_t range = 0; range < validation_.ranges.size(); ++range) {
            validation_.ranges[range].grain = static_cast<int64_t>(range);
        }
    }
    const auto done = [this] { return std::ranges::count_if(validation_.ranges, &Range::is_done); };
    const int64_t task = set_task({{"do", "validate"}});
    const auto said = desk_.task_answer(task, [&] {
        look_after();
        const std::lock_guard lock(mutex_);
        validation_.stops = validation_.stops || stop;
        told(done() * samples_at_once, data.size());
        return false;
    });
    if (said == kNoState) {
        throw StateLost();
    }
    const std::lock_guard lock(mutex_);
    if (done() < std::ssize(validation_.ranges)) {
        return std::nullopt;
    }
    double sum = 0;
    int64_t tokens = 0;
    for (const Range& range : validation_.ranges) {
        for (size_t row = 0; row < range.losses.size(); ++row) {
            sum += static_cast<double>(range.losses[row]);
            tokens += range.is_counted[row] ? 1 : 0;
        }
    }
    return Evaluation{.loss = tokens > 0 ? sum / static_cast<double>(tokens) : 0, .tokens = tokens};
}

// Takes what the worker has computed, and gives it what nobody else of its roster has. One that slept through a roster may have
// other weights: it is not listened to. With the lock held.
Packet TeamLeader::next_range(const Packet& question) {
    const int64_t roster = number_of(question, "roster");
    if (roster != desk_.standing().roster) {
        return {};
    }
    if (question.words.contains("first")) {
        const auto place = static_cast<size_t>(number_of(question, "first"));
        if (place < validation_.ranges.size() && !validation_.ranges[place].is_done &&
            validation_.ranges[place].given_in_roster == roster) {
            Range& range = validation_.ranges[place];
            range.losses.resize(question.bytes.size() / sizeof(float));
            if (!range.losses.empty()) {
                std::memcpy(range.losses.data(), question.bytes.data(), range.losses.size() * sizeof(float));
            }
            range.is_done = range.losses.size() == range.is_counted.size();
        }
    }
    if (validation_.stops || validation_.data == nullptr) {
        return {};
    }
    const auto next = std::ranges::find_if(
        validation_.ranges, [&](const Range& range) { return !range.is_done && range.given_in_roster < roster; });
    if (next == validation_.ranges.end()) {
        return {};
    }
    next->given_in_roster = roster;
    const Loader loader(*validation_.data, SampleOrder(SampleOrder::Kind::sequential, 0, validation_.data->size()));
    const TokenBatch batch = loader.load(validation_.all, std::span(&next->grain, 1));
    next->is_counted.clear();
    for (const int32_t target : batch.targets) {
        next->is_counted.push_back(target >= 0);
    }
    Packet packet = packet_of(batch);
    packet.words["first"] = next->grain;
    return packet;
}

}  // namespace accrue
