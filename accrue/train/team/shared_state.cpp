#include "accrue/train/team/shared_state.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/train/team/shared_parts.h"

namespace accrue {
namespace {

using Json = nlohmann::ordered_json;

// What a member comes with.
struct Status {
    int64_t step = -1;
    std::vector<int64_t> held;
    bool is_whole = false;
    std::optional<ExchangeName> voted;
    std::optional<ExchangeName> committed;
};

Json json_of(const std::optional<ExchangeName>& name) {
    return name ? Json{name->term, name->roster, name->step, name->attempt} : Json();
}

std::optional<ExchangeName> name_of(const Json& json) {
    if (json.is_null()) {
        return std::nullopt;
    }
    return ExchangeName{.term = json.at(0), .roster = json.at(1), .step = json.at(2), .attempt = json.at(3)};
}

Status status_of(const std::string& text) {
    const Json json = Json::parse(text);
    return {.step = json.at("step"),
            .held = json.at("held").get<std::vector<int64_t>>(),
            .is_whole = json.at("whole"),
            .voted = name_of(json.at("voted")),
            .committed = name_of(json.at("committed"))};
}

int64_t newest_of(std::span<const Status> all) {
    return std::ranges::max_element(all, {}, &Status::step)->step;
}

// Whoever has voted on the exchange by which another stands at the newest step can stand there too.
std::vector<bool> who_is_there(std::span<const Status> all) {
    const int64_t newest = newest_of(all);
    std::optional<ExchangeName> committed;
    for (const Status& each : all) {
        if (each.step == newest && each.committed && each.committed->step == newest) {
            committed = each.committed;
        }
    }
    std::vector<bool> is_there;
    for (const Status& each : all) {
        is_there.push_back(each.step == newest || (committed && each.step == newest - 1 && each.voted == committed));
    }
    return is_there;
}

}  // namespace

// ---- when a roster is formed

std::string SharedState::status(bool has_state) const {
    return Json{{"step", has_state ? engine_.state.step : -1},
                {"held", std::vector<int64_t>(held_.begin(), held_.end())},
                {"whole", is_whole_},
                {"voted", json_of(linked_.voted())},
                {"committed", json_of(linked_.committed())}}
        .dump();
}

std::optional<int64_t> SharedState::level_out(Mesh& mesh, int64_t rank, const Update& update) {
    std::vector<Status> all;
    for (const std::string& told : mesh.tell_all(status(update.has_state))) {
        all.push_back(status_of(told));
    }
    const int64_t newest = newest_of(all);
    if (newest < 0) {
        return std::nullopt;
    }
    const std::vector<bool> is_there = who_is_there(all);
    const auto mine = static_cast<size_t>(rank);
    if (is_there[mine] && all[mine].step < newest) {
        begin_update();
        linked_.take_voted(engine_.sum);
        update.apply();
    }
    if (!is_there[mine]) {
        update.has_state = false;
        is_whole_ = false;
        held_.clear();
    }
    std::vector<std::vector<int64_t>> held;
    bool all_are_whole = true;
    for (size_t each = 0; each < all.size(); ++each) {
        held.push_back(is_there[each] ? all[each].held : std::vector<int64_t>());
        all_are_whole = all_are_whole && all[each].step == newest && all[each].is_whole;
    }
    auto keepers = keepers_after(sharing_, held);
    if (!keepers) {
        update.has_state = false;
        is_whole_ = false;
        held_.clear();
        throw RosterChanged("all workers that had some part of the run's state are gone");
    }
    const std::set<int64_t> computed = held_;
    keep(std::move(*keepers), rank);
    hand_on_ranges(mesh, held);
    const auto first = std::ranges::find(is_there, true) - is_there.begin();
    if (!all_are_whole) {
        if (std::ranges::count(is_there, true) < std::ssize(is_there)) {
            hand_on_frozen(mesh, first);
        }
        hand_on_weights(mesh, computed);
    }
    is_whole_ = true;
    return first;
}

// What is held stays in its place, what is new takes a free one.
void SharedState::keep(RangeKeepers keepers, int64_t rank) {
    keepers_ = std::move(keepers);
    KeptMoments& kept = engine_.optimizer->kept();
    std::vector<int64_t> by_place(kept.by_place().begin(), kept.by_place().end());
    std::vector<int64_t> mine = ranges_kept_by(keepers_, rank);
    for (int64_t& range : by_place) {
        if (!held_.contains(range) || std::erase(mine, range) == 0) {
            range = KeptMoments::kNone;
        }
    }
    for (const int64_t range : mine) {
        const auto free = std::ranges::find(by_place, KeptMoments::kNone);
        if (free == by_place.end()) {
            throw Error(cat("a worker was given more than ", by_place.size(), " parts of the state: it has no room."));
        }
        *free = range;
    }
    kept.keep(std::move(by_place));
    linked_.share({kept.ranges().begin(), kept.ranges().end()}, keepers_);
}

// Each range that has a keeper without it.
void SharedState::hand_on_ranges(Mesh& mesh, const std::vector<std::vector<int64_t>>& held) {
    std::vector<int64_t> lacking;
    std::vector<MemoryPieces> pieces;
    std::vector<GatherSource> sources;
    for (int64_t range = 0; range < sharing_.ranges; ++range) {
        const bool is_lacking = std::ranges::any_of(keepers_[static_cast<size_t>(range)], [&](int64_t keeper) {
            const auto& has = held[static_cast<size_t>(keeper)];
            return std::ranges::find(has, range) == has.end();
        });
        if (is_lacking) {
            lacking.push_back(range);
            pieces.push_back(kept_of(engine_, range));
            sources.push_back({.from_rank = owner_of(range), .bytes = kept_bytes_of(engine_, range)});
        }
    }
    if (lacking.empty()) {
        return;
    }
    mesh.gather(
        sources,
        [&](size_t number, int64_t first, std::span<std::byte> into) {
            download_pieces(engine_.kernels, pieces[number], first, into);
        },
        [&](size_t number, int64_t first, std::span<const std::byte> from) {
            if (!held_.contains(lacking[number])) {
                upload_pieces(engine_.kernels, pieces[number], first, from);
            }
        });
    hold_all_kept();
}

void SharedState::hold_all_kept() {
    for (const int64_t range : engine_.optimizer->kept().by_place()) {
        if (range != KeptMoments::kNone) {
            held_.insert(range);
        }
    }
}

// ---- weights

void SharedState::hand_on_weights(Mesh& mesh, const std::set<int64_t>& computed) {
    std::vector<MemoryPieces> ranges;
    std::vector<GatherSource> sources;
    for (int64_t range = 0; range < sharing_.ranges; ++range) {
        ranges.push_back(read_weights_of(engine_, range));
        sources.push_back({.from_rank = owner_of(range), .bytes = size_of(ranges.back())});
    }
    mesh.gather(
        sources,
        [&](size_t range, int64_t first, std::span<std::byte> into) {
            download_pieces(engine_.kernels, ranges[range], first, into);
        },
        [&](size_t range, int64_t first, std::span<const std::byte> from) {
            if (!computed.contains(static_cast<int64_t>(range))) {
                upload_pieces(engine_.kernels, ranges[range], first, from);
                return;
            }
            std::vector<std::byte> mine(from.size());
            download_pieces(engine_.kernels, ranges[range], first, mine);
            if (!std::ranges::equal(mine, from)) {
                throw other_weights(static_cast<int64_t>(range));
            }
        });
    engine_.refresh_copy();
    compare_kept_weights(mesh);
}

Error SharedState::other_weights(int64_t range) const {
    return Error(cat("step ", engine_.state.step, ": this worker has other weights of range ", range,
                     " than the member of its roster with rank ", owner_of(range),
                     ", from the same sums: bits differ. Look at the memory of both machines."));
}

// What is gathered in bf16 says too little of the fp32 that the next update begins with.
void SharedState::compare_kept_weights(Mesh& mesh) {
    if (!engine_.shares_master()) {
        return;
    }
    Json mine = Json::object();
    for (const int64_t range : held_) {
        Hasher hasher;
        for (const std::span<std::byte>& piece : kept_weights_of(engine_, range)) {
            source_of(engine_.kernels, piece).for_pieces(int64_t{1} << 20, [&](std::span<const std::byte> some) {
                hasher.add(some);
            });
        }
        mine[std::to_string(range)] = hasher.digest();
    }
    const std::vector<std::string> told = mesh.tell_all(mine.dump());
    for (const int64_t range : held_) {
        const Json owners = Json::parse(told[static_cast<size_t>(owner_of(range))]);
        if (owners.at(std::to_string(range)) != mine.at(std::to_string(range))) {
            throw other_weights(range);
        }
    }
}

// Weights that are never updated.
void SharedState::hand_on_frozen(Mesh& mesh, int64_t from_rank) {
    const ParameterList& parameters = engine_.model->parameters();
    for (int64_t index = 0; index < parameters.count(); ++index) {
        if (parameters[index].gradient) {
            continue;
        }
        const View<float> master = engine_.master_of(index);
        const MemoryPieces all = {std::as_writable_bytes(std::span(master.data, static_cast<size_t>(master.columns)))};
        mesh.broadcast(
            from_rank, size_of(all),
            [&](int64_t first, std::span<std::byte> into) { download_pieces(engine_.kernels, all, first, into); },
            [&](int64_t first, std::span<const std::byte> from) { upload_pieces(engine_.kernels, all, first, from); });
    }
}

void SharedState::gather_weights(Mesh& mesh) {
    linked_.count([&] { hand_on_weights(mesh, held_); });
    is_whole_ = true;
}

// ---- for whoever leads the run

bool SharedState::begin(int64_t rank, int64_t members) {
    auto keepers = first_keepers(sharing_, members);
    if (!keepers) {
        return false;
    }
    held_.clear();
    is_whole_ = false;
    keep(std::move(*keepers), rank);
    for (const int64_t range : ranges_kept_by(keepers_, rank)) {
        for (const std::span<std::byte>& piece : kept_of(engine_, range)) {
            engine_.kernels.run(op::FillZero{piece});
        }
    }
    return true;
}

void SharedState::complete(Mesh& mesh) {
    hold_all_kept();
    engine_.refresh_copy();
    if (engine_.shares_master()) {
        hand_on_weights(mesh, held_);  // of what is kept elsewhere, the copy
    }
    is_whole_ = true;
}

bool SharedState::is_shared_part(int64_t part) const {
    return std::ranges::any_of(pieces_of_part(engine_, part),
                               [](const SharedPiece& piece) { return piece.range != SharedPiece::kEverywhere; });
}

void SharedState::write(std::span<const std::byte> bytes, int64_t part, int64_t offset) {
    const int64_t size = std::ssize(bytes);
    const int64_t weight_bytes = engine_.model->parameters().flat_elements * static_cast<int64_t>(sizeof(float));
    if (part == 0 && (offset < 0 || offset > weight_bytes - size)) {
        throw Error(cat("a run's weights have no ", size, " bytes at ", offset,
                        ": the run's leader has another model or other settings."));
    }
    for (const SharedPiece& piece : pieces_of_part(engine_, part)) {  // none of sums: their grains are computed again
        const int64_t from = std::max(offset, piece.offset);
        const int64_t end = std::min(offset + size, piece.offset + std::ssize(piece.here));
        if (from < end) {
            upload(engine_.kernels, bytes.subspan(static_cast<size_t>(from - offset), static_cast<size_t>(end - from)),
                   piece.here.data() + (from - piece.offset));
        }
    }
}

// What is shared, from whoever owns it.
std::string SharedState::read(Mesh& mesh, int64_t part, int64_t offset, int64_t bytes) {
    std::string all(static_cast<size_t>(bytes), '\0');
    const std::span<std::byte> into = std::as_writable_bytes(std::span(all));
    for (const SharedPiece& piece : pieces_of_part(engine_, part)) {
        const int64_t from = std::max(offset, piece.offset);
        const int64_t end = std::min(offset + bytes, piece.offset + piece.bytes);
        if (from >= end) {
            continue;
        }
        const auto read_here = [&](int64_t first, std::span<std::byte> some) {
            download(engine_.kernels, static_cast<const std::byte*>(piece.here.data()) + (from - piece.offset) + first,
                     some);
        };
        if (piece.range == SharedPiece::kEverywhere) {
            read_here(0, into.subspan(static_cast<size_t>(from - offset), static_cast<size_t>(end - from)));
            continue;
        }
        mesh.broadcast(
            owner_of(piece.range), end - from,
            [&](int64_t first, std::span<std::byte> some) {
                read_here(first, some);
                std::ranges::copy(some, into.begin() + (from - offset) + first);
            },
            [&](int64_t first, std::span<const std::byte> some) {
                std::ranges::copy(some, into.begin() + (from - offset) + first);
            });
    }
    return all;
}

}  // namespace accrue
