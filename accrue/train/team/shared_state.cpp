#include "accrue/train/team/shared_state.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <nlohmann/json.hpp>

#include "accrue/base/error.h"

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

int64_t size_of(std::span<const std::span<std::byte>> pieces) {
    int64_t bytes = 0;
    for (const std::span<std::byte>& piece : pieces) {
        bytes += std::ssize(piece);
    }
    return bytes;
}

// Calls action(device bytes, where they begin among those from `first` on) for so many bytes of pieces that follow one another.
template <class Action>
void for_bytes(std::span<const std::span<std::byte>> pieces, int64_t first, int64_t bytes, const Action& action) {
    int64_t begin = 0;
    for (const std::span<std::byte>& piece : pieces) {
        const int64_t from = std::max(first, begin);
        const int64_t end = std::min(first + bytes, begin + std::ssize(piece));
        if (from < end) {
            action(piece.subspan(static_cast<size_t>(from - begin), static_cast<size_t>(end - from)), from - first);
        }
        begin += std::ssize(piece);
    }
}

void download_pieces(Kernels& kernels, std::span<const std::span<std::byte>> pieces, int64_t first,
                     std::span<std::byte> into) {
    for_bytes(pieces, first, std::ssize(into), [&](std::span<std::byte> device, int64_t place) {
        download(kernels, static_cast<const std::byte*>(device.data()),
                 into.subspan(static_cast<size_t>(place), device.size()));
    });
}

void upload_pieces(Kernels& kernels, std::span<const std::span<std::byte>> pieces, int64_t first,
                   std::span<const std::byte> from) {
    for_bytes(pieces, first, std::ssize(from), [&](std::span<std::byte> device, int64_t place) {
        upload(kernels, from.subspan(static_cast<size_t>(place), device.size()), device.data());
    });
}

// Of one element, or of a block's scale: both as bytes for each element of a moment's part.
int64_t bytes_before(MomentFormat format, int64_t kind, int64_t element) {
    if (format == MomentFormat::fp32) {
        return element * 4;
    }
    return kind == 0 ? element : moment_blocks(element) * 4;
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
    hand_on_moments(mesh, held);
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

namespace {

// Of a range, moment by moment; empty where it is not kept here.
std::vector<std::span<std::byte>> moments_in(Engine& engine, int64_t range) {
    std::vector<std::span<std::byte>> pieces;
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        for (const StoredMoment::Part& part : moment.parts) {
            if (part.range == range) {
                pieces.push_back(part.device_bytes);
            }
        }
    }
    return pieces;
}

int64_t moment_bytes_of(Engine& engine, int64_t range) {
    int64_t bytes = 0;
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        for (const TensorPiece& piece : engine.optimizer->kept().pieces_of(range)) {
            bytes += bytes_of(moment.format, piece);
        }
    }
    return bytes;
}

}  // namespace

