#include "accrue/assess/sum_values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "accrue/base/hash.h"

namespace accrue {
namespace {

// Read at a time, so that no second gradient-sized buffer is needed.
constexpr int64_t kBlock = 4096;

template <class T>
void add_value(Hasher& hasher, const T& value) {
    hasher.add(std::as_bytes(std::span(&value, 1)));
}

// Sums over blocks of elements that both gradients have.
struct Products {
    double got = 0;     // got * got
    double wanted = 0;  // wanted * wanted
    double both = 0;    // got * wanted
    double apart = 0;   // (got - wanted)^2

    void add(std::span<const double> got_values, std::span<const double> wanted_values) {
        for (size_t i = 0; i < got_values.size(); ++i) {
            const double g = got_values[i];
            const double w = wanted_values[i];
            got += g * g;
            wanted += w * w;
            both += g * w;
            apart += (g - w) * (g - w);
        }
    }
    void add(const Products& other) {
        got += other.got;
        wanted += other.wanted;
        both += other.both;
        apart += other.apart;
    }
};

Products products_of(const SumValues& got, const SumValues& wanted, int64_t tensor) {
    Products products;
    std::array<double, kBlock> a{};
    std::array<double, kBlock> b{};
    const int64_t elements = wanted.views[static_cast<size_t>(tensor)].elements;
    for (int64_t first = 0; first < elements; first += kBlock) {
        const auto count = static_cast<size_t>(std::min(kBlock, elements - first));
        got.read(tensor, first, std::span(a).first(count));
        wanted.read(tensor, first, std::span(b).first(count));
        products.add(std::span(a).first(count), std::span(b).first(count));
    }
    return products;
}

double share(double squares, double of) {
    return of > 0 ? std::sqrt(squares / of) : (squares > 0 ? INFINITY : 0.0);
}

}  // namespace

SumValues::SumValues(const GradientSum& sum, Kernels& device)
    : kernels(&device), kind(sum.kind()), tensors(sum.tensors().begin(), sum.tensors().end()) {
    for (int64_t tensor = 0; tensor < std::ssize(tensors); ++tensor) {
        views.push_back(sum.sum_over_tokens(tensor));
    }
}

void SumValues::read(int64_t tensor, int64_t first, std::span<double> values) const {
    std::ranges::copy(numbers_of(*kernels, views[static_cast<size_t>(tensor)], first, std::ssize(values)),
                      values.begin());
}

SumCopy::SumCopy(const GradientSum& sum, Kernels& kernels)
    : bytes_(sum.memory().take(sum.source().size())), values_(sum, kernels) {
    const std::byte* const original = sum.device_bytes().data();
    std::byte* place = bytes_.data();
    sum.source().for_pieces(int64_t{1} << 20, [&](std::span<const std::byte> piece) {
        upload(kernels, piece, place);
        place += piece.size();
    });
    for (MeanView& view : values_.views) {
        view.data = bytes_.data() + (static_cast<const std::byte*>(view.data) - original);
    }
}

double squares_of(const ByteSource& floats) {
    double squares = 0;
    floats.for_pieces(int64_t{1} << 15, [&](std::span<const std::byte> piece) {
        for (size_t i = 0; i < piece.size(); i += sizeof(float)) {
            float value = 0;
            std::memcpy(&value, piece.data() + i, sizeof value);
            squares += static_cast<double>(value) * static_cast<double>(value);
        }
    });
    return squares;
}

SumValues SumCopy::values(Kernels& kernels) const {
    SumValues values = values_;
    values.kernels = &kernels;
    return values;
}

GradientDifference difference_of(const SumValues& got, const SumValues& wanted) {
    Products all;
    GradientDifference result;
    double worst = -1;
    for (int64_t tensor = 0; tensor < std::ssize(wanted.views); ++tensor) {
        const Products here = products_of(got, wanted, tensor);
        all.add(here);
        if (const double error = share(here.apart, here.wanted); error > worst) {
            worst = error;
            result.tensor = tensor;
        }
    }
    result.relative_error = share(all.apart, all.wanted);
    result.ratio = all.wanted > 0 ? all.both / all.wanted : 1.0;
    result.rest = share(std::max(0.0, all.got - result.ratio * all.both), all.wanted);
    return result;
}

std::string checksum_of(const GradientSum& sum) {
    Hasher hasher;
    hasher.add(std::as_bytes(std::span(sum.units().exponents())));
    sum.source().for_pieces(int64_t{1} << 20, [&](std::span<const std::byte> piece) { hasher.add(piece); });
    const GrainLedger& ledger = sum.ledger();
    for (int64_t grain = 0; grain < ledger.grains(); ++grain) {
        add_value(hasher, static_cast<int64_t>(ledger.grain(grain).finished ? 1 : 0));
        add_value(hasher, ledger.grain(grain).loss_sum);
        add_value(hasher, ledger.grain(grain).counted_tokens);
        for (int64_t tensor = 0; sum.kind() == SumKind::exact && tensor < ledger.tensors(); ++tensor) {
            const GrainRecord& record = ledger.record(grain, tensor);
            add_value(hasher, record.squares);
            add_value(hasher, record.largest);
            add_value(hasher, static_cast<int64_t>(record.not_finite ? 0 : 1));
        }
    }
    return hasher.digest();
}

bool same_loss(const GrainLedger& a, const GrainLedger& b, int64_t grain) {
    const auto& [a_finished, a_loss, a_tokens] = a.grain(grain);
    const auto& [b_finished, b_loss, b_tokens] = b.grain(grain);
    return a_finished == b_finished && a_tokens == b_tokens &&
           std::bit_cast<uint64_t>(a_loss) == std::bit_cast<uint64_t>(b_loss);
}

bool same_record(const GrainLedger& a, const GrainLedger& b, int64_t grain, int64_t tensor) {
    const auto& [a_squares, a_largest, a_not_finite] = a.record(grain, tensor);
    const auto& [b_squares, b_largest, b_not_finite] = b.record(grain, tensor);
    return std::bit_cast<uint64_t>(a_squares) == std::bit_cast<uint64_t>(b_squares) &&
           std::bit_cast<uint32_t>(a_largest) == std::bit_cast<uint32_t>(b_largest) && a_not_finite == b_not_finite;
}

}  // namespace accrue
