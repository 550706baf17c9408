#include "accrue/dist/gloo_mesh.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "accrue/base/error.h"
#include "accrue/base/hash.h"
#include "accrue/base/random.h"
#include "accrue/dist/gloo_wire.h"
#include "accrue/dist/gpu_exchange.h"
#include "accrue/dist/lanes.h"
#include "accrue/dist/range_exchange.h"
#include "accrue/dist/range_gather.h"
#include "accrue/dist/sum_exchange.h"

namespace accrue {
namespace {

// No message of some words, or of one number for each block of a model, is larger.
constexpr uint64_t kMostWordBytes = uint64_t{1} << 30;

using ReadBytes = std::function<void(int64_t, std::span<std::byte>)>;
using WriteBytes = std::function<void(int64_t, std::span<const std::byte>)>;

// What members tell each other, so that they do the same.
struct Notice {
    enum class Of : uint64_t { connected, add_up, reduce, gather, broadcast, received, words };
    Of of = Of::connected;
    uint64_t size = 0;    // members, elements or bytes
    uint64_t detail = 0;  // roster, seed, sender or hash
    bool operator==(const Notice&) const = default;
};

std::string words_of(const Notice& notice) {
    switch (notice.of) {
        case Notice::Of::add_up:
            return cat("add up ", notice.size, " elements with seed ", notice.detail);
        case Notice::Of::reduce:
            return cat("add up ranges of ", notice.size, " elements with key ", notice.detail);
        case Notice::Of::gather:
            return cat("gather ", notice.size, " bytes with key ", notice.detail);
        case Notice::Of::words:
            return "tell all others something";
        case Notice::Of::broadcast:
            return cat("take ", notice.size, " bytes of rank ", notice.detail);
        default:
            return "do something else";
    }
}

class GlooMesh final : public Mesh {
public:
    GlooMesh(const MeshDevice& device, KeyStore& store, const MeshOptions& options);

    [[nodiscard]] bool add_up(const IntegerSums& sums, uint64_t seed,
                              const std::function<bool(const ExchangeChecks&)>& commits) override;
    [[nodiscard]] ExchangeChecks reduce(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed) override;
    [[nodiscard]] std::vector<std::string> tell_all(const std::string& mine) override;
    [[nodiscard]] std::string tell(int64_t from_rank, const std::string& words) override;
    void gather(std::span<const GatherSource> sources, const ReadSource& read, const WriteSource& write) override;
    void broadcast(int64_t from_rank, int64_t bytes, const ReadBytes& read, const WriteBytes& write) override;
    void give_up(const std::string& why) override { wire_.give_up(why); }
    void add_up_by(std::unique_ptr<GpuExchange> gpus) override { gpus_ = std::move(gpus); }
    void require_all() override { wire_.require_all(); }
    [[nodiscard]] int64_t sent_bytes() const override { return wire_.sent_bytes() + (gpus_ ? gpus_->sent_bytes() : 0); }

private:
    // Does it, or cuts the connections, so that the others notice. What everybody notices by itself needs no cut, which could
    // only hide from some of them what it was.
    template <class Work>
    void or_close(const Work& work);
    // Everybody's, by rank.
    [[nodiscard]] std::vector<Notice> exchange(const Notice& mine);
    void agree(const Notice& mine);
    void require_words(size_t rank, const Notice& notice) const;
    void check_words(int64_t from_rank, const Notice& notice, std::string& told) const;
    void require_undamaged(int64_t from_rank, const Notice& mine);
    [[nodiscard]] uint64_t pass_on(int64_t from_rank, int64_t bytes, const ReadBytes& read, const WriteBytes& write);

