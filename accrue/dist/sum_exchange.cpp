#include "accrue/dist/sum_exchange.h"

#include <algorithm>

#include "accrue/dist/linear_check.h"

namespace accrue {
namespace {

int64_t pieces_of(const ElementRange& range) {
    return (range.count + kPieceElements - 1) / kPieceElements;
}

// Empty behind the last one.
ElementRange piece_of_range(const ElementRange& range, int64_t number) {
    const int64_t begin = std::min(number * kPieceElements, range.count);
    return {.first = range.first + begin, .count = std::min(kPieceElements, range.count - begin)};
}

}  // namespace

ElementRange owned_range(int64_t elements, int64_t rank, int64_t size) {
    constexpr int64_t kBlock = 1024;
    const int64_t blocks = (elements + kBlock - 1) / kBlock;
    const int64_t first = std::min(blocks * rank / size * kBlock, elements);
    const int64_t last = std::min(blocks * (rank + 1) / size * kBlock, elements);
    return {.first = first, .count = last - first};
}

ExchangeChecks SumExchange::add_up(const IntegerSums& sums, uint64_t seed) {
    make_room(sums.elements);
    ExchangeChecks checks;
    checks.given = reduce(sums, seed);
    checks.total = gather(seed);
    return checks;
}

void SumExchange::write(const IntegerSums& sums) const {
    const ElementRange all{.first = 0, .count = elements_};
    for (int64_t number = 0; number < pieces_of(all); ++number) {
        const ElementRange piece = piece_of_range(all, number);
        sums.write(piece.first, total_of(piece));
    }
}

// Everybody's contributions to my range, added up in total_; of each range, the check of what I gave to it.
std::vector<uint64_t> SumExchange::reduce(const IntegerSums& sums, uint64_t seed) {
    std::vector<uint64_t> given(static_cast<size_t>(size_));
    const auto read = [&](int64_t owner, const ElementRange& piece, std::span<int64_t> into) {
        if (piece.count > 0) {
            sums.read(piece.first, into);
            given[static_cast<size_t>(owner)] += linear_check(into, piece.first, seed);
        }
    };
    const auto begin = [&](int64_t number) {
        const Job job = job_of(number);
        const ElementRange mine = piece_of(rank_, job.piece);
        if (job.to_rank != rank_) {
            Lane& lane = lanes_.of(number);
            lane.incoming.resize(static_cast<size_t>(mine.count));
            lane.received = wire_.receive(job.from_rank, std::as_writable_bytes(std::span(lane.incoming)));
            wait_for(lane.sent);
            const ElementRange theirs = piece_of(job.to_rank, job.piece);
            lane.outgoing.resize(static_cast<size_t>(theirs.count));
            read(job.to_rank, theirs, lane.outgoing);
            lane.sent = wire_.send(job.to_rank, std::as_bytes(std::span(lane.outgoing)));
        }
        if (job.is_first) {
            read(rank_, mine, total_of(mine));
        }
    };
    const auto finish = [&](int64_t number) {
        const Job job = job_of(number);
        if (job.from_rank != rank_) {
            Lane& lane = lanes_.of(number);
            const ElementRange mine = piece_of(rank_, job.piece);
            wait_for(lane.received);
            show(Arrival::Of::contribution, job, mine, lane.incoming);
            add_wrapping(total_of(mine), lane.incoming);
        }
    };
    lanes_.run(jobs(), begin, finish);
    return given;
}

// Everybody's range to everybody; of each range, the check of what I hold of it then.
std::vector<uint64_t> SumExchange::gather(uint64_t seed) {
    std::vector<uint64_t> held(static_cast<size_t>(size_));
    const auto check = [&](int64_t owner, const ElementRange& piece) {
        held[static_cast<size_t>(owner)] += linear_check(total_of(piece), piece.first, seed);
    };
    const auto begin = [&](int64_t number) {
        const Job job = job_of(number);
        const ElementRange mine = piece_of(rank_, job.piece);
        if (job.to_rank != rank_) {
            Lane& lane = lanes_.of(number);
            const ElementRange theirs = piece_of(job.from_rank, job.piece);
            lane.received = wire_.receive(job.from_rank, std::as_writable_bytes(total_of(theirs)));
            wait_for(lane.sent);
            lane.sent = wire_.send(job.to_rank, std::as_bytes(total_of(mine)));
        }
        if (job.is_first) {
            check(rank_, mine);
        }
    };
    const auto finish = [&](int64_t number) {
        const Job job = job_of(number);
        if (job.from_rank != rank_) {
            const ElementRange theirs = piece_of(job.from_rank, job.piece);
            wait_for(lanes_.of(number).received);
            show(Arrival::Of::total, job, theirs, total_of(theirs));
            check(job.from_rank, theirs);
        }
    };
    lanes_.run(jobs(), begin, finish);
    return held;
}

// As many for each piece as there are others; alone, one.
int64_t SumExchange::jobs() const {
    int64_t pieces = 0;
    for (int64_t rank = 0; rank < size_; ++rank) {
        pieces = std::max(pieces, pieces_of(owned_range(elements_, rank, size_)));
    }
    return pieces * std::max<int64_t>(size_ - 1, 1);
}

SumExchange::Job SumExchange::job_of(int64_t number) const {
    const int64_t jobs_of_piece = std::max<int64_t>(size_ - 1, 1);
    const int64_t distance = 1 + number % jobs_of_piece;
    return {.to_rank = (rank_ + distance) % size_,
            .from_rank = (rank_ + size_ - distance) % size_,
            .piece = number / jobs_of_piece,
            .is_first = distance == 1};
}

ElementRange SumExchange::piece_of(int64_t rank, int64_t number) const {
    return piece_of_range(owned_range(elements_, rank, size_), number);
}

void SumExchange::make_room(int64_t elements) {
    elements_ = elements;
    if (elements > room_) {
        total_ = std::make_unique_for_overwrite<int64_t[]>(static_cast<size_t>(elements));
        room_ = elements;
    }
}

void SumExchange::show(Arrival::Of of, const Job& job, const ElementRange& range, std::span<int64_t> values) const {
    if (disturb_) {
        disturb_({.of = of, .from_rank = job.from_rank, .first = range.first, .bytes = std::as_writable_bytes(values)});
    }
}

}  // namespace accrue
