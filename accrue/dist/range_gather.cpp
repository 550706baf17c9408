#include "accrue/dist/range_gather.h"

#include <algorithm>

#include "accrue/base/hash.h"

namespace accrue {
namespace {

std::span<std::byte> bytes_in(std::vector<int64_t>& memory, int64_t bytes) {
    memory.resize(static_cast<size_t>((bytes + 7) / 8));
    return std::as_writable_bytes(std::span(memory)).first(static_cast<size_t>(bytes));
}

}  // namespace

// None behind the last one.
const RangeGather::Piece* RangeGather::piece_of(int64_t rank, size_t number) const {
    const std::vector<Piece>& pieces = owned_[static_cast<size_t>(rank)];
    return number < pieces.size() ? &pieces[number] : nullptr;
}

std::vector<uint64_t> RangeGather::gather(std::span<const GatherSource> sources, const ReadSource& read,
                                          const WriteSource& write) {
    owned_.assign(static_cast<size_t>(size_), {});
    size_t most_pieces = 0;
    for (size_t source = 0; source < sources.size(); ++source) {
        std::vector<Piece>& pieces = owned_[static_cast<size_t>(sources[source].from_rank)];
        for (int64_t first = 0; first < sources[source].bytes; first += kPieceBytes) {
            pieces.push_back(
                {.source = source, .first = first, .bytes = std::min(kPieceBytes, sources[source].bytes - first)});
        }
        most_pieces = std::max(most_pieces, pieces.size());
    }
    std::vector<uint64_t> hashes(sources.size(), 0);
    const int64_t others = size_ - 1;
    std::vector<int64_t> mine;  // a piece that goes to all others
    std::span<std::byte> of_mine;
    const auto take = [&](const Piece& piece) {
        for (int64_t lane = 0; lane < 2; ++lane) {
            wait_for(lanes_.of(lane).sent);  // the piece before it
        }
        of_mine = bytes_in(mine, piece.bytes);
        read(piece.source, piece.first, of_mine);
        hashes[piece.source] = hash64_of(of_mine, hashes[piece.source]);
    };
    const auto rank_at = [&](int64_t number, int64_t sign) {
        return (rank_ + size_ + sign * (1 + number % others)) % size_;
    };
    const auto begin = [&](int64_t number) {
        const auto place = static_cast<size_t>(number / others);
        Lane& lane = lanes_.of(number);
        if (const Piece* const theirs = piece_of(rank_at(number, -1), place)) {
            lane.received = wire_.receive(rank_at(number, -1), bytes_in(lane.incoming, theirs->bytes));
        }
        wait_for(lane.sent);
        if (const Piece* const piece = piece_of(rank_, place)) {
            if (number % others == 0) {
                take(*piece);
            }
            lane.sent = wire_.send(rank_at(number, 1), of_mine);
        }
    };
    const auto finish = [&](int64_t number) {
        const int64_t from_rank = rank_at(number, -1);
        if (const Piece* const theirs = piece_of(from_rank, static_cast<size_t>(number / others))) {
            Lane& lane = lanes_.of(number);
            wait_for(lane.received);
            const std::span<std::byte> bytes = bytes_in(lane.incoming, theirs->bytes);
            if (disturb_) {
                disturb_({.of = Arrival::Of::state, .from_rank = from_rank, .first = theirs->first, .bytes = bytes});
            }
            hashes[theirs->source] = hash64_of(bytes, hashes[theirs->source]);
            write(theirs->source, theirs->first, bytes);
        }
    };
    if (others > 0) {
        lanes_.run(static_cast<int64_t>(most_pieces) * others, begin, finish);
    }
    return hashes;
}

}  // namespace accrue