    const int64_t rank_;
    const int64_t size_;
    const std::function<void(const Arrival&)> disturb_;
    GlooWire wire_;
    SumExchange sums_;
    RangeExchange ranges_;
    RangeGather gathers_;
    Lanes lanes_;
    std::unique_ptr<GpuExchange> gpus_;  // nothing: sums pass through the host
};

template <class Work>
void GlooMesh::or_close(const Work& work) {
    try {
        work();
    } catch (...) {
        wire_.close();
        throw;
    }
}

// The address of somebody who is gone may by now be that of a member of another roster.
GlooMesh::GlooMesh(const MeshDevice& device, KeyStore& store, const MeshOptions& options)
    : rank_(options.rank),
      size_(options.size),
      disturb_(options.disturb),
      wire_(device, store, options),
      sums_(wire_, options),
      ranges_(wire_, options),
      gathers_(wire_, options) {
    const Notice mine{.of = Notice::Of::connected,
                      .size = static_cast<uint64_t>(size_),
                      .detail = mix(static_cast<uint64_t>(options.term), static_cast<uint64_t>(options.roster))};
    if (std::ranges::any_of(exchange(mine), [&](const Notice& notice) { return notice != mine; })) {
        throw RosterChanged("a member of another roster has answered");
    }
    wire_.set_limit(options.operation_limit);
}

std::vector<Notice> GlooMesh::exchange(const Notice& mine) {
    std::vector<Notice> notices(static_cast<size_t>(size_), mine);
    or_close([&] {
        std::vector<std::unique_ptr<Message>> messages;
        for (int64_t rank = 0; rank < size_; ++rank) {
            if (rank != rank_) {
                const std::span<Notice, 1> theirs(&notices[static_cast<size_t>(rank)], 1);
                messages.push_back(wire_.receive(rank, std::as_writable_bytes(theirs)));
                messages.push_back(wire_.send(rank, std::as_bytes(std::span(&mine, 1))));
            }
        }
        for (auto& message : messages) {
            wait_for(message);
        }
    });
    return notices;
}

void GlooMesh::agree(const Notice& mine) {
    const std::vector<Notice> notices = exchange(mine);
    for (size_t rank = 0; rank < notices.size(); ++rank) {
        if (notices[rank] != mine) {
            throw Error(cat("rank ", rank, " is about to ", words_of(notices[rank]), ", but rank ", rank_, " to ",
                            words_of(mine), ": all workers must train the same model with the same settings"));
        }
    }
}

void GlooMesh::require_undamaged(int64_t from_rank, const Notice& mine) {
    const std::vector<Notice> notices = exchange(mine);
    for (size_t rank = 0; rank < notices.size(); ++rank) {
        if (notices[rank] != notices[static_cast<size_t>(from_rank)]) {
            throw RosterChanged(cat("state was damaged on the way from rank ", from_rank, " to rank ", rank));
        }
    }
}

bool GlooMesh::add_up(const IntegerSums& sums, uint64_t seed,
                      const std::function<bool(const ExchangeChecks&)>& commits) {
    agree({.of = Notice::Of::add_up, .size = static_cast<uint64_t>(sums.elements), .detail = seed});
    bool is_written = false;
    or_close([&] {
        if (gpus_ && !sums.on_device.empty()) {
            is_written = commits(gpus_->add_up(sums, seed, [this] { wire_.require_all(); }));
            if (is_written) {
                gpus_->write(sums);
            }
        } else if (commits(sums_.add_up(sums, seed))) {
            sums_.write(sums);
            is_written = true;
        }
    });
    return is_written;
}

Notice notice_of(const std::string& words) {
    return {.of = Notice::Of::words, .size = words.size(), .detail = hash64_of(std::as_bytes(std::span(words)), 0)};
}

void GlooMesh::require_words(size_t rank, const Notice& notice) const {
    if (notice.of != Notice::Of::words) {
        throw Error(cat("rank ", rank, " is about to ", words_of(notice), ", but rank ", rank_,
                        " to hear what it tells: all workers must train the same model with the same settings"));
    }
    if (notice.size > kMostWordBytes) {
        throw Error(cat("rank ", rank, " wants to tell ", notice.size, " bytes, which is no message"));
    }
}

// What came, before it is used.
void GlooMesh::check_words(int64_t from_rank, const Notice& notice, std::string& told) const {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span(told));
    if (disturb_) {
        disturb_({.of = Arrival::Of::words, .from_rank = from_rank, .first = 0, .bytes = bytes});
    }
    if (hash64_of(bytes, 0) != notice.detail) {
        throw RosterChanged(cat("words were damaged on the way from rank ", from_rank, " to rank ", rank_));
    }
}

// What members must have alike to reduce: which ranges there are, and who keeps them.
uint64_t key_of(const SharedRanges& shared, uint64_t seed) {
    uint64_t key = seed;
    for (size_t range = 0; range < shared.ranges.size(); ++range) {
        key = mix(key, static_cast<uint64_t>(shared.ranges[range].first),
                  static_cast<uint64_t>(shared.ranges[range].count));
        for (const int64_t keeper : shared.keepers[range]) {
            key = mix(key, static_cast<uint64_t>(keeper));
        }
    }
    return key;
}

// A message that comes before its receiver waits for it would keep a thread of that one busy.
std::string GlooMesh::tell(int64_t from_rank, const std::string& words) {
    std::string told = words;
    or_close([&] {
        Notice notice = notice_of(words);
        if (rank_ == from_rank) {
            std::vector<std::unique_ptr<Message>> messages;
            for (int64_t rank = 0; rank < size_; ++rank) {
                if (rank != rank_) {
                    messages.push_back(wire_.send(rank, std::as_bytes(std::span(&notice, 1))));
                    if (!words.empty()) {
                        messages.push_back(wire_.send(rank, std::as_bytes(std::span(words))));
                    }
                }
            }
            for (auto& message : messages) {
                wait_for(message);
            }
            return;
        }
        wire_.receive(from_rank, std::as_writable_bytes(std::span(&notice, 1)))->wait();
        require_words(static_cast<size_t>(from_rank), notice);
        told.resize(notice.size);
        if (!told.empty()) {
            wire_.receive(from_rank, std::as_writable_bytes(std::span(told)))->wait();
        }
        check_words(from_rank, notice, told);
    });
    return told;
}

std::string words_with(const std::vector<uint64_t>& numbers) {
    return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(uint64_t)};
}

