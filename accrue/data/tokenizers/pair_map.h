#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "accrue/base/random.h"

namespace accrue {

// Values by a pair of ids that are not negative; quick to ask, because each pair that meets in a text is looked up.
template <class Value>
class PairMap {
public:
    PairMap() : slots_(kSmallest) {}

    // Sets the value of a pair, whether it had one or not.
    void set(int32_t left, int32_t right, const Value& value) {
        if (2 * (size_ + 1) > slots_.size()) {
            grow();
        }
        Slot& slot = slots_[place_of(slots_, key_of(left, right))];
        size_ += slot.key == kEmpty ? 1 : 0;
        slot = {key_of(left, right), value};
    }

    // The value of a pair, or null.
    [[nodiscard]] const Value* find(int32_t left, int32_t right) const {
        const Slot& slot = slots_[place_of(slots_, key_of(left, right))];
        return slot.key == kEmpty ? nullptr : &slot.value;
    }
    [[nodiscard]] Value* find(int32_t left, int32_t right) {
        Slot& slot = slots_[place_of(slots_, key_of(left, right))];
        return slot.key == kEmpty ? nullptr : &slot.value;
    }

private:
    static constexpr size_t kSmallest = 16;
    static constexpr uint64_t kEmpty = UINT64_MAX;

    struct Slot {
        uint64_t key = kEmpty;
        Value value{};
    };

    static uint64_t key_of(int32_t left, int32_t right) {
        return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    }

    static size_t place_of(const std::vector<Slot>& slots, uint64_t key) {
        const size_t mask = slots.size() - 1;
        size_t place = mix(key) & mask;
        while (slots[place].key != key && slots[place].key != kEmpty) {
            place = (place + 1) & mask;
        }
        return place;
    }

    void grow() {
        std::vector<Slot> larger(2 * slots_.size());
        for (Slot& slot : slots_) {
            if (slot.key != kEmpty) {
                larger[place_of(larger, slot.key)] = std::move(slot);
            }
        }
        slots_ = std::move(larger);
    }

    std::vector<Slot> slots_;
    size_t size_ = 0;
};

}  // namespace accrue
