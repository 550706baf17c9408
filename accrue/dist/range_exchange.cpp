#include "accrue/dist/range_exchange.h"

#include <algorithm>

#include "accrue/dist/linear_check.h"

namespace accrue {
RangeExchange::Checks RangeExchange::add_up(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed) {
    share_out(shared);
    Checks checks;
    checks.given = reduce(sums, shared, seed);
    pass_on(shared);
    checks.total = checks_of_totals(shared, seed);
    return checks;
}

void RangeExchange::share_out(const SharedRanges& shared) {
    owned_.assign(static_cast<size_t>(size_), {});
    for (size_t range = 0; range < shared.ranges.size(); ++range) {
        std::vector<Piece>& pieces = owned_[static_cast<size_t>(shared.keepers[range].front())];
        const ElementRange& all = shared.ranges[range];
        for (int64_t first = all.first; first < all.end(); first += kPieceElements) {
            pieces.push_back(
                {.range = range, .elements = {.first = first, .count = std::min(kPieceElements, all.end() - first)}});
        }
    }
}

// As many for each piece as there are others; alone, one.
int64_t RangeExchange::jobs() const {
    int64_t pieces = 0;
    for (const auto& each : owned_) {
        pieces = std::max(pieces, std::ssize(each));
    }
    return pieces * std::max<int64_t>(size_ - 1, 1);
}

RangeExchange::Job RangeExchange::job_of(int64_t number) const {
    const int64_t jobs_of_piece = std::max<int64_t>(size_ - 1, 1);
    const int64_t distance = 1 + number % jobs_of_piece;
    return {.to_rank = (rank_ + distance) % size_,
            .from_rank = (rank_ + size_ - distance % size_) % size_,
            .piece = static_cast<size_t>(number / jobs_of_piece),
            .is_first = distance == 1};
}

// None behind the last one.
const RangeExchange::Piece* RangeExchange::piece_of(int64_t rank, size_t number) const {
    const std::vector<Piece>& pieces = owned_[static_cast<size_t>(rank)];
    return number < pieces.size() ? &pieces[number] : nullptr;
}

std::span<int64_t> RangeExchange::total_of(const SharedRanges& shared, const Piece& piece) {
    const int64_t first = piece.elements.first - shared.ranges[piece.range].first;
    return shared.totals[piece.range].subspan(static_cast<size_t>(first), static_cast<size_t>(piece.elements.count));
}

bool RangeExchange::keeps(const SharedRanges& shared, int64_t rank, const Piece& piece) {
    return std::ranges::find(shared.keepers[piece.range], rank) != shared.keepers[piece.range].end();
}

// Everybody's contributions to what I own; of each range, the check of what I gave to it.
std::vector<uint64_t> RangeExchange::reduce(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed) {
    std::vector<uint64_t> given(shared.ranges.size());
    const auto read = [&](const Piece& piece, std::span<int64_t> into) {
        sums.read(piece.elements.first, into);
        given[piece.range] += linear_check(into, piece.elements.first, seed);
    };
    const auto begin = [&](int64_t number) {
        const Job job = job_of(number);
        const Piece* const mine = piece_of(rank_, job.piece);
        Lane& lane = lanes_.of(number);
        if (job.to_rank != rank_) {
            if (mine != nullptr) {
                lane.incoming.resize(static_cast<size_t>(mine->elements.count));
                lane.received = wire_.receive(job.from_rank, std::as_writable_bytes(std::span(lane.incoming)));
            }
            wait_for(lane.sent);
            if (const Piece* const theirs = piece_of(job.to_rank, job.piece)) {
                lane.outgoing.resize(static_cast<size_t>(theirs->elements.count));
                read(*theirs, lane.outgoing);
                lane.sent = wire_.send(job.to_rank, std::as_bytes(std::span(lane.outgoing)));
            }
        }
        if (job.is_first && mine != nullptr) {
            read(*mine, total_of(shared, *mine));
        }
    };
    const auto finish = [&](int64_t number) {
        const Job job = job_of(number);
        const Piece* const mine = piece_of(rank_, job.piece);
        if (job.from_rank != rank_ && mine != nullptr) {
            Lane& lane = lanes_.of(number);
            wait_for(lane.received);
            show(Arrival::Of::contribution, job, *mine, lane.incoming);
            add_wrapping(total_of(shared, *mine), lane.incoming);
        }
    };
    lanes_.run(jobs(), begin, finish);
    return given;
}

// What an owner has added up, to the other keepers.
void RangeExchange::pass_on(const SharedRanges& shared) {
    const auto begin = [&](int64_t number) {
        const Job job = job_of(number);
        Lane& lane = lanes_.of(number);
        if (job.to_rank == rank_) {
            return;
        }
        const Piece* const theirs = piece_of(job.from_rank, job.piece);
        if (theirs != nullptr && keeps(shared, rank_, *theirs)) {
            lane.received = wire_.receive(job.from_rank, std::as_writable_bytes(total_of(shared, *theirs)));
        }
        wait_for(lane.sent);
        const Piece* const mine = piece_of(rank_, job.piece);
        if (mine != nullptr && keeps(shared, job.to_rank, *mine)) {
            lane.sent = wire_.send(job.to_rank, std::as_bytes(total_of(shared, *mine)));
        }
    };
    const auto finish = [&](int64_t number) {
        const Job job = job_of(number);
        const Piece* const theirs = job.from_rank == rank_ ? nullptr : piece_of(job.from_rank, job.piece);
        if (theirs != nullptr && keeps(shared, rank_, *theirs)) {
            wait_for(lanes_.of(number).received);
            show(Arrival::Of::total, job, *theirs, total_of(shared, *theirs));
        }
    };
    lanes_.run(jobs(), begin, finish);
}

std::vector<uint64_t> RangeExchange::checks_of_totals(const SharedRanges& shared, uint64_t seed) const {
    std::vector<uint64_t> checks(shared.ranges.size());
    for (const auto& pieces : owned_) {
        for (const Piece& piece : pieces) {
            if (keeps(shared, rank_, piece)) {
                checks[piece.range] += linear_check(total_of(shared, piece), piece.elements.first, seed);
            }
        }
    }
    return checks;
}

void RangeExchange::show(Arrival::Of of, const Job& job, const Piece& piece, std::span<int64_t> values) const {
    if (disturb_) {
        disturb_({.of = of,
                  .from_rank = job.from_rank,
                  .first = piece.elements.first,
                  .bytes = std::as_writable_bytes(values)});
    }
}

}  // namespace accrue