void GlooMesh::gather(std::span<const GatherSource> sources, const ReadSource& read, const WriteSource& write) {
    uint64_t key = sources.size();
    int64_t bytes = 0;
    for (const GatherSource& source : sources) {
        key = mix(key, static_cast<uint64_t>(source.from_rank), static_cast<uint64_t>(source.bytes));
        bytes += source.bytes;
    }
    agree({.of = Notice::Of::gather, .size = static_cast<uint64_t>(bytes), .detail = key});
    std::vector<uint64_t> hashes;
    or_close([&] { hashes = gathers_.gather(sources, read, write); });
    const std::vector<std::string> told = tell_all(words_with(hashes));
    for (size_t rank = 0; rank < told.size(); ++rank) {
        for (size_t source = 0; source < sources.size(); ++source) {
            const size_t place = source * sizeof(uint64_t);
            const std::string& sent = told[static_cast<size_t>(sources[source].from_rank)];
            if (size_ > 1 && told[rank].compare(place, sizeof(uint64_t), sent, place, sizeof(uint64_t)) != 0) {
                throw RosterChanged(
                    cat("state was damaged on the way from rank ", sources[source].from_rank, " to rank ", rank));
            }
        }
    }
}

ExchangeChecks GlooMesh::reduce(const IntegerSums& sums, const SharedRanges& shared, uint64_t seed) {
    agree({.of = Notice::Of::reduce, .size = static_cast<uint64_t>(sums.elements), .detail = key_of(shared, seed)});
    RangeExchange::Checks mine;
    or_close([&] { mine = ranges_.add_up(sums, shared, seed); });
    const std::vector<std::string> told = tell_all(words_with(mine.total));
    ExchangeChecks checks{.given = std::vector<uint64_t>(static_cast<size_t>(size_)),
                          .total = std::vector<uint64_t>(static_cast<size_t>(size_))};
    for (size_t range = 0; range < shared.ranges.size(); ++range) {
        const std::vector<int64_t>& keepers = shared.keepers[range];
        const auto owner = static_cast<size_t>(keepers.front());
        uint64_t total = mine.total[range];
        if (std::ranges::find(keepers, rank_) == keepers.end()) {
            std::memcpy(&total, told[owner].data() + range * sizeof total, sizeof total);
        }
        checks.given[owner] += mine.given[range];
        checks.total[owner] += total;
    }
    return checks;
}

