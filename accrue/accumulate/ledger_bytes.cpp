#include <cstring>
#include <string>
#include <utility>

#include "accrue/accumulate/ledger.h"
#include "accrue/base/error.h"
#include "accrue/base/hash.h"

namespace accrue {
namespace {

// A header, then for each finished grain its number, loss, count and the records of its tensors field by field, then a
// checksum. All of it as it lies in memory on a little-endian machine.
struct LedgerHeader {
    uint64_t kind = 0x3172656764656c67;  // "gledger1"
    int64_t grains = 0;
    int64_t tensors = 0;
    int64_t finished = 0;
};
constexpr int64_t kGrainBytes = 3 * 8;
constexpr int64_t kRecordBytes = 8 + 4 + 1;
constexpr int64_t kChecksumBytes = 8;

int64_t bytes_of_ledger(const LedgerHeader& header) {
    return static_cast<int64_t>(sizeof(LedgerHeader)) +
           header.finished * (kGrainBytes + header.tensors * kRecordBytes) + kChecksumBytes;
}

class ByteWriter {
public:
    explicit ByteWriter(int64_t bytes) { bytes_.reserve(static_cast<size_t>(bytes)); }

    template <class T>
    void write(const T& value) {
        const auto* first = reinterpret_cast<const std::byte*>(&value);
        bytes_.insert(bytes_.end(), first, first + sizeof(T));
    }
    [[nodiscard]] std::vector<std::byte> with_checksum() && {
        write(hash64_of(bytes_, 0));
        return std::move(bytes_);
    }

private:
    std::vector<std::byte> bytes_;
};

// For bytes whose number was checked.
class ByteReader {
public:
    explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

    template <class T>
    [[nodiscard]] T read() {
        T value{};
        std::memcpy(&value, bytes_.data(), sizeof(T));
        bytes_ = bytes_.subspan(sizeof(T));
        return value;
    }

private:
    std::span<const std::byte> bytes_;
};

[[noreturn]] void fail_ledger(const std::string& why) {
    throw Error("the ledger of a window is damaged: " + why);
}

LedgerHeader checked_header(std::span<const std::byte> bytes, int64_t grains, int64_t tensors) {
    const auto size = std::ssize(bytes);
    if (size < bytes_of_ledger({})) {
        fail_ledger(cat("it has only ", size, " bytes"));
    }
    const auto header = ByteReader(bytes).read<LedgerHeader>();
    if (header.kind != LedgerHeader{}.kind) {
        fail_ledger("it does not begin as one");
    }
    if (header.grains != grains || header.tensors != tensors) {
        fail_ledger(cat("it is of ", header.grains, " grains and ", header.tensors, " tensors, but the window has ",
                        grains, " and ", tensors));
    }
    if (header.finished < 0 || header.finished > grains || size != bytes_of_ledger(header)) {
        fail_ledger(cat("it has ", size, " bytes for ", header.finished, " finished grains"));
    }
    if (ByteReader(bytes.last(kChecksumBytes)).read<uint64_t>() !=
        hash64_of(bytes.first(bytes.size() - kChecksumBytes), 0)) {
        fail_ledger("its checksum is wrong");
    }
    return header;
}

}  // namespace

std::vector<std::byte> GrainLedger::to_bytes() const {
    const LedgerHeader header{.grains = grains(), .tensors = tensors_, .finished = finished()};
    ByteWriter writer(bytes_of_ledger(header));
    writer.write(header);
    for (int64_t number = 0; number < grains(); ++number) {
        if (!grain(number).finished) {
            continue;
        }
        writer.write(number);
        writer.write(grain(number).loss_sum);
        writer.write(grain(number).counted_tokens);
        for (int64_t tensor = 0; tensor < tensors_; ++tensor) {
            writer.write(record(number, tensor).squares);
            writer.write(record(number, tensor).largest);
            writer.write(static_cast<uint8_t>(record(number, tensor).not_finite ? 0 : 1));
        }
    }
    return std::move(writer).with_checksum();
}

GrainLedger GrainLedger::from_bytes(std::span<const std::byte> bytes, int64_t grains, int64_t tensors) {
    const LedgerHeader header = checked_header(bytes, grains, tensors);
    ByteReader reader(bytes.subspan(sizeof(LedgerHeader)));
    GrainLedger ledger(grains, tensors);
    for (int64_t i = 0; i < header.finished; ++i) {
        const auto number = reader.read<int64_t>();
        if (number < 0 || number >= grains || ledger.grain(number).finished) {
            fail_ledger(cat("it names grain ", number, " wrongly"));
        }
        const auto loss_sum = reader.read<double>();
        ledger.grain(number) = {.finished = true, .loss_sum = loss_sum, .counted_tokens = reader.read<int64_t>()};
        for (int64_t tensor = 0; tensor < tensors; ++tensor) {
            GrainRecord& record = ledger.record(number, tensor);
            record.squares = reader.read<double>();
            record.largest = reader.read<float>();
            record.not_finite = reader.read<uint8_t>() == 0;
        }
    }
    return ledger;
}

}  // namespace accrue