// Each range that has a keeper without it.
void SharedState::hand_on_moments(Mesh& mesh, const std::vector<std::vector<int64_t>>& held) {
    std::vector<int64_t> lacking;
    std::vector<std::vector<std::span<std::byte>>> pieces;
    std::vector<GatherSource> sources;
    for (int64_t range = 0; range < sharing_.ranges; ++range) {
        const bool is_lacking = std::ranges::any_of(keepers_[static_cast<size_t>(range)], [&](int64_t keeper) {
            const auto& has = held[static_cast<size_t>(keeper)];
            return std::ranges::find(has, range) == has.end();
        });
        if (is_lacking) {
            lacking.push_back(range);
            pieces.push_back(moments_in(engine_, range));
            sources.push_back({.from_rank = owner_of(range), .bytes = moment_bytes_of(engine_, range)});
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

std::vector<std::span<std::byte>> SharedState::weights_in(int64_t range) const {
    const ParameterList& parameters = engine_.model->parameters();
    std::vector<std::span<std::byte>> pieces;
    for (const TensorPiece& piece : engine_.optimizer->kept().pieces_of(range)) {
        const int64_t first = parameters.of_gradient(piece.tensor).offset + piece.first;
        pieces.push_back(
            std::as_writable_bytes(std::span(engine_.weights.master.data + first, static_cast<size_t>(piece.count))));
    }
    return pieces;
}

void SharedState::hand_on_weights(Mesh& mesh, const std::set<int64_t>& computed) {
    std::vector<std::vector<std::span<std::byte>>> ranges;
    std::vector<GatherSource> sources;
    for (int64_t range = 0; range < sharing_.ranges; ++range) {
        ranges.push_back(weights_in(range));
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
                throw Error(cat("step ", engine_.state.step, ": this worker has other weights of range ", range,
                                " than the member of its roster with rank ", sources[range].from_rank,
                                ", from the same sums: bits differ. Look at the memory of both machines."));
            }
        });
    engine_.refresh_copy();
}

// Weights that are never updated.
void SharedState::hand_on_frozen(Mesh& mesh, int64_t from_rank) {
    for (const Parameter& parameter : engine_.model->parameters().parameters) {
        if (parameter.gradient) {
            continue;
        }
        const std::array<std::span<std::byte>, 1> all = {std::as_writable_bytes(
            std::span(engine_.weights.master.data + parameter.offset, static_cast<size_t>(parameter.elements())))};
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
    for (const StoredMoment& moment : engine_.optimizer->moments()) {
        for (const StoredMoment::Part& part : moment.parts) {
            engine_.kernels.run(op::FillZero{part.device_bytes});
        }
    }
    return true;
}

void SharedState::complete() {
    hold_all_kept();
    engine_.refresh_copy();
    is_whole_ = true;
}

std::optional<SharedState::PartPlace> SharedState::place_of(int64_t part) const {
    const std::vector<StoredMoment> moments = engine_.optimizer->moments();
    const int64_t tensors = std::ssize(engine_.sum.tensors());
    const int64_t kinds = !moments.empty() && moments.front().format == MomentFormat::eight_bits ? 2 : 1;
    const int64_t number = part - 1;  // behind the weights
    if (number < 0 || number >= std::ssize(moments) * tensors * kinds) {
        return std::nullopt;
    }
    return PartPlace{.moment = static_cast<size_t>(number / (tensors * kinds)),
                     .tensor = number / kinds % tensors,
                     .kind = number % kinds};
}

bool SharedState::is_shared_part(int64_t part) const {
    return place_of(part).has_value();
}

void SharedState::write(std::span<const std::byte> bytes, int64_t part, int64_t offset) {
    const auto place = place_of(part);
    const int64_t size = std::ssize(bytes);
    if (!place) {
        const auto all = std::as_writable_bytes(
            std::span(engine_.weights.master.data, static_cast<size_t>(engine_.weights.master.elements())));
        if (part != 0) {
            return;  // sums: the grains of a window that was open are computed again
        }
        if (offset < 0 || offset > std::ssize(all) - size) {
            throw Error(cat("a run's weights have no ", size, " bytes at ", offset,
                            ": the run's leader has another model or other settings."));
        }
        upload(engine_.kernels, bytes, all.data() + offset);
        return;
    }
    const StoredMoment moment = engine_.optimizer->moments()[place->moment];
    for (const StoredMoment::Part& each : moment.parts) {
        if (each.tensor != place->tensor || each.suffix.empty() != (place->kind == 0)) {
            continue;
        }
        const int64_t from = std::max(offset, each.offset);
        const int64_t end = std::min(offset + size, each.offset + std::ssize(each.device_bytes));
        if (from < end) {
            upload(engine_.kernels, bytes.subspan(static_cast<size_t>(from - offset), static_cast<size_t>(end - from)),
                   each.device_bytes.data() + (from - each.offset));
        }
    }
}

// Range by range, from whoever owns it.
std::string SharedState::read(Mesh& mesh, int64_t part, int64_t offset, int64_t bytes) {
    const PartPlace place = place_of(part).value();
    const StoredMoment moment = engine_.optimizer->moments()[place.moment];
    std::string all(static_cast<size_t>(bytes), '\0');
    const std::span<std::byte> into = std::as_writable_bytes(std::span(all));
    for (int64_t range = 0; range < sharing_.ranges; ++range) {
        for (const TensorPiece& piece : engine_.optimizer->kept().pieces_of(range)) {
            const int64_t from = std::max(offset, bytes_before(moment.format, place.kind, piece.first));
            const int64_t end =
                std::min(offset + bytes, bytes_before(moment.format, place.kind, piece.first + piece.count));
            if (piece.tensor != place.tensor || from >= end) {
                continue;
            }
            const auto kept = std::ranges::find_if(moment.parts, [&](const StoredMoment::Part& each) {
                return each.tensor == place.tensor && each.range == range && each.suffix.empty() == (place.kind == 0);
            });
            mesh.broadcast(
                owner_of(range), end - from,
                [&](int64_t first, std::span<std::byte> some) {
                    download(engine_.kernels,
                             static_cast<const std::byte*>(kept->device_bytes.data()) + (from - kept->offset) + first,
                             some);
                    std::ranges::copy(some, into.begin() + (from - offset) + first);
                },
                [&](int64_t first, std::span<const std::byte> some) {
                    std::ranges::copy(some, into.begin() + (from - offset) + first);
                });
        }
    }
    return all;
}

}  // namespace accrue
