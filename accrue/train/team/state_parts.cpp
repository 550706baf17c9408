#include "accrue/train/team/state_parts.h"

#include <functional>

namespace accrue {

std::vector<std::span<std::byte>> state_parts(Engine& engine) {
    const View<float>& master = engine.weights.master;
    std::vector<std::span<std::byte>> parts = {
        std::as_writable_bytes(std::span(master.data, static_cast<size_t>(master.elements())))};
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        for (const StoredMoment::Part& part : moment.parts) {
            parts.push_back(part.device_bytes);
        }
    }
    parts.push_back(engine.sum.device_bytes());
    return parts;
}

std::optional<StatePlace> place_in(std::span<const std::span<std::byte>> parts, std::span<const std::byte> bytes) {
    const std::less_equal<> not_behind;
    for (size_t part = 0; part < parts.size(); ++part) {
        const std::byte* const begin = parts[part].data();
        const std::byte* const end = begin + parts[part].size();
        if (not_behind(begin, bytes.data()) && not_behind(bytes.data() + bytes.size(), end) && !parts[part].empty()) {
            return StatePlace{.part = static_cast<int64_t>(part), .offset = bytes.data() - begin};
        }
    }
    return std::nullopt;
}

}  // namespace accrue
