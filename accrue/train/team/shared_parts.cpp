#include "accrue/train/team/shared_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace accrue {
namespace {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

std::span<std::byte> bytes_in(const View<float>& row) {
    return std::as_writable_bytes(std::span(row.data, static_cast<size_t>(row.columns)));
}

// Of a moment's values, codes or scales.
struct MomentPart {
    size_t moment = 0;
    int64_t tensor = 0;
    bool is_scales = false;
};

std::optional<MomentPart> moment_part_of(Engine& engine, std::span<const StoredMoment> moments, int64_t part) {
    const int64_t tensors = std::ssize(engine.sum.tensors());
    const int64_t kinds = !moments.empty() && moments.front().format == MomentFormat::eight_bits ? 2 : 1;
    const int64_t number = part - 1;  // behind the weights
    if (number < 0 || number >= std::ssize(moments) * tensors * kinds) {
        return std::nullopt;
    }
    return MomentPart{.moment = static_cast<size_t>(number / (tensors * kinds)),
                      .tensor = number / kinds % tensors,
                      .is_scales = number % kinds == 1};
}

// Of so many elements, or of their blocks' scales.
int64_t bytes_before(MomentFormat format, bool is_scales, int64_t element) {
    if (format == MomentFormat::fp32) {
        return element * kFloatBytes;
    }
    return is_scales ? moment_blocks(element) * kFloatBytes : element;
}

std::vector<SharedPiece> pieces_of_moment(Engine& engine, const StoredMoment& moment, const MomentPart& of) {
    const KeptMoments& kept = engine.optimizer->kept();
    std::vector<SharedPiece> pieces;
    for (int64_t range = 0; range < std::ssize(kept.ranges()); ++range) {
        for (const TensorPiece& piece : kept.pieces_of(range)) {
            if (piece.tensor != of.tensor) {
                continue;
            }
            const int64_t offset = bytes_before(moment.format, of.is_scales, piece.first);
            const int64_t end = bytes_before(moment.format, of.is_scales, piece.first + piece.count);
            const auto here = std::ranges::find_if(moment.parts, [&](const StoredMoment::Part& each) {
                return each.tensor == of.tensor && each.range == range && each.suffix.empty() != of.is_scales;
            });
            pieces.push_back({.range = range,
                              .offset = offset,
                              .bytes = end - offset,
                              .here = here == moment.parts.end() ? std::span<std::byte>() : here->device_bytes});
        }
    }
    return pieces;
}

std::vector<SharedPiece> pieces_of_weights(Engine& engine) {
    std::vector<SharedPiece> pieces;
    std::map<std::pair<int64_t, int64_t>, std::span<std::byte>> kept;  // by range and place
    for (const Engine::MasterPiece& piece : engine.masters()) {
        const std::span<std::byte> bytes = bytes_in(piece.values);
        if (piece.range == Engine::MasterPiece::kEverywhere) {
            pieces.push_back({.offset = piece.first * kFloatBytes, .bytes = std::ssize(bytes), .here = bytes});
        } else {
            kept[{piece.range, piece.first}] = bytes;
        }
    }
    const KeptMoments& ranges = engine.optimizer->kept();
    for (int64_t range = 0; range < std::ssize(ranges.ranges()); ++range) {
        for (const TensorPiece& piece : ranges.pieces_of(range)) {
            if (engine.weights.is_in_kept(piece.tensor)) {
                const int64_t first = engine.model->parameters().of_gradient(piece.tensor).offset + piece.first;
                const auto here = kept.find({range, first});
                pieces.push_back({.range = range,
                                  .offset = first * kFloatBytes,
                                  .bytes = piece.count * kFloatBytes,
                                  .here = here == kept.end() ? std::span<std::byte>() : here->second});
            }
        }
    }
    return pieces;
}

// Calls action(device bytes, where they begin among those from `first` on) for so many bytes of pieces that follow one another.
template <class Action>
void for_bytes(const MemoryPieces& pieces, int64_t first, int64_t bytes, const Action& action) {
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

}  // namespace

std::vector<SharedPiece> pieces_of_part(Engine& engine, int64_t part) {
    if (part == 0) {
        return pieces_of_weights(engine);
    }
    const std::vector<StoredMoment> moments = engine.optimizer->moments();
    const auto of = moment_part_of(engine, moments, part);
    return of ? pieces_of_moment(engine, moments[of->moment], *of) : std::vector<SharedPiece>();
}

int64_t size_of(const MemoryPieces& pieces) {
    int64_t bytes = 0;
    for (const std::span<std::byte>& piece : pieces) {
        bytes += std::ssize(piece);
    }
    return bytes;
}

void download_pieces(Kernels& kernels, const MemoryPieces& pieces, int64_t first, std::span<std::byte> into) {
    for_bytes(pieces, first, std::ssize(into), [&](std::span<std::byte> device, int64_t place) {
        download(kernels, static_cast<const std::byte*>(device.data()),
                 into.subspan(static_cast<size_t>(place), device.size()));
    });
}

void upload_pieces(Kernels& kernels, const MemoryPieces& pieces, int64_t first, std::span<const std::byte> from) {
    for_bytes(pieces, first, std::ssize(from), [&](std::span<std::byte> device, int64_t place) {
        upload(kernels, from.subspan(static_cast<size_t>(place), device.size()), device.data());
    });
}

MemoryPieces kept_weights_of(Engine& engine, int64_t range) {
    MemoryPieces pieces;
    for (const Engine::MasterPiece& piece : engine.masters()) {
        if (piece.range == range) {
            pieces.push_back(bytes_in(piece.values));
        }
    }
    return pieces;
}

MemoryPieces kept_of(Engine& engine, int64_t range) {
    MemoryPieces pieces = kept_weights_of(engine, range);
    for (const StoredMoment& moment : engine.optimizer->moments()) {
        for (const StoredMoment::Part& part : moment.parts) {
            if (part.range == range) {
                pieces.push_back(part.device_bytes);
            }
        }
    }
    return pieces;
}

int64_t kept_bytes_of(Engine& engine, int64_t range) {
    const std::vector<StoredMoment> moments = engine.optimizer->moments();
    int64_t bytes = 0;
    for (const TensorPiece& piece : engine.optimizer->kept().pieces_of(range)) {
        bytes += engine.weights.is_in_kept(piece.tensor) ? piece.count * kFloatBytes : 0;
        for (const StoredMoment& moment : moments) {
            bytes += bytes_of(moment.format, piece);
        }
    }
    return bytes;
}

MemoryPieces read_weights_of(Engine& engine, int64_t range) {
    const ParameterList& parameters = engine.model->parameters();
    const WeightBuffers& weights = engine.weights;
    MemoryPieces pieces;
    for (const TensorPiece& piece : engine.optimizer->kept().pieces_of(range)) {
        const int64_t offset = parameters.of_gradient(piece.tensor).offset;
        if (weights.is_in_kept(piece.tensor)) {
            const AnyView copy = weights.copy.slice_columns(offset + piece.first, piece.count);
            pieces.emplace_back(static_cast<std::byte*>(copy.data),
                                static_cast<size_t>(copy.elements() * bytes_of(copy.dtype)));
        } else {
            const int64_t place = weights.place_of(piece.tensor, offset) + piece.first;
            pieces.push_back(bytes_in(weights.master.slice_columns(place, piece.count)));
        }
    }
    return pieces;
}

}  // namespace accrue
