#include "accrue/train/team/state_sharing.h"

#include <vector>

#include "accrue/model/parameters.h"
#include "accrue/train/engine.h"

namespace accrue {

// Processors only: others add up norms in other blocks (kRangeBlock).
StateSharing sharing_of(const Settings& settings, int64_t workers) {
    const bool shares = settings.workers.state == WorkersState::shared && !settings.workers.mixed &&
                        device_of(settings.compute).name.kind == DeviceKind::cpu && workers > settings.workers.copies;
    return shares ? StateSharing{.ranges = workers, .copies = settings.workers.copies} : StateSharing{};
}

ExchangeCost exchange_of(const Settings& settings, const ModelSpec& model, int64_t workers) {
    return exchange_of(settings, model, sharing_of(settings, workers), workers);
}

ExchangeCost exchange_of(const Settings& settings, const ModelSpec& model, const StateSharing& sharing,
                         int64_t workers) {
    const ParameterList& list = model.parameters();
    if (sharing.is_everywhere()) {
        return cost_of_exchange(list.gradient_elements, workers);
    }
    std::vector<FlatTensor> tensors;
    for (const int64_t index : list.trained) {
        tensors.push_back({.offset = list[index].gradient->offset, .elements = list[index].elements()});
    }
    // As SharedState gathers them (shared_parts.h).
    const std::vector<int64_t> read_in_fp32 = places_beside_copy(list).by_gradient;
    std::vector<RangeCost> ranges;
    for (const ElementRange& range : cut_into_ranges(tensors, list.gradient_elements, sharing.ranges)) {
        RangeCost& cost = ranges.emplace_back(RangeCost{.elements = range.count});
        for (const TensorPiece& piece : pieces_in(tensors, range)) {
            const bool is_copy = read_in_fp32[static_cast<size_t>(piece.tensor)] == MasterPlaces::kElsewhere;
            cost.weight_bytes += piece.count * bytes_of(is_copy ? settings.compute.dtype : DType::fp32);
        }
    }
    return cost_of_shared_exchange(ranges, sharing.copies);
}

}  // namespace accrue
