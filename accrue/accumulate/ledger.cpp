#include "accrue/accumulate/ledger.h"

#include <algorithm>

#include "accrue/base/error.h"

namespace accrue {

GrainLedger::GrainLedger(int64_t grains, int64_t tensors)
    : tensors_(tensors), grains_(static_cast<size_t>(grains)), records_(static_cast<size_t>(grains * tensors)) {}

GrainRecord& GrainLedger::record(int64_t grain, int64_t tensor) {
    return records_[static_cast<size_t>(grain * tensors_ + tensor)];
}

const GrainRecord& GrainLedger::record(int64_t grain, int64_t tensor) const {
    return records_[static_cast<size_t>(grain * tensors_ + tensor)];
}

std::vector<int64_t> GrainLedger::missing() const {
    std::vector<int64_t> result;
    for (int64_t number = 0; number < grains(); ++number) {
        if (!grain(number).finished) {
            result.push_back(number);
        }
    }
    return result;
}

int64_t GrainLedger::finished() const {
    return std::count_if(grains_.begin(), grains_.end(), [](const Grain& grain) { return grain.finished; });
}

double GrainLedger::loss_sum() const {
    double sum = 0;
    for (const Grain& grain : grains_) {
        sum += grain.loss_sum;
    }
    return sum;
}

int64_t GrainLedger::counted_tokens() const {
    int64_t sum = 0;
    for (const Grain& grain : grains_) {
        sum += grain.counted_tokens;
    }
    return sum;
}

std::vector<float> GrainLedger::largest() const {
    std::vector<float> result(static_cast<size_t>(tensors_), 0.0F);
    for (size_t i = 0; i < records_.size(); ++i) {
        float& entry = result[i % static_cast<size_t>(tensors_)];
        entry = std::max(entry, records_[i].largest);
    }
    return result;
}

double GrainLedger::squares(int64_t grain) const {
    double sum = 0;
    for (int64_t tensor = 0; tensor < tensors_; ++tensor) {
        sum += record(grain, tensor).squares;
    }
    return sum;
}

std::optional<GrainLedger::Place> GrainLedger::first_bad() const {
    for (int64_t number = 0; number < grains(); ++number) {
        for (int64_t tensor = 0; tensor < tensors_; ++tensor) {
            if (record(number, tensor).not_finite) {
                return Place{.grain = number, .tensor = tensor};
            }
        }
    }
    return std::nullopt;
}

void GrainLedger::add(const GrainLedger& other) {
    if (other.grains() != grains() || other.tensors_ != tensors_) {
        throw Error(cat("sums of different windows cannot be added: ", grains(), " grains of ", tensors_,
                        " tensors and ", other.grains(), " grains of ", other.tensors_, " tensors"));
    }
    for (int64_t number = 0; number < grains(); ++number) {
        if (grain(number).finished && other.grain(number).finished) {
            throw Error(cat("grain ", number, " is in both sums: adding them would count it twice"));
        }
    }
    for (int64_t number = 0; number < grains(); ++number) {
        if (other.grain(number).finished) {
            grain(number) = other.grain(number);
            for (int64_t tensor = 0; tensor < tensors_; ++tensor) {
                record(number, tensor) = other.record(number, tensor);
            }
        }
    }
}

}  // namespace accrue