std::vector<std::string> GlooMesh::tell_all(const std::string& mine) {
    const std::vector<Notice> notices = exchange(notice_of(mine));
    std::vector<std::string> told(static_cast<size_t>(size_));
    for (size_t rank = 0; rank < told.size(); ++rank) {
        require_words(rank, notices[rank]);
        told[rank].resize(notices[rank].size);
    }
    or_close([&] {
        std::vector<std::unique_ptr<Message>> messages;
        for (int64_t rank = 0; rank < size_; ++rank) {
            std::string& theirs = told[static_cast<size_t>(rank)];
            if (rank != rank_ && !theirs.empty()) {
                messages.push_back(wire_.receive(rank, std::as_writable_bytes(std::span(theirs))));
            }
            if (rank != rank_ && !mine.empty()) {
                messages.push_back(wire_.send(rank, std::as_bytes(std::span(mine))));
            }
        }
        for (auto& message : messages) {
            wait_for(message);
        }
        for (int64_t rank = 0; rank < size_; ++rank) {
            if (rank != rank_) {
                check_words(rank, notices[static_cast<size_t>(rank)], told[static_cast<size_t>(rank)]);
            }
        }
    });
    told[static_cast<size_t>(rank_)] = mine;
    return told;
}

void GlooMesh::broadcast(int64_t from_rank, int64_t bytes, const ReadBytes& read, const WriteBytes& write) {
    const auto size = static_cast<uint64_t>(bytes);
    agree({.of = Notice::Of::broadcast, .size = size, .detail = static_cast<uint64_t>(from_rank)});
    if (size_ > 1) {
        uint64_t hash = 0;
        or_close([&] { hash = pass_on(from_rank, bytes, read, write); });
        require_undamaged(from_rank, {.of = Notice::Of::received, .size = size, .detail = hash});
    }
}

// From each member to the next, so that nobody sends it more than once; the hash of what came.
uint64_t GlooMesh::pass_on(int64_t from_rank, int64_t bytes, const ReadBytes& read, const WriteBytes& write) {
    const int64_t previous = (rank_ + size_ - 1) % size_;
    const int64_t next = (rank_ + 1) % size_;
    const bool receives = rank_ != from_rank;
    uint64_t hash = 0;
    const auto piece_of = [&](int64_t number) {
        const auto length = static_cast<size_t>(std::min(kPieceBytes, bytes - number * kPieceBytes));
        std::vector<int64_t>& memory = lanes_.of(number).incoming;
        memory.resize((length + 7) / 8);
        return std::as_writable_bytes(std::span(memory)).first(length);
    };
    const auto begin = [&](int64_t number) {
        Lane& lane = lanes_.of(number);
        wait_for(lane.sent);
        if (receives) {
            lane.received = wire_.receive(previous, piece_of(number));
        }
    };
    const auto finish = [&](int64_t number) {
        Lane& lane = lanes_.of(number);
        const int64_t first = number * kPieceBytes;
        const std::span<std::byte> piece = piece_of(number);
        if (receives) {
            wait_for(lane.received);
            if (disturb_) {
                disturb_({.of = Arrival::Of::state, .from_rank = previous, .first = first, .bytes = piece});
            }
        } else {
            read(first, piece);
        }
        if (next != from_rank) {
            lane.sent = wire_.send(next, piece);
        }
        hash = hash64_of(piece, hash);
        if (receives) {
            write(first, piece);
        }
    };
    lanes_.run((bytes + kPieceBytes - 1) / kPieceBytes, begin, finish);
    return hash;
}

}  // namespace

std::unique_ptr<Mesh> connect_mesh(const MeshDevice& device, KeyStore& store, const MeshOptions& options) {
    if (options.rank < 0 || options.rank >= options.size) {
        throw Error(cat("rank ", options.rank, " is none of the ", options.size, " members of a roster"));
    }
    return std::make_unique<GlooMesh>(device, store, options);
}

}  // namespace accrue
