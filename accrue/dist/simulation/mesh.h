#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "accrue/dist/messages.h"
#include "accrue/dist/simulation/model.h"

namespace accrue::simulation {

// What a member brings to an operation: its state to a broadcast, its sums to an exchange.
struct Contribution {
    State state;
    Sums sums;
};

// What goes wrong in an exchange: the range's owner adds up something else, or one member gets another sum of it.
struct Corruption {
    size_t range = 0;
    std::optional<size_t> receiver;  // none: it is the owner
};

// One thing that all members of a roster do in the mesh.
struct Operation {
    std::vector<std::optional<Contribution>> given;  // by rank
    std::optional<Corruption> corruption;

    [[nodiscard]] bool is_begun() const;
    [[nodiscard]] bool is_complete() const;
    // What all have given, as a member gets it.
    [[nodiscard]] Integers total(size_t rank) const;
};

// The members of a roster, connected with each other: operations by number, each of which all take part in. If one of them is
// gone, nobody is sure to get a result.
class SimulatedMesh {
public:
    explicit SimulatedMesh(size_t members) : members_(members) {}

    // Stays where it is.
    [[nodiscard]] Operation& operation(size_t number);
    [[nodiscard]] size_t members() const { return members_; }
    void break_off() { is_broken_ = true; }
    [[nodiscard]] bool is_broken() const { return is_broken_; }

private:
    size_t members_;
    std::deque<Operation> operations_;
    bool is_broken_ = false;
};

// Sums modulo 2^64 of elements, each range by itself.
[[nodiscard]] std::vector<uint64_t> checks_of(const Integers& integers, size_t ranges);

}  // namespace accrue::simulation
